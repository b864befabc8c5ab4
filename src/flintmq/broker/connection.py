"""One connection of a client: bytes to requests, answers to bytes, and its limits.

Whoever breaks a rule of the protocol loses this connection, with one line in the log; all others are served on.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import sys
import termios
import time
from collections.abc import Callable, Sequence
from typing import Final

from flintmq.broker.requests import ALONE_MIN, PlainTaker
from flintmq.errors import FormatError
from flintmq.remoting.client import join_address
from flintmq.remoting.frames import RemotingFrame, decode_frame, encode_frame, frame_size

log = logging.getLogger("flintmq.broker")

HEADER_MAX: Final = 1 << 20  # bytes of a frame's header
UNSENT_MAX: Final = 4 << 20  # bytes of answers that wait, beyond which nothing more is read
JOINED_MAX: Final = 256 << 10  # bytes of answers that are sent together
TURNS: Final = 8  # requests of one connection that are under way: their answers may come on top of UNSENT_MAX
TURN_S: Final = 0.01  # of the loop that the requests of one connection take, before others have their turn
UNDER_WAY_MAX: Final = 4096  # requests that are being answered, beyond which nothing more is read
KEPT_MAX: Final = 64 << 20  # bytes of answers that wait, beyond which the connection has 30 s
KEPT_S: Final = 30.0
IDLE_S: Final = 120.0  # silence after which a connection is closed
_TLS, _HTTP2 = 0x16, b"PRI "


class ClientConnection(asyncio.Protocol):
    """A client's connection. Thread: the loop's.

    Args:
        take: gets each request.
        plain: each gets the bytes of what may be a plain request, where its frame begins, and this connection, by which
            it answers. It returns where the frame ends; None: the next one, or `take`, is to have it.
        opened, closed: called once each; `opened` returns why the connection is refused, or None.
    """

    def __init__(
        self,
        take: Callable[[RemotingFrame, ClientConnection], None],
        plain: Sequence[PlainTaker],
        opened: Callable[[ClientConnection], str | None],
        closed: Callable[[ClientConnection], None],
    ) -> None:
        self._take, self._plain, self._opened, self._closed = take, plain, opened, closed
        self._received = bytearray()
        self._known = False  # whether the first bytes were looked at
        self._joined: list[bytes] = []  # answers to be sent together: of one block, or of one turn of the loop
        self._joined_size = 0  # bytes
        self._is_joining = False  # they are sent when this block, or this turn, is at its end
        self._transport: asyncio.Transport | None = None
        self._full_since: float | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self.turns = asyncio.Semaphore(TURNS)
        self._under_way = 0  # requests that are being answered
        self._is_held = False  # nothing is read because of them, or as others have their turn
        self.address = self.host = self.local_host = ""
        self.is_closed = False
        self.is_ending = False  # what comes is dropped: nobody would answer it
        self.is_broken = False  # it broke a rule
        self.heard = time.monotonic()  # when bytes came last

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
        self._received.clear()
        self._closed(self)

    def pause_writing(self) -> None:
        """Read no more of a client that takes no answers."""
        self._writable.clear()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._writable.set()
        self._read_on()

    def began(self) -> None:
        self._under_way += 1

    def ended(self) -> None:
        self._under_way -= 1
        if self._is_held and self._under_way <= UNDER_WAY_MAX // 2:
            self._go_on_reading()

    def _hold(self) -> None:
        """Read no more for now."""
        self._is_held = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def _go_on_reading(self) -> None:
        self._is_held = False
        self._read_on()

    def _read_on(self) -> None:
        """Read again, if nothing else speaks against it, and take what has come before."""
        if self._transport is None or self._transport.is_closing() or self._is_held or not self._writable.is_set():
            return
        self._transport.resume_reading()
        asyncio.get_running_loop().call_soon(self._go_on)

    def data_received(self, data: bytes) -> None:
        self.heard = time.monotonic()
        if self.is_ending:
            return
        self._received += data
        self._go_on()

    def _go_on(self) -> None:
        """Take the requests that have come, and send the answers that are there at once."""
        try:
            if self._received and (self._known or self._is_remoting()):
                self._is_joining = True
                self._read()
        except FormatError as error:
            self.close(f"it sent what is no remoting frame: {error}")
        finally:
            self._send_joined()

    def send(self, frame: RemotingFrame) -> None:
        """Send a frame, small ones together.

        These are of one received block, or of one turn of the loop: news for several queues answers as many pulls.
        """
        self._send(encode_frame(frame))

    def send_encoded(self, head: bytes, body: bytes = b"") -> None:
        """Send the bytes of a frame, in one part or two."""
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
            self._write(b"".join(joined))
        if last:
            self._write(last)

    @property
    def is_writable(self) -> bool:
        """Return whether the client takes its answers."""
        return self._writable.is_set()

    async def writable(self) -> None:
        await self._writable.wait()

    def close(self, why: str) -> None:
        """End the connection at once, and say why in the log."""
        if not self.is_closed:
            log.warning("%s: connection closed: %s", self.address, why)
        self.is_closed = self.is_broken = True
        if self._transport is not None:
            self._transport.abort()

    def end(self) -> None:
        """End our side of the connection after what is to be sent.

        The other side stays open until the client has it all (`has_all`): a close that leaves bytes unread, or that
        meets more of them, becomes a reset, and answers that are under way are lost.
        """
        self._write_joined()
        if self._transport is not None and not self._transport.is_closing():
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
        if unsent <= KEPT_MAX:
            self._full_since = None
        elif self._full_since is None:
            self._full_since = now
        if now - self.heard >= IDLE_S:
            self.close(f"nothing came for {IDLE_S:g} s")
        elif self._full_since is not None and now - self._full_since >= KEPT_S:
            self.close(f"it did not take {unsent} bytes of answers for {KEPT_S:g} s")

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _is_remoting(self) -> bool:
        """Look at the first bytes: a length of at most 16 MiB, TLS, or HTTP/2."""
        first = self._received[0]
        if first == _TLS:
            self.close("it speaks TLS, which is not supported yet")
        elif first == _HTTP2[0]:
            self.close("it speaks HTTP/2 (gRPC), which is not supported yet")
        else:
            self._known = True
        return self._known

    def _read(self) -> None:
        """Take the requests that have come whole."""
        received, at, began = self._received, 0, time.monotonic()
        with memoryview(received) as view:
            while (
                not self.is_closed
                and not self.is_ending
                and self._writable.is_set()
                and not self._is_held
                and (size := frame_size(view[at : at + 4].tobytes())) is not None
            ):
                if len(view) - at >= 8 and (length := int.from_bytes(view[at + 5 : at + 8], "big")) > HEADER_MAX:
                    raise FormatError(f"a header of {length} bytes; {HEADER_MAX} are the most", 5)
                if len(view) - at < size:
                    break
                for plain in self._plain:
                    if (end := plain(view, at, self)) is not None:
                        at = end
                        break
                else:
                    frame = decode_frame(view[at : at + size].tobytes())
                    at += size
                    if not frame.is_answer:
                        self._take(frame, self)
                if self._under_way >= UNDER_WAY_MAX:  # each takes memory; `ended` goes on
                    self._hold()
                elif time.monotonic() - began > TURN_S:
                    self._hold()
                    asyncio.get_running_loop().call_soon(self._go_on_reading)
        del received[:at]
