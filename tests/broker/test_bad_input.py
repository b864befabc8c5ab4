"""Clients that break the protocol, or are slow: they lose their connection, and all others are served on."""

import asyncio
import json
import logging
import socket
import struct
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flintmq.broker import Broker
from flintmq.broker.connection import ClientConnection
from flintmq.broker.remoting_line import RemotingLine
from flintmq.broker.requests import Request
from flintmq.remoting.frames import FRAME_MAX, RemotingFrame
from tests.broker.talk import KEYS, Line, heartbeat, pull, request
from tests.support.engine import message, open_small
from tests.support.loopback import SMALL_BUFFER
from tests.support.threads import within

Serve = Callable[..., Broker]
Connected = Callable[[Broker], Line]
HEARTBEAT, PULL, ROUTE = 34, 11, 105


def frame(header: bytes, *, kind: int = 0, length: int | None = None, body: bytes = b"") -> bytes:
    """A frame with any header; `length`: what it says of it."""
    size = len(header) if length is None else length
    return struct.pack(">II", 4 + len(header) + len(body), kind << 24 | size) + header + body


NO_PROTOCOL = {
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "http2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "tls": bytes.fromhex("16030100c8010000c40303") + bytes(190),
    "ssh": b"SSH-2.0-OpenSSH_9.6\r\n",
    "redis": b"*1\r\n$4\r\nPING\r\n",
    "no bytes": b"\xff" * 64,
    "length 0": struct.pack(">I", 0),
    "length 3": struct.pack(">I", 3) + b"abc",
    "length of 16 MiB and one": struct.pack(">I", FRAME_MAX + 1),
    "negative length": struct.pack(">i", -1),
    "no header": struct.pack(">II", 4, 0),
    "header longer than its frame": frame(b"{}", length=3),
    "header of 2 MiB": struct.pack(">II", 4 << 20, 2 << 20),
    "kind 2": frame(b'{"code":105,"opaque":1}', kind=2),
    "kind 255": frame(b'{"code":105,"opaque":1}', kind=255),
    "no JSON": frame(b"code=105"),
    "half an object": frame(b'{"code":105'),
    "a list": frame(b"[105]"),
    "no code": frame(b'{"opaque":1}'),
    "a code that is none": frame(b'{"code":"many","opaque":1}'),
    "a code beyond 32 bits": frame(b'{"code":99999999999,"opaque":1}'),
    "50,000 deep": frame(b'{"code":105,"opaque":1,"x":' + b"[" * 50_000 + b"]" * 50_000 + b"}"),
    "50,000 objects deep": frame(b'{"a":' * 50_000 + b"1" + b"}" * 50_000),
    "a ROCKETMQ header of three bytes": frame(b"abc", kind=1),
    "a ROCKETMQ header with a long remark": frame(struct.pack(">hBhiii", 105, 0, 479, 1, 0, 1 << 30), kind=1),
    "1,025 fields": request(ROUTE, {str(number): "" for number in range(1025)}),
    "1,025 fields in a ROCKETMQ header": frame(
        struct.pack(">hBhiii", 105, 0, 479, 1, 0, 0)
        + struct.pack(">i", 1025 * 10)
        + b"".join(b"\0\4%04d\0\0\0\0" % number for number in range(1025)),
        kind=1,
    ),
    "a good request, and then none": request(ROUTE, {"topic": "T"}) + b"\xff\xff\xff\xff",
}


@pytest.mark.parametrize("data", NO_PROTOCOL.values(), ids=NO_PROTOCOL.keys())
def test_bytes_that_are_no_protocol(
    served: Serve, resting: Path, line: Connected, caplog: pytest.LogCaptureFixture, data: bytes
):
    """That connection is closed, with one line in the log, and counted; another one is served."""
    broker = served(resting)
    good, bad = line(broker), line(broker)
    assert good.ask(ROUTE, {"topic": "T"}).code == 0
    with caplog.at_level(logging.INFO, "flintmq"):
        bad.send(data)
        assert bad.hung_up()
        assert good.ask(ROUTE, {"topic": "T"}).code == 0
        assert within(lambda: broker.stats().connections == 1)
    [told] = [one.getMessage() for one in caplog.records]
    assert "connection closed: " in told and told.startswith("127.0.0.1:") and "\n" not in told and len(told) < 300
    assert (broker.stats().broken, broker.stats().accepted, broker.stats().failed) == (1, 2, 0)


def test_ends_that_break_no_rule_are_not_counted(
    served: Serve, resting: Path, line: Connected, caplog: pytest.LogCaptureFixture
):
    broker = served(resting)
    with caplog.at_level(logging.INFO, "flintmq"):
        for data in (b"", b"\0\0", request(ROUTE, {"topic": "T"}), request(ROUTE, {"topic": "T"})[:-3]):
            talk = line(broker)
            talk.send(data)
            talk.close()
        assert within(lambda: broker.stats().accepted == 4 and broker.stats().connections == 0)
    assert broker.stats().broken == 0 and caplog.records == []


LOOSE = b"{clientID:'a'," + b"'a':1," * (100 << 10) + b"}"  # 600 KiB, which take the loose parser a second


def test_text_that_takes_long_is_not_parsed(served: Serve, resting: Path, line: Connected):
    """Others would wait for it: a header closes its connection, a body is refused."""
    broker = served(resting)
    good, bad, worse = line(broker), line(broker), line(broker)
    begin = time.monotonic()
    for _ in range(20):
        answer = bad.ask(HEARTBEAT, body=LOOSE)
        assert answer.code == 1 and "no plain JSON" in str(answer.remark)
    large = bad.ask(HEARTBEAT, body=heartbeat("a", "G") + b" " * (1 << 20))
    assert large.code == 1 and "1048576 are the most" in str(large.remark)
    worse.send(frame(LOOSE))
    assert worse.hung_up() and good.ask(ROUTE, {"topic": "T"}).code == 0
    assert time.monotonic() - begin < 10
    many = heartbeat("a", "G", topics={f"topic-{number}": "*" for number in range(4000)})
    assert len(many) > 500_000 and bad.ask(HEARTBEAT, body=many).code == 0, "plain JSON may be long"


def test_what_would_hold_the_loop_is_refused(served: Serve, resting: Path, line: Connected):
    """Each within a megabyte; before these limits one took up to 0.4 s, in which nobody else was answered."""
    broker = served(resting)
    talk, other = line(broker), line(broker)
    groups = [f"g{number}" for number in range(1001)]
    refused = talk.ask(HEARTBEAT, body=heartbeat("a", *groups))
    assert (refused.code, refused.remark) == (1, "a heartbeat of 1001 consumer groups; 1000 are the most")
    assert talk.ask(HEARTBEAT, body=heartbeat("a", *groups[1:])).code == 0
    tags = "||".join(f"t{number}" for number in range(10_000))
    long = talk.ask(PULL, pull(subscription=tags))
    assert (long.code, long.remark) == (1, f"a subscription of {len(tags)} letters; 65536 are the most")
    assert talk.ask(PULL, pull(subscription=tags[:65_536])).code == 0
    other.ask(HEARTBEAT, body=heartbeat("b", "G", topics={"T": tags}))
    asked = {name: value for name, value in pull(sysFlag=0).items() if name != "subscription"}
    assert talk.ask(PULL, asked).code == 1, "that of a heartbeat as well"


def test_answers_and_requests_of_any_form(served: Serve, resting: Path, line: Connected):
    """A frame that answers nothing is left out; requests with loose JSON, or of kind 1, are answered."""
    broker = served(resting)
    talk = line(broker)
    talk.send(request(0, opaque=77, flag=1))
    rocketmq = struct.pack(">hBhiii", ROUTE, 9, 317, 8, 0, 0) + struct.pack(">i", 12) + b"\0\5topic\0\0\0\1T"
    for opaque, data in (
        (5, frame(b"{code:105,opaque:5,'extFields':{topic:'T',},}")),
        (6, frame(b'{"code":105,"opaque":6,"extFields":{"topic":"T","n":7,"b":true,"x":null,"l":[1]},"more":{}}')),
        (7, frame(b'{"code":105,"opaque":7,"extFields":{"topic":"\\u0054"}}')),
        (8, frame(rocketmq, kind=1)),
    ):
        talk.send(data)
        assert talk.answer(opaque).code == 0
    for fields in (b"", b',"extFields":null', b',"extFields":{}', b',"extFields":[]'):
        talk.send(frame(b'{"code":105,"opaque":9' + fields + b"}"))
        assert talk.answer(9).remark == "the field topic is missing"


def test_requests_byte_by_byte_and_joined(served: Serve, resting: Path, line: Connected):
    talk = line(served(resting))
    talk.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    one = request(ROUTE, {"topic": "T"}, opaque=1)
    for at in range(len(one)):
        talk.send(one[at : at + 1])
    assert talk.answer(1).code == 0
    many = b"".join(request(ROUTE, {"topic": "T" if n % 2 else "U"}, opaque=n) for n in range(300))
    cut = len(many) - 40
    talk.send(many[:cut])
    found = [talk.frame() for _ in range(299)]
    assert talk.is_quiet(0.05)
    talk.send(many[cut:])
    found.append(talk.frame())
    assert [(one.opaque, one.code) for one in found if one] == [(n, 0 if n % 2 else 17) for n in range(300)]


def test_unknown_requests_are_counted_by_number(
    served: Serve, resting: Path, line: Connected, caplog: pytest.LogCaptureFixture
):
    broker = served(resting)
    talk = line(broker)
    with caplog.at_level(logging.INFO, "flintmq"):
        for code in (350, 350, 9999, -5, 350):
            answer = talk.ask(code)
            assert (answer.code, answer.remark) == (3, f" request type {code} not supported")
    assert broker.stats().unsupported == {350: 3, 9999: 1, -5: 1}
    assert len(caplog.records) == 3, "one line for each number"


def test_a_million_unknown_numbers_take_no_memory(
    served: Serve, resting: Path, line: Connected, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("flintmq.broker.requests.COUNTED_MAX", 3)
    broker = served(resting)
    talk = line(broker)
    for code in (1001, 1002, 1003, 1004, 1005, 1001):
        assert talk.ask(code).code == 3
    assert broker.stats().unsupported == {1001: 2, 1002: 1, 1003: 1}


WRITES = (10, 310, 320, 36, 37, 17, 215, 216, 200, 207, 25, 222)


@pytest.mark.parametrize("code", WRITES)
def test_what_writes_is_refused_in_words(served: Serve, resting: Path, line: Connected, code: int):
    broker = served(resting)
    answer = line(broker).ask(code, {"topic": "T", "b": "T"}, b"hello")
    assert answer.code == 16
    assert answer.remark == f"broker-a serves {broker.store.root} read-only: nothing can be sent or changed here"


# -- slow ones ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> float:
    """Silence is over after 0.3 s, and looked for often."""
    monkeypatch.setattr("flintmq.broker.connection.IDLE_S", 0.3)
    monkeypatch.setattr("flintmq.broker.listener.SWEEP_S", 0.02)
    return 0.3


def test_half_a_frame_and_silence(
    served: Serve, resting: Path, line: Connected, soon: float, caplog: pytest.LogCaptureFixture
):
    broker = served(resting)
    bad = line(broker)
    bad.send(request(ROUTE, {"topic": "T"})[:-1])
    begin = time.monotonic()
    assert bad.hung_up() and soon * 0.9 <= time.monotonic() - begin
    assert [one.getMessage().partition(": ")[2] for one in caplog.records] == [
        f"connection closed: nothing came for {soon} s"
    ]


def test_who_talks_is_not_silent(served: Serve, resting: Path, line: Connected, soon: float):
    broker = served(resting)
    talk, idle = line(broker), [line(broker) for _ in range(20)]
    limit = time.monotonic() + 3 * soon
    while time.monotonic() < limit:
        assert talk.ask(ROUTE, {"topic": "T"}).code == 0
        time.sleep(0.02)
    assert all(one.hung_up() for one in idle) and broker.stats().connections == 1


def test_more_connections_than_may_be(served: Serve, resting: Path, line: Connected, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("flintmq.broker.listener.OF_ONE_HOST_MAX", 3)
    broker = served(resting)
    first = [line(broker) for _ in range(3)]
    assert all(one.ask(ROUTE, {"topic": "T"}).code == 0 for one in first)
    assert line(broker).hung_up()
    first[0].close()
    assert within(lambda: broker.stats().connections == 2)
    assert line(broker).ask(ROUTE, {"topic": "T"}).code == 0


@pytest.fixture
def heavy(tmp_path: Path) -> Path:
    """Sixty messages of 4 KiB: an answer has about 130 KiB."""
    with open_small(tmp_path / "heavy", mappedFileSizeCommitLog=1 << 20, **KEYS) as made:
        for number in range(60):
            made.put(message(number, size=4096))
    return tmp_path / "heavy"


def test_a_peer_that_reads_nothing(
    served: Serve, heavy: Path, line: Connected, monkeypatch: pytest.MonkeyPatch, soon: float
):
    """It is not read from beyond the limit of unsent answers; others are served; in the end it is closed."""
    monkeypatch.setattr("flintmq.broker.connection.UNSENT_MAX", 1 << 20)
    monkeypatch.setattr("flintmq.broker.connection.IDLE_S", 3.0)
    unsent = list[int]()
    real = ClientConnection.check

    def check(self: ClientConnection, now: float) -> None:
        assert self._transport is not None
        unsent.append(self._transport.get_write_buffer_size())
        real(self, now)

    monkeypatch.setattr(ClientConnection, "check", check)
    broker = served(heavy)
    bad = Line(broker.address, receive_buffer=SMALL_BUFFER)
    good = line(broker)
    with bad:
        for _ in range(400):  # 50 MiB of answers
            bad.start(PULL, pull())
        assert within(lambda: broker.stats().connections == 2)
        while broker.stats().connections > 1:
            assert good.ask(PULL, pull()).code == 0
            time.sleep(0.02)
    assert 0 < max(unsent) < 4 << 20, "the limit, and what was under way"
    assert broker.stats().failed == 0


def test_small_requests_with_large_answers(
    served: Serve, resting: Path, line: Connected, monkeypatch: pytest.MonkeyPatch
):
    """Answers that are made at once: the requests that came beyond the limit wait in their block."""
    monkeypatch.setattr("flintmq.broker.connection.UNSENT_MAX", 1 << 20)
    broker = served(resting)
    with Line(broker.address, receive_buffer=SMALL_BUFFER) as talk:
        running = broker._now
        running._requests.add({4711: lambda asked: asked.answer(body=bytes(100_000))})
        numbers = range(1, 201)
        talk.send(b"".join(request(4711, opaque=n) for n in numbers))  # 20 MB of answers, in one block
        assert within(lambda: broker.stats().connections == 1)
        [connection] = running._listener._connections
        transport = connection._transport
        assert transport is not None
        assert within(lambda: transport.get_write_buffer_size() > 1 << 20)
        assert not within(lambda: transport.get_write_buffer_size() > 2 << 20, 0.3)
        assert line(broker).ask(ROUTE, {"topic": "T"}).code == 0
        for number in numbers:
            assert len(talk.answer(number).body) == 100_000
        assert talk.ask(ROUTE, {"topic": "T"}).code == 0 and talk.told == []


def test_requests_that_wait_for_each_other_are_bounded(
    served: Serve, resting: Path, line: Connected, monkeypatch: pytest.MonkeyPatch
):
    """A client that asks faster than it is answered is not read from: each request that waits takes memory."""
    monkeypatch.setattr("flintmq.broker.connection.UNDER_WAY_MAX", 100)
    broker, gate = served(resting), threading.Event()
    talk, requests = line(broker), broker._now._requests

    async def slow(asked: Request) -> RemotingFrame:
        while not gate.is_set():
            await asyncio.sleep(0.002)
        return asked.answer()

    requests.add({4711: slow})
    numbers = range(1, 2001)
    talk.send(b"".join(request(4711, opaque=number) for number in numbers))
    assert within(lambda: len(requests._tasks) == 100)
    assert not within(lambda: len(requests._tasks) > 100, 0.3)
    assert line(broker).ask(ROUTE, {"topic": "T"}).code == 0
    gate.set()
    answers = [talk.frame() for _ in numbers]
    assert {one.opaque for one in answers if one is not None} == set(numbers)


def test_a_block_of_many_requests_is_taken_in_parts(
    served: Serve, resting: Path, line: Connected, monkeypatch: pytest.MonkeyPatch
):
    """Thousands of small requests in one block would keep all others waiting for a tenth of a second."""
    monkeypatch.setattr("flintmq.broker.remoting_line.TURN_S", 0.0)
    broker, counts, taken = served(resting), list[int](), list[int]()
    real, requests = RemotingLine.go_on, broker._now._requests

    def go_on(self: RemotingLine) -> None:
        before = len(taken)
        real(self)
        counts.append(len(taken) - before)

    def answered(asked: Request) -> RemotingFrame:
        taken.append(asked.frame.opaque)
        return asked.answer()

    requests.add({4711: answered})
    monkeypatch.setattr(RemotingLine, "go_on", go_on)
    numbers = list(range(1, 501))
    talk = line(broker)
    talk.send(b"".join(request(4711, opaque=number) for number in numbers))
    assert [talk.answer(number).opaque for number in numbers] == numbers == taken
    assert max(counts) == 1 and talk.ask(ROUTE, {"topic": "T"}).code == 0


def test_pulls_that_are_held_do_not_keep_a_client_from_asking(
    served: Serve, resting: Path, line: Connected, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("flintmq.broker.connection.UNDER_WAY_MAX", 10)
    broker = served(resting)
    talk = line(broker)
    for _ in range(60):
        talk.start(PULL, pull(offset=30, sysFlag=6, suspendTimeoutMillis=60_000))
    assert within(lambda: broker.stats().held == 60)
    assert talk.ask(ROUTE, {"topic": "T"}).code == 0


class HeldTransport:
    """A transport that keeps `unsent` bytes."""

    def __init__(self) -> None:
        self.unsent, self.aborted = 0, False

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1)

    def abort(self) -> None:
        self.aborted = True


def test_64_mib_of_answers_are_kept_for_30_s(monkeypatch: pytest.MonkeyPatch):
    transport = HeldTransport()
    connection = ClientConnection(
        memoryview(b""), lambda peer, first: None, lambda: None, lambda peer: None, lambda peer: None
    )
    connection._transport = transport  # type: ignore[assignment]
    now = connection.heard
    transport.unsent = (64 << 20) + 1
    connection.check(now + 1)
    connection.check(now + 30)
    assert not transport.aborted
    transport.unsent = 64 << 20  # it took some
    connection.check(now + 31)
    transport.unsent = (64 << 20) + 1
    connection.check(now + 32)
    connection.check(now + 61)
    assert not transport.aborted
    connection.check(now + 62)
    assert transport.aborted and connection.is_closed


# -- any bytes ---------------------------------------------------------------------------------------------------------

REQUESTS = [
    request(ROUTE, {"topic": "T"}, opaque=1),
    request(PULL, pull(), opaque=2),
    request(PULL, pull(offset=30, sysFlag=6, suspendTimeoutMillis=50), opaque=3),
    request(HEARTBEAT, body=heartbeat("a", "G", topics={"T": "*"}), opaque=4),
    request(15, {"consumerGroup": "G", "topic": "T", "queueId": 0, "commitOffset": 3}, opaque=5, flag=2),
    request(12, {"topic": "T", "key": "k3"}, opaque=6),
    request(21, opaque=7),
]


@st.composite
def streams(draw: st.DrawFn) -> list[bytes]:
    """Requests, some of them damaged, joined and cut anywhere."""
    data = bytearray(b"".join(draw(st.lists(st.sampled_from(REQUESTS), max_size=6))))
    for _ in range(draw(st.integers(0, 4))):
        at, damage = draw(st.integers(0, len(data))), draw(st.binary(max_size=6))
        data[at : at + (len(damage) if draw(st.booleans()) else 0)] = damage
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=3)))
    ends = [0, *cuts, len(data) - draw(st.integers(0, min(len(data), 20)))]
    return [bytes(data[begin:end]) for begin, end in pairwise(ends)]


@pytest.fixture(scope="module")
def standing(resting: Path) -> Any:
    with Broker(resting, read_only=True) as broker, Line(broker.address) as good:
        yield broker, good


@given(streams())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_stream_stops_the_broker(standing: tuple[Broker, Line], pieces: list[bytes]):
    broker, good = standing
    with Line(broker.address) as bad:
        try:
            for piece in pieces:
                bad.send(piece)
        except ConnectionError:
            pass  # it hung up already
        assert good.ask(ROUTE, {"topic": "T"}).code == 0
    answer = good.ask(PULL, pull())
    assert answer.code == 0 and json.loads(good.ask(206).body)["topicList"]
    assert broker.stats().failed == 0, "no request met an error of ours"


def test_a_frame_that_nobody_is_asked_by(served: Serve, resting: Path):
    """The codec's own errors are the only ones that close a connection: an error of a handler does not."""
    broker = served(resting)
    with Line(broker.address) as talk:
        running = broker._now

        def broken(asked: Any) -> RemotingFrame:
            raise ZeroDivisionError("by a test")

        running._requests.add({4711: broken})
        answer = talk.ask(4711)
        assert (answer.code, answer.remark) == (1, "an error of the broker; its log tells more")
        assert talk.ask(ROUTE, {"topic": "T"}).code == 0 and broker.stats().failed == 1
