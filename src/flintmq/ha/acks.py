"""Answers puts once enough replicas have acknowledged their records (SYNC_MASTER).

A replica counts for a put if it acknowledged a log offset at or after the end of the put's record. So one number says
which puts are answered: the offset that the required number of replicas have, `reached`. Each acknowledgement computes
it anew and answers exactly the puts below it; no put waits for another one's replica, as they do upstream
(GroupTransferService), where one slow acknowledgement delays all puts after it.

Acknowledgements are kept by line and forgotten at its end. Several lines of one host count once, because they are
mostly one machine, which one power cut takes; `by_host=False` counts each, as upstream.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from operator import attrgetter
from typing import Final, cast

from flintmq.kernels.threads.handoff import INTERRUPTED, Signal
from flintmq.kernels.threads.loop_puts import ReplicaPuts
from flintmq.kernels.threads.replica_lane import ReplicaLane
from flintmq.message import PutMessageStatus, PutResult
from flintmq.storage.threads.mutex import Lock
from flintmq.store.append.replicas import ReplicaRequest

LATE: Final = PutMessageStatus.FLUSH_SLAVE_TIMEOUT
EXCHANGE_S: Final = 0.002
"""Seconds that a put keeps a line at most: others may have records to send meanwhile."""
_END = attrgetter("end")


class AckedPuts:
    """Puts of one event loop that wait for replicas; their ends increase.

    The form of `kernels.threads.loop_puts.ReplicaPuts` for uncompiled kernels.

    `send`: called at the end of a turn of the loop, so that the records of all its puts go in one frame; returns the
    log offset that enough replicas have by now.

    Thread: the loop's.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, late: PutMessageStatus, timeout_s: float, send: Callable[[], int]
    ) -> None:
        self.loop, self._late, self._timeout_s, self._send = loop, late, timeout_s, send
        self._puts: deque[tuple[int, float, asyncio.Future[PutResult], PutResult]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._is_armed = False

    def __bool__(self) -> bool:
        return bool(self._puts)

    def add(self, result: PutResult) -> asyncio.Future[PutResult]:
        future: asyncio.Future[PutResult] = self.loop.create_future()
        deadline = self.loop.time() + self._timeout_s
        self._puts.append((result.physical_offset + result.size, deadline, future, result))
        if self._timer is None:
            self._timer = self.loop.call_at(deadline, self.expire)
        if not self._is_armed:
            self._is_armed = True
            self.loop.call_soon(self._hand_in)
        return future

    def _hand_in(self) -> None:
        self._is_armed = False
        self.complete(self._send())

    def complete(self, reached: int) -> None:
        while self._puts and self._puts[0][0] <= reached:
            _, _, future, result = self._puts.popleft()
            if not future.done():  # cancelled
                future.set_result(result)

    def expire(self) -> None:
        """Answer the puts whose time is up: it is not known that replicas have them."""
        now = self.loop.time()
        while self._puts and self._puts[0][1] <= now:
            self._refuse()
        # Only here: a timer for each put that becomes the first would cost more than the put.
        self._timer = self.loop.call_at(self._puts[0][1], self.expire) if self._puts else None

    def refuse_all(self) -> None:
        """Answer all puts: no replica will have them."""
        while self._puts:
            self._refuse()

    def _refuse(self) -> None:
        _, _, future, result = self._puts.popleft()
        if not future.done():
            future.set_result(result.with_status(self._late))


class AckTable:
    """The acknowledgements of all lines, and the puts that wait for them.

    Thread: any.

    Args:
        needed: number of replicas that must have a record, the store itself not counted; at least 1.
        by_host: several lines of one host count once.
        wake: called for each put that waits, or once for those of a turn of a loop, so that they are sent soon.

    Attributes:
        reached: log offset below which the required number of replicas have the log; -1: there are not so many.
        lane: for threads that put, if they may use the line of the one replica themselves.
        loop_puts: of the event loop that put last, for the fast way of `put_async`; None where nothing is compiled.
    """

    def __init__(
        self,
        needed: int,
        timeout_s: float,
        *,
        by_host: bool = True,
        wake: Callable[[], None] = lambda: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        assert needed >= 1
        self.needed, self.timeout_s, self.by_host, self.wake, self.monotonic = (
            needed, timeout_s, by_host, wake, monotonic
        )  # fmt: skip
        self.reached = -1
        self.lane: ReplicaLane | None = None
        self._lock = Lock()
        self._opener = Signal()
        self._acks: dict[Hashable, tuple[str, int]] = {}
        self._waiting: list[ReplicaRequest] = []  # by their ends
        self._loops: dict[asyncio.AbstractEventLoop, AckedPuts | ReplicaPuts] = {}
        self.loop_puts: ReplicaPuts | None = None
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._waiting)

    # -- puts -------------------------------------------------------------------------------------------------------

    def exchange(self, end: int) -> bool:
        """Send a record to the one replica in this thread, and wait for its acknowledgement.

        Returns:
            Whether it was acknowledged. If not, a request must wait for it.
        """
        lane = self.lane
        return lane is not None and lane.exchange(end, min(EXCHANGE_S, self.timeout_s))

    def request(self, end: int) -> ReplicaRequest:
        """Note that a put waits until replicas have the log below `end`; its time begins now."""
        request = ReplicaRequest(end, self.monotonic() + self.timeout_s)
        with self._lock:
            # Compared under the lock: an acknowledgement that came before is not missed, and one that comes finds the
            # request.
            if self._is_closed or end <= self.reached:
                request.done = not self._is_closed
                request.latch.open()
            else:
                insort(self._waiting, request, key=_END)
        return request

    def wait(self, request: ReplicaRequest) -> bool:
        """Have a request's record sent, and wait for its answer; False if its time is up."""
        try:
            self.wake()
            left = request.deadline - self.monotonic()
            while not request.latch.is_open and self._opener.set_and_wait(request.latch, left) == INTERRUPTED:
                left = request.deadline - self.monotonic()
        finally:  # also if a signal handler raised
            if not request.latch.is_open:
                self._forget(request)
        return request.done

    def _forget(self, request: ReplicaRequest) -> None:
        with self._lock:
            self._drop(request)

    def _drop(self, request: ReplicaRequest) -> None:
        """Do what `_forget` says. The caller has the lock."""
        at = bisect_right(self._waiting, request.end, key=_END)
        while at and self._waiting[at - 1].end == request.end:
            at -= 1
            if self._waiting[at] is request:
                del self._waiting[at]
                return

    def future(
        self, result: PutResult, loop: asyncio.AbstractEventLoop, readable: Callable[[], None]
    ) -> asyncio.Future[PutResult]:
        with self._lock:
            puts = self._loops.get(loop)
            if puts is None:  # one without puts that wait is false
                puts = self._watch(loop, readable)
            is_closed = self._is_closed
        future = puts.add(result)
        if is_closed:
            puts.refuse_all()
        elif isinstance(puts, ReplicaPuts):
            self.loop_puts = puts
        return cast("asyncio.Future[PutResult]", future)

    def _watch(self, loop: asyncio.AbstractEventLoop, readable: Callable[[], None]) -> AckedPuts | ReplicaPuts:
        def send() -> int:
            # The files have the records before the listener is woken to send them.
            readable()
            self.wake()
            with self._lock:
                return self.reached

        puts: AckedPuts | ReplicaPuts
        try:
            puts = ReplicaPuts(loop, asyncio._get_running_loop, LATE, self.timeout_s, send)
        except NotImplementedError:
            puts = AckedPuts(loop, LATE, self.timeout_s, send)
        self._loops = {one: kept for one, kept in self._loops.items() if not one.is_closed()}
        self._loops[loop] = puts
        return puts

    # -- lines ------------------------------------------------------------------------------------------------------

    def acknowledged(self, line: Hashable, host: str, offset: int) -> None:
        """Note that a follower has the log below an offset; answer the puts that this covers."""
        with self._lock:
            self._acks[line] = host, offset
            self.reached = self._reached()
            covered = bisect_right(self._waiting, self.reached, key=_END)
            taken, self._waiting = self._waiting[:covered], self._waiting[covered:]
            for request in taken:
                request.done = True
            self._complete()
        # Woken without the lock, which a woken thread may want at once.
        if taken:
            self._opener.set()
            self._opener.wait(0, [request.latch for request in taken])

    def _complete(self) -> None:
        """Have the event loops answer the puts below `reached`. The caller has the lock."""
        for puts in self._loops.values():
            if puts:
                _have(puts, puts.complete, self.reached)

    def gone(self, line: Hashable) -> None:
        with self._lock:
            if self._acks.pop(line, None) is not None:
                self.reached = self._reached()

    def _reached(self) -> int:
        if not self.by_host:
            offsets = [offset for _, offset in self._acks.values()]
        else:
            # Two lines of one host are one replica: both may be lost with its disk.
            hosts: dict[str, int] = {}
            for host, offset in self._acks.values():
                hosts[host] = max(offset, hosts.get(host, -1))
            offsets = list(hosts.values())
        offsets.sort(reverse=True)
        return offsets[self.needed - 1] if len(offsets) >= self.needed else -1

    def close(self) -> None:
        """Answer all puts, and each later one, that no replica has its record."""
        with self._lock:
            # From here on `request` answers by itself, so no put begins to wait after the list is taken.
            self._is_closed = True
            taken, self._waiting = self._waiting, []
            loops = list(self._loops.values())
        for request in taken:
            request.latch.open()
        for puts in loops:
            _have(puts, puts.refuse_all)


def _have(puts: AckedPuts | ReplicaPuts, answer: Callable[..., None], *args: int) -> None:
    """Have the loop of these puts call a method of theirs. Thread: any."""
    with suppress(RuntimeError):  # the loop is closed, and no put waits any more
        puts.loop.call_soon_threadsafe(answer, *args)
