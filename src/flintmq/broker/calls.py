"""Requests of ours to clients, and what they answer. Upstream: Broker2Client."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from flintmq.broker.requests import Peer
from flintmq.remoting.frames import ONE_WAY, RemotingFrame

ANSWER_S: Final = 10.0  # that a client has for an answer
UNANSWERED_MAX: Final = 64 << 20  # bytes of bodies that wait for the answers of one client; more are not sent


class Calls:
    """Asks and tells clients that speak remoting. Thread: the loop's."""

    def __init__(self) -> None:
        self._numbers = iter(range(1, 1 << 31))  # of our own requests
        self._waiting = dict[int, tuple[Peer, asyncio.Future[RemotingFrame | None]]]()
        self._unanswered = Counter[Peer]()  # bytes of bodies that are kept until then

    def tell(self, peer: Peer, code: int, fields: Mapping[str, str], body: bytes = b"") -> None:
        """Send a request that gets no answer."""
        peer.send(RemotingFrame(code, next(self._numbers), ONE_WAY, fields=fields, body=body, language="JAVA"))

    async def ask(self, peer: Peer, code: int, fields: Mapping[str, str], body: bytes = b"") -> RemotingFrame | None:
        """Send a request, and return its answer.

        None: none came in time, or the client has gone, or takes nothing.

        Raises UsageError: the frame is larger than a frame may be.
        """
        if not peer.is_writable or self._unanswered[peer] > UNANSWERED_MAX:
            return None
        number, answer = next(self._numbers), asyncio.get_running_loop().create_future()
        self._waiting[number] = peer, answer
        self._unanswered[peer] += len(body)
        try:
            peer.send(RemotingFrame(code, number, fields=fields, body=body, language="JAVA"))
            with suppress(TimeoutError):
                return None if peer.is_closed else await asyncio.wait_for(answer, ANSWER_S)
            return None
        finally:
            del self._waiting[number]
            self._unanswered[peer] -= len(body)
            if not self._unanswered[peer]:
                del self._unanswered[peer]

    def answered(self, frame: RemotingFrame, peer: Peer) -> None:
        """Take an answer; what nobody asked of this client is dropped."""
        asked = self._waiting.get(frame.opaque)
        if asked is not None and asked[0] is peer and not asked[1].done():
            asked[1].set_result(frame)

    def left(self, peer: Peer) -> None:
        """Wait no more for a client that has gone."""
        for of, answer in self._waiting.values():
            if of is peer and not answer.done():
                answer.set_result(None)
