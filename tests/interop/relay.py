"""A line between two sides that can be recorded and cut: a relay of bytes on the loopback address."""

import contextlib
import socket
import threading
import time
from typing import NamedTuple


class Passed(NamedTuple):
    """What one read brought, or that a connection began or ended."""

    t: float  # seconds since the relay began
    session: int  # number of the connection, from 0
    way: str  # ">" from who connects to who listens, "<" back, "open", ">eof" and "<eof"
    data: bytes


class Relay:
    """Listens on a port of its own (0: any) and passes each connection on to `port`.

    `keep` are the ways to keep what passes of: "><", ">", "<" or "".
    """

    def __init__(self, port: int, own: int = 0, *, keep: str = "") -> None:
        self.to, self.keep = port, keep
        self.left: int | None = None  # bytes from the listening side after which all connections are cut; None: never
        self.passed: list[Passed] = []  # each connection's begin, and what passed of the ways that are kept, in order
        self.sessions = 0
        self._began, self._lock = time.monotonic(), threading.Lock()
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", own))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Close every connection, in both directions."""
        with self._lock:
            lines, self._open = self._open, []
            self.left = None
        for line in lines:
            _hang_up(line)

    def close(self) -> None:
        """Cut everything and listen no longer."""
        _hang_up(self._listener)
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.to), 2)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            number, self.sessions = self.sessions, self.sessions + 1
            self._note(number, "open", b"")
            with self._lock:
                self._open += [near, far]
            for one, other, way in ((near, far, ">"), (far, near, "<")):
                with contextlib.suppress(OSError):  # cut at once
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._pump, args=(one, other, way, number), daemon=True).start()

    def _pump(self, one: socket.socket, other: socket.socket, way: str, number: int) -> None:
        with contextlib.suppress(OSError):
            while got := one.recv(1 << 16):
                last = False
                if way == "<" and (left := self.left) is not None:
                    got = got[:left]
                    self.left = left - len(got)
                    last = self.left <= 0
                self._note(number, way, got)
                other.sendall(got)
                if last:
                    self.cut()
                    return
            self._note(number, f"{way}eof", b"")
        _hang_up(one)
        _hang_up(other)

    def _note(self, number: int, way: str, data: bytes) -> None:
        if way == "open" or way[0] in self.keep:
            self.passed.append(Passed(round(time.monotonic() - self._began, 3), number, way, data))


def _hang_up(line: socket.socket) -> None:
    with contextlib.suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)
    line.close()


def free_port() -> int:
    """A port of the loopback address that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
