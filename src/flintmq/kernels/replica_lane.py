# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Sends a frame to a follower and waits for its report, in the thread of the put, in one call without the GIL.

The listener's thread lends the lane a line that is idle: everything was sent and acknowledged. A thread that puts sends
its record by itself then, which saves the wake-ups of two threads (experiments/2026-11-25-replica-wait.md).
"""

from collections import namedtuple

import cython

if not cython.compiled:
    fmq_native = None

LaneFacts = namedtuple("LaneFacts", "next sent report head_left wrote received error raw")


def native() -> bool:
    """Return whether a lane can be made: compiled, and on Linux."""
    return bool(cython.compiled and fmq_native())


@cython.final
@cython.cclass
class ReplicaLane:
    """A line to a follower that the threads which put may use."""

    def __init__(self, bell: cython.int) -> None:
        if not cython.compiled:
            raise NotImplementedError("a lane is compiled")
        self._lane.bell = bell
        self._lane.acked = -1

    @property
    def acknowledged(self) -> int:
        """Log offset below which the follower has the log; -1: no line is lent."""
        return load64(cython.address(self._lane.acked))

    @property
    def exchanges(self) -> int:
        """Number of frames that were sent and acknowledged."""
        return load64(cython.address(self._lane.exchanges))

    def exchange(self, end: cython.longlong, seconds: cython.double) -> bool:
        done: cython.bint
        nanoseconds: cython.longlong = cython.cast(cython.longlong, seconds * 1e9)
        with cython.nogil:
            done = fmq_exchange(cython.address(self._lane), end, nanoseconds)
        return done

    def take(self, seconds: cython.double) -> bool:
        held: cython.bint
        store32(cython.address(self._lane.wanted), 1)
        deadline: cython.longlong = 0 if seconds <= 0 else fmq_now() + cython.cast(cython.longlong, seconds * 1e9)
        with cython.nogil:
            held = fmq_lane_lock(cython.address(self._lane), deadline)
        if held:
            store32(cython.address(self._lane.wanted), 0)
        return held

    def facts(self):
        return LaneFacts(
            self._lane.next,
            self._lane.sent,
            self._lane.report,
            self._lane.head_left,
            self._lane.wrote / 1e9,
            self._lane.received / 1e9,
            self._lane.error,
            bytes(self._lane.raw[: self._lane.raw_size]),
        )

    def lend(
        self,
        sock: cython.int,
        epoll: cython.int,
        file: cython.int,
        start: cython.longlong,
        size: cython.longlong,
        batch: cython.longlong,
        next: cython.longlong,
    ) -> None:
        self._lane.sock, self._lane.epoll, self._lane.file = sock, epoll, file
        self._lane.start, self._lane.limit, self._lane.batch = start, start + size, batch
        self._lane.next = self._lane.sent = self._lane.report = next
        self._lane.error = self._lane.head_left = self._lane.raw_size = 0
        self._lane.wrote = self._lane.received = 0
        store64(cython.address(self._lane.acked), next)
        store32(cython.address(self._lane.lent), 1)
        fmq_lane_unlock(cython.address(self._lane))

    def close(self) -> None:
        store64(cython.address(self._lane.acked), -1)
        store32(cython.address(self._lane.lent), 0)
        fmq_lane_unlock(cython.address(self._lane))

    def forget(self) -> None:
        store64(cython.address(self._lane.acked), -1)
        store32(cython.address(self._lane.lent), 0)
        store32(cython.address(self._lane.lock), 0)
