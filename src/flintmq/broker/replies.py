"""Hands replies to the clients that asked, by request and reply.

A request is a message with its sender's client id; who consumes it sends a reply with the same id, which goes to that
client at once, and into a topic of the cluster. Upstream: ReplyMessageProcessor.
"""

from __future__ import annotations

import time
from collections.abc import Coroutine
from dataclasses import replace

from flintmq.broker.clients import Clients
from flintmq.broker.needs import PUB, of_topic
from flintmq.broker.requests import Answer, Handler, Request
from flintmq.broker.routes import Routes
from flintmq.broker.send import LONG, NAMES, REPLY_TO, UNIT_MODE, SendRequest, Sends
from flintmq.format import properties
from flintmq.format.group_topics import reply_topic
from flintmq.remoting.frames import VERSION
from flintmq.remoting.names import PUSH_REPLY, REPLY, REPLY_SHORT, SUCCESS, SYSTEM_ERROR
from flintmq.remoting.sends import send_answer


class Replies:
    """Answers who sends replies. Thread: the loop's.

    `stores`: whether replies are put, too.
    """

    def __init__(self, sends: Sends, clients: Clients, routes: Routes, *, stores: bool) -> None:
        self._sends, self._clients, self._routes, self._stores = sends, clients, routes, stores

    def handlers(self) -> dict[int, Handler]:
        return {REPLY: self.reply, REPLY_SHORT: self.reply}

    async def reply(self, request: Request) -> Answer:
        """Put a reply, and hand it over: the answer says whether the client took it."""
        request.may(of_topic(reply_topic(self._routes.cluster), PUB))  # whatever topic it names: it gets to a client
        asked = self._sends.asked(request)
        answer = send_answer(request.frame.opaque, VERSION, "0", max(asked.queue_id, 0), 0, None)
        if self._stores:
            stored = self._sends.send(request)
            found = await stored if isinstance(stored, Coroutine) else stored
            if found is not None and found.fields:  # else it is refused, and handed over all the same
                answer = found
        why = await self._hand_over(request, asked)
        return replace(answer, code=SYSTEM_ERROR if why else SUCCESS, remark=why)

    async def _hand_over(self, request: Request, asked: SendRequest) -> str | None:
        """Push a reply to the client that asked; return why it did not get it."""
        client = properties.parse(asked.properties).get(REPLY_TO)
        if client is None:
            return f"reply message properties[{REPLY_TO}] is null"
        peers = self._clients.find(client)
        if not peers:
            return f"push reply message fail, channel of <{client}> not found."
        if len(peers) > 1:
            return f"push reply message fail, <{client}> is the client id of {len(peers)} users."
        given, now = request.frame.fields, str(time.time_ns() // 1_000_000)
        names = zip(LONG[: UNIT_MODE + 1], NAMES[request.frame.code], strict=False)
        fields = {long: given[name] for long, name in names if name in given}
        end = "" if asked.properties.endswith(properties.VALUE_END) else properties.VALUE_END
        fields |= {
            "properties": f"{asked.properties}{end}PUSH_REPLY_TIME{properties.NAME_END}{now}{properties.VALUE_END}",
            "bornHost": request.peer.address,
            "storeHost": self._routes.address(request),
            "storeTimestamp": now,
        }
        answer = await self._clients.calls.ask(peers[0], PUSH_REPLY, fields, request.frame.body)
        return None if answer is not None and answer.code == SUCCESS else f"push reply message to {client}fail."
