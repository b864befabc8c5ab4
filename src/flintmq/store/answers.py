"""What an open store answers besides `get`: from its files, through a view, by key, by time, all messages; a queue as
Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module

from flintmq.config.keys import StoreConfig
from flintmq.errors import MissingExtraError
from flintmq.message import GetBatchResult, StoredMessage
from flintmq.storage.filesystem import Effects
from flintmq.store import arguments
from flintmq.store.append.disk_failure import Poison
from flintmq.store.append.stats import Counters
from flintmq.store.consumer.consumer import Consumer, new_consumer
from flintmq.store.consumer.group import ConsumerGroup
from flintmq.store.consumer.source import StoreSource
from flintmq.store.read.get import LiveReader
from flintmq.store.services.housekeeping import Housekeeping
from flintmq.store.view import StoreView, open_store


class Answers:
    """The part of MessageStore that a view answers, or flintmq.arrow."""

    root: str
    config: StoreConfig
    effects: Effects
    _reader: LiveReader
    _counters: Counters
    _keeping: Housekeeping
    _poison: Poison
    _groups: dict[tuple[str, str], ConsumerGroup]

    def _check_open(self) -> None:
        """Raise UsageError if the store is closed."""
        raise NotImplementedError

    def _check_dispatched(self, method: str) -> None:
        """Raise UsageError if the store is closed, or has no queues."""
        raise NotImplementedError

    def get_batch(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_messages: int = 1024,
        *,
        max_bytes: int = 8 << 20,
        columns: Sequence[str] | None = None,
        wait_ms: int = 0,
    ) -> GetBatchResult:
        """Messages of a queue from an offset on, as a pyarrow.RecordBatch: no object is made for a row.

        Statuses and offsets are those of `get`. The limits are these two, not those of RocketMQ's transfers; an answer
        holds messages of one queue file, so it may be shorter.

        Args:
            topic, queue_id, offset: from where.
            max_messages: at most so many rows.
            max_bytes: about so many bytes of log at most; the first message is always given.
            columns: names of columns, in the order wanted; None for all (flintmq.COLUMNS).
            wait_ms: if the queue has nothing there yet, wait so long for it.

        Raises:
            UsageError: an unknown column, an impossible limit; the store is closed, or its dispatch is left to others.
            TypeError: an argument of another type.
            MissingExtraError: pyarrow is not installed.

        Thread: any.
        """
        self._check_dispatched("get_batch")
        arguments.texts(topic=topic)
        arguments.numbers(
            queue_id=queue_id, offset=offset, max_messages=max_messages, max_bytes=max_bytes, wait_ms=wait_ms
        )
        try:  # by name: this layer knows no Arrow, and who never asks needs none
            module = import_module("flintmq.arrow.queue_batch")
        except ModuleNotFoundError as error:
            if error.name != "pyarrow":
                raise
            raise MissingExtraError("get_batch needs pyarrow: pip install 'flintmq[arrow]'") from error
        words = topic, queue_id, offset, max_messages, max_bytes, columns, wait_ms
        found: GetBatchResult = module.get_batch(self._reader, *words)
        self._counters.got(found.batch.num_rows)
        return found

    def query(self, topic: str, key: str, begin: int | None = None, end: int | None = None) -> list[StoredMessage]:
        """The newest messages that have a key, at most maxMsgsNumBatch, in the order of the log.

        Raises:
            TypeError: an argument of another type.
            UsageError: the store is closed.
        """
        self._check_open()
        arguments.texts(topic=topic, key=key)
        arguments.given_number("begin", begin)
        arguments.given_number("end", end)
        with self.view() as view:
            return view.query(topic, key, begin, end, self.config.max_msgs_num_batch)

    def offset_at_time(self, topic: str, queue_id: int, ms: int, boundary: str = "lower") -> int:
        """The offset in a queue that belongs to a store time, as RocketMQ tells it.

        Args:
            topic, queue_id: which queue.
            ms: Unix milliseconds.
            boundary: "lower": the first message not older; "upper": the last one not younger.

        Raises:
            TypeError: an argument of another type.
            UsageError: the store is closed.

        Thread: any.
        """
        self._check_open()
        arguments.texts(topic=topic, boundary=boundary)
        arguments.numbers(queue_id=queue_id, ms=ms)
        with self.view() as view:
            return view.offset_at_time(topic, queue_id, ms, boundary)

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
        """A consumer of a topic, whose group's offsets are kept as a broker keeps them.

        Args:
            group: whose offsets. Consumers of one group share the queues of a topic, in this process.
            topic: of what.
            queues: exactly these queues, and nobody else of the group has them; None: a share of the others.
            tags: only messages with one of these tags (`a || b`), the same for all consumers of the group.
            start: where a group begins that has no offset in any queue: "earliest" or "latest".
            idle_ms: iterating ends when no message came for so long; None: it waits for ever.

        Raises:
            TypeError: an argument of another type.
            UsageError: a name that cannot be; a queue of another consumer of the group; other tags than theirs; the
                store is closed, or its dispatch is left to another process.

        Thread: any.
        """
        self._check_dispatched("consumer")
        arguments.texts(group=group, topic=topic, start=start)
        arguments.given_text("tags", tags)
        arguments.given_number("idle_ms", idle_ms)
        if queues is not None:
            queues = list(queues)
            arguments.numbers(**{f"queues[{number}]": queue for number, queue in enumerate(queues)})
        words = self._reader, self._keeping, self._check_open, self.offset_at_time, self._poison
        source = StoreSource(self.root, topic, *words)
        return new_consumer(self._groups, source, group, topic, queues, tags, start, idle_ms)

    def view(self) -> StoreView:
        """A read-only view of this store as it is now."""
        self._check_open()
        return open_store(self.root, config=self.config, effects=self.effects)

    def __iter__(self) -> Iterator[StoredMessage]:
        """All messages of the log, in its order."""
        with self.view() as view:
            yield from view.messages()
