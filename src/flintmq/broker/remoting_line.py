"""Remoting on one connection: bytes to requests, answers to bytes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

from flintmq.broker.connection import TURN_S, ClientConnection
from flintmq.broker.requests import ALONE_MIN, PlainTaker
from flintmq.errors import FormatError
from flintmq.format.layout import Buffer
from flintmq.remoting.frames import RemotingFrame, decode_frame, encode_frame, frame_size

HEADER_MAX: Final = 1 << 20  # bytes of a frame's header
JOINED_MAX: Final = 256 << 10  # bytes of answers that are sent together


class RemotingLine:
    """The remoting of one connection. Thread: the loop's.

    Args:
        take: gets each frame.
        plain: each gets the bytes of what may be a plain request, where its frame begins, and the connection, by which
            it answers. It returns where the frame ends; None: the next one, or `take`, is to have it.
    """

    form = "remoting frame"
    unsent = 0

    def __init__(
        self,
        connection: ClientConnection,
        take: Callable[[RemotingFrame, ClientConnection], None],
        plain: Sequence[PlainTaker],
    ) -> None:
        self._connection, self._take, self._plain = connection, take, plain
        self._received = bytearray()
        self._joined: list[bytes] = []  # answers to be sent together: of one block, or of one turn of the loop
        self._joined_size = 0  # bytes
        self._is_joining = False  # they are sent when this block, or this turn, is at its end

    def receive(self, data: Buffer) -> None:
        if not self._connection.is_ending:
            self._received += data
            self.go_on()

    def go_on(self) -> None:
        """Take the requests that have come, and send the answers that are there at once."""
        self._is_joining = True
        try:
            self._read()
        finally:
            self._send_joined()

    def send(self, frame: RemotingFrame) -> None:
        """Send a frame, small ones together.

        These are of one received block, or of one turn of the loop: news for several queues answers as many pulls.
        """
        self._send(encode_frame(frame))

    def send_encoded(self, head: bytes, body: bytes = b"") -> None:
        self._send(head)
        if body:
            self._send(body)

    def _send(self, data: bytes) -> None:
        self._joined.append(data)
        self._joined_size += len(data)
        if self._joined_size > JOINED_MAX or len(data) >= ALONE_MIN:
            self._write_joined()
        elif not self._is_joining:
            self._is_joining = True
            asyncio.get_running_loop().call_soon(self._send_joined)

    def _send_joined(self) -> None:
        self._is_joining = False
        self._write_joined()

    def _write_joined(self) -> None:
        joined, self._joined, self._joined_size = self._joined, [], 0
        last = joined.pop() if joined and len(joined[-1]) >= ALONE_MIN else b""
        if joined:
            self._connection.write(b"".join(joined))
        if last:
            self._connection.write(last)

    def end(self) -> None:
        """Send what waits; remoting has no word for the end."""
        self._write_joined()

    def left(self) -> None:
        self._received.clear()

    def _read(self) -> None:
        """Take the requests that have come whole."""
        connection, received, at, began = self._connection, self._received, 0, time.monotonic()
        with memoryview(received) as view:
            while (
                not connection.is_closed
                and not connection.is_ending
                and connection.is_writable
                and not connection.is_held
            ):
                for plain in self._plain:  # of a frame that has come whole
                    if (end := plain(view, at, connection)) is not None:
                        at = end
                        break
                else:
                    size = _whole_frame(view, at)
                    if size is None:
                        break
                    frame = decode_frame(view[at : at + size].tobytes())
                    at += size
                    self._take(frame, connection)
                if time.monotonic() - began > TURN_S and not connection.is_held:
                    connection.hold()
                    asyncio.get_running_loop().call_soon(connection.read_on)
        del received[:at]


def _whole_frame(view: memoryview, at: int) -> int | None:
    """Return the size of the frame that begins at view[at]; None: it has not come whole.

    Raises FormatError: no frame is so large.
    """
    size = frame_size(view[at : at + 4].tobytes())
    if len(view) - at >= 8 and (length := int.from_bytes(view[at + 5 : at + 8], "big")) > HEADER_MAX:
        raise FormatError(f"a header of {length} bytes; {HEADER_MAX} are the most", 5)
    return size if size is not None and len(view) - at >= size else None
