"""One queue of a running store, as readers see it: its bounds, and its units by queue offset. Files are read with
pread, so that a reader sees what is written and no map is shared.

Source: upstream ConsumeQueue, BatchConsumeQueue (getIndexBuffer, getBatchMsgIndexBuffer).
"""

from __future__ import annotations

import itertools
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from typing import TypeAlias

from flintmq.format.batch_queue import BATCH_UNIT_SIZE, BatchUnit
from flintmq.format.consume_queue import UNIT, UNIT_SIZE, Unit
from flintmq.storage.filesystem import Effects
from flintmq.store.consumequeue.reader import ExtQueue, batch_queue
from flintmq.store.consumequeue.writer import BatchQueueWriter, QueueWriter
from flintmq.store.layout import directories
from flintmq.store.layout.queue_name import QueueName

BLOCK = 512  # units that are read at least
BLOCKS_KEPT = 256  # of all queues of a store, 2.5 MiB
Entry: TypeAlias = tuple[Unit, int, int]  # a unit, the first queue offset that it stands for, and how many


class KeptUnits:
    """Blocks of units that were read lately, of all plain queues of a store: gets that jump about come back to them,
    and to open a queue's file and read it costs as much as to read the message.

    Thread: any.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blocks: OrderedDict[tuple[str, int], bytes] = OrderedDict()

    def find(self, folder: str, first: int) -> bytes:
        """The units of a queue from this block's first offset on; empty if they are not kept."""
        with self._lock:
            found = self._blocks.get((folder, first), b"")
            if found:
                self._blocks.move_to_end((folder, first))
            return found

    def keep(self, folder: str, first: int, units: bytes) -> None:
        """Keep a block, in place of one that nobody asked for longest."""
        with self._lock:
            self._blocks[folder, first] = units
            self._blocks.move_to_end((folder, first))
            if len(self._blocks) > BLOCKS_KEPT:
                self._blocks.popitem(last=False)

    def check_invariants(self) -> None:
        """Assert that so few blocks are kept as was promised, each of whole units.

        Thread: any.
        """
        with self._lock:
            assert len(self._blocks) <= BLOCKS_KEPT
            assert all(len(block) % UNIT_SIZE == 0 for block in self._blocks.values())

    def forget(self, folder: str) -> None:
        """Those of one queue change."""
        with self._lock:
            for key in [key for key in self._blocks if key[0] == folder]:
                del self._blocks[key]


class RunningQueue:
    """One plain queue.

    Attributes:
        min_offset, max_offset: bounds; the latter behind its last unit.
    """

    unit_size = UNIT_SIZE

    def __init__(self, writer: QueueWriter, root: str, name: QueueName, effects: Effects, kept: KeptUnits) -> None:
        self.writer, self.root, self.name, self.effects, self.kept = writer, root, name, effects, kept
        self.folder = os.path.join(root, directories.QUEUES, name.topic, str(name.queue_id))
        self.min_offset = self.max_offset = 0
        self._block = 0, b""  # queue offset of the first unit, units: what was read last; always read together

    def ext(self) -> ExtQueue:
        """What the tags fields of its units point at, if they do."""
        return ExtQueue.of(self.root, self.name, self.effects)

    def bounds(self, log_begin: int) -> tuple[int, int]:
        """Smallest queue offset and the one behind the largest."""
        return self.min_offset, self.max_offset

    def entries(self, offset: int, count: int) -> Iterator[Entry]:
        """Up to `count` units from this offset on, all of one file (as upstream reads them)."""
        return zip(UNIT.iter(self.unit_bytes(offset, count)), itertools.count(offset), itertools.repeat(1))

    def units(self, offset: int, count: int) -> list[Unit]:
        """The same, without their offsets."""
        return list(UNIT.iter(self.unit_bytes(offset, count)))

    def unit_bytes(self, offset: int, count: int) -> bytes:
        """The bytes of these units.

        What is read is a block around them, and kept: most gets ask for what stands behind the get before. Units below
        the largest offset do not change (`forget` is for the day they do).
        """
        count = min(count, self.max_offset - offset, self.next_file(offset) - offset)
        if count <= 0:
            return b""
        first, block = self._block
        if not first <= offset <= first + len(block) // UNIT_SIZE - count:
            start = self.next_file(offset) - self.writer.file_size // UNIT_SIZE
            first = max(offset - offset % BLOCK, start)
            block = self.kept.find(self.folder, first)
            if len(block) < (offset - first + count) * UNIT_SIZE:
                block = self._read(start, first, max(offset + count, first + BLOCK))
                self.kept.keep(self.folder, first, block)
            self._block = first, block
        at = (offset - first) * UNIT_SIZE
        return block[at : at + count * UNIT_SIZE]

    def _read(self, start: int, first: int, end: int) -> bytes:
        """The units from `first` to `end`, as far as the file has them that begins at the queue offset `start`."""
        end = min(end, self.max_offset, self.next_file(first))
        path = os.path.join(self.folder, f"{start * UNIT_SIZE:020d}")
        with suppress(FileNotFoundError), self.effects.reading(path) as fd:
            raw = self.effects.pread(fd, (end - first) * UNIT_SIZE, (first - start) * UNIT_SIZE)
            return raw[: len(raw) - len(raw) % UNIT_SIZE]
        return b""

    def forget(self) -> None:
        """Units below the largest offset are written."""
        self._block = 0, b""
        self.kept.forget(self.folder)

    def check_invariants(self) -> None:
        """Assert what holds between two blocks of dispatch: the bounds are ordered, and kept units lie in them.

        Thread: the dispatcher's, or nobody dispatches.
        """
        low, high, following = self.min_offset, self.max_offset, self.writer.next
        assert 0 <= low <= high, f"{self.folder}: begins at {low} and ends at {high}"
        assert -1 <= following <= high, f"{self.folder}: readers see up to {high}, and {following} is the next unit"
        assert self.writer.file_size % UNIT_SIZE == 0, f"{self.folder}: a unit would lie in two files"
        (first, block), count = self._block, len(self._block[1]) // UNIT_SIZE
        assert len(block) % UNIT_SIZE == 0 and first + count <= high, f"{self.folder}: keeps units that are not there"
        assert count == 0 or first + count <= self.next_file(first), f"{self.folder}: keeps units of two files at once"

    def next_file(self, offset: int) -> int:
        """First queue offset of the file behind the one that this offset belongs to."""
        per_file = self.writer.file_size // UNIT_SIZE
        return offset - offset % per_file + per_file


class RunningBatchQueue:
    """One batch queue. A unit stands for as many offsets as its record has messages, and says itself for which."""

    unit_size = BATCH_UNIT_SIZE

    def __init__(self, writer: BatchQueueWriter, root: str, name: QueueName, effects: Effects) -> None:
        self.writer, self.root, self.name, self.effects = writer, root, name, effects

    def ext(self) -> ExtQueue:
        """Batch queues have none."""
        return ExtQueue((), self.root, self.effects)

    def bounds(self, log_begin: int) -> tuple[int, int]:
        """Smallest queue offset of a record at or behind the log offset `log_begin`, and the one behind the largest."""
        high = self.writer.next
        units = batch_queue(self.root, self.name, self.effects)
        stop = self.writer.position // BATCH_UNIT_SIZE
        number = units.first_kept(log_begin, stop)
        first = units.unit(number) if number < stop else None
        return (first.base_offset if isinstance(first, BatchUnit) else high), high

    def entries(self, offset: int, count: int) -> Iterator[Entry]:
        """The unit in which this offset lies and those behind it, of one file, for up to `count` offsets."""
        units = batch_queue(self.root, self.name, self.effects)
        stop = self.writer.position // BATCH_UNIT_SIZE
        number = units.bisect(lambda unit: units.span(0, unit)[1] <= offset, stop)
        for unit in units.read(number, min(count, stop - number)):
            if not isinstance(unit, BatchUnit) or unit.base_offset - offset >= count:
                return
            yield Unit(unit.physical_offset, unit.size, unit.tags_code), unit.base_offset, unit.messages

    def check_invariants(self) -> None:
        """Assert what holds between two blocks of dispatch: whole units, and none without a message.

        Thread: the dispatcher's, or nobody dispatches.
        """
        size, position = self.writer.units.file_size, self.writer.position
        assert position % size % BATCH_UNIT_SIZE == 0, f"{self.name}: the next unit begins amid another, at {position}"
        assert self.writer.next >= 0, f"{self.name}: the next queue offset is {self.writer.next}"

    def next_file(self, offset: int) -> int:
        """Where to go on when the file of this offset is missing: at the first unit that there is."""
        return max(offset + 1, self.bounds(0)[0])


AnyQueue: TypeAlias = RunningQueue | RunningBatchQueue
