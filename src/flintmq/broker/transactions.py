"""Ends transactions as producers say, and asks those that said nothing.

A producer sends a half message (`send`), works, and says how it ends. One that died, or does not know yet, is asked by
way of one connection of its group, and answers with another end. Upstream: EndTransactionProcessor,
AbstractTransactionalMessageCheckListener, Broker2Client.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from flintmq.broker.clients import Clients
from flintmq.broker.needs import PUB, of_topic
from flintmq.broker.requests import INT32, Answer, Handler, Need, Refused, Request, anything
from flintmq.broker.send import code_of, remark_of
from flintmq.broker.served_store import ServedStore
from flintmq.errors import MessageNotFoundError, UsageError
from flintmq.format import properties, record
from flintmq.format.text import java_encode, java_int
from flintmq.message import PutResult
from flintmq.remoting.frames import ONE_WAY
from flintmq.remoting.names import CHECK_TRANSACTION, END_TRANSACTION, ILLEGAL_OPERATION, SYSTEM_ERROR
from flintmq.store.services.transactions import Half

log = logging.getLogger("flintmq.broker")

_ENDS: Final = (record.TRANSACTION_NONE, record.TRANSACTION_COMMIT, record.TRANSACTION_ROLLBACK)


@dataclass(frozen=True, slots=True)
class Ending:
    """Represents the end of a transaction, as a producer says it.

    Attributes:
        group: of the producers.
        physical_offset, queue_offset: of the half message; None: it is not said.
        commit: else it is rolled back.
        was_asked: the producer answers a question of ours.
        wait: for the disk.
        may: raises Refused for what the producer may not.
    """

    group: str
    physical_offset: int
    commit: bool
    was_asked: bool
    queue_offset: int | None = None
    wait: bool = True
    may: Callable[[Need], None] = anything


class Endings:
    """Answers ends of transactions. Thread: the loop's, but for what the store asks."""

    def __init__(self, served: ServedStore, clients: Clients, name: str) -> None:
        self._served, self._store, self._clients, self._name = served, served.store, clients, name
        self._loop = asyncio.get_running_loop()
        self._store.on_check(self._ask)

    def handlers(self) -> dict[int, Handler]:
        return {END_TRANSACTION: self.end}

    async def end(self, request: Request) -> Answer:
        """Commit a half message, or roll it back.

        As upstream, a client that does not know yet gets no answer.
        """
        how, physical_offset = request.number("commitOrRollback", bounds=INT32), request.number("commitLogOffset")
        group, queue_offset = request.text("producerGroup"), request.number("tranStateTableOffset")
        if how not in _ENDS:
            raise Refused(SYSTEM_ERROR, "commitOrRollback field wrong")
        if how == record.TRANSACTION_NONE:
            return None
        ending = Ending(
            group,
            physical_offset,
            commit=how == record.TRANSACTION_COMMIT,
            was_asked=request.flag("fromTransactionCheck", False),
            queue_offset=queue_offset,
            wait=not request.frame.flag & ONE_WAY,  # of a oneway request nobody waits for the answer
            may=request.may,
        )
        result = await self.put(ending)
        if result.physical_offset >= 0:
            return request.answer()
        return request.answer(code_of(result), remark=remark_of(result))

    async def put(self, ending: Ending) -> PutResult:
        """Put what ends a transaction; return the put's result.

        Raises Refused: it is none of this group, has ended, or is to be asked for.
        """
        return await self._served.run(self._put, ending)

    def _put(self, ending: Ending) -> PutResult:
        half = self._half(ending.physical_offset)
        ending.may(of_topic(half.topic, PUB))
        if not ending.was_asked and self._comes_late(half):
            raise Refused(ILLEGAL_OPERATION, "its CHECK_IMMUNITY_TIME_IN_SECONDS is over; it is asked for")
        if half.group != ending.group:
            raise Refused(SYSTEM_ERROR, "The producer group wrong")
        if ending.queue_offset not in (None, half.message.queue_offset):
            raise Refused(SYSTEM_ERROR, "The transaction state table offset wrong")
        try:
            return half.commit(wait=ending.wait) if ending.commit else half.rollback(wait=ending.wait)
        except UsageError as error:  # it has ended
            log.warning("%s: its %s is refused: %s", half, "commit" if ending.commit else "rollback", error)
            raise Refused(SYSTEM_ERROR, str(error)) from None

    def _half(self, physical_offset: int) -> Half:
        try:
            return self._store.half_at(physical_offset)
        except MessageNotFoundError:
            raise Refused(SYSTEM_ERROR, "Find prepared transaction message failed") from None

    def _comes_late(self, half: Half) -> bool:
        """Return whether a sender that set its own time for the first check lets it pass unasked."""
        given = half.message.properties.get(properties.CHECK_IMMUNITY)
        if not given:
            return False
        immune_ms = max((java_int(given, 64) or 0) * 1000, self._served.config.transaction_time_out)
        return self._store.effects.now_ms() - half.message.born_timestamp > immune_ms

    def _ask(self, half: Half) -> bool:
        """Ask one connection of a group; return whether there is one. Thread: the store's."""
        peer = self._clients.producer(half.group, of_topic(half.topic, PUB))
        if peer is None:
            return False
        message = half.message
        fields = {
            "topic": message.topic,
            "tranStateTableOffset": str(message.queue_offset),
            "commitLogOffset": str(message.physical_offset),
            "msgId": message.msg_id or "",
            "transactionId": message.msg_id or "",
            "offsetMsgId": message.offset_msg_id,
            "bname": self._name,
        }
        try:
            self._loop.call_soon_threadsafe(self._clients.calls.tell, peer, CHECK_TRANSACTION, fields, _as_meant(half))
        except RuntimeError:  # the loop is closed
            return False
        return True


def _as_meant(half: Half) -> bytes:
    """Return the record of a half message with its real topic and queue."""
    topic = java_encode(half.topic)
    fields = half.message.fields._replace(topic=topic, queue_id=half.queue_id, magic=record.magic_for(half.topic))
    return record.encode(fields)
