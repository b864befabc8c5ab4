"""Java's push consumers that pop, as `mqadmin setConsumeMode` has them do, at a broker of ours."""

import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flintmq.format import config_json
from tests.interop.served import Served, served, started
from tests.interop.stock_clients import Client, clients
from tests.interop.test_sent_clients import bodies, messages

pytestmark = pytest.mark.slow

COUNT, KILLS = 200, 3
INVISIBLE_MS = 5000  # the shortest time that the client lets one ask for


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with clients("java-5.5.0", tmp_path_factory.mktemp("java")) as running:
        yield running


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "store", tmp_path, "--dev", writes=True) as running:
        yield running


def send(java: Client, address: str, *words: str, **more: Any) -> None:
    told = java.ask("send", address, topic="T", bodies=words, **more)
    assert {row["status"] for row in told["sent"]} == {"SEND_OK"}


def let_pop(java: Client, address: str, group: str) -> None:
    """Have a group pop the topic T; the topic and the group must be there."""
    java.ask("admin", address, words=["updateSubGroup", "-n", address, "-c", "DefaultCluster", "-g", group])
    words = ["setConsumeMode", "-n", address, "-c", "DefaultCluster", "-t", "T", "-g", group, "-m", "POP"]
    text = java.ask("admin", address, words=words)["text"]
    assert "success" in text and "Exception" not in text, text


def consume(java: Client, name: str, address: str, group: str, **more: Any) -> None:
    java.consume(name, address, ["T"], group=group, assigned=True, invisible=INVISIBLE_MS, **more)


def offsets(root: Path, topic: str, group: str) -> dict[int, int]:
    """What a group has committed of a topic, by queue, after the broker's end."""
    table: Any = config_json.parse((root / "config" / "consumerOffset.json").read_bytes())["offsetTable"]
    return {int(queue): offset for queue, offset in table[f"{topic}@{group}"].items()}


def test_what_was_sent_is_popped_once_and_acknowledged(java: Client, tmp_path: Path) -> None:
    with served(tmp_path / "store", tmp_path, "--dev", writes=True) as broker:
        send(java, broker.address, *(f"{n}" for n in range(COUNT)), tags="red")
        let_pop(java, broker.address, "Once")
        consume(java, "Once", broker.address, "Once")
        got = java.await_messages("Once", COUNT, settle_s=1)
        java.stop("Once")
    assert len(got) == COUNT and set(bodies(got).values()) == {1}
    assert {row["topic"] for row in got} == {"T"} and {row["times"] for row in got} == {0}
    stored = messages(tmp_path / "store", "T")
    ends = Counter(one.queue_id for one in stored)
    found = offsets(tmp_path / "store", "T", "Once")
    assert found == dict(ends), "each is acknowledged; such a consumer commits nothing itself"


def test_a_condition_is_for_pops_too(java: Client, broker: Served) -> None:
    for tags in ("red", "blue", "green"):
        send(java, broker.address, *(f"{tags} {n}" for n in range(20)), tags=tags)
    let_pop(java, broker.address, "Filtered")
    consume(java, "Filtered", broker.address, "Filtered", sql="TAGS = 'blue' OR TAGS CONTAINS 'ee'")
    got = java.await_messages("Filtered", 40, settle_s=1)
    java.stop("Filtered")
    assert Counter(row["tags"] for row in got) == {"blue": 20, "green": 20} and set(bodies(got).values()) == {1}


def test_what_is_refused_is_popped_again(java: Client, broker: Served, tmp_path: Path) -> None:
    """After 10 s: the client makes it invisible for so long."""
    send(java, broker.address, "one", "two", tags="", keys="k")
    let_pop(java, broker.address, "Again")
    consume(java, "Again", broker.address, "Again", refuse=1)
    got = java.await_messages("Again", 4)
    java.stop("Again")
    assert Counter(row["times"] for row in got) == {0: 2, 1: 2} and {row["topic"] for row in got} == {"T"}
    retries = messages(tmp_path / "store", "%RETRY%Again_T")
    assert sorted(one.body for one in retries) == [b"one", b"two"]


def test_members_share_one_queue(java: Client, broker: Served) -> None:
    """Of consumers that pull, only one would have it."""
    address = broker.address
    java.ask(
        "admin", address, words=["updateTopic", "-n", address, "-c", "DefaultCluster", "-t", "T", "-r", "1", "-w", "1"]
    )
    let_pop(java, address, "Shared")
    for name in ("one", "two"):
        consume(java, name, address, "Shared")
    got: dict[str, list[dict[str, Any]]] = {}
    for round_ in range(20):
        send(java, address, *(f"{round_}-{n}" for n in range(20)))
        got = {name: java.await_messages(name, 1, seconds=5, settle_s=0.2) for name in ("one", "two")}
        if all(got.values()):
            break
    sent = 20 * (round_ + 1)
    got["two"] = java.await_messages("two", sent - len(java.got("one")), seconds=20)
    got["one"] = java.got("one")
    for name in ("one", "two"):
        java.stop(name)
    assert set(bodies(got["one"] + got["two"]).values()) == {1}, "each message goes to one of them"
    assert len(got["one"]) + len(got["two"]) == sent and all(got.values())


def test_what_was_acknowledged_by_nobody_outlives_kill_9(java: Client, tmp_path: Path) -> None:
    store = tmp_path / "store"
    running = started(store, tmp_path, "--dev")
    address, sent = running.address, 0
    try:
        send(java, address, "first")
        let_pop(java, address, "Through")
        consume(java, "Through", address, "Through")
        for kill in range(KILLS):
            timer = threading.Timer(0.1 * (kill + 1), running.process.send_signal, (signal.SIGKILL,))
            timer.start()
            told = java.ask("send", address, topic="T", bodies=[f"{kill}-{n}" for n in range(1000)], how="async")
            sent += len(told["sent"])
            timer.join()
            assert running.process.wait(20) == -signal.SIGKILL
            running = started(store, tmp_path, "--dev", listen=address)
        send(java, address, "last")
        stored = {one.body for one in messages(store, "T")}
        java.await_messages("Through", len(stored), settle_s=2 * INVISIBLE_MS / 1000)
        got = bodies(java.got("Through"))
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(30) == 0, running.errors.read_text()
    finally:
        java.stop("Through")
        running.process.kill()
        running.process.wait()
    assert sent >= KILLS and len(got) == len(stored), "none is lost; some may have come twice"
    assert any(offsets(store, "T", "Through").values())


def test_an_orderly_consumer_pops_in_order(java: Client, broker: Served) -> None:
    """What it refuses comes again in place, before what follows."""
    send(java, broker.address, *(f"{n}" for n in range(40)))
    let_pop(java, broker.address, "Order")
    consume(java, "Order", broker.address, "Order", refuse=1, orderly=True)
    got = java.await_messages("Order", 80, seconds=60)
    java.stop("Order")
    for queue in range(4):
        offsets = [row["offset"] for row in got if row["queue"] == queue]
        assert offsets == sorted(offsets)
    assert set(bodies(got).values()) == {2} and len(got) == 80
