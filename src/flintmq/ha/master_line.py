"""The master's side of one line to a follower: bytes and times in, frames out.

It does no I/O and has no clock. What one read brings is looked at together, and of several reports in it only the last
one counts, as upstream (DefaultHAConnection).

    state     event                                          next
    WAIT      fewer than 8 bytes                             WAIT; nothing is sent, no heartbeat either
    WAIT      report 0                                       TRANSFER from the last file's begin, or the first one's
    WAIT      report from the log's begin to its end         TRANSFER from there; it is acknowledged
    WAIT      a report below 0                               CLOSED
    WAIT      another report                                 REFUSED, and a heartbeat at it
    REFUSED   1.5 s                                          CLOSED
    WAIT      20 s without a whole report                    CLOSED
    TRANSFER  the log has bytes at `next`                    a frame, at most of the batch size, never across a file
    TRANSFER  nothing sent for 5 s                           a heartbeat, before more of the log
    TRANSFER  the log ends before `next`                     CLOSED: bytes that were sent are no longer the log's
    TRANSFER  report from the one before to the log's end    acknowledged, as far as it was sent
    TRANSFER  report below the one before, or above the end  CLOSED
    TRANSFER  20 s without a byte                            CLOSED

Upstream closes for silence alone: it sends heartbeats for ever to a follower that it cannot serve, and believes every
report (upstream defects D16, D17). The one heartbeat here is what a follower of ours waits for before it asks where the
log begins or ends.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from flintmq.ha.frames import LAST_FILE, REPORT, FrameHeader

REFUSED_S: Final = 1.5
"""Seconds between the heartbeat to a follower that cannot be served and the end of its line."""
_REPORT_SIZE: Final = REPORT.size


class LineState(enum.Enum):
    WAIT = "wait"
    TRANSFER = "transfer"
    REFUSED = "refused"
    CLOSED = "closed"


class LineRules(NamedTuple):
    file_size: int
    batch: int  # bytes of the largest frame (haTransferBatchSize)
    heartbeat_s: float  # seconds without a byte sent before a heartbeat (haSendHeartbeatInterval)
    silence_s: float  # seconds without a byte received before the line is closed (haHousekeepingInterval)
    whole_log: bool = False  # a first report of 0 gets the log from its begin, not from its last file
    most_a_second: int = 0  # bytes of the log that are sent in one second (maxHaTransferByteInSecond); 0: any number


class MasterLine:
    """One line, from its acceptance on.

    Attributes:
        reason: why it is CLOSED or REFUSED; numbers and our own words only.
        next: log offset of the next frame; -1 in WAIT.
        sent: log offset after the last byte that was sent; -1 in WAIT.
        report: the last report; -1 in WAIT.
        acknowledged: log offset below which the follower has the log, as far as it was sent; -1 in WAIT.
    """

    def __init__(self, rules: LineRules, now: float) -> None:
        self.rules, self.state, self.reason = rules, LineState.WAIT, ""
        self.next = self.sent = self.report = self.acknowledged = -1
        self._kept = b""
        self._received = self._wrote = self._second = now
        self._is_answered = False
        self._spent = 0  # bytes framed in the second that began at `_second`

    @property
    def is_closed(self) -> bool:
        return self.state is LineState.CLOSED

    def received(self, data: bytes | memoryview, begin: int, end: int, now: float) -> bool:
        """Take bytes that came.

        Returns:
            Whether `acknowledged` changed. The state may be CLOSED.
        """
        kept = self._kept + bytes(data)
        whole = len(kept) - len(kept) % _REPORT_SIZE
        self._kept = kept[whole:]
        if self.state is LineState.TRANSFER:
            self._received = now
        if not whole or self.state in (LineState.REFUSED, LineState.CLOSED):
            return False
        offset = REPORT.unpack(kept[whole - _REPORT_SIZE : whole]).offset
        self._received = now
        return self._first(offset, begin, end) if self.state is LineState.WAIT else self._later(offset, end)

    def _first(self, offset: int, begin: int, end: int) -> bool:
        """Begin to send where the first report asks for it."""
        if offset == LAST_FILE:
            # A new slave of RocketMQ asks for 0, and means the last file, as DefaultHAConnection does.
            start = begin if self.rules.whole_log else max(begin, end - end % self.rules.file_size)
        elif begin <= offset <= end:
            start = offset
        else:
            self.close(f"its first report is {offset}, and the log has {begin} to {end}")
            if offset > 0:
                self.state, self.next = LineState.REFUSED, offset
            return False
        self.state, self.next, self.sent = LineState.TRANSFER, start, start
        self.report = self.acknowledged = offset
        return True

    def _later(self, offset: int, end: int) -> bool:
        if offset > end:
            # It has records that are not ours: another master's, or ones that a power cut took from this one.
            self.close(f"it reports {offset}, and the log ends at {end}")
        elif offset < self.report:
            self.close(f"it reports {offset} after {self.report}")
        else:
            self.report, before = offset, self.acknowledged
            self.acknowledged = max(before, min(offset, self.sent))  # nobody has what was not sent
            return self.acknowledged > before
        return False

    def rests(self, end: int) -> bool:
        """Return whether all below `end` was sent and acknowledged, and no part of a report came."""
        all_sent = self.state is LineState.TRANSFER and self.next == self.sent == end
        return all_sent and self.report == self.acknowledged == end and not self._kept

    def exchanged(self, next_: int, sent: int, report: int, wrote: float, received: float) -> None:
        """Note frames and reports of a line that rested.

        Args:
            report: the last report; it names bytes that were sent.
            wrote, received: seconds of the last byte sent, and of the last one received; 0: there was none.
        """
        assert self.next <= next_ and report <= sent <= next_
        self.next, self.sent = next_, sent
        self.report = self.acknowledged = report
        self._wrote, self._received = max(self._wrote, wrote), max(self._received, received)

    def frame(self, end: int, now: float) -> FrameHeader | None:
        """Return the header of the frame to send now; None: there is nothing to send.

        The frame before has been sent completely.
        """
        if self.state is LineState.REFUSED and not self._is_answered:
            self._is_answered = True
            return FrameHeader(self.next, 0)
        if self.state is not LineState.TRANSFER:
            return None
        if now - self._wrote > self.rules.heartbeat_s:
            return FrameHeader(self.next, 0)
        # What was sent is gone here: the follower's log goes on differently, and it must find that out by asking anew.
        if end < self.next:
            self.close(f"the log ends at {end} by now, and was sent up to {self.next}")
            return None
        # A frame ends with the file at the latest: followers refuse one that crosses its end.
        rest = self.rules.file_size - self.next % self.rules.file_size
        size = min(self.rules.batch, rest, end - self.next)
        if self.rules.most_a_second:
            if now - self._second >= 1:
                self._second, self._spent = now, 0
            size = min(size, self.rules.most_a_second - self._spent)
        if size <= 0:
            return None
        header = FrameHeader(self.next, size)
        self.next += size
        self._spent += size
        return header

    def wrote(self, size: int, now: float) -> None:
        """Note that bytes were sent, `size` of them the log's."""
        self.sent += size
        self._wrote = now
        assert self.sent <= self.next

    def tick(self, now: float) -> None:
        """Close the line if the follower is silent for too long, or is refused."""
        if self.state is LineState.REFUSED and now - self._received > REFUSED_S:
            self.close(self.reason)
        elif not self.is_closed and now - self._received > self.rules.silence_s:
            what = "no report" if self.state is LineState.WAIT else "no byte"
            self.close(f"{what} came for {self.rules.silence_s:g} s")

    @property
    def silent_at(self) -> float:
        """Time from which on `tick` closes the line if nothing comes."""
        if self.state is LineState.REFUSED:
            return self._received + REFUSED_S
        return self._received + self.rules.silence_s

    def due(self) -> float:
        """Return the time at which `tick` or `frame` must be called even if nothing happens."""
        if self.state is not LineState.TRANSFER:
            return self.silent_at
        due = min(self.silent_at, self._wrote + self.rules.heartbeat_s)
        return min(due, self._second + 1) if self._spent >= self.rules.most_a_second > 0 else due

    def close(self, reason: str) -> None:
        self.state, self.reason = LineState.CLOSED, reason
