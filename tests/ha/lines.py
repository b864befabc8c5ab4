"""A follower made of a socket, for tests of what a listener does."""

import socket
import struct
import time
from collections.abc import Callable
from typing import Self

LIMIT_S = 60.0  # from here on it hangs; the machine may be slow


class Line:
    """One connection to a listener, closed at the end of a `with` block; `closed`: the listener hung up."""

    def __init__(self, address: tuple[str, int], *reports: int, receive_buffer: int = 0) -> None:
        self.socket = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(LIMIT_S)
        self.socket.connect(address)
        self.kept, self.closed = b"", False
        if reports:
            self.report(*reports)

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.socket.getsockname()[:2]
        return host, port

    def report(self, *offsets: int) -> None:
        """Send reports, in one piece."""
        self.send(struct.pack(f">{len(offsets)}q", *offsets))

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def more(self, seconds: float) -> bool:
        """Receive once; return whether anything came."""
        self.socket.settimeout(max(seconds, 0.001))
        try:
            got = self.socket.recv(1 << 16)
        except TimeoutError:
            return False
        except ConnectionError:
            got = b""
        self.closed = not got
        self.kept += got
        return bool(got)

    def frame(self, seconds: float = LIMIT_S) -> tuple[int, int, bytes] | None:
        """The next frame (offset, size, body); None if none comes in time, or the listener hung up."""
        limit = time.monotonic() + seconds
        while True:
            if len(self.kept) >= 12:
                offset, size = struct.unpack_from(">qi", self.kept)
                if len(self.kept) >= 12 + size:
                    body, self.kept = self.kept[12 : 12 + size], self.kept[12 + size :]
                    return offset, size, body
            if not self.more(limit - time.monotonic()) and (self.closed or time.monotonic() >= limit):
                return None

    def up_to(self, end: int) -> bytes:
        """The bodies of the frames up to a log offset; heartbeats are left out."""
        found = bytearray()
        while (frame := self.frame()) is not None:
            found += frame[2]
            if frame[0] + frame[1] >= end and frame[1]:
                return bytes(found)
        raise AssertionError(f"no frame reaches {end}")

    def hung_up(self, seconds: float = LIMIT_S) -> bytes:
        """What came before the listener hung up, as it must."""
        limit = time.monotonic() + seconds
        while not self.closed and time.monotonic() < limit:
            self.more(limit - time.monotonic())
        assert self.closed, "the line is still open"
        return self.kept

    def acknowledge(self, until: Callable[[], bool], *, late_s: float = 0.0) -> None:
        """Report the end of each frame as it comes, until it is over or hung up on."""
        while not until() and not self.closed:
            frame = self.frame(0.02)
            if frame is not None and frame[1]:
                time.sleep(late_s)
                try:
                    self.report(frame[0] + frame[1])
                except OSError:
                    return

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
