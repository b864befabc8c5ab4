"""gRPC on one connection: calls to the service, and what they answer to the socket."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from flintmq.broker.connection import TURN_S, ClientConnection
from flintmq.broker.grpc.http2 import PIECE, Call, Http2
from flintmq.format.layout import Buffer
from flintmq.remoting.frames import RemotingFrame


class GrpcLine:
    """The gRPC of one connection. Thread: the loop's.

    Args:
        opened: gets each call when it begins, and its connection.
        message_max: bytes of a message of a client.
    """

    form = "HTTP/2"

    def __init__(
        self, connection: ClientConnection, opened: Callable[[Call, ClientConnection], None], message_max: int
    ) -> None:
        self._connection = connection
        self._http2 = Http2(lambda call: opened(call, connection), message_max, self._changed)
        self._received = bytearray()  # what waits for the next turn
        self._is_receiving = self._is_due = self._has_ended = False
        self._changed()  # our settings

    @property
    def unsent(self) -> int:
        return self._http2.unsent

    def receive(self, data: Buffer) -> None:
        self._received += data
        self.go_on()

    def go_on(self) -> None:
        """Take what has come, for one turn; all that is answered at once goes in one piece."""
        connection, at, began = self._connection, 0, time.monotonic()
        self._http2.takes_calls = not connection.is_ending
        self._is_receiving = True
        try:
            while at < len(self._received) and not connection.is_held:
                piece = bytes(self._received[at : at + PIECE])
                at += len(piece)
                self._http2.receive(piece)
                if time.monotonic() - began > TURN_S:
                    connection.hold()
                    asyncio.get_running_loop().call_soon(connection.read_on)
        finally:
            del self._received[:at]
            self._is_receiving = False
            self._write()

    def send(self, frame: RemotingFrame) -> None:
        """Drop it: it is for clients of remoting."""

    def send_encoded(self, head: bytes, body: bytes = b"") -> None:
        """Drop it likewise."""

    def end(self) -> None:
        self._has_ended = True
        self._http2.close()
        self._write()

    def left(self) -> None:
        self._http2.left()

    def _changed(self) -> None:
        """Send, soon: answers of one turn of the loop go together."""
        if not self._is_receiving and not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._write)

    def _write(self) -> None:
        self._is_due = False
        data = self._http2.to_send()
        if data:
            self._connection.write(data)
        self._connection.note_unsent()
        if self._http2.is_over and not self._has_ended:
            self._connection.end()
