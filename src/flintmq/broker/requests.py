"""A request: its fields, its answer, and who answers it.

A handler takes a Request and returns its answer, a coroutine that does, or a HeldAnswer; None: there is no answer. What
it raises becomes an answer, too: clients of RocketMQ decide by codes, people by remarks.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeAlias

from flintmq.errors import FlintError, FormatError, UsageError
from flintmq.format import config_json
from flintmq.format.config_json import JsonObject
from flintmq.remoting.frames import ANSWER, LOOSE_MAX, ONE_WAY, RemotingFrame
from flintmq.remoting.names import INVALID_PARAMETER, NO_PERMISSION, NOT_SUPPORTED, SUCCESS, SYSTEM_ERROR

log = logging.getLogger("flintmq.broker")

INT64: Final = (-(1 << 63), (1 << 63) - 1)
INT32: Final = (-(1 << 31), (1 << 31) - 1)
BODY_MAX: Final = 1 << 20  # bytes of JSON that are parsed in the loop
CANCEL_S: Final = 1.0  # for what is cancelled to end
ALONE_MIN: Final = 32 << 10  # bytes of a body that is sent apart: a call of the system costs less than a copy
COUNTED_MAX: Final = 64  # unknown codes of which one line is logged, and which are counted


class Peer(Protocol):
    """The connection that a request came by."""

    address: str  # of the client, HOST:PORT
    user: str  # who signed its newest request, with an ACL
    local_host: str  # the address of ours that the client connected to
    is_closed: bool
    turns: asyncio.Semaphore  # of answers that are made at a time by coroutines

    @property
    def is_writable(self) -> bool:
        """Return whether the client takes its answers.

        Whoever makes a large answer looks before it reads: else a thousand requests of a client that takes nothing
        would fill the memory.
        """

    def send(self, frame: RemotingFrame) -> None:
        """Send a frame; after the end of the connection nothing happens.

        Raises UsageError: the frame is larger than a frame may be.
        """

    def send_encoded(self, head: bytes, body: bytes = b"") -> None:
        """Send the bytes of a frame, in one part or two."""

    def began(self) -> None:
        """Count one more request that is being answered."""

    def ended(self) -> None:
        """Count one less."""

    async def writable(self) -> None:
        """Wait until the client takes its answers, or is gone."""


class Refused(Exception):
    """A refusal, which a request gets in place of its answer."""

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(remark)
        self.code, self.remark = code, remark


class Unsigned(Refused):
    """A refusal of a request that nobody known has signed."""

    def __init__(self, why: str) -> None:
        super().__init__(NO_PERMISSION, why)


class Need(NamedTuple):
    """A resource, and actions of which one must be allowed.

    The name of a cluster is the broker's; one that is named here is a topic in which messages of all topics wait.
    """

    kind: str
    name: str
    actions: tuple[str, ...]


def anything(need: Need) -> None:
    """Allow it: there is no ACL."""


def lets(may: Callable[[Need], None], need: Need) -> bool:
    """Return whether a need is not refused."""
    try:
        may(need)
    except Refused:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Request:
    frame: RemotingFrame
    peer: Peer
    version: int  # of RocketMQ that the answer names
    may: Callable[[Need], None] = anything  # raises Refused for what the user may not

    def text(self, name: str, default: str | None = None) -> str:
        """Return a field.

        Raises Refused: it is missing and has no default.
        """
        found = self.frame.fields.get(name, default)
        if found is None:
            raise Refused(SYSTEM_ERROR, f"the field {name} is missing")
        return found

    def number(self, name: str, default: int | None = None, bounds: tuple[int, int] = INT64) -> int:
        """Return a field that is a number within bounds, both included.

        Raises Refused: it is no such number, or is missing and has no default.
        """
        text = self.frame.fields.get(name)
        if text is None and default is not None:
            return default
        found = config_json.integer(self.text(name))
        if found is None:
            raise Refused(SYSTEM_ERROR, f"the field {name} is no number: {text!a:.100}")
        if not bounds[0] <= found <= bounds[1]:
            raise Refused(INVALID_PARAMETER, f"the field {name} is {found}; {bounds[0]} to {bounds[1]} are possible")
        return found

    def flag(self, name: str, default: bool) -> bool:
        return self.frame.fields.get(name, "true" if default else "false").lower() == "true"

    def json(self) -> JsonObject:
        """Return the body's object.

        Raises Refused: it is none.
        """
        if len(self.frame.body) > BODY_MAX:
            raise Refused(SYSTEM_ERROR, f"the body has {len(self.frame.body)} bytes; {BODY_MAX} are the most")
        try:
            return config_json.parse(self.frame.body, LOOSE_MAX)
        except FormatError as error:
            raise Refused(SYSTEM_ERROR, f"the body is no object: {error}") from None

    def answer(
        self,
        code: int = SUCCESS,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        remark: str | None = None,
    ) -> RemotingFrame:
        return RemotingFrame(code, self.frame.opaque, ANSWER, remark, fields or {}, body, "JAVA", self.version)


class EncodedAnswer(NamedTuple):
    """The bytes of a frame, in two parts where one would be a copy of a large body."""

    head: bytes
    body: bytes


class HeldAnswer:
    """Represents the answer of a request that waits, and takes no turn and no task for it.

    Attributes:
        resume: called once, with a handler that makes the answer, or that returns None if nobody wants it any more.
    """

    __slots__ = ("resume",)
    resume: Callable[[Handler], None]


def member_text(told: JsonObject, name: str) -> str:
    """Return a text of a body.

    Raises Refused: it is missing or empty.
    """
    found = told.get(name)
    if not isinstance(found, str) or not found:
        raise Refused(SYSTEM_ERROR, f"the body's {name} is missing")
    return found


Answer: TypeAlias = RemotingFrame | None
Outcome: TypeAlias = "Answer | EncodedAnswer | HeldAnswer | Coroutine[None, None, Outcome]"
Handler: TypeAlias = Callable[[Request], Outcome]
PlainTaker: TypeAlias = Callable[[memoryview, int, Peer], int | None]
"""Answers a plain request of which no frame is made, see ClientConnection."""
Around: TypeAlias = Callable[[Request, Handler], Outcome]
"""Answers a request in place of its handler, which it may call: a test's way to disturb a broker."""


class Requests:
    """The table of handlers, and the answers that are under way.

    Thread: the loop's.

    Attributes:
        answered: gets each answer of a client, to a request of ours.
        guard: returns a request that may be sent, and raises Refused for any other; None: all may.
        unsupported: code of a request that nobody answers, or a method of gRPC -> how many came; of the first
            COUNTED_MAX.
        failed: how many requests met an error of ours, which the log tells.
    """

    def __init__(self, version: int, around: Around | None = None) -> None:
        self._version, self._handlers = version, dict[int, Handler]()
        self._around = around
        self._in_any_case: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.unsupported: Counter[int | str] = Counter()
        self.failed = 0
        self._last_line = ""
        self.answered: Callable[[RemotingFrame, Peer], None] = lambda frame, peer: None
        self.guard: Callable[[Request], Request] | None = None

    def add(self, handlers: Mapping[int, Handler], *, in_any_case: bool = False) -> None:
        """Have requests answered.

        Args:
            handlers: by code.
            in_any_case: what they ask is done without a turn, and if the connection has ended meanwhile: it is a send.
        """
        assert not self._handlers.keys() & handlers.keys()  # one room answers a code
        self._handlers.update(handlers)
        if in_any_case:
            self._in_any_case |= handlers.keys()

    def refuse(self, codes: tuple[int, ...], why: str) -> None:
        """Have requests answered with NO_PERMISSION."""

        def refuse(request: Request) -> Answer:
            raise Refused(NO_PERMISSION, why)

        self.add(dict.fromkeys(codes, refuse))

    def take(self, frame: RemotingFrame, peer: Peer) -> None:
        """Answer a request, now or later; take an answer. Nothing is raised."""
        if frame.is_answer:
            self.answered(frame, peer)
            return
        request = Request(frame, peer, self._version)
        handler, around = self._handlers.get(frame.code, _unknown), self._around
        if handler is _unknown:
            self.count_unknown(frame.code, peer.address)
        elif self.guard is not None:
            handler = partial(_guarded, self.guard, handler)
        self.call(request, handler if around is None else lambda request: around(request, handler))

    def call(self, request: Request, handler: Handler) -> None:
        """Answer a request by this handler, now or later. Nothing is raised."""
        try:
            found = handler(request)
        except Exception as error:
            found = self._told(request, error)
        self.end(request, found)

    def end(self, request: Request, found: Outcome) -> None:
        """Send what a request gets, now or later."""
        if isinstance(found, Coroutine):
            self.start(self._later(request, found))
            request.peer.began()
        elif isinstance(found, HeldAnswer):
            found.resume = partial(self._again, request)
        else:
            _send(request, found)

    def _again(self, request: Request, handler: Handler) -> None:
        """Go on with a request that was held; its user may have lost the right meanwhile."""
        self.call(request, handler if self.guard is None else partial(_guarded, self.guard, handler))

    def start(self, work: Coroutine[None, None, None]) -> None:
        """Begin to make an answer, for which the broker's end waits."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)  # the loop itself keeps no task alive
        task.add_done_callback(self._tasks.discard)

    async def drain(self, seconds: float) -> None:
        """Wait for the answers that are under way, and leave out those that take longer."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=seconds)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=CANCEL_S)

    async def _later(self, request: Request, answer: Coroutine[None, None, Outcome]) -> None:
        found: Outcome
        try:
            if request.frame.code in self._in_any_case:
                found = await answer
            else:
                async with request.peer.turns:
                    await request.peer.writable()
                    found = None if request.peer.is_closed else await answer
        except Exception as error:
            found = self._told(request, error)
        finally:
            answer.close()  # one that was never begun, at the broker's end
            request.peer.ended()
        self.end(request, found)

    def count_unknown(self, what: int | str, address: str) -> None:
        """Count a request that nobody answers, by its code, or by its method of gRPC."""
        if what not in self.unsupported:
            if len(self.unsupported) >= COUNTED_MAX:
                return
            log.info("%s asks what is not supported here: request %a", address, what)
        self.unsupported[what] += 1

    def _is_news(self, line: str) -> bool:
        """Return whether the last line was another: a disk that is away gets one, not one a pull."""
        before, self._last_line = self._last_line, line
        return line != before

    def _told(self, request: Request, error: Exception) -> RemotingFrame:
        """Return the answer that an error becomes."""
        if isinstance(error, Refused):
            return request.answer(error.code, remark=error.remark)
        if isinstance(error, UsageError):
            return request.answer(INVALID_PARAMETER, remark=str(error))
        remark = self.described(f"request {request.frame.code} of {request.peer.address}", error)
        return request.answer(SYSTEM_ERROR, remark=remark)

    def described(self, what: str, error: Exception) -> str:
        """Return what a client gets to read of an error of ours, which is counted and logged."""
        self.failed += 1
        known = isinstance(error, (FlintError, OSError))
        if self._is_news(str(error)) or not known:
            log.error("%s: %s", what, error, exc_info=not known)
        if isinstance(error, OSError):
            return f"the broker's disk refused: {error.strerror or error}; mend that, then ask again"
        return str(error) if known else "an error of the broker; its log tells more"


def _guarded(guard: Callable[[Request], Request], handler: Handler, request: Request) -> Outcome:
    return handler(guard(request))


def _unknown(request: Request) -> Answer:
    return request.answer(NOT_SUPPORTED, remark=f" request type {request.frame.code} not supported")


def _send(request: Request, answer: Answer | EncodedAnswer) -> None:
    """Send an answer, unless the request wants none: of a oneway one not even a refusal."""
    if answer is None or request.frame.flag & ONE_WAY:
        return
    if isinstance(answer, EncodedAnswer):
        request.peer.send_encoded(*answer)
        return
    try:
        request.peer.send(answer)
    except UsageError as error:
        request.peer.send(request.answer(SYSTEM_ERROR, remark=f"the answer cannot be sent: {error}"))
