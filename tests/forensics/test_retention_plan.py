"""What retention would do, against what the engine then does, and against what the log holds."""

import os
import shutil

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.errors import UsageError
from flintmq.forensics.retention_plan import LAST, Known, explain, plan_of
from flintmq.message import Message
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.read.queue_lookup import QueueLookup
from flintmq.store.view import open_store
from tests.store.services.test_retention import HOUR, Disk, at_hour, filled, log_files, put_all
from tests.support.engine import FILE_SIZE, KEYS, open_small

CONFIG = StoreConfig.from_keys(KEYS)


def numbers(plan, moment):
    return [fate.start // FILE_SIZE for fate in plan.files if fate.when == moment]


@pytest.mark.parametrize(
    ("used", "hour", "later"),
    [(50, 4, 88), (50, 5, 89), (50, 4, 64), (75, 12, 96), (76, 12, 96), (76, 12, 24), (86, 12, 0), (91, 12, 0)],
)
def test_what_goes_now_is_what_the_engine_deletes(tmp_path, used, hour, later):
    disk = Disk(used=used)
    with filled(tmp_path, disk) as store:
        disk.clock = at_hour(12) + later * HOUR
        plan = explain(tmp_path, CONFIG, effects=disk)
        assert plan.at == disk.clock and plan.used == used and plan.refuses_puts == (used > 90)
        before = log_files(store)
        store._parts.retention.clean_once()
        assert numbers(plan, plan.at) == [n for n in before if n not in log_files(store)]
        if plan.next_when == plan.at:
            assert plan.log_begin == store._parts.files.min_offset
        assert plan.files[-1].rule == LAST


def test_what_goes_later_goes_then(tmp_path):
    disk = Disk()
    with filled(tmp_path, disk) as store:
        plan = explain(tmp_path, CONFIG, effects=disk)
        assert plan.now == "" and plan.next_when is not None and plan.next_files == 5
        disk.clock = plan.next_when - 1
        store._parts.retention.clean_once()
        assert len(log_files(store)) == 6, "not before"
        disk.clock = plan.next_when
        assert explain(tmp_path, CONFIG, effects=disk).now == "an hour of deleteWhen"
        store._parts.retention.clean_once()
        assert log_files(store) == [5]


def test_queues_and_index_that_follow(tmp_path):
    disk = Disk(used=86)
    with filled(tmp_path, disk, files=12) as store:

        def count():
            return [len([f for _, _, names in os.walk(tmp_path / name) for f in names]) for name in
                    ("consumequeue", "index")]  # fmt: skip

        plan, before = explain(tmp_path, CONFIG.with_keys({"deleteFileBatchMax": 10}), effects=disk), count()
        for _ in range(3):
            store._parts.retention.clean_once()
        assert [plan.queue_files, plan.index_files] == [a - b for a, b in zip(before, count(), strict=True)]
        assert plan.queue_files > 0 and plan.next_files == 11


def test_who_has_not_read_it(tmp_path):
    disk = Disk(used=86)
    with open_small(tmp_path, disk, enableLmq=True, enableMultiDispatch=True) as store:
        for n in range(40):
            light = {"INNER_MULTI_DISPATCH": "%LMQ%l"} if n % 8 == 0 else None
            store.put(Message("T" if n % 4 else "U", bytes(700), queue_id=n % 2, properties=light))
        store.commit_offset("G", "T", 1, 3)
        store.commit_offset("H", "T", 1, 1000)
        store.commit_offset("H", "T", 0, 0)
        assert store.wait_dispatched(60)
    keys = CONFIG.with_keys({"enableLmq": True, "enableMultiDispatch": True})
    plan = explain(tmp_path, keys, effects=disk)
    gone: dict[tuple[str, int], int] = {}
    with open_store(tmp_path, config=keys) as view:
        for message in view.messages():
            if message.physical_offset < plan.log_begin:
                places = [(message.topic, message.queue_id)]
                places += [("%LMQ%l", 0)] if "INNER_MULTI_DISPATCH" in message.properties else []
                for place in places:
                    gone[place] = gone.get(place, 0) + 1
    found = {(row.topic, row.queue_id, row.group): (row.messages, row.committed, row.unread) for row in plan.unread}
    t0, t1, u, light = gone["T", 0], gone["T", 1], gone["U", 0], gone["%LMQ%l", 0]
    assert found == {
        ("T", 0, "G"): (t0, None, t0),
        ("T", 1, "G"): (t1, 3, t1 - 3),
        ("T", 0, "H"): (t0, 0, t0),
        ("T", 1, "H"): (t1, 1000, 0),
        ("U", 0, None): (u, None, u),
        ("%LMQ%l", 0, None): (light, None, light),
    }


def test_what_is_kept_from_plan_to_plan_changes_nothing(tmp_path):
    """Where queues are cut is kept, while messages come, more files are due and files go."""
    disk, known = Disk(used=50), Known()
    with filled(tmp_path, disk, files=4) as store:
        store.commit_offset("G", "T", 0, 2)
        for later in (0, 1, 2):
            for used in (50, 86):
                lookup = QueueLookup(Snapshot.open(tmp_path, CONFIG, disk))
                kept = plan_of(lookup, used=used, known=known)
                fresh = explain(tmp_path, CONFIG, used=used, effects=disk)
                assert kept == fresh and sum(row.messages for row in fresh.unread) > 0
                assert known.cuts
            put_all(store, 20, 1000 + 20 * later, size=700)
            assert store.wait_dispatched(60)
            disk.used = 86 if later else 50
            store._parts.retention.clean_once()


def test_batch_queues_and_delayed_messages(golden):
    config = StoreConfig.from_keys({"deleteWhen": "4"})
    plan = explain(golden("config").path, config, used=99)
    delayed = {row.queue_id: row for row in plan.unread if row.topic == "SCHEDULE_TOPIC_XXXX"}
    assert delayed and all(row.group == "(delayed delivery)" for row in delayed.values())
    with open_store(golden("config").path) as view:
        bulk = [(i.queue_id, i.min_offset) for i in view.queues("Bulk")]
        for queue_id, first in bulk:
            went = [m for m in view.messages() if (m.topic, m.queue_id) == ("Bulk", queue_id)]
            low = min(
                (m.queue_offset for m in went if m.physical_offset >= plan.log_begin),
                default=next(i.max_offset for i in view.queues("Bulk") if i.queue_id == queue_id),
            )
            told = sum(row.messages for row in plan.unread if (row.topic, row.queue_id) == ("Bulk", queue_id))
            assert told == low - first


def test_a_file_that_stays_keeps_those_behind_it(tmp_path):
    disk = Disk()
    with filled(tmp_path, disk):
        pass
    first = sorted((tmp_path / "commitlog").iterdir())[0]

    class Young(Disk):
        def modified_ms(self, path):
            return super().modified_ms(path) + (48 * HOUR if path == str(first) else 0)

    plan = explain(tmp_path, CONFIG, at_ms=at_hour(12), effects=Young())
    assert len({fate.when for fate in plan.files[:-1]}) == 1, "the old ones wait for the young one before them"
    never = explain(tmp_path, CONFIG.with_keys({"deleteWhen": "x"}), effects=disk)
    assert never.next_when is None and never.next_files == 0 and never.unread == []
    assert "no hour in deleteWhen" in never.files[0].rule


def test_stores_that_are_empty_or_elsewhere(tmp_path):
    (tmp_path / "s" / "commitlog").mkdir(parents=True)
    plan = explain(tmp_path / "s", CONFIG)
    assert plan.files == [] and plan.next_when is None
    with pytest.raises(UsageError):
        explain("s3://bucket/store", CONFIG)


@pytest.mark.parametrize("kind", ["none left", "one topic left", "queues in RocksDB"])
def test_queues_without_files_are_counted_from_the_log(tmp_path, kind):
    """As with their files: what a group has not read is said, whatever became of the queues."""
    disk = Disk(used=50)
    with filled(tmp_path, disk) as store:
        put_all(store, 3, topic="Other")
        store.commit_offset("g", "T", 0, 3)
        store.commit_offset("g", "Other", 0, 3)
        assert store.wait_dispatched(60)
    disk.clock += 1000 * HOUR
    plan = explain(tmp_path, CONFIG, effects=disk)
    assert plan.next_files and plan.unread and not plan.unknown
    due = {(row.topic, row.queue_id, row.group): (row.messages, row.unread) for row in plan.unread}
    shutil.rmtree(tmp_path / "consumequeue" / ("T" if kind == "one topic left" else ""))
    if kind == "queues in RocksDB":
        (tmp_path / "consumequeue").mkdir()
        (tmp_path / "consumequeue" / "CURRENT").write_text("MANIFEST-000004\n")
    for known in (Known(), None):
        found = plan_of(QueueLookup(Snapshot.open(tmp_path, CONFIG, disk)), known=known)
        assert {(r.topic, r.queue_id, r.group): (r.messages, r.unread) for r in found.unread} == due


def test_offsets_that_cannot_be_read_are_not_taken_for_consumed(tmp_path):
    disk = Disk(used=50)
    with filled(tmp_path, disk) as store:
        store.commit_offset("g", "T", 0, 3)
    for name in ("consumerOffset.json", "consumerOffset.json.bak"):
        (tmp_path / "config" / name).write_text("{")
    plan = explain(tmp_path, CONFIG, effects=disk)
    assert any("consumerOffset.json" in text for text in plan.unknown)
    assert all(row.group is None for row in plan.unread)


@pytest.mark.parametrize("at", [-999_999_999 * 86_400_000, -62_135_596_800_001, 253_402_300_800_000, 2**63 - 1])
def test_a_year_that_no_calendar_has_is_refused(tmp_path, at):
    with open_small(tmp_path) as store:
        store.put(Message("T", b"x"))
    with pytest.raises(UsageError, match="no calendar"):
        explain(tmp_path, CONFIG, at)


@pytest.mark.parametrize("at", [-62_000_000_000_000, 253_370_764_800_000])
def test_at_the_ends_of_the_calendar(tmp_path, at):
    with open_small(tmp_path) as store:
        store.put(Message("T", b"x"))
    assert explain(tmp_path, CONFIG, at).at == at
