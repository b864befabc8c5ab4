"""Sends of gRPC: each message is a put, as one of remoting is.

Upstream: SendMessageActivity, ProducerProcessor.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Coroutine, Sequence
from typing import Final

from flintmq.broker.grpc import definitions_pb2 as wire
from flintmq.broker.grpc.asked import Asked, checked_topic
from flintmq.broker.grpc.endings import transaction_id
from flintmq.broker.grpc.messages import (
    Denied,
    born_ms,
    properties_of,
    status,
    status_of_all,
    status_of_put,
    type_of,
)
from flintmq.broker.grpc.routes import GrpcRoutes
from flintmq.broker.send import SendRequest, Sends
from flintmq.broker.served import TEMPLATE
from flintmq.broker.served_store import ServedStore
from flintmq.format.group_topics import OF_GROUPS
from flintmq.format.record import COMPRESSED
from flintmq.format.text import java_hash
from flintmq.message import PutResult

MESSAGES_MAX: Final = 1024  # of one call
_MASK64: Final = (1 << 64) - 1
_MULTIPLIER: Final = 2862933555777941757  # of the consistent hash's generator
_SCALE: Final = 1 << 31


class GrpcSends:
    """Puts what clients send. Thread: the loop's."""

    def __init__(self, served: ServedStore, sends: Sends, routes: GrpcRoutes, broker: str) -> None:
        self._served, self._sends, self._routes, self._broker = served, sends, routes, broker
        self._turn = itertools.count()

    def send(
        self, asked: Asked, request: wire.SendMessageRequest
    ) -> wire.SendMessageResponse | Coroutine[None, None, wire.SendMessageResponse]:
        messages = request.messages
        if not messages:
            raise Denied(wire.MESSAGE_CORRUPTED, "no message to send")
        if len(messages) > MESSAGES_MAX:
            raise Denied(wire.MESSAGE_CORRUPTED, f"{len(messages)} messages to send; {MESSAGES_MAX} are the most")
        topic = checked_topic(messages[0].topic)
        queue_id = self._queue(topic, messages)
        forms = [self._form(topic, queue_id, message, asked.connection.address) for message in messages]
        stored = [
            self._sends.put(form, message.body, asked.connection.address)
            for form, message in zip(forms, messages, strict=True)
        ]
        if all(isinstance(one, PutResult) for one in stored):
            return self._answer(messages, [one for one in stored if isinstance(one, PutResult)])
        return self._answer_later(messages, stored)

    async def _answer_later(
        self, messages: Sequence[wire.Message], stored: Sequence[PutResult | Awaitable[PutResult]]
    ) -> wire.SendMessageResponse:
        return self._answer(messages, [one if isinstance(one, PutResult) else await one for one in stored])

    def _answer(self, messages: Sequence[wire.Message], results: Sequence[PutResult]) -> wire.SendMessageResponse:
        entries = [self._entry(message, result) for message, result in zip(messages, results, strict=True)]
        return wire.SendMessageResponse(status=status_of_all(entry.status.code for entry in entries), entries=entries)

    def _entry(self, message: wire.Message, result: PutResult) -> wire.SendResultEntry:
        code, told = status_of_put(result.status), message.system_properties
        if result.physical_offset < 0:
            return wire.SendResultEntry(status=status(code, f"{result.status.name}: {result.reason}"))
        if code != wire.OK:
            return wire.SendResultEntry(status=status(code, f"send message failed, sendStatus={result.status.name}"))
        is_half = told.message_type == wire.TRANSACTION
        return wire.SendResultEntry(
            status=status(wire.OK),
            message_id=told.message_id,
            transaction_id=transaction_id(result.physical_offset) if is_half else told.message_id,
            offset=result.queue_offset,
            recall_handle=result.recall_handle(self._broker),
        )

    def _form(self, topic: str, queue_id: int, message: wire.Message, host: str) -> SendRequest:
        """Return a message as a send of remoting says it.

        Raises Denied: the message may not be.
        """
        if message.topic.name != topic:
            raise Denied(wire.MESSAGE_CORRUPTED, "topic in message is not same")
        if not message.body:
            raise Denied(wire.MESSAGE_BODY_EMPTY, "message body cannot be empty")
        most = self._served.config.max_message_size
        if len(message.body) > most:
            raise Denied(wire.MESSAGE_BODY_TOO_LARGE, f"message body cannot exceed the max {most}")
        text = properties_of(message, topic, host)
        self._check_type(topic, message)
        flags = COMPRESSED if message.system_properties.body_encoding == wire.GZIP else 0
        return SendRequest(topic, TEMPLATE, 0, queue_id, flags, born_ms(message), 0, text, 0, None)

    def _check_type(self, topic: str, message: wire.Message) -> None:
        if not self._served.keys.check_types or topic.startswith(OF_GROUPS):
            return
        takes, kind = self._routes.type_of(topic), type_of(message)
        if takes not in (kind, "MIXED"):
            text = f"TopicMessageType validate failed, the expected type is {takes}, but actual type is {kind}"
            raise Denied(wire.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, text)

    def _queue(self, topic: str, messages: Sequence[wire.Message]) -> int:
        """Return the queue for messages: the same for a message group, else one after the other.

        Raises Denied: the topic has none.
        """
        facts = self._served.topic(topic)
        if facts is None:
            raise Denied(wire.TOPIC_NOT_FOUND, f"No topic route info in name server for the topic: {topic}")
        if not facts.is_writable or not facts.write_queues:
            raise Denied(wire.FORBIDDEN, "no writable queue")
        group = messages[0].system_properties.message_group
        if group and len(messages) == 1:
            return consistent_hash(java_hash(group), facts.write_queues)
        return next(self._turn) % facts.write_queues


def consistent_hash(value: int, buckets: int) -> int:
    """Return the bucket of a value: with one bucket more, few values move.

    Guava's Hashing.consistentHash: jump consistent hash over a linear congruential generator.
    """
    state, candidate = value & _MASK64, 0
    while True:
        state = (_MULTIPLIER * state + 1) & _MASK64
        found = int((candidate + 1) / (((state >> 33) + 1) / _SCALE))
        if not 0 <= found < buckets:
            return candidate
        candidate = found
