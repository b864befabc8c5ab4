"""Delivers messages with a delay level when they are due.

A delayed message is put to the schedule topic, in the queue of its level, with its real topic and queue as properties;
the unit of such a record holds the time of delivery. All messages of a queue wait equally long, so the first one is due
first. A due message is put again to its real topic, and `delayOffset.json` records the progress of each level. A crash
between the two may deliver a message twice, never not at all. Upstream: ScheduleMessageService,
HookUtils.transformDelayLevelMessage.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from flintmq.config.keys import StoreConfig
from flintmq.format import config_json, consume_queue_ext
from flintmq.format.consume_queue import SCHEDULE_TOPIC, Unit
from flintmq.kernels.write.fast_append import CLOCK_SET_BACK_MS
from flintmq.message import Message, PutMessageStatus, PutResult, StoredMessage
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.threads.mutex import Lock
from flintmq.store.append.delayed_message import delivered
from flintmq.store.consumequeue.live_queues import ConsumeQueues
from flintmq.store.layout.config_writer import ConfigFile

log = logging.getLogger("flintmq.delay")

TABLE = "offsetTable"
STEP_MS = 100  # interval of checking, as upstream
FIRST_MS = 1000  # after the start, as upstream
AT_ONCE = 1000  # units of one level before the next level
RAW_TOPIC = SCHEDULE_TOPIC.encode()
REFUSED = (
    PutMessageStatus.MESSAGE_ILLEGAL,
    PutMessageStatus.PROPERTIES_SIZE_EXCEEDED,
    PutMessageStatus.WHEEL_TIMER_NOT_ENABLE,
)

Lookup = Callable[[Unit, bytes, int, int], StoredMessage | None]  # unit, topic, queue id, queue offset


class DelayService:
    """Delivers due messages.

    `put`: appends to the log without waiting for the disk. Thread: see each method.
    """

    def __init__(
        self,
        queues: ConsumeQueues,
        lookup: Lookup,
        put: Callable[[Message], PutResult],
        file: ConfigFile,
        config: StoreConfig,
        effects: Effects,
    ) -> None:
        self.queues, self.lookup, self.put, self.file = queues, lookup, put, file
        self.delay_ms, self.effects = config.delay_ms, effects
        self._step = Lock()
        self._heads: dict[int, tuple[int, int]] = {}  # level -> (queue offset, time of delivery) of what it waits for

    def offset(self, level: int) -> int:
        """Return the queue offset of the next message of a level (from 1); 0 if it is not known.

        Thread: any.
        """
        with self.file.lock:
            table = self.file.table(TABLE)
            return config_json.integer(table.get(level, table.get(str(level)))) or 0

    def deliver_once(self) -> bool:
        """Deliver messages that are due now; return whether there may be more.

        Thread: any; one at a time. Durability: as an ASYNC_FLUSH put; the store's housekeeping writes the offsets.
        """
        with self._step:
            more = [self._deliver(level, delay) for level, delay in enumerate(self.delay_ms, 1)]
        return any(more)

    def _deliver(self, level: int, delay: int) -> bool:
        queue = self.queues.plain.get((RAW_TOPIC, level - 1))
        if queue is None or queue.max_offset == 0:
            return False
        offset = noted = self.offset(level)
        offset = min(max(offset, queue.min_offset), queue.max_offset)
        if offset != noted:
            log.warning("%s: level %d: offset %d is outside its queue; delivery continues at %d",
                        self.file.folder, level, noted, offset)  # fmt: skip
            self._note(level, offset)
        head, due = self._heads.get(level, (-1, 0))
        if head == offset and self._waits(due, delay):
            return False
        units = queue.units(offset, AT_ONCE)
        if not units and offset < queue.max_offset:  # a file that is missing: on to the next one
            self._note(level, min(queue.next_file(offset), queue.max_offset))
            return True
        for unit in units:
            if not self._is_done(unit, level, delay, offset):
                return False
            # After the put: a crash in between delivers twice; the other way round it would deliver never.
            offset += 1
            self._note(level, offset)
        return len(units) > 0 and offset < queue.max_offset

    def _is_done(self, unit: Unit, level: int, delay: int, offset: int) -> bool:
        """Return whether this unit is finished; False if it is not due, or could not be put."""
        waiting = None
        due = unit.tags_code
        if consume_queue_ext.is_address(due):  # the ext queue holds the time; the record tells it too
            waiting = self.lookup(unit, RAW_TOPIC, level - 1, offset)
            due = waiting.store_timestamp + delay if waiting is not None else 0
        if self._waits(due, delay):
            self._heads[level] = offset, due
            return False
        waiting = waiting or self.lookup(unit, RAW_TOPIC, level - 1, offset)
        if waiting is None:  # expired, or a hole of the queue
            return True
        message = delivered(waiting)
        if message is None:
            log.error("%s: offset %d of level %d names no topic to deliver to; it is left out",
                      self.file.folder, offset, level)  # fmt: skip
            return True
        result = self.put(message)
        if result.status in REFUSED:
            log.error(
                "%s: offset %d of level %d cannot be delivered to %r (%s); it is left out",
                self.file.folder, offset, level, message.topic[:100], result.status.name,
            )  # fmt: skip
        return result.physical_offset >= 0 or result.status in REFUSED

    def _waits(self, due: int, delay: int) -> bool:
        """Return whether a time of delivery is still to come.

        Units further ahead than their delay were written before the clock was set back. Upstream delivers them at once,
        which is early after a small step. Here store times never step back by less than an hour, and such units are
        waited for.
        """
        now = self.effects.now_ms()
        return now < due <= now + delay + CLOCK_SET_BACK_MS

    def _note(self, level: int, offset: int) -> None:
        assert level >= 1 and offset >= 0
        with self.file.lock:
            table = self.file.table(TABLE)
            table.pop(str(level), None)
            table[level] = offset
            self.file.mark_changed()
