"""The bounds of short queues, which are read with their listing: the same as by the search that others need."""

import os

import pytest

from flintmq import Message, MessageStore
from flintmq.config.keys import StoreConfig
from flintmq.format.consume_queue import UNIT, UNIT_SIZE
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.consumequeue.reader import plain_queue
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.read import queue_lookup
from flintmq.store.read.queue_lookup import Bounds, QueueLookup

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
    with file_of(path, 0).open("r+b") as file:
        file.seek(number * UNIT_SIZE)
        file.write(data)


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
