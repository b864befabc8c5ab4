"""Truncates queues and index at their beginning after the log's first files were deleted.

Whole files are deleted. The last file of a queue and of the index stays, so that queue offsets continue. Upstream:
ConsumeQueue.deleteExpiredFile, correctMinOffset, ConsumeQueueExt.truncateByMinAddress, IndexService.deleteExpiredFile.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from datetime import datetime

from flintmq.config.keys import StoreConfig
from flintmq.format import consume_queue_ext
from flintmq.format.consume_queue import Unit
from flintmq.storage.files.filesystem import Effects
from flintmq.store.consumequeue.live_queue import RunningQueue
from flintmq.store.consumequeue.live_queues import ConsumeQueues
from flintmq.store.consumequeue.reader import ExtQueue, UnitFile, UnitQueue, batch_queue, plain_queue
from flintmq.store.index import reader
from flintmq.store.layout.queue_name import QueueName

log = logging.getLogger("flintmq.retention")


class Expiry:
    """Expires the derived files of one store.

    `queues`: its queues; none if another process dispatches. Thread: one at a time, in parallel with the dispatcher.
    """

    def __init__(self, root: str, config: StoreConfig, queues: ConsumeQueues, effects: Effects) -> None:
        self.root, self.config, self.queues, self.effects = root, config, queues, effects

    def follow(self, log_begin: int) -> None:
        """Raise the minimum offsets, and delete files with only records before `log_begin`.

        Durability: none; a file that returns after a power cut is deleted by the next call.
        """
        for (topic, queue_id), queue in list(self.queues.plain.items()):
            if queue is not None:
                name = QueueName(os.fsdecode(topic), queue_id)
                units = plain_queue(self.root, name, self.effects)
                # The bound before the files: no reader is sent to one that goes next.
                queue.raise_minimum(units.first_kept(log_begin, queue.max_offset))
                self._delete(units, log_begin)
                self._delete_ext(queue, name)
        for (topic, queue_id), batch in list(self.queues.batch.items()):
            if batch is not None:
                self._delete(batch_queue(self.root, QueueName(os.fsdecode(topic), queue_id), self.effects), log_begin)
        self._delete_index(log_begin)

    def _delete(self, units: UnitQueue, log_begin: int) -> None:
        """Delete files whose last unit's record is gone."""
        for file in expired_units(units, log_begin):
            self._remove(file.path, f"its messages were before log offset {log_begin}")

    def _delete_ext(self, queue: RunningQueue, name: QueueName) -> None:
        """Delete ext files that no unit of the queue points into any more."""
        # The first unit that is left says which addresses are still in use.
        first = queue.units(queue.min_offset, 1) if queue.writer.ext is not None else []
        for file in expired_ext(ExtQueue.of(self.root, name, self.effects), first[0]) if first else ():
            self._remove(file.path, f"no unit from {queue.min_offset} on points into it")

    def _delete_index(self, log_begin: int) -> None:
        for file in expired_index(reader.discover(self.root, self.config, self.effects), log_begin):
            self._remove(file.path, f"its keys were before log offset {log_begin}")

    def _remove(self, path: str, rule: str) -> None:
        # The descriptor first: else the next checkpoint would look for a file that is gone.
        self.queues.files.forget(path)
        remove(path, rule, self.effects)


def expired_units(units: UnitQueue, log_begin: int) -> Iterator[UnitFile]:
    """Yield files of a queue whose last unit's record is gone; never the last file."""
    # The last file stays: it shows at which offset the queue goes on when all of its messages have expired.
    for file in units.files[:-1]:
        last = units.unit((file.start + file.size) // units.layout.size - 1)
        if last is None or last.physical_offset >= log_begin:
            return
        yield file


def expired_ext(ext: ExtQueue, first: Unit) -> Iterator[UnitFile]:
    """Yield files of an ext queue before that of the queue's first unit; never the last file."""
    if consume_queue_ext.is_address(first.tags_code):
        needed = consume_queue_ext.position(first.tags_code)
        yield from (file for file in ext.files[:-1] if file.start + file.size <= needed)


def expired_index(files: Sequence[reader.IndexFileReader], log_begin: int) -> Iterator[reader.IndexFileReader]:
    """Yield index files, in order, whose last key's record is gone; never the last file."""
    for file in files[:-1]:
        header = file.header()
        if header is None or header.end_physical_offset >= log_begin:
            return
        yield file


def remove(path: str, rule: str, effects: Effects) -> None:
    """Remove a file and log the rule and the file's date."""
    written = effects.modified_ms(path)
    if written is not None:
        effects.unlink(path)
        log.info("deleted %s: %s, last written %s", path, rule, datetime.fromtimestamp(written / 1000).isoformat(" "))
