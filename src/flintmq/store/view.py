"""A read-only view of a store: `flintmq.open_store(path)`.

It works on a store that a broker is writing, on a copy, and on a directory with only `commitlog/` in it. It writes
nothing, takes no writer's lock and blocks no writer. A file that disappears, shrinks or is corrupt leads to a short
answer or to one of flintmq's errors.

A view shows the store as it was when it was opened or last refreshed; `messages` and `follow` read the current files.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from flintmq.config.keys import StoreConfig
from flintmq.config.text import check_choice, short
from flintmq.errors import CorruptStoreError, MessageNotFoundError, StoreError, UsageError
from flintmq.message import Messages, RawResult, StoredMessage, stored_message
from flintmq.storage.files.filesystem import REAL, Effects
from flintmq.storage.files.store_url import effects_for
from flintmq.storage.threads.stop_event import StopEvent
from flintmq.store import arguments
from flintmq.store.commitlog.end_of_log import Verdict
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.resync import first_record
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.commitlog.walk import ACCESS, DELETED, LogWalk
from flintmq.store.layout.config_reader import TOPICS, BrokerConfig, ConfigProblem, TopicConfig
from flintmq.store.layout.given_sizes import open_root
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.read.answer import Pull, Wanted, filtered
from flintmq.store.read.batch import LogMaps, QueueBatch, read_batch
from flintmq.store.read.by_place import by_offset_msg_id, not_there
from flintmq.store.read.key_query import KeyQuery
from flintmq.store.read.queue_lookup import QueueLookup, lacking_text
from flintmq.store.read.view_queue import ViewQueue
from flintmq.tabular import Tabular

if TYPE_CHECKING:
    from flintmq.store.consumer.consumer import Consumer

log = logging.getLogger("flintmq.store")

BOUNDARIES = ("lower", "upper")
TOPICS_SEEN = 4096
NO_FILES = (
    "it is configured and has no queue files; if it had messages, `flintmq scan` finds them in the log, and "
    "`flintmq rebuild` makes the files"
)

REMOVED = "it was removed: the log begins after it by now"


class QueueInfo(NamedTuple):
    """One queue of a store.

    Attributes:
        min_offset: smallest queue offset that may still be read.
        max_offset: the one after the largest; equal to min_offset if the queue is empty.
        type: "SimpleCQ" or "BatchCQ".
    """

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    type: str


class StoreView(Tabular):
    """Read-only view of one store directory.

    Make it with `open_store`; close it, or use it in a `with` block.

    Every method may raise StoreAccessError (a file may not be read) and UsageError (the view is closed).

    Thread: any; an iterator belongs to one thread.
    Durability: nothing is ever written.
    """

    def __init__(self, root: str, config: StoreConfig, access: str = "pread", effects: Effects = REAL) -> None:
        """Use `open_store`. `root` has passed given_sizes.open_root."""
        self.root, self.config, self.access = root, config, access
        self._effects = effects
        self._lookup: QueueLookup | None = QueueLookup(Snapshot(root, config, effects))
        self._maps = LogMaps() if access == "map" else None
        self._told: set[str] = set()
        # Queues of a topic (None: of all) at the last look for those without a directory.
        self._seen: dict[str | None, set[QueueName]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"StoreView({self.root!r})"

    def _table(self, columns: Sequence[str] | None, **options: Any) -> Any:
        """Read the log as scan_arrow does, up to `max_physical_offset`."""
        scan = import_module("flintmq.frames.scan").scan_arrow
        given = {"access": self.access, "config": self.config, "end": self.max_physical_offset, **options}
        return scan(self.root, columns, **given).read_all()

    def _shown(self) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
        return QueueInfo._fields, self.queues()

    def close(self) -> None:
        """Drop the cached state. No file is kept open, so this cannot fail; may be called again."""
        self._lookup, self._maps = None, None

    def refresh(self) -> None:
        """Read the store again: new and deleted files, the end of the log, new messages.

        No queue has new messages if `max_physical_offset` stays the same; else `bounds` tells of each queue.
        """
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
        """Log offset of the first byte of the log."""
        return self._now.snapshot.log.min_offset

    @property
    def max_physical_offset(self) -> int:
        """Log offset after the last record."""
        return self._now.snapshot.end

    @property
    def log_file_size(self) -> int:
        """Bytes of a file of the log: as given, else as the files are; 0 without files."""
        return self._now.snapshot.log.file_size

    @property
    def live(self) -> bool:
        """True if a writer held the store's lock when this view was made or refreshed."""
        return self._now.snapshot.facts.live

    @property
    def broker(self) -> BrokerConfig:
        """Content of the store's config/; empty for a bare store.

        Of files that cannot be used the log says what is used instead.
        """
        found = self._now.snapshot.broker
        self._warn_of(found.problems)
        return found

    @property
    def configured_topics(self) -> Mapping[str, TopicConfig]:
        """Topics that config/topics.json names.

        If that file cannot be used the log says what is used instead.
        """
        found = self._now.snapshot.broker
        self._warn_of(found.problems_of(TOPICS))
        return found.topics

    def _warn_of(self, problems: Iterable[ConfigProblem]) -> None:
        for problem in problems:
            self._warn(problem.text)

    def _warn(self, text: str) -> None:
        """Log a warning once in the life of the view."""
        if text not in self._told:
            self._told.add(text)
            log.warning("%s", text)

    def _names(self, topic: str | None = None) -> set[QueueName]:
        """Return the queues of a topic, or of all, and log which of them lack their directory.

        That is looked for again if other queues are there than at the last call.
        """
        now = self._now
        names = now.names(topic)
        if names != self._seen.get(topic):
            if len(self._seen) >= TOPICS_SEEN:
                self._seen.clear()
            self._seen[topic] = names
            if missing := now.without_files(topic) - names:
                self._warn(f"{self.root}: {lacking_text(missing)}")
        return names

    def topics(self) -> list[str]:
        """Return the topics that have a queue, sorted. Light queues (LMQ) are topics of their own.

        Queues whose directory is missing are not among them; a warning in the log names them.
        """
        return sorted({name.topic for name in self._names()})

    def check_end(self) -> None:
        """Check that the log ends where it was written to, and begins where it expired to.

        `messages` and `scan` do so when they come there; other answers do not, and may lack what is missing there.

        Raises:
            CorruptStoreError: damage at the end (LostLogError: its last files are missing), or no file at the begin.
        """
        self._now.snapshot.check_end()

    def read_log_of(self, topic: str) -> bool:
        """Find queues in the log from now on if the topic lacks directories; return whether.

        The last 4 MiB of the log, and `flintmq.queues`, show which queues should have one. All of the log is read then,
        until `refresh`.
        """
        arguments.texts(topic=topic)
        return self._now.read_log_of(topic)

    def queues(self, topic: str | None = None) -> list[QueueInfo]:
        """Return the queues of a topic, or of all, sorted; none for an unknown topic.

        Queues whose directory is missing are not among them, unless `read_log_of` found them in the log; a warning in
        the log names them.

        Raises:
            TypeError: the topic is no text.
        """
        arguments.given_text("topic", topic)
        now = self._now
        found = sorted(self._names(topic))
        types = {name: now.type_of(name) for name in {name.topic for name in found}}
        return [QueueInfo(*name, *now.bounds(name)[:2], types[name.topic]) for name in found]

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Return min and max offset of a queue, the latter after its last message; else (0, 0).

        Raises:
            TypeError: an argument of another type.
        """
        arguments.texts(topic=topic)
        return self._now.bounds(QueueName(topic, arguments.number("queue_id", queue_id)))[:2]

    # -- one message ------------------------------------------------------------------------------------------------

    def get(self, topic: str, queue_id: int, offset: int) -> StoredMessage:
        """Return the message at a queue offset; inside an inner batch, the record of the batch.

        Raises:
            TypeError: an argument of another type.
            MessageNotFoundError: the queue has none there; the text names its offsets.
        """
        arguments.texts(topic=topic)
        queue_id, offset = arguments.numbers(queue_id=queue_id, offset=offset)
        now, name = self._now, QueueName(topic, queue_id)
        message = now.message(name, offset)
        if message is None and name not in now.names(topic) and now.read_log_of(topic):
            message = now.message(name, offset)
        if message is not None:
            return message
        first, stop, _ = now.bounds(name)
        due = name in now.names(topic) and first <= offset < stop
        due = due or next(now.lost_units(name, offset, offset + 1), None) is not None
        if due and QueueLookup(now.snapshot.again(), now).bounds(name)[0] > offset:
            has = REMOVED
        elif due:
            has = "its record is damaged or missing; run `flintmq verify`"
        elif name not in now.names(topic) and now.is_configured(name):
            has = NO_FILES
        elif name not in now.names(topic):
            has = "there is no such queue" if self._names(topic) else "there is no such topic"
        elif first == stop:
            has = f"the queue is empty, the next offset is {stop}"
        else:
            has = f"the queue holds {first} to {stop - 1}"
        raise MessageNotFoundError(f"topic {short(topic)}, queue {queue_id}: no message at offset {offset}; {has}")

    def read(
        self, topic: str, queue_id: int, offset: int, count: int = 32, *, report: Report | None = None
    ) -> QueueBatch:
        """Read up to `count` messages of a queue from an offset on, for readers of whole queues.

        The batch also has the offset of the next one. It is empty at the end of the queue, and for an unknown queue. It
        may be shorter than `count` before the end; an offset below the queue's first is raised to it. Messages are read
        and checked during the iteration; unreadable ones are left out. An inner batch is one message.

        With `access="map"` the messages refer to mapped files of the log, which stay mapped as long as one is held; a
        file that another process shrinks kills this one.

            batch = view.read("Orders", 0, 0, 1000)
            while batch:
                for message in batch: ...
                batch = view.read("Orders", 0, batch.next_offset, 1000)

        Args:
            topic, queue_id, offset, count: as above.
            report: receives the places of records that units point to and that are damaged or missing, during the
                iteration or before it; those after the last message with the empty batch at the end. Of a part that
                has no units, the damage in the log there.

        Raises:
            TypeError: an argument of another type.
            UsageError: a negative count.
        """
        arguments.texts(topic=topic)
        queue_id, offset, count = arguments.numbers(queue_id=queue_id, offset=offset, count=count)
        if count < 0:
            raise UsageError(f"count {count} is negative")
        return read_batch(self._now, QueueName(topic, queue_id), offset, count, self._maps, report)

    def get_raw(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_messages: int = 32,
        *,
        tags: str | None = None,
        max_bytes: int = 256 << 10,
        wanted: Wanted | None = None,
    ) -> RawResult:
        """Return the records of a queue from an offset on, end to end.

        It answers as `MessageStore.get_raw` does, with RocketMQ's statuses. Messages without a unit, because they are
        not dispatched or their unit is lost, are found in the log: slowly, and up to 64 in one answer.

        Args:
            topic, queue_id, offset: from where.
            max_messages: at most so many; 0 and less mean 1.
            tags: only messages with one of these tags (`a || b`); hash collisions pass, as in RocketMQ.
            max_bytes: at most so many, of whole records; the first one is always returned.
            wanted: of the properties of a message, whether it is wanted.

        Raises:
            TypeError: an argument of another type.
        """
        arguments.texts(topic=topic)
        queue_id, offset, max_messages, max_bytes = arguments.numbers(
            queue_id=queue_id, offset=offset, max_messages=max_messages, max_bytes=max_bytes
        )
        arguments.given_text("tags", tags)
        queue = ViewQueue(self._now, QueueName(topic, queue_id))

        def read(at: int, most: int, size: int) -> RawResult:
            return queue.get_raw(at, Pull.of(self.config, most, tags, size))

        if wanted is None:
            return read(offset, max_messages, max_bytes)
        arguments.function("wanted", wanted)
        return filtered(read, self.config, offset, max_messages, max_bytes, wanted)

    def get_at(self, physical_offset: int) -> StoredMessage:
        """Return the message whose record begins at this log offset.

        Raises:
            TypeError: an offset of another type.
            MessageNotFoundError: no valid record begins there.
        """
        physical_offset = arguments.number("physical_offset", physical_offset)
        message = self._now.snapshot.record(physical_offset)
        if message is None:
            low, high = self.min_physical_offset, self.max_physical_offset
            if low <= physical_offset < self._now.snapshot.again().log.min_offset:
                raise MessageNotFoundError(f"no record begins at log offset {physical_offset}: {REMOVED}")
            raise not_there(physical_offset, low, high)
        return message

    def get_by_offset_msg_id(self, offset_msg_id: str) -> StoredMessage:
        """Return the message with this offset message id, in upper or lower case.

        Raises:
            TypeError: no text.
            UsageError: the text is no offset message id.
            MessageNotFoundError: no record begins there, or one of another broker does.
        """
        return by_offset_msg_id(offset_msg_id, self.get_at)

    # -- by key and by time -----------------------------------------------------------------------------------------

    def query(
        self,
        topic: str,
        key: str,
        begin: int | None = None,
        end: int | None = None,
        limit: int = 64,
        *,
        report: Report | None = None,
    ) -> Messages:
        """Return the newest messages with a key, in the order of the log.

        A key is one of KEYS, the UNIQ_KEY, or `T#` and the tags (of 5.4.0 and later). The keys themselves are compared,
        not their hash; the part of the log that the index does not cover is searched.

        Args:
            topic: topic as stored: a delayed message is under SCHEDULE_TOPIC_XXXX until it is delivered.
            key: the whole key.
            begin, end: store times in ms, both included.
            limit: maximum number of messages.
            report: receives the places of records that may have the key and are damaged or missing.

        Raises:
            TypeError: an argument of another type.
            UsageError: a negative limit.
        """
        arguments.texts(topic=topic, key=key)
        begin, end = arguments.given_number("begin", begin), arguments.given_number("end", end)
        limit = arguments.number("limit", limit)
        if limit < 0:
            raise UsageError(f"limit {limit} is negative")
        return Messages(KeyQuery(self._now.snapshot, topic, key, begin, end, limit, report).run())

    def offset_at_time(self, topic: str, queue_id: int, ms: int, boundary: str = "lower") -> int:
        """Return the queue offset at a store time (upstream getOffsetInQueueByTime).

        "lower": the first message stored at `ms` or later, the queue's max offset if there is none. "upper": the last
        message stored at `ms` or earlier, the queue's min offset if there is none. An empty queue gives its min offset.
        Unreadable messages are skipped.

        Raises:
            TypeError: an argument of another type.
            UsageError: another boundary.
        """
        arguments.texts(topic=topic, boundary=boundary)
        queue_id, ms = arguments.numbers(queue_id=queue_id, ms=ms)
        check_choice("boundary", boundary, BOUNDARIES)
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
        broadcast: str | os.PathLike[str] | None = None,
    ) -> Consumer:
        """Make a consumer that begins at the group's offsets, and commits none of them.

        See MessageStore.consumer. It gets all queues, even those consumed in the process that writes; the view is
        refreshed while it polls. With `broadcast` it commits to that file.

        Raises:
            TypeError: an argument of another type.
            UsageError, StoreAccessError, StoreError: as for MessageStore.consumer; UsageError also by `commit`.
        """
        from flintmq.store.consumer.consumer import new_consumer  # loads the engine only if needed
        from flintmq.store.consumer.group import ConsumerGroups
        from flintmq.store.view_source import ViewSource

        return new_consumer(
            ConsumerGroups(), ViewSource(topic, self), group, topic, queues, tags, start, idle_ms, broadcast=broadcast
        )

    # -- many messages ----------------------------------------------------------------------------------------------

    def messages(
        self, begin: int | None = None, *, strict: bool = True, report: Report | None = None
    ) -> Iterator[StoredMessage]:
        """Iterate over all messages from a log offset on, or from the first one, in log order.

        Args:
            begin: log offset; if it is inside a record, the next record is the first.
            strict: raise at damage; otherwise skip it.
            report: receives damage and notes. A file that is deleted during the iteration is damage, unless it had
                expired before the first message.

        Raises:
            TypeError: (at the first message) an argument of another type.
            CorruptStoreError: (strict, while iterating) damage, with file and position.
            StoreError: (strict, while iterating) a file was deleted before it was read.
        """
        begin = arguments.given_number("begin", begin)
        arguments.flags(strict=strict)
        snapshot = self._now.snapshot
        start = 0 if begin is None else first_record(snapshot.log, begin)
        walk = LogWalk(snapshot.log, snapshot.facts, start, access=self.access, strict=strict, report=report)
        for piece in walk:
            _refuse_deleted(walk)
            for at in piece.positions[: piece.count]:
                yield stored_message(piece.data, at)
        _refuse_deleted(walk)
        for lost in walk.deleted:
            walk.report.damage(lost)

    def follow(
        self, begin: int | None = None, poll_ms: int = 200, stop: threading.Event | None = None
    ) -> Iterator[StoredMessage]:
        """Iterate over messages from a log offset on, then over new ones, until `stop` is set.

        Roll-over, growth and deletion of old files are followed; messages deleted before they were read are left out. A
        half-written record is the end, for now. For new messages only, begin at `max_physical_offset`.

        Args:
            begin: log offset, as for messages.
            poll_ms: interval of checking the files.
            stop: ends the iteration; checked before each message and while waiting.

        Raises:
            TypeError: (at the first message) an argument of another type.
            CorruptStoreError: (while iterating) damage, or the log was truncated below messages already returned.
        """
        begin, poll_ms = arguments.given_number("begin", begin), arguments.number("poll_ms", poll_ms)
        stop = stop or StopEvent()
        snapshot = self._now.snapshot
        begin = snapshot.log.min_offset if begin is None else begin
        # At the end no record begins yet, and a search would find the next one in the next file.
        position = snapshot.end if begin >= snapshot.end else first_record(snapshot.log, begin)
        last: int | None = None  # log offset of the last message returned, as long as its file exists
        before = snapshot.log_end.last if begin >= snapshot.end else None  # of the record before the first to return
        searched: int | None = None  # log offset after which the last look saw no record
        while True:
            last = None if last is not None and last < snapshot.log.min_offset else last
            if last is not None and snapshot.record(last) is None:
                raise CorruptStoreError(
                    self.root, last, "the log was truncated below this offset after it was read", "begin the scan again"
                )
            # Begin the walk with the last message returned, so that a decreasing store time is noticed.
            start = position if last is None else last
            facts = snapshot.facts_after(before if last is None else last, searched)
            walk = LogWalk(snapshot.log, facts, start, access=self.access)
            for piece in walk:
                for at in piece.positions[: piece.count]:
                    if stop.is_set():
                        return
                    if piece.base + at != last and piece.base + at >= begin:
                        message = stored_message(piece.data, at)
                        last, position = message.physical_offset, message.physical_offset + message.size
                        yield message
            searched = walk.position if snapshot.facts.live and walk.verdict is Verdict.END else None
            if stop.wait(poll_ms / 1000):
                return
            snapshot = snapshot.again()


def _refuse_deleted(walk: LogWalk) -> None:
    """Check that a strict walk did not leave out a file."""
    if walk.strict and walk.deleted:
        raise StoreError(
            f"{walk.deleted[0].file}: {DELETED}, so its messages are missing; refresh the view and begin again, or "
            "read with strict=False"
        )


def open_store(
    path: str | os.PathLike[str],
    *,
    config: StoreConfig | str | os.PathLike[str] | None = None,
    set: Mapping[str, object] | None = None,
    access: str = "pread",
    effects: Effects | None = None,
) -> StoreView:
    """Open a read-only view of a store directory.

    Args:
        path: the store's root: the directory that holds `commitlog/`, or a URL: `s3://bucket/store`, `file:///store`.
        config: a StoreConfig or the path of a broker.conf, for values that the files do not show.
        set: single keys over it, by RocketMQ's names: `{"maxHashSlotNum": 500}`.
        access: "pread", or "map" to walk through mapped files: faster, but a file that another process shrinks then
            kills this one.
        effects: the disk; None to choose it by the path.

    Raises:
        NotAStoreError: nothing is there, or no commit log.
        UnsupportedFormatError: a DLedger log.
        StoreAccessError: a directory may not be read.
        ConfigError: an unknown key or an impossible value.
        UsageError: an unknown access.
    """
    check_choice("access", access, ACCESS)
    settings = StoreConfig.of(config, set)
    effects = effects or effects_for(path, settings.s3)
    return StoreView(open_root(path, settings, effects), settings, access, effects)
