"""A line to a master: a socket, a buffer, and the state of the line.

Sockets are opened by a function that a simulation can replace (`Dial`).
"""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

from flintmq.errors import UsageError
from flintmq.ha.follower_line import FollowerLine, Received
from flintmq.storage.files.filesystem import Effects

HA_PORT: Final = 10912
CONNECT_S: Final = 5.0
BUFFER_BYTES: Final = 1 << 18
"""So few that a processor's cache still has them when they are stored and checked."""
POLL_S: Final = 0.2
"""Seconds after which a wait looks whether it is to stop."""
_ADDRESS = re.compile(r"(?:\[(?P<inner>[0-9A-Fa-f:.]+(?:%\w+)?)\]|(?P<host>[A-Za-z0-9._-]+))(?::(?P<port>[0-9]{1,5}))?")

Address: TypeAlias = tuple[str, int]


class Wire(Protocol):
    """The methods of a socket that a line uses."""

    def settimeout(self, seconds: float) -> None:
        """Have `recv_into` and `sendall` raise TimeoutError after so many seconds."""

    def recv_into(self, buffer: memoryview) -> int:
        """Receive what is there, at least a byte; 0 after the end."""

    def sendall(self, data: bytes) -> None:
        """Send all bytes."""

    def close(self) -> None:
        """Close it."""


Dial: TypeAlias = Callable[[Address, float], Wire]
"""Opens a line to an address within so many seconds, or raises OSError."""


class _Tcp:
    """A TCP connection whose time limits the system keeps.

    Python's own limit asks the system before each call whether it would wait, and lets another thread run meanwhile: a
    report then left after a turn of dispatch.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        sock.settimeout(None)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.close = sock.close

    def settimeout(self, seconds: float) -> None:
        whole, part = divmod(max(round(seconds * 1e6), 1), 1_000_000)  # 0 would be no limit
        limit = struct.pack("@ll", whole, part)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)

    def recv_into(self, buffer: memoryview) -> int:
        try:
            return self._sock.recv_into(buffer)
        except BlockingIOError:
            raise TimeoutError("the time is up") from None

    def sendall(self, data: bytes) -> None:
        try:
            self._sock.sendall(data)
        except BlockingIOError:
            raise TimeoutError("the other side takes no bytes") from None


def dial(address: Address, seconds: float) -> Wire:
    """Open a TCP connection whose reports are sent at once."""
    return _Tcp(socket.create_connection(address, seconds))


def parse_master(text: str) -> Address:
    """Parse `HOST:PORT`, `HOST` or `[IPV6]:PORT` into host and port (10912 where it is missing)."""
    found = _ADDRESS.fullmatch(text)
    port = int(found["port"] or HA_PORT) if found else 0
    if found is None or not 0 < port <= 0xFFFF:
        raise UsageError(f"{text[:100]!a} is not HOST:PORT, such as 127.0.0.1:{HA_PORT}")
    return found["inner"] or found["host"], port


class MasterConnection:
    """An open line to a master.

    `buffer`: after `receive`, its first `size` bytes are of the log. Thread: one.
    """

    def __init__(self, wire: Wire, line: FollowerLine, effects: Effects) -> None:
        self.line, self.buffer = line, memoryview(bytearray(BUFFER_BYTES))
        self._wire, self._effects = wire, effects
        self.full = False  # True if the last read filled the buffer, so that more is there already
        self._timeout = -1.0
        self._kept: Received | None = None

    @classmethod
    def open(
        cls, address: Address, report: int, due: int | None, file_size: int, dial: Dial, effects: Effects
    ) -> MasterConnection:
        """Connect to a master and send the first report.

        `due`: the offset that it must send first; None: it chooses.
        """
        wire = dial(address, CONNECT_S)
        opened = cls(wire, FollowerLine(due, file_size, effects.monotonic()), effects)
        try:
            opened.report(report)
        except BaseException:
            wire.close()
            raise
        return opened

    def receive(self, seconds: float) -> Received | None:
        """Wait for bytes, and take them.

        Returns:
            The content of one read; None if the time was up.
        """
        if self._kept is not None:
            kept, self._kept = self._kept, None
            return kept
        self._set_timeout(max(seconds, 0.001))
        try:
            count = self._wire.recv_into(self.buffer)
        except TimeoutError:
            self.full = False
            return None
        self.full = count == len(self.buffer)
        if not count:
            raise ConnectionError("the master closed the connection")
        return self.line.take(self.buffer, count, self._effects.monotonic())

    def first_frame(self, seconds: float, stopped: Callable[[], bool]) -> Received | None:
        """Wait for the first header; the read that holds it is returned again by `receive`.

        `seconds`: how long; a header that has begun to come is waited for longer.
        """
        line, limit = self.line, self._effects.monotonic() + seconds
        while not stopped():
            now = self._effects.monotonic()
            if line.silent(now) or (now >= limit and line.between_frames):
                break
            got = self.receive(min(POLL_S, max(limit - now, 0.01)))
            if got is None or (not got.size and not got.heartbeats and got.refusal is None and not line.frames):
                continue
            if got.refusal is not None and not got.size:
                raise got.refusal
            self._kept = got
            return got
        return None

    def report(self, offset: int) -> None:
        """Send a report.

        Raises OSError: the line is lost; it is so, too, if the system has no room for eight bytes.
        """
        if self._timeout < 0:
            self._set_timeout(CONNECT_S)
        self._wire.sendall(self.line.report(offset, self._effects.monotonic()))

    def _set_timeout(self, seconds: float) -> None:
        if seconds != self._timeout:  # a call of the system
            self._timeout = seconds
            self._wire.settimeout(seconds)

    def close(self) -> None:
        self._wire.close()
