"""Stores units by queue and index keys in log order between the two stages of a job.

A task of the first stage walks a range of the log and has its own directory:

    units      segments one after another: a segment is the units of one queue from one block, as its queue offsets
               (int64 each), store times in ms (int64 each, only where ext queues need them) and units (20 bytes each)
    segments   table of the segments: int64 rows (number of the queue, position, number of units), native byte order
    batch      units of batch queues: rows of int64 number of the queue and 46 bytes
    hashes, offsets, times     index keys: int32, int64, int64 each, native byte order

A queue's number is its row in the task's own table, which goes to the driver with its counts. Tables go to every
task of the second stage, which selects its queues from all directories, in log order.
"""

from __future__ import annotations

import os
import uuid
from array import array
from collections.abc import Container, Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple

from flintmq.format import batch_queue
from flintmq.store.consumequeue.writer import UNIT_SIZE
from flintmq.store.dispatch.dispatcher import Dispatcher, UnitBlock
from flintmq.store.layout.queue_name import Queue

ROW = 3  # int64 of a row of `segments`
KEY_FILES = (("hashes", "i"), ("offsets", "q"), ("times", "q"))
KEYS_AT_ONCE = 1 << 18


class StagedQueue(NamedTuple):
    kind: str  # kind, topic, queue_id: as in store.layout.queue_name.Queue; the topic in hexadecimal, for JSON
    topic: str
    queue_id: int
    light: bool
    units: int

    @property
    def queue(self) -> Queue:
        return Queue(self.kind, bytes.fromhex(self.topic), self.queue_id)


class Stage(NamedTuple):
    """The result of one task of the first stage: directory, table of queues, number of keys."""

    path: str
    queues: list[StagedQueue]
    keys: int

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Stage:
        return cls(answer["path"], [StagedQueue(*queue) for queue in answer["queues"]], answer["keys"])


class StageWriter:
    """Writes one task's directory, which others use only after `finish` has returned its name.

    `parent`: the directory in which it is made; each attempt of a task has a name of its own.
    """

    def __init__(self, parent: str, with_times: bool) -> None:
        self.path = os.path.join(parent, uuid.uuid4().hex)
        os.mkdir(self.path)
        self.with_times = with_times
        self.units: dict[int, int] = {}  # units of each queue so far, by the task's number of the queue
        self.keys = 0
        self._segments = array("q")
        self._files: dict[str, BinaryIO] = {}

    def take(self, block: UnitBlock) -> None:
        out = self._file("units")
        for number, first, end in block.queues:
            self._segments.extend((number, out.tell(), end - first))
            out.write(block.offsets[first:end])
            if self.with_times:
                out.write(block.times[first:end])
            out.write(block.units[UNIT_SIZE * first : UNIT_SIZE * end])
            self.units[number] = self.units.get(number, 0) + end - first
        for number, unit in block.batch_units:
            self._file("batch").write(array("q", [number]).tobytes() + batch_queue.BATCH_UNIT.pack(unit))
            self.units[number] = self.units.get(number, 0) + 1
        if block.keys:
            for (name, _), values in zip(
                KEY_FILES, (block.key_hashes, block.key_offsets, block.key_times), strict=True
            ):
                self._file(name).write(memoryview(values)[: block.keys])
            self.keys += block.keys

    def finish(self, dispatcher: Dispatcher) -> dict[str, Any]:
        """Close the files without fsync, because after a crash everything is made again."""
        self._file("segments").write(self._segments)
        for file in self._files.values():
            file.close()
        queues = [
            StagedQueue(
                queue.kind,
                queue.topic.hex(),
                queue.queue_id,
                number in dispatcher.lmq_numbers,
                self.units.get(number, 0),
            )
            for number, queue in enumerate(dispatcher.queues.keys)
        ]
        return {"path": self.path, "queues": queues, "keys": self.keys}

    def _file(self, name: str) -> BinaryIO:
        if name not in self._files:
            self._files[name] = open(os.path.join(self.path, name), "xb")  # noqa: SIM115 (closed by close)
        return self._files[name]


def segments(
    path: str, wanted: Container[int], with_times: bool
) -> Iterator[tuple[int, memoryview, memoryview, memoryview]]:
    """Yield the segments of some queues in one task's directory, in log order.

    Yields:
        (number of the queue, queue offsets as int64, store times as int64 or empty, units).
    """
    rows = _read_array(os.path.join(path, "segments"), "q")
    if not rows:
        return
    with open(os.path.join(path, "units"), "rb") as file:
        for at in range(0, len(rows), ROW):
            number, position, count = rows[at : at + ROW]
            if number not in wanted:
                continue
            times = 8 * count if with_times else 0
            file.seek(position)
            data = memoryview(file.read(8 * count + times + UNIT_SIZE * count))
            yield (
                number,
                data[: 8 * count].cast("q"),
                data[8 * count : 8 * count + times].cast("q"),
                data[8 * count + times :],
            )


def batch_units(path: str, wanted: Container[int]) -> Iterator[tuple[int, batch_queue.BatchUnit]]:
    """Yield units of some batch queues in a task's directory, as (number of the queue, unit)."""
    name = os.path.join(path, "batch")
    if not os.path.exists(name):
        return
    with open(name, "rb") as file:
        while row := file.read(8 + batch_queue.BATCH_UNIT_SIZE):
            number = array("q", row[:8])[0]
            if number in wanted:
                yield number, batch_queue.BATCH_UNIT.unpack(row, 8)


def keys(path: str, first: int, end: int) -> Iterator[tuple[array[int], array[int], array[int]]]:
    """Yield index keys [first, end) of one task's directory as (hashes, offsets, times)."""
    while first < end:
        count = min(end - first, KEYS_AT_ONCE)
        parts = [_read_array(os.path.join(path, name), kind, first, count) for name, kind in KEY_FILES]
        yield parts[0], parts[1], parts[2]
        first += count


def _read_array(path: str, kind: str, first: int = 0, count: int | None = None) -> array[int]:
    values = array(kind)
    with open(path, "rb") as file:
        file.seek(first * values.itemsize)
        values.frombytes(file.read() if count is None else file.read(count * values.itemsize))
    return values
