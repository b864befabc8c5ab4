"""Disturbs the answers of a broker, and lists what clients asked of it.

It gets each request with its handler, in the broker's loop. A test says from its own thread what is to happen.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from weakref import WeakSet

from flintmq.broker.connection import ClientConnection
from flintmq.broker.requests import Handler, HeldAnswer, Outcome, Request
from flintmq.errors import UsageError

ASKED_MAX: Final = 100_000  # requests that are kept
ANSWER_MAX: Final = 0x7FFF  # a code has 16 bits in a binary header
LOOK_S: Final = 0.01  # between two looks whether a delay was ended
REMARK: Final = "a test has this request fail"


class ClientRequest(NamedTuple):
    """A request that a client sent.

    Attributes:
        code: RocketMQ's code of the request.
        fields: its fields, by name.
        client: address of the client, HOST:PORT.
    """

    code: int
    fields: Mapping[str, str]
    client: str


@dataclass
class DisturbedRequests:
    """The next requests that get no proper answer.

    Attributes:
        code: of these requests; None: of any.
        times: how many are left.
        answer: the code that they get; None: they lose their connection.
        before: nothing of what they ask is done.
    """

    code: int | None
    times: int
    answer: int | None
    before: bool


class Chaos:
    """Requests that clients sent, and disturbances to come. Thread: any; `around` the loop's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next: list[DisturbedRequests] = []
        self._delays: dict[int, float] = {}
        self._asked: deque[ClientRequest] = deque(maxlen=ASKED_MAX)
        self._peers: WeakSet[ClientConnection] = WeakSet()
        self._loop: asyncio.AbstractEventLoop | None = None

    def asked(self) -> list[ClientRequest]:
        with self._lock:
            return list(self._asked)

    def forget(self) -> None:
        """Forget what clients asked."""
        with self._lock:
            self._asked.clear()

    def disturb(self, requests: DisturbedRequests) -> None:
        if requests.times < 1:
            raise UsageError(f"times={requests.times}: give 1 or more")
        if requests.answer is not None and not 0 <= requests.answer <= ANSWER_MAX:
            raise UsageError(f"answer={requests.answer}: give 0 to {ANSWER_MAX}")
        with self._lock:
            self._next.append(requests)

    def delay(self, code: int, seconds: float) -> None:
        if not 0 <= seconds < threading.TIMEOUT_MAX:
            raise UsageError(f"seconds={seconds}: give 0 or more")
        with self._lock:
            self._delays[code] = seconds

    def clear(self) -> None:
        """Disturb nothing any more. Requests that are delayed go on."""
        with self._lock:
            self._next.clear()
            self._delays.clear()

    def die(self) -> None:
        """Close all connections, now and later ones. After this call no client gets an answer."""

        def close() -> None:
            for peer in list(self._peers):
                peer.close("a test kills the broker", logging.DEBUG)
            closed.set()

        self.clear()
        self.disturb(DisturbedRequests(None, sys.maxsize, None, before=True))
        closed = threading.Event()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(close)
            closed.wait()

    def ended(self) -> None:
        """Forget a broker that has ended. Nothing is disturbed any more."""
        self.clear()
        self._loop = None
        self._peers.clear()

    def around(self, request: Request, handler: Handler) -> Outcome:
        """Answer a request, disturbed or by its handler."""
        peer, code = request.peer, request.frame.code
        assert isinstance(peer, ClientConnection)
        self._loop = asyncio.get_running_loop()
        self._peers.add(peer)
        with self._lock:
            self._asked.append(ClientRequest(code, request.frame.fields, peer.address))
            disturbed = next((one for one in self._next if one.code in (None, code)), None)
            if disturbed is not None:
                disturbed.times -= 1
                if not disturbed.times:
                    self._next.remove(disturbed)
            is_delayed = self._delays.get(code, 0) > 0
        if disturbed is None and not is_delayed:
            return handler(request)
        return self._later(request, handler, disturbed, time.monotonic())

    async def _later(
        self, request: Request, handler: Handler, disturbed: DisturbedRequests | None, came: float
    ) -> Outcome:
        while (left := came + self._delays.get(request.frame.code, 0) - time.monotonic()) > 0:
            await asyncio.sleep(min(left, LOOK_S))
        if disturbed is None or not disturbed.before:
            found = handler(request)
            if disturbed is None:
                return found
            await _ended(request, found)
        if disturbed.answer is not None:
            return request.answer(disturbed.answer, remark=REMARK)
        assert isinstance(request.peer, ClientConnection)
        # No warning for what a test wants: a pipe of standard error that nobody reads would fill, and stop the loop.
        request.peer.close("a test drops it", logging.DEBUG)
        return None


async def _ended(request: Request, found: Outcome) -> None:
    """Wait for what a handler answers, and drop it."""
    while isinstance(found, (Coroutine, HeldAnswer)):
        if isinstance(found, HeldAnswer):
            waiting = asyncio.get_running_loop().create_future()
            found.resume = waiting.set_result
            found = (await waiting)(request)
        else:
            found = await found
