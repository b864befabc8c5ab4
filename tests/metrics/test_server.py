"""GET /metrics over HTTP, on loopback."""

import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flintmq import Message, MessageStore
from flintmq.config.keys import StoreConfig
from flintmq.errors import UnfinishedError, UsageError
from flintmq.metrics import server as http_server
from flintmq.metrics.server import SCRAPES, MetricsServer
from flintmq.metrics.stores import StoresWatch
from tests.support.prometheus import only, samples
from tests.support.threads import beside, within


@contextlib.contextmanager
def serving(watch: StoresWatch, host: str = "127.0.0.1") -> Iterator[MetricsServer]:
    with MetricsServer(host, 0, lambda: watch.text()) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(30)


def ask(server: MetricsServer, path: str = "/metrics", method: str = "GET") -> tuple[int, dict[str, str], str]:
    host, port = server.server_address[:2]
    connection = http.client.HTTPConnection(str(host), port, timeout=30)
    connection.request(method, path)
    answer = connection.getresponse()
    result = answer.status, dict(answer.getheaders()), answer.read().decode()
    connection.close()
    return result


@pytest.fixture
def server(cluster: Path) -> Iterator[MetricsServer]:
    with serving(StoresWatch(f"{cluster}/*/store", StoreConfig())) as server:
        yield server


def test_the_metrics_and_nothing_else(server: MetricsServer) -> None:
    status, headers, text = ask(server)
    assert status == 200 and headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert set(samples(text)["flintmq_store_up"].values()) == {1}
    assert int(headers["Content-Length"]) == len(text.encode())
    assert ask(server, "/metrics?x=1")[0] == 200 and ask(server, "/")[0] == 200
    assert ask(server, "/../etc/passwd")[0] == ask(server, "/metrics/")[0] == 404
    assert ask(server, method="POST")[0] == 501
    status, headers, text = ask(server, method="HEAD")
    assert status == 200 and text == "" and int(headers["Content-Length"]) > 1000
    assert "Python" not in headers["Server"]


def test_each_request_looks_anew(tmp_path: Path) -> None:
    with MessageStore(tmp_path) as store, serving(StoresWatch(tmp_path, StoreConfig())) as server:
        for count in (1, 2, 3):
            store.put(Message("T", b"x"))
            assert store.wait_dispatched(60)
            found = samples(ask(server)[2])
            assert only(found, "flintmq_topic_messages", "topic") == {("T",): count}
            assert only(found, "flintmq_store_live", "node_type") == {("broker",): 1}


def test_clients_that_hang_or_go_hold_up_nobody(server: MetricsServer) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            idle = stack.enter_context(socket.create_connection(server.server_address[:2]))
            idle.sendall(b"GET /met")
        with socket.create_connection(server.server_address[:2]) as gone:
            gone.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert ask(server)[0] == 200
    with socket.create_connection(server.server_address[:2]) as odd:
        odd.sendall(b"\x16\x03\x01 what is this\r\n\r\n")
        assert b"400" in odd.recv(4096)
    assert ask(server)[0] == 200


def test_idle_connections_take_few_descriptors(server: MetricsServer) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(server.connections_max):
            stack.enter_context(socket.create_connection(server.server_address[:2], timeout=30))
        for _ in range(3):
            more = stack.enter_context(socket.create_connection(server.server_address[:2], timeout=5))
            assert more.recv(1) == b"", "closed at once"

    def is_answered() -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):
            return ask(server)[0] == 200
        return False

    assert within(is_answered)


def test_a_request_has_its_time_however_it_trickles(server: MetricsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "IDLE_S", 0.5)
    with socket.create_connection(server.server_address[:2], timeout=0.1) as slow:
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - began < 20:
                slow.sendall(b"G")
                with contextlib.suppress(TimeoutError):
                    assert slow.recv(1) == b""
                    break
        assert 0.4 < time.monotonic() - began < 10
    assert ask(server)[0] == 200


def test_too_many_scrapes_at_once_are_told_to_come_again(
    server: MetricsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, inside = threading.Event(), threading.Semaphore(0)

    def text(self: StoresWatch) -> str:
        inside.release()
        assert go.wait(60)
        return "x 1\n"

    monkeypatch.setattr(StoresWatch, "text", text)
    found: list[int] = []
    with beside(*[lambda: found.append(ask(server)[0])] * SCRAPES):
        for _ in range(SCRAPES):
            assert inside.acquire(timeout=30)
        assert ask(server)[0] == 503
        go.set()
    assert found == [200] * SCRAPES and ask(server)[0] == 200


def test_an_error_is_an_answer(server: MetricsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: StoresWatch) -> str:
        raise UnfinishedError("no answer in 8 s")

    monkeypatch.setattr(StoresWatch, "text", fails)
    assert ask(server)[::2] == (503, "no answer in 8 s\n")
    monkeypatch.undo()
    assert ask(server)[0] == 200


def test_an_address_that_cannot_be_used(cluster: Path, server: MetricsServer) -> None:
    watch = StoresWatch(cluster, StoreConfig())
    for host, port in (("127.0.0.1", server.server_port), ("127.0.0.1", 70000), ("no.such.name.invalid", 0)):
        with pytest.raises(UsageError, match="--listen .*; give another address"):
            MetricsServer(host, port, watch.text)


def test_addresses_are_shown_as_they_are_asked(cluster: Path) -> None:
    watch = StoresWatch(f"{cluster}/*/store", StoreConfig())
    with serving(watch, "localhost") as server:
        assert server.url == f"http://127.0.0.1:{server.server_port}/metrics"
    if not socket.has_ipv6:
        return
    try:
        with serving(watch, "::1") as server:
            assert server.url == f"http://[::1]:{server.server_port}/metrics" and ask(server)[0] == 200
    except UsageError as error:
        assert "assign" in str(error) or "family" in str(error), "a machine without IPv6 says so"
