"""A recorded master on a real socket of this machine; it answers as Java does, heartbeats come each 0.3 s."""

import contextlib
import socket
import struct
import threading
import time
from typing import Self

BATCH = 32768
BEAT_S = 0.3


class LoopbackMaster:
    """Serves a log, which begins at 0 and which the master has up to `end`, until the end of a `with` block."""

    def __init__(self, log: bytes, file_size: int) -> None:
        self.log, self.end, self.file_size = log, len(log), file_size
        self.reports: list[int] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._lines: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(10)

    def cut(self) -> None:
        """Hang up on everybody."""
        for line in self._lines:
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def _start(self, target, *words) -> None:  # type: ignore[no-untyped-def]
        thread = threading.Thread(target=target, args=words, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                line, _ = self._listener.accept()
                self._lines.append(line)
                self._start(self._serve, line)

    def _serve(self, line: socket.socket) -> None:
        with contextlib.suppress(OSError), line:
            line.settimeout(30)
            at = self._report(line)
            at = self.end - self.end % self.file_size if at == 0 else at
            self._start(self._read, line)
            sent = time.monotonic()
            while True:
                size = min(BATCH, self.end - at, self.file_size - at % self.file_size)
                if at >= 0 and size > 0:
                    line.sendall(struct.pack(">qi", at, size) + self.log[at : at + size])
                    at, sent = at + size, time.monotonic()
                elif time.monotonic() - sent > BEAT_S:
                    line.sendall(struct.pack(">qi", at, 0))
                    sent = time.monotonic()
                else:
                    time.sleep(0.005)

    def _read(self, line: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._report(line)

    def _report(self, line: socket.socket) -> int:
        kept = b""
        while len(kept) < 8:
            got = line.recv(8 - len(kept))
            if not got:
                raise ConnectionError
            kept += got
        self.reports.append(struct.unpack(">q", kept)[0])
        return self.reports[-1]
