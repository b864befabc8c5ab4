"""Passes on to a consumer what an operator asks of it.

Upstream: AdminBrokerProcessor.callConsumer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from flintmq.broker.clients import Clients
from flintmq.broker.needs import SUB, of_topic
from flintmq.broker.requests import Answer, Handler, Refused, Request
from flintmq.broker.served import Served
from flintmq.errors import FormatError, MessageNotFoundError
from flintmq.format.message_id import parse_offset_msg_id
from flintmq.remoting.names import CONSUME_DIRECTLY, CONSUME_TIMEOUT, GET_RUNNING, SYSTEM_ERROR

CREDENTIALS: Final = ("AccessKey", "Signature", "SecurityToken")
"""Fields by which an operator signs; they are for the broker alone."""


class Consumers:
    """Asks a member of a group for an operator. Thread: the loop's."""

    def __init__(self, served: Served, clients: Clients, name: str) -> None:
        self._served, self._clients, self._name = served, clients, name

    def handlers(self) -> dict[int, Handler]:
        return {GET_RUNNING: self.running, CONSUME_DIRECTLY: self.consume}

    async def running(self, request: Request) -> Answer:
        """Answer `mqadmin consumerStatus` with what a consumer does just now."""
        return await self._passed_on(request, {})

    async def consume(self, request: Request) -> Answer:
        """Have a consumer take a message that an operator names, and answer with what became of it."""
        name = request.text("msgId")
        try:
            message = await self._served.at(parse_offset_msg_id(name)[2])
            if message.offset_msg_id != name.upper():
                raise MessageNotFoundError(f"the record there has the id {message.offset_msg_id}")
        except (FormatError, MessageNotFoundError) as error:
            raise Refused(SYSTEM_ERROR, f"no message by the id {name!a:.100}: {error}") from None
        request.may(of_topic(message.topic, SUB))
        more = {"brokerName": self._name, "topicSysFlag": "0", "groupSysFlag": "0"}
        return await self._passed_on(request, more, message.raw)

    async def _passed_on(self, request: Request, more: Mapping[str, str], body: bytes = b"") -> Answer:
        group, client = request.text("consumerGroup"), request.text("clientId")
        member = self._clients.members(group).get(client)
        if member is None or not member.hears:
            raise Refused(SYSTEM_ERROR, f"The Consumer <{group}> <{client}> not online")
        given = {name: value for name, value in request.frame.fields.items() if name not in CREDENTIALS}
        answer = await self._clients.calls.ask(member.peer, request.frame.code, {**given, **more}, body)
        if answer is None:
            raise Refused(CONSUME_TIMEOUT, f"consumer <{group}> <{client}> Timeout: it did not answer, or has gone")
        return request.answer(answer.code, answer.fields, answer.body, answer.remark)
