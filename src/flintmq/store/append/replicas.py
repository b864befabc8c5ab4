"""Declares how a put waits for replicas (SYNC_MASTER with inSyncReplicas above 1).

A store has none unless it listens for followers; the listener of `flintmq.ha` provides them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from flintmq.kernels.threads.handoff import Latch

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from flintmq.kernels.write.fast_append import LoopWaits
    from flintmq.message import PutResult


class ReplicaRequest:
    """A put of a thread that waits until enough replicas have its record.

    Attributes:
        end: log offset after its record.
        deadline: seconds of the monotonic clock.
        done: the answer, valid once the latch is open.
    """

    __slots__ = ("deadline", "done", "end", "latch")

    def __init__(self, end: int, deadline: float) -> None:
        self.end, self.deadline, self.done = end, deadline, False
        self.latch = Latch()


class Replicas(Protocol):
    """Answers puts once enough replicas have their records. Thread: any, for every method."""

    def exchange(self, end: int) -> bool:
        """Send the log below `end` in this thread, and wait for the acknowledgement.

        Returns:
            Whether it came. If not, or this is not possible now, a request must wait for it.
        """

    def request(self, end: int) -> ReplicaRequest:
        """Note that a put waits for the log below `end`; its time (slaveTimeout) begins now."""

    def wait(self, request: ReplicaRequest) -> bool:
        """Have its record sent, and wait for a request; return False if its time is up."""

    @property
    def loop_puts(self) -> LoopWaits | None:
        """The puts of the event loop that put last, for the fast way; None: there is none."""

    def future(
        self, result: PutResult, loop: asyncio.AbstractEventLoop, readable: Callable[[], None]
    ) -> asyncio.Future[PutResult]:
        """Return the future of a put of an event loop, which this thread runs.

        Its result is that of the put, with FLUSH_SLAVE_TIMEOUT if its time is up. The record is sent at the end of the
        loop's turn; `readable` is called before, so that the records of the turn may be sent; it is the same for all
        calls.
        """

    def wake(self) -> None:
        """Have what can be sent by now sent soon."""
