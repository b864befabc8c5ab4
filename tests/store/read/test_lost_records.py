"""Answers that lack messages because the log is damaged tell so; units that are left over tell nothing."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.errors import LostLogError, MessageNotFoundError
from flintmq.forensics.salvage.in_place import plan_in_place
from flintmq.forensics.topic_tail import TopicTail
from flintmq.forensics.verify.run import verify
from flintmq.format.consume_queue import UNIT_SIZE
from flintmq.message import Message
from flintmq.store.commitlog.report import DamageKind, Report
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.commitlog.walk import LogWalk
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.read import log_map, queue_lookup
from flintmq.store.read.lost_records import MISSING, SHORT, LostRecords
from flintmq.store.read.queue_lookup import QueueLookup
from flintmq.store.view import open_store
from tests.compat.stores import Golden
from tests.support.engine import KEYS, open_small
from tests.support.makers import hurt_body

SIZE = 131072


def remove(store: Path) -> None:
    (store / "commitlog" / f"{SIZE:020}").unlink()


def empty(store: Path) -> None:
    (store / "commitlog" / f"{SIZE:020}").write_bytes(b"")


def read_all(store: Path, topic: str, report: Report) -> list[int]:
    found = []
    with open_store(store) as view:
        for queue in view.queues(topic):
            offset = 0
            while batch := view.read(topic, queue.queue_id, offset, 100, report=report):
                found += [message.physical_offset for message in batch]
                offset = batch.next_offset
    return found


@pytest.mark.parametrize(("harm", "reason"), [(remove, MISSING), (empty, SHORT)])
def test_each_unit_of_a_missing_file(harm: Callable[[Path], None], reason: str, golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    basic: Golden = golden("basic")
    store, report = basic.copy(tmp_path), Report()
    harm(store)
    found = read_all(store, "Orders", report)
    wanted = {row["physical_offset"] for row in basic.live if row["topic"] == "Orders"}
    assert {damage.offset for damage in report.damages} == wanted - set(found)
    assert report.damage_count == len(wanted) - len(found) > 0
    assert {(damage.reason, damage.kind) for damage in report.damages} == {(reason, DamageKind.GAP)}
    assert {Path(damage.file).name for damage in report.damages} == {f"{SIZE:020}"}
    assert all(damage.position == damage.offset - SIZE for damage in report.damages)


@pytest.mark.parametrize("which", [0, 200, -1])
def test_one_record_with_a_flipped_bit(which: int, golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """Also the last one, after which no message of its queue can be read."""
    basic: Golden = golden("basic")
    store, report = basic.copy(tmp_path), Report()
    row = [row for row in basic.live if row["topic"] == "Orders"][which]
    hurt_body(store, row["physical_offset"])
    found = read_all(store, "Orders", report)
    assert row["physical_offset"] not in found
    assert [damage.offset for damage in report.damages] == [row["physical_offset"]]
    with open_store(store) as view, pytest.raises(MessageNotFoundError, match="damaged or missing"):
        view.get("Orders", row["queue_id"], row["queue_offset"])


def test_a_sound_store_has_none(golden_store: Golden) -> None:
    report = Report()
    with open_store(golden_store.path, set=golden_store.config) as view:
        for queue in view.queues():
            for offset in range(queue.min_offset, queue.max_offset + 1, 50):
                list(view.read(queue.topic, queue.queue_id, offset, 50, report=report))
        for row in golden_store.live[::50]:
            for key in (row["keys"] or "").split(" "):
                view.query(row["topic"], key, report=report)
    if not golden_store.expect:
        assert not report.damages


def test_units_left_over_amid_other_records_are_no_loss(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """As after a truncation: such a unit points into a later record."""
    store, report = golden("basic").copy(tmp_path), Report()
    unit_file = store / "consumequeue" / "Orders" / "0" / f"{0:020}"
    data = bytearray(unit_file.read_bytes())
    at = 20 * UNIT_SIZE
    data[at : at + 8] = (int.from_bytes(data[at : at + 8], "big") + 3).to_bytes(8, "big")
    unit_file.write_bytes(data)
    found = read_all(store, "Orders", report)
    assert len(found) == 763, "the message is found in the log"
    assert not report.damages


def test_before_the_begin_and_after_the_end_nothing_is_lost(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store, report = golden("basic").copy(tmp_path), Report()
    (store / "commitlog" / f"{0:020}").unlink()
    lost = LostRecords(Snapshot(str(store), StoreConfig()))
    assert lost.at(100) is lost.at(1 << 40) is None
    read_all(store, "Orders", report)
    assert not report.damages, "they expired"


def test_without_queues_the_damage_of_the_log_is_told(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store, report = golden("basic").copy(tmp_path), Report()
    remove(store)
    shutil.rmtree(store / "consumequeue")
    assert len(read_all(store, "Orders", report)) == 613
    assert {(damage.offset, damage.lost, Path(damage.file).name) for damage in report.damages} == {
        (SIZE, SIZE, f"{SIZE:020}")
    }


@pytest.mark.parametrize("index", [True, False])
def test_a_key_whose_record_is_damaged(index: bool, golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    basic: Golden = golden("basic")
    store, report = basic.copy(tmp_path), Report()
    holders = [row for row in basic.live if row["topic"] == "Orders" and "k108" in (row["keys"] or "").split(" ")]
    hurt_body(store, holders[1]["physical_offset"])
    if not index:
        shutil.rmtree(store / "index")
    with open_store(store) as view:
        found = view.query("Orders", "k108", report=report)
        assert [message.physical_offset for message in found] == [
            row["physical_offset"] for row in holders if row is not holders[1]
        ]
        assert [damage.offset for damage in report.damages] == [holders[1]["physical_offset"]]
        other = Report()
        view.query("Orders", "k108", limit=1, report=other)
        assert index is False or not other.damages, "older ones are not asked for"


def test_the_end_of_a_log_without_files(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store = golden("basic").copy(tmp_path)
    with open_store(store) as view:
        view.check_end()
        for file in (store / "commitlog").iterdir():
            file.unlink()
        view.refresh()
        with pytest.raises(LostLogError):
            view.check_end()


@pytest.mark.parametrize("gone", ["Orders/0", "Orders"])
def test_queues_without_their_directory_are_found_in_the_log(gone: str, golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store = golden("basic").copy(tmp_path)
    shutil.rmtree(store / "consumequeue" / gone)
    with open_store(store) as view, open_store(golden("basic").path) as whole:
        assert view.get("Orders", 0, 3).body == whole.get("Orders", 0, 3).body
        assert view.queues() == whole.queues()


def test_no_sound_store_lacks_directories(golden_store: Golden) -> None:
    with open_store(golden_store.path, set=golden_store.config) as view:
        missing = {len(name.topic.encode()) for name in view._now.without_files()}
    # There RocketMQ takes a record with a topic of more than 127 bytes for the end of its log, so its queue has none.
    assert missing == ({150} if golden_store.path.name == "poison" else set())


def test_no_sound_store_lacks_units_or_its_end(golden_store: Golden) -> None:
    with open_store(golden_store.path, set=golden_store.config) as view:
        view.check_end()
        hidden = [name for name in view._now.names() if view._now.lost_outside(name) is not None]
    assert not hidden


def test_a_deleted_topic_is_not_missed(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """RocketMQ takes it out of topics.json with its directories; its records expire later."""
    store = golden("basic").copy(tmp_path)
    shutil.rmtree(store / "consumequeue" / "Orders")
    (store / "config").mkdir()
    (store / "config" / "topics.json").write_text('{"topicConfigTable": {"Payments": {"topicName": "Payments"}}}')
    with open_store(store) as view:
        assert not view.read_log_of("Orders")
        with pytest.raises(MessageNotFoundError, match="no such topic"):
            view.get("Orders", 0, 3)


def test_a_queue_that_the_last_clean_stop_recorded(tmp_path: Path) -> None:
    """Its messages are before the last megabytes of the log."""
    with open_small(tmp_path) as store:
        store.put(Message("Early", b"x"))
        store.wait_dispatched(60)
    shutil.rmtree(tmp_path / "consumequeue" / "Early")
    lookup = QueueLookup(Snapshot(str(tmp_path), StoreConfig.of(None, KEYS)))
    assert not lookup.has_files  # of a store without any queue the log is read
    with open_small(tmp_path) as store:
        for number in range(20):
            store.put(Message("Late", b"y" * 1000, queue_id=number % 2))
        store.wait_dispatched(60)
    shutil.rmtree(tmp_path / "consumequeue" / "Early")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queue_lookup, "SEGMENT_BYTES", 2000)
        with open_store(tmp_path, set=KEYS) as view:
            assert view._now.without_files() == {("Early", 0)}
            assert view.get("Early", 0, 0).body == b"x"


def test_a_configured_queue_without_files(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store = golden("basic").copy(tmp_path)
    (store / "config").mkdir()
    table = {"topicConfigTable": {"Idle": {"topicName": "Idle", "readQueueNums": 2, "writeQueueNums": 2}}}
    (store / "config" / "topics.json").write_text(json.dumps(table))
    with open_store(store) as view:
        with pytest.raises(MessageNotFoundError, match="configured and has no queue files.*flintmq rebuild"):
            view.get("Idle", 1, 0)
        with pytest.raises(MessageNotFoundError, match="no such topic"):
            view.get("Idle", 2, 0)
        with pytest.raises(MessageNotFoundError, match="configured and has no queue files"):
            TopicTail(view, "Idle")


def test_a_unit_that_salvage_led_to_the_next_message_is_no_damage(tmp_path: Path):
    with open_small(tmp_path) as store:
        lost = [store.put(Message("T", b"body %d" % n)).physical_offset for n in range(9)][4]
        assert store.wait_dispatched(60)
    hurt_body(tmp_path, lost)
    config = StoreConfig.from_keys(KEYS)
    with plan_in_place(str(tmp_path), config) as mending:
        mending.carry_out()
    assert not verify(str(tmp_path), config).defects
    report = Report()
    with open_store(tmp_path) as view:
        found = [message.body for message in view.read("T", 0, 0, 20, report=report)]
    assert found == [b"body %d" % n for n in range(9) if n != 4] and not report.damage_count


def test_a_queue_whose_messages_have_expired_costs_no_search_of_the_log(tmp_path: Path, monkeypatch):
    """Idle topics are many, and logs long."""
    with open_small(tmp_path, mappedFileSizeCommitLog=4096) as store:
        for topic, count in (("Old", 3), ("New", 57)):
            for n in range(count):
                store.put(Message(topic, b"%d" % n * 100))
        assert store.wait_dispatched(60)
    min((tmp_path / "commitlog").iterdir()).unlink()
    monkeypatch.setattr(queue_lookup, "find_from", lambda *words: pytest.fail("the log is searched"))
    with open_store(tmp_path) as view:
        assert view.bounds("Old", 0) == (3, 3)
        assert [view._now.lost_outside(QueueName(topic, 0)) for topic in ("Old", "New")] == [None, None]


def test_queues_without_a_unit_cost_one_pass_of_the_log(tmp_path: Path, monkeypatch):
    """Of thirty such queues two had messages once, one of them long ago."""
    with open_small(tmp_path, mappedFileSizeCommitLog=4096) as store:
        for topic, count in (("Early", 2), ("Busy", 80), ("Late", 1), ("Busy", 3)):
            for n in range(count):
                store.put(Message(topic, b"%d" % n * 100, queue_id=0))
        assert store.wait_dispatched(60)
    for topic in ("Early", "Late"):
        for file in (tmp_path / "consumequeue" / topic / "0").iterdir():
            file.unlink()
    idle = [QueueName(f"Idle{n}", 0) for n in range(28)]
    for name in idle:
        (tmp_path / "consumequeue" / name.topic / "0").mkdir(parents=True)
    read = []

    class Counted(LogWalk):
        def __init__(self, log, *words, begin=None, end=None, **named):
            read.append((end or 0) - (begin or 0))
            super().__init__(log, *words, begin=begin, end=end, **named)

    with open_store(tmp_path) as view:
        assert view._now._tail().begin == view.max_physical_offset
        monkeypatch.setattr(log_map, "SEGMENT_BYTES", 2000)
        monkeypatch.setattr(log_map, "LogWalk", Counted)
        lost = {name: view._now.lost_outside(name) for name in [QueueName("Early", 0), QueueName("Late", 0), *idle]}
        early, late, *others = lost.values()
        assert early is not None and late is not None and others == [None] * 28
        records = {message.topic: message.physical_offset for message in view.messages()}
        assert (early.offset, late.offset) == (0, records["Late"]) and early.kind is DamageKind.END
        assert sum(read) < view.max_physical_offset - view.min_physical_offset + 10_000
