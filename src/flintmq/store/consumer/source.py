"""Sources of a consumer: one topic of the running store, or of a read-only view.

Both have the same interface, so that there is one consumer. Queue offsets that do not exist any more are handled here,
as RocketMQ's clients handle a broker's statuses: an offset before the first message moves to it, one beyond the last
message moves to the end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, Protocol

from flintmq.errors import StoreError, UsageError
from flintmq.format.text import java_decode, java_encode
from flintmq.message import GetMessageStatus, Message, PutResult, StoredMessage
from flintmq.store.append.disk_failure import DiskFailure
from flintmq.store.consumequeue.live_queue import RunningQueue
from flintmq.store.consumequeue.live_queues import ConsumeQueues
from flintmq.store.consumequeue.reader import UnitQueue
from flintmq.store.consumer.retry import sent_back
from flintmq.store.dispatch.queue_positions import LMQ_PREFIX
from flintmq.store.read.get import LiveReader
from flintmq.store.services.groups import GroupSettings
from flintmq.store.services.housekeeping import Housekeeping

log = logging.getLogger("flintmq.consumer")

VIEW_POLL_S = 0.2  # interval for checking the files of a store that another process writes
WAIT_S = 0.5  # longest single wait, after which a closed store and moved queues are noticed


class QueueRead(NamedTuple):
    """Result of one read of a queue."""

    messages: list[StoredMessage]
    following: int  # where to continue; it moves on even if no message was wanted
    expired: int = 0
    refused: str = ""  # why the message at the offset cannot be handed out


class TopicSource(Protocol):
    """One topic of a store."""

    root: str
    topic: str
    wait_s: float  # longest time that who waits may let pass before it looks again

    def check(self) -> None:
        """Raise UsageError if the store is closed, or for a signal handler during another call."""

    def queues(self) -> frozenset[int]:
        """Return the queues that have had a message."""

    def topics(self) -> set[str]:
        """Return the topics of the store, those that are only configured among them."""

    def bounds(self, queue_id: int) -> tuple[int, int]:
        """Return the smallest queue offset, and the one after the largest."""

    def read(self, queue_id: int, offset: int, most: int, tags: str | None) -> QueueRead:
        """Read at most `most` messages from an offset on; with tags, selected by their hashes."""

    def at_time(self, queue_id: int, ms: int) -> int:
        """Return the queue offset of the first message stored at this time or later."""

    def as_read(self, queue_id: int) -> object:
        """Return what is equal later only if messages that were read after this call still stand.

        It differs once retention deleted anything, units of the queue were written again, or the disk failed.
        """

    def arrivals(self) -> int:
        """Return a number that changes when there may be new messages."""

    def news(self) -> set[int]:
        """Return the set to which a queue is added once it has news, before `arrivals` changes.

        It is always the same one. Take a queue out before it is read.
        """

    def wait(self, seen: int, seconds: float) -> None:
        """Wait until `arrivals` differs from `seen`, or for `seconds`; may return early."""

    def on_arrival(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call a function, in another thread, when there may be news; return what ends that."""

    def committed(self, group: str, queue_id: int) -> int | None:
        """Return the next offset that a group wants of a queue; None without a commit."""

    def note(self, group: str, offsets: Mapping[int, int]) -> None:
        """Note these offsets in memory."""

    def save(self) -> None:
        """Make the noted offsets durable."""

    def flush(self) -> None:
        """Make the log durable if this process writes it.

        Raises StoreError: it cannot be flushed.
        """

    def close(self) -> None:
        """Let go of what belongs to this consumer alone."""

    def give_back(self, group: str, message: StoredMessage, level: int) -> bool:
        """Put a retry of a message, or a dead letter if the level is negative.

        Return whether it is a retry.
        """


class StoreSource:
    """One topic of the store that this process writes."""

    wait_s = WAIT_S

    def __init__(
        self,
        root: str,
        topic: str,
        reader: LiveReader,
        keeping: Housekeeping,
        check: Callable[[], None],
        at_time: Callable[..., int],
        failure: DiskFailure,
        put: Callable[[Message], PutResult],
    ) -> None:
        self.root, self.topic, self.reader, self.keeping, self.check = root, topic, reader, keeping, check
        self._at_time, self.failure, self._put = at_time, failure, put
        self._raw = java_encode(topic)
        self._known: tuple[tuple[int, int, int], frozenset[int]] = (-1, -1, -1), frozenset()
        self._news: set[int] | None = None

    @property
    def _all(self) -> ConsumeQueues:
        return self.reader.queues

    def queues(self) -> frozenset[int]:
        """Return the queues; their number, and that of removals, shows whether there are others."""
        count = len(self._all.plain), len(self._all.batch), self._all.removals
        if count != self._known[0]:
            places = [*list(self._all.plain), *list(self._all.batch)]
            self._known = count, frozenset(queue_id for topic, queue_id in places if topic == self._raw)
        return self._known[1]

    def topics(self) -> set[str]:
        return self.keeping.topics.names() | {java_decode(topic) for topic, _ in list(self._all.plain)}

    def bounds(self, queue_id: int) -> tuple[int, int]:
        queue = self._all.find(self._raw, queue_id)
        return (0, 0) if queue is None else queue.bounds(self.reader.files.min_offset)

    def read(self, queue_id: int, offset: int, most: int, tags: str | None) -> QueueRead:
        self.reader.know(self.topic, queue_id)
        got = self.reader.get(self.topic, queue_id, offset, _most(self.topic, most), tags, 0)
        if got.status is GetMessageStatus.OFFSET_TOO_SMALL:
            return _expired(self, queue_id, offset, got.min_offset)
        if got.status is GetMessageStatus.OFFSET_OVERFLOW_BADLY:
            return _beyond(self, queue_id, offset, got.max_offset)
        if got.status is GetMessageStatus.NO_MESSAGE_IN_QUEUE:
            return QueueRead([], offset)
        messages, following = got.messages, got.next_begin_offset
        if self.failure and following > offset:
            following = self._written(queue_id, offset, following)
            messages = [message for message in messages if message.queue_offset < following]
        gone = self._gone(queue_id, offset, messages[0].queue_offset if messages else following)
        return QueueRead(messages, following, gone)

    def _written(self, queue_id: int, offset: int, following: int) -> int:
        """Return the end of the written units from an offset on.

        After a failed fsync some file systems show the content of the disk, with zeros in it. A restart rewrites those
        units, and the messages after them are not delivered before.
        """
        queue = self._all.find(self._raw, queue_id)
        for unit, at, _ in queue.entries(offset, following - offset) if queue is not None else ():
            if not unit.is_written:
                return at
        return following

    def _gone(self, queue_id: int, offset: int, following: int) -> int:
        """Return how many units point to log files that retention removed; bounds follow later."""
        queue, gone = self._all.find(self._raw, queue_id), 0
        if queue is None or following <= offset:
            return 0
        for unit, _, messages in queue.entries(offset, following - offset):
            if unit.physical_offset >= self.reader.files.min_offset or not UnitQueue.points_to_record(unit):
                break
            gone += messages
        if gone:
            _tell_expired(self, queue_id, offset, offset + gone)
        return gone

    def at_time(self, queue_id: int, ms: int) -> int:
        return self._at_time(self.topic, queue_id, ms)

    def as_read(self, queue_id: int) -> object:
        queue, begin = self._all.find(self._raw, queue_id), self.reader.files.min_offset
        if not isinstance(queue, RunningQueue) or self.failure:
            return object()  # read again each time: a batch unit says not when it is replaced
        return queue, queue.forgotten, queue.min_offset, begin

    def arrivals(self) -> int:
        return self._all.arrivals

    def news(self) -> set[int]:
        if self._news is None:
            self._news = self._all.watch(self._raw)
        return self._news

    def wait(self, seen: int, seconds: float) -> None:
        with self._all.changed:
            if self._all.arrivals == seen:
                self._all.changed.wait(min(seconds, WAIT_S))

    def on_arrival(self, callback: Callable[[], object]) -> Callable[[], None]:
        def told(arrived: Collection[tuple[str, int]]) -> None:
            if any(topic == self.topic for topic, _ in arrived):
                callback()

        return self._all.on_arrival(told)

    def committed(self, group: str, queue_id: int) -> int | None:
        return self.keeping.offsets.get(group, self.topic, queue_id)

    def note(self, group: str, offsets: Mapping[int, int]) -> None:
        """Note these offsets in memory.

        Raises:
            StoreError: the disk refused before, so they would never be written.
        """
        if self.failure:
            raise StoreError(f"offsets are not written: {self.failure.reason}; restart the store")
        for queue_id, offset in offsets.items():
            self.keeping.offsets.commit(group, self.topic, queue_id, offset)

    def save(self) -> None:
        """Make the noted offsets durable.

        Raises:
            StoreError: the log could not be flushed; nothing was written.
            OSError: the disk refused; the store keeps trying.
        """
        self.keeping.save_now()

    def flush(self) -> None:
        if not self.keeping.flush():
            raise StoreError("offsets are not written: the log could not be flushed; restart the store")

    def close(self) -> None:
        """Do nothing: what it uses is the store's."""

    def give_back(self, group: str, message: StoredMessage, level: int) -> bool:
        """Put a retry of a message, or a dead letter, as the settings of its group say.

        Raises:
            UsageError: the group has no queue for retries.
            PutFailedError, PutUnknownError: it is not stored, or may not be.

        Durability: as an ASYNC_FLUSH put. Offsets that are saved later are not on disk before it is.
        """
        settings = self.keeping.groups.settings(group) or GroupSettings()
        if level >= 0 and settings.retry_queues < 1:
            raise UsageError(f"group {group[:100]!a} has retryQueueNums {settings.retry_queues}, so it has no retries")
        made = sent_back(
            message, group, level=level, most=settings.retry_max_times, queues=max(settings.retry_queues, 1)
        )
        self._put(made).raise_for_status()
        return made.delay_level > 0


def _most(topic: str, most: int) -> int:
    """Return 1 for a light queue, whose records hold offsets of other queues, else `most`."""
    return 1 if topic.startswith(LMQ_PREFIX) else most


def _tell_expired(source: TopicSource, queue_id: int, offset: int, low: int) -> None:
    log.warning("%s: %s/%d: offsets %d to %d expired before they were consumed; continuing at %d",
                source.root, ascii(source.topic)[1:-1], queue_id, offset, low - 1, low)  # fmt: skip


def _expired(source: TopicSource, queue_id: int, offset: int, low: int) -> QueueRead:
    _tell_expired(source, queue_id, offset, low)
    return QueueRead([], low, low - offset)


def _beyond(source: TopicSource, queue_id: int, offset: int, high: int) -> QueueRead:
    log.warning("%s: %s/%d: offset %d is after the end of the queue; continuing at %d",
                source.root, ascii(source.topic)[1:-1], queue_id, offset, high)  # fmt: skip
    return QueueRead([], high)
