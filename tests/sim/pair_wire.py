"""A master and its replication line, in memory: the reference for `flintmq.ha`.

`PlainLine` says what a RocketMQ master sends, as plainly as possible and with none of the follower's code; `OwnLine`
is FlintMQ's own side. `SimWire` is a socket to either: it hands out bytes in pieces of drawn sizes, and is cut where it
is ordered to be. `Lie` is what a damaged or hostile master sends instead.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from flintmq.ha.master_line import LineRules, LineState, MasterLine
from tests.sim.disk import SimDisk

HEARTBEAT_S = 5.0
_HEADER = struct.Struct(">qi")
_REPORT = struct.Struct(">q")


@dataclass
class MasterLog:
    """The log of one master, as it may be sent.

    Attributes:
        data: its bytes from log offset 0 on; the log ends with them. Bytes of deleted files stay here.
        file_size: bytes of a file.
        begin: log offset of its first file.
    """

    data: bytearray
    file_size: int
    begin: int = 0

    @property
    def end(self) -> int:
        """Log offset after its last byte."""
        return len(self.data)


@dataclass
class Lie:
    """A wrong frame that a master sends once.

    Attributes:
        kind: "flip" a byte of the log, "zeros" instead of a record, or in a header a wrong "offset", a "negative" size,
            a "long" frame beyond the end of its file.
        at: log offset from which on it is sent.
        size: bytes of "zeros" that are to come.
        sent: whether all of it was sent.
        begin: `at` before any of it was.
    """

    kind: str
    at: int
    size: int = 1
    sent: bool = False
    begin: int = 0

    def __post_init__(self) -> None:
        """Note where it begins."""
        self.begin = self.at

    def frame(self, at: int, body: bytes, file_size: int) -> bytes:
        """Return a frame, altered if it is the one."""
        if self.sent or at + len(body) <= self.at:
            return _HEADER.pack(at, len(body)) + body
        inside = max(self.at - at, 0)
        if self.kind in ("flip", "zeros"):
            size = min(self.size, len(body) - inside)
            new = bytes(size) if self.kind == "zeros" else bytes(b ^ 0x55 for b in body[inside : inside + size])
            self.at, self.size, self.sent = self.at + size, self.size - size, self.size == size
            return _HEADER.pack(at, len(body)) + body[:inside] + new + body[inside + size :]
        self.sent = True
        header = {"offset": (at + 1, len(body)), "negative": (at, -5), "long": (at, file_size + 1)}[self.kind]
        return _HEADER.pack(*header) + body


class PlainLine:
    """One line of a RocketMQ master.

    Args:
        log: what it sends.
        batch: bytes of the largest frame.
        now: seconds.
    """

    def __init__(self, log: MasterLog, batch: int, now: float) -> None:
        self.log, self.batch = log, batch
        self.next: int | None = None  # None: nothing was reported
        self.acknowledged = -1
        self._kept, self._sent_at = b"", now
        self.lie: Lie | None = None
        self.closed = False

    def reported(self, data: bytes) -> None:
        """Take bytes of reports; only the last whole one of a read counts."""
        self._kept += data
        whole = len(self._kept) // 8 * 8
        if not whole:
            return
        (report,) = _REPORT.unpack(self._kept[whole - 8 : whole])
        self._kept = self._kept[whole:]
        self.acknowledged = report
        if self.next is None and report != -1:
            last_file = self.log.end - self.log.end % self.log.file_size
            self.next = last_file if report == 0 else report

    def frame(self, now: float) -> bytes:
        """Return the next frame; nothing if none is due."""
        if self.next is None:
            return b""
        if now - self._sent_at > HEARTBEAT_S:
            self._sent_at = now
            return _HEADER.pack(self.next, 0)
        if not self.log.begin <= self.next < self.log.end:
            return b""
        room = self.log.file_size - self.next % self.log.file_size
        size = min(self.batch, room, self.log.end - self.next)
        body = bytes(self.log.data[self.next : self.next + size])
        self._sent_at = now
        frame = _HEADER.pack(self.next, size) + body
        if self.lie is not None:
            frame = self.lie.frame(self.next, body, self.log.file_size)
        self.next += size
        return frame


class OwnLine:
    """One line of a FlintMQ master: the state machine of `flintmq.ha.master_line`.

    Args:
        log, batch, now: as for PlainLine.
    """

    def __init__(self, log: MasterLog, batch: int, now: float) -> None:
        self.log = log
        self.lie: Lie | None = None
        self._line = MasterLine(LineRules(log.file_size, batch, HEARTBEAT_S, 20.0), now)
        self._now = now

    @property
    def next(self) -> int | None:
        """Log offset of the next byte; None before the first report."""
        return None if self._line.state is LineState.WAIT else self._line.next

    @property
    def acknowledged(self) -> int:
        """The last report; -1 before."""
        return self._line.report

    @property
    def closed(self) -> bool:
        """True if the master has ended the line."""
        return self._line.is_closed

    def reported(self, data: bytes) -> None:
        """Take bytes of reports."""
        self._line.received(data, self.log.begin, self.log.end, self._now)

    def frame(self, now: float) -> bytes:
        """Return the next frame; nothing if none is due."""
        self._now = now
        self._line.tick(now)
        header = self._line.frame(self.log.end, now)
        if header is None:
            return b""
        self._line.wrote(header.size, now)
        body = bytes(self.log.data[header.offset : header.offset + header.size])
        if self.lie is not None and body:
            return self.lie.frame(header.offset, body, self.log.file_size)
        return _HEADER.pack(*header) + body


@dataclass
class SimWire:
    """A socket to a master's line.

    The only clock is the follower's disk, which waiting advances.

    Args:
        line: the master's side.
        clock: the follower's disk.
        chance: of the sizes of pieces; None: everything at once.
        on_report: called with each report.

    Attributes:
        limit: bytes after which the line breaks; None: it holds.
        dead: whether the master is gone: what it sent still comes, then the end.
        first: the first report; None before.
        given: bytes that came.
    """

    line: PlainLine | OwnLine
    clock: Callable[[], SimDisk]
    chance: random.Random | None = None
    on_report: Callable[[SimWire, int], None] = lambda wire, report: None
    limit: int | None = None
    dead: bool = False
    first: int | None = None
    given: int = 0
    closed: bool = False
    _timeout: float = 0.0
    _pending: bytearray = field(default_factory=bytearray)

    def settimeout(self, seconds: float) -> None:
        """Set how long `recv_into` waits."""
        self._timeout = seconds

    def recv_into(self, buffer: memoryview) -> int:
        """Give a piece of what the master sent.

        Raises:
            TimeoutError: nothing came; the clock has advanced.
            ConnectionResetError: the line is cut.
        """
        if self.limit is not None and self.limit <= 0:
            raise ConnectionResetError("the line is cut")
        disk = self.clock()
        while not self.dead and (frame := self.line.frame(disk.ticks)):
            self._pending += frame
            if len(self._pending) > 1 << 16:
                break
        if not self._pending:
            if self.dead or self.line.closed:
                return 0
            disk.ticks += self._timeout
            disk.clock += int(self._timeout * 1000)
            raise TimeoutError("nothing came")
        size = min(len(buffer), len(self._pending), self._piece())
        if self.limit is not None:
            size = min(size, self.limit)
            self.limit -= size
        buffer[:size] = self._pending[:size]
        del self._pending[:size]
        self.given += size
        return size

    def _piece(self) -> int:
        if self.chance is None:
            return 1 << 20
        most = self.chance.choice((3, 13, 300, 3000, 40_000, 1 << 20))
        return self.chance.randint(1, most)

    def sendall(self, data: bytes) -> None:
        """Take a report.

        Raises:
            OSError: the line is cut.
        """
        if self.dead or (self.limit is not None and self.limit <= 0):
            raise BrokenPipeError("the line is cut")
        assert len(data) == 8, data
        (report,) = _REPORT.unpack(data)
        self.on_report(self, report)
        self.first = report if self.first is None else self.first
        self.line.reported(data)

    def close(self) -> None:
        """Close it."""
        self.closed = True
