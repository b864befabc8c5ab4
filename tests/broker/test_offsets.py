"""Offsets of groups: the store's own, those committed here, and the file that keeps them."""

import errno
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq.broker import Broker, offsets
from flintmq.errors import StoreAccessError, UsageError
from flintmq.store.view import open_store
from flintmq.testing import write_store
from tests.broker.talk import Line, heartbeat, pull
from tests.remoting.remoting_peer import strict
from tests.support.engine import stored
from tests.support.threads import within

Serve = Callable[..., Broker]
Connected = Callable[[Broker], Line]
GET, COMMIT, HEARTBEAT, PULL, ALL = 14, 15, 34, 11, 43


def place(group: str = "G", topic: str = "T", queue_id: int = 0, **more: Any) -> dict[str, Any]:
    return {"consumerGroup": group, "topic": topic, "queueId": queue_id, **more}


def kept(talk: Line, *of: Any, **more: Any) -> int | None:
    """The offset that a group is answered; None: it has none."""
    answer = talk.ask(GET, place(*of, **more))
    assert answer.code in (0, 22)
    return int(answer.fields["offset"]) if answer.code == 0 else None


def commit(talk: Line, offset: int, *of: Any) -> None:
    answer = talk.ask(COMMIT, place(*of, commitOffset=offset))
    assert (answer.code, answer.remark) == (0, None)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A store with offsets of its own: of the groups billing and reports in both queues of Orders."""
    return write_store(tmp_path / "shop", 40, topics=["Orders"], queues=2).path


# -- in memory ---------------------------------------------------------------------------------------------------------


def test_a_group_begins_where_the_store_has_it(served: Serve, shop: Path, line: Connected):
    with open_store(shop) as view:
        own = view.broker.consumer_offsets["Orders", "billing"]
    talk = line(served(shop))
    assert own.keys() == {0, 1} and 0 not in own.values()
    for queue_id, offset in own.items():
        assert kept(talk, "billing", "Orders", queue_id) == offset
    talk.ask(HEARTBEAT, body=heartbeat("a", "billing"))
    commit(talk, 3, "billing", "Orders", 1)
    assert kept(talk, "billing", "Orders", 1) == 3, "also one before the store's"
    assert kept(talk, "billing", "Orders", 0) == own[0]
    assert kept(talk, "other", "Orders", 1) == 0, "a group's offsets are its own"


def test_a_new_group_gets_a_young_queue_from_its_begin(served: Serve, resting: Path, line: Connected):
    talk = line(served(resting))
    assert kept(talk) == 0
    refused = talk.ask(GET, place(setZeroIfNotFound="false"))
    assert (refused.code, refused.remark) == (22, "Not found, do not set to zero, maybe this group boot first")


def test_a_new_group_gets_no_old_queue(served: Serve, tmp_path: Path, line: Connected):
    """Its first message is in a log file before the last two: RocketMQ would have to read it from the disk."""
    stored(tmp_path / "store", 200)
    assert len(list((tmp_path / "store" / "commitlog").iterdir())) > 3
    assert kept(line(served(tmp_path / "store"))) is None


def test_a_oneway_commit_counts(served: Serve, resting: Path, line: Connected):
    talk = line(served(resting))
    talk.ask(HEARTBEAT, body=heartbeat("a", "G"))
    talk.start(COMMIT, place(commitOffset=17), flag=2)
    talk.start(COMMIT, place(topic="Nope", commitOffset=18), flag=2)
    assert kept(talk) == 17 and {one.code for one in talk.told} <= {40}


def test_a_pull_may_commit(served: Serve, resting: Path, line: Connected):
    broker = served(resting)
    talk = line(broker)
    talk.ask(PULL, pull(commitOffset=9, sysFlag=4))
    assert kept(talk) == 0, "without its bit nothing is committed"
    talk.ask(PULL, pull(commitOffset=9, sysFlag=5))
    assert kept(talk) == 9
    talk.start(PULL, pull(offset=30, commitOffset=30, sysFlag=7, suspendTimeoutMillis=8000))
    assert within(lambda: broker.stats().held == 1)
    assert kept(talk) == 30, "also of a pull that is held"
    talk.ask(PULL, pull(commitOffset=-1, sysFlag=5))
    assert kept(talk) == 30


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ({"topic": "Nope"}, 17, "Topic Nope not exist!"),
        ({"consumerGroup": "H"}, 26, "Group H not exist!"),
        ({"commitOffset": -1}, 29, "commitOffset"),
        ({"commitOffset": "x"}, 1, "commitOffset"),
        ({"commitOffset": 1 << 63}, 1, "commitOffset"),
        ({"queueId": "x"}, 1, "queueId"),
        ({"queueId": 1 << 40}, 29, "queueId"),
    ],
)
def test_commits_that_are_refused(
    served: Serve, resting: Path, line: Connected, given: dict[str, Any], code: int, said: str
):
    talk = line(served(resting))
    talk.ask(HEARTBEAT, body=heartbeat("a", "G"))
    answer = talk.ask(COMMIT, place(commitOffset=5) | given)
    assert answer.code == code and said in str(answer.remark)
    assert kept(talk) == 0


def test_groups_that_are_known(served: Serve, shop: Path, tmp_path: Path, line: Connected):
    """By the store's groups or offsets, by --offsets, by a heartbeat, or by a pull."""
    file, asked = tmp_path / "mine.json", {"topic": "Orders", "queueId": 0, "commitOffset": 1}
    file.write_bytes(b'{"offsetTable":{"Orders@Mine":{0:1}}}')
    (shop / "config" / "subscriptionGroup.json").write_bytes(b'{"subscriptionGroupTable":{"Configured":{}}}')
    talk = line(served(shop, offsets=file))
    talk.ask(HEARTBEAT, body=heartbeat("a", "Beating"))
    talk.ask(PULL, pull("Orders", group="Pulling"))
    for group in ("billing", "Mine", "Configured", "Beating", "Pulling"):
        assert talk.ask(COMMIT, {**asked, "consumerGroup": group}).code == 0, group
    assert talk.ask(COMMIT, {**asked, "consumerGroup": "Nobody"}).code == 26


@pytest.mark.parametrize("name", ["consumerGroup", "topic", "queueId", "commitOffset"])
def test_a_field_that_is_missing(served: Serve, resting: Path, line: Connected, name: str):
    asked, talk = place(commitOffset=5), line(served(resting))
    del asked[name]
    answer = talk.ask(COMMIT, asked)
    assert (answer.code, answer.remark) == (1, f"the field {name} is missing")


# -- in a file ---------------------------------------------------------------------------------------------------------


def test_offsets_outlive_the_broker(resting: Path, tmp_path: Path):
    file = tmp_path / "offsets.json"
    for begin, end in ((0, 11), (11, 23)):
        with Broker(resting, read_only=True, offsets=file) as broker, Line(broker.address) as talk:
            talk.ask(HEARTBEAT, body=heartbeat("a", "G", "Ü"))
            assert kept(talk) == begin
            commit(talk, end)
            commit(talk, 4, "Ü", "T", 1)
        assert strict(file.read_bytes()) == {"offsetTable": {"T@G": {"0": end}, "T@Ü": {"1": 4}}}
    assert [path.name for path in tmp_path.iterdir()] == ["offsets.json"], "nothing else is left"


def test_the_file_is_written_while_it_serves(
    served: Serve, resting: Path, tmp_path: Path, line: Connected, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("flintmq.broker.broker.SAVE_S", 0.02)
    file = tmp_path / "offsets.json"
    talk = line(served(resting, offsets=file))
    talk.ask(HEARTBEAT, body=heartbeat("a", "G"))
    commit(talk, 5)
    assert within(file.exists) and strict(file.read_bytes())["offsetTable"] == {"T@G": {"0": 5}}
    stamp = file.stat().st_mtime_ns, file.stat().st_ino
    commit(talk, 6)
    assert within(lambda: (file.stat().st_mtime_ns, file.stat().st_ino) != stamp)
    assert strict(file.read_bytes())["offsetTable"] == {"T@G": {"0": 6}}


def test_a_file_of_rocketmqs_own(served: Serve, shop: Path, tmp_path: Path, line: Connected):
    file = tmp_path / "mine.json"
    file.write_bytes(b'{"dataVersion":{"counter":3},"offsetTable":{"Orders@billing":{0:1,"1":"2"}}}')
    talk = line(served(shop, offsets=file))
    assert (kept(talk, "billing", "Orders", 0), kept(talk, "billing", "Orders", 1)) == (1, 2)


def test_a_name_without_a_folder(
    served: Serve, resting: Path, tmp_path: Path, line: Connected, monkeypatch: pytest.MonkeyPatch, caplog: Any
):
    """`--offsets offsets.json`, as the command's help says."""
    monkeypatch.chdir(tmp_path)
    with Broker(resting, read_only=True, offsets="offsets.json") as broker, Line(broker.address) as talk:
        talk.ask(HEARTBEAT, body=heartbeat("a", "G"))
        commit(talk, 8)
    assert strict((tmp_path / "offsets.json").read_bytes())["offsetTable"] == {"T@G": {"0": 8}}
    assert caplog.records == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"no json",
        b"\x00" * 100,
        b"{}",
        b'{"offsetTable":[]}',
        b'{"offsetTable":{"TG":{0:1}}}',
        b'{"offsetTable":{"T@G":[1]}}',
        b'{"offsetTable":{"T@G":{}}}',
        b'{"offsetTable":{"T@G":{0:-2}}}',
        b'{"offsetTable":{"T@G":{-1:1}}}',
        b'{"offsetTable":{"T@G":{0:1.5}}}',
        b'{"offsetTable":{"T@G":{"x":1}}}',
        b'{"offsetTable":{"T@G":{0:true}}}',
        b'{"offsetTable":{"T@G":{0:null}}}',
        b'{"topicConfigTable":{"T":{"perm":6}}}',
        b'{"offsetTable":{"T@G":{0:1}}} and more',
    ],
)
def test_a_file_with_something_else_is_left_alone(resting: Path, tmp_path: Path, content: bytes):
    file = tmp_path / "offsets.json"
    file.write_bytes(content)
    with pytest.raises(UsageError, match="name another file"), Broker(resting, read_only=True, offsets=file):
        pass
    assert file.read_bytes() == content


def test_a_file_without_groups_is_one_of_offsets(served: Serve, resting: Path, tmp_path: Path, line: Connected):
    file = tmp_path / "offsets.json"
    file.write_bytes(b'{"offsetTable":{}}')
    assert kept(line(served(resting, offsets=file))) == 0


def test_one_broker_has_the_file(served: Serve, resting: Path, tmp_path: Path, line: Connected):
    """A second one would overwrite what the first keeps; when the first ends, or is killed, it may have the file."""
    file = tmp_path / "offsets.json"
    (tmp_path / "offsets.json.lock").touch()  # left by a broker that was killed
    with Broker(resting, read_only=True, offsets=file):
        with pytest.raises(UsageError, match="another broker"), Broker(resting, read_only=True, offsets=file):
            pass
        with pytest.raises(UsageError, match="another broker"), Broker(resting, read_only=True, offsets=file):
            pass
    assert kept(line(served(resting, offsets=file))) == 0


def test_nothing_is_held_after_a_start_that_failed(resting: Path, tmp_path: Path):
    file = tmp_path / "offsets.json"
    file.write_bytes(b"{}")
    for _ in range(2):
        with pytest.raises(UsageError, match="no offsets of groups"), Broker(resting, read_only=True, offsets=file):
            pass
    file.unlink()
    with Broker(resting, read_only=True) as first:
        taken = {"listen": first.address, "offsets": file}
        for _ in range(2):
            with pytest.raises(UsageError, match="cannot listen"), Broker(resting, read_only=True, **taken):
                pass
    assert list(tmp_path.iterdir()) == []


def test_an_offset_of_a_group_that_consumed_nothing(served: Serve, store: Path, tmp_path: Path, line: Connected):
    """RocketMQ keeps -1 for it; a client begins as a new group does."""
    file = tmp_path / "offsets.json"
    file.write_bytes(b'{"offsetTable":{"T@G":{0:-1,1:5}}}')
    (store / "config" / "consumerOffset.json").write_bytes(b'{"offsetTable":{"T@G":{0:-1},"T@H":{0:-1}}}')
    talk = line(served(store, offsets=file))
    assert (kept(talk), kept(talk, "G", "T", 1), kept(talk, "H")) == (0, 5, 0)
    assert kept(talk, "H", setZeroIfNotFound="false") is None


def test_files_that_cannot_be(resting: Path, tmp_path: Path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(resting / "config")
    for file, error, said in (
        (tmp_path / "folder", StoreAccessError, "not a regular file"),
        (tmp_path / "none" / "offsets.json", UsageError, "its directory is not there"),
        (resting, UsageError, "is inside the store"),
        (resting / "offsets.json", UsageError, "is inside the store"),
        (resting / "config" / "consumerOffset.json", UsageError, "is inside the store"),
        (tmp_path / "link" / "offsets.json", UsageError, "is inside the store"),
        (Path(os.path.relpath(resting)) / "offsets.json", UsageError, "is inside the store"),
    ):
        with pytest.raises(error, match=said), Broker(resting, read_only=True, offsets=file):
            pass


def test_a_disk_that_is_full_for_a_while(
    served: Serve,
    resting: Path,
    tmp_path: Path,
    line: Connected,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    """Clients are served on, and what they committed is written when that is possible again."""
    monkeypatch.setattr("flintmq.broker.broker.SAVE_S", 0.02)
    file, real, full = tmp_path / "offsets.json", offsets.replace_file, [True]
    tries = []

    def replace(path: str, *rest: Any) -> None:
        tries.append(path)
        if full[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(path, *rest)

    monkeypatch.setattr(offsets, "replace_file", replace)
    talk = line(served(resting, offsets=file))
    talk.ask(HEARTBEAT, body=heartbeat("a", "G"))
    with caplog.at_level(logging.ERROR, "flintmq.broker"):
        commit(talk, 7)
        assert within(lambda: len(tries) >= 3)
    assert {one.getMessage() for one in caplog.records} == {"offsets are not saved: [Errno 28] No space left on device"}
    assert kept(talk) == 7 and not file.exists()
    full[0] = False
    assert within(file.exists) and strict(file.read_bytes())["offsetTable"] == {"T@G": {"0": 7}}


def test_all_offsets_are_the_stores_with_ours_over_them(served: Serve, shop: Path, line: Connected):
    with open_store(shop) as view:
        own = {f"{topic}@{group}": dict(to) for (topic, group), to in view.broker.consumer_offsets.items()}
    talk = line(served(shop))
    talk.ask(HEARTBEAT, body=heartbeat("a", "billing", "G"))
    commit(talk, 2, "billing", "Orders", 0)
    commit(talk, 1, "G", "Orders", 1)
    own["Orders@billing"][0], own["Orders@G"] = 2, {1: 1}
    told = strict(talk.ask(ALL).body)["offsetTable"]
    assert told == {key: {str(queue): offset for queue, offset in to.items()} for key, to in own.items()}


def test_the_stores_offsets_are_read_again(served: Serve, shop: Path, line: Connected):
    """A group that goes on elsewhere, and never was here."""
    talk = line(served(shop))
    before = kept(talk, "billing", "Orders", 0)
    config = shop / "config" / "consumerOffset.json"
    config.write_text(json.dumps({"offsetTable": {"Orders@billing": {"0": 1}}}), encoding="utf-8")
    assert before != 1 and within(lambda: kept(talk, "billing", "Orders", 0) == 1)
