"""The client against a peer that does as it is told, and addresses."""

import struct
import threading

import pytest

from flintmq.errors import RemotingError, UsageError
from flintmq.remoting.client import RemotingClient, split_address
from flintmq.remoting.frames import RemotingFrame, encode_frame
from tests.remoting.remoting_peer import Answer, Asked, RemotingPeer, reply


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("127.0.0.1:10911", ("127.0.0.1", 10911)),
        ("[::1]:1", ("::1", 1)),
        ("broker-a.local:65535", ("broker-a.local", 65535)),
        ("::1:10911", ("::1", 10911)),  # as RocketMQ writes it, and splits it: at the last colon
        ("fe80::1:2:10911", ("fe80::1:2", 10911)),
        ("::ffff:10.0.0.1:10911", ("::ffff:10.0.0.1", 10911)),
    ],
)
def test_addresses(address: str, parts: tuple[str, int]):
    assert split_address(address) == parts


@pytest.mark.parametrize(
    "address",
    [
        "",
        "a",
        ":1",
        "a:",
        "a:0",
        "a:65536",
        "a:99999999",
        "a:1x",
        "a:١",
        "a b:1",
        "a/b:1",
        "u@h:1",
        "ä:1",
        "a\n:1",
        "1::2::3:4",
        "1:2:3",
        "::g:1",
    ],
)
def test_what_is_no_address(address: str):
    with pytest.raises(UsageError, match="HOST:PORT"):
        RemotingClient(address)


def ask(answer: Answer, timeout_s: float = 5.0) -> RemotingFrame:
    """What a client gets of a peer; the connection is closed after an error."""
    with RemotingPeer(answer) as peer, RemotingClient(peer.address, timeout_s=timeout_s) as client:
        return client.ask(21, {"topicSeq": "0"}, b"body")


def test_a_request_and_its_answer_over_one_connection():
    with RemotingPeer(lambda asked: reply(asked, asked.body * 40_000, version=493)) as peer:
        with RemotingClient(peer.address) as client:
            assert client.ask(21, {"a": "b"}, b"xyz").body == b"xyz" * 40_000
            assert client.ask(43).body == b"" and client.peer_version == 493
            assert len(peer.lines) == 1 and peer.codes() == [21, 43]
        assert peer.asked[0].fields == {"a": "b"} and peer.asked[0].header["language"] == "PYTHON"


def test_requests_of_the_peer_are_left_out():
    def answer(asked: Asked) -> bytes:
        notice = encode_frame(RemotingFrame(40, asked.opaque, 2, fields={"consumerGroup": "G"}))
        return notice + reply(asked, b"right") + notice

    with RemotingPeer(answer) as peer, RemotingClient(peer.address) as client:
        assert [client.ask(21).body for _ in range(3)] == [b"right"] * 3


def rubbish(data: bytes) -> Answer:
    return lambda asked: data


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (lambda asked: reply(asked, code=16, remark="no\x1b[31m permission"), RemotingError, r"code 16: 'no\\x1b"),
        (lambda asked: reply(asked, code=1), RemotingError, "refused with code 1$"),
        (lambda asked: reply(asked, opaque=asked.opaque + 1), RemotingError, "answers request number"),
        (rubbish(struct.pack(">i", 2**31 - 1) + b"x" * 100), RemotingError, "2147483647 bytes"),
        (rubbish(b"HTTP/1.1 400 Bad Request\r\n\r\n"), RemotingError, "1213486160 bytes"),
        (rubbish(struct.pack(">iI", 9, 5) + b"{\xff\xfe}}"), RemotingError, "no remoting answer"),
        (lambda asked: None, ConnectionError, "hung up"),
    ],
)
def test_what_the_client_refuses(answer: Answer, error: type[Exception], text: str):
    with pytest.raises(error, match=text) as caught:
        ask(answer)
    assert "\n" not in str(caught.value) and "request 21" in str(caught.value) and "127.0.0.1:" in str(caught.value)


def test_the_exit_code_of_a_refusal():
    with pytest.raises(RemotingError) as caught:
        ask(lambda asked: reply(asked, code=16))
    assert caught.value.exit_code == 12


def test_an_answer_that_never_ends_is_bounded_in_time():
    with pytest.raises(TimeoutError, match=r"no answer in 0.3 s"):
        ask(rubbish(struct.pack(">i", 1000) + b"x"), timeout_s=0.3)
    with pytest.raises(TimeoutError, match=r"no answer in 0.3 s"):
        ask(rubbish(b""), timeout_s=0.3)


def test_bytes_one_by_one_do_not_extend_the_time():
    class Dribble:
        def __init__(self) -> None:
            self.data = iter(struct.pack(">i", 100_000) + bytes(100_000))
            self.closed = False

        def settimeout(self, value: float | None, /) -> None:
            assert value is not None and 0 < value <= 0.3

        def sendall(self, data: bytes, /) -> None:
            assert data

        def recv(self, size: int, /) -> bytes:
            threading.Event().wait(0.01)
            return bytes([next(self.data)])

        def close(self) -> None:
            self.closed = True

    line = Dribble()
    client = RemotingClient("127.0.0.1:1", timeout_s=0.3, connect=lambda place, seconds: line)
    with pytest.raises(TimeoutError):
        client.request(21)
    assert line.closed


def test_after_an_error_the_next_request_connects_again():
    times = iter([True, False, False])

    def answer(asked: Asked) -> bytes | None:
        return None if next(times) else reply(asked, b"x")

    with RemotingPeer(answer) as peer, RemotingClient(peer.address) as client:
        with pytest.raises(ConnectionError):
            client.ask(1)
        assert client.ask(2).body == b"x" and client.ask(3).body == b"x"


def test_nobody_is_there():
    with RemotingPeer(lambda asked: None) as peer:
        address = peer.address
    with pytest.raises(ConnectionError, match=f"{address}: request 26: Connection refused"):
        RemotingClient(address).ask(26)


class Pieces:
    """A connection that receives these bytes, and then its end."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def settimeout(self, value: float | None) -> None:
        pass

    def sendall(self, data: bytes) -> None:
        pass

    def recv(self, size: int) -> bytes:
        data, self.data = self.data[:size], self.data[size:]
        return data

    def close(self) -> None:
        pass


def test_half_an_answer_is_forgotten_with_its_connection():
    half, whole = (reply(Asked(21, number, {}, b""), b"%d" % number) for number in (1, 2))
    lines = [Pieces(half[:-1]), Pieces(whole)]
    client = RemotingClient("a:1", connect=lambda place, seconds: lines.pop(0))
    with pytest.raises(ConnectionError):
        client.request(21)
    try:
        assert client.request(21).body == b"2"
    except RemotingError as error:
        pytest.fail(str(error))
