"""Answers gets of a view with RocketMQ's statuses.

A running store's recovery has made its queues right; a view must find messages that are not dispatched, or whose units
are missing or wrong, in the log (read/queue_lookup.py).
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from itertools import chain, count, islice, repeat

from flintmq.format.batch_queue import BATCH_UNIT_SIZE, BatchUnit
from flintmq.format.consume_queue import UNIT, UNIT_SIZE, Unit
from flintmq.format.text import java_encode
from flintmq.kernels.read import fetch
from flintmq.message import GetResult, RawResult, StoredMessage
from flintmq.store.commitlog.files import LogFile
from flintmq.store.commitlog.records import RecordReader
from flintmq.store.consumequeue.reader import ExtQueue, UnitQueue
from flintmq.store.dispatch.queue_positions import places, tags_code_of
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.read.answer import Entry, Pull, beside, raw_result
from flintmq.store.read.batch import DENSE, SPARE, WINDOW
from flintmq.store.read.log_map import is_at_queue_offset
from flintmq.store.read.queue_lookup import QueueLookup

MOST_LOOSE = 64  # messages without a unit in one answer: to find each is a walk through a part of the log


class ViewQueue:
    """One queue of a view. Thread: one."""

    def __init__(self, lookup: QueueLookup, name: QueueName) -> None:
        self.lookup, self.name, self.units, self.topic = lookup, name, lookup.units(name), java_encode(name.topic)
        self.bounds = lookup.bounds(name)[:2]
        self.log_begin, self.log_end = lookup.snapshot.log.min_offset, lookup.snapshot.end
        self.unit_size = BATCH_UNIT_SIZE if self.units.is_batch else UNIT_SIZE

    def get_raw(self, offset: int, pull: Pull) -> RawResult:
        """Answer a get with the records end to end; they are read together if all are right."""
        found = beside(self.bounds, offset)
        if found is not None:
            return raw_result(found)
        with self.lookup.snapshot.held():
            status, units, following = pull.taken(self, offset, self.log_end, lambda unit, at: (unit, at))
            with RecordReader(self.lookup.snapshot.log) as records:
                data = self._together(units, records)
            if data is not None:
                return RawResult(status, data, len(units), following, *self.bounds)
            return raw_result(GetResult(*pull.taken(self, offset, self.log_end, self.record), *self.bounds))

    def _together(self, units: list[tuple[Unit, int]], records: RecordReader) -> bytes | None:
        """Read the records of units, with their queue offsets; None if one is not right."""
        if not units:
            return b""
        low, stop = units[0][0].physical_offset, units[-1][0].physical_offset + units[-1][0].size
        wanted, file = sum(unit.size for unit, _ in units), records.log.find(low)
        if file is None or not wanted <= stop - low or stop > self.log_end:
            return None
        is_dense = stop - low <= min(DENSE * wanted + SPARE * len(units), WINDOW)
        if len(units) > 1 and not (is_dense and stop <= file.start + file.size):
            half = len(units) // 2
            first, rest = self._together(units[:half], records), self._together(units[half:], records)
            return None if first is None or rest is None else first + rest
        try:
            data = records.file_bytes(file, low - file.start, stop - low)
        except FileNotFoundError:
            return None
        if not self._are_right(units, data, low, file):
            return None
        if wanted == len(data):
            return bytes(data)
        return b"".join([data[unit.physical_offset - low :][: unit.size] for unit, _ in units])

    def _are_right(self, units: list[tuple[Unit, int]], data: memoryview, low: int, file: LogFile) -> bool:
        packed = struct.pack(f">{'qiq' * len(units)}", *chain.from_iterable(unit for unit, _ in units))
        place = data, low, file.start + file.size - low, self.lookup.snapshot.log.max_record, self.topic
        at, positions = 0, array("q", bytes(8 * len(units)))
        while at < len(units):
            offset, run = units[at][1], 1
            while at + run < len(units) and units[at + run][1] == offset + run:
                run += 1
            if fetch.check(packed, at, run, *place, self.name.queue_id, offset, positions)[0] < run:
                return False
            at += run
        return True

    def record(self, unit: Unit, at: int) -> StoredMessage | None:
        """Read the record of a queue offset, by its unit or wherever it is in the log."""
        message = self.lookup.snapshot.record(unit.physical_offset) if UnitQueue.points_to_record(unit) else None
        if message is not None and is_at_queue_offset(message, self.name, at):
            return message
        return self.lookup.message(self.name, at)

    def ext(self) -> ExtQueue:
        return ExtQueue.of(self.lookup.snapshot.root, self.name, self.lookup.snapshot.effects)

    def next_file(self, offset: int) -> int:
        return offset + 1

    def entries(self, offset: int, most: int) -> Iterator[Entry]:
        stop, at = min(offset + most, self.bounds[1]), offset
        for entry in self._batches(offset, most) if self.units.is_batch else self._plain(offset, stop):
            if entry[1] >= stop:
                return
            yield entry
            at = entry[1] + entry[2]
        if at < stop and (at == offset or not self._is_file_end(at)):
            yield from islice(self._loose(at, stop), MOST_LOOSE)

    def _is_file_end(self, offset: int) -> bool:
        """Return whether a file of units ends before this offset: an answer ends there, too."""
        width, number = self.unit_size, self.units.number_of(offset)
        return any(file.start + file.size == number * width for file in self.units.files)

    def _plain(self, offset: int, stop: int) -> Iterator[Entry]:
        units = self.lookup.kept_units(self.name, offset, stop - offset)
        if len(units) < UNIT_SIZE * (stop - offset):  # of two blocks, or not written when the block was read
            units = self.lookup.plain_units(self.name, offset, stop - offset)
        right, _ = fetch.run(units, 0, len(units) // UNIT_SIZE, self.log_begin, self.log_end)
        return zip(UNIT.iter(units[: right * UNIT_SIZE]), count(offset), repeat(1))

    def _batches(self, offset: int, most: int) -> Iterator[Entry]:
        with self.units.held() as units:
            found = units.read(units.number_of(offset), most)
        for unit in found:
            if not isinstance(unit, BatchUnit) or not unit.is_written or not self._is_in_log(unit.physical_offset):
                return
            yield Unit(unit.physical_offset, unit.size, unit.tags_code), unit.base_offset, unit.messages

    def _is_in_log(self, physical_offset: int) -> bool:
        return self.log_begin <= physical_offset < self.log_end

    def _loose(self, at: int, stop: int) -> Iterator[Entry]:
        """Make units of messages in the log; those of offsets without one are not written."""
        while at < stop:
            found = self.lookup.next_message(self.name, at, stop)
            yield from ((Unit(0, 0, 0), lacking, 1) for lacking in range(at, stop if found is None else found[0]))
            if found is None:
                return
            message, own = found[1], places(found[1])
            place = next(one for one in own if (one.topic, one.queue_id) == self.name and one.offset <= found[0])
            code = tags_code_of(message, self.lookup.snapshot.config.delay_ms)
            yield Unit(message.physical_offset, message.size, code), place.offset, place.messages
            at = place.offset + place.messages
