"""A read-only view of a store: `flintmq.open_store(path)`.

It works on a store that a broker is writing, on a copy, and on a directory with only `commitlog/` in it. It writes
nothing, takes no writer's lock and blocks no writer. Whatever vanishes, shrinks or lies gives a short answer or one of
flintmq's errors.

A view shows the store as it was when it was opened or last refreshed; `messages` and `follow` look at the files anew.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, Self

from flintmq.config.keys import StoreConfig
from flintmq.config.text import short
from flintmq.errors import CorruptStoreError, FormatError, MessageNotFoundError, UsageError
from flintmq.format.message_id import parse_offset_msg_id
from flintmq.message import StoredMessage, stored_message
from flintmq.storage.filesystem import REAL, Effects
from flintmq.storage.store_url import effects_for
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.resync import first_record
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.commitlog.walk import ACCESS, LogWalk
from flintmq.store.layout import directories
from flintmq.store.layout.config_reader import BrokerConfig
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.read.batch import LogMaps, QueueBatch, read_batch
from flintmq.store.read.key_query import KeyQuery
from flintmq.store.read.queue_lookup import QueueLookup

if TYPE_CHECKING:
    from flintmq.store.consumer.consumer import Consumer

BOUNDARIES = ("lower", "upper")


class QueueInfo(NamedTuple):
    """One queue of a store.

    Attributes:
        min_offset: smallest queue offset that may still be read.
        max_offset: the one behind the largest; equal to min_offset if the queue is empty.
        type: "SimpleCQ" or "BatchCQ".
    """

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    type: str


class StoreView:
    """Read-only view of one store directory. Make it with `open_store`; close it, or use it in a `with` block.

    Every method may raise StoreAccessError (a file may not be read) and UsageError (the view is closed).

    Thread: any. Iterators belong to the thread that takes them.
    Durability: nothing is ever written.
    """

    def __init__(self, root: str, config: StoreConfig, access: str = "pread", effects: Effects = REAL) -> None:
        """Use `open_store`. `root` has passed directories.open_root."""
        self.root, self.config, self.access = root, config, access
        self._effects = effects
        self._lookup: QueueLookup | None = QueueLookup(Snapshot(root, config, effects))
        self._maps = LogMaps() if access == "map" else None

    def __enter__(self) -> Self:
        """The view itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def __repr__(self) -> str:
        return f"StoreView({self.root!r})"

    def close(self) -> None:
        """Forget what is known of the store. No file is kept open, so this cannot fail; it may be called again."""
        self._lookup, self._maps = None, None

    def refresh(self) -> None:
        """Look at the store anew: files that came or went, the end of the log, new messages in the queues."""
        now = self._now
        self._lookup = QueueLookup(now.snapshot.again(), now)
        self._maps = self._maps and LogMaps()

    @property
    def _now(self) -> QueueLookup:
        if self._lookup is None:
            raise UsageError(f"{self.root}: this view is closed; open the store again")
        return self._lookup

    # -- what there is --------------------------------------------------------------------------------------------

    @property
    def min_physical_offset(self) -> int:
        """Log offset of the first byte that is still there."""
        return self._now.snapshot.log.min_offset

    @property
    def max_physical_offset(self) -> int:
        """Log offset behind the last record."""
        return self._now.snapshot.end

    @property
    def live(self) -> bool:
        """Whether a writer held the store's lock when this view was made or refreshed."""
        return self._now.snapshot.facts.live

    @property
    def broker(self) -> BrokerConfig:
        """What the store's config/ holds; empty for a bare store."""
        return self._now.snapshot.broker

    def topics(self) -> list[str]:
        """Topics that have a queue, sorted. Light queues (LMQ) are topics of their own."""
        return sorted({name.topic for name in self._now.names()})

    def queues(self, topic: str | None = None) -> list[QueueInfo]:
        """The queues of a topic, or of all, sorted; none for a topic that the store does not have."""
        now = self._now
        found = sorted(name for name in now.names() if topic in (None, name.topic))
        types = {name: now.type_of(name) for name in {name.topic for name in found}}
        return [QueueInfo(*name, *now.bounds(name)[:2], types[name.topic]) for name in found]

    # -- one message ------------------------------------------------------------------------------------------------

    def get(self, topic: str, queue_id: int, offset: int) -> StoredMessage:
        """The message at a queue offset. Inside an inner batch this is the record that holds the whole batch.

        Raises:
            MessageNotFoundError: the queue has none there; the text says which offsets it has.
        """
        now, name = self._now, QueueName(topic, queue_id)
        message = now.message(name, offset)
        if message is not None:
            return message
        first, stop, _ = now.bounds(name)
        if name not in now.names():
            has = "there is no such queue" if topic in self.topics() else "there is no such topic"
        elif first == stop:
            has = f"the queue is empty, the next offset is {stop}"
        elif first <= offset < stop:
            has = "its record is damaged or missing; run `flintmq verify`"
        else:
            has = f"the queue holds {first} to {stop - 1}"
        raise MessageNotFoundError(f"topic {short(topic)}, queue {queue_id}: no message at offset {offset}; {has}")

    def read(self, topic: str, queue_id: int, offset: int, count: int = 32) -> QueueBatch:
        """Up to `count` messages of a queue from an offset on, and where to go on: for readers of whole queues.

        The batch is empty at the end of the queue, and for a queue that the store does not have. It may be shorter than
        `count` before the end; an offset below the queue's first is moved up to it. Messages are read and checked when
        they are taken out of the batch; what cannot be read is left out. An inner batch is one message.

        With `access="map"` the messages lie in mapped files of the log, which stay mapped as long as one is held, and
        a file that another process shrinks kills this one.

            batch = view.read("Orders", 0, 0, 1000)
            while batch:
                for message in batch: ...
                batch = view.read("Orders", 0, batch.next_offset, 1000)

        Raises:
            UsageError: a negative count.
        """
        if count < 0:
            raise UsageError(f"count {count} is negative")
        return read_batch(self._now, QueueName(topic, queue_id), offset, count, self._maps)

    def get_at(self, physical_offset: int) -> StoredMessage:
        """The message whose record begins at this log offset.

        Raises:
            MessageNotFoundError: no record that counts begins there.
        """
        message = self._now.snapshot.record(physical_offset)
        if message is None:
            low, high = self.min_physical_offset, self.max_physical_offset
            raise MessageNotFoundError(f"no record begins at log offset {physical_offset}; the log has {low} to {high}")
        return message

    def get_by_offset_msg_id(self, offset_msg_id: str) -> StoredMessage:
        """The message with this offset message id, in upper or lower case.

        Raises:
            UsageError: the text is no offset message id.
            MessageNotFoundError: no record begins there, or one of another broker does.
        """
        try:
            _, _, physical_offset = parse_offset_msg_id(offset_msg_id)
        except FormatError as error:
            raise UsageError(error.reason) from None
        message = self.get_at(physical_offset)
        if message.offset_msg_id != offset_msg_id.upper():
            raise MessageNotFoundError(
                f"{short(offset_msg_id)}: the record at log offset {physical_offset} has the id {message.offset_msg_id}"
            )
        return message

    # -- by key and by time -----------------------------------------------------------------------------------------

    def query(
        self, topic: str, key: str, begin: int | None = None, end: int | None = None, limit: int = 64
    ) -> list[StoredMessage]:
        """The newest messages that have a key, in the order of the log.

        A key is one of KEYS, the UNIQ_KEY, or `T#` and the tags (of 5.4.0 and later). The real keys are compared, not
        their hash; what the index does not cover is searched in the log.

        Args:
            topic: topic as stored: a delayed message is under SCHEDULE_TOPIC_XXXX until it is delivered.
            key: the whole key.
            begin, end: store times in ms, both included.
            limit: at most so many.

        Raises:
            UsageError: a negative limit.
        """
        if limit < 0:
            raise UsageError(f"limit {limit} is negative")
        return KeyQuery(self._now.snapshot, topic, key, begin, end, limit).run()

    def offset_at_time(self, topic: str, queue_id: int, ms: int, boundary: str = "lower") -> int:
        """The queue offset at a store time, by RocketMQ's rules (upstream getOffsetInQueueByTime).

        "lower": the first message stored at `ms` or later, the queue's max offset if there is none. "upper": the last
        message stored at `ms` or earlier, the queue's min offset if there is none. An empty queue gives its min offset.
        Messages that cannot be read are passed over.

        Raises:
            UsageError: another boundary.
        """
        if boundary not in BOUNDARIES:
            raise UsageError(f"boundary {boundary!r} is not one of: {', '.join(BOUNDARIES)}")
        return self._now.offset_at_time(QueueName(topic, queue_id), ms, boundary)

    def consumer(
        self,
        group: str,
        topic: str,
        *,
        queues: Iterable[int] | None = None,
        tags: str | None = None,
        start: str = "earliest",
        idle_ms: int | None = None,
    ) -> Consumer:
        """A consumer that looks on: it begins where the group is, and cannot commit. See MessageStore.consumer.

        It sees all queues, whoever consumes them in the process that writes; the view is refreshed while it polls.

        Raises:
            UsageError: as for MessageStore.consumer; and by `commit`.
        """
        from flintmq.store.consumer.consumer import new_consumer  # the engine, which looking into a store does not need
        from flintmq.store.view_source import ViewSource

        return new_consumer({}, ViewSource(topic, self), group, topic, queues, tags, start, idle_ms)

    # -- many messages ----------------------------------------------------------------------------------------------

    def messages(
        self, begin: int | None = None, *, strict: bool = True, report: Report | None = None
    ) -> Iterator[StoredMessage]:
        """All messages from a log offset on, in the order of the log; from the first one without an offset.

        Args:
            begin: log offset; inside a record, the next record is the first.
            strict: raise at damage; otherwise skip it.
            report: takes damage and notes.

        Raises:
            CorruptStoreError: (strict, while iterating) damage, with file and position.
        """
        snapshot = self._now.snapshot
        start = 0 if begin is None else first_record(snapshot.log, begin)
        walk = LogWalk(snapshot.log, snapshot.facts, start, access=self.access, strict=strict, report=report)
        for piece in walk:
            for at in piece.positions[: piece.count]:
                yield stored_message(piece.data, at)

    def follow(
        self, begin: int | None = None, poll_ms: int = 200, stop: threading.Event | None = None
    ) -> Iterator[StoredMessage]:
        """All messages from a log offset on, and then those that are still to come, until `stop` is set.

        Roll-over, growth and deletion of old files are followed; what was deleted before it was read is left out. A
        half-written record is the end, for now. For new messages only, begin at `max_physical_offset`.

        Args:
            begin: log offset, as for messages.
            poll_ms: how long to wait before the files are looked at again.
            stop: ends the iteration; looked at before each message and while waiting.

        Raises:
            CorruptStoreError: (while iterating) damage, or the log was cut below what was given already.
        """
        stop = stop or threading.Event()
        snapshot = self._now.snapshot
        begin = snapshot.log.min_offset if begin is None else begin
        # At the end no record begins yet, and the next one that could be found there is in the next file.
        position = snapshot.end if begin >= snapshot.end else first_record(snapshot.log, begin)
        last: int | None = None  # log offset of the last message given, as long as its file is there
        while True:
            last = None if last is not None and last < snapshot.log.min_offset else last
            if last is not None and snapshot.record(last) is None:
                raise CorruptStoreError(self.root, last, "the log was cut below what was read", "begin again")
            # A walk begins with the last message given, so that a step back in store time is seen.
            start = position if last is None else last
            for piece in LogWalk(snapshot.log, snapshot.facts, start, access=self.access):
                for at in piece.positions[: piece.count]:
                    if stop.is_set():
                        return
                    if piece.base + at != last and piece.base + at >= begin:
                        message = stored_message(piece.data, at)
                        last, position = message.physical_offset, message.physical_offset + message.size
                        yield message
            if stop.wait(poll_ms / 1000):
                return
            snapshot = snapshot.again()


def open_store(
    path: str | os.PathLike[str],
    *,
    config: StoreConfig | str | os.PathLike[str] | None = None,
    set: Mapping[str, object] | None = None,
    access: str = "pread",
    effects: Effects | None = None,
) -> StoreView:
    """A read-only view of a store directory.

    Args:
        path: the store's root: the directory that holds `commitlog/`, or a URL: `s3://bucket/store`, `file:///store`.
        config: a StoreConfig or the path of a broker.conf, for what the files do not tell.
        set: single keys over it, by RocketMQ's names: `{"maxHashSlotNum": 500}`.
        access: "pread", or "map" to walk through mapped files: faster, but a file that another process shrinks then
            kills this one.
        effects: the disk; None for what the path means.

    Raises:
        NotAStoreError: nothing is there, or no commit log.
        UnsupportedFormatError: a DLedger log.
        StoreAccessError: a directory may not be read.
        ConfigError: an unknown key or an impossible value.
        UsageError: an unknown access.
    """
    if access not in ACCESS:
        raise UsageError(f"access {access!r} is not one of: {', '.join(ACCESS)}")
    settings = StoreConfig.of(config, set)
    effects = effects or effects_for(path, settings.s3)
    return StoreView(directories.open_root(path, settings, effects), settings, access, effects)
