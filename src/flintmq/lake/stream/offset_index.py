"""Finds log offsets of a queue's messages by its units, so that planning reads no message.

A micro-batch ends at one place in the log, the same for all queues. So two questions are answered here: which is the
first offset of a queue whose record begins at or after a log offset, and how many bytes are between two offsets. Units
are hints: a wrong one moves a cut, and a task that therefore misses a message searches for it (`scan.py`).

Where the files of a queue lack units (a store of which only `commitlog/` is left, or records that are not dispatched
yet), the segments of the lookup's map of the log replace them; one is walked when a cut is inside it.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import Any

import numpy

from flintmq.format.consume_queue import PRE_BLANK_SIZE, UNIT, UNIT_SIZE
from flintmq.format.text import java_decode
from flintmq.store.commitlog.walk import LogWalk
from flintmq.store.consumequeue.reader import UnitQueue
from flintmq.store.dispatch.dispatcher import Dispatcher, DispatchRules
from flintmq.store.layout.config_reader import BATCH_TYPE
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.read.log_map import QueueRun
from flintmq.store.read.queue_lookup import BLOCK, QueueLookup

READ_UNITS = 3276  # read at once: 64 KiB
EXACT_UNITS = 8192  # up to this many units sizes are added up; beyond, they are estimated from a sample
SAMPLES, SAMPLE_UNITS = 4, 2048
SEGMENTS_KEPT = 8
_UNIT = numpy.dtype(UNIT.columns())
_HOLE = bytes(UNIT_SIZE)  # counts as a unit that is not valid

Records = tuple[Any, Any, Any]
"""Records of one queue in one segment: queue offsets, log offsets, sizes (int64 arrays), in log order."""


class Segments:
    """The records of segments of the log by queue, found by walking; the last few are kept."""

    def __init__(self, lookup: QueueLookup) -> None:
        self._lookup = lookup
        self._kept: OrderedDict[tuple[int, int], dict[QueueName, Records]] = OrderedDict()

    def of(self, run: QueueRun, name: QueueName) -> Records:
        key = (run.begin, run.end)
        if key not in self._kept:
            self._kept[key] = self._walk(run)
            if len(self._kept) > SEGMENTS_KEPT:
                self._kept.popitem(last=False)
        nothing = numpy.zeros(0, numpy.int64)
        return self._kept[key].get(name, (nothing, nothing, nothing))

    def _walk(self, run: QueueRun) -> dict[QueueName, Records]:
        config, lookup = self._lookup.snapshot.config, self._lookup
        batches = {name.topic for name in lookup.names() if lookup.type_of(name.topic) == BATCH_TYPE}
        rules = DispatchRules.of(config, batches, deletions=lookup.snapshot.deletions)
        dispatcher = Dispatcher(replace(rules, light_queues=True, index=False))
        parts: dict[int, list[Records]] = {}
        for piece in LogWalk(lookup.snapshot.log, begin=run.begin, end=run.end, strict=False):
            for block in dispatcher.blocks(piece):
                units = numpy.frombuffer(block.units, numpy.uint8)
                for number, first, stop in block.queues:
                    found = units[UNIT_SIZE * first : UNIT_SIZE * stop].view(_UNIT)
                    offsets = numpy.array(block.offsets[first:stop], numpy.int64)
                    sizes = found["size"].astype(numpy.int64)
                    parts.setdefault(number, []).append((offsets, found["physical_offset"].astype(numpy.int64), sizes))
                for number, unit in block.batch_units:
                    row = [numpy.array([n]) for n in (unit.base_offset, unit.physical_offset, unit.size)]
                    parts.setdefault(number, []).append((row[0], row[1], row[2]))
        found_queues = {}
        for number, several in parts.items():
            queue = dispatcher.queues.keys[number]
            columns = [numpy.concatenate(column) for column in zip(*several, strict=True)]
            found_queues[QueueName(java_decode(queue.topic), queue.queue_id)] = (columns[0], columns[1], columns[2])
        return found_queues


class Places:
    """The log offsets of one queue's messages, as of one lookup.

    `segments`: shared by the queues of the lookup; None to use only dispatched messages.
    """

    def __init__(self, lookup: QueueLookup, name: QueueName, segments: Segments | None) -> None:
        self.name, self.units, self._lookup = name, lookup.units(name), lookup
        self._runs = lookup.tail_runs(name) if segments is not None else []
        self._segments = segments or Segments(lookup)
        self._tail = min((run.low for run in self._runs), default=1 << 63)  # from this offset on the log is used
        self._sized = 0, 0, 0  # a span and its size
        self._read: tuple[int, Any, Any] = (0, numpy.zeros(0, numpy.int64), numpy.zeros(0, numpy.int64))

    def first_at(self, position: int, low: int, high: int) -> int:
        """Return the least queue offset in [low, high) whose record begins at `position` or later.

        If there is none, return `high`. In a batch queue the result is the base offset of a record.
        """
        stop = min(high, self._tail)
        if low < stop:
            found = (self._batch_at if self.units.is_batch else self._unit_at)(position, low, stop)
            if found < stop:
                return found
        for run in self._runs:
            if run.end > position:
                offsets, places, _ = self._segments.of(run, self.name)
                later = offsets[(places >= position) & (offsets >= low)]
                if len(later):
                    return min(int(later[0]), high)
        return high

    def _unit_at(self, position: int, low: int, high: int) -> int:
        step = READ_UNITS  # the result is mostly near: first growing steps ahead, then halving
        while high - low > READ_UNITS:
            middle = min(low + step, (low + high) // 2)
            unit = self.units.unit(middle)
            if unit is None or not self.units.points_to_record(unit) or unit.physical_offset < position:
                low, step = middle + 1, 2 * step
            else:
                high = middle
        at = numpy.flatnonzero(self._columns(low, high)[0] >= position)
        # After a step to the left, `high` has a unit that is not before the position.
        return low + int(at[0]) if len(at) else high

    def _batch_at(self, position: int, low: int, high: int) -> int:
        units = self.units
        end = units.end()
        number = units.bisect(lambda unit: not units.points_to_record(unit) or unit.physical_offset < position, end)
        unit = units.unit(number) if number < end else None
        return high if unit is None else min(max(units.span(number, unit)[0], low), high)

    def _columns(self, low: int, high: int) -> tuple[Any, Any]:
        """Return unit_columns(low, high), from units that the lookup has kept if all are valid.

        The last columns are cached.
        """
        begin, places, sizes = self._read
        if not begin <= low <= high <= begin + len(places):
            begin, (places, sizes) = low, _columns_of(self._kept(low, high) if high - low <= BLOCK else b"")
            if len(places) < high - low or (places < 0).any():
                places, sizes = unit_columns(self.units, low, high)
            self._read = (begin, places, sizes)
        return places[low - begin : high - begin], sizes[low - begin : high - begin]

    def _kept(self, low: int, high: int) -> bytes:
        """Return the bytes of units as the lookup has kept them; fewer if one was not written then."""
        found = b""
        while low < high:
            more = self._lookup.kept_units(self.name, low, high - low)
            if not more:
                break
            found += more
            low += len(more) // UNIT_SIZE
        return found

    def size(self, low: int, high: int) -> int:
        """Return the log bytes of the messages [low, high): exact, or for very many estimated."""
        if self._sized[:2] != (low, high):  # of all messages of a micro-batch it is asked more than once
            self._sized = low, high, self._size(low, high)
        return self._sized[2]

    def _size(self, low: int, high: int) -> int:
        stop = min(high, self._tail)
        total = 0
        if low < stop:
            total += self._batch_size(low, stop) if self.units.is_batch else self._unit_size(low, stop)
        runs = [run for run in self._runs if run.low < high and run.high > low]
        counts = [min(high, run.high) - max(low, run.low) for run in runs]
        walked = runs if len(runs) <= SEGMENTS_KEPT // 2 else [runs[0], runs[-1]]
        sizes = [self._run_size(run, low, high) for run in walked]
        return total + int(sum(size for size, _ in sizes) * sum(counts) / max(1, sum(count for _, count in sizes)))

    def _run_size(self, run: QueueRun, low: int, high: int) -> tuple[int, int]:
        """Return bytes and number of the messages [low, high) in a run."""
        offsets, _, sizes = self._segments.of(run, self.name)
        mine = (offsets >= low) & (offsets < high)
        return int(sizes[mine].sum()), max(int(mine.sum()), min(high, run.high) - max(low, run.low))

    def _unit_size(self, low: int, high: int) -> int:
        if high - low <= EXACT_UNITS:
            return int(self._columns(low, high)[1].sum())
        step = (high - low - SAMPLE_UNITS) // (SAMPLES - 1)
        taken = [unit_columns(self.units, low + step * n, low + step * n + SAMPLE_UNITS)[1] for n in range(SAMPLES)]
        return int(numpy.concatenate(taken).mean() * (high - low))

    def _batch_size(self, low: int, high: int) -> int:
        first, stop = self.units.number_of(low), self.units.number_of(high)
        some = [unit.size for _, unit in self.units.units(first, min(stop, first + READ_UNITS)) if unit.is_written]
        return int(sum(some) / max(1, len(some)) * max(0, stop - first))


def unit_columns(units: UnitQueue, low: int, high: int) -> tuple[Any, Any]:
    """Return log offsets (-1 if not valid) and sizes of a plain queue's units [low, high)."""
    assert low <= high  # numpy would take -1 for everything
    data = b""
    while len(data) < UNIT_SIZE * (high - low):
        read = len(data) // UNIT_SIZE
        more = units.raw(low + read, high - low - read)
        data += more[: len(more) - len(more) % UNIT_SIZE] or _HOLE
    return _columns_of(data)


def _columns_of(data: bytes | memoryview) -> tuple[Any, Any]:
    found = numpy.frombuffer(data, _UNIT)
    sizes = found["size"].astype(numpy.int64)
    good = (sizes > 0) & (sizes != PRE_BLANK_SIZE)
    return numpy.where(good, found["physical_offset"].astype(numpy.int64), -1), numpy.where(good, sizes, 0)
