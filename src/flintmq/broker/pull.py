"""Pulls of consumers: a queue is read from an offset on.

At the end of the queue the request is held. It is then a coroutine that waits: for the queue to grow, for its time, for
its client's end, or for ours.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from flintmq.broker.clients import TAG, Clients
from flintmq.broker.requests import INT32, Answer, Handler, Peer, Refused, Request
from flintmq.broker.served import Offsets, Place, Served
from flintmq.message import GetMessageStatus, RawResult
from flintmq.remoting.names import (
    NO_PERMISSION,
    PULL,
    PULL_LITE,
    PULL_NOT_FOUND,
    PULL_OFFSET_MOVED,
    PULL_RETRY_IMMEDIATELY,
    SUBSCRIPTION_NOT_EXIST,
    SUBSCRIPTION_NOT_LATEST,
    SUCCESS,
    SYSTEM_ERROR,
    TOPIC_NOT_EXIST,
)

COMMITS, SUSPENDS, SUBSCRIBES = 1, 2, 4  # bits of sysFlag
BYTES_MAX: Final = 256 << 10  # of one answer, as of RocketMQ; a larger record goes alone
MESSAGES_MAX: Final = 1024
SUSPEND_MAX_MS: Final = 600_000
HELD_MAX: Final = 100_000  # pulls; more are answered at once

Status = GetMessageStatus
_CODES: Final = {
    Status.FOUND: SUCCESS,
    Status.NO_MATCHED_MESSAGE: PULL_RETRY_IMMEDIATELY,
    Status.MESSAGE_WAS_REMOVING: PULL_RETRY_IMMEDIATELY,
    Status.OFFSET_OVERFLOW_ONE: PULL_NOT_FOUND,
    Status.OFFSET_FOUND_NULL: PULL_NOT_FOUND,
}
"""Status of a read -> code of the answer; all else is PULL_OFFSET_MOVED: the client goes to `nextBeginOffset`."""


@dataclass(frozen=True, slots=True)
class PullRequest:
    topic: str
    queue_id: int
    offset: int
    most: int
    most_bytes: int
    tags: str | None


class Pulls:
    """Answers pulls, and holds those that have to wait. Thread: the loop's."""

    def __init__(self, served: Served, clients: Clients, offsets: Offsets) -> None:
        self._served, self._clients, self._offsets = served, clients, offsets
        self._held: dict[Place, dict[asyncio.Future[None], tuple[Peer, str, int]]] = {}
        self.held = 0
        self._is_stopping = False

    def handlers(self) -> dict[int, Handler]:
        return {PULL: self.pull, PULL_LITE: self.pull}

    async def pull(self, request: Request) -> Answer:
        group = request.text("consumerGroup")
        if not self._served.may_consume(group):
            raise Refused(NO_PERMISSION, f"subscription group no permission, {group}")
        self._clients.note(group)
        if not self._served.knows_group(group):
            await self._served.admit(group)
        wanted = self._wanted(request)
        flags = request.number("sysFlag", 0, INT32)
        if flags & COMMITS and (offset := request.number("commitOffset", -1)) >= 0:
            self._offsets.commit(group, wanted.topic, wanted.queue_id, offset)
        held_ms = request.number("suspendTimeoutMillis", 0) if flags & SUSPENDS else 0
        deadline = time.monotonic() + min(held_ms, SUSPEND_MAX_MS) / 1000
        place, offset = (wanted.topic, wanted.queue_id), wanted.offset
        while True:
            if (moved := self._offsets.moved(group, *place, offset)) is not None:
                return request.answer(PULL_OFFSET_MOVED, self._moved(place, moved), remark="OFFSET_RESET")
            news = self._served.news(place)
            found = await self._served.read(*place, offset, wanted.most, wanted.tags, wanted.most_bytes)
            left = deadline - time.monotonic()
            waits = _code(found, offset) == PULL_NOT_FOUND and left > 0
            if not waits or self._is_stopping or self.held >= HELD_MAX:
                return request.answer(
                    _code(found, offset),
                    _fields(found.next_begin_offset, found.min_offset, found.max_offset),
                    found.data,
                    found.status.name,
                )
            if news == self._served.news(place):  # else there may be news that this read did not see
                await self._wait(place, request.peer, group, offset, left)
            await request.peer.writable()
            if request.peer.is_closed:
                return None
            wanted = self._wanted(request)  # the topic may be gone, or closed

    def _wanted(self, request: Request) -> PullRequest:
        """Return what a pull asks for.

        Raises Refused: a topic, a queue or a subscription that it cannot be of.
        """
        topic, queue_id = request.text("topic"), request.number("queueId", bounds=INT32)
        facts = self._served.topic(topic)
        if facts is None:
            raise Refused(TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please!")
        if not facts.is_readable:
            raise Refused(NO_PERMISSION, f"the topic[{topic}] pulling message is forbidden")
        if not 0 <= queue_id < facts.read_queues:
            raise Refused(
                SYSTEM_ERROR,
                f"queueId[{queue_id}] is illegal, topic:[{topic}] topicConfig.readQueueNums:[{facts.read_queues}]",
            )
        most = min(max(request.number("maxMsgNums", 32, INT32), 1), MESSAGES_MAX)
        most_bytes = request.number("maxMsgBytes", BYTES_MAX)
        return PullRequest(
            topic, queue_id, request.number("queueOffset"), most,
            min(most_bytes, BYTES_MAX) if most_bytes > 0 else BYTES_MAX, self._tags(request, topic),
        )  # fmt: skip

    def _tags(self, request: Request, topic: str) -> str | None:
        """Return the tags that are wanted; None: all.

        They are the request's, or else those of the group's heartbeats. A client that subscribes to something else says
        so by a heartbeat. If that one is lost, it waits for the next, up to 30 s, as at RocketMQ's broker.
        """
        group, version = request.text("consumerGroup"), request.number("subVersion", 0)
        expression, kind = request.text("subscription", "*"), request.text("expressionType", TAG) or TAG
        if not request.number("sysFlag", 0, INT32) & SUBSCRIBES:
            known = self._clients.subscription(group, topic)
            if known is None:
                raise Refused(SUBSCRIPTION_NOT_EXIST, "the consumer's subscription not exist")
            if known.version < version:
                raise Refused(SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
            expression, kind = known.expression, known.kind
        if kind != TAG:
            raise Refused(SYSTEM_ERROR, f"The broker does not support consumer to filter message by {kind}")
        return None if expression.strip() in ("", "*") else expression

    def _moved(self, place: Place, offset: int) -> Mapping[str, str]:
        return _fields(offset, *self._served.bounds(*place))

    # -- waiting ------------------------------------------------------------------------------------------------------

    async def _wait(self, place: Place, peer: Peer, group: str, offset: int, seconds: float) -> None:
        """Wait until a queue may have grown beyond an offset, or the connection has ended."""
        waiting = asyncio.get_running_loop().create_future()
        self._held.setdefault(place, {})[waiting] = peer, group, offset
        self.held += 1
        peer.turns.release()
        try:
            async with asyncio.timeout(seconds):
                await waiting
        except TimeoutError:
            pass
        finally:
            self.held -= 1
            of_place = self._held[place]
            del of_place[waiting]
            if not of_place:
                del self._held[place]
            await peer.turns.acquire()

    def look(self, places: Iterable[Place] | None = None) -> None:
        """Wake the pulls of queues that end elsewhere now: they grew, or are others.

        Args:
            places: the queues that may; None: all.
        """
        for place in list(self._held) if places is None else places:
            if (of_place := self._held.get(place)) is not None:
                end = self._served.bounds(*place)[1]
                for waiting, (_, _, offset) in of_place.items():
                    if end != offset:
                        _wake(waiting)

    def recall(self, group: str, topic: str) -> None:
        """Wake the pulls of a group whose offsets of a topic were set."""
        for (of_topic, _), of_place in self._held.items():
            for waiting, (_, of_group, _) in of_place.items():
                if (of_topic, of_group) == (topic, group):
                    _wake(waiting)

    def left(self, peer: Peer) -> None:
        """Drop the pulls of a connection that has ended."""
        for of_place in self._held.values():
            for waiting, (of, _, _) in of_place.items():
                if of is peer:
                    _wake(waiting)

    def stop(self) -> None:
        """Answer all that are held: nothing came."""
        self._is_stopping = True
        for of_place in self._held.values():
            for waiting in of_place:
                _wake(waiting)


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


def _code(found: RawResult, offset: int) -> int:
    if found.status is Status.NO_MESSAGE_IN_QUEUE and offset == 0:
        return PULL_NOT_FOUND
    return _CODES.get(found.status, PULL_OFFSET_MOVED)


def _fields(following: int, low: int, high: int) -> Mapping[str, str]:
    return {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": str(following),
        "minOffset": str(low),
        "maxOffset": str(high),
        "topicSysFlag": "0",
        "groupSysFlag": "0",
    }
