"""Group commit: one flush answers all puts that wait for the disk.

There are two lists: one takes new requests while the flush for the other runs, then they are swapped. One flush answers
every put that was appended before it began. A thread waits on its own latch; puts of an event loop are collected and
answered by one call into the loop. Upstream: GroupCommitService, FlushDiskWatcher.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from flintmq.kernels.threads.handoff import Latch
from flintmq.message import PutMessageStatus, PutResult
from flintmq.storage.threads.mutex import Lock
from flintmq.store.append.stats import WaitTimes

if TYPE_CHECKING:  # only for who puts from an event loop
    import asyncio


def unflushed(result: PutResult) -> PutResult:
    """Return the result of a put that is stored and not known to be on disk."""
    return result.with_status(PutMessageStatus.FLUSH_DISK_TIMEOUT)


class GroupCommitRequest:
    """A request of a thread that waits until the log is durable up to `end`.

    `flushed`: the answer, valid once the latch is open.
    """

    __slots__ = ("end", "flushed", "latch")

    def __init__(self, end: int) -> None:
        self.end, self.flushed = end, False
        self.latch = Latch()


class AsyncGroup:
    """Puts of one event loop that one flush answers.

    `puts`: end of the record, future, result once durable, start of the wait; oldest first. Thread: the loop's.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, timeout_s: float, times: WaitTimes) -> None:
        self.loop, self.timeout_s, self.times = loop, timeout_s, times
        self.puts: deque[tuple[int, asyncio.Future[PutResult], PutResult, float]] = deque()
        self._timer = loop.call_later(timeout_s, self.expire)

    def complete(self, durable: int) -> None:
        """Answer all puts: the log is durable up to this offset, or it is not known (-1)."""
        self._timer.cancel()
        now = self.loop.time()
        self.times.add_all([now - since for _, _, _, since in self.puts])
        for end, future, result, _ in self.puts:
            if not future.done():  # cancelled
                future.set_result(result if end <= durable else unflushed(result))
        self.puts.clear()

    def expire(self) -> None:
        """Answer the puts that have waited too long, and set the timer for the others."""
        now = self.loop.time()
        while self.puts and self.puts[0][3] + self.timeout_s <= now:
            _, future, result, since = self.puts.popleft()
            self.times.add(now - since)
            if not future.done():
                future.set_result(unflushed(result))
        if self.puts:
            self._timer = self.loop.call_at(self.puts[0][3] + self.timeout_s, self.expire)


class WaitingPuts:
    def __init__(self) -> None:
        self.requests: list[GroupCommitRequest] = []  # of threads
        self.loops: dict[asyncio.AbstractEventLoop, AsyncGroup] = {}  # of event loops, grouped by loop

    def __bool__(self) -> bool:
        return bool(self.requests or self.loops)

    def __len__(self) -> int:
        return len(self.requests) + sum(len(group.puts) for group in self.loops.values())

    def answer(self, durable: int) -> list[Latch]:
        """Answer all requests: the log is durable up to `durable`, -1 if it is not known.

        Returns:
            The latches of the threads, to be opened.
        """
        # All answers before any latch opens: a thread that is woken reads its answer at once.
        for request in self.requests:
            request.flushed = request.end <= durable
        for loop, group in self.loops.items():
            try:
                loop.call_soon_threadsafe(group.complete, durable)
            except RuntimeError:  # the loop is closed, and no put waits any more
                continue
        return [request.latch for request in self.requests]


class Waiters:
    """The list that takes new requests. Thread: any.

    `timeout_s`: how long a put of an event loop waits (syncFlushTimeout); a thread sees to it itself.
    """

    def __init__(self, timeout_s: float, times: WaitTimes) -> None:
        self._timeout_s, self._times = timeout_s, times
        self._lock = Lock()
        self._group = WaitingPuts()

    def __len__(self) -> int:
        return len(self._group)

    def add(self, end: int) -> GroupCommitRequest:
        request = GroupCommitRequest(end)
        with self._lock:
            self._group.requests.append(request)
        return request

    def add_async(
        self, end: int, result: PutResult, loop: asyncio.AbstractEventLoop
    ) -> tuple[asyncio.Future[PutResult], bool]:
        """Add a put of an event loop that will wait. Called in the loop's thread.

        Returns:
            Its future, and whether it is the first of a group of its loop: then the flush must be requested.
        """
        future, now = loop.create_future(), loop.time()
        with self._lock:
            group = self._group.loops.get(loop)
            first = group is None
            if group is None:
                group = self._group.loops[loop] = AsyncGroup(loop, self._timeout_s, self._times)
            group.puts.append((end, future, result, now))
        return future, first

    def take(self) -> WaitingPuts:
        """Take all requests so far; later ones go to the next group."""
        with self._lock:
            # Before the flush reads the log's end: what is added later may be of a record that this flush does not
            # cover.
            group, self._group = self._group, WaitingPuts()
        return group
