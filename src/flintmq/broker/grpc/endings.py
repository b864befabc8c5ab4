"""Ends transactions by gRPC, asks for ends, and recalls messages.

The id of a transaction says where its half message is, so a producer ends it also after a restart of the broker.
Upstream: EndTransactionActivity, RecallMessageActivity, ProxyClientRemotingProcessor.
"""

from __future__ import annotations

import asyncio

from flintmq.broker.grpc import definitions_pb2 as wire
from flintmq.broker.grpc.asked import Asked, checked_topic
from flintmq.broker.grpc.messages import Denied, given_message, status, status_of_put
from flintmq.broker.grpc.sessions import GrpcSessions
from flintmq.broker.recall import Recalls
from flintmq.broker.served_store import ServedStore
from flintmq.broker.transactions import Ending, Endings
from flintmq.store.services.transactions import Half

_HEXADECIMAL = 16


def transaction_id(physical_offset: int) -> str:
    """Return the id of the transaction whose half message begins at this log offset."""
    return f"{physical_offset:016X}"


class GrpcEndings:
    """Ends transactions and recalls messages. Thread: the loop's, but for what the store asks."""

    def __init__(self, served: ServedStore, endings: Endings, recalls: Recalls, sessions: GrpcSessions) -> None:
        self._endings, self._recalls, self._sessions = endings, recalls, sessions
        self._loop = asyncio.get_running_loop()
        served.store.on_check(self._ask)

    async def end(self, asked: Asked, request: wire.EndTransactionRequest) -> wire.EndTransactionResponse:
        """Commit a half message, or roll it back; do nothing if the client does not know yet."""
        topic = checked_topic(request.topic)
        try:
            physical_offset = int(request.transaction_id, _HEXADECIMAL)
        except ValueError:
            raise Denied(wire.INVALID_TRANSACTION_ID, "transaction id cannot be read") from None
        if request.resolution not in (wire.COMMIT, wire.ROLLBACK):
            return wire.EndTransactionResponse(status=status(wire.OK))
        ending = Ending(
            topic,
            physical_offset,
            commit=request.resolution == wire.COMMIT,
            was_asked=request.source == wire.SOURCE_SERVER_CHECK,
            may=asked.may,
        )
        result = await self._endings.put(ending)
        if result.physical_offset < 0:
            text = f"{result.status.name}: {result.reason}"
            return wire.EndTransactionResponse(status=status(status_of_put(result.status), text))
        return wire.EndTransactionResponse(status=status(wire.OK))

    async def recall(self, asked: Asked, request: wire.RecallMessageRequest) -> wire.RecallMessageResponse:
        topic = checked_topic(request.topic)
        found = await self._recalls.put(topic, request.recall_handle, topic)
        return wire.RecallMessageResponse(status=status(wire.OK), message_id=found)

    def _ask(self, half: Half) -> bool:
        """Ask one producer of a topic, another one each time; return whether there is one.

        Thread: the store's.
        """
        found = list(self._sessions.producers(half.topic)) if half.group == half.topic else []  # else of remoting
        if not found:
            return False
        command = wire.RecoverOrphanedTransactionCommand(
            message=given_message(half.message, half.topic, "", 0),
            transaction_id=transaction_id(half.message.physical_offset),
        )
        told = wire.TelemetryCommand(recover_orphaned_transaction_command=command).SerializeToString()
        try:
            self._loop.call_soon_threadsafe(found[half.checks % len(found)].send, told)
        except RuntimeError:  # the loop is closed
            return False
        return True
