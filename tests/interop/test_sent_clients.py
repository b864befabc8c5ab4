"""Stock clients send to a broker of ours and consume from it: each message once, through retries and kill -9."""

import re
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import flintmq
from tests.interop.served import Served, served, started
from tests.interop.stock_clients import KINDS, Client, clients

pytestmark = pytest.mark.slow

LEVELS = ("--set", "messageDelayLevel=1s 1s 1s 1s 1s 1s 1s 1s 1s")
KILLS, AT_ONCE = 4, 3000


@pytest.fixture(scope="module", params=KINDS)
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Clients of one kind, in one process for all tests."""
    with clients(request.param, tmp_path_factory.mktemp("client")) as running:
        yield running


@pytest.fixture(scope="module", params=[kind for kind in KINDS if kind.startswith("java")])
def java(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Java's alone: they can do more."""
    with clients(request.param, tmp_path_factory.mktemp("java")) as running:
        yield running


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "store", tmp_path, "--dev", *LEVELS, writes=True) as running:
        yield running


def messages(root: Path, topic: str) -> list[flintmq.StoredMessage]:
    with flintmq.open_store(root) as view:
        return [one for one in view.messages() if one.topic == topic]


def bodies(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(row["sha1"] for row in rows)


def test_what_was_sent_is_stored_and_consumed_once(client: Client, broker: Served, tmp_path: Path) -> None:
    told = client.ask("send", broker.address, topic="T", bodies=[f"é{n}" for n in range(200)], tags="red", keys="a b")
    assert {row["status"] for row in told["sent"]} == {"SEND_OK"}
    client.consume("G", broker.address, ["T"])
    got = client.await_messages("G", 200)
    assert {row["tags"] for row in got} == {"red"} and {row["keys"] for row in got} == {"a b"}
    client.stop("G")
    stored = {(one.queue_id, one.queue_offset): one for one in messages(tmp_path / "store", "T")}
    assert len(stored) == 200 == len(got)
    for row in told["sent"]:
        one = stored[row["queue"], row["offset"]]
        assert (one.body.decode(), one.msg_id, one.offset_msg_id) == (row["body"], row["id"], row["offsetId"])
    assert {(row["queue"], row["offset"]) for row in got} == stored.keys()
    assert {row["queue"] for row in told["sent"]} == {0, 1, 2, 3}, "a topic of a first send has four queues"


def test_what_is_refused_comes_again(client: Client, broker: Served) -> None:
    client.ask("send", broker.address, topic="T", bodies=["one", "two"], tags="", keys="k")
    client.consume("Again", broker.address, ["T"], refuse=2)  # Go's wants a topic that is there
    got = client.await_messages("Again", 6)
    client.stop("Again")
    assert Counter(bodies(got).values()) == {3: 2}
    assert Counter(row["times"] for row in got) == {0: 2, 1: 2, 2: 2}
    assert {row["topic"] for row in got} <= {"T", "%RETRY%Again"}


def test_in_the_end_it_is_a_dead_letter(java: Client, broker: Served, tmp_path: Path) -> None:
    java.consume("Never", broker.address, ["T"], refuse=99, most=2)
    java.ask("send", broker.address, topic="T", bodies=["bad"])
    assert len(java.await_messages("Never", 3, settle_s=2)) == 3
    java.stop("Never")
    java.consume("Undertaker", broker.address, ["%DLQ%Never"])
    [dead] = java.await_messages("Undertaker", 1)
    java.stop("Undertaker")
    assert dead["times"] == 3
    [one] = messages(tmp_path / "store", "%DLQ%Never")
    assert (one.body, one.properties["RETRY_TOPIC"]) == (b"bad", "T")


@pytest.mark.parametrize("how", ["batch", "async", "oneway"])
def test_other_ways_to_send(client: Client, broker: Served, tmp_path: Path, how: str) -> None:
    client.ask("send", broker.address, topic="T", bodies=["first"])
    wanted = [f"{n}" for n in range(300)]
    client.consume("All", broker.address, ["T"])
    told = client.ask("send", broker.address, topic="T", bodies=wanted, how=how)
    got = client.await_messages("All", 301)
    client.stop("All")
    stored = messages(tmp_path / "store", "T")
    assert Counter(one.body.decode() for one in stored) == Counter([*wanted, "first"])
    assert set(bodies(got).values()) == {1} and len(got) == 301
    if (client.kind, how) == ("go", "batch"):  # Go's client gives the messages of a batch no keys; no broker adds them
        assert [one.msg_id for one in stored if one.body != b"first"] == [None] * 300
    else:
        assert len({one.msg_id for one in stored}) == 301, "each has a key of its own"
    assert len(told["sent"]) == {"batch": 1, "async": 300, "oneway": 0}[how]


def test_an_orderly_consumer_waits_for_each(java: Client, broker: Served) -> None:
    sent = java.ask("send", broker.address, topic="T", bodies=[f"{n}" for n in range(40)])["sent"]
    java.consume("Order", broker.address, ["T"], refuse=1, orderly=True)
    got = java.await_messages("Order", 80)
    java.stop("Order")
    for queue in range(4):
        offsets = [row["offset"] for row in got if row["queue"] == queue]
        wanted = sorted([row["offset"] for row in sent if row["queue"] == queue] * 2)
        assert offsets == wanted, "each twice, one after the other"


def test_mqadmin_counts_what_came_and_went(java: Client, broker: Served) -> None:
    java.ask("send", broker.address, topic="T", bodies=[f"{n}" for n in range(30)])
    java.consume("Counting", broker.address, ["T"])
    assert len(java.await_messages("Counting", 30)) == 30
    words = ["statsAll", "-n", broker.address, "-a", "-t", "T"]
    text = java.ask("admin", broker.address, words=words)["text"]
    java.stop("Counting")
    assert re.search(r"^T +Counting +\d+ +[\d.]+ +[\d.]+ +30 +30\b", text, re.MULTILINE), text


def test_a_delay_level(client: Client, broker: Served) -> None:
    client.ask("send", broker.address, topic="T", bodies=["now"], keys="k")
    client.consume("Late", broker.address, ["T"])
    client.ask("send", broker.address, topic="T", bodies=["late"], level=2, keys="k")
    assert len(client.await_messages("Late", 2)) == 2
    client.stop("Late")


def test_the_load_of_the_bench(java: Client, broker: Served, tmp_path: Path) -> None:
    """It says how many were acknowledged, stored and consumed; a broker that has fewer is found out."""
    for window, before in ((0, 0), (16, 300)):
        sent = java.ask("load", broker.address, topic="T", count=300, size=100, window=window, before=before)
        assert (sent["acknowledged"], sent["stored"]) == (300, 300) and sent["seconds"] > 0
    assert {len(one.body) for one in messages(tmp_path / "store", "T")} == {100}
    got = java.ask("drain", broker.address, topic="T", count=600, group="D")
    assert got["messages"] == 600 and got["seconds"] > 0
    paced = java.ask("pace", broker.address, topic="P", count=50, group="P", pause_ms=2)
    assert paced["messages"] == 50 and 0 < paced["p50_us"] <= paced["p99_us"] < 10_000_000
    refusing = ("--set", "maxMessageSize=200")
    with served(tmp_path / "other", tmp_path, "--dev", *refusing, writes=True) as other:
        sent = java.ask("load", other.address, topic="T", count=5, size=1000, window=4, before=0)
        assert (sent["acknowledged"], sent["stored"]) == (0, 0)


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_what_was_acknowledged_outlives_kill_9(java: Client, tmp_path: Path, flush: str) -> None:
    """Thousands are on their way each time; clients send again what got no answer, so one may be there twice."""
    store, words = tmp_path / "store", ("--dev", "--set", f"flushDiskType={flush}")
    running = started(store, tmp_path, *words)
    address, acknowledged = running.address, set[str]()
    try:
        java.ask("send", address, topic="T", bodies=["first"])
        java.consume("Through", address, ["T"])
        for kill in range(KILLS):
            timer = threading.Timer(0.15 * (kill + 1), running.process.send_signal, (signal.SIGKILL,))
            timer.start()
            sent = java.ask("send", address, topic="T", bodies=[f"{kill}-{n}" for n in range(AT_ONCE)], how="async")
            acknowledged |= {row["body"] for row in sent["sent"]}
            timer.join()
            assert running.process.wait(20) == -signal.SIGKILL
            running = started(store, tmp_path, *words, listen=address)
        java.ask("send", address, topic="T", bodies=["last"])
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(30) == 0, running.errors.read_text()
    finally:
        java.stop("Through")
        running.process.kill()
        running.process.wait()
    stored = messages(store, "T")
    places = [(one.queue_id, one.queue_offset) for one in stored]
    assert len(places) == len(set(places)), "no queue offset twice"
    found = {one.body.decode() for one in stored}
    assert acknowledged <= found and {"first", "last"} <= found
    assert len(acknowledged) >= KILLS
