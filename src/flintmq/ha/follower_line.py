"""The follower's side of one line to a master: bytes and times in, bytes and events out.

It does no I/O and has no clock. Frames must follow each other without a gap, so the bodies in one read are one stretch
of the log: `take` moves them to the front of the buffer, and no frame costs more than its header.

    state        event                                   next
    UNKNOWN      header with an offset at a file's begin NEXT (the master chose where to begin)
    UNKNOWN      header with another offset              refused: "geometry"
    NEXT         header of size 0 and the due offset     NEXT; a heartbeat is counted, nothing is answered
    NEXT         header of a body and the due offset     BODY
    any          header of another offset, or a size     refused: "protocol"; what came before counts
                 below 0 or beyond the end of the file
    BODY         bytes                                   BODY, or NEXT after the last one
    any          5 s since the last report               a report is due
    any          the log has grown                       a report is due; not each time while more is there
    any          20 s without a header or a byte of one  silent: the line is lost

UNKNOWN: no offset is due, as after the report 0. NEXT: an offset is due. BODY: some bytes of a frame are due.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from flintmq.errors import ReplicationError
from flintmq.ha.frames import FRAME_HEADER, REPORT, OffsetReport

REPORT_S: Final = 5.0
"""Seconds between two reports without news (haSendHeartbeatInterval); a master closes after 20 without one."""
BUSY_S: Final = 0.05
"""Seconds between two reports while the master sends faster than its log is stored here."""
SILENCE_S: Final = 20.0
"""Seconds without a byte after which the line is lost (haHousekeepingInterval)."""

_HEADER, _HEADER_SIZE = FRAME_HEADER.struct, FRAME_HEADER.size


class Received(NamedTuple):
    offset: int | None  # log offset of the first byte of the log in it; None while the master has not named one
    size: int  # number of bytes of the log; they are at the front of the buffer
    heartbeats: int
    refusal: ReplicationError | None  # the error that ends the line after these bytes; None if all is well


class FollowerLine:
    """One line, from the first report on.

    `due`: the log offset that the master must send first; None: it chooses a file. Thread: one.

    Attributes:
        due: the log offset of the next byte; None as above.
        reported: the last report; -1 before the first.
        heard: when a whole header or a byte of a body last came, or the line was made.
    """

    def __init__(self, due: int | None, file_size: int, now: float) -> None:
        self.due, self.file_size = due, file_size
        self.frames = self.heartbeats = self.bytes = 0
        self.reported, self.heard, self._reported_at = -1, now, now
        self._left = 0  # bytes of the body that are still to come
        self._head = b""  # an incomplete header

    @property
    def heard_any(self) -> bool:
        return self.frames + self.heartbeats > 0

    @property
    def between_frames(self) -> bool:
        return not self._left and not self._head

    def take(self, buffer: memoryview, count: int, now: float) -> Received:
        """Take bytes that the master sent; those of the log are moved to the front of the buffer."""
        at = size = heartbeats = 0
        refusal = None
        while at < count:
            if self._left:
                step = min(self._left, count - at)
                if at != size:
                    buffer[size : size + step] = buffer[at : at + step]
                at, size, self._left = at + step, size + step, self._left - step
                self.heard = now
                continue
            if not self._head and count - at >= _HEADER_SIZE:
                offset, body = _HEADER.unpack_from(buffer, at)
                at += _HEADER_SIZE
            else:
                step = min(_HEADER_SIZE - len(self._head), count - at)
                self._head += bytes(buffer[at : at + step])
                at += step
                if len(self._head) < _HEADER_SIZE:
                    break
                offset, body = _HEADER.unpack(self._head)
                self._head = b""
            self.heard = now  # a part of a header says nothing: one could drip for ever
            refusal = self._check(offset, body, size)
            if refusal is not None:
                break
            if body:
                self.frames, self._left = self.frames + 1, body
            else:
                heartbeats += 1
        self.heartbeats, self.bytes = self.heartbeats + heartbeats, self.bytes + size
        if self.due is None:
            return Received(None, 0, 0, refusal)
        # All of the bytes count as received at once; a refusal concerns only what comes after them.
        first, self.due = self.due, self.due + size
        return Received(first, size, heartbeats, refusal)

    def _check(self, offset: int, body: int, taken: int) -> ReplicationError | None:
        """Return why a header is refused; `taken` bytes of the log precede it in this read."""
        if self.due is None:
            if offset < 0 or offset % self.file_size:
                return ReplicationError(
                    "geometry",
                    f"the master's log file begins at offset {offset}, where none of {self.file_size} bytes does; "
                    "give its size with --set mappedFileSizeCommitLog=BYTES",
                )
            self.due = offset
        due = self.due + taken
        if offset != due:
            text = f"the master sent a frame for log offset {offset} where {due} was due; is it a RocketMQ HA port?"
            return ReplicationError("protocol", text)
        # Bounded before a byte of the body is stored: a size from the line is no better than one from a file.
        room = self.file_size - due % self.file_size
        if not 0 <= body <= room:
            text = f"the master sent a frame of {body} bytes at log offset {due}, where its file has room for {room}"
            return ReplicationError("protocol", text)
        return None

    def report_due(self, offset: int, now: float, *, more: bool = False) -> bool:
        """Return whether a report of this offset is to be sent now.

        It is sent less often while more is there to be read.
        """
        return now - self._reported_at >= (REPORT_S if offset <= self.reported else BUSY_S if more else 0)

    def report(self, offset: int, now: float) -> bytes:
        """Return the bytes of a report. A report never goes back, because a master trusts each."""
        assert offset >= self.reported, f"report {offset} after {self.reported}"
        self.reported, self._reported_at = offset, now
        return REPORT.pack(OffsetReport(offset))

    def silent(self, now: float) -> bool:
        """Return whether the line is lost because the master sends nothing."""
        return now - self.heard > SILENCE_S
