"""The seam to the HTTP/2 library: the library's other side as the client, no socket."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.settings import SettingCodes
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.broker.grpc import http2
from flintmq.broker.grpc.http2 import Call, Http2
from flintmq.errors import FormatError
from tests.broker.grpc.talk import Answered, Streams, client_connection, headers, prefixed

PATH = "/a.Service/Method"
MESSAGE_MAX = 1 << 20
CALM = int(ErrorCodes.ENHANCE_YOUR_CALM)


class Pair:
    """A client and the seam, joined by hand. Each call is answered by `handle` when its request has come whole."""

    def __init__(self, handle: Callable[[Call, list[bytes]], None] | None = None, *, reads: bool = True) -> None:
        self.handle = handle or echo
        self.calls: list[Call] = []
        self.closed: list[Call] = []
        self.changes = 0
        self.seam = Http2(self.opened, MESSAGE_MAX, self.changed)
        self.client = Streams(client_connection(), reads=reads)
        self.deliver()

    @property
    def h2(self) -> H2Connection:
        return self.client.h2

    def changed(self) -> None:
        self.changes += 1

    def opened(self, call: Call) -> None:
        got: list[bytes] = []
        self.calls.append(call)
        call.on_message = got.append
        call.on_end = lambda: self.handle(call, got)
        call.on_closed = lambda: self.closed.append(call)

    def deliver(self, cuts: Iterator[int] | None = None) -> None:
        """Carry bytes to and fro until nobody has any."""
        while data := self.h2.data_to_send():
            for piece in pieces(data, cuts):
                self.seam.receive(piece)
            self.back()
        self.back()

    def back(self) -> None:
        if data := self.seam.to_send():
            self.client.take(data)

    def start(self, message: bytes | None = b"hello", *, ends: bool = True, path: str = PATH, **more: str) -> int:
        number = self.h2.get_next_available_stream_id()
        self.h2.send_headers(number, headers(path, **more), end_stream=message is None and ends)
        if message is not None:
            data = prefixed(message)
            for at in range(0, len(data), 16_384):
                self.h2.send_data(number, data[at : at + 16_384], end_stream=ends and at + 16_384 >= len(data))
        return number

    def ask(self, message: bytes = b"hello", **more: str) -> Answered:
        number = self.start(message, **more)
        self.deliver()
        return self.client.of[number]


def echo(call: Call, got: list[bytes]) -> None:
    for one in got:
        call.send(one)
    call.end()


def pieces(data: bytes, cuts: Iterator[int] | None) -> Iterator[bytes]:
    if cuts is None:
        yield data
        return
    at = 0
    while at < len(data):
        size = next(cuts)
        yield data[at : at + size]
        at += size


# -- calls -------------------------------------------------------------------------------------------------------------


def test_a_call_and_its_answer():
    pair = Pair()
    answer = pair.ask(b"hello", grpc_timeout="20S")
    assert (answer.code, answer.messages(), answer.status, answer.is_over) == ("200", [b"hello"], 0, True)
    [call] = pair.calls
    assert (call.path, call.header("x-mq-client-id"), call.header("x-mq-none")) == (PATH, "test", "")
    assert call.is_closed and pair.closed == [] and pair.seam.unsent == 0


@pytest.mark.parametrize(
    ("timeout", "seconds"),
    [("20S", 20), ("500m", 0.5), ("2M", 120), ("1H", 3600), ("7u", 7e-6), ("9n", 9e-9), ("x", None), ("5", None),
     ("999999999S", None), ("-1S", None)],
)  # fmt: skip
def test_a_deadline(timeout: str, seconds: float | None):
    pair = Pair()
    pair.ask(grpc_timeout=timeout)
    [call] = pair.calls
    assert call.deadline == (None if seconds is None else call._began + seconds)


def test_an_empty_answer_has_its_status_alone():
    pair = Pair(lambda call, got: call.end(12, "Méthode: 100% unknown\nx "))
    answer = pair.ask()
    assert (answer.code, answer.status, answer.messages()) == ("200", 12, [])
    assert answer.trailers["grpc-message"] == "M%C3%A9thode: 100%25 unknown%0Ax"


def test_messages_before_an_error_are_kept():
    pair = Pair(lambda call, got: (call.send(b"one"), call.end(13, "then not"), call.send(b"two"), call.end()))
    answer = pair.ask()
    assert (answer.messages(), answer.status) == ([b"one"], 13)


def test_messages_both_ways_while_the_call_is_open():
    pair = Pair()
    number = pair.start(b"one", ends=False)
    pair.deliver()
    [call] = pair.calls
    call.send(b"from the server")
    assert pair.changes == 1, "who has the socket is told"
    pair.back()
    pair.h2.send_data(number, prefixed(b"two") + prefixed(b"")[:3])
    pair.h2.send_data(number, prefixed(b"")[3:], end_stream=True)
    pair.deliver()
    assert pair.client.of[number].messages() == [b"from the server", b"one", b"two", b""]


def test_an_answer_before_the_request_is_whole_resets_the_rest():
    pair = Pair()
    number = pair.start(b"one", ends=False)
    pair.deliver()
    pair.calls[0].end(3, "enough")
    pair.back()
    assert pair.client.of[number].reset == int(ErrorCodes.NO_ERROR) and pair.client.of[number].status == 3
    assert pair.ask().status == 0, "the connection lives"


@pytest.mark.parametrize(
    ("more", "code"),
    [({"content_type": "text/plain"}, "415"), ({"content_type": "application/grpc+proto"}, "200")],
)
def test_what_is_no_grpc(more: dict[str, str], code: str):
    pair = Pair()
    number = pair.h2.get_next_available_stream_id()
    found = [one for one in headers(PATH) if one[0] != "content-type"] + [("content-type", more["content_type"])]
    pair.h2.send_headers(number, found)
    pair.h2.send_data(number, prefixed(b"x"), end_stream=True)
    pair.deliver()
    assert pair.client.of[number].code == code and len(pair.calls) == (code == "200")
    get = pair.h2.get_next_available_stream_id()
    pair.h2.send_headers(get, [(":method", "GET"), *headers(PATH)[1:]], end_stream=True)
    pair.deliver()
    assert pair.client.of[get].code == "415"


def test_a_compressed_message_is_refused():
    pair = Pair()
    number = pair.h2.get_next_available_stream_id()
    pair.h2.send_headers(number, headers(PATH))
    pair.h2.send_data(number, prefixed(b"zipped", 1), end_stream=True)
    pair.deliver()
    assert pair.client.of[number].status == 12 and "compressed" in pair.client.of[number].trailers["grpc-message"]


@pytest.mark.parametrize("data", [b"\0", b"\0\0\0\0", prefixed(b"hello")[:-1], prefixed(b"") + b"\0\0"])
def test_a_request_that_ends_early(data: bytes):
    pair = Pair()
    number = pair.h2.get_next_available_stream_id()
    pair.h2.send_headers(number, headers(PATH))
    pair.h2.send_data(number, data, end_stream=True)
    pair.deliver()
    assert pair.client.of[number].status == 13 and pair.seam._kept == 0


def test_a_reset_closes_its_call():
    pair = Pair(lambda call, got: None)
    number = pair.start()
    pair.deliver()
    [call] = pair.calls
    pair.h2.reset_stream(number, ErrorCodes.CANCEL)
    pair.deliver()
    assert call.is_closed and pair.closed == [call]
    call.send(b"late")
    call.end()
    assert pair.seam.to_send() == b"", "nobody gets it, nothing happens"


def test_a_call_that_is_answered_and_reset_in_one_block():
    """The library has taken the reset before the request is handled."""
    pair = Pair()
    number = pair.start()
    pair.h2.reset_stream(number, ErrorCodes.CANCEL)
    pair.deliver()
    assert pair.closed == pair.calls and pair.calls[0].is_closed
    assert pair.ask().messages() == [b"hello"]


def test_the_end_of_the_connection_closes_all_calls():
    pair = Pair(lambda call, got: None)
    for _ in range(3):
        pair.start()
    pair.deliver()
    pair.seam.left()
    assert pair.closed == pair.calls and len(pair.closed) == 3


def test_a_client_that_goes_says_so():
    pair = Pair(lambda call, got: None)
    pair.start()
    pair.deliver()
    pair.h2.close_connection()
    pair.seam.receive(pair.h2.data_to_send())
    assert pair.seam.is_over and pair.closed == pair.calls
    pair.calls[0].send(b"late")
    pair.seam.receive(b"whatever comes after it is dropped")


def test_no_calls_are_taken_before_the_end():
    pair = Pair()
    number = pair.start(b"one", ends=False)
    pair.deliver()
    pair.seam.takes_calls = False
    late = pair.ask()
    assert late.reset == int(ErrorCodes.REFUSED_STREAM), "a client may ask again elsewhere"
    pair.h2.send_data(number, b"", end_stream=True)
    pair.deliver()
    assert pair.client.of[number].messages() == [b"one"], "what was begun is answered"
    pair.seam.close()
    pair.back()
    assert pair.client.goaway == 0


# -- windows -----------------------------------------------------------------------------------------------------------


def test_an_answer_waits_for_the_windows_of_its_client():
    """The library refuses what is larger: it is sent in pieces, as the client takes it."""
    body = bytes(range(256)) * 1024  # 256 KiB, four windows
    pair = Pair(lambda call, got: (call.send(body), call.end()), reads=False)
    number = pair.start()
    pair.deliver()
    answer = pair.client.of[number]
    assert len(answer.data) == 65_535 and not answer.is_over
    assert pair.seam.unsent == len(body) + 5 - 65_535
    while not answer.is_over:
        pair.h2.increment_flow_control_window(40_000, number)
        pair.h2.increment_flow_control_window(40_000)
        pair.deliver()
    assert answer.messages() == [body] and answer.is_over and pair.seam.unsent == 0


def test_the_window_of_the_connection_is_shared():
    pair = Pair(lambda call, got: (call.send(bytes(40_000)), call.end()), reads=False)
    numbers = [pair.start() for _ in range(3)]
    pair.deliver()
    assert sum(len(pair.client.of[one].data) for one in numbers) == 65_535
    pair.h2.increment_flow_control_window(1 << 20)
    pair.deliver()
    assert all(pair.client.of[one].is_over and len(pair.client.of[one].data) == 40_005 for one in numbers)


def test_a_setting_opens_the_windows_of_all_calls():
    pair = Pair(lambda call, got: (call.send(bytes(100_000)), call.end()), reads=False)
    pair.h2.increment_flow_control_window(1 << 20)
    number = pair.start()
    pair.deliver()
    assert not pair.client.of[number].is_over
    pair.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 1 << 20})
    pair.deliver()
    assert len(pair.client.of[number].data) == 100_005 and pair.client.of[number].is_over


def test_what_waits_is_dropped_with_its_call():
    pair = Pair(lambda call, got: (call.send(bytes(100_000)), call.end()), reads=False)
    number = pair.start()
    pair.deliver()
    assert pair.seam.unsent > 0
    pair.h2.reset_stream(number)
    pair.deliver()
    assert pair.seam.unsent == 0 and pair.seam._waiting == {} and pair.closed == pair.calls


def send_all(pair: Pair, number: int, data: bytes) -> bytes:
    """Send what the seam's windows take; what is left."""
    while data and (room := min(pair.h2.local_flow_control_window(number), pair.h2.max_outbound_frame_size)):
        pair.h2.send_data(number, data[:room])
        data = data[room:]
        pair.deliver()
    return data


def test_a_request_larger_than_a_window():
    pair = Pair()
    number = pair.start(None, ends=False)
    assert send_all(pair, number, prefixed(bytes(500_000))) == b""
    pair.h2.end_stream(number)
    pair.deliver()
    assert [len(one) for one in pair.client.of[number].messages()] == [500_000]


def test_requests_that_never_end_fill_no_memory(monkeypatch: pytest.MonkeyPatch):
    """Beyond the limit only the oldest goes on; then the others do."""
    monkeypatch.setattr(http2, "KEPT_MAX", 300_000)
    pair = Pair()
    numbers = [pair.start(None, ends=False) for _ in range(10)]
    pair.deliver()
    data = prefixed(bytes(200_000))
    left = {number: send_all(pair, number, data[:-1]) for number in numbers}
    assert pair.seam._kept <= 300_000 + 10 * 65_535
    assert [number for number, rest in left.items() if not rest] == numbers[:1], "the others wait for their windows"
    for number in numbers:
        assert send_all(pair, number, left[number] + data[-1:]) == b""
        pair.h2.end_stream(number)
        pair.deliver()
        assert [len(one) for one in pair.client.of[number].messages()] == [200_000]
    assert pair.seam._kept == 0 and pair.seam._partial == {}


def test_the_oldest_that_goes_lets_the_next_one_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(http2, "KEPT_MAX", 100_000)
    pair = Pair()
    first, second, third = (pair.start(None, ends=False) for _ in range(3))
    data = prefixed(bytes(200_000))
    send_all(pair, first, data[:150_000])
    left, rest = send_all(pair, second, data), send_all(pair, third, data)
    assert left and rest
    pair.h2.reset_stream(first)
    pair.deliver()
    assert send_all(pair, second, left) == b""


# -- limits ------------------------------------------------------------------------------------------------------------


def test_a_message_that_is_too_large_ends_its_call():
    pair = Pair()
    number = pair.h2.get_next_available_stream_id()
    pair.h2.send_headers(number, headers(PATH))
    pair.h2.send_data(number, b"\0" + (MESSAGE_MAX + 1).to_bytes(4, "big") + b"begins")
    pair.deliver()
    answer = pair.client.of[number]
    assert answer.status == 8 and f"{MESSAGE_MAX} are the most" in answer.trailers["grpc-message"]
    assert pair.seam._kept == 0 and pair.ask().status == 0


def test_headers_that_are_too_large_end_the_connection():
    pair = Pair()
    number = pair.h2.get_next_available_stream_id()
    pair.h2.send_headers(number, [*headers(PATH), ("x-large", "x" * (33 << 10))], end_stream=True)
    with pytest.raises(FormatError):
        pair.deliver()
    pair.back()
    assert pair.client.goaway == CALM and pair.calls == []


def flooded(pair: Pair, frames: bytes) -> str:
    """What the seam says of frames beyond a limit; it says goodbye."""
    pair.deliver()
    with pytest.raises(FormatError) as caught:
        pair.seam.receive(frames)
    pair.back()
    assert pair.client.goaway == CALM
    assert pair.seam.is_over
    return caught.value.reason


def raw(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """A frame of HTTP/2."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


@pytest.mark.parametrize(
    ("frame", "most", "name"),
    [
        (raw(4, 0, 0, b""), 10, "RemoteSettingsChanged"),
        (raw(6, 0, 0, bytes(8)), 2_000, "PingReceived"),
        (raw(0, 0, 1, b""), 1_000, "DataReceived"),
        (raw(2, 0, 1, bytes([0, 0, 0, 3, 16])), 20_000, "PriorityUpdated"),
        (raw(8, 0, 0, (1).to_bytes(4, "big")), 20_000, "WindowUpdated"),
        (raw(99, 0, 0, b"?"), 1_000, "UnknownFrameReceived"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_flood_is_calmed(frame: bytes, most: int, name: str):
    pair = Pair()
    pair.start(b"x", ends=False)
    pair.deliver()
    pair.seam._counts.clear()
    pair.seam._since += 3600  # that second lasts
    pair.seam.receive(frame * (most - 10))
    assert not pair.seam.is_over
    assert flooded(pair, frame * 5000) == f"more than {most} of {name} in a second"


def test_a_second_later_all_is_forgotten():
    pair = Pair()
    for _ in range(3):
        pair.seam.receive(raw(4, 0, 0, b"") * 9)
        pair.seam._since -= 1.1
    assert not pair.seam.is_over


def test_rapid_resets_are_calmed():
    pair = Pair(lambda call, got: None)
    for _ in range(100):
        number = pair.start()
        pair.h2.reset_stream(number)
    pair.deliver()
    assert not pair.seam.is_over and len(pair.closed) == 100
    number = pair.start()
    pair.h2.reset_stream(number)
    assert flooded(pair, pair.h2.data_to_send()) == "more than 100 of StreamReset in a second"


def test_many_deadlines_at_once_are_no_flood():
    pair = Pair(lambda call, got: None)
    numbers = [pair.start() for _ in range(90)]
    pair.deliver()
    numbers += [pair.start() for _ in range(90)]
    pair.deliver()
    for call in pair.calls:
        call._began -= 2
    for number in numbers:
        pair.h2.reset_stream(number)
    pair.deliver()
    assert not pair.seam.is_over and len(pair.closed) == 180


def test_as_many_calls_as_the_settings_say(monkeypatch: pytest.MonkeyPatch):
    """The open ones are counted seldom; the limit holds all the same, and ended ones do not count."""
    monkeypatch.setattr(http2, "CALLS_MAX", 50)
    pair = Pair(lambda call, got: None)
    assert pair.h2.remote_settings.max_concurrent_streams == 50
    for _ in range(10):
        for _ in range(50):
            pair.start()
        pair.deliver()
        for call in pair.calls:
            call.end()
        pair.back()
    assert len(pair.calls) == 500 and len(pair.seam._h2.streams) <= http2.COUNT_EACH + 50
    for _ in range(50):
        pair.start()
    pair.deliver()
    pair.h2.remote_settings[SettingCodes.MAX_CONCURRENT_STREAMS] = 1000
    pair.h2.remote_settings.acknowledge()
    pair.start()
    with pytest.raises(FormatError, match="Max inbound streams is 50, 50 open"):
        pair.deliver()


def test_four_thousand_calls_at_once():
    pair = Pair(lambda call, got: None)
    for _ in range(4_000):
        pair.start(b"x" * 10)
        pair.deliver() if len(pair.h2._data_to_send) > 60_000 else None
    pair.deliver()
    assert len(pair.calls) == 4_000
    for call in pair.calls:
        call.send(b"done")
        call.end()
    pair.back()
    assert sum(one.is_over and one.status == 0 for one in pair.client.of.values()) == 4_000


@pytest.mark.parametrize(
    "data",
    [
        b"PRI * HTTP/1.1\r\n\r\n",
        b"PUT / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000 04 00 00000001"),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 20_000,  # a frame of 16 MiB, of which not all need come
    ],
)
def test_bytes_that_are_no_http2(data: bytes):
    with pytest.raises(FormatError):
        Http2(lambda call: None, MESSAGE_MAX, lambda: None).receive(data)


# -- any bytes ---------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.lists(st.binary(max_size=300), max_size=4), st.booleans()), max_size=5),
    st.lists(st.integers(1, 40), min_size=1),
)
@settings(max_examples=150, deadline=None)
def test_bytes_cut_anywhere(calls: list[tuple[list[bytes], bool]], sizes: list[int]):
    """Calls with several messages, some reset: whole ones are echoed, wherever the bytes are cut."""

    def cuts() -> Iterator[int]:
        while True:
            yield from sizes

    pair, numbers = Pair(), []
    for messages, is_reset in calls:
        number = pair.start(None, ends=False)
        for one in messages:
            pair.h2.send_data(number, prefixed(one))
        if is_reset:
            pair.h2.reset_stream(number)
        else:
            pair.h2.end_stream(number)
            numbers.append((number, messages))
    pair.deliver(cuts())
    for number, messages in numbers:
        assert pair.client.of[number].messages() == messages and pair.client.of[number].status == 0
    assert pair.seam._calls == {} and pair.seam._kept == 0 and pair.seam.unsent == 0 and not pair.seam.is_over


def begun() -> bytes:
    """The bytes of a client with two calls."""
    pair = Pair()
    client = client_connection()
    for message in (b"one", b"two" * 100):
        number = client.get_next_available_stream_id()
        client.send_headers(number, headers(PATH))
        client.send_data(number, prefixed(message), end_stream=True)
    assert pair.calls == []
    return client.data_to_send()


BEGUN = begun()


@given(
    st.lists(st.tuples(st.integers(0, len(BEGUN)), st.binary(max_size=12), st.booleans()), max_size=5),
    st.lists(st.integers(0, len(BEGUN)), max_size=4),
)
@settings(max_examples=400, deadline=None)
def test_damaged_bytes_end_the_connection_at_most(damage: list[tuple[int, bytes, bool]], cuts: list[int]):
    data = bytearray(BEGUN)
    for at, new, replaces in damage:
        data[at : at + (len(new) if replaces else 0)] = new
    calls: list[Call] = []
    seam = Http2(calls.append, MESSAGE_MAX, lambda: None)
    ends = [0, *sorted(min(one, len(data)) for one in cuts), len(data)]
    try:
        for begin, end in pairwise(ends):
            seam.receive(bytes(data[begin:end]))
    except FormatError:
        assert seam.is_over
    for call in calls:
        call.send(b"answer")
        call.end()
    seam.left()
    assert seam.unsent == 0 and seam._kept == 0 and all(call.is_closed for call in calls)
