"""The consume queues of a running store: each unit written at its queue offset.

Units are written through the file (as upstream's putConsumeQueueDataByFileChannel) and read with pread, so a reader
sees all that is written and no map is shared. Page: docs/internals/format/consume-queue.md. Upstream:
ConsumeQueueStore, ConsumeQueue.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator

from flintmq.config.keys import StoreConfig
from flintmq.format.batch_queue import BATCH_UNIT
from flintmq.format.consume_queue import UNIT_SIZE, Unit
from flintmq.format.consume_queue_ext import is_address
from flintmq.format.text import java_decode, java_encode
from flintmq.storage.filesystem import Effects
from flintmq.store.commitlog.report import Report
from flintmq.store.consumequeue.live_queue import AnyQueue, KeptUnits, RunningBatchQueue, RunningQueue
from flintmq.store.consumequeue.reader import AnyUnit, UnitQueue, batch_queue, plain_queue, zero_behind
from flintmq.store.consumequeue.writer import BatchQueueWriter, OpenFiles, QueueWriter, offset_is_implausible
from flintmq.store.dispatch.dispatcher import Dispatcher, UnitBlock
from flintmq.store.dispatch.queue_positions import LMQ_PREFIX
from flintmq.store.layout import directories
from flintmq.store.layout.queue_name import BATCH, PLAIN, Queue, QueueName, each_queue_name
from flintmq.store.layout.small_files import fsync_and_drop_cache

log = logging.getLogger("flintmq.recovery")

_LIGHT = LMQ_PREFIX.encode()  # light queues have no ext queue
RecordIsAt = Callable[[bytes, int, int, int], bool]  # topic, queue id, queue offset, log offset


class ConsumeQueues:
    """All queues of one running store.

    Thread: `take` the dispatcher only; reading any.
    """

    def __init__(self, root: str, config: StoreConfig, effects: Effects, report: Report) -> None:
        self.root, self.config, self.effects, self.report = root, config, effects, report
        self.files, self.kept = OpenFiles(effects), KeptUnits()
        self.plain: dict[tuple[bytes, int], RunningQueue | None] = {}
        self.batch: dict[tuple[bytes, int], RunningBatchQueue | None] = {}
        self._rewritten: dict[str, RunningQueue] = {}
        self._lacking: set[str] = set()  # folders of queues that lost units or files
        self.changed = threading.Condition()
        self.arrivals = 0  # incremented with every block that readers may see

    # -- loading ----------------------------------------------------------------------------------------------------

    def names(self) -> Iterator[tuple[str, QueueName]]:
        """Yield (kind, name) of every queue with a directory; its topic's is open meanwhile."""
        for kind in (directories.QUEUES, directories.BATCH_QUEUES):
            for name in each_queue_name(self.root, kind, self.effects):
                yield kind, name

    def fsync_and_drop_cache(self) -> None:
        """Fsync all files and drop their cached pages, so that later reads come from the device.

        Raises:
            OSError: the disk refused.
        """
        for kind in (directories.QUEUES, directories.BATCH_QUEUES, directories.EXT_QUEUES):
            for name in each_queue_name(self.root, kind, self.effects):
                folder = os.path.join(self.root, kind, name.topic, str(name.queue_id))
                for path in (os.path.join(folder, file) for file in self.effects.listdir(folder)):
                    if size := self.effects.size(path):
                        fsync_and_drop_cache(path, 0, size, self.effects)

    def load(self, log_begin: int, log_end: int, is_at: RecordIsAt) -> int:
        """Open every queue, truncate units that point to no record of it, and find its bounds.

        Args:
            log_begin, log_end: of the log.
            is_at: returns whether a record of this topic (raw) and queue is at a queue offset and log offset.

        Returns:
            Log offset up to which all queues have their units; dispatch must continue from there.
        """
        dispatched, missing = log_begin, log_end
        for kind, name in self.names():
            topic = os.fsencode(name.topic)
            if kind == directories.QUEUES:
                with plain_queue(self.root, name, self.effects).held() as units:
                    end, cut = self._load_plain(topic, name, units, log_begin, is_at)
            else:
                with batch_queue(self.root, name, self.effects).held() as units:
                    end, cut = self._load_batch(topic, name, units, log_begin, is_at)
            dispatched = max(dispatched, end)
            if cut:
                missing = min(missing, max(end, log_begin))
        return min(dispatched, missing)

    def _load_plain(
        self, topic: bytes, name: QueueName, units: UnitQueue, log_begin: int, is_at: RecordIsAt
    ) -> tuple[int, bool]:
        """Load a plain queue; return (end of the last unit's record, whether units were lost)."""
        queue = self._open(topic, name.queue_id)
        if queue is None or not units.files:
            return log_begin, False
        written = end = units.end()
        last: AnyUnit | None = None
        while end > units.first:
            last = units.unit(end - 1)
            if last is not None and last.is_written:
                expired = self._expired(units, end - 1, last, log_begin) or not UnitQueue.points_to_record(last)
                if expired or is_at(topic, name.queue_id, end - 1, last.physical_offset):
                    break
            end -= 1
        zero_behind(units.files, end * UNIT_SIZE, self.effects, written * UNIT_SIZE)
        self._cut_ext(queue, units, end)
        if end == units.first and end == 0:
            return log_begin, written > end
        queue.max_offset = queue.writer.next = end
        gap = _gap(units, log_begin)
        whole = end if gap is None else max(gap, units.first)  # no file is missing below this
        queue.min_offset = min(units.first_kept(log_begin, whole), end)
        reached = (
            last.physical_offset + last.size if last is not None and UnitQueue.points_to_record(last) else log_begin
        )
        if gap is not None:
            before = units.unit(gap - 1) if gap > units.first else None
            known = before is not None and UnitQueue.points_to_record(before)
            reached = before.physical_offset + before.size if before is not None and known else log_begin
            log.warning("%s lacks a file: units from offset %d on are made again", queue.folder, gap)
        if written > end or gap is not None:
            self._lacking.add(queue.folder)
        return reached, written > end or gap is not None

    def _load_batch(
        self, topic: bytes, name: QueueName, units: UnitQueue, log_begin: int, is_at: RecordIsAt
    ) -> tuple[int, bool]:
        """Load a batch queue, with the same result as `_load_plain`."""
        queue = self._open_batch(topic, name.queue_id)
        if queue is None or not units.files:
            return log_begin, False
        written = end = units.end()
        gap = _gap(units, log_begin)
        if gap is not None:
            log.warning("%s lacks a file: units from number %d on are made again", units.folder, gap)
            end = gap
        last: AnyUnit | None = None
        while end > units.first:
            last = units.unit(end - 1)
            if last is not None and last.is_written:
                expired = self._expired(units, end - 1, last, log_begin)
                if expired or is_at(topic, name.queue_id, UnitQueue.span(end - 1, last)[0], last.physical_offset):
                    break
            end -= 1
        zero_behind(units.files, end * BATCH_UNIT.size, self.effects, written * BATCH_UNIT.size)
        queue.writer.position = end * BATCH_UNIT.size
        if last is None or end == units.first:
            return log_begin, written > end
        queue.writer.next = UnitQueue.span(end - 1, last)[1]
        return last.physical_offset + last.size, written > end

    def _expired(self, units: UnitQueue, number: int, unit: AnyUnit, log_begin: int) -> bool:
        """Return whether a unit points below the log's first offset: retention removed its record.

        After a power cut a torn offset can look the same, if its first bytes are still zero, or zero again. Such an
        offset is not larger than that of the unit before.
        """
        if unit.physical_offset >= log_begin:
            return False
        before = units.unit(number - 1) if self.files.unsure and number > units.first else None
        if before is None or not UnitQueue.points_to_record(before):
            return before is None or before.is_written
        return before.physical_offset < unit.physical_offset

    def _cut_ext(self, queue: RunningQueue, units: UnitQueue, end: int) -> None:
        """Truncate the ext queue after the last ext unit in use (upstream defect D25)."""
        if queue.writer.ext is None:
            return
        found = queue.ext()
        last = (units.unit(number) for number in range(end - 1, units.first - 1, -1))
        code = next((unit.tags_code for unit in last if unit is not None and is_address(unit.tags_code)), None)
        queue.writer.ext.position = 0 if code is None else found.end_behind(code)
        zero_behind(found.files, queue.writer.ext.position, self.effects)

    def _open(self, topic: bytes, queue_id: int) -> RunningQueue | None:
        if (topic, queue_id) not in self.plain:
            path, queue = Queue(PLAIN, topic, queue_id).path, None
            if path is not None:
                has_ext = self.config.enable_consume_queue_ext and not topic.startswith(_LIGHT)
                ext = self.config.mapped_file_size_consume_queue_ext if has_ext else 0
                size = self.config.consume_queue_file_size
                writer = QueueWriter(self.files, self.root, path, size, ext, self.report)
                queue = RunningQueue(
                    writer, self.root, QueueName(os.fsdecode(topic), queue_id), self.effects, self.kept
                )
            self.plain[topic, queue_id] = queue
        return self.plain[topic, queue_id]

    def _open_batch(self, topic: bytes, queue_id: int) -> RunningBatchQueue | None:
        if (topic, queue_id) not in self.batch:
            path, queue = Queue(BATCH, topic, queue_id).path, None
            if path is not None:
                size = self.config.mapper_file_size_batch_consume_queue
                writer = BatchQueueWriter(self.files, self.root, path, size)
                queue = RunningBatchQueue(writer, self.root, QueueName(os.fsdecode(topic), queue_id), self.effects)
            self.batch[topic, queue_id] = queue
        return self.batch[topic, queue_id]

    # -- dispatching ------------------------------------------------------------------------------------------------

    def replay_from(self, block: UnitBlock, dispatcher: Dispatcher) -> bool:
        """Move writers back so that this block's units are written over the same units or holes.

        Returns:
            Whether a queue lacks units before the block's; their records are earlier in the log.
        """
        lacking = False
        for at, (number, first, end) in enumerate(block.queues):
            key = dispatcher.queues.keys[number]
            queue = self._open(key.topic, key.queue_id)
            while queue is not None and first < end and offset_is_implausible(block.offsets, first, end, -1):
                first += 1
            block.queues[at] = number, first, end
            if first == end:
                continue
            if queue is not None and 0 <= block.offsets[first] < queue.writer.next:
                self._keep_addresses(queue, block.offsets[first])
                queue.writer.next = block.offsets[first]
                queue.min_offset = min(queue.min_offset, block.offsets[first])
                if self.files.unsure or queue.folder in self._lacking:
                    self._rewritten[queue.folder] = queue
            elif queue is not None and block.offsets[first] > max(queue.writer.next, 0):
                lacking = True
        return lacking

    def recompute_min_offsets(self, log_begin: int) -> None:
        """Find the smallest offsets of queues whose units were rewritten.

        `load` searched for them among units that a power cut may have torn and that pointed anywhere.
        """
        for queue in self._rewritten.values():
            units = plain_queue(self.root, queue.name, self.effects)
            queue.min_offset = min(units.first_kept(log_begin, queue.max_offset), queue.max_offset)
        self._rewritten.clear()

    def _keep_addresses(self, queue: RunningQueue, offset: int) -> None:
        """Keep the ext addresses of units from this offset on, which are written again.

        After the first unit without an address all get new ones, so that addresses keep increasing, on which retention
        relies.
        """
        if queue.writer.ext is None:
            return
        standing: dict[int, int] = {}
        for number, unit in plain_queue(self.root, queue.name, self.effects).units(offset, queue.writer.next):
            if number != offset + len(standing) or not isinstance(unit, Unit) or not is_address(unit.tags_code):
                break
            standing[unit.physical_offset] = unit.tags_code
        queue.writer.ext.standing = standing

    def take(self, block: UnitBlock, dispatcher: Dispatcher) -> None:
        """Write the units of one block and make them visible to readers.

        Raises:
            OSError: a queue file cannot be made or written.

        Durability: the kernel has them.
        """
        for number, first, end in block.queues:
            key = dispatcher.queues.keys[number]
            queue = self._open(key.topic, key.queue_id)
            if queue is not None and first < end:
                begun = queue.writer.next < 0
                first += begun and offset_is_implausible(block.offsets, first, end, -1)
                least = queue.writer.place(block.offsets, block.times, block.units, first, end)
                if begun and least >= 0:
                    queue.min_offset = least
                if block.offsets[first] < queue.max_offset:
                    queue.forget()
                queue.max_offset = max(queue.writer.next, queue.max_offset)
        for number, unit in block.batch_units:
            key = dispatcher.queues.keys[number]
            batch = self._open_batch(key.topic, key.queue_id)
            if batch is not None and unit.base_offset >= batch.writer.next:
                batch.writer.put(unit)
                batch.writer.next = unit.base_offset + unit.messages
        self.wake()

    def wake(self) -> None:
        """Wake everybody who waits for messages, or for dispatch."""
        with self.changed:
            self.arrivals += 1
            self.changed.notify_all()

    # -- asking -----------------------------------------------------------------------------------------------------

    def find(self, topic: bytes, queue_id: int) -> AnyQueue | None:
        """Return the queue, or None."""
        return self.plain.get((topic, queue_id)) or self.batch.get((topic, queue_id))

    def begin_of(self, topic: str, queue_id: int) -> int | None:
        """Return the smallest queue offset of a queue that has or had a message, or None."""
        queue = self.plain.get((java_encode(topic), queue_id))
        return None if queue is None else queue.min_offset

    def next_offsets(self) -> dict[tuple[bytes, int], int]:
        """Return (topic, queue id) -> queue offset of the next message, for every queue."""
        found = {place: queue.max_offset for place, queue in self.plain.items() if queue is not None}
        for place, batch in self.batch.items():
            if batch is not None:
                found[place] = batch.writer.next
        return found

    def topics(self) -> list[str]:
        """Return the topics that have a queue."""
        return sorted({java_decode(topic) for topic, _ in (*self.plain, *self.batch)})

    def flush(self) -> None:
        """Make everything that was dispatched to queues durable.

        Raises:
            OSError: the disk refused.
        """
        self.files.flush()

    def check_invariants(self) -> None:
        """Assert what always holds of queues, open files and kept units between two blocks.

        Thread: the dispatcher's, or nobody dispatches. Retention may raise smallest offsets meanwhile.
        """
        self.files.check_invariants()
        self.kept.check_invariants()
        plain = [queue for queue in self.plain.values() if queue is not None]
        assert len({queue.folder for queue in plain}) == len(plain), "two queues write the same files"
        for kind in (self.plain, self.batch):
            for (topic, queue_id), queue in list(kind.items()):
                if queue is not None:
                    assert (os.fsencode(queue.name.topic), queue.name.queue_id) == (topic, queue_id), queue.name
                    queue.check_invariants()
        assert all(queue in plain for queue in self._rewritten.values())

    def close(self) -> None:
        """Close every file."""
        self.files.close()


def _gap(units: UnitQueue, log_begin: int) -> int | None:
    """Return the number of the first unit of a missing file, or None.

    Files whose records are all gone are not missing: retention removes them from the front, and the log begins after
    their records.
    """
    width = units.layout.size
    end = 0 if log_begin == 0 else units.files[0].start
    for file in units.files:
        following = units.unit(file.start // width) if file.start > end else None
        if following is not None and UnitQueue.points_to_record(following) and following.physical_offset > log_begin:
            return int(end // width)
        end = file.start + file.size
    return None
