"""TLS on the port of everything else, and certificates."""

import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.broker import Broker, tls
from flintmq.broker.tls import TlsLayer
from flintmq.errors import ConfigError, FormatError, UsageError
from flintmq.remoting.client import split_address
from flintmq.store.services.topics import TopicSettings
from tests.broker.grpc.talk import GrpcTalk, message, sending
from tests.broker.talk import Line, pull, records, request, send
from tests.broker.test_send import stored

Write = Callable[..., Broker]


def encrypted(line: Line, certificate: Path | None = None) -> Line:
    """The same connection, with TLS from its first byte on."""
    context = ssl.create_default_context(cafile=certificate)
    if certificate is None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    line.socket = context.wrap_socket(line.socket, server_hostname="localhost")
    return line


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A file with a certificate and its key."""
    path = tmp_path / "made.pem"
    path.write_bytes(tls._made(["localhost"]))
    return path


def test_all_that_comes_to_one_port(writing: Write, line: Callable[[Broker], Line]):
    broker = writing(tls_self_signed=True, config={"enableTopicMessageTypeCheck": "false"})
    stored(broker).create_topic("T", TopicSettings(1, 1))
    plain, secret = line(broker), encrypted(line(broker))
    assert plain.ask(310, send("T"), b"plain").code == 0 and secret.ask(310, send("T"), b"secret").code == 0
    for is_tls in (False, True):
        with GrpcTalk(broker.address, tls=is_tls) as client:
            assert client.ask("SendMessage", sending(message(body=b"grpc%d" % is_tls))).status.code == 20000
            if is_tls:
                assert client.socket.selected_alpn_protocol() == "h2"
    for one in (plain, secret):
        assert len(list(records(one.ask(11, pull("T")).body))) == 4
    assert (broker.stats().broken, broker.stats().accepted) == (0, 4)


def test_large_answers_and_many_requests_with_tls(writing: Write, line: Callable[[Broker], Line]):
    broker = writing(tls_self_signed=True)
    stored(broker).create_topic("T", TopicSettings(1, 1))
    secret = encrypted(line(broker))
    for _ in range(8):
        secret.ask(310, send("T"), bytes(30_000))
    secret.send(b"".join(request(11, pull("T"), opaque=number) for number in range(1000, 1050)))
    answers = [secret.frame() for _ in range(50)]
    assert {len(one.body) > 230_000 for one in answers} == {True} and len({one.opaque for one in answers}) == 50


def test_a_certificate_that_is_given(writing: Write, line: Callable[[Broker], Line], made: Path, tmp_path: Path):
    broker = writing(tls_cert=made)
    assert encrypted(line(broker), made).ask(105, {"topic": "TBW102"}).code == 0
    certificate, key = made.read_bytes().split(b"-----BEGIN PRIVATE KEY-----")
    (tmp_path / "cert.pem").write_bytes(certificate)
    (tmp_path / "key.pem").write_bytes(b"-----BEGIN PRIVATE KEY-----" + key)
    other = writing(tmp_path / "other", tls_cert=tmp_path / "cert.pem", tls_key=tmp_path / "key.pem")
    assert encrypted(line(other), made).ask(105, {"topic": "TBW102"}).code == 0


def test_certificates_that_cannot_be_used(writing: Write, made: Path, tmp_path: Path):
    other = tmp_path / "other.pem"
    other.write_bytes(tls._made([]))
    for cert, key in ((tmp_path / "none.pem", None), (tmp_path, None), (made, other), (Path(__file__), None)):
        with pytest.raises(UsageError, match="give a certificate and its key"):
            writing(tls_cert=cert, tls_key=key)
    for words in ({"tls_key": made}, {"tls_cert": made, "tls_self_signed": True}):
        with pytest.raises(UsageError, match="TLS needs a certificate"):
            Broker(tmp_path / "store", **words)


def test_a_broker_without_a_certificate(writing: Write, line: Callable[[Broker], Line]):
    broker = writing()
    with pytest.raises((ssl.SSLError, OSError)):
        encrypted(line(broker))
    assert broker.stats().broken == 1


def test_modes(writing: Write, line: Callable[[Broker], Line], tmp_path: Path):
    with pytest.raises(UsageError, match="give a certificate"):
        writing(settings=["tls.server.mode=enforcing"])  # which nobody could reach
    enforcing = writing(tls_self_signed=True, settings=["tls.server.mode=enforcing"])
    plain = line(enforcing)
    plain.send(request(105, {"topic": "TBW102"}))
    assert plain.hung_up() and encrypted(line(enforcing)).ask(105, {"topic": "TBW102"}).code == 0
    with GrpcTalk(enforcing.address) as client:
        assert client.hung_up()
    disabled = writing(tmp_path / "other", tls_self_signed=True, settings=["tls.server.mode=disabled"])
    assert line(disabled).ask(105, {"topic": "TBW102"}).code == 0
    with pytest.raises((ssl.SSLError, OSError)):
        encrypted(line(disabled))
    with pytest.raises(ConfigError, match=r"tls\.server\.mode"):
        writing(settings=["tls.server.mode=often"])


def test_a_handshake_that_stops_and_one_that_fails(writing: Write, line: Callable[[Broker], Line]):
    broker = writing(tls_self_signed=True)
    bad, good = line(broker), line(broker)
    bad.send(bytes.fromhex("16030100050100000100"))
    assert good.ask(105, {"topic": "TBW102"}).code == 0
    worse = line(broker)
    worse.send(b"\x16" + b"\xff" * 100)
    assert worse.hung_up()
    strict = ssl.create_default_context()
    with socket.create_connection(split_address(broker.address), 10) as sock, pytest.raises(ssl.SSLError):
        strict.wrap_socket(sock, server_hostname="localhost")
    assert encrypted(line(broker)).ask(105, {"topic": "TBW102"}).code == 0


def test_the_end_is_said(writing: Write, line: Callable[[Broker], Line]):
    broker = writing(tls_self_signed=True)
    secret = encrypted(line(broker))
    assert secret.ask(105, {"topic": "TBW102"}).code == 0
    broker.__exit__(None, None, None)
    assert secret.hung_up()


@pytest.mark.parametrize("size", [1, 7, 100, 100_000])
def test_the_layer_takes_bytes_as_they_come(made: Path, size: int):
    """Handshake and data, in pieces of any size."""
    server = TlsLayer(tls.context_of(made, None))
    context = ssl.create_default_context(cafile=made)
    came, to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(came, to_send, server_hostname="localhost")
    got = bytearray()

    def carry() -> None:
        data = to_send.read()
        for at in range(0, len(data), size):
            got.extend(server.receive(data[at : at + size]))
            came.write(server.to_send())

    while True:
        try:
            client.do_handshake()
            break
        except ssl.SSLWantReadError:
            carry()
    carry()
    client.write(b"x" * 50_000)
    carry()
    assert bytes(got) == b"x" * 50_000
    server.send(b"answer" * 10_000)
    came.write(server.to_send())
    back = b""
    while len(back) < 60_000:
        back += client.read(100_000)
    assert back == b"answer" * 10_000
    server.end()
    came.write(server.to_send())
    assert client.read(1) == b"", "the server says that nothing more comes"


@pytest.mark.parametrize("data", [b"\x16" + b"\xff" * 40, bytes.fromhex("160301000501000001ff")])
def test_bytes_that_are_no_handshake(made: Path, data: bytes):
    with pytest.raises(FormatError, match="its TLS ended"):
        TlsLayer(tls.context_of(made, None)).receive(data)
