"""One connection of a client: its socket, its limits, and what it speaks.

The first byte says what that is: TLS, in which the same begins again, HTTP/2, or remoting. A line makes requests of the
bytes, and bytes of the answers. Whoever breaks a rule of its protocol loses this connection, with one line in the log;
all others are served on.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import sys
import termios
import time
from collections.abc import Callable
from typing import Final, Protocol

from flintmq.broker.tls import FIRST_BYTE, TlsLayer
from flintmq.errors import FormatError
from flintmq.format.layout import Buffer
from flintmq.remoting.client import join_address
from flintmq.remoting.frames import RemotingFrame

log = logging.getLogger("flintmq.broker")

UNSENT_MAX: Final = 4 << 20  # bytes of answers that wait, beyond which nothing more is read
TURNS: Final = 8  # requests of one connection that are under way: their answers may come on top of UNSENT_MAX
TURN_S: Final = 0.01  # of the loop that the requests of one connection take, before others have their turn
UNDER_WAY_MAX: Final = 4096  # requests that are being answered, beyond which nothing more is read
KEPT_MAX: Final = 64 << 20  # bytes of answers that wait, beyond which the connection has 30 s
KEPT_S: Final = 30.0
IDLE_S: Final = 120.0  # silence after which a connection is closed


class ClientLine(Protocol):
    """The protocol that a connection speaks. Thread: the loop's.

    Attributes:
        form: what its bytes are, in the log's words.
        unsent: bytes of answers that wait for more than the socket.
    """

    form: str

    @property
    def unsent(self) -> int: ...

    def receive(self, data: Buffer) -> None:
        """Take a copy of what has come.

        Raises FormatError: it breaks the protocol.
        """

    def go_on(self) -> None:
        """Take what has waited until the client took its answers.

        Raises FormatError: as `receive`.
        """

    def send(self, frame: RemotingFrame) -> None:
        """Send a frame of remoting; a client that speaks something else gets none."""

    def send_encoded(self, head: bytes, body: bytes = b"") -> None:
        """Send the bytes of a frame of remoting, in one part or two."""

    def end(self) -> None:
        """Tell the client that nothing more comes, where the protocol has words for it."""

    def left(self) -> None:
        """Note that the connection has ended."""


class ClientConnection(asyncio.BufferedProtocol):
    """A client's connection. Thread: the loop's.

    Args:
        into: where bytes come from the socket, for all connections of a loop: what has come is taken at once. A block
            of memory for each read would leave the heap full of holes.
        line: makes the line that a first byte asks for. It raises FormatError where it is not served.
        tls: makes the layer of a connection that begins with TLS. It raises FormatError likewise.
        opened, closed: called once each; `opened` returns why the connection is refused, or None.
    """

    def __init__(
        self,
        into: memoryview,
        line: Callable[[ClientConnection, int], ClientLine],
        tls: Callable[[], TlsLayer],
        opened: Callable[[ClientConnection], str | None],
        closed: Callable[[ClientConnection], None],
    ) -> None:
        self._into = into
        self._make_line, self._make_tls, self._opened, self._closed = line, tls, opened, closed
        self._line: ClientLine | None = None
        self._tls: TlsLayer | None = None
        self._transport: asyncio.Transport | None = None
        self._is_full = False  # the transport keeps more than UNSENT_MAX
        self._full_since: float | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self.turns = asyncio.Semaphore(TURNS)
        self._under_way = 0  # requests that are being answered
        self.is_held = False  # nothing is read because of them, or as others have their turn
        self.address = self.host = self.local_host = self.user = ""
        self.is_closed = False
        self.is_ending = False  # what comes is dropped: nobody would answer it
        self._is_at_end = False  # of our side nothing more is sent
        self.is_broken = False  # it broke a rule
        self.heard = time.monotonic()  # when bytes came last

    @property
    def is_encrypted(self) -> bool:
        return self._tls is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        host, port = (transport.get_extra_info("peername") or ("?", 0))[:2]
        host = host.partition("%")[0]  # a record's host has no scope
        self.host, self.address = host, join_address(host, port)
        self.local_host = (transport.get_extra_info("sockname") or ("",))[0]
        transport.set_write_buffer_limits(UNSENT_MAX)
        refused = self._opened(self)
        if refused is not None:
            self.close(refused)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_closed = True
        self._writable.set()
        if self._line is not None:
            self._line.left()
        self._closed(self)

    def pause_writing(self) -> None:
        """Read no more of a client that takes no answers."""
        self._is_full = True
        self.note_unsent()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._is_full = False
        self.note_unsent()
        self._resume_reading()

    def began(self) -> None:
        self._under_way += 1
        if self._under_way >= UNDER_WAY_MAX and not self.is_held:  # each takes memory; `ended` goes on
            self.hold()

    def ended(self) -> None:
        self._under_way -= 1
        if self.is_held and self._under_way <= UNDER_WAY_MAX // 2:
            self.read_on()

    def hold(self) -> None:
        """Read no more for now."""
        self.is_held = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def read_on(self) -> None:
        """Read again after `hold`."""
        self.is_held = False
        self._resume_reading()

    def _resume_reading(self) -> None:
        """Read again, if nothing speaks against it, and take what has come before."""
        if self._transport is not None and not self._transport.is_closing() and not self.is_held and not self._is_full:
            self._transport.resume_reading()
            asyncio.get_running_loop().call_soon(self._go_on)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._into

    def buffer_updated(self, nbytes: int) -> None:
        """Take what has come from the socket."""
        self.heard = time.monotonic()
        data: memoryview | bytes = self._into[:nbytes]
        try:
            if self._line is None and self._tls is None and data[0] == FIRST_BYTE:
                self._tls = self._make_tls()
            if self._tls is not None:
                data = self._decrypted(self._tls, data)
            if data and self._line is None:
                self._line = self._make_line(self, data[0])
            if data and self._line is not None:
                self._line.receive(data)
        except FormatError as error:
            self._close_broken(error)

    def _decrypted(self, tls: TlsLayer, data: Buffer) -> bytes:
        try:
            return tls.receive(data)
        finally:
            self._send_raw(tls.to_send())  # its part of the handshake, or why it ends

    def _go_on(self) -> None:
        try:
            if self._line is not None and not self.is_closed:
                self._line.go_on()
        except FormatError as error:
            self._close_broken(error)

    # -- answers ------------------------------------------------------------------------------------------------------

    def send(self, frame: RemotingFrame) -> None:
        if self._line is not None:
            self._line.send(frame)

    def send_encoded(self, head: bytes, body: bytes = b"") -> None:
        if self._line is not None:
            self._line.send_encoded(head, body)

    def write(self, data: bytes) -> None:
        """Send bytes of the line; after the end of the connection nothing happens."""
        if self._tls is not None:
            self._tls.send(data)
            data = self._tls.to_send()
        self._send_raw(data)

    def _send_raw(self, data: bytes) -> None:
        if data and self._transport is not None and not self._transport.is_closing() and not self._is_at_end:
            self._transport.write(data)

    @property
    def is_writable(self) -> bool:
        """Return whether the client takes its answers."""
        return self._writable.is_set()

    async def writable(self) -> None:
        await self._writable.wait()

    def note_unsent(self) -> None:
        """Look again whether answers wait: the line has sent some, or kept some."""
        unsent = 0 if self._line is None else self._line.unsent
        if unsent > 2 * KEPT_MAX:  # its requests must be read, as they say that answers were taken
            self.close(f"{unsent} bytes of answers wait that it does not take")
        waits = self._is_full or unsent > UNSENT_MAX
        if waits and not self.is_closed:
            self._writable.clear()
        else:
            self._writable.set()

    # -- its end ------------------------------------------------------------------------------------------------------

    def close(self, why: str, level: int = logging.WARNING) -> None:
        """End the connection at once, and say why in the log."""
        if not self.is_closed:
            log.log(level, "%s: connection closed: %s", self.address, why)
        self.is_closed = self.is_broken = True
        if self._transport is not None:
            self._transport.abort()

    def _close_broken(self, error: FormatError) -> None:
        """End the connection of a client that broke a rule of what it speaks."""
        self.close(error.reason if self._line is None else f"it sent what is no {self._line.form}: {error}")

    def end(self) -> None:
        """End our side of the connection after what is to be sent.

        The other side stays open until the client has it all (`has_all`): a close that leaves bytes unread, or that
        meets more of them, becomes a reset, and answers that are under way are lost.
        """
        if self._transport is None or self._transport.is_closing():
            return
        if self._line is not None:
            self._line.end()
        if self._tls is not None:
            self._tls.end()
            self._send_raw(self._tls.to_send())
        self._is_at_end = True
        self._transport.write_eof()

    def has_all(self) -> bool:
        """Return whether the client's system has all that was sent to it."""
        if self._transport is None or self._transport.is_closing():
            return True
        unsent = fcntl.ioctl(self._transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, bytes(4))
        return not self._transport.get_write_buffer_size() and not int.from_bytes(unsent, sys.byteorder)

    def end_now(self) -> None:
        """Close the connection, whatever is still to be sent or to come."""
        if self._transport is not None:
            self._transport.abort()

    def check(self, now: float) -> None:
        """Close the connection if it is silent, or takes no answers, for too long."""
        unsent = 0 if self._transport is None else self._transport.get_write_buffer_size()
        unsent += 0 if self._line is None else self._line.unsent
        if unsent <= KEPT_MAX:
            self._full_since = None
        elif self._full_since is None:
            self._full_since = now
        if now - self.heard >= IDLE_S:
            self.close(f"nothing came for {IDLE_S:g} s")
        elif self._full_since is not None and now - self._full_since >= KEPT_S:
            self.close(f"it did not take {unsent} bytes of answers for {KEPT_S:g} s")
