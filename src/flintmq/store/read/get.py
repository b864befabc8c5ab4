"""Answers gets of a running store.

A unit is only a hint: a record is returned only if it has the queue and queue offset that were asked for.
"""

from __future__ import annotations

import logging
import os
import time
from array import array
from collections.abc import Callable
from operator import index

from flintmq.config.keys import StoreConfig
from flintmq.format.consume_queue import UNIT_SIZE, Unit
from flintmq.format.record import BLANK_SIZE
from flintmq.format.record_view import SIZE, size_at
from flintmq.format.text import java_encode
from flintmq.kernels.read import fetch, walk
from flintmq.kernels.read.derive import unit as unit_bytes
from flintmq.kernels.write.fast_append import own_lock
from flintmq.kernels.write.fast_get import FastReader, forked
from flintmq.message import GetMessageStatus, GetResult, RawResult, StoredMessage
from flintmq.storage.memory.mapped_file_queue import MappedFileQueue
from flintmq.store.consumequeue.live_queue import AnyQueue, RunningQueue
from flintmq.store.consumequeue.live_queues import ConsumeQueues
from flintmq.store.dispatch.queue_positions import LMQ_PREFIX, lmq_positions
from flintmq.store.read.answer import Answer, Limits, Pull, Wanted, beside, filtered, raw_result, wanted_codes
from flintmq.store.reentry import main_thread

log = logging.getLogger("flintmq.store")

os.register_at_fork(after_in_child=forked)


class LiveReader:
    """The read path of one running store.

    `check` raises the error for callers that wait when the store is closed.

    `fast`: answers plain gets; None on a disk that must see each read, and where no GIL orders it with closing files.

    Thread: any.
    """

    def __init__(
        self,
        files: MappedFileQueue,
        queues: ConsumeQueues,
        config: StoreConfig,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.files, self.queues, self.config, self.check = files, queues, config, check
        self._position = array("q", [0])
        self.fast = None if files.effects.watches or own_lock() else fast_reader(files, config)

    def get(
        self, topic: str, queue_id: int, offset: int, max_messages: int, tags: str | None, wait_ms: int
    ) -> GetResult:
        found = None if self.fast is None else self.fast.read(topic, queue_id, offset, max_messages, tags, wait_ms)
        return self.get_slowly(topic, queue_id, offset, max_messages, tags, wait_ms) if found is None else found

    def get_slowly(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_messages: int,
        tags: str | None,
        wait_ms: int,
        max_bytes: int | None = None,
    ) -> GetResult:
        """Read messages as `get` does, whatever the queue, its units and its records are like."""
        # Of numpy's numbers or an enum's text, what they stand for is looked up, answered and kept.
        topic, queue_id, offset = str.__str__(topic), index(queue_id), index(offset)
        raw, pull = java_encode(topic), Pull.of(self.config, max_messages, tags, max_bytes)
        self.know(topic, queue_id)

        def take(queue: AnyQueue) -> Answer:
            end = self.files.last.end if self.files.last is not None else 0
            return pull.taken(queue, offset, end, lambda unit, at: self.record(unit, raw, queue_id, at))

        return self.answer(raw, queue_id, offset, wait_ms, take)

    def know(self, topic: str, queue_id: int) -> None:
        """Take gets of this queue the fast way from now on, if it can be."""
        queue = self.queues.find(java_encode(topic), queue_id)
        if self.fast is not None and isinstance(queue, RunningQueue) and not topic.startswith(LMQ_PREFIX):
            self.fast.know(topic, queue_id, queue)

    def answer(
        self, topic: bytes, queue_id: int, offset: int, wait_ms: int, take: Callable[[AnyQueue], Answer]
    ) -> GetResult:
        limit = time.monotonic() + wait_ms / 1000
        while True:
            seen = self.queues.arrivals
            found = self._within(topic, queue_id, offset, take)
            held = found.status in (GetMessageStatus.OFFSET_OVERFLOW_ONE, GetMessageStatus.NO_MESSAGE_IN_QUEUE)
            left = limit - time.monotonic()
            if not held or left <= 0 or (found.status is GetMessageStatus.NO_MESSAGE_IN_QUEUE and offset != 0):
                return found
            with self.queues.changed:
                self.check()  # a caller that came after the close would not be woken by it
                if self.queues.arrivals == seen:
                    self.queues.changed.wait(left)
            self.check()

    def _within(self, topic: bytes, queue_id: int, offset: int, take: Callable[[AnyQueue], Answer]) -> GetResult:
        queue = self.queues.find(topic, queue_id)
        bounds = (0, 0) if queue is None else queue.bounds(self.files.min_offset)
        found = beside(bounds, offset)
        if found is None:
            assert queue is not None
            found = GetResult(*take(queue), *bounds)
        return found

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        queue = self.queues.find(java_encode(topic), queue_id)
        return (0, 0) if queue is None else queue.bounds(self.files.min_offset)

    def get_wanted(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_messages: int,
        tags: str | None,
        max_bytes: int,
        wanted: Wanted,
    ) -> RawResult:
        def read(at: int, most: int, size: int) -> RawResult:
            found = None if self.fast is None else self.fast.read_raw(topic, queue_id, at, most, tags, size)
            return self.get_raw_slowly(topic, queue_id, at, most, tags, size) if found is None else found

        return filtered(read, self.config, offset, max_messages, max_bytes, wanted)

    def get_raw_slowly(
        self, topic: str, queue_id: int, offset: int, max_messages: int, tags: str | None, max_bytes: int
    ) -> RawResult:
        return raw_result(self.get_slowly(topic, queue_id, offset, max_messages, tags, 0, max_bytes))

    def at(self, physical_offset: int) -> StoredMessage | None:
        """Read the valid record that begins at this log offset; None if there is none."""
        head = self.files.read(physical_offset, SIZE.size)
        size = 0 if head is None else size_at(head)
        raw = self.files.read(physical_offset, size) if 0 < size <= self.files.file_size else None
        return StoredMessage(raw) if raw and _counts(raw, physical_offset) else None

    def record(self, unit: Unit, topic: bytes, queue_id: int, offset: int) -> StoredMessage | None:
        """Read the record of a unit if it is valid and has this queue and queue offset; else None.

        RocketMQ's broker compares no checksum when it reads, and skips what it does not find. Here too such an offset
        is skipped, and logged unless retention removed the record or its unit is pre-blank.
        """
        if unit.is_pre_blank:
            return None
        message, fault = self._stands(unit, topic, queue_id, offset)
        # Check after the read: retention may have removed the file meanwhile.
        expired = unit.is_written and unit.physical_offset < self.files.min_offset
        if message is None and not expired:
            log.warning(
                "%s: %r, queue %d: offset %d %s, and is left out (see `flintmq verify`)",
                self.queues.root, topic[:100], queue_id, offset, fault,
            )  # fmt: skip
        return message

    def _stands(self, unit: Unit, topic: bytes, queue_id: int, offset: int) -> tuple[StoredMessage | None, str]:
        """Return the record; or None and the fault of this offset."""
        if not unit.is_written:
            return None, "has no unit in its queue file"
        raw = self.files.read(unit.physical_offset, unit.size)
        if raw is None or size_at(raw) != unit.size:
            return None, f"has a unit that points to no record of its size, at log offset {unit.physical_offset}"
        message = StoredMessage(raw)
        place = raw, unit.physical_offset, len(raw) + BLANK_SIZE, len(raw), topic, queue_id, offset
        if fetch.check(unit_bytes(unit.physical_offset, unit.size, unit.tags_code), 0, 1, *place, self._position)[0]:
            return message, ""
        if not _counts(raw, unit.physical_offset):
            return None, f"is damaged, at log offset {unit.physical_offset}"
        if (message.fields.topic, message.queue_id, message.queue_offset) == (topic, queue_id, offset):
            return message, ""
        there = (p for p in lmq_positions(message) if (p.queue_id, p.offset) == (queue_id, offset))
        if any(java_encode(p.topic) == topic for p in there):
            return message, ""
        return (
            None,
            f"has a unit that points to the record of another queue offset, at log offset {unit.physical_offset}",
        )


def fast_reader(files: MappedFileQueue, config: StoreConfig) -> FastReader:
    statuses = GetMessageStatus.FOUND, GetMessageStatus.NO_MATCHED_MESSAGE, GetMessageStatus.OFFSET_OVERFLOW_ONE
    limits = Limits.of(config, 1)
    numbers = *limits.memory, *limits.disk, limits.young, config.max_filter_message_size // UNIT_SIZE
    return FastReader(files, StoredMessage, GetResult, RawResult, statuses, numbers, wanted_codes, main_thread())


def _counts(raw: bytes, physical_offset: int) -> bool:
    """Return whether these bytes are a valid record at this log offset.

    Its lengths, its own offset and its checksums are compared.
    """
    words = 0, len(raw), len(raw) + BLANK_SIZE, 1, physical_offset, 0, len(raw), walk.CHECK_CRC
    return bool(walk.walk(raw, *words, array("q", [0]))[0])
