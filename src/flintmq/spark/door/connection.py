"""Speaks with the source in the JVM over one socket.

What is sent has a head of four bytes, a signed number: above zero, the length of a JSON text; below, that of a piece of
an Arrow stream; zero means "I live". The Python side says so each second while it works, so the JVM
can tell a hang from a long read. The other end is `java/flintmq/spark/Line.java`.
"""

from __future__ import annotations

import io
import json
import os
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

LONGEST = 64 << 20  # bytes of a JSON text
AT_ONCE = 64 << 10  # bytes of rows that are sent together: an Arrow stream has many small ones
LARGEST = 1 << 30  # bytes of a piece
WAITING = 4 << 20  # bytes that wait in the socket while the JVM makes rows of those before
BEAT = 1.0  # seconds; the other side waits ten
Fields = dict[str, Any]


class Connection:
    """One line to the JVM. Thread: one, beside that of the heartbeat."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._bytes = line.makefile("rb")
        self._sending = threading.Lock()  # a beat must not fall into a message

    def request(self) -> Fields | None:
        """Return the next request; None if the other side has hung up."""
        head = self._bytes.read(4)
        if len(head) < 4:
            return None
        length = int.from_bytes(head, "big", signed=True)
        if not 0 < length <= LONGEST:
            raise ValueError(f"a request of {length} bytes; the most is {LONGEST}")
        found: Fields = json.loads(self._bytes.read(length))
        return found

    def answer(self, **fields: Any) -> None:
        data = json.dumps(fields).encode()
        self.send(len(data), data)

    def rows(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
        """Send an Arrow stream, which also ends where `batches` raises."""
        import pyarrow as pa

        self._line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, WAITING)
        with RowsSink(self) as sink, pa.ipc.new_stream(sink, schema) as stream:
            for batch in batches:
                stream.write_batch(batch)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Say each second that this process lives; it ends if nobody is there to hear that.

        Only while it works: nobody reads the line of a stream between two calls.
        """
        done = threading.Event()
        threading.Thread(target=self._beat, args=(done,), daemon=True).start()
        try:
            yield
        finally:
            done.set()

    def _beat(self, done: threading.Event) -> None:
        while not done.wait(BEAT):
            try:
                self.send(0)
            except OSError:  # the query was cancelled, or the JVM is gone
                os._exit(0)

    def send(self, head: int, *pieces: Any) -> None:
        """Send a head and what follows it."""
        waiting = [memoryview(piece).cast("B") for piece in (head.to_bytes(4, "big", signed=True), *pieces)]
        with self._sending:
            _send_all(self._line, waiting)


def _send_all(line: socket.socket, waiting: list[memoryview]) -> None:
    while waiting:
        sent = line.sendmsg(waiting[:256])
        while waiting and sent >= len(waiting[0]):
            sent -= len(waiting.pop(0))
        if sent:
            waiting[0] = waiting[0][sent:]


class RowsSink(io.RawIOBase):
    """Takes an Arrow stream, and sends what has gathered. Thread: one."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection
        self._waiting: list[Any] = []
        self._bytes = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        for at in range(0, len(view), LARGEST):
            piece = view[at : at + LARGEST]
            self._waiting.append(piece)
            self._bytes += len(piece)
            if self._bytes >= AT_ONCE:
                self._send()
        return len(view)

    def _send(self) -> None:
        pieces, length = self._waiting, self._bytes
        self._waiting, self._bytes = [], 0
        if length:
            self._connection.send(-length, *pieces)

    def close(self) -> None:
        """Send what has gathered, unless it is closed."""
        if not self.closed:
            self._send()
        super().close()
