"""What a store lets its users put besides single messages: many, a batch, columns, and for an event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from typing import Any

from flintmq.kernels.fast_append import Appender
from flintmq.message import ColumnsResult, Message, PutResult
from flintmq.store.append.service import Puts
from flintmq.store.reentry import lockless


class PutStore:
    """The part of MessageStore that its Puts do."""

    _puts: Puts
    quick: Appender | None

    def _check_open(self) -> None:
        """Raise UsageError if the store is closed."""
        raise NotImplementedError

    def put_async(self, message: Message) -> Awaitable[PutResult]:
        """Store one message, and wait for the disk without a thread.

        The message is appended before this returns, so messages are stored in the order of the calls. The answer comes
        when the group is durable that the message belongs to; giving up waiting for it takes nothing back.

        Returns:
            An awaitable of what `put` gives.

        Raises:
            UsageError: the store is closed.
            RuntimeError: no event loop runs in this thread.

        Thread: that of a running event loop. Durability: as for put, once it is awaited.
        """
        self._check_open()
        return self._puts.put_async(message, self.quick)

    def put_many(
        self, messages: Iterable[Message], *, until_refused: bool = False, delivered: bool = False
    ) -> list[PutResult]:
        """Store messages in order, with one wait for the disk at the end.

        Args:
            messages: any.
            until_refused: stop at the first message that is not stored, so that none behind it is, and all can be put
                again from there on. Without it each message is tried.
            delivered: they are copies of what a broker has delivered, so properties TIMER_* are no longer to be kept,
                and no reason to refuse one.

        Returns:
            One result a message, in order; with `until_refused` the last one may be that of the refused message.

        Raises:
            UsageError: the store is closed.

        Thread: any. Durability: as for put, for all of them when it returns.
        """
        self._check_open()
        listed = list(messages)  # may call the store
        self._check_open()
        return self._puts.put_many(listed, until_refused, delivered)

    def put_batch(self, messages: Iterable[Message], properties: Mapping[str, str] | None = None) -> list[PutResult]:
        """Store a batch as RocketMQ does: messages of one queue, all of them or none.

        They stand one after the other in one file of the log, with consecutive queue offsets. Into a topic of type
        BatchCQ the whole batch goes as one record, an inner batch.

        Args:
            messages: alike in topic, queue, sys_flag, sender's time and host, and reconsume_times.
            properties: of the batch itself. "5.3.3" adds them to those of each message, later ones store them nowhere;
                an inner batch has them as its record's.

        Returns:
            One result a message, in order, all with the same status. MESSAGE_ILLEGAL: together they are larger than
            maxMessageSize or than a log file, one has a delay level, a transaction type or properties INNER_*, or with
            the batch's own its properties are too long.

        Raises:
            UsageError: the messages differ in what a batch has once; the store is closed.

        Thread: any. Durability: as for put, for all of them when it returns. A crash amid it may leave the first ones.
        """
        self._check_open()
        listed = list(messages)  # may call the store
        self._check_open()
        return self._puts.put_batch(listed, properties)

    def put_columns(self, topic: str, batch: Any) -> ColumnsResult:
        """Store the rows of a pyarrow.RecordBatch as messages of one topic, in order, without an object a row.

        Args:
            topic: of all of them.
            batch: columns by name: `body` (binary or string); optional `tags` and `keys` (string; null or empty for
                none), `queue_id` (int32, below 65,536; default 0), `born_timestamp` (int64 or timestamp[ms]; default
                the store's clock), `properties` (map<string, string>, without KEYS, TAGS, WAIT, DELAY, TIMER_* and
                INNER_*).

        Returns:
            How many rows are stored and where. Rows that make no message refuse the whole batch.

        Raises:
            UsageError: a column that is missing, unknown or of another type; the store is closed.

        Thread: any. Durability: as for put, for all of them when it returns.
        """
        self._check_open()
        return self._puts.put_columns(topic, batch)


lockless(PutStore.put_many.__code__)
lockless(PutStore.put_batch.__code__)
