"""`flintmq offsets`: places of groups, shown, moved, kept, and what is refused."""

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq.format import config_json
from flintmq.message import Message
from flintmq.storage.files.filesystem import REAL
from flintmq.store.layout import followed
from flintmq.store.message_store import MessageStore
from tests.cli.conftest import Run
from tests.compat.stores import Golden
from tests.support.engine import tree
from tests.support.java_figures import bounds, offsets
from tests.support.makers import hurt_body
from tests.support.object_server import Server

GROUP, TOPIC = "TradeGroup", "Trade"  # of the golden store, at 17, 22, 18, 18 of queues that end at 19, 25, 21, 20
PLACES = {0: 17, 1: 22, 2: 18, 3: 18}
ENDS = {0: 19, 1: 25, 2: 21, 3: 20}
ONE = ("--group", GROUP, "--topic", TOPIC, "--queue", "1")


@pytest.fixture
def store(golden: Callable[[str], Golden], tmp_path: Path) -> Path:
    """A directory of RocketMQ's broker, 5.3.3."""
    return golden("config").copy(tmp_path)


def places(root: Path, group: str = GROUP, topic: str = TOPIC, name: str = "consumerOffset.json") -> dict[object, int]:
    """What a broker would read of the file."""
    return config_json.parse((root / "config" / name).read_bytes())["offsetTable"].get(f"{topic}@{group}", {})


def unchanged(root: Path) -> dict[str, bytes]:
    """All files but the lock's, which each who asks for it takes."""
    return {name: data for name, data in tree(root, "").items() if name != "lock"}


# -- show -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["config", "config540", "config550"])
def test_show_agrees_with_java(name: str, run: Run, golden: Callable[[str], Golden]) -> None:
    one = golden(name)
    shown = {
        (row["group"], row["topic"], row["queue_id"]): (row["offset"], row["min_offset"], row["max_offset"], row["lag"])
        for row in run("offsets", "show", one.path, "--json", *one.sets).rows
    }
    ends, wanted = bounds(one), {}
    for (group, topic), queues in offsets(one).items():
        for queue, at in queues.items():
            low, high = ends.get((topic, queue), (0, 0))
            wanted[group, topic, queue] = (at, low, high, max(0, high - max(at, low)))
    assert shown == wanted and wanted


def test_show_tells_when_the_oldest_unread_message_was_stored(run: Run, golden: Callable[[str], Golden]) -> None:
    one = golden("config")
    stored = {(r["topic"], r["queue_id"], r["queue_offset"]): r["store_timestamp"] for r in one.rows}
    rows = run("offsets", "show", one.path, "--group", GROUP, "--topic", TOPIC, "--json").rows
    assert [row["oldest_ms"] for row in rows] == [stored[TOPIC, queue, at] for queue, at in PLACES.items()]


def test_show_of_several_stores_names_the_broker(run: Run, store: Path, tmp_path: Path) -> None:
    shutil.copytree(store, tmp_path / "b" / "store")
    (tmp_path / "a").mkdir()
    store.rename(tmp_path / "a" / "store")
    pattern = f"{tmp_path}/{{broker}}/store"
    rows = run("offsets", "show", pattern, "--group", GROUP, "--json").rows
    assert [(row["broker"], row["queue_id"]) for row in rows] == [(b, q) for b in "ab" for q in PLACES]
    assert run("offsets", "show", pattern).out.split()[:3] == ["broker", "group", "topic"]


def test_show_and_export_read_a_bucket(run: Run, golden: Callable[[str], Golden], objects: Server) -> None:
    store = golden("config")
    url = objects.put(store.path, "offsets-config")
    sets = [word for key, value in objects.keys.items() for word in ("--set", f"{key}={value}")]
    assert run("offsets", "show", url, "--json", *sets).rows == run("offsets", "show", store.path, "--json").rows
    assert run("offsets", "export", url, *sets).out == run("offsets", "export", store.path).out


def test_show_says_what_is_not_there(run: Run, store: Path, tmp_path: Path) -> None:
    for words, code, said in (
        (("--group", "TradeGrp"), 2, "no group 'TradeGrp'; did you mean 'TradeGroup'?"),
        (("--topic", "Trades"), 7, "no topic 'Trades'; did you mean 'Trade'?"),
        (("--topic", TOPIC, "--group", "TxGroup"), 0, "no group has committed an offset of these"),
    ):
        found = run("offsets", "show", store, *words)
        assert (found.code, found.out) == (code, "") and said in found.err
    (tmp_path / "bare" / "commitlog").mkdir(parents=True)
    found = run("offsets", "show", tmp_path / "bare")
    assert found.code == 0 and found.err == "flintmq: no group has committed an offset\n"
    (store / "config" / "consumerOffset.json").write_bytes(b"{")
    assert "consumerOffset.json.bak is used, which may be older" in run("offsets", "show", store).err
    (store / "config" / "rdb").mkdir()
    (store / "config" / "rdb" / "CURRENT").write_bytes(b"")
    assert "committed offsets in RocksDB, which FlintMQ does not read" in run("offsets", "show", store).err


def test_show_remarks_on_places_outside_of_their_queue(run: Run, store: Path) -> None:
    file = store / "config" / "consumerOffset.json"
    file.write_bytes(file.read_bytes().replace(b"{0:17,1:22,2:18,3:18", b"{0:99,1:-1,2:18,3:18"))
    lines = run("offsets", "show", store, "--group", GROUP).out.splitlines()[1:]
    assert "beyond the end" in lines[0] and lines[1].split()[3:7] == ["-1", "0", "25", "25"]


# -- changes ----------------------------------------------------------------------------------------------------------


def test_set_writes_the_file_as_a_broker_does(run: Run, store: Path) -> None:
    before = (store / "config" / "consumerOffset.json").read_bytes()
    rest = unchanged(store)
    done = run("offsets", "set", store, "3", *ONE, "--json")
    assert done.rows == [{
        "written": 1, "left": [],
        "changes": [
            {"group": GROUP, "topic": TOPIC, "queue_id": 1, "before": 22, "after": 3, "min_offset": 0, "max_offset": 25}
        ],
    }]  # fmt: skip
    after = (store / "config" / "consumerOffset.json").read_bytes()
    lines, old = after.splitlines(), before.splitlines()
    changed = [(was, now) for was, now in zip(old, lines, strict=True) if was != now]
    assert [now for _, now in changed if b"Trade@" in now] == [b'\t\t"Trade@TradeGroup":{0:17,1:3,2:18,3:18']
    assert len(changed) == 3, "the offset, and counter and time of the version"
    assert (store / "config" / "consumerOffset.json.bak").read_bytes() == before
    assert {name for name, data in unchanged(store).items() if rest.get(name) != data} <= {
        "config/consumerOffset.json", "config/consumerOffset.json.bak",
    }  # fmt: skip


def test_reset_to_a_time_is_the_first_message_then_or_later(
    run: Run, golden: Callable[[str], Golden], store: Path
) -> None:
    rows = [row for row in golden("config").rows if row["topic"] == TOPIC]
    moment = sorted(row["store_timestamp"] for row in rows)[len(rows) // 2]
    later = {
        queue: min(r["queue_offset"] for r in rows if r["queue_id"] == queue and r["store_timestamp"] >= moment)
        for queue in PLACES
    }
    assert run("offsets", "reset", store, "--group", GROUP, "--to", moment).code == 0
    assert places(store) == later
    for word, wanted in (
        ("first", dict.fromkeys(PLACES, 0)),
        ("last", ENDS),
        ("2033-01-01", ENDS),
        ("2001-01-01", None),
    ):
        assert run("offsets", "reset", store, "--group", GROUP, "--to", word).code == 0
        assert places(store) == (wanted or dict.fromkeys(PLACES, 0))


def test_a_dry_run_writes_nothing(run: Run, store: Path) -> None:
    before = tree(store, "")
    found = run("offsets", "reset", store, "--group", GROUP, "--to", "first", "--dry-run")
    assert found.err.endswith("dry run: 4 of 4 offsets would change; nothing was written\n") and found.code == 0
    assert [line.split()[-2:] for line in found.out.splitlines()[1:]] == [[str(at), "again"] for at in PLACES.values()]
    assert tree(store, "") == before


def test_what_is_so_already_is_not_written(run: Run, store: Path) -> None:
    before = unchanged(store)
    assert run("offsets", "set", store, "22", *ONE).err == "flintmq: nothing to change: the group is there already\n"
    assert unchanged(store) == before


def test_clone_and_its_retries(run: Run, tmp_path: Path) -> None:
    root = tmp_path / "s"
    with MessageStore(root) as store:
        for topic in ("A", "B", "%RETRY%G"):
            store.put_many([Message(topic, b"%d" % n) for n in range(5)])
        for topic, at in (("A", 2), ("B", 5), ("%RETRY%G", 1), ("Gone", 0)):
            store.commit_offset("G", topic, 0, at)
    done = run("offsets", "clone", root, "--from", "G", "--into", "H", "--create", "--json")
    assert done.code == 0
    assert [(one["topic"], one["queue_id"], one["after"]) for one in done.rows[0]["changes"]] == [
        ("A", 0, 2),
        ("B", 0, 5),
    ]
    assert done.rows[0]["left"] == [
        "topic '%RETRY%G' is left: its 4 unread messages come as before", "topic 'Gone' is left: it is gone",
    ]  # fmt: skip
    groups = config_json.parse((root / "config" / "subscriptionGroup.json").read_bytes())["subscriptionGroupTable"]
    assert "H" in groups
    with MessageStore(root) as store, store.consumer("H", "A") as consumer:
        assert [one.body for one in consumer.poll()] == [b"2", b"3", b"4"]
    named = run("offsets", "reset", root, "--group", "G", "--topic", "%RETRY%G", "--to", "last")
    assert named.code == 0 and places(root, "G", "%RETRY%G") == {0: 5}


def test_export_and_import(run: Run, store: Path, tmp_path: Path) -> None:
    file = tmp_path / "offsets.json"
    said = run("offsets", "export", store, "--group", GROUP, "--group", "TxGroup", "--out", file)
    assert (said.code, said.out, said.err) == (0, "", "flintmq: 5 offsets of 2 groups\n")
    assert run("offsets", "export", store, "--group", GROUP, "--group", "TxGroup").out == file.read_text()
    everything = json.loads(run("offsets", "export", store).out)["places"]
    assert not [one for one in everything if one["group"].startswith("CID_RMQ_SYS_")]
    run("offsets", "reset", store, "--group", GROUP, "--to", "first")
    assert run("offsets", "import", store, file).code == 0 and places(store) == PLACES
    again = run("offsets", "import", store, file)
    assert again.err == "flintmq: nothing to change: the group is there already\n"


def test_an_export_replaces_nothing_but_an_export(run: Run, store: Path, tmp_path: Path) -> None:
    file, link, other, pipe = (tmp_path / name for name in ("o.json", "link", "note.txt", "pipe"))
    other.write_text("precious")
    link.symlink_to(other)
    os.mkfifo(pipe)
    for target, words in (
        (other, "exists and is not a file of this command"),
        (link, "exists and is not a file of this command"),
        (pipe, "exists and is not a file of this command"),
        (tmp_path, "is a directory"),
        (tmp_path / "no" / "o.json", "is not a directory; make it first"),
    ):
        said = run("offsets", "export", store, "--out", target)
        assert said.code == 2 and words in said.err, said.err
    assert other.read_text() == "precious" and link.is_symlink() and pipe.is_fifo()
    for _ in range(2):
        assert run("offsets", "export", store, "--out", file).code == 0
    link.unlink()
    link.symlink_to(file)
    assert run("offsets", "export", store, "--group", GROUP, "--out", link).code == 0
    assert link.is_symlink() and run("offsets", "export", store, "--group", GROUP).out == file.read_text()


def test_a_file_of_several_stores_wants_the_broker(run: Run, store: Path, tmp_path: Path) -> None:
    for name in "ab":
        shutil.copytree(store, tmp_path / name / "store")
    run("offsets", "set", tmp_path / "b" / "store", "3", *ONE)
    file = tmp_path / "offsets.json"
    assert run("offsets", "export", f"{tmp_path}/{{broker}}/store", "--out", file).code == 0
    for words in ([], ["--broker", "c"]):
        said = run("offsets", "import", store, file, *words)
        assert said.code == 2 and "has offsets of 'a', 'b'; give one of its brokers: --broker NAME" in said.err
    assert run("offsets", "import", store, file, "--broker", "b").code == 0 and places(store) == PLACES | {1: 3}


# -- refused ----------------------------------------------------------------------------------------------------------

REFUSED = {
    "below the first": (("set", "-1", *ONE), 2, "offset -1 is outside of queue 'Trade'/1, where it may be 0 to 25"),
    "beyond the end": (("set", "26", *ONE), 2, "offset 26 is outside of queue 'Trade'/1, where it may be 0 to 25"),
    "no number": (("set", "1e3", *ONE), 2, "OFFSET: '1e3' is not a whole number"),
    "unknown queue": (("set", "3", *ONE[:5], "4"), 2, "topic 'Trade' has no queue 4; its queues are 0 to 3"),
    "unknown topic": (("set", "3", *ONE[:3], "Trad", *ONE[4:]), 7, "no topic 'Trad'; did you mean 'Trade'?"),
    "unknown group": (("set", "3", "--group", "X", *ONE[2:]), 2, "no group 'X'; it has"),
    "a group that cannot be": (("set", "3", "--create", "--group", "a@b", *ONE[2:]), 2, "cannot be a group's name"),
    "RocketMQ's own": (("set", "3", "--group", "CID_RMQ_SYS_TRANS", *ONE[2:]), 2, "is one of RocketMQ's own"),
    "a name with a space": (("set", "3", "--create", "--group", "a b", *ONE[2:]), 2, "cannot be a new group's name"),
    "a name with its end": (("set", "3", "--create", "--group", "a\n", *ONE[2:]), 2, "cannot be a new group's name"),
    "a blank name": (("reset", "--to", "last", "--topic", TOPIC, "--create", "--group", " "), 2, "a new group's name"),
    "a long name": (("clone", "--from", GROUP, "--into", "g" * 256, "--create"), 2, "up to 255 of %|a-zA-Z0-9_-"),
    "clone of an own group": (("clone", "--from", "CID_RMQ_SYS_TRANS", "--into", "X", "--create"), 2, "RocketMQ's own"),
    "export of RocketMQ's own": (("export", "--group", "CID_RMQ_SYS_TRANS"), 2, "RocketMQ's own, whose places are not"),
    "reset of an unknown group": (("reset", "--group", "X", "--to", "first"), 2, "no group 'X'"),
    "reset without an offset": (("reset", "--group", "CID_ONSAPI_PULL", "--to", "last"), 2, "; name a topic: --topic"),
    "no time": (("reset", "--group", GROUP, "--to", "yesterday"), 2, "--to: 'yesterday' is not a time"),
    "clone into itself": (("clone", "--from", GROUP, "--into", GROUP), 2, "give another --into"),
    "clone into an unknown group": (("clone", "--from", GROUP, "--into", "X"), 2, "--create makes a new group"),
    "clone of another topic": (
        ("clone", "--from", GROUP, "--into", "TxGroup", "--topic", "Tx"), 2, "has no offset of topic 'Tx'",
    ),
    "import of nothing": (("import", "no-such-file"), 2, "no-such-file: no such file; `flintmq offsets export"),
    "a broker's address": (("reset", "--group", "G", "--to", "first"), 2, "mqadmin resetOffsetByTime"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_nothing_written(case: str, run: Run, store: Path) -> None:
    (name, *words), code, said = REFUSED[case]
    before = unchanged(store)
    found = run("offsets", name, "localhost:10911" if case == "a broker's address" else store, *words)
    assert (found.code, found.out) == (code, "") and said in found.err and found.err.count("\n") == 1
    assert unchanged(store) == before


def kept(*places: dict[str, Any]) -> str:
    """A file of places: queue 0 of the group at 3, where these say nothing else."""
    usual = {"group": GROUP, "topic": TOPIC, "queue": 0, "offset": 3}
    return json.dumps({"offsets": 1, "places": [usual | place for place in places]})


FILES = {
    "cut off": (kept({})[:-2], 2, "cut off"),
    "a flag for the version": ('{"offsets": true, "places": []}', 2, "no offsets of FlintMQ"),
    "of a newer version": ('{"offsets": 2, "places": []}', 4, "upgrade this one"),
    "no places": (kept(), 2, "it has no places"),
    "another key": (kept({"lag": 3}), 4, "the key 'lag' is not known here"),
    "a text for a number": (kept({"offset": "3"}), 2, "a place has offset '3'"),
    "a flag for a number": (kept({"queue": True}), 2, "a place has queue True"),
    "below 0": (kept({"offset": -1}), 2, "a place has offset -1"),
    "one that is wrong": (kept({}, {"topic": "Nope"}), 7, "no topic 'Nope'"),
    "a place twice": (kept({}, {"offset": 4}), 2, "two offsets in one queue"),
    "no JSON": ("offsets", 2, "no JSON"),
    "consumerOffset.json itself": ('{"offsetTable": {"Trade@TradeGroup": {"0": 3}}}', 2, "no offsets of FlintMQ"),
}


@pytest.mark.parametrize("case", FILES)
def test_a_file_is_refused_whole(case: str, run: Run, store: Path, tmp_path: Path) -> None:
    text, code, said = FILES[case]
    (tmp_path / "file").write_text(text)
    before = unchanged(store)
    found = run("offsets", "import", store, tmp_path / "file", "--create")
    assert (found.code, found.out) == (code, "") and said in found.err and found.err.count("\n") == 1
    assert unchanged(store) == before


def test_places_outside_of_a_moved_queue_are_clamped_if_told(run: Run, store: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(kept({"queue": 1, "offset": 99}))
    assert "offset 99 is outside" in run("offsets", "import", store, tmp_path / "file").err
    assert run("offsets", "import", store, tmp_path / "file", "--clamp").code == 0 and places(store) == PLACES | {1: 25}


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_a_store_in_use_is_left_to_its_broker(words: tuple[str, ...], run: Run, tmp_path: Path) -> None:
    with MessageStore(tmp_path / "s") as store:
        store.put(Message("T", b"x"))
        store.commit_offset("G", "T", 0, 1)
        found = run("offsets", "reset", tmp_path / "s", "--group", "G", "--to", "first", *words)
        assert found.code == 6 and "mqadmin resetOffsetByTime" in found.err
        assert store.consumer_offset("G", "T", 0) == 1


def test_a_copy_of_a_broker_that_keeps_its_offsets_is_refused(run: Run, store: Path) -> None:
    copy = followed.Followed("10.0.0.5:10912", 0, 1 << 20, lacks=None)
    followed.write(str(store), copy, REAL)
    before = unchanged(store)
    found = run("offsets", "set", store, "3", *ONE)
    assert found.code == 2 and "a copy of '10.0.0.5:10912' with its broker's offsets (--config-from)" in found.err
    assert unchanged(store) == before
    assert run("recover", store, "--set", "timerWheelEnable=false").code == 0, "as its line says"
    assert run("offsets", "set", store, "4", *ONE).code == 0
    followed.write(str(store), followed.Followed("10.0.0.5:10912", 0, 1 << 20), REAL)  # of a log alone
    assert run("offsets", "set", store, "3", *ONE).code == 0


@pytest.mark.parametrize("place", ["consumerOffsets", "rdb"])
def test_offsets_in_rocksdb_are_refused(place: str, run: Run, store: Path) -> None:
    (store / "config" / place).mkdir()
    (store / "config" / place / "CURRENT").write_bytes(b"")
    found = run("offsets", "set", store, "3", *ONE)
    assert found.code == 4 and "RocksDB, which FlintMQ does not write" in found.err


def test_the_file_of_light_queues(run: Run, store: Path) -> None:
    config = store / "config"
    shutil.copy(config / "consumerOffset.json", config / "lmqConsumerOffset.json")
    found = run("offsets", "set", store, "3", *ONE)
    assert found.code == 2 and "give --set enableLmq=true or false" in found.err
    assert run("offsets", "set", store, "3", *ONE, "--set", "enableLmq=true").code == 0
    assert (places(store, name="lmqConsumerOffset.json")[1], places(store)[1]) == (3, 22)
    for name in ("consumerOffset.json", "consumerOffset.json.bak"):
        (config / name).unlink()
    assert run("offsets", "set", store, "4", *ONE).code == 0
    assert places(store, name="lmqConsumerOffset.json")[1] == 4


def test_a_light_queue_of_a_light_group(run: Run, golden: Callable[[str], Golden], tmp_path: Path) -> None:
    root, light = golden("lmq").copy(tmp_path), "%LMQ%client0"
    place = ("--group", "%LMQ%g", "--topic", light, "--queue", "0", "--create", "--set", "enableLmq=true")
    end = bounds(golden("lmq"))[light, 0][1]
    assert f"where it may be 0 to {end}" in run("offsets", "set", root, end + 1, *place).err
    assert run("offsets", "set", root, end - 1, *place).code == 0
    value = config_json.parse((root / "config" / "lmqConsumerOffset.json").read_bytes())
    assert value["lmqOffsetTable"] == {f"{light}@%LMQ%g": end - 1} and value["offsetTable"] == {}
    [row] = run("offsets", "show", root, "--json").rows
    assert (row["topic"], row["queue_id"], row["lag"]) == (light, 0, 1)


def test_an_offset_stays_where_it_was_put_after_a_kill(run: Run, tmp_path: Path) -> None:
    """The end of a log that was not stopped cleanly is that which the next start finds."""
    root = tmp_path / "s"
    child = os.fork()
    if child == 0:
        store = MessageStore(root)
        store.put_many([Message("T", b"%d" % n) for n in range(10)])
        store.commit_offset("G", "T", 0, 1)
        assert store.wait_dispatched(60)
        store._parts.housekeeping.save_now()
        os.kill(os.getpid(), 9)
    assert os.waitpid(child, 0)[1] == 9
    assert (root / "abort").exists()
    assert run("offsets", "set", root, "10", "--group", "G", "--topic", "T", "--queue", "0").code == 0
    assert (
        "where it may be 0 to 10"
        in run("offsets", "set", root, "11", "--group", "G", "--topic", "T", "--queue", "0").err
    )
    with MessageStore(root) as store:
        assert store.consumer_offset("G", "T", 0) == 10


def test_queues_without_their_files_are_refused(run: Run, golden: Callable[[str], Golden], tmp_path: Path) -> None:
    """Only what the end of the log has of them is seen: messages before would count as gone."""
    store = golden("config").copy(tmp_path, "consumequeue")
    for words in (("set", store, "22", *ONE), ("reset", store, "--group", GROUP, "--to", "first")):
        found = run("offsets", *words)
        assert found.code == 2 and "files of Trade/0, Trade/1, Trade/2, Trade/3 are missing" in found.err
    assert "files of Trade/0, Trade/1" in run("offsets", "show", store, "--group", GROUP).err


UNUSABLE: dict[str, Callable[[Path], object]] = {
    "empty": lambda file: file.write_bytes(b""),
    "cut": lambda file: os.truncate(file, 40),
    "no object": lambda file: file.write_bytes(b"[]"),
    "no table": lambda file: file.write_bytes(b'{"offsetTable": [], "subscriptionGroupTable": 3}'),
    "a directory": lambda file: (file.unlink(), file.mkdir()),
}


@pytest.mark.parametrize("bak", [True, False])
@pytest.mark.parametrize("name", ["consumerOffset.json", "subscriptionGroup.json"])
@pytest.mark.parametrize("harm", UNUSABLE)
def test_an_unusable_file_of_config_is_not_replaced(harm: str, name: str, bak: bool, run: Run, store: Path) -> None:
    """The change would write back the group that was named, and lose all others."""
    UNUSABLE[harm](store / "config" / name)
    if not bak:
        (store / "config" / f"{name}.bak").unlink(missing_ok=True)
    before = unchanged(store)
    for words in (
        ("reset", store, "--group", GROUP, "--topic", TOPIC, "--to", "first"),
        ("reset", store, "--group", GROUP, "--to", "first", "--dry-run"),
        ("set", store, "3", "--create", *ONE),
    ):
        found = run("offsets", *words)
        assert found.code == (5 if harm == "a directory" else 2) and found.err.count("\n") == 1
        assert f"config/{name}" in found.err and "move" in found.err and ".unusable" not in found.err
    assert unchanged(store) == before
    shown = run("offsets", "show", store)
    if name == "consumerOffset.json" and not bak:
        assert shown.code == 1 and name in shown.err and "as far as can be read" in shown.err


def test_places_that_an_import_would_refuse_are_not_exported(run: Run, store: Path) -> None:
    file = store / "config" / "consumerOffset.json"
    file.write_bytes(file.read_bytes().replace(b"Trade@TagGroup", b"Trade@").replace(b"{0:17,1:22", b"{0:17,1:-1"))
    made = run("offsets", "export", store)
    assert "flintmq: 5 places left out: below 0 (-1: nothing consumed), or without a group or topic\n" in made.err
    assert not [one for one in json.loads(made.out)["places"] if not one["group"] or one["offset"] < 0]


def cut(size: int) -> Callable[[Path], None]:
    return lambda file: os.truncate(file, size)


def zero(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


HARMS: dict[str, Callable[[Path], None]] = {
    "removed": Path.unlink, "empty": cut(0), "cut in a unit": cut(30), "cut after a unit": cut(20), "zeros": zero,
    "its end is zeros": lambda file: file.write_bytes(file.read_bytes()[:40].ljust(file.stat().st_size, b"\0")),
}  # fmt: skip


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("harm", HARMS)
def test_queue_files_that_lack_records_of_the_log(harm: str, committed: bool, run: Run, store: Path) -> None:
    """Their end is no truth to go by: neither to show a lag, nor to move a group to."""
    if not committed:
        for file in (store / "config").glob("consumerOffset.json*"):
            file.write_bytes(file.read_bytes().replace(b"Tx@TxGroup", b"Trade@TxGroup"))
    for queue in range(4):
        HARMS[harm](store / "consumequeue" / TOPIC / str(queue) / f"{0:020}")
    HARMS[harm](store / "consumequeue" / "Tx" / "0" / f"{0:020}")
    before = unchanged(store)
    for words in (
        ("reset", store, "--group", GROUP, "--to", "first", "--dry-run"),
        ("reset", store, "--group", GROUP, "--to", "last"),
        ("reset", store, "--group", GROUP, "--to", "last", "--topic", "Tx"),
        ("set", store, "0", *ONE),
        ("set", store, "0", "--group", GROUP, "--topic", "Tx", "--queue", "0"),
        ("clone", store, "--from", GROUP, "--into", "New", "--create", "--clamp"),
    ):
        found = run("offsets", *words)
        assert found.code == 2 and "its files lack records of the log, so the offsets of queue" in found.err
        assert "run `flintmq rebuild`" in found.err and found.err.count("\n") == 1
    assert unchanged(store) == before
    shown = run("offsets", "show", store)
    assert shown.code == 1 and f"queue '{TOPIC}'/0 are not known" in shown.err
    assert ("queue 'Tx'/0 are not known" in shown.err) is committed, "queues that no group has a place in have no line"
    assert run("tail", store, "Tx").code == 1
    metrics, notes = run("metrics", store).out, run("inspect", store).out
    assert 'code="queue-end"} 5' in metrics if committed else 'code="queue-end"} 4' in metrics
    assert ("lag_messages{" in metrics) and f'consumer_group="{GROUP}",topic="{TOPIC}"' in metrics
    lags = [line for line in metrics.splitlines() if line.startswith("rocketmq_consumer_lag")]
    assert not [line for line in lags if f'topic="{TOPIC}"' in line or 'topic="Tx"' in line], "0 would be no truth"
    assert "note queue-end: " in notes
    assert run("rebuild", store, "--out", store.parent / "made").code == 0, "as the line says"
    shutil.rmtree(store / "consumequeue")
    shutil.move(store.parent / "made" / "consumequeue", store)
    assert run("offsets", "show", store).code == 0
    assert run("offsets", "reset", store, "--group", GROUP, "--to", "last").code == 0 and places(store) == ENDS


def test_last_records_that_cannot_be_read(run: Run, golden: Callable[[str], Golden], store: Path) -> None:
    last = [row for row in golden("config").rows if (row["topic"], row["queue_id"]) == (TOPIC, 1)][-1]
    hurt_body(store, last["physical_offset"])
    before = unchanged(store)
    for words in (("reset", "--group", GROUP, "--to", "last"), ("set", "24", *ONE)):
        found = run("offsets", words[0], store, *words[1:])
        assert found.code == 2 and "so the offsets of queue 'Trade'/1 are not known" in found.err
        assert "run `flintmq verify`, then `flintmq salvage`" in found.err
    assert unchanged(store) == before
    shown = run("offsets", "show", store)
    assert shown.code == 1 and "queue 'Trade'/1 are not known" in shown.err


def test_a_log_whose_end_is_missing_after_a_clean_stop(run: Run, golden: Callable[[str], Golden], store: Path) -> None:
    """What `verify` knows by queues and index is known to each that answers of the end."""
    last = max(golden("config").live, key=lambda row: row["physical_offset"])
    hurt_body(store, last["physical_offset"])
    before = unchanged(store)
    assert run("verify", store).code == 1
    for words in (
        ("offsets", "show", store), ("halves", store), ("trace", store, "--key", "o46"), ("timers", store),
        ("dead", store), ("tail", store, "Tx"), ("offsets", "reset", store, "--group", GROUP, "--to", "last"),
    ):  # fmt: skip
        found = run(*words)
        assert found.code == 1 and "the log's end is missing: the queue 'RMQ_SYS_TRANS_HALF_TOPIC/0'" in found.err
    assert unchanged(store) == before


def test_a_group_behind_what_retention_left(run: Run, tmp_path: Path) -> None:
    """The bounds are those of the messages that are left, and --clamp takes a group there."""
    root, keys = tmp_path / "s", {"mappedFileSizeCommitLog": 4096}
    with MessageStore(root, config=keys) as store:
        store.put_many([Message("T", bytes(1000)) for _ in range(9)])  # three in a file
        store.commit_offset("G", "T", 0, 1)
    min((root / "commitlog").iterdir()).unlink()
    place = ("--group", "G", "--topic", "T", "--queue", "0")
    [row] = run("offsets", "show", root, "--json").rows
    assert [row[key] for key in ("offset", "min_offset", "max_offset", "lag")] == [1, 3, 9, 6]
    assert "2 gone unread" in run("offsets", "show", root).out
    assert "offset 2 is outside of queue 'T'/0, where it may be 3 to 9" in run("offsets", "set", root, "2", *place).err
    words = ("offsets", "clone", root, "--from", "G", "--into", "H", "--create")
    assert "offset 1 is outside" in run(*words).err
    assert run(*words, "--clamp").code == 0 and places(root, "H", "T") == {0: 3}


def test_ten_thousand_queues(run: Run, tmp_path: Path) -> None:
    """Each is looked up, and none of them a thousand times."""
    root, count = tmp_path / "s", 10_000
    (root / "commitlog").mkdir(parents=True)
    (root / "config").mkdir()
    topics = {f"T{n}": {"topicName": f"T{n}", "readQueueNums": 100, "writeQueueNums": 100} for n in range(count // 100)}
    table = {f"T{n}@G": dict.fromkeys(map(str, range(100)), 0) for n in range(count // 100)}
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": topics}))
    (root / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": table}))
    begin = time.monotonic()
    assert len(run("offsets", "show", root, "--json").rows) == count
    assert run("offsets", "clone", root, "--from", "G", "--into", "H", "--create").code == 0
    assert time.monotonic() - begin < 30
    assert len(run("offsets", "show", root, "--json", "--group", "H").rows) == count


def test_hostile_names_are_escaped(run: Run, tmp_path: Path) -> None:
    root = tmp_path / "s"
    (root / "commitlog").mkdir(parents=True)
    (root / "config").mkdir()
    table = {"T\u001b[2J<script>@G\u202e": {"0": 5}, "../../etc@G": {"0": 1}, "%RETRY%G@": {"0": 1}}
    (root / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": table}))
    assert "\\x1b[2J<script>" in run("offsets", "show", root).out
    assert run("offsets", "show", root, "--json").code == run("offsets", "export", root).code == 0
