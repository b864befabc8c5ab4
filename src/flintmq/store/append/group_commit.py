"""Group commit: one flush answers all puts that wait for the disk.

There are two lists: one takes new requests while the flush for the other runs, then they are swapped. One flush answers
every put that was appended before it began. A thread waits on its own latch; puts of an event loop are collected and
answered by one call into the loop. Upstream: GroupCommitService, FlushDiskWatcher.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flintmq.kernels.handoff import Latch
from flintmq.storage.mutex import Lock

if TYPE_CHECKING:
    import asyncio

    from flintmq.store.append.async_puts import AsyncGroup


class GroupCommitRequest:
    """A request of a thread that waits until the log is durable up to `end`.

    Attributes:
        end: log offset.
        flushed: the answer, valid once the latch is open.
    """

    __slots__ = ("end", "flushed", "latch")

    def __init__(self, end: int) -> None:
        self.end, self.flushed = end, False
        self.latch = Latch()


class WaitingPuts:
    """Requests that one flush answers.

    Attributes:
        requests: of threads.
        loops: of event loops, grouped by loop.
    """

    def __init__(self) -> None:
        self.requests: list[GroupCommitRequest] = []
        self.loops: dict[asyncio.AbstractEventLoop, AsyncGroup] = {}

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
    """The list that takes new requests.

    Thread: any.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._group = WaitingPuts()

    def __len__(self) -> int:
        return len(self._group)

    def add(self, end: int) -> GroupCommitRequest:
        """Add the request of a thread that will wait."""
        request = GroupCommitRequest(end)
        with self._lock:
            self._group.requests.append(request)
        return request

    def add_async(
        self, end: int, result: Any, loop: asyncio.AbstractEventLoop, new: Callable[..., AsyncGroup], flush: Any
    ) -> tuple[Any, bool]:
        """Add a put of an event loop that will wait. Called in the loop's thread.

        Returns:
            Its future, and whether it is the first of a group of its loop (made by `new(loop, flush)`): then the flush
            must be requested.
        """
        future, now = loop.create_future(), loop.time()
        with self._lock:
            group = self._group.loops.get(loop)
            first = group is None
            if group is None:
                group = self._group.loops[loop] = new(loop, flush)
            group.puts.append((end, future, result, now))
        return future, first

    def take(self) -> WaitingPuts:
        """Take all requests so far; later ones go to the next group."""
        with self._lock:
            # Before the flush reads the log's end: what is added later may be of a record that this flush does not
            # cover.
            group, self._group = self._group, WaitingPuts()
        return group
