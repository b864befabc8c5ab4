"""Pulls of consumers: a queue is read from an offset on.

A kernel reads a plain pull, the general codec any other; both become a PullRequest, and from there on there is one way.
What is in memory is read in the loop, and answered at once. At the end of the queue the pull is held: for the queue to
grow, for its time, for its client's end, or for ours. A held pull is an object with a timer, and no task.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from flintmq.broker.clients import Clients
from flintmq.broker.filters import Filters
from flintmq.broker.held import Held
from flintmq.broker.recent import Got
from flintmq.broker.requests import (
    ALONE_MIN,
    INT32,
    INT64,
    EncodedAnswer,
    Handler,
    HeldAnswer,
    Outcome,
    Peer,
    PlainTaker,
    Refused,
    Request,
)
from flintmq.broker.served import Filter, Offsets, Place, Served, TopicFacts
from flintmq.format.group_topics import OF_GROUPS
from flintmq.kernels import compiled
from flintmq.kernels.write import pull_frame
from flintmq.message import GetMessageStatus, RawResult
from flintmq.remoting.frames import ONE_WAY, VERSION, RemotingFrame
from flintmq.remoting.names import (
    FILTER_DATA_NOT_EXIST,
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
from flintmq.remoting.pulls import BYTES_MAX, FIELDS, TAG, answer_pieces, pull_answer

COMMITS, SUSPENDS, SUBSCRIBES = 1, 2, 4  # bits of sysFlag
MESSAGES_MAX: Final = 1024
SUSPEND_MAX_MS: Final = 600_000
_DEFAULTS: Final = tuple(FIELDS.values())
_NO_FILTER: Final = "The broker's consumer filter data is not exist!Your expression may be wrong!"

Status = GetMessageStatus
_CODES: Final = {
    Status.FOUND: SUCCESS,
    Status.NO_MATCHED_MESSAGE: PULL_RETRY_IMMEDIATELY,
    Status.MESSAGE_WAS_REMOVING: PULL_RETRY_IMMEDIATELY,
    Status.OFFSET_OVERFLOW_ONE: PULL_NOT_FOUND,
    Status.OFFSET_FOUND_NULL: PULL_NOT_FOUND,
}
"""Status of a read -> code of the answer; all else is PULL_OFFSET_MOVED: the client goes to `nextBeginOffset`."""


class PullRequest(NamedTuple):
    """The fields of a pull, in the order of the kernel."""

    code: int
    opaque: int
    flag: int
    group: str
    topic: str
    queue_id: int
    offset: int
    most: int
    sys_flag: int
    commit_offset: int
    suspend_ms: int
    subscription: str
    version: int  # of the subscription
    expression_type: str
    most_bytes: int

    @classmethod
    def of(cls, request: Request) -> PullRequest:
        """Read all fields, as upstream does, before anything is done.

        Raises Refused: a field is missing, or no number.
        """

        def text(name: str) -> str:
            return request.text(name, FIELDS[name])

        def number(name: str, bounds: tuple[int, int] = INT64) -> int:
            return request.number(name, FIELDS[name], bounds)

        frame = request.frame
        return cls(
            frame.code, frame.opaque, frame.flag, text("consumerGroup"), text("topic"), number("queueId", INT32),
            number("queueOffset"), number("maxMsgNums", INT32), number("sysFlag", INT32), number("commitOffset"),
            number("suspendTimeoutMillis"), text("subscription"), number("subVersion"), text("expressionType"),
            number("maxMsgBytes"),
        )  # fmt: skip


class HeldPull(HeldAnswer):
    """A pull that is not answered yet.

    Attributes:
        asked, peer: what it asks for, and who does.
        deadline: until when it may be held, by time.monotonic.
        is_new: nothing is done for it yet.
        again: goes on with it, when it was held.
    """

    __slots__ = ("again", "asked", "deadline", "is_new", "peer", "place")

    def __init__(self, asked: PullRequest, peer: Peer, again: Callable[[HeldPull], Outcome]) -> None:
        self.asked, self.peer, self.again, self.is_new = asked, peer, again, True
        self.place: Place = asked.topic, asked.queue_id
        held_ms = asked.suspend_ms if asked.sys_flag & SUSPENDS else 0
        self.deadline = time.monotonic() + min(held_ms, SUSPEND_MAX_MS) / 1000

    @property
    def ends(self) -> Mapping[Place, int]:
        return {self.place: self.asked.offset}

    @property
    def shares(self) -> bool:
        return False

    @property
    def group(self) -> str:
        return self.asked.group

    def woken(self) -> None:
        self.resume(lambda request: self.again(self))


class Pulls:
    """Answers pulls, and has those held that have to wait. Thread: the loop's.

    Args:
        got: counts the messages that a group gets.
    """

    def __init__(
        self,
        served: Served,
        clients: Clients,
        offsets: Offsets,
        held: Held,
        got: Got,
        filters: Filters,
    ) -> None:
        self._served, self._clients, self._offsets, self._held, self._got = served, clients, offsets, held, got
        self._filters = filters
        self._pieces: dict[tuple[int, str], tuple[bytes, ...]] = {}  # code and remark -> the header of such an answer
        self._is_compiled = compiled()

    def handlers(self) -> dict[int, Handler]:
        return {PULL: self.pull, PULL_LITE: self.pull}

    def pull(self, request: Request) -> Outcome:
        return self._begin(HeldPull(PullRequest.of(request), request.peer, self._again))

    def plain(self, end: Callable[[Request, Outcome], None]) -> list[PlainTaker]:
        """Return what answers plain pulls without a frame made of them, if anything does.

        `end`: sends what is not there at once.
        """
        return [partial(self._take_plain, end)] if self._is_compiled else []

    def _take_plain(self, end: Callable[[Request, Outcome], None], data: memoryview, at: int, peer: Peer) -> int | None:
        """Answer or hold the plain pull that begins at data[at]; return where its frame ends.

        None: it is not plain, or is to be refused, which `pull` does.
        """
        found = pull_frame.read(data, at, _DEFAULTS)
        if found is None:
            return None
        asked = PullRequest(*found[1])
        try:
            outcome = self._begin(HeldPull(asked, peer, self._again))
        except Exception:  # whatever it is: asked again, it gets its words
            return None
        if isinstance(outcome, EncodedAnswer) and not asked.flag & ONE_WAY:
            peer.send_encoded(*outcome)
        else:
            end(Request(RemotingFrame(asked.code, asked.opaque, asked.flag), peer, VERSION), outcome)
        return found[0]

    # -- reads --------------------------------------------------------------------------------------------------------

    def _begin(self, pull: HeldPull) -> Outcome:
        group = pull.asked.group
        may_consume = self._served.may_consume(group)
        if may_consume is False:
            raise Refused(NO_PERMISSION, f"subscription group no permission, {group}")
        if may_consume is None:
            return self._admitted(pull)
        self._clients.note(group)
        return self._step(pull)

    async def _admitted(self, pull: HeldPull) -> Outcome:
        await self._served.admit(pull.asked.group)
        self._clients.note(pull.asked.group)
        return self._step(pull)

    def _step(self, pull: HeldPull) -> Outcome:
        """Read for a pull: its answer, or it is held, or what reads in another thread.

        Raises Refused: a topic, a queue or a subscription that it cannot be of. One that was held comes here again, and
        its topic may be gone, or closed.
        """
        asked, place = pull.asked, pull.place
        self._check(asked)
        only = self._filter(asked)
        if pull.is_new and asked.sys_flag & COMMITS and asked.commit_offset >= 0:
            self._offsets.commit(asked.group, *place, asked.commit_offset, pull.peer)
        is_new, pull.is_new = pull.is_new, False
        moved = self._offsets.moved(asked.group, *place, asked.offset, pull.peer, is_new=is_new)
        if moved is not None:
            return self._answer(asked, PULL_OFFSET_MOVED, "OFFSET_RESET", moved, *self._served.bounds(*place), b"")
        most = min(max(asked.most, 1), MESSAGES_MAX)
        most_bytes = min(asked.most_bytes, BYTES_MAX) if asked.most_bytes > 0 else BYTES_MAX
        news = self._served.news(place)
        found = self._served.read_now(*place, asked.offset, most, only, most_bytes)
        return self._read(pull, most, only, most_bytes, news) if found is None else self._judged(pull, found, news)

    async def _read(self, pull: HeldPull, most: int, only: Filter, most_bytes: int, news: int) -> Outcome:
        found = await self._served.read(*pull.place, pull.asked.offset, most, only, most_bytes)
        return self._judged(pull, found, news)

    def _judged(self, pull: HeldPull, found: RawResult, news: int) -> Outcome:
        """Return the answer, or hold the pull. `news`: the number as of before it was read."""
        asked = pull.asked
        code = _code(found, asked.offset)
        held = self._held
        if code == PULL_NOT_FOUND and not held.is_stopping and not held.is_full and not pull.peer.is_closed:
            left = pull.deadline - time.monotonic()
            if left > 0:
                held.hold(pull, left)
                if news != self._served.news(pull.place):  # there may be some that this read did not see
                    asyncio.get_running_loop().call_soon(held.wake, pull)
                return pull
        if found.count:
            size = 0 if asked.topic.startswith(OF_GROUPS) else len(found.data)  # as DefaultPullMessageResultHandler
            self._got.add(asked.topic, asked.group, found.count, size)
        return self._answer(
            asked, code, found.status.name, found.next_begin_offset, found.min_offset, found.max_offset, found.data
        )

    def _answer(
        self, asked: PullRequest, code: int, remark: str, following: int, low: int, high: int, data: bytes
    ) -> Outcome:
        if self._is_compiled:
            pieces = self._pieces.get((code, remark))
            if pieces is None:
                pieces = self._pieces[code, remark] = answer_pieces(VERSION, code, remark)
            is_large = len(data) >= ALONE_MIN
            begin, rest = (b"", data) if is_large else (data, b"")
            head = pull_frame.answer(pieces, asked.opaque, following, low, high, begin, len(rest))
            if head is not None:
                return EncodedAnswer(head, rest)
        return pull_answer(asked.opaque, VERSION, code, remark, following, low, high, data)

    def _check(self, asked: PullRequest) -> None:
        """Raise Refused for a topic or a queue that may not be read."""
        topic, queue_id = asked.topic, asked.queue_id
        facts = readable_topic(self._served, topic)
        if not 0 <= queue_id < facts.read_queues:
            raise Refused(
                SYSTEM_ERROR,
                f"queueId[{queue_id}] is illegal, topic:[{topic}] topicConfig.readQueueNums:[{facts.read_queues}]",
            )

    def _filter(self, asked: PullRequest) -> Filter:
        """Return what is wanted.

        It is what the request says, or else the group's heartbeats. A client that subscribes to something else says so
        by a heartbeat. If that one is lost, it waits for the next, up to 30 s, as at RocketMQ's broker.
        """
        if asked.sys_flag & SUBSCRIBES:
            return self._filters.of(asked.subscription, asked.expression_type or TAG)
        known = self._clients.subscription(asked.group, asked.topic)
        if known is None:
            raise Refused(SUBSCRIPTION_NOT_EXIST, "the consumer's subscription not exist")
        if known.version < asked.version:
            raise Refused(SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
        return self._filters.of(known.expression, known.kind or TAG, FILTER_DATA_NOT_EXIST, _NO_FILTER)

    def _again(self, pull: HeldPull) -> Outcome:
        if pull.peer.is_closed:
            return None
        return self._step(pull) if pull.peer.is_writable else self._when_writable(pull)

    async def _when_writable(self, pull: HeldPull) -> Outcome:
        """Go on when it is this coroutine's turn, for which its connection must be writable."""
        return self._step(pull)


def readable_topic(served: Served, topic: str) -> TopicFacts:
    """Return facts of a topic.

    Raises Refused: it is not there, or not to be read.
    """
    facts = served.topic(topic)
    if facts is None:
        raise Refused(TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please!")
    if not facts.is_readable:
        raise Refused(NO_PERMISSION, f"the topic[{topic}] pulling message is forbidden")
    return facts


def _code(found: RawResult, offset: int) -> int:
    if found.status is Status.NO_MESSAGE_IN_QUEUE and offset == 0:
        return PULL_NOT_FOUND
    return _CODES.get(found.status, PULL_OFFSET_MOVED)
