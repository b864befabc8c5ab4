"""Puts that an event loop waits for: appended at once, answered by group commit.

One call into the loop answers a whole group.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, cast

from flintmq.kernels.loop_puts import LoopPuts
from flintmq.message import PutMessageStatus, PutResult
from flintmq.store.append.flush import FlushService, unflushed
from flintmq.store.append.replicas import Replicas
from flintmq.store.append.stats import WaitTimes

if TYPE_CHECKING:
    from flintmq.store.append.service import PutService

# A waiting put: end of its record, its future, its result once durable, start of the wait.
AsyncPut = tuple[int, "asyncio.Future[PutResult]", PutResult, float]


class AsyncGroup:
    """Puts of one loop that one flush answers.

    Attributes:
        puts: oldest first.

    Thread: the loop's.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, timeout: float, times: WaitTimes) -> None:
        self.loop, self.timeout, self.times = loop, timeout, times
        self.puts: deque[AsyncPut] = deque()
        self._timer = loop.call_later(timeout, self.expire)

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
        while self.puts and self.puts[0][3] + self.timeout <= now:
            _, future, result, since = self.puts.popleft()
            self.times.add(now - since)
            if not future.done():
                future.set_result(unflushed(result))
        if self.puts:
            self._timer = self.loop.call_at(self.puts[0][3] + self.timeout, self.expire)


def _group(loop: asyncio.AbstractEventLoop, flush: FlushService) -> AsyncGroup:
    return AsyncGroup(loop, flush.timeout_s, flush.times)


running_loop = asyncio.get_running_loop


def loop_puts(flush: FlushService, loop: asyncio.AbstractEventLoop) -> LoopPuts | None:
    """Return the puts of this loop for the native flusher.

    None if the loop watches no descriptors, or none is left: then a thread waits for its groups.
    """
    for puts in flush.loops:
        if puts.loop is loop:
            return puts
    assert flush.flusher is not None
    try:
        puts = LoopPuts(
            flush.flusher, loop, asyncio._get_running_loop, PutMessageStatus.FLUSH_DISK_TIMEOUT, flush.timeout_s
        )
    except (NotImplementedError, OSError):
        return None
    with flush.loops_lock:  # else two threads with a loop each could each forget the other's
        flush.loops = [*(one for one in flush.loops if not one.loop.is_closed()), puts]
    return puts


def flushed_future(
    flush: FlushService, end: int, result: PutResult, loop: asyncio.AbstractEventLoop
) -> asyncio.Future[PutResult]:
    """Return the future of a put whose record ends at this offset: `result` once durable."""
    native = flush.flusher is not None and not flush.flusher.has_ended
    if native and (puts := loop_puts(flush, loop)) is not None:
        return cast("asyncio.Future[PutResult]", puts.add(result))
    waiting, first = flush.waiters.add_async(end, result, loop, _group, flush)
    if first and native:
        loop.run_in_executor(None, flush.commit_group)
    elif first:
        flush.requested()
    return cast("asyncio.Future[PutResult]", waiting)


def replicated(
    puts: PutService, replicas: Replicas, result: PutResult, loop: asyncio.AbstractEventLoop
) -> asyncio.Future[PutResult]:
    """Begin the waits of a put for replicas and the disk; return the future of both.

    It waits for the disk under SYNC_FLUSH only. The status of the replicas hides that of the disk.
    """
    acknowledged = replicas.future(result, loop, puts.make_readable)
    if not puts.flush.sync:
        return acknowledged
    flushed = flushed_future(puts.flush, result.physical_offset + result.size, result, loop)

    async def settled() -> PutResult:
        final = await flushed
        replicas.wake()  # what is sent only once it is durable may be so by now
        done = await acknowledged
        return final if done is result else done

    return loop.create_task(settled())


def answered(result: PutResult, loop: asyncio.AbstractEventLoop) -> asyncio.Future[PutResult]:
    """Return the finished future of a put that waits for nothing."""
    future: asyncio.Future[PutResult] = loop.create_future()
    future.set_result(result)
    return future
