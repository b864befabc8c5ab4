# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Sends a frame to a follower and waits for its report, in the thread that puts.

It takes one call, without the GIL.

The listener's thread lends the lane a line on which nothing is under way. A thread that puts then sends its record by
itself and waits for the acknowledgement, which saves the wake-ups of two threads
(experiments/2026-11-25-replica-wait.md). Whatever else happens ends the call: the time is up, a signal came, the
socket is full or broken, a report is odd. The lane keeps exactly which bytes went out and came; the listener's thread,
where no signal handler runs, takes the lane back and goes on from there.

Records are sent by `pread` and one `send`: they are in the file's pages as soon as they are appended.

Uncompiled, and on other systems than Linux, `native` returns False and no lane is made.
"""

from collections import namedtuple

import cython

if not cython.compiled:
    fmq_native = None

LaneFacts = namedtuple("LaneFacts", "begun next sent report head_left wrote received error raw")


def native() -> bool:
    """Return whether a lane can be made: compiled, and on Linux."""
    return bool(cython.compiled and fmq_native())


@cython.final
@cython.cclass
class ReplicaLane:
    """A line to one follower that the threads which put may use, one at a time.

    Args:
        bell: descriptor of a socket that gets a byte at the end of an exchange that made `take` fail.

    Thread: any for `acknowledged`, `exchanges`, `exchange` and `refuse`; the listener's for the others.
    """

    def __cinit__(self):
        if cython.compiled:
            self._lane.frame = cython.cast(cython.pointer(cython.uchar), malloc(FMQ_HEAD + FMQ_MOST))
            if self._lane.frame == cython.NULL:
                raise MemoryError("no room for a frame")

    def __dealloc__(self):
        if cython.compiled:
            free(self._lane.frame)

    def __init__(self, bell: cython.int) -> None:
        if not cython.compiled:
            raise NotImplementedError("a lane is compiled")
        self._lane.bell = bell
        self._lane.acked = self._lane.asked = -1

    @property
    def acknowledged(self) -> int:
        """Log offset below which the follower has the log; -1: no line was lent."""
        return load64(cython.address(self._lane.acked))

    @property
    def exchanges(self) -> int:
        """Number of calls of `exchange` that waited for a report and got it."""
        return load64(cython.address(self._lane.exchanges))

    def exchange(self, end: cython.longlong, seconds: cython.double) -> bool:
        """Have the follower acknowledge the log below `end`, all of which is in the file.

        Args:
            end: log offset.
            seconds: how long it may take.

        Returns:
            Whether it did. If not, the record was sent, in part, or not at all; only the listener can go on.
        """
        nanoseconds: cython.longlong = cython.cast(cython.longlong, seconds * 1e9)
        with cython.nogil:
            done: cython.bint = fmq_exchange(cython.address(self._lane), end, nanoseconds)
        return done

    def rests(self, end: cython.longlong) -> bool:
        """Return whether a put has the line, or all below `end` and all sent is acknowledged."""
        return fmq_lane_rests(cython.address(self._lane), end)

    def take(self, seconds: cython.double) -> bool:
        """Take the lane from the threads that put.

        Args:
            seconds: how long to wait for one that has it; 0: not at all.

        Returns:
            Whether the caller has it. If not, and it did not wait, it is given the lane as soon as the thread that has
            it is done: the bell rings, and the next call succeeds.
        """
        deadline: cython.longlong = 0
        if seconds > 0:
            deadline = fmq_now() + cython.cast(cython.longlong, seconds * 1e9)
        with cython.nogil:
            taken: cython.bint = fmq_lane_take(cython.address(self._lane), deadline)
        return taken

    def facts(self):
        """Return what was exchanged since `lend`. The caller has the lane.

        Returns:
            (begun, next, sent, report, head_left, wrote, received, error, raw): log offsets of the last frame, after
            it, after the last byte sent, and of the last report; bytes of the frame's header that were not sent;
            seconds of the times of the last byte sent and received, 0 without any; the socket's error, or 0; bytes
            received that are no whole acknowledgement.
        """
        return LaneFacts(
            self._lane.begun,
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
        sent: cython.longlong,
    ) -> None:
        """Let the threads that put have a line, and release the lane.

        All bytes of the line are sent and acknowledged.

        Args:
            sock, epoll, file: descriptors of the socket, the selector that listens for reports, and the log file.
            start, size: log offset of the file's first byte, and its size.
            batch: bytes of the largest frame.
            sent: log offset after the last byte.
        """
        self._lane.sock, self._lane.epoll, self._lane.file = sock, epoll, file
        self._lane.start, self._lane.limit, self._lane.batch = start, start + size, batch
        self._lane.begun = self._lane.next = self._lane.sent = self._lane.report = sent
        self._lane.error = self._lane.head_left = self._lane.raw_size = 0
        self._lane.wrote = self._lane.received = 0
        store64(cython.address(self._lane.acked), sent)
        store32(cython.address(self._lane.lent), 1)
        fmq_lane_unlock(cython.address(self._lane))

    def end(self) -> None:
        """Lend no line, and release the lane, which the caller has."""
        store32(cython.address(self._lane.lent), 0)
        store64(cython.address(self._lane.acked), -1)
        fmq_lane_unlock(cython.address(self._lane))

    def refuse(self) -> None:
        """Make each `exchange` that begins fail at once."""
        store32(cython.address(self._lane.lent), 0)

    def forget(self) -> None:
        """Lend no line, whoever has the lane: it belongs to the parent of this process."""
        self.refuse()
        store64(cython.address(self._lane.acked), -1)
        store32(cython.address(self._lane.wanted), 0)
        store32(cython.address(self._lane.given), 0)
        store32(cython.address(self._lane.lock), 0)
