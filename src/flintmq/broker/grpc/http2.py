"""The seam to the HTTP/2 library: bytes to gRPC calls, their answers to bytes.

It does no I/O: who has the socket gives what comes to `receive`, and sends what `to_send` returns. All that is known of
`h2` is here. Its limits are not the library's:

    open calls of a connection     10,000, which its settings say
    a message                      as its maker says; larger: the call ends with RESOURCE_EXHAUSTED
    the headers of a call          32 KiB
    resets, settings, pings, ...   FLOODS in a second; more: GOAWAY with ENHANCE_YOUR_CALM
    messages that are not whole    beyond 64 MiB only the oldest gets more of a window, so they stay below 256 MiB

An answer waits in its call until the peer's windows take it: the library refuses what is larger.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, cast
from urllib.parse import quote

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    PingReceived,
    PriorityUpdated,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
    UnknownFrameReceived,
    WindowUpdated,
)
from h2.exceptions import FrameTooLargeError, ProtocolError
from h2.settings import SettingCodes, Settings

from flintmq.errors import FormatError

CALLS_MAX: Final = 10_000
HEADERS_MAX: Final = 32 << 10  # bytes of the headers of a call, as HTTP/2 counts them
KEPT_MAX: Final = 64 << 20  # bytes of messages that have not come whole
WINDOW: Final = 256 << 20  # of the connection, for requests
COUNT_EACH: Final = 256  # new calls from one count of the open ones to the next
PIECE: Final = 4 << 10  # bytes that the library gets at a time: a flood is seen before it has taken long
FLOODS: Final[Mapping[type[Event], int]] = {
    StreamReset: 100,  # of calls that began in the last second
    RemoteSettingsChanged: 10,  # each is looked at by all calls that wait
    PingReceived: 2_000,  # Go's and Java's clients measure with them, one for each round trip
    DataReceived: 1_000,  # empty ones
    TrailersReceived: 1_000,
    UnknownFrameReceived: 1_000,
    PriorityUpdated: 20_000,  # Node's client says one with each call
    WindowUpdated: 20_000,
}
"""What a peer may send in a second beside calls and their messages."""
OK, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE = 0, 3, 8, 12, 13, 14  # gRPC's statuses
_HEAD: Final = [(b":status", b"200"), (b"content-type", b"application/grpc")]
_TRAILERS: Final = [(b"grpc-status", b"0")]
_NO_GRPC: Final = [(b":status", b"415")]
_GRPC: Final = b"application/grpc"
_FRAME_HEAD: Final = 9  # bytes
_PREFIX: Final = 5  # bytes before a message: whether it is compressed, its length
_TIMEOUT: Final = re.compile(rb"(\d{1,8})([HMSmun])")
_UNITS: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}  # seconds


def _nothing() -> None:
    """Do nothing."""


class Call:
    """One call of a client, which is one stream of its connection.

    Attributes:
        path: the method, `/SERVICE/METHOD`.
        deadline: of the client, by the monotonic clock; None: it waits for ever.
        is_closed: nobody waits for an answer any more.
        on_message: gets each message of the client; set when the call is opened.
        on_end: called when the client has sent its last one.
        on_closed: called when the call is closed before its end was sent: by a reset, or with the connection.
    """

    __slots__ = (
        "_http2", "_number", "_received", "_outgoing", "_trailers", "_has_head", "_has_all", "_owed", "_began", "path",
        "headers", "deadline", "is_closed", "on_message", "on_end", "on_closed",
    )  # fmt: skip

    def __init__(self, http2: Http2, number: int, headers: Mapping[bytes, bytes]) -> None:
        self._http2, self._number, self.headers = http2, number, headers
        self._received, self._outgoing = bytearray(), bytearray()
        self._trailers: list[tuple[bytes, bytes]] | None = None
        self._has_head = False  # the answer's headers are sent
        self._has_all = False  # the client has sent all
        self._owed = 0  # bytes of the window that it was not given back yet
        self._began = time.monotonic()
        self.path = headers.get(b":path", b"").decode("latin-1")
        timeout = _TIMEOUT.fullmatch(headers.get(b"grpc-timeout", b""))
        self.deadline = None if timeout is None else self._began + int(timeout[1]) * _UNITS[timeout[2]]
        self.is_closed = False
        self.on_message: Callable[[bytes], None] = _drop
        self.on_end: Callable[[], None] = _nothing
        self.on_closed: Callable[[], None] = _nothing

    def header(self, name: str) -> str:
        """Return a header of the call; "" if it has none of this name."""
        return self.headers.get(name.encode(), b"").decode("utf-8", "replace")

    def send(self, message: bytes) -> None:
        """Send a message of the answer; nothing happens if the call is closed."""
        self._http2.send(self, message)

    def end(self, status: int = OK, text: str = "") -> None:
        """End the call after what was sent."""
        trailers = _TRAILERS
        if status != OK:
            told = quote(text.strip(), safe=" !#$&'()*+,/:;=?@[]").encode()
            trailers = [(b"grpc-status", b"%d" % status), (b"grpc-message", told)]
        self._http2.end(self, trailers)


def _drop(message: bytes) -> None:
    """Take a message that nobody wants."""


class Http2:
    """The server's side of one HTTP/2 connection. Thread: the loop's.

    Args:
        opened: gets each call when it begins.
        message_max: bytes of a message of a client.
        changed: called when there is something to send, outside of `receive`.

    Attributes:
        unsent: bytes of answers that wait for the peer's windows.
        is_over: the peer has said that it goes: nothing can be sent any more.
        takes_calls: False: new ones are refused.
    """

    def __init__(self, opened: Callable[[Call], None], message_max: int, changed: Callable[[], None]) -> None:
        self._opened, self._message_max, self._changed = opened, message_max, changed
        self._h2 = _Connection()
        self._calls: dict[int, Call] = {}
        self._waiting: dict[int, Call] = {}  # whose answers wait for the windows of their own streams
        self._short: dict[int, Call] = {}  # and for that of the connection, in order
        self._partial: dict[int, Call] = {}  # of which a message has not come whole
        self._kept = 0  # bytes of these messages
        self._is_short = False  # a window was not given back: too much is kept
        self._counts, self._since = Counter[type[Event]](), 0.0
        self.unsent = 0
        self.is_over, self.takes_calls = False, True
        self._handlers: dict[type[Event], Callable[..., None]] = {
            RequestReceived: self._request,
            DataReceived: self._data,
            StreamEnded: self._ended,
            StreamReset: self._reset,
            WindowUpdated: self._window,
            RemoteSettingsChanged: self._settings,
            ConnectionTerminated: self._goes,
        }

    # -- bytes --------------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Take bytes of the peer, no more than PIECE; after its end they are dropped.

        Raises FormatError: it breaks HTTP/2, or floods; `to_send` has the words of farewell.
        """
        if self.is_over:
            return
        try:
            events = self._h2.receive_data(data)
            self._h2.check_kept()
        except ProtocolError as error:
            self.is_over = True
            raise FormatError(str(error) or type(error).__name__) from None
        for event in events:
            self._take(event)

    def _take(self, event: Event) -> None:
        kind = type(event)
        if kind in FLOODS:
            self._count(kind, event)
        handler = self._handlers.get(kind)
        if handler is not None:
            handler(event)

    def to_send(self) -> bytes:
        """Return, once, what is to go to the peer."""
        return self._h2.data_to_send()

    def close(self) -> None:
        """Tell the peer that nothing more comes; answers that wait are dropped."""
        self._say_goodbye(ErrorCodes.NO_ERROR)

    def left(self) -> None:
        """Close all calls: the connection has ended."""
        for call in list(self._calls.values()):
            self._forget(call)
            call.on_closed()

    def _say_goodbye(self, code: ErrorCodes) -> None:
        if not self.is_over:
            self.is_over = True
            self._h2.close_connection(code)

    def _count(self, kind: type[Event], event: Event) -> None:
        """Count what a hostile peer sends many of.

        Raises FormatError: there were too many in this second.
        """
        now = time.monotonic()
        if kind is DataReceived:
            assert isinstance(event, DataReceived)
            if event.data or event.stream_ended is not None:
                return
        elif kind is StreamReset:
            assert isinstance(event, StreamReset)
            call = self._calls.get(event.stream_id)
            if call is not None and now - call._began > 1:  # a deadline, which many calls may have at once
                return
        if now - self._since > 1:
            self._counts.clear()
            self._since = now
        self._counts[kind] += 1
        if self._counts[kind] > FLOODS[kind]:
            self._say_goodbye(ErrorCodes.ENHANCE_YOUR_CALM)
            raise FormatError(f"more than {FLOODS[kind]} of {kind.__name__} in a second")

    # -- requests -----------------------------------------------------------------------------------------------------

    def _request(self, event: RequestReceived) -> None:
        number, headers = event.stream_id, cast(dict[bytes, bytes], dict(event.headers))
        is_grpc = headers.get(b":method") == b"POST" and headers.get(b"content-type", b"").startswith(_GRPC)
        if is_grpc and self.takes_calls:
            call = self._calls[number] = Call(self, number, headers)
            self._opened(call)
            return
        with suppress(ProtocolError):  # it was reset
            if is_grpc:
                self._h2.reset_stream(number, ErrorCodes.REFUSED_STREAM)  # a client asks again, here or elsewhere
            else:
                self._h2.send_headers(number, _NO_GRPC, end_stream=True)

    def _data(self, event: DataReceived) -> None:
        number, call, data = event.stream_id, self._calls.get(event.stream_id), event.data
        if call is None or call._trailers is not None:  # it was answered, or closed
            self._h2.acknowledge_received_data(event.flow_controlled_length, number)
            return
        call._owed += event.flow_controlled_length
        if not call._received and len(data) >= _PREFIX and len(data) == _PREFIX + int.from_bytes(data[1:5], "big"):
            self._message(call, data[0], bytes(data[_PREFIX:]))
        else:
            call._received += data
            self._kept += len(data)
            self._take_whole(call)
            if call._received:
                self._partial[number] = call
            else:
                self._partial.pop(number, None)
        if self._kept <= KEPT_MAX or number not in self._partial:
            self._give_window(call)
        self._share_window()

    def _take_whole(self, call: Call) -> None:
        """Take the messages that are whole now."""
        received = call._received
        while len(received) >= _PREFIX:
            length = int.from_bytes(received[1:_PREFIX], "big")
            if length > self._message_max:
                self._drop_part(call)
                call.end(RESOURCE_EXHAUSTED, f"a message of {length} bytes; {self._message_max} are the most")
            elif len(received) < _PREFIX + length:
                return
            else:
                compressed, message = received[0], bytes(received[_PREFIX : _PREFIX + length])
                del received[: _PREFIX + length]
                self._kept -= _PREFIX + length
                self._message(call, compressed, message)
                if call._trailers is not None:
                    self._drop_part(call)

    def _drop_part(self, call: Call) -> None:
        """Forget what has come of a call's next message."""
        self._kept -= len(call._received)
        call._received.clear()
        self._partial.pop(call._number, None)

    def _message(self, call: Call, compressed: int, message: bytes) -> None:
        if compressed:
            call.end(UNIMPLEMENTED, "messages that are compressed as a whole are not supported; send them plain")
        elif len(message) > self._message_max:
            call.end(RESOURCE_EXHAUSTED, f"a message of {len(message)} bytes; {self._message_max} are the most")
        else:
            call.on_message(message)

    def _give_window(self, call: Call) -> None:
        owed, call._owed = call._owed, 0
        if owed:
            self._h2.acknowledge_received_data(owed, call._number)

    def _share_window(self) -> None:
        """Give back the windows that were kept back: of the oldest call if much is kept."""
        if self._kept > KEPT_MAX or self._is_short:
            self._is_short = self._kept > KEPT_MAX
            for call in self._partial.values():
                self._give_window(call)
                if self._is_short:
                    break

    def _ended(self, event: StreamEnded) -> None:
        call = self._calls.get(event.stream_id)
        if call is not None and not call._has_all:
            call._has_all = True
            if call._received:
                call.end(INTERNAL, "the last message did not come whole")
            elif call._trailers is None:
                call.on_end()

    def _reset(self, event: StreamReset) -> None:
        call = self._calls.get(event.stream_id)
        if call is not None:
            self._forget(call)
            call.on_closed()

    def _window(self, event: WindowUpdated) -> None:
        if event.stream_id:
            call = self._waiting.get(event.stream_id) or self._short.get(event.stream_id)
            if call is not None:
                self._flush(call)
        while self._short and self._h2.outbound_flow_control_window > 0:
            self._flush(next(iter(self._short.values())))

    def _settings(self, event: RemoteSettingsChanged) -> None:
        for call in list(self._waiting.values()):
            self._flush(call)

    def _goes(self, event: ConnectionTerminated) -> None:
        self.is_over = True
        self.left()

    def _forget(self, call: Call) -> None:
        """Close a call: it is done with, or gives up what waits."""
        call.is_closed = True
        self.unsent -= len(call._outgoing)
        call._outgoing.clear()
        self._drop_part(call)
        self._waiting.pop(call._number, None)
        self._short.pop(call._number, None)
        self._calls.pop(call._number, None)
        if not self.is_over:
            self._give_window(call)
            self._share_window()

    # -- answers ------------------------------------------------------------------------------------------------------

    def send(self, call: Call, message: bytes) -> None:
        """Send a message of a call's answer."""
        if not call.is_closed and call._trailers is None:
            call._outgoing += b"\0" + len(message).to_bytes(4, "big") + message
            self.unsent += _PREFIX + len(message)
            self._answer(call)

    def end(self, call: Call, trailers: list[tuple[bytes, bytes]]) -> None:
        """End a call's answer."""
        if not call.is_closed and call._trailers is None:
            call._trailers = trailers
            self._answer(call)

    def _answer(self, call: Call) -> None:
        if call._number not in self._waiting and call._number not in self._short:
            self._flush(call)
        self._changed()

    def _flush(self, call: Call) -> None:
        """Send of a call's answer what the peer's windows take."""
        number, outgoing, h2 = call._number, call._outgoing, self._h2
        self._waiting.pop(number, None)
        self._short.pop(number, None)
        try:
            if not call._has_head and outgoing:
                h2.send_headers(number, _HEAD)
                call._has_head = True
            while outgoing:
                room = min(h2.local_flow_control_window(number), h2.max_outbound_frame_size)
                if room <= 0:
                    waiting = self._waiting if h2.outbound_flow_control_window > 0 else self._short
                    waiting[number] = call
                    return
                part = bytes(outgoing[:room])
                h2.send_data(number, part)
                del outgoing[:room]
                self.unsent -= len(part)
            if call._trailers is not None:
                h2.send_headers(number, call._trailers if call._has_head else _HEAD + call._trailers, end_stream=True)
                if not call._has_all:
                    h2.reset_stream(number, ErrorCodes.NO_ERROR)  # nobody reads what the client still sends
                self._forget(call)
        except ProtocolError:  # a reset has come, which is handled after this; or the connection is over
            self._forget(call)
            call.on_closed()


class _Connection(H2Connection):
    """The library's connection with our limits.

    For each new call it asks how many are open, and walks over all of them: with thousands of calls that would be most
    of the work. Here they are counted each COUNT_EACH calls, and in between none is taken for ended.
    """

    def __init__(self) -> None:
        # Headers are looked at here: few are, and none goes on to anybody.
        super().__init__(
            H2Configuration(
                client_side=False,
                validate_inbound_headers=False,
                normalize_inbound_headers=False,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self._counted = self._new = 0
        self.decoder.max_header_list_size = HEADERS_MAX
        limits = {SettingCodes.MAX_CONCURRENT_STREAMS: CALLS_MAX, SettingCodes.MAX_HEADER_LIST_SIZE: HEADERS_MAX}
        self.local_settings = Settings(client=False, initial_values=limits)
        self.initiate_connection()
        self.increment_flow_control_window(WINDOW - self.inbound_flow_control_window)

    def check_kept(self) -> None:
        """Refuse a frame that is too large at its head.

        The library first waits for all of it, up to 16 MiB.
        """
        if len(self.incoming_buffer._data) >= self.max_inbound_frame_size + _FRAME_HEAD:
            self.close_connection(ErrorCodes.FRAME_SIZE_ERROR)
            raise FrameTooLargeError("a frame is larger than it may be")

    @property
    def open_inbound_streams(self) -> int:
        self._new += 1
        if self._new >= COUNT_EACH or self._counted + self._new > CALLS_MAX:
            self._counted, self._new = super().open_inbound_streams, 1
        return self._counted + self._new - 1
