"""The queues of a running store as readers see them; more of the plain ones in store/read/test_get.py."""

import random
from pathlib import Path

import pytest

from flintmq.message import GetMessageStatus, Message
from flintmq.store.consumequeue import live_queue
from flintmq.store.message_store import MessageStore
from tests.support.engine import FILE_SIZE, message, open_small

S = GetMessageStatus
SIZES = (3, 1, 4, 2)


@pytest.fixture
def store(tmp_path: Path):
    with open_small(tmp_path, mapperFileSizeBatchConsumeQueue="138") as opened:  # three units a file
        opened.create_topic("B", 1, "BatchCQ")
        for count in SIZES:
            opened.put_batch([Message("B", b"x", flag=n) for n in range(count)], {"TAGS": f"t{count}"})
        assert opened.wait_dispatched(60)
        yield opened


@pytest.mark.parametrize(
    ("offset", "most", "status", "bases", "following"),
    [
        (0, 32, S.FOUND, [0, 3, 4], 8),  # one file of the queue for an answer
        (2, 32, S.FOUND, [0, 3, 4], 8),  # inside a batch: the whole one
        (0, 1, S.FOUND, [0], 3),  # the first is always given
        (0, 3, S.FOUND, [0], 3),
        (0, 4, S.FOUND, [0, 3], 4),  # messages count, not records
        (0, 7, S.FOUND, [0, 3], 4),
        (8, 32, S.FOUND, [8], 10),
        (10, 32, S.OFFSET_OVERFLOW_ONE, [], 10),
        (11, 32, S.OFFSET_OVERFLOW_BADLY, [], 10),
        (-1, 32, S.OFFSET_TOO_SMALL, [], 0),
    ],
)
def test_get(store: MessageStore, offset: int, most: int, status: S, bases: list[int], following: int):
    got = store.get("B", 0, offset, most)
    assert (got.status, [m.queue_offset for m in got.messages], got.next_begin_offset) == (status, bases, following)
    assert (got.min_offset, got.max_offset) == (0, 10)


def test_tags_are_those_of_the_batch(store: MessageStore):
    got = store.get("B", 0, 0, tags="t1 || t4")
    assert [m.queue_offset for m in got.messages] == [3, 4] and got.next_begin_offset == 8
    none = store.get("B", 0, 0, tags="other")
    assert (none.status, none.next_begin_offset) == (S.NO_MATCHED_MESSAGE, 8)


def test_a_queue_without_messages(store: MessageStore):
    assert store.get("B", 1, 0).status is S.NO_MESSAGE_IN_QUEUE


def test_what_retention_took_is_below_the_minimum(tmp_path: Path):
    with open_small(tmp_path) as store:
        store.create_topic("B", 1, "BatchCQ")
        results = [store.put_batch([Message("B", bytes(700))] * 2) for _ in range(6)]
        assert store.wait_dispatched(60)
        begin = next(r for r in results if r[0].physical_offset >= FILE_SIZE)[0]
        assert store._parts.queues.batch[b"B", 0].bounds(FILE_SIZE) == (begin.queue_offset, 12)
        assert store._parts.queues.batch[b"B", 0].bounds(1 << 40) == (12, 12)


def test_a_queue_file_that_is_missing_is_stepped_over(store: MessageStore, tmp_path: Path):
    (tmp_path / "batchconsumequeue/B/0" / ("0" * 20)).unlink()
    got = store.get("B", 0, 0)
    assert (got.status, got.next_begin_offset) == (S.OFFSET_TOO_SMALL, 8) and store.get("B", 0, 8).status is S.FOUND


def test_units_are_read_in_blocks_that_show_what_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """In every order of gets and puts, over the borders of blocks and files; a unit that is written again is seen."""
    monkeypatch.setattr(live_queue, "BLOCK", 4)
    with open_small(tmp_path, mappedFileSizeConsumeQueue="2000") as opened:  # 100 units a file
        queue = None
        chance = random.Random(5)
        for put in range(1, 251):
            opened.put(message(put - 1))
            if put % 7 == 0 or put in (100, 101, 200):
                assert opened.wait_dispatched(60)
                queue = opened._parts.queues.plain[b"T", 0]
                assert queue is not None and queue.max_offset == put
                for _ in range(20):
                    offset, count = chance.randrange(put), chance.randrange(1, 12)
                    said = queue.unit_bytes(offset, count)
                    name = f"{offset // 100 * 2000:020d}"
                    data = (tmp_path / "consumequeue" / "T" / "0" / name).read_bytes()
                    end = min(offset % 100 + count, 100, put - offset // 100 * 100)
                    assert said == data[offset % 100 * 20 : end * 20]
        assert queue is not None
        path = tmp_path / "consumequeue" / "T" / "0" / f"{0:020d}"
        before = queue.unit_bytes(3, 1)
        path.write_bytes(path.read_bytes()[:60] + bytes(20) + path.read_bytes()[80:])
        queue.forget()
        assert before != bytes(20) == queue.unit_bytes(3, 1)


def test_the_units_of_short_queues_are_read_once_at_a_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A store with thousands of queues would open each of their files again for the first get."""
    with open_small(tmp_path) as opened:
        for number in range(60):
            opened.put(Message("T", b"%d" % number, queue_id=number % 30))
    read, again = live_queue.RunningQueue._read, []

    def watched(queue: live_queue.RunningQueue, first: int, end: int) -> bytes:
        again.append(queue.name.queue_id)
        return read(queue, first, end)

    monkeypatch.setattr(live_queue.RunningQueue, "_read", watched)
    with open_small(tmp_path) as opened:
        for number in range(30):
            assert [m.body for m in opened.get("T", number, 0, 2).messages] == [b"%d" % number, b"%d" % (number + 30)]
        assert again == []
        opened.put(Message("T", b"new", queue_id=7))
        assert opened.wait_dispatched(60)
        assert [m.body for m in opened.get("T", 7, 0, 3).messages] == [b"7", b"37", b"new"] and again == [7]
        opened._parts.queues.check_invariants()


def test_kept_units_are_bounded_by_their_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(live_queue, "UNITS_KEPT", 100)
    with open_small(tmp_path, mappedFileSizeConsumeQueue="2000") as opened:
        for number in range(99):
            opened.put(Message("T", b"x", queue_id=0 if number < 90 else number))
        assert opened.wait_dispatched(60)
        queues = opened._parts.queues
        for number in (*range(90, 99), 90):
            opened.get("T", number, 0, 1)
        kept = [number for (_, number), queue in sorted(queues.plain.items()) if queue is not None and queue.blocks]
        assert kept == [90, *range(94, 99)], "each of them counts for 16"
        opened.get("T", 0, 0, 1)
        assert [n for (_, n), queue in sorted(queues.plain.items()) if queue is not None and queue.blocks] == [0]
        queues.check_invariants()
