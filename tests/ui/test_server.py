"""The server as a process and as a socket: its end, slow and dropped connections, its password."""

import base64
import http.client
import re
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from flintmq import hooks
from flintmq.cli.body_option import Bodies
from flintmq.cluster.members import find_members
from flintmq.config.keys import StoreConfig
from flintmq.testing.write_store import write_store
from flintmq.ui import connection
from flintmq.ui.app import Ui
from flintmq.ui.server import UiServer
from labs import ui_first_page
from tests.cli.conftest import Run, process, run  # noqa: F401

PAGE = "GET {} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture
def served(shop: Path) -> Iterator[UiServer]:
    config = StoreConfig()
    with UiServer(Ui(find_members(str(shop), config), config, Bodies(False)), "127.0.0.1", 0) as server:
        yield server


def get(server: UiServer, path: str = "/", timeout: float = 20) -> tuple[int, str]:
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=timeout)) as line:
        line.request("GET", path)
        answer = line.getresponse()
        return answer.status, answer.read().decode()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("path", ["/0/tail/events?topic=Orders", "/search?q=region%3Dnone&how=property"])
def test_a_signal_ends_it_with_0_whatever_it_does(tmp_path: Path, path: str, number: int):
    shop = tmp_path / "store"
    write_store(shop, 600_000, topics=["Orders"], keys=0)
    with process("ui", shop, "--listen", "127.0.0.1:0") as child:
        said = child.stderr.readline()
        port = int(re.search(r"http://127\.0\.0\.1:(\d+)/ of 1 store", said)[1])
        with closing(socket.create_connection(("127.0.0.1", port), 20)) as line:
            line.sendall(PAGE.format(path).encode())
            assert b"200 OK" in line.recv(100)
            begun = time.monotonic()
            child.send_signal(number)
            assert child.wait(15) == 0
            assert time.monotonic() - begun < 8
        assert child.stderr.read() == ""


def test_a_port_that_is_taken(run: Run, shop: Path):  # noqa: F811
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        found = run("ui", shop, "--listen", f"127.0.0.1:{port}")
    assert found.code == 2 and "in use; give another address" in found.err and found.err.count("\n") == 1


def test_what_is_no_store(run: Run, tmp_path: Path):  # noqa: F811
    for words in ([tmp_path], [tmp_path / "nothing"], [tmp_path / "*"], [tmp_path / "no.toml"]):
        found = run("ui", *words)
        assert found.code == 2 and found.err.count("\n") == 1, found.err


def test_a_wrong_address_and_a_short_token(run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch):  # noqa: F811
    assert run("ui", shop, "--listen", "nonsense:port:1").code == 2
    monkeypatch.setenv("FLINTMQ_UI_TOKEN", "short")
    found = run("ui", shop, "--listen", "0.0.0.0:0")
    assert found.code == 2 and "16 at least" in found.err


def test_without_the_extra(run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch):  # noqa: F811
    def missing(name: str) -> None:
        raise ModuleNotFoundError("No module named 'starlette'", name="starlette")

    monkeypatch.setattr(hooks, "load", missing)
    found = run("ui", shop)
    assert found.code == 8 and "pip install 'flintmq[ui]'" in found.err


def test_an_address_that_others_reach_warns_and_prints_the_password(shop: Path):
    with process("ui", shop, "--listen", "0.0.0.0:0") as child:
        lines = [child.stderr.readline() for _ in range(3)]
        assert "not encrypted" in lines[0]
        password = re.search(r"the password is (\S{32}), with any user name", lines[1])[1]
        port = int(re.search(r":(\d+)/", lines[2])[1])
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with pytest.raises(urllib.error.HTTPError, match="401"):
            opener.open(f"http://127.0.0.1:{port}/", timeout=20)
        asked = urllib.request.Request(f"http://127.0.0.1:{port}/")
        asked.add_header("Authorization", "Basic " + base64.b64encode(f"x:{password}".encode()).decode())
        assert opener.open(asked, timeout=20).status == 200


def test_slow_and_dropped_connections_do_not_hold_others(served: UiServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connection, "REQUEST_S", 2.0)
    slow = [socket.create_connection(("127.0.0.1", served.port), 20) for _ in range(100)]
    for line in slow:
        line.sendall(b"GET / HTTP/1.1\r\nHost: 127.0")
    for _ in range(100):
        with closing(socket.create_connection(("127.0.0.1", served.port), 20)) as line:
            line.sendall(PAGE.format("/search?q=a&how=text").encode())
    begun = time.monotonic()
    assert get(served)[0] == 200
    assert time.monotonic() - begun < 10
    for line in slow:  # those that did not come to an end are closed
        line.settimeout(20)
        assert line.recv(10) == b""
        line.close()
    assert get(served)[0] == 200


def test_a_request_that_is_left_is_stopped(served: UiServer, monkeypatch: pytest.MonkeyPatch):
    """The walk of a search ends soon after its reader left."""
    from flintmq.cli.commands.scan import MessageScan

    steps = []
    whole = MessageScan.by_piece

    def endless(self: MessageScan):
        while True:
            steps.append(time.monotonic())
            time.sleep(0.05)
            self.progress(1, 2)
            yield iter(())
        yield from whole(self)

    monkeypatch.setattr(MessageScan, "by_piece", endless)
    with closing(socket.create_connection(("127.0.0.1", served.port), 20)) as line:
        line.sendall(PAGE.format("/search?q=a&how=text").encode())
        got = b""
        while b"so-far" not in got:
            got += line.recv(65536)
    time.sleep(1.5)
    count = len(steps)
    time.sleep(0.5)
    assert len(steps) == count
    assert served.ui.searches.acquire(blocking=False)
    served.ui.searches.release()


def test_a_tail_that_is_left_ends_its_thread(served: UiServer):
    def followers() -> list[str]:
        return [one.name for one in threading.enumerate() if one.name.startswith("flintmq-ui-tail")]

    with closing(socket.create_connection(("127.0.0.1", served.port), 20)) as line:
        line.sendall(PAGE.format("/0/tail/events?topic=Orders").encode())
        got = b""
        while b"data: " not in got:
            got += line.recv(65536)
        assert followers() and served.ui.tails == 1
    until = time.monotonic() + 10
    while (followers() or served.ui.tails) and time.monotonic() < until:
        time.sleep(0.05)
    assert not followers() and served.ui.tails == 0


@pytest.mark.parametrize(("most", "wrong"), [(60.0, 0), (0.0, 1)])
def test_a_short_run_of_the_first_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], most: float, wrong: int
):
    monkeypatch.setattr(ui_first_page, "MOST_S", most)
    assert ui_first_page.run(tmp_path / "store", 60, 5, 400, 1) == wrong
    assert capsys.readouterr().out.splitlines()[1].startswith("300 queues: median ")
