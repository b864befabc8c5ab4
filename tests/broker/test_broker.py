"""A broker's start and its end, in a thread of its own and in a running loop."""

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from flintmq.broker import Broker
from flintmq.broker.connection import ClientConnection
from flintmq.errors import FlintError, UsageError
from flintmq.remoting.client import RemotingClient
from tests.broker.talk import LIMIT_S, Line, heartbeat, pull, send
from tests.support.loopback import SMALL_BUFFER
from tests.support.threads import within

STOP_S = 3.0


def test_in_a_running_loop(resting: Path):
    async def serve() -> int:
        async with Broker(resting, read_only=True) as broker:
            assert broker.store.topics() == ["T"]

            def ask() -> int:
                with RemotingClient(broker.address) as client:
                    return client.ask(206).code

            return await asyncio.to_thread(ask)

    assert asyncio.run(serve()) == 0


def test_it_is_started_once_and_stopped_as_often_as_one_likes(resting: Path):
    async def serve() -> None:
        broker = Broker(resting, read_only=True)
        with pytest.raises(UsageError, match="not started"):
            broker.stats()
        for _ in range(2):
            await broker.start()
            with pytest.raises(UsageError, match="started already"):
                await broker.start()
            assert broker.stats().connections == 0
            await broker.stop()
            await broker.stop()
        with pytest.raises(UsageError, match="is stopped"):
            print(broker.store)

    asyncio.run(serve())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"read_only": True}, "give its path"),
        ({"store": "s", "read_only": True, "dev": True}, "leave out dev"),
        ({"store": "s", "offsets": "file"}, "for read_only"),
        ({"store": "s", "advertise": "x:9"}, "without a port"),
        ({"store": "s", "config": {"brokerRole": "SLAVE"}}, "takes no messages"),
    ],
)
def test_words_that_do_not_go_together(given: dict[str, Any], words: str):
    with pytest.raises(UsageError, match=words):
        Broker(**given)


def test_the_view_is_closed_with_it(resting: Path):
    with Broker(resting, read_only=True) as broker:
        view = broker.store
    with pytest.raises(FlintError, match="closed"):
        view.topics()


def test_after_its_end_nobody_is_served(resting: Path):
    with Broker(resting, read_only=True) as broker, Line(broker.address) as talk:
        assert talk.ask(206).code == 0
        address = broker.address
        broker.__exit__()
        assert talk.hung_up()
        with pytest.raises(ConnectionError), Line(address):
            pass


def test_a_read_that_hangs_does_not_keep_it(resting: Path, monkeypatch: pytest.MonkeyPatch):
    """A disk that does not answer: heartbeats are answered, and the end comes in three seconds."""
    going_on = threading.Event()
    with Broker(resting, read_only=True) as broker, Line(broker.address) as bad, Line(broker.address) as good:

        def hang(*args: Any, **given: Any) -> None:
            going_on.wait(30)

        monkeypatch.setattr(broker.store, "get_raw", hang)
        for _ in range(20):
            bad.start(11, pull())
        assert within(lambda: threading.active_count() > 1) and bad.is_quiet(0.1)
        assert good.ask(105, {"topic": "T"}).code == 0
        begin = time.monotonic()
    took = time.monotonic() - begin
    going_on.set()
    assert STOP_S * 0.9 < took < STOP_S + 2


def test_a_member_that_goes_at_the_end_is_no_news(
    resting: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """Our side of the other's connection has ended, and waits for what it does not read."""
    monkeypatch.setattr("flintmq.broker.broker.STOP_S", 0.5)
    gone, lost = list[ClientConnection](), ClientConnection.connection_lost

    def noted(of: ClientConnection, error: Exception | None) -> None:
        lost(of, error)
        gone.append(of)

    monkeypatch.setattr(ClientConnection, "connection_lost", noted)
    with Broker(resting, read_only=True) as broker, Line(broker.address, receive_buffer=SMALL_BUFFER) as silent:
        broker._now._requests.add({4711: lambda asked: asked.answer(body=bytes(1 << 20))})
        silent.ask(34, body=heartbeat("a", "G"))
        for _ in range(20):
            silent.start(4711)
        with Line(broker.address) as other:
            other.ask(34, body=heartbeat("b", "G"))
            broker.__exit__()
            assert len(gone) == 2, "the one that takes all first"
    assert [one.getMessage() for one in caplog.records if one.levelname == "ERROR"] == []


def test_figures_from_any_thread(resting: Path):
    """While the loop adds groups; threads change places often, so that a look falls amid a change."""
    limit, usual_s = time.monotonic() + LIMIT_S, sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with Broker(resting, read_only=True) as broker, ExitStack() as lines:
            for turn in range(20):
                talk = lines.enter_context(Line(broker.address))
                number = talk.start(34, body=heartbeat("a", *(f"G{turn}-{group}" for group in range(1000))))
                while talk.is_quiet(0.001) and time.monotonic() < limit:  # a wait: the loop's thread must run, too
                    broker.stats()
                assert talk.answer(number).code == 0
            assert len(broker.stats().groups) == 20_000
    finally:
        sys.setswitchinterval(usual_s)


@pytest.mark.parametrize("listen", ["", "127.0.0.1", "127.0.0.1:x", "a b:1", ":0", "127.0.0.1:65536"])
def test_addresses_that_are_none(resting: Path, listen: str):
    with pytest.raises(UsageError, match="HOST:PORT"):
        Broker(resting, read_only=True, listen=listen)


def test_ipv6(served: Callable[..., Broker], resting: Path):
    broker = served(resting, listen="[::1]:0")
    assert broker.address.startswith("[::1]:")
    with RemotingClient(broker.address) as client:
        assert broker.address.encode() in client.ask(105, {"topic": "T"}).body


def test_a_configuration_that_was_another_brokers(tmp_path: Path):
    """Ids name the port that was taken, and `dev` makes small files all the same; what the file says wins."""
    conf = tmp_path / "broker.conf"
    conf.write_text("listenPort=12345\nmaxIndexNum=5000\n", encoding="utf-8")
    with Broker(tmp_path / "s", dev=True, config=conf) as broker, Line(broker.address) as line:
        offset_id = line.ask(310, send("T"), b"x").fields["msgId"]
        assert int(offset_id[8:16], 16) == int(broker.address.rpartition(":")[2])
        files = list((tmp_path / "s" / "commitlog").iterdir())
        assert {file.stat().st_size for file in files} == {16 << 20}
        assert broker.store.config.max_index_num == 5000
