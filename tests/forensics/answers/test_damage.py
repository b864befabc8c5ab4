"""What is lost or damaged beside the log: each answer that may be wrong says so, and is not silent."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq import GroupSettings, Message, MessageStore
from flintmq.cluster.member import Member
from flintmq.config.keys import StoreConfig
from flintmq.forensics.answers.dead import dead
from flintmq.forensics.answers.halves import halves
from flintmq.forensics.answers.timers import timers
from tests.compat.stores import FOLDER, Golden, read_lines
from tests.support.engine import open_small
from tests.support.makers import config_of

LOG, CHECK = "timerlog/00000000000000000000", "config/timercheck"


def cut(*names: str, size: int = 0) -> Callable[[Path], None]:
    def truncate(root: Path) -> None:
        for name in names:
            os.truncate(root / name, size)

    return truncate


def removed(*names: str) -> Callable[[Path], None]:
    def remove(root: Path) -> None:
        for name in names:
            for path in root.glob(name):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    return remove


def written(name: str, data: bytes, at: int = 0) -> Callable[[Path], None]:
    def write(root: Path) -> None:
        with open(root / name, "r+b") as file:
            file.seek(at)
            file.write(data)

    return write


def unmounted(root: Path) -> None:
    shutil.rmtree(root / "config")
    (root / "config").symlink_to(root / "nowhere")


def numbers(*values: int) -> bytes:
    return b"".join(value.to_bytes(8, "big") for value in values)


CHECKED = 1795167354000, 5824, 111
"""The first numbers of the timercheck that RocketMQ wrote (test_inspect.py has the last two)."""
TIMER_LOG_DAMAGE = {
    "no folder": removed("timerlog"),
    "no files": removed("timerlog/*"),
    "no first file": removed(LOG),
    "no second file": removed("timerlog/00000000000000005200"),
    "files of 0 bytes": cut(LOG, "timerlog/00000000000000005200"),
    "files of 100 bytes": cut(LOG, "timerlog/00000000000000005200", size=100),
    "garbage": written(LOG, bytes(range(7, 247)) * 17),
    "zeros in the middle": written(LOG, bytes(52), at=52 * 40),
}
CHECK_DAMAGE = {
    "none": removed(CHECK),
    "empty": cut(CHECK),
    "30 bytes": cut(CHECK, size=30),
    "zeros": written(CHECK, bytes(56)),
    "negative": written(CHECK, b"\xff"),
    "beyond the queue": written(CHECK, numbers(*CHECKED[:2], 112, 112)),
    "from later": written(CHECK, numbers(CHECKED[0] + 40 * 3_600_000)),
    "from before": written(CHECK, numbers(1795160000000, 0, 0, 0, 0, 1795160000000)),
}


@pytest.mark.parametrize("kind", TIMER_LOG_DAMAGE)
def test_a_damaged_timer_log_is_said(golden: Callable[[str], Golden], tmp_path: Path, kind: str):
    store, root = golden("timer"), golden("timer").copy(tmp_path)
    waited, arrived = ({row["msg_id"] for row in store.rows if row["topic"] == name} for name in
                       ("rmq_sys_wheel_timer", "Timed"))  # fmt: skip
    TIMER_LOG_DAMAGE[kind](root)
    found = timers([Member(str(root), "")])
    assert {row.msg_id for row in found.rows} < waited - arrived, "some are hidden, and none is added"
    assert found.report.damage_count and f"{root}/timerlog: it lacks messages that wait" in found.notes[0]
    assert not found.is_cut


@pytest.mark.parametrize("kind", CHECK_DAMAGE)
def test_a_wrong_timercheck_is_said(golden: Callable[[str], Golden], tmp_path: Path, kind: str):
    store, root = golden("timer"), golden("timer").copy(tmp_path)
    assert (root / CHECK).read_bytes()[:24] == numbers(*CHECKED)
    CHECK_DAMAGE[kind](root)
    found = timers([Member(str(root), "")], config_of(store))
    assert found.report.damage_count and found.notes[0].startswith(f"{root}/config/timercheck: it ")


def test_a_timer_log_whose_lost_part_was_delivered_hides_nothing(golden: Callable[[str], Golden], tmp_path: Path):
    """All is delivered by the time of the check, and the copies of it in their topics are stored later."""
    store, root = golden("timer"), golden("timer").copy(tmp_path)
    due = max(int(row["properties"].get("TIMER_OUT_MS", 0)) for row in store.rows)
    written(CHECK, numbers(due + 1))(root)
    removed("timerlog")(root)
    found = timers([Member(str(root), "")], config_of(store))
    assert (found.rows, found.notes, found.report.damage_count) == ([], [], 0)


@pytest.mark.parametrize("kind", ["whole", "killed"])
def test_a_store_of_our_own_lacks_no_file(tmp_path: Path, kind: str):
    """Nobody has consumed, nothing was delivered: FlintMQ wrote no such file."""
    root = tmp_path / "store"
    with open_small(root) as store:
        store.put(Message("T", b"x", delay_level=18))
        store.put(Message("T", b"x", properties={"TIMER_DELAY_SEC": "1000"}))
        assert store.wait_dispatched(60)
        if kind == "killed":
            shutil.copytree(root, tmp_path / "copy")
            root = tmp_path / "copy"
            removed("config", "timerlog")(root)
    assert not (root / "config/delayOffset.json").exists()
    found = timers([Member(str(root), "")])
    assert (len(found.rows), found.notes, found.report.damage_count) == (2, [], 0)
    assert halves([Member(str(root), "")]).notes == []


def cut_to(size: int) -> Callable[[str], Callable[[Path], None]]:
    def of(name: str) -> Callable[[Path], None]:
        def both(root: Path) -> None:
            removed(f"config/{name}.bak")(root)
            cut(f"config/{name}", size=size)(root)

        return both

    return of


CONFIG_DAMAGE: dict[str, Callable[[str], Callable[[Path], None]]] = {
    "removed": lambda name: removed(f"config/{name}*"),
    "empty": cut_to(0),
    "cut": cut_to(30),
    "config removed": lambda name: removed("config"),
    "config unmounted": lambda name: unmounted,
}


@pytest.mark.parametrize("kind", CONFIG_DAMAGE)
def test_lost_offsets_are_said_where_they_change_rows(golden: Callable[[str], Golden], tmp_path: Path, kind: str):
    store = golden("config")
    config = config_of(store)
    script = read_lines(FOLDER / "config.ops.jsonl")
    unknown = sum(op.get("outcome") == "UNKNOW" for op in script)
    root = store.copy(tmp_path)
    member = [Member(str(root), "")]
    CONFIG_DAMAGE[kind]("delayOffset.json")(root)
    delayed = timers(member, config)
    waited = sum(row["topic"] == "SCHEDULE_TOPIC_XXXX" for row in store.rows)
    assert len(delayed.rows) == waited == 3, "all, of which RocketMQ delivered two"
    assert delayed.report.damage_count and "delayOffset.json" in delayed.notes[0]
    shutil.rmtree(root)
    root = store.copy(tmp_path)
    CONFIG_DAMAGE[kind]("consumerOffset.json")(root)
    found = halves(member, config)
    assert len(found.rows) > unknown == 3
    assert found.report.damage_count and any("consumerOffset.json" in note for note in found.notes)


@pytest.mark.parametrize(("table", "level"), [("3:0,18:99", 18), ("3:3,18:0", 3), ("5:1", 5), ("3:-2", 3)])
def test_a_delay_offset_outside_its_queue_is_said(
    golden: Callable[[str], Golden], tmp_path: Path, table: str, level: int
):
    """RocketMQ has two messages in level 3, one in level 18, and none in level 5."""
    store, root = golden("config"), golden("config").copy(tmp_path)
    (root / "config/delayOffset.json").write_text(f'{{"offsetTable":{{{table}}}}}')
    found = timers([Member(str(root), "")], config_of(store))
    assert found.report.damage_count and f"delay level {level} has the offset" in found.notes[0]


def letters(root: Path) -> MessageStore:
    """Five dead letters of a group that has one retry."""
    store = MessageStore(root, dev=True)
    store.create_group("G", GroupSettings(retry_max_times=1))
    for n in range(5):
        store.put(Message("T", b"body", keys=f"k{n}", queue_id=0))
    assert store.wait_dispatched(60)
    with store.consumer("G", "T", retries=True) as consumer:
        got = 0
        while got < 5:
            for message in consumer.poll(32, 1000):
                consumer.dead(message)
                got += 1
    assert store.wait_dispatched(60)
    return store


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("what", ["topic", "body length", "all"])
def test_a_damaged_dead_letter_is_said_and_no_limit_shows_it(tmp_path: Path, number: int, what: str):
    with letters(tmp_path):
        pass
    row = dead([Member(str(tmp_path), "")]).rows[number]
    file = tmp_path / "commitlog/00000000000000000000"
    data = file.read_bytes()
    at = {"topic": data.index(b"%DLQ%G", row.physical_offset) + 5, "body length": row.physical_offset + 84,
          "all": row.physical_offset + 4}[what]  # fmt: skip
    written(str(file.relative_to(tmp_path)), b"X" * (80 if what == "all" else 1), at)(tmp_path)
    for limit in (4, 5, 100):
        found = dead([Member(str(tmp_path), "")], limit=limit)
        assert {one.keys for one in found.rows} == {f"k{n}" for n in range(5)} - {row.keys}
        assert not found.is_cut
        assert found.report.damage_count
    assert dead([Member(str(tmp_path), "")], limit=3).is_cut


def test_retries_are_not_stated_without_the_groups_settings(tmp_path: Path):
    with letters(tmp_path):
        pass
    assert {row.reason for row in dead([Member(str(tmp_path), "")]).rows} == {
        "given back as a dead letter after 0 of 1 retries"
    }
    removed("config/subscriptionGroup.json*")(tmp_path)
    assert {row.reason for row in dead([Member(str(tmp_path), "")]).rows} == {
        "given back after 0 retries; how many its group has is not known"
    }


def test_retries_without_files_are_found_in_the_log(
    golden: Callable[[str], Golden], tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    store, root, topic = golden("config"), golden("config").copy(tmp_path), "%RETRY%TradeGroup"
    shutil.rmtree(root / "consumequeue" / topic)
    found = dead([Member(str(root), "")], config_of(store), retries=True)
    java = [row["physical_offset"] for row in store.rows if row["topic"] == topic]
    assert [row.physical_offset for row in found.rows] == sorted(java) and java
    assert "not counted" not in caplog.text


def test_what_damage_hides_is_no_more(golden: Callable[[str], Golden], tmp_path: Path):
    """A timer whose record is damaged: 86 of 87 are there, and no limit shows the other."""
    store, root = golden("timer"), golden("timer").copy(tmp_path)
    config: StoreConfig = config_of(store)
    waiting = timers([Member(str(root), "")], config).rows
    written("commitlog/00000000000000000000", b"\xff" * 30, waiting[3].physical_offset + 90)(root)
    for limit in (87, 100, None):
        found = timers([Member(str(root), "")], config, limit=limit)
        assert (len(found.rows), found.is_cut) == (86, False) and found.report.damage_count
    assert timers([Member(str(root), "")], config, limit=85).is_cut
