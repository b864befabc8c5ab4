"""One queue of a running store: its bounds, its units by queue offset, its changes.

Files are read with pread, so that a reader sees all that is written and no map is shared. Upstream: ConsumeQueue,
BatchConsumeQueue (getIndexBuffer, getBatchMsgIndexBuffer).
"""

# Writer algorithm: dispatch, one thread at a time (DispatchService has a lock for it), or recovery before there is one
#
# W1 Index items first (dispatch_service.py, `_write`): a message that a reader can get can be found by its key.
# W2 Write the units to their places (QueueWriter.place): the kernel has them. They are above `max_offset`, unless a
#    queue was moved back (`rewind`) or began at 0 again.
# W3 `min_offset`, if these are the first units: before W5, or readers would be sent to the pre-blank units below.
# W4 If units below `max_offset` were rewritten: raise `forgotten` and drop all `blocks`, in one step under the lock of
#    KeptUnits. After W2, so that who reads the file from now on finds the new units.
# W5 `max_offset`: only now do readers ask for the units.
# W6 `arrivals`, and wake who waits (ConsumeQueues.wake), with the lock of `changed`: a reader compares `arrivals` with
#    that lock before it sleeps.
# W7 The units are synced later, once a second (OpenFiles.flush); then the mark says that they are on disk.
#
# `min_offset` is also raised by retention (`raise_minimum`), which runs beside: never above `max_offset`, and the
# records of the units below are gone. Whoever of the two comes last, no unit of a kept record is below it.
#
# Reader algorithm: a get, in any thread
#
# R1 Read `min_offset`, then `max_offset`. Between W3 and W5 a reader may see the new begin and the old end: a queue
#    that ends at 0 has no message, whatever its begin. Without a GIL he may see the old begin and the new end: he is
#    sent to pre-blank units, finds no record, and steps over them.
# R2 Take the block of the offset from `blocks`, if it is long enough: a block is kept as it was read, and the queue may
#    have grown since.
# R3 Else read `forgotten`, then the file, never above `max_offset`.
# R4 Keep the block only if `forgotten` is the same as before R3, under the lock of W4: it was either read after W2, or
#    is dropped by W4, or not kept.
# R5 Compare each unit with its record (kernels/read/fetch.py): between W2 and W4 a reader may have an old unit. A unit
#    is a hint, the record decides.
#
# The two offsets are plain numbers: with a GIL it orders them, and W2 and R3 are calls of the system, whose own locks
# order the bytes of the file. Without a GIL only these order W2 and W5.
#
# What a crash may show
#
# C1 A kill amid W2: some units, perhaps the begin of one that crosses a page. The next start takes the last unit that
#    its record confirms, and zeroes what follows (load_queues.py); the log is dispatched again from where a queue lacks
#    units.
# C2 A kill between W2 and W5: units that no reader knows of. They are right, and the start keeps them; where they are
#    written again, the same bytes go to the same place, because the log alone decides both.
# C3 A kill after W1: items without units. The units are made again; items are not doubled, because the index knows the
#    last one that it has (store/index/index_service.py).
# C4 A power cut: any sector since the last W7 may be missing, also amid older units. So the start reads the queues from
#    the disk, and writes units again from the mark on (store/recovery/derived.py).
# C5 A power cut, ASYNC_FLUSH: units may be on disk whose records are not. They point after the log's end, and the start
#    zeroes them. Under SYNC_FLUSH only flushed records are dispatched.

from __future__ import annotations

import itertools
import os
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from typing import TypeAlias

from flintmq.format.batch_queue import BATCH_UNIT_SIZE, BatchUnit
from flintmq.format.consume_queue import EXPIRED, UNIT, UNIT_SIZE, Unit
from flintmq.format.consume_queue_ext import is_address
from flintmq.kernels.write.fast_get import ReadableQueue
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.threads.mutex import Lock
from flintmq.store.consumequeue.reader import ExtQueue, batch_queue, plain_queue
from flintmq.store.consumequeue.writer import BatchQueueWriter, QueueWriter, offset_is_implausible
from flintmq.store.dispatch.dispatcher import UnitBlock
from flintmq.store.layout.queue_name import QueueName

BLOCK = 512  # units read at once, at least
UNITS_KEPT = 512 * 512  # of all queues of a store: 5 MiB
LEAST_UNITS = 16  # that a block counts for: what leads to it takes as much memory
Entry: TypeAlias = tuple[Unit, int, int]  # a unit, its first queue offset, and its number of queue offsets


class KeptUnits:
    """Bounds the units that the queues of a store keep, in blocks.

    Gets at changing offsets come back to them, and opening and reading a queue's file costs as much as reading the
    message.

    Thread: any.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: OrderedDict[tuple[RunningQueue, int], int] = OrderedDict()  # queue, key of its block -> units
        self._units = 0

    def keep(self, queue: RunningQueue, first: int, units: bytes, forgotten: int) -> None:
        """Keep a block of a queue, and drop those that were read first if there are too many units.

        `forgotten` is that of the queue before the read: units that were rewritten meanwhile are not kept.
        """
        with self._lock:
            # R4: compared under the lock, else W4 could come between this and the entry.
            if queue.forgotten != forgotten:
                return
            count = max(len(units) // UNIT_SIZE, LEAST_UNITS)
            self._units += count - self._kept.pop((queue, first), 0)
            self._kept[queue, first] = count
            queue.blocks[first] = units
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        while self._units > UNITS_KEPT:
            (owner, old), count = self._kept.popitem(last=False)
            self._units -= count
            owner.blocks.pop(old, None)

    def check_invariants(self) -> None:
        """Assert that few units are kept, in blocks of whole units that are no larger than a block.

        Thread: any.
        """
        with self._lock:
            sizes = [(len(queue.blocks.get(first, b"")), queue.units_per_block) for queue, first in self._kept]
            assert sum(self._kept.values()) == self._units <= UNITS_KEPT
        for size, units in sizes:
            assert size % UNIT_SIZE == 0 and size <= units * UNIT_SIZE

    def forget(self, queue: RunningQueue) -> None:
        """Drop the blocks of one queue, whose units change."""
        with self._lock:
            # W4. The number before the blocks does not matter here, the lock does.
            queue.forgotten += 1
            for first in queue.blocks:
                self._units -= self._kept.pop((queue, first), 0)
            queue.blocks.clear()


class RunningQueue(ReadableQueue):
    """One plain queue of a running store.

    Thread: `raise_minimum` retention only; other methods that change the queue the dispatcher only, or recovery before
    there is one. Reading any: `max_offset` is raised after the units below it are written.
    """

    unit_size = UNIT_SIZE

    def __init__(self, writer: QueueWriter, root: str, name: QueueName, effects: Effects, kept: KeptUnits) -> None:
        super().__init__(os.fsencode(name.topic), writer.file_size // UNIT_SIZE, BLOCK)
        self.writer, self.root, self.name, self.effects, self.kept = writer, root, name, effects, kept
        self.folder = writer.units.directory
        self.forgotten = 0  # number of times that its kept units were dropped

    @property
    def first_file(self) -> str:
        """Path of the file of queue offset 0, which may not be there."""
        return os.path.join(self.folder, f"{0:020d}")

    # -- changes ----------------------------------------------------------------------------------------------------

    def continue_at(self, low: int, end: int) -> None:
        """Continue a queue on disk, whose units are those of the queue offsets [low, end)."""
        assert 0 <= low <= end
        self.writer.continue_at(end)
        self.min_offset, self.max_offset = low, end

    def rewind(self, offset: int) -> None:
        """Continue at a smaller queue offset: the units from there on are written again.

        Readers see the old units meanwhile.
        """
        # `max_offset` stays: W5 raises it only, and the records of the old units are there.
        self.writer.rewind(offset, self._addresses_from(offset))
        self.min_offset = min(self.min_offset, offset)

    def _addresses_from(self, offset: int) -> dict[int, int]:
        """Return the ext addresses of units from this offset on, by the log offset of their record.

        They end at the first unit without an address: all after it get new ones, so that addresses keep increasing, on
        which retention relies.
        """
        addresses: dict[int, int] = {}
        if self.writer.ext is None:
            return addresses
        for number, unit in plain_queue(self.root, self.name, self.effects).units(offset, self.writer.next):
            if number != offset + len(addresses) or not isinstance(unit, Unit) or not is_address(unit.tags_code):
                break
            addresses[unit.physical_offset] = unit.tags_code
        return addresses

    def take(self, block: UnitBlock, first: int, end: int) -> None:
        """Write units [first, end) of a block, and raise the end that readers see.

        Durability: the kernel has them.
        """
        writer = self.writer
        begun = writer.next < 0
        first += begun and offset_is_implausible(block.offsets, first, end, -1)
        # W2
        least = writer.place(block.offsets, block.times, block.units, first, end)
        # W3
        if begun and least >= 0:
            self.min_offset = least
        # W4
        if block.offsets[first] < self.max_offset:
            self.forget()
        # W5. Never lower: where units are written again, readers go on with the old ones until they are.
        self.max_offset = max(writer.next, self.max_offset)

    @property
    def last_record(self) -> int:
        """Log offset of the last unit's record; -1 without one. Thread: the dispatcher's."""
        last = self.units(self.max_offset - 1, 1) if self.max_offset > 0 else []
        return last[0].physical_offset if last else -1

    def begin_expired(self, offset: int) -> None:
        """Have a queue without units go on at an offset; see `QueueWriter.begin_expired`."""
        self.writer.next = -1
        self.writer.begin_expired(offset)
        self.min_offset = self.max_offset = offset

    def raise_minimum(self, offset: int) -> None:
        """Note that the log begins after the records of units below this queue offset."""
        if offset > self.min_offset:
            # The last unit may have expired, too: then the queue is empty, and begins where it ends.
            self.min_offset = min(offset, self.max_offset)

    def recompute_minimum(self, log_begin: int) -> None:
        """Find the smallest queue offset among the units as they are now."""
        units = plain_queue(self.root, self.name, self.effects)
        self.min_offset = min(units.first_kept(log_begin, self.max_offset), self.max_offset)

    # -- reading ----------------------------------------------------------------------------------------------------

    def ext(self) -> ExtQueue:
        return ExtQueue.of(self.root, self.name, self.effects)

    def bounds(self, log_begin: int) -> tuple[int, int]:
        """Return the smallest queue offset and the one after the largest."""
        # R1
        return self.min_offset, self.max_offset

    def entries(self, offset: int, count: int) -> Iterator[Entry]:
        """Yield up to `count` units from this offset on, all of one file, as upstream reads them."""
        return zip(UNIT.iter(self.unit_bytes(offset, count)), itertools.count(offset), itertools.repeat(1))

    def units(self, offset: int, count: int) -> list[Unit]:
        """Return the same units without their offsets."""
        return list(UNIT.iter(self.unit_bytes(offset, count)))

    def unit_bytes(self, offset: int, count: int) -> bytes:
        """Return the bytes of these units.

        A whole block around them is read and kept, because most gets continue after the previous one. Units below the
        largest offset do not change, except when `forget` is called.
        """
        count = min(count, self.max_offset - offset, self.next_file(offset) - offset)
        if count <= 0:
            return b""
        first = self.block_of(offset)
        # R2
        block = self.blocks.get(first, b"")
        if len(block) < (offset - first + count) * UNIT_SIZE:
            block = self.read_block(offset, count)
        at = (offset - first) * UNIT_SIZE
        return block[at : at + count * UNIT_SIZE]

    def read_block(self, offset: int, count: int = 1) -> bytes:
        """Read the block with this queue offset, and keep it.

        What is returned is longer than what is kept if it must hold `count` units from there on: what a store keeps is
        bounded by a number of blocks.
        """
        # R3: the number before the file is read.
        first, forgotten = self.block_of(offset), self.forgotten
        block = self._read(first, max(offset + count, first + self.units_per_block))
        self.kept.keep(self, first, block[: self.units_per_block * UNIT_SIZE], forgotten)
        return block

    def _read(self, first: int, end: int) -> bytes:
        start = first - first % self.units_per_file
        end = min(end, self.max_offset, self.next_file(first))
        path = os.path.join(self.folder, f"{start * UNIT_SIZE:020d}")
        with suppress(FileNotFoundError), self.effects.reading(path) as fd:
            raw = self.effects.pread(fd, (end - first) * UNIT_SIZE, (first - start) * UNIT_SIZE)
            return raw[: len(raw) - len(raw) % UNIT_SIZE]
        return b""

    def end(self) -> None:
        """Let no reader find a message here any more: the queue is removed."""
        self.min_offset = self.max_offset = 0
        self.forget()

    def forget(self) -> None:
        """Drop what is kept: units below the largest offset were rewritten."""
        self.kept.forget(self)

    def check_invariants(self) -> None:
        """Assert that the bounds are ordered and kept units are within them.

        Thread: the dispatcher's, or nobody dispatches.
        """
        low, high, following = self.min_offset, self.max_offset, self.writer.next
        assert 0 <= low <= high, f"{self.folder}: begins at {low} and ends at {high}"
        assert -1 <= following <= high, f"{self.folder}: readers see up to {high}, and {following} is the next unit"
        assert self.writer.file_size % UNIT_SIZE == 0, f"{self.folder}: a unit would lie in two files"
        for first, block in list(self.blocks.items()):
            end = first + len(block) // UNIT_SIZE
            assert len(block) % UNIT_SIZE == 0 and end <= high, f"{self.folder}: keeps units that are not there"
            assert not block or end <= self.next_file(first), f"{self.folder}: keeps units of two files at once"

    def next_file(self, offset: int) -> int:
        return offset - offset % self.units_per_file + self.units_per_file


class RunningBatchQueue:
    """One batch queue of a running store.

    A unit covers as many queue offsets as its record has messages, and names the first one itself. A topic that was
    deleted and made again begins at 0 once more; the units of its earlier life are removed then, as in a plain queue.

    Thread: `take` the dispatcher only; reading any.
    """

    unit_size = BATCH_UNIT_SIZE

    def __init__(self, writer: BatchQueueWriter, root: str, name: QueueName, effects: Effects) -> None:
        self.writer, self.root, self.name, self.effects = writer, root, name, effects

    def take(self, unit: BatchUnit) -> None:
        """Append one unit, unless its queue offsets are there already.

        Durability: the kernel has it.
        """
        self.writer.take(unit)

    @property
    def max_offset(self) -> int:
        return self.writer.next

    @property
    def last_record(self) -> int:
        """Log offset of the last unit's record; -1 without one."""
        return self.writer.last

    def begin_expired(self, offset: int) -> None:
        """Have a queue without units go on at an offset; see `QueueWriter.begin_expired`."""
        assert self.writer.next == 0 < offset
        self.writer.put(BatchUnit(*EXPIRED, 0, offset - 1, 1))

    def ext(self) -> ExtQueue:
        return ExtQueue((), self.root, self.effects)

    def bounds(self, log_begin: int) -> tuple[int, int]:
        """Return the smallest queue offset of a record at or after `log_begin`, and the end."""
        high = self.writer.next
        units = batch_queue(self.root, self.name, self.effects)
        stop = self.writer.position // BATCH_UNIT_SIZE
        number = units.first_kept(log_begin, stop)
        first = units.unit(number) if number < stop else None
        return (first.base_offset if isinstance(first, BatchUnit) else high), high

    def entries(self, offset: int, count: int) -> Iterator[Entry]:
        """Yield the unit of this offset and those after it in its file, for up to `count` offsets."""
        units = batch_queue(self.root, self.name, self.effects)
        stop = self.writer.position // BATCH_UNIT_SIZE
        number = units.bisect(lambda unit: units.span(0, unit)[1] <= offset, stop)
        for unit in units.read(number, min(count, stop - number)):
            if not isinstance(unit, BatchUnit) or unit.base_offset - offset >= count:
                return
            yield Unit(unit.physical_offset, unit.size, unit.tags_code), unit.base_offset, unit.messages

    def check_invariants(self) -> None:
        """Assert that the writer is at a whole unit. Thread: the dispatcher's, or nobody dispatches."""
        size, position = self.writer.units.file_size, self.writer.position
        assert position % size % BATCH_UNIT_SIZE == 0, f"{self.name}: the next unit begins amid another, at {position}"
        assert self.writer.next >= 0, f"{self.name}: the next queue offset is {self.writer.next}"

    def next_file(self, offset: int) -> int:
        """Return where to continue if the file of this offset is missing: at the first unit."""
        return max(offset + 1, self.bounds(0)[0])


AnyQueue: TypeAlias = RunningQueue | RunningBatchQueue
