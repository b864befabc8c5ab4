"""Places of queues: compared with what Java says of every record, with units and without."""

import random
import shutil
from pathlib import Path

import pytest

from flintmq import Message, MessageStore, StoreConfig
from flintmq.lake.stream.members import StoresStream
from flintmq.lake.stream.offset_index import Places, Segments
from flintmq.lake.stream.options import StreamOptions
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.read import log_map
from flintmq.store.read.queue_lookup import QueueLookup
from flintmq.testing import write_store
from tests.support.makers import patch


@pytest.mark.parametrize("read_units", [4, 3276])
@pytest.mark.parametrize("bare", [False, True], ids=["units", "commitlog"])
@pytest.mark.parametrize("name", ["basic", "rolled", "cqext"])
def test_first_at_and_size(golden, tmp_path, monkeypatch, name, bare, read_units):
    monkeypatch.setattr("flintmq.lake.stream.offset_index.READ_UNITS", read_units)
    monkeypatch.setattr(log_map, "SEGMENT_BYTES", 20_000)
    store, chance = golden(name), random.Random(1)
    path = store.path
    if bare:
        path = tmp_path / "bare"
        shutil.copytree(store.path / "commitlog", path / "commitlog")
    lookup = QueueLookup(Snapshot(str(path), StoreConfig.from_keys(store.config)))
    segments = Segments(lookup)
    queues = {}
    for row in store.rows:
        queues.setdefault(QueueName(row["topic"], row["queue_id"]), []).append(row)
    end = store.rows[-1]["physical_offset"]
    for queue, rows in queues.items():
        places, first = Places(lookup, queue, segments), rows[0]["queue_offset"]
        for _ in range(20):
            position = chance.choice([chance.randrange(end + 99), chance.choice(rows)["physical_offset"]])
            low, high = sorted(first + chance.randrange(len(rows) + 1) for _ in range(2))
            found = [r["queue_offset"] for r in rows if low <= r["queue_offset"] and r["physical_offset"] >= position]
            assert places.first_at(position, low, high) == min(found[0] if found else high, high)
        if not bare:
            assert places.size(low, high) == sum(r["size"] for r in rows if low <= r["queue_offset"] < high)


@pytest.mark.parametrize("messages", [30, 700])
def test_a_unit_that_was_kept_as_a_hole_is_read_again(tmp_path, messages):
    """Its page reached the file after the planner had read it."""
    with MessageStore(tmp_path, mapped_file_size_consume_queue=20_000) as store:
        store.put_many([Message("T", b"x" * number) for number in range(messages)])
    name, path = QueueName("T", 0), tmp_path / "consumequeue" / "T" / "0" / ("0" * 20)
    right = path.read_bytes()[200:220]
    expected = Places(QueueLookup(Snapshot(str(tmp_path), StoreConfig())), name, None).size(5, 20)
    patch(path, 200, bytes(20))
    lookup = QueueLookup(Snapshot(str(tmp_path), StoreConfig()))
    assert lookup.file_bounds(name)[:2] == (0, messages) and lookup.kept_unit(name, 10) is None
    patch(path, 200, right)
    places = Places(lookup, name, None)
    assert places.size(5, 20) == expected and places.first_at(lookup.message(name, 10).physical_offset, 5, 20) == 10


def test_the_size_of_very_many_is_estimated(golden, monkeypatch):
    monkeypatch.setattr("flintmq.lake.stream.offset_index.EXACT_UNITS", 50)
    monkeypatch.setattr("flintmq.lake.stream.offset_index.SAMPLE_UNITS", 12)
    store = golden("basic")
    lookup = QueueLookup(Snapshot(str(store.path), StoreConfig.from_keys(store.config)))
    rows = [row["size"] for row in store.rows if row["topic"] == "Orders" and row["queue_id"] == 0]
    size = Places(lookup, QueueName("Orders", 0), Segments(lookup)).size(0, len(rows))
    assert 0.7 * sum(rows) < size < 1.4 * sum(rows)


# -- The offset of an only store is kept without a name; that of a list names each broker, also if there is only one


@pytest.fixture
def store(tmp_path: Path) -> Path:
    write_store(tmp_path / "a", 20)
    return tmp_path / "a"


@pytest.mark.parametrize("limit", [{}, {"maxOffsetsPerTrigger": "7"}])
def test_the_forms(store: Path, limit: dict[str, str]) -> None:
    stream = StoresStream(StreamOptions.parse({"path": str(store), **limit}))
    offsets = [stream.initial()]
    while (end := stream.next_end(offsets[-1])) != offsets[-1]:
        offsets.append(end)
    assert len(offsets) == (4 if limit else 2)
    assert not any(isinstance(value, dict) for offset in offsets for value in offset.values())
    assert sum(number for key, number in offsets[-1].items() if "/" in key) == 20
    several = StoresStream(StreamOptions.parse({"path": str(store.parent / "*"), **limit}))
    assert several.initial() == {"a": offsets[0]}
    assert several.next_end({"a": offsets[0]}) == {"a": offsets[1]}
    (member, task), *_ = stream.tasks(offsets[0], offsets[1])
    (named, same), *_ = several.tasks({"a": offsets[0]}, {"a": offsets[1]})
    assert (member.words, named.words) == ({}, {"broker": "a", "store": str(store)}) and task == same


def test_the_progress_of_an_only_store_is_its_own(store: Path) -> None:
    one = StoresStream(StreamOptions.parse({"path": str(store)})).progress()
    several = StoresStream(StreamOptions.parse({"path": str(store.parent / "*")})).progress()
    ends = {name: number for name, number in one.items() if "/" in name}
    assert several["a"] == ends and several["lagMessages"] == one["lagMessages"] == 20
    assert "avgOffsetsBehindLatest" in one and "avgOffsetsBehindLatest" not in several
