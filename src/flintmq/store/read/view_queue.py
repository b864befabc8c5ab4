"""Answers gets of a view with RocketMQ's statuses.

A running store's recovery has made its queues right; a view must find messages that are not dispatched, or whose units
are missing or wrong, in the log (read/queue_lookup.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from flintmq.format.batch_queue import BATCH_UNIT_SIZE, BatchUnit
from flintmq.format.consume_queue import UNIT, UNIT_SIZE, Unit
from flintmq.message import GetResult, StoredMessage
from flintmq.store.consumequeue.reader import ExtQueue, UnitQueue
from flintmq.store.dispatch.queue_positions import places, tags_code_of
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.read.answer import Entry, Pull, beside
from flintmq.store.read.log_map import is_at_queue_offset
from flintmq.store.read.queue_lookup import QueueLookup

MOST_LOOSE = 64  # messages without a unit in one answer: to find each is a walk through a part of the log


class ViewQueue:
    """One queue of a view. Thread: any."""

    def __init__(self, lookup: QueueLookup, name: QueueName) -> None:
        self.lookup, self.name, self.units = lookup, name, lookup.units(name)
        self.bounds = lookup.bounds(name)[:2]
        self.unit_size = BATCH_UNIT_SIZE if self.units.is_batch else UNIT_SIZE

    def get(self, offset: int, pull: Pull) -> GetResult:
        found = beside(self.bounds, offset)
        if found is None:
            snapshot = self.lookup.snapshot
            with snapshot.held():
                found = GetResult(*pull.taken(self, offset, snapshot.end, self.record), *self.bounds)
        return found

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

    def entries(self, offset: int, count: int) -> Iterator[Entry]:
        stop = min(offset + count, self.bounds[1])
        at = offset
        for entry in self._batches(offset, count) if self.units.is_batch else self._plain(offset, stop):
            if not self._is_right(entry[0]):
                break
            if entry[1] >= stop:
                return
            yield entry
            at = entry[1] + entry[2]
        if at < stop and (at == offset or not self._is_file_end(at)):
            yield from islice(self._loose(at, stop), MOST_LOOSE)

    def _is_right(self, unit: Unit) -> bool:
        """Return whether a unit points into the log."""
        snapshot = self.lookup.snapshot
        return UnitQueue.points_to_record(unit) and snapshot.log.min_offset <= unit.physical_offset < snapshot.end

    def _is_file_end(self, offset: int) -> bool:
        """Return whether a file of units ends before this offset: an answer ends there, too."""
        width, number = self.unit_size, self.units.number_of(offset)
        return any(file.start + file.size == number * width for file in self.units.files)

    def _plain(self, offset: int, stop: int) -> Iterator[Entry]:
        units = self.lookup.plain_units(self.name, offset, stop - offset)
        whole = units[: len(units) - len(units) % UNIT_SIZE]
        return ((unit, at, 1) for at, unit in enumerate(UNIT.iter(whole), offset))

    def _batches(self, offset: int, count: int) -> Iterator[Entry]:
        with self.units.held() as units:
            found = units.read(units.number_of(offset), count)
        for unit in found:
            if isinstance(unit, BatchUnit):
                yield Unit(unit.physical_offset, unit.size, unit.tags_code), unit.base_offset, unit.messages

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
