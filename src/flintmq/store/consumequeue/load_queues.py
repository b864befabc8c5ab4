"""Loads the queues of a store that starts: opens each, and finds its last valid unit.

A unit is valid if the log confirms it. Units after it are zeroed. Where units are missing, the caller dispatches the
log again, and then ends the loading by `finish`. Upstream: ConsumeQueue.recover,
BatchConsumeQueue.recover, truncateDirtyLogicFiles.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import NamedTuple

from flintmq.format.batch_queue import BATCH_UNIT
from flintmq.format.consume_queue import UNIT, UNIT_SIZE
from flintmq.format.consume_queue_ext import is_address
from flintmq.storage.files.filesystem import Effects
from flintmq.store.commitlog.files import file_start
from flintmq.store.consumequeue.live_queue import RunningBatchQueue, RunningQueue
from flintmq.store.consumequeue.live_queues import ConsumeQueues
from flintmq.store.consumequeue.reader import (
    FIRST_BYTES,
    AnyUnit,
    HeldFiles,
    UnitQueue,
    batch_queue,
    content_size,
    plain_queue,
)
from flintmq.store.consumequeue.writer import zero_after
from flintmq.store.layout import directories
from flintmq.store.layout.deleted_topics import NONE, Deletions
from flintmq.store.layout.file_geometry import LARGEST_FILE
from flintmq.store.layout.queue_name import QueueName, each_queue_name, queue_names
from flintmq.store.layout.small_files import fsync_and_drop_cache

log = logging.getLogger("flintmq.recovery")

RecordIsAt = Callable[[bytes, int, int, int], bool]  # topic, queue id, queue offset, log offset


class LoadedQueue(NamedTuple):
    reached: int  # log offset up to which the queue has all its units
    lacks: bool  # units or a file are missing after that


def read_from_disk(root: str, effects: Effects) -> None:
    """Fsync all files of queues and drop their cached pages: later reads are the device's."""
    for kind in (directories.QUEUES, directories.BATCH_QUEUES, directories.EXT_QUEUES):
        for name in each_queue_name(root, kind, effects):
            folder = os.path.join(root, kind, name.topic, str(name.queue_id))
            for path in (os.path.join(folder, file) for file in effects.listdir(folder)):
                if size := effects.size(path):
                    fsync_and_drop_cache(path, 0, size, effects)


class QueueLoader:
    """Opens all queues, truncates them after their last valid unit, and sets their bounds.

    Args:
        is_at: returns whether a record of this topic (raw) and queue is at a queue offset and log offset.
        deletions: of topics; queues that end before theirs are removed.
        unsure: after an unclean stop: until `finish`, units may be torn, and names of files not on disk.

    Attributes:
        rewound: queues that were moved back since, by their folders; `ConsumeQueues.replay_from` adds them.
        lacking: folders of queues that lost units or files.
    """

    def __init__(
        self, queues: ConsumeQueues, log_begin: int, is_at: RecordIsAt, *, unsure: bool, deletions: Deletions = NONE
    ) -> None:
        self.queues, self.effects, self.deletions = queues, queues.effects, deletions
        self.log_begin, self.is_at, self.unsure = log_begin, is_at, unsure
        self.rewound: dict[str, RunningQueue] = {}
        self.lacking: set[str] = set()

    def load(self, log_end: int) -> int:
        """Load every queue that has a directory.

        Return the log offset up to which all of them have their units; dispatch must continue from there.
        """
        queues, root = self.queues, self.queues.root
        for topic in self.deletions:
            self._finish_deletion(topic)
        if self.unsure:
            queues.files.doubt_names(os.path.join(root, directories.QUEUES))
        dispatched, missing = self.log_begin, log_end
        for kind in (directories.QUEUES, directories.BATCH_QUEUES):
            for name in each_queue_name(root, kind, self.effects):
                topic, loaded = os.fsencode(name.topic), None
                if kind == directories.QUEUES:
                    queue = queues.open_plain(topic, name.queue_id)
                    if queue is not None:
                        loaded = self._load_plain(queue)
                else:
                    with HeldFiles(os.path.join(root, kind), self.effects) as held:
                        units = batch_queue(root, name, self.effects, held)
                        batch = queues.open_batch(topic, name.queue_id)
                        if batch is not None and units.files:
                            loaded = self._load_batch(batch, units)
                if loaded is not None:
                    # The largest: dispatch goes in log order, so all queues have what is before it. A block that a kill
                    # interrupted is after the durable mark of units, and `dispatch_start` goes back to that.
                    dispatched = max(dispatched, loaded.reached)
                    if loaded.lacks:
                        missing = min(missing, max(loaded.reached, self.log_begin))
        return min(dispatched, missing)

    def _finish_deletion(self, topic: bytes) -> None:
        """Remove queues of a deleted topic that a kill has left, or RocketMQ has made again."""
        for kind, listed in ((directories.QUEUES, plain_queue), (directories.BATCH_QUEUES, batch_queue)):
            for name in queue_names(self.queues.root, kind, self.effects, [os.fsdecode(topic)]):
                units = listed(self.queues.root, name, self.effects)
                last = units.unit(units.end() - 1) if units.files and units.end() > units.first else None
                if last is not None and last.physical_offset < self.deletions[topic].offset:
                    self.queues.open(kind, topic, name.queue_id)
                    self.queues.remove(topic, name.queue_id)

    def finish(self) -> None:
        """Find the smallest offsets of queues whose units were written again.

        `load` searched for them among units that a power cut may have torn and that pointed anywhere. The search would
        end as it did then for a short queue whose file has not changed. From now on units and names of files are
        trusted.
        """
        files = self.queues.files
        for folder, queue in self.rewound.items():
            if (self.unsure or folder in self.lacking) and not files.is_known(queue.first_file):
                queue.recompute_minimum(self.log_begin)
        files.trust_names()

    def _load_plain(self, queue: RunningQueue) -> LoadedQueue | None:
        below, file_size = os.path.join(self.queues.root, directories.QUEUES), queue.writer.file_size
        files, data = self.effects.only_file(queue.folder, below, min(FIRST_BYTES, file_size))
        if data is not None and (loaded := self._load_short(queue, files, data)) is not None:
            if self.unsure and files[0][1] == file_size:
                self.queues.files.know(queue.first_file, data[: queue.max_offset * UNIT_SIZE])
            # The first get of each queue need not open its file again, which costs more than all else of it.
            count = min(queue.max_offset, queue.units_per_block)
            self.queues.kept.keep(queue, 0, data[: count * UNIT_SIZE], queue.forgotten)
            return loaded
        if not files:
            return None
        with HeldFiles(below, self.effects) as held:
            units = plain_queue(self.queues.root, queue.name, self.effects, held)
            if not units.files:
                return None
            loaded = self._load_long(queue, units)
        if loaded.lacks and queue.max_offset > 0:  # one without units has no smallest offset
            self.lacking.add(queue.folder)
        return loaded

    def _load_long(self, queue: RunningQueue, units: UnitQueue) -> LoadedQueue:
        written = units.end()
        end, last = self._last_valid(queue.name, units, written)
        zero_after(units.files, end * UNIT_SIZE, self.effects, written * UNIT_SIZE)
        self._truncate_ext(queue, units, end)
        if end == units.first and end == 0:
            return LoadedQueue(self.log_begin, written > end)
        gap = _gap(units, self.log_begin)
        whole = end if gap is None else max(gap, units.first)  # no file is missing below this
        queue.continue_at(min(units.first_kept(self.log_begin, whole), end), end)
        if gap is not None:
            last = units.unit(gap - 1) if gap > units.first else None
            log.warning("%s: a file is missing, so units from offset %d on are rebuilt", queue.folder, gap)
        known = last is not None and UnitQueue.points_to_record(last)
        reached = last.physical_offset + last.size if last is not None and known else self.log_begin
        return LoadedQueue(reached, written > end or gap is not None)

    def _load_short(self, queue: RunningQueue, files: list[tuple[str, int]], data: bytes) -> LoadedQueue | None:
        """Load a plain queue from the first bytes of its only file, as `_load_long` would.

        Most queues of a store with many are like this: one file from queue offset 0, less than a page of units, and
        nothing to truncate. Only zeros follow the bytes. None if there is anything else about the queue; nothing was
        changed.
        """
        name, size = files[0]
        end = -(-content_size(data) // UNIT_SIZE)
        if end * UNIT_SIZE > len(data):  # the last unit goes on after them
            return None
        if end == 0 or file_start(name) != 0 or size % UNIT_SIZE or size > LARGEST_FILE or queue.writer.ext is not None:
            return None
        first, last = UNIT.unpack(data), UNIT.unpack(data, UNIT_SIZE * (end - 1))
        if not UnitQueue.points_to_record(first) or not UnitQueue.points_to_record(last):
            return None
        if min(first.physical_offset, last.physical_offset) < self.log_begin:
            return None
        # The record decides whether the last unit is this queue's: by its looks it may be a stale one.
        if not self.is_at(os.fsencode(queue.name.topic), queue.name.queue_id, end - 1, last.physical_offset):
            return None
        queue.continue_at(0, end)
        return LoadedQueue(last.physical_offset + last.size, False)

    def _load_batch(self, queue: RunningBatchQueue, units: UnitQueue) -> LoadedQueue:
        written = end = units.end()
        gap = _gap(units, self.log_begin)
        if gap is not None:
            log.warning("%s: a file is missing, so units from number %d on are rebuilt", units.folder, gap)
            end = gap
        end, last = self._last_valid(queue.name, units, end)
        # Before the queue goes on: a stale unit after the new ones would count once the units reach it.
        zero_after(units.files, end * BATCH_UNIT.size, self.effects, written * BATCH_UNIT.size)
        if last is None or end == units.first:
            queue.writer.continue_at(end * BATCH_UNIT.size)
            return LoadedQueue(self.log_begin, written > end)
        queue.writer.continue_at(end * BATCH_UNIT.size, UnitQueue.span(end - 1, last)[1], last.physical_offset)
        return LoadedQueue(last.physical_offset + last.size, written > end)

    def _last_valid(self, name: QueueName, units: UnitQueue, end: int) -> tuple[int, AnyUnit | None]:
        """Return the number after the last valid unit below `end`, and the unit that was read last.

        A unit is valid if its record is in the log, or has expired, or if it is pre-blank.
        """
        topic = os.fsencode(name.topic)
        last: AnyUnit | None = None
        while end > units.first:
            last = units.unit(end - 1)
            if last is not None and last.is_written:
                if self._has_expired(units, end - 1, last) or not UnitQueue.points_to_record(last):
                    break
                if self.is_at(topic, name.queue_id, UnitQueue.span(end - 1, last)[0], last.physical_offset):
                    break
            end -= 1
        return end, last

    def _has_expired(self, units: UnitQueue, number: int, unit: AnyUnit) -> bool:
        """Return whether a unit points below the log's first offset: retention removed its record.

        After a power cut a torn offset can look the same, if its first bytes are still zero, or zero again. Such an
        offset is not larger than that of the unit before.
        """
        if unit.physical_offset >= self.log_begin:
            return False
        before = units.unit(number - 1) if self.unsure and number > units.first else None
        if before is None or not UnitQueue.points_to_record(before):
            return before is None or before.is_written
        return before.physical_offset < unit.physical_offset

    def _truncate_ext(self, queue: RunningQueue, units: UnitQueue, end: int) -> None:
        """Truncate the ext queue after the last ext unit in use (upstream defect D25)."""
        if queue.writer.ext is None:
            return
        found = queue.ext()
        last = (units.unit(number) for number in range(end - 1, units.first - 1, -1))
        code = next((unit.tags_code for unit in last if unit is not None and is_address(unit.tags_code)), None)
        position = 0 if code is None else found.end_after(code)
        queue.writer.ext.continue_at(position)
        zero_after(found.files, position, self.effects)


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
