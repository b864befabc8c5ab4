"""A broker for tests, by HTTP: the methods of BrokerControl, and who may call them."""

import base64
import http.client
import inspect
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flintmq.broker.testing import BrokerControl, remote
from flintmq.broker.testing.remote import CALLS_MAX, METHODS, ControlServer
from flintmq.message import COLUMNS
from tests.broker.talk import Line, send
from tests.support.threads import beside, within

SEND = 310


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ControlServer]:
    with BrokerControl(tmp_path / "store") as broker, ControlServer("127.0.0.1", 0, broker) as made, made.serving():
        yield made


def post(server: ControlServer, path: str, body: bytes = b"", **headers: str) -> tuple[int, Any]:
    host, port = server.server_address[:2]
    connection = http.client.HTTPConnection(str(host), port, timeout=30)
    connection.request("POST", path, body, headers)
    answer = connection.getresponse()
    assert answer.getheader("Content-Type") == "application/json"
    found = answer.status, json.loads(answer.read())
    connection.close()
    return found


def ask(server: ControlServer, name: str, told: Any = None) -> tuple[int, Any]:
    return post(server, f"/{server.secret}/{name}", b"" if told is None else json.dumps(told).encode())


def result(server: ControlServer, name: str, **told: Any) -> Any:
    status, found = ask(server, name, told)
    assert status == 200 and found.keys() == {"result"}, found
    return found["result"]


def error(server: ControlServer, name: str, told: Any = None, status: int = 400) -> str:
    found = ask(server, name, told)
    assert found[0] == status and found[1].keys() == {"error"}, found
    text = found[1]["error"]
    assert isinstance(text, str)
    return text


def test_every_method_is_offered_or_not_on_purpose():
    """What a user of the fixture may call; not what is Python's own."""
    found = {name for name, _ in inspect.getmembers(BrokerControl, inspect.isfunction) if not name.startswith("_")}
    assert found == METHODS


def test_what_a_test_sees(server: ControlServer):
    with Line(server.control.address) as client:
        assert client.ask(SEND, send("T", properties="TAGS\x01paid\x02"), b"tea").code == 0
        host, port = client.socket.getsockname()
    [message] = result(server, "wait", topic="T", count=1, timeout=5)
    assert list(message) == list(COLUMNS)
    assert (message["topic"], message["tags"], message["queue_offset"]) == ("T", "paid", 0)
    assert base64.b64decode(message["body"]) == b"tea"
    assert result(server, "messages", topic="T") == [message]
    assert result(server, "lag", group="G", topic="T") == 1
    assert result(server, "dead_letters", group="G") == []
    [asked] = result(server, "requests", code=SEND)
    assert (asked["code"], asked["fields"]["b"], asked["client"]) == (SEND, "T", f"{host}:{port}")
    assert result(server, "requests", code=None) == [asked] and result(server, "requests", code=11) == []
    late = "T has 1 of 2 messages after 0.01 s: b'tea'"
    assert error(server, "wait", {"topic": "T", "count": 2, "timeout": 0.01}, 409) == late
    assert "flintmq_broker_connections" in result(server, "metrics")
    assert "has no offsets" in error(server, "wait_consumed", {"group": "G", "timeout": 0}, 409)


def test_what_a_test_disturbs(server: ControlServer):
    with Line(server.control.address) as client:
        assert result(server, "fail", code=SEND, answer=2, times=1, before=False) is None
        assert client.ask(SEND, send("T"), b"1").code == 2
        assert len(result(server, "wait", topic="T", count=1)) == 1
        result(server, "delay", code=SEND, seconds=60)
        waiting = client.start(SEND, send("T"), b"2")
        assert client.is_quiet(0.05)
        result(server, "calm")
        assert client.answer(waiting).code == 0
        result(server, "drop_connections")
        client.start(SEND, send("T"), b"3")
        assert client.hung_up()


def test_starts_and_ends(server: ControlServer):
    address = server.control.address
    with Line(address) as client:
        assert client.ask(SEND, send("T"), b"1").code == 0
    assert result(server, "kill") is None
    with pytest.raises(ConnectionRefusedError):
        Line(address)
    assert error(server, "lag", {"group": "G", "topic": "T"}) == "this broker is not started, or is stopped"
    result(server, "restart")
    assert [message["topic"] for message in result(server, "wait", topic="T", count=1)] == ["T"]
    result(server, "reset")
    assert result(server, "messages", topic="T") == [] == result(server, "requests")
    result(server, "stop")
    result(server, "restart")
    with Line(address) as client:
        assert client.ask(SEND, send("T"), b"2").code == 0


def test_a_clock_that_is_moved(server: ControlServer):
    with Line(server.control.address) as client:
        assert client.ask(SEND, send("T", properties="DELAY\x0118\x02"), b"later").code == 0
    assert result(server, "messages", topic="T") == []
    result(server, "advance", seconds=2 * 3600)
    assert len(result(server, "wait", topic="T", count=1, timeout=20)) == 1


@pytest.mark.parametrize(
    ("name", "told", "said"),
    [
        ("wait", None, "missing a required argument: 'topic'"),
        ("wait", {"topic": "T", "count": 1, "color": 1}, "got an unexpected keyword argument 'color'"),
        ("wait", {"topic": "T", "count": "1"}, "count='1': give int"),
        ("wait", {"topic": "T", "count": True}, "count=True: give int"),
        ("wait", {"topic": "T", "count": 1, "timeout": None}, "timeout=None: give float"),
        ("wait", {"topic": "T", "count": 1, "timeout": -1}, "give 0 or more seconds"),
        ("wait_consumed", {"group": "G", "topic": 1}, "topic=1: give str | None"),
        ("fail", {"code": 10, "times": 0}, "times=0: give 1 or more"),
        ("fail", {"code": 10, "before": "no"}, "before='no': give bool"),
        ("requests", {"code": [1]}, "code=[1]: give int | None"),
        ("wait", {"topic": "T", "count": -1}, "count=-1: give 0 or more"),
        ("fail", {"code": 10, "answer": 99999999999}, "answer=99999999999: give 0 to 32767"),
        ("calm", [], "the body is no object"),
    ],
)
def test_arguments_that_cannot_be(server: ControlServer, name: str, told: Any, said: str):
    assert said in error(server, name, told)


def test_bodies_that_cannot_be(server: ControlServer):
    path = f"/{server.secret}/calm"
    for body in (b"{", b"\xff", b"[" * 50_000, b"1" * 5000):
        status, found = post(server, path, body)
        assert status == 400 and found.keys() == {"error"}
    assert post(server, path, b" " * (remote.BODY_MAX + 1))[0] == 413
    for length in ("9" * 4000, "-1", "x"):
        assert post(server, path, b"", **{"Content-Length": length})[0] in (411, 413)
    assert post(server, path, b"{}")[0] == 200


def asked(server: ControlServer, text: str) -> tuple[str, str]:
    """The first line and the body of an answer to a request, as bytes of a socket."""
    with socket.create_connection(server.server_address[:2], timeout=30) as line:
        line.sendall(text.replace("\n", "\r\n").encode())
        with line.makefile("rb") as file:
            head, _, body = file.read().decode().partition("\r\n\r\n")
    return head.partition("\r\n")[0], body


def test_no_body_is_an_empty_one(server: ControlServer):
    """So asks curl -X POST; a body in chunks is refused in words."""
    path = f"/{server.secret}"
    assert asked(server, f"POST {path}/stop HTTP/1.1\nHost: x\n\n") == ("HTTP/1.0 200 OK", '{"result": null}')
    status, body = asked(server, f"POST {path}/calm HTTP/1.1\nTransfer-Encoding: chunked\n\n")
    assert status == "HTTP/1.0 411 Length Required" and "Content-Length" in json.loads(body)["error"]


def test_who_does_not_know_the_secret(server: ControlServer):
    for path in ("/reset", "//reset", f"/{server.secret[:-1]}/reset", f"/{server.secret}x/reset", "/%fc/reset", "/"):
        status, found = post(server, path)
        assert status == 403 and "not the URL" in found["error"] and server.secret not in found["error"]
    for name in ("store", "__init__", "address", "_end", "", "wait/x"):
        assert "there are advance, calm" in error(server, name, status=404)
    connection = http.client.HTTPConnection(*map(str, server.server_address[:2]), timeout=30)
    for method in ("GET", "OPTIONS", "PUT"):
        connection.request(method, f"/{server.secret}/messages")
        answer = connection.getresponse()
        assert answer.status == 501 and answer.getheader("Access-Control-Allow-Origin") is None
        assert json.loads(answer.read()) == {"error": f"Unsupported method ({method!r})"}


def test_too_many_calls_at_once(server: ControlServer, monkeypatch: pytest.MonkeyPatch):
    go, inside = threading.Event(), threading.Semaphore(0)

    def calm(self: BrokerControl) -> None:
        inside.release()
        assert go.wait(60)

    monkeypatch.setattr(BrokerControl, "calm", calm)
    found: list[int] = []
    with beside(*[lambda: found.append(ask(server, "calm")[0])] * CALLS_MAX):
        for _ in range(CALLS_MAX):
            assert inside.acquire(timeout=30)
        assert ask(server, "requests")[0] == 429
        go.set()
    assert found == [200] * CALLS_MAX and ask(server, "requests")[0] == 200


def test_calls_whose_clients_have_gone_lock_nobody_out(server: ControlServer):
    body = json.dumps({"topic": "T", "count": 1, "timeout": 3600})
    request = f"POST /{server.secret}/wait HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    lines = [socket.create_connection(server.server_address[:2]) for _ in range(CALLS_MAX + 8)]
    for line in lines:
        line.sendall(request)
    assert within(lambda: ask(server, "requests")[0] == 429)
    for line in lines:
        line.close()
    assert within(lambda: ask(server, "requests")[0] == 200)


def test_as_many_calls_as_may_come_at_once(server: ControlServer):
    with beside(*[lambda: result(server, "wait", topic="T", count=0)] * CALLS_MAX):
        pass


def test_its_end_waits_for_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    inside, go, ended = threading.Event(), threading.Event(), threading.Event()

    def kill(self: BrokerControl) -> None:
        inside.set()
        assert go.wait(60)

    monkeypatch.setattr(BrokerControl, "kill", kill)
    server = ControlServer("127.0.0.1", 0, BrokerControl(tmp_path / "store"))

    def serve() -> None:
        with server, server.serving():
            assert inside.wait(60)
        ended.set()

    with beside(serve, lambda: ask(server, "kill")):
        assert inside.wait(60) and not ended.wait(1)
        go.set()
    assert ended.is_set()


def test_a_result_that_is_too_large(server: ControlServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(remote, "ANSWER_MAX", 10)
    assert "the result has" in error(server, "requests")


def test_restarts_at_once_are_done_in_turn(server: ControlServer):
    with beside(*[lambda: result(server, "restart")] * 4):
        pass
    assert within(lambda: ask(server, "requests")[0] == 200)
    with Line(server.control.address) as client:
        assert client.ask(SEND, send("T"), b"x").code == 0
