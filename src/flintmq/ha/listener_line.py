"""One follower of a listener: its socket, its line, and the frame that is being sent."""

from __future__ import annotations

import os
import socket

from flintmq.ha.frames import FRAME_HEADER, FrameHeader
from flintmq.ha.master_line import MasterLine
from flintmq.kernels.threads.replica_lane import LaneFacts
from flintmq.store.listening import LogPart


class ListenerLine:
    """One follower. `since`: seconds of the clock that never steps, at its acceptance."""

    def __init__(self, sock: socket.socket, address: tuple[str, int], line: MasterLine, now: float) -> None:
        self.sock, self.address, self.line, self.since = sock, address, line, now
        self.part: LogPart | None = None  # the log file that it is sent from; None: none is held
        self.head: bytes = b""
        self.left = 0
        self.is_full = False  # the socket takes no more for now
        self.has_more = False  # frames may be due that were not sent in its last turn

    def __str__(self) -> str:
        return "{}:{}".format(*self.address)

    def rests(self, end: int) -> bool:
        """Return whether all below `end` is acknowledged and the file has room for more."""
        part = self.part
        if part is None or not part.start <= end < part.start + part.size:
            return False
        return not (self.is_full or self.has_more or self.head or self.left) and self.line.rests(end)

    def absorb(self, facts: LaneFacts) -> None:
        if facts.wrote:
            header = FRAME_HEADER.pack(FrameHeader(facts.begun, facts.next - facts.begun))
            self.head, self.left = header[len(header) - facts.head_left :], facts.next - facts.sent
        self.line.exchanged(facts.next, facts.sent, facts.report, facts.wrote, facts.received)
        if facts.error:
            raise OSError(facts.error, os.strerror(facts.error))
