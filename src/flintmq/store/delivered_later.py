"""Defines the methods of MessageStore about transactions and recalls.

Upstream: EndTransactionProcessor, TransactionalMessageCheckService, RecallMessageProcessor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flintmq.config.keys import StoreConfig
from flintmq.config.text import short
from flintmq.errors import FormatError, UsageError
from flintmq.format import recall_handle
from flintmq.message import Message, PutResult
from flintmq.storage.files.filesystem import Effects
from flintmq.store import arguments
from flintmq.store.append.timed_message import recalling
from flintmq.store.services.transactions import Half

if TYPE_CHECKING:
    from flintmq.store.assembly import StoreParts
    from flintmq.store.services.transactions import Transactions


class DeliveredLater:
    """A part of MessageStore. Thread: any."""

    root: str
    config: StoreConfig
    effects: Effects
    _parts: StoreParts
    put: Callable[[Message], PutResult]
    _check_dispatched: Callable[[str], None]

    def recall(self, handle: str, group: str = "") -> PutResult:
        """Have a message that waits for its time never delivered.

        What is stored is a mark that waits for the same moment; nobody looks whether the message is there.

        Args:
            handle: `PutResult.recall_handle()` of its put, or what a broker gave a client.
            group: the producer's group, which the mark keeps.

        Returns:
            The result of putting the mark. WHEEL_TIMER_MSG_ILLEGAL: the time has come already, or is too far ahead.

        Raises:
            TypeError: an argument of another type.
            UsageError: the text is no handle; the store is closed.

        Thread: any. Durability: as for put.
        """
        self._parts.state.check()
        arguments.texts(handle=handle, group=group)
        try:
            named = recall_handle.decode(handle)
        except FormatError as error:
            raise UsageError(f"{short(handle)}: {error.reason}") from None
        now_ms, peer = self.effects.now_ms(), self._parts.opening.peer
        return self.put(recalling(named, self.config, peer, now_ms, group))

    def begin(self, message: Message, group: str) -> Half:
        """Store a message that is delivered once its sender commits it.

        Until then it is a half message in a topic of RocketMQ's own. `Half.commit` delivers it, `Half.rollback` drops
        it. After a restart, or without an answer, it waits; `on_check` has its sender asked.

        Args:
            message: the message, without a delay level.
            group: name of the senders who may say how it ends.

        Raises:
            TypeError: an argument of another type.
            UsageError: no group, a delay or a timer; the store is a slave, its dispatch is left to another process, or
                it is closed.
            PutFailedError: nothing is stored; the text names the rule that refused it.
            PutUnknownError: it may be stored; then it is asked about.

        Thread: any. Durability: as for put.
        """
        transactions = self._transactions("begin")
        arguments.texts(group=group)
        if not isinstance(message, Message):
            raise TypeError(f"message is of type {type(message).__name__}; give a flintmq.Message")
        return transactions.begin(message, group)

    def half_at(self, physical_offset: int) -> Half:
        """Return the half message whose record begins at this log offset, also one that has ended.

        Raises:
            TypeError: an offset of another type.
            MessageNotFoundError: no half message begins there.
            UsageError: as `begin`.

        Thread: any.
        """
        return self._transactions("half_at").at(arguments.number("physical_offset", physical_offset))

    def on_check(self, callback: Callable[[Half], object]) -> Callable[[], None]:
        """Have a function asked how half messages end; return a function that ends this.

        It is asked about each half message that is older than transactionTimeOut, or than its own
        CHECK_IMMUNITY_TIME_IN_SECONDS, each transactionCheckInterval until it ends; also about those that RocketMQ's
        broker left. After transactionCheckMax times, or fileReservedTime hours, the half message goes to the topic
        TRANS_CHECK_MAX_TIME_TOPIC.

        Args:
            callback: gets a Half. It calls `commit` or `rollback`, now or later, or does nothing if it does not know
                yet. If it returns False, there is nobody to ask now: the next function is asked, and if none is left,
                this time does not count. An error of it is logged, and counts as an answer that does not know.

        Returns:
            A function without arguments. A call that is under way when it returns goes on.

        Raises:
            TypeError: the callback cannot be called.
            UsageError: as `begin`.

        Thread: any; the callback is called by a thread of its own, for which `close` waits: it must not close the
        store.
        """
        transactions = self._transactions("on_check")
        arguments.function("callback", callback)
        return transactions.on_check(callback)

    def _transactions(self, method: str) -> Transactions:
        self._check_dispatched(method)
        if self._parts.raw is not None:
            raise UsageError(f"{self.root}: {method}: this store is a slave; its master ends transactions")
        return self._parts.transactions
