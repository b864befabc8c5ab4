import os
import shutil
import struct
from pathlib import Path

import pytest

from flintmq import Message, MessageStore, open_store
from flintmq.config.keys import StoreConfig
from flintmq.errors import MessageNotFoundError
from flintmq.format.consume_queue import UNIT, UNIT_SIZE, Unit
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.consumequeue.reader import plain_queue
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.read import queue_lookup
from flintmq.store.read.queue_lookup import Bounds, QueueLookup
from flintmq.store.view import StoreView
from tests.support.engine import FILE_SIZE, open_small, put_all, put_dispatched, stored
from tests.support.makers import patch

PLAIN = StoreConfig()
# Where Java's own bounds are not the measure (golden/README.md): a ghost unit is counted, and the records behind the
# poisoned one are cut away.
RIGHT = {
    "stale": {("Stale", 1): (0, 97)},
    "poison": {("Fine", 0): (0, 9), ("Fine", 1): (0, 8)},
}


def lookup(path):
    return QueueLookup(Snapshot(str(path), PLAIN))


def queue_file(path, name, start=0):
    return path / "consumequeue" / name.topic / str(name.queue_id) / f"{start:020d}"


def rows_of(store, name):
    return [row for row in store.live if (row["topic"], row["queue_id"]) == name and row["sys_flag"] & 12 in (0, 8)]


def check(found, store, names=None):
    """Every message of these queues is found at its offset, and the bounds are those of the rows."""
    for name in names or {QueueName(row["topic"], row["queue_id"]) for row in store.live}:
        rows = rows_of(store, name)
        for row in rows[:: max(1, len(rows) // 40)]:
            assert found.message(name, row["queue_offset"]).physical_offset == row["physical_offset"]
        if rows:
            assert found.bounds(name)[:2] == (rows[0]["queue_offset"], rows[-1]["queue_offset"] + 1)


@pytest.mark.parametrize("bare", [False, True], ids=["with queues", "log alone"])
def test_bounds_are_javas(golden_store, tmp_path, bare):
    path = golden_store.path
    if bare:
        path = tmp_path
        shutil.copytree(golden_store.path / "commitlog", path / "commitlog")
    found = lookup(path)
    want = {(q["topic"], q["queue_id"]): (q["min"], q["max"]) for q in golden_store.queue_rows if q["kind"] == "queue"}
    want |= RIGHT.get(golden_store.name, {})
    got = {tuple(name): found.bounds(name)[:2] for name in found.names()}
    if bare and golden_store.name == "rolled":  # nothing of it is left in the log
        del want["Early", 0], want["Early", 1]
    if bare and golden_store.name == "poison":  # Java has skipped the record of this queue for good
        assert got.pop(("长" * 50, 0)) == (0, 1)
    assert got == want


def test_types(golden, tmp_path):
    for name in ("batch", "config", "config540", "config550"):
        store = golden(name)
        want = {q["topic"]: q["type"] for q in store.queue_rows if q["kind"] == "queue"}
        assert {topic: lookup(store.path).type_of(topic) for topic in want} == want
    shutil.copytree(golden("batch").path / "commitlog", tmp_path / "commitlog")
    assert lookup(tmp_path).type_of("BatchTopic") == "BatchCQ"  # its inner batches tell


@pytest.mark.parametrize("bare", [False, True], ids=["with queues", "log alone"])
def test_every_offset_inside_an_inner_batch_leads_to_its_record(golden, tmp_path, bare):
    store = golden("batch")
    path = store.path
    if bare:
        shutil.copytree(path / "commitlog", tmp_path / "commitlog")
        path = tmp_path
    found = lookup(path)
    for row in rows_of(store, ("BatchTopic", 0)):
        for offset in range(row["queue_offset"], row["queue_offset"] + int(row["properties"].get("INNER_NUM", 1))):
            assert found.message(QueueName("BatchTopic", 0), offset).physical_offset == row["physical_offset"]
    assert found.message(QueueName("BatchTopic", 0), 210) is None
    assert found.message(QueueName("BatchTopic", 0), -1) is None


def test_messages_of_light_queues(golden):
    store = golden("lmq")
    found, count = lookup(store.path), 0
    for row in store.rows:
        names = row["properties"].get("INNER_MULTI_DISPATCH", "").split(",")
        offsets = row["properties"].get("INNER_MULTI_QUEUE_OFFSET", "").split(",")
        for topic, offset in zip(names, offsets, strict=True):
            if topic:
                message = found._by_unit(QueueName(topic, 0), int(offset))
                assert message.physical_offset == row["physical_offset"]
                count += 1
    assert count == sum(q["max"] for q in store.queue_rows if q["kind"] == "queue" and q["topic"].startswith("%LMQ%"))


def test_a_hole_in_a_queue_is_filled_from_the_log(golden, tmp_path):
    store = golden("basic")
    copy, name = store.copy(tmp_path), QueueName("Orders", 0)
    patch(queue_file(copy, name), 20 * 3, bytes(20 * 5))
    patch(queue_file(copy, name), 20 * 12, struct.pack(">qiq", 17, 100, 0))  # leads into a record
    patch(queue_file(copy, name), 20 * 14, struct.pack(">qiq", 0, 306, 0))  # leads to another queue's record
    check(lookup(copy), store, [name])


def test_the_first_and_the_last_unit_wrong(golden, tmp_path):
    store = golden("basic")
    copy, name = store.copy(tmp_path), QueueName("Orders", 0)
    last = rows_of(store, name)[-1]["queue_offset"]
    patch(queue_file(copy, name), 0, struct.pack(">qiq", 17, 100, 0))
    patch(queue_file(copy, name, last // 100 * 2000), last % 100 * 20, struct.pack(">qiq", 17, 100, 0))
    found = lookup(copy)
    assert found.message(name, 0).physical_offset == rows_of(store, name)[0]["physical_offset"]
    # The last one is taken for a ghost: the bytes do not tell it from one.
    assert found.bounds(name)[:2] == (0, last)


def test_units_at_shifted_places(golden, tmp_path):
    """RocketMQ appends behind lost units (store format 6.3): from there on, place and queue offset differ."""
    store = golden("basic")
    copy, name = store.copy(tmp_path), QueueName("Orders", 0)
    folder = queue_file(copy, name).parent
    files = sorted(folder.iterdir())
    units = b"".join(file.read_bytes() for file in files)
    units = units[: 20 * 50] + units[20 * 53 :] + bytes(60)
    for file in files:
        file.write_bytes(units[int(file.name) : int(file.name) + 2000])
    check(lookup(copy), store, [name])


def test_ghosts_behind_the_end_do_not_count(golden):
    found, name = lookup(golden("stale").path), QueueName("Stale", 1)
    assert found.bounds(name)[:2] == (0, 97)
    assert found.message(name, 96) is not None and found.message(name, 97) is None


def test_pre_blank_units_do_not_count(golden, tmp_path):
    store = golden("basic")
    copy, name = store.copy(tmp_path), QueueName("Orders", 0)
    patch(queue_file(copy, name), 0, struct.pack(">qiq", 0, 0x7FFFFFFF, 0) * 8)
    found = lookup(copy)
    assert found.bounds(name)[:2] == (8, 185)
    assert found.message(name, 7) is None and found.message(name, 8) is not None
    patch(queue_file(copy, name), 0, struct.pack(">qiq", 0, 0x7FFFFFFF, 0) * 100)
    for file in sorted(queue_file(copy, name).parent.iterdir())[1:]:
        file.unlink()
    assert lookup(copy).file_bounds(name) == (0, 0, 0)


def test_records_that_are_not_dispatched_yet(golden, tmp_path):
    """Queue files as they were a moment before the log: cut by a few units, one queue missing altogether."""
    store = golden("basic")
    copy = store.copy(tmp_path)
    late = store.rows[-30:]
    for row in late:
        at = row["queue_offset"] * 20
        file = queue_file(copy, QueueName(row["topic"], row["queue_id"]), at // 2000 * 2000)
        patch(file, at % 2000, bytes(20))
    found = lookup(copy)
    check(found, store)
    assert found.dispatched_end() <= late[0]["physical_offset"]


def test_lost_pages_of_a_queue_after_a_crash(golden, tmp_path):
    """One queue lost its last units, the others did not: the log gives what the checkpoint does not vouch for."""
    store = golden("basic")
    copy, name = store.copy(tmp_path), QueueName("Orders", 0)
    for file in sorted(queue_file(copy, name).parent.iterdir())[1:]:
        file.write_bytes(bytes(2000))
    assert lookup(copy).bounds(name).max == 100  # a clean stop: nothing can be lost
    (copy / "abort").write_bytes(b"1")
    check(lookup(copy), store)


def test_expired_queues_are_empty_but_keep_their_offsets(golden):
    found = lookup(golden("rolled").path)
    assert found.bounds(QueueName("Early", 0))[:2] == (31, 31)
    assert found.message(QueueName("Early", 0), 30) is None


def test_a_store_without_a_log_file(golden, tmp_path):
    copy = golden("basic").copy(tmp_path)
    shutil.rmtree(copy / "commitlog")
    os.mkdir(copy / "commitlog")
    found = lookup(copy)
    assert {found.bounds(name)[:2] for name in found.names()} == {(0, 0)}
    assert found.message(QueueName("Orders", 0), 0) is None


def test_unknown_queues(golden):
    found = lookup(golden("basic").path)
    for name in (QueueName("none", 0), QueueName("Orders", 99), QueueName("../x", 0), QueueName("", 0)):
        assert found.message(name, 0) is None
        assert found.bounds(name) == (0, 0, 0)


def test_what_is_known_of_the_log_is_taken_over(golden, tmp_path, monkeypatch):
    store = golden("basic")
    shutil.copytree(store.path / "commitlog", tmp_path / "commitlog")
    before = lookup(tmp_path)
    assert len(before.names()) == 16
    after = QueueLookup(before.snapshot.again(), before)
    monkeypatch.setattr("flintmq.store.read.queue_lookup.LogMap", lambda *_: pytest.fail("made anew"))
    check(after, store)


# -- The units that a view keeps are hints: whatever becomes of them in their files, it answers from the log -----------


def filled(root: Path, count: int = 30) -> Path:
    """Make a store with one queue file of 100 units; return the path of that."""
    stored(root, count, mappedFileSizeConsumeQueue=2000)
    return root / "consumequeue" / "T" / "0" / ("0" * 20)


def offsets(view: StoreView, first: int, count: int) -> list[int]:
    return [message.queue_offset for message in view.read("T", 0, first, count)]


@pytest.mark.parametrize("access", ["pread", "map"])
@pytest.mark.parametrize(
    "unit", [bytes(20), UNIT.pack(Unit(0, 128, 0)), UNIT.pack(Unit(1 << 40, 128, 0)), UNIT.pack(Unit(0, 0x7FFFFFFF, 0))]
)
def test_a_kept_unit_that_is_wrong_is_read_again(tmp_path: Path, unit: bytes, access: str):
    """Its file was mended since the view read it."""
    path = filled(tmp_path)
    right = path.read_bytes()
    path.write_bytes(right[:100] + unit + right[120:])
    with open_store(tmp_path, access=access) as view:
        assert view.get("T", 0, 4).queue_offset == 4  # the block is kept from now on
        path.write_bytes(right)
        assert view.get("T", 0, 5).queue_offset == 5
        assert offsets(view, 0, 30) == list(range(30)) and offsets(view, 5, 1) == [5]


def test_a_unit_that_becomes_wrong_changes_no_answer(tmp_path: Path):
    path = filled(tmp_path)
    with open_store(tmp_path) as view:
        before = view.get("T", 0, 5)
        path.write_bytes(bytes(2000))
        assert view.get("T", 0, 5) == before and offsets(view, 3, 4) == [3, 4, 5, 6]
        path.unlink()
        assert view.get("T", 0, 5) == before and offsets(view, 3, 4) == [3, 4, 5, 6]


def test_a_record_that_is_damaged_or_gone_is_not_given(tmp_path: Path):
    filled(tmp_path, 100)
    with open_store(tmp_path) as view:
        first = view.get("T", 0, 0)
        last = max(n for n in range(100) if view.get("T", 0, n).physical_offset < FILE_SIZE)
        (tmp_path / "commitlog" / ("0" * 20)).unlink()
        for offset in (0, last):
            with pytest.raises(MessageNotFoundError):
                view.get("T", 0, offset)
        assert view.get("T", 0, last + 1).queue_offset == last + 1 and first.queue_offset == 0


def test_messages_of_another_process_are_seen_after_a_refresh(tmp_path: Path):
    with open_small(tmp_path, mappedFileSizeConsumeQueue=2000) as store, open_store(tmp_path) as view:
        for number in range(20):
            put_dispatched(store, 1, number)
            view.refresh()
            assert view.get("T", 0, number).queue_offset == number
            assert offsets(view, 0, 99) == list(range(number + 1))


def test_few_blocks_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Over the borders of blocks and files."""
    monkeypatch.setattr(queue_lookup, "BLOCK", 4)
    monkeypatch.setattr(queue_lookup, "BLOCKS_KEPT", 3)
    with open_small(tmp_path) as store:  # ten units a file
        put_all(store, 95)
    with open_store(tmp_path) as view:
        for offset in (*range(95), *range(94, -1, -7)):
            assert view.get("T", 0, offset).queue_offset == offset
            batch = view.read("T", 0, offset, 9)
            assert [m.queue_offset for m in batch] == list(range(offset, batch.next_offset)) and len(batch) > 0
        assert len(view._now._blocks) <= 3


# -- The bounds of short queues, which are read with their listing: the same as by the search that others need ---------

COUNT = 40
KEYS = {"mappedFileSizeCommitLog": 1 << 20, "messageIndexEnable": False}


@pytest.fixture
def path(tmp_path):
    """A store with a queue of 40 messages and one of a single message. A copy of it would have no holes."""
    with MessageStore(tmp_path / "store", config=KEYS) as store:
        for number in range(COUNT):
            assert store.put(Message("T", b"%d" % number, queue_id=0)).status.name == "PUT_OK"
        store.put(Message("T", b"alone", queue_id=1))
    return tmp_path / "store"


def file_of(path, queue_id):
    return path / "consumequeue" / "T" / str(queue_id) / f"{0:020d}"


def write(path, number, data):
    patch(file_of(path, 0), number * UNIT_SIZE, data)


def cut(path, _end):
    os.truncate(file_of(path, 0), 10 * UNIT_SIZE + 7)


def renamed(path, _end):
    file_of(path, 0).rename(file_of(path, 0).with_name(f"{6_000_000:020d}"))


DAMAGE = {
    "nothing": lambda path, end: None,
    "the first unit is zeros": lambda path, end: write(path, 0, bytes(UNIT_SIZE)),
    "the last unit is zeros": lambda path, end: write(path, COUNT - 1, bytes(UNIT_SIZE)),
    "all units are zeros": lambda path, end: write(path, 0, bytes(COUNT * UNIT_SIZE)),
    "the first unit is pre-blank": lambda path, end: write(path, 0, UNIT.pack(UNIT.type(0, 0x7FFFFFFF, 0))),
    "the first unit leads nowhere": lambda path, end: write(path, 0, UNIT.pack(UNIT.type(13, 100, 0))),
    "the last unit leads nowhere": lambda path, end: write(path, COUNT - 1, UNIT.pack(UNIT.type(13, 100, 0))),
    "a unit after the log's end": lambda path, end: write(path, COUNT, UNIT.pack(UNIT.type(end, 100, 0))),
    "a unit across the first page": lambda path, end: write(path, 204, b"\0" * 16 + b"\xff" * 4),
    "a unit far away": lambda path, end: write(path, 90_000, UNIT.pack(UNIT.type(end, 100, 0))),
    "a short file": cut,
    "a file of later offsets": renamed,
    "a second file": lambda path, end: file_of(path, 0).with_name(f"{6_000_000:020d}").write_bytes(bytes(6_000_000)),
    "an odd name": lambda path, end: file_of(path, 0).with_name("odd").write_bytes(b"odd"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_bounds_are_those_of_the_search(path, what, monkeypatch):
    snapshot = Snapshot(str(path), StoreConfig())
    DAMAGE[what](path, snapshot.end)
    names = [QueueName("T", 0), QueueName("T", 1)]
    with monkeypatch.context() as patched:
        patched.setattr(queue_lookup, "known_plain_queue", plain_queue)
        searched = QueueLookup(snapshot)
        expected = [searched.file_bounds(name) for name in names]
    short = QueueLookup(snapshot)
    assert [short.file_bounds(name) for name in names] == expected
    assert [short.first_topic(name) for name in names] == [searched.first_topic(name) for name in names]
    if what == "nothing":
        assert [(found.min, found.max) for found in expected] == [(0, COUNT), (0, 1)]
        assert expected[1].physical_end == snapshot.end


def test_short_queues_are_not_searched(path, monkeypatch):
    monkeypatch.setattr(QueueLookup, "_read_bounds", lambda *_: pytest.fail("searched"))
    snapshot = Snapshot(str(path), StoreConfig())
    lookup = QueueLookup(snapshot)
    assert lookup.file_bounds(QueueName("T", 1)) == Bounds(0, 1, snapshot.end)
    assert lookup.file_bounds(QueueName("T", 0))[:2] == (0, COUNT)
