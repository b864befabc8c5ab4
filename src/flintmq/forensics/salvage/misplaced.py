"""Finds records with an implausible queue offset: too far away, or contradicted later.

Only the appended checksum property protects that field. QueueWriter applies the same rule: such a record gets no unit,
so that no broker would serve it.
"""

from __future__ import annotations

import os

from flintmq.format.consume_queue import UNIT, UNIT_SIZE
from flintmq.store.commitlog.report import Report
from flintmq.store.consumequeue.writer import OpenFiles, QueueWriter
from flintmq.store.dispatch.dispatcher import Dispatcher, UnitBlock


class _Nowhere(OpenFiles):
    """Discards the data written to it."""

    def write(self, path: str, file_size: int, data: bytes | memoryview, position: int) -> None:
        """Discard the data."""


class _Places(QueueWriter):
    """Discards units, and keeps the log offsets of those that a queue writer would skip."""

    far: list[int]

    def _is_far(self, offset: int, run: int, physical_offset: int) -> bool:
        found = super()._is_far(offset, run, physical_offset)
        if found:
            self.far.append(physical_offset)
        return found

    def _deny(self, offset: int, physical_offset: int) -> None:
        super()._deny(offset, physical_offset)
        if 0 <= self.next < offset:  # a smaller one repeats an offset, or begins the queue again: nothing to cover
            self.far.append(physical_offset)


class FarRecords:
    """Finds misplaced records, block by block in log order.

    Attributes:
        found: log offset, size and store time in ms of each.
    """

    def __init__(self) -> None:
        self.found: list[tuple[int, int, int]] = []
        self._queues: dict[int, _Places] = {}
        self._files = _Nowhere()

    def take(self, block: UnitBlock, dispatcher: Dispatcher) -> None:
        """Take the next block of a Dispatcher."""
        for number, first, end in block.queues:
            if number not in self._queues:
                path = dispatcher.queues.keys[number].path
                self._queues[number] = _Places(self._files, os.devnull, path or "", UNIT_SIZE, 0, Report())
            queue = self._queues[number]
            queue.far = []
            queue.place(block.offsets, block.times, block.units, first, end)
            for at in range(first, end) if queue.far and number not in dispatcher.lmq_numbers else ():
                unit = UNIT.unpack(block.units, at * UNIT_SIZE)
                if unit.physical_offset in queue.far:
                    self.found.append((unit.physical_offset, unit.size, block.times[at]))
