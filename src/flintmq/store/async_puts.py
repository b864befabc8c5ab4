"""Puts that an event loop waits for: appended at once, answered by group commit, one call into the loop a group."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple

from flintmq.message import PutResult
from flintmq.store.flush import FlushService, unflushed
from flintmq.store.stats import Times


class AsyncPut(NamedTuple):
    """A put that waits: the end of its record, what it is told when that is durable, and since when it waits."""

    end: int
    future: asyncio.Future[PutResult]
    result: PutResult
    since: float


class AsyncGroup:
    """Puts of one loop that the same flush answers.

    Attributes:
        puts: oldest first.

    Thread: the loop's.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, timeout: float, times: Times) -> None:
        self.loop, self.timeout, self.times = loop, timeout, times
        self.puts: deque[AsyncPut] = deque()
        self._timer = loop.call_later(timeout, self.expire)

    def add(self, end: int, result: PutResult) -> asyncio.Future[PutResult]:
        """One more put; its answer."""
        future: asyncio.Future[PutResult] = self.loop.create_future()
        self.puts.append(AsyncPut(end, future, result, self.loop.time()))
        return future

    def complete(self, durable: int) -> None:
        """The log is durable up to this offset, or nobody can tell (-1)."""
        self._timer.cancel()
        now = self.loop.time()
        for put in self.puts:
            self.times.add(now - put.since)
            if not put.future.done():  # cancelled
                put.future.set_result(put.result if put.end <= durable else unflushed(put.result))
        self.puts.clear()

    def expire(self) -> None:
        """The flush takes too long: answer those who waited long enough, and come again for the others."""
        now = self.loop.time()
        while self.puts and self.puts[0].since + self.timeout <= now:
            put = self.puts.popleft()
            self.times.add(now - put.since)
            if not put.future.done():
                put.future.set_result(unflushed(put.result))
        if self.puts:
            self._timer = self.loop.call_at(self.puts[0].since + self.timeout, self.expire)


def running_loop() -> asyncio.AbstractEventLoop:
    """The event loop of this thread.

    Raises:
        RuntimeError: none runs here.
    """
    return asyncio.get_running_loop()


def flushed_future(
    flush: FlushService, end: int, result: PutResult, loop: asyncio.AbstractEventLoop
) -> asyncio.Future[PutResult]:
    """The answer to a put whose record ends at this log offset: `result` once it is durable."""
    waiting: asyncio.Future[PutResult] = flush.waiters.add_async(
        end, result, loop, lambda: AsyncGroup(loop, flush.timeout_s, flush.times)
    )
    flush.requested()
    return waiting


def answered(result: PutResult, loop: asyncio.AbstractEventLoop) -> asyncio.Future[PutResult]:
    """The answer to a put that waits for nothing."""
    future: asyncio.Future[PutResult] = loop.create_future()
    future.set_result(result)
    return future
