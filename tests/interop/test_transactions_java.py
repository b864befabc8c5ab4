"""Transactions across implementations: stock producers at a broker of ours, and stores that go to and fro with Java's.

Skipped where Java or the oracle is missing; tests/interop/java.py says which, and how to have it.
"""

import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq import Half
from flintmq.forensics.verify.run import verify
from flintmq.message import Message
from flintmq.store.message_store import MessageStore
from flintmq.store.view import open_store
from tests.interop.java import VERSIONS, Java
from tests.interop.running_broker import free_ports, java_of
from tests.interop.served import served, started
from tests.interop.stock_clients import clients
from tests.interop.test_broker_java import KEYS, QUIET

pytestmark = pytest.mark.slow
OF = [
    "src/flintmq/store/services/transactions",
    "src/flintmq/store/append/half",
    "tests/interop/test_transactions_java",
]

HALF, OUTCOME, GROUP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "CID_RMQ_SYS_TRANS"
SENDERS = "OracleProducer"  # the group of the oracle's own producer
SOON = ("--set", "transactionTimeOut=600", "--set", "transactionCheckInterval=300")
ENDS = ("c", "r", "uc", "ur", "u")
CHECK_MS, CHECKED_MS = 6000, 15_000  # between two checks of Java's; until one is over, and all that it asked has ended
ENDED = {"op": "sleep", "ms": 700}  # a producer tells the end of a transaction oneway: the broker may not have it yet
AT_ONCE = {"transactionTimeOut": 0}  # senders are asked about what is a millisecond old


def bodies(root: Path, topic: str = "Tx") -> Counter[str]:
    with open_store(root) as view:
        return Counter(one.body.decode() for one in view.messages() if one.topic == topic)


# -- producers at a broker of ours ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["java-5.3.3", "java-5.5.0"])
def test_each_transaction_ends_as_its_sender_says(kind: str, tmp_path: Path):
    """At once, or when it is asked; through a kill of the broker, and by another producer of the group."""
    store, words = tmp_path / "store", ("--dev", *SOON)
    sent = [f"{n} {word}" for n in range(8) for word in ENDS]
    running = started(store, tmp_path, *words)
    try:
        with clients(kind, tmp_path) as client:
            address = running.address
            told = client.ask("transact", address, topic="Tx", group="Shop", bodies=sent, tags="red", keys="k")
            assert {row["status"] for row in told["sent"]} == {"SEND_OK"}
            client.consume("Reader", address, ["Tx"])
            running.process.send_signal(signal.SIGKILL)
            running.process.wait()
            running = started(store, tmp_path, *words, listen=address)
            got = client.await_messages("Reader", 16, settle_s=2)
            asked = client.await_messages("Shop", 24, settle_s=0)
            client.ask("leave", address, group="Shop")
            more = [f"{n} uc" for n in range(100, 105)]
            client.ask("transact", address, topic="Tx", group="Other", bodies=more)
            client.ask("leave", address, group="Other")
            client.ask("join", address, topic="Hello", group="Other")
            got = client.await_messages("Reader", 21, settle_s=2)
            client.stop("Reader")
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(30) == 0, running.errors.read_text()
    finally:
        running.process.kill()
        running.process.wait()
    committed = [one for one in [*sent, *more] if one.endswith("c")]
    assert len(got) == len(committed) == 21 and {row["tags"] for row in got[:16]} == {"red"}
    assert bodies(store) == Counter(committed), "each once"
    asked_of = {row["text"] for row in asked}
    assert asked_of >= {one for one in sent if "u" in one}, "all that said nothing"
    assert verify(store).defects == []


def test_what_is_never_answered_is_given_up(tmp_path: Path):
    words = ("--dev", "--set", "transactionTimeOut=100", "--set", "transactionCheckInterval=100")
    with (
        clients("java-5.5.0", tmp_path) as client,
        served(tmp_path / "store", tmp_path, *words, "--set", "transactionCheckMax=3", writes=True) as running,
    ):
        client.ask("transact", running.address, topic="Tx", group="Shop", bodies=["x u"])
        assert len(client.await_messages("Shop", 3, settle_s=2)) == 3
        client.ask("leave", running.address, group="Shop")
    assert bodies(tmp_path / "store", "TRANS_CHECK_MAX_TIME_TOPIC") == {"x u": 1}
    assert bodies(tmp_path / "store") == {}


# -- stores that go to and fro ----------------------------------------------------------------------------------------


def broker(
    java: Java, root: Path, ops: list[dict[str, Any]], answer: str | None = None, *, outcomes_ms: int = 100
) -> list[dict[str, Any]]:
    """Run a broker of Java on a store, whose producer gives this answer when it is asked; the answers of the script.

    It writes outcomes each `outcomes_ms`: mostly before its next check, else that delivers once more what has just
    ended (D37).
    """
    names, port = free_ports()
    more: dict[str, Any] = {
        "broker": {
            "brokerClusterName": "C",
            "brokerName": "b",
            "flushConsumerOffsetInterval": 500,
            "transactionMetricFlushInterval": 500,
            "transactionTimeOut": 500,
            "transactionOpBatchInterval": outcomes_ms,
            "transactionCheckInterval": CHECK_MS,
        },
        "namesrv_port": names,
        "broker_port": port,
    }
    if answer is not None:
        more["answer_checks"] = answer
    return java("broker", root, KEYS | QUIET, ops, ["Tx", "Plain"], more=more)


def transactions(*bodies: str) -> list[dict[str, Any]]:
    words = {"c": "COMMIT_MESSAGE", "r": "ROLLBACK_MESSAGE", "u": "UNKNOW"}
    return [
        {"op": "transaction", "topic": "Tx", "body": body, "keys": body.split()[0], "outcome": words[body[-1]]}
        for body in bodies
    ]


def flint(root: Path, peer: str, work: Callable[[MessageStore], None], *, killed: bool = False) -> None:
    """Do something with the store of ours in a process, which then closes it or is killed."""
    child = os.fork()
    if child == 0:
        store = MessageStore(root, config=KEYS | AT_ONCE, peer=peer)
        work(store)
        if killed:
            os.kill(os.getpid(), 9)
        store.close()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == (9 if killed else 0)


def begin(*given: str) -> Callable[[MessageStore], None]:
    """Begin transactions, of which some end at once, as the last letter of each says."""

    def work(store: MessageStore) -> None:
        for body in given:
            half = store.begin(Message("Tx", body.encode(), keys=body.split()[0], queue_id=1), SENDERS)
            if body[-1] == "c":
                half.commit().raise_for_status()
            elif body[-1] == "r":
                half.rollback().raise_for_status()
        assert store.wait_dispatched(60)

    return work


def settle(commit: bool) -> Callable[[MessageStore], None]:
    """Have each open transaction asked about, and give one answer to all; twice."""

    def work(store: MessageStore) -> None:
        assert store.wait_dispatched(60)
        asked: list[str] = []

        def ask(half: Half) -> None:
            asked.append(half.message.body.decode())
            half.commit() if commit and not asked[-1].endswith("r") else half.rollback()

        store.on_check(ask)
        store._parts.transactions.check_once()
        first = len(asked)
        assert store.wait_dispatched(60)
        store._parts.transactions.check_once()
        assert len(asked) == first == len(set(asked)), asked
        assert store.wait_dispatched(60)
        done = tuple(store.consumer_offset(GROUP, topic, 0) for topic in (HALF, OUTCOME))
        assert done == (store.bounds(HALF, 0)[1], store.bounds(OUTCOME, 0)[1])

    return work


@pytest.mark.turn(3)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("killed", [False, True])
def test_java_goes_on_with_ours(tmp_path: Path, version: str, killed: bool):
    """It asks about what is open, each once, delivers it, and leaves nothing to us."""
    java, root = java_of(version), tmp_path / "store"
    flint(root, version, begin("1 c", "2 r", "3 u", "4 c", "5 u", "6 u"), killed=killed)
    plain = {"op": "send", "topic": "Plain", "body": "hello"}  # by which the producer knows its broker
    broker(java, root, [plain, {"op": "sleep", "ms": CHECKED_MS}], "COMMIT_MESSAGE")
    assert bodies(root) == Counter(["1 c", "4 c", "3 u", "5 u", "6 u"])
    flint(root, version, settle(commit=True))
    assert bodies(root) == Counter(["1 c", "4 c", "3 u", "5 u", "6 u"])
    assert verify(root).defects == []


@pytest.mark.turn(3)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("last", ["sleep", "halt"])
def test_ours_goes_on_with_java_s(tmp_path: Path, version: str, last: str):
    """Also after a kill within the seconds in which RocketMQ has not written what ended."""
    java, root = java_of(version), tmp_path / "store"
    ops = [*transactions("1 u", "2 c", "3 r", "4 u"), {"op": "sleep", "ms": 4500}, *transactions("5 c", "6 c", "7 u")]
    broker(java, root, [*ops, ENDED, {"op": last, "ms": 4500}], outcomes_ms=3000)
    assert bodies(root) == Counter(["2 c", "5 c", "6 c"])
    flint(root, version, settle(commit=True))
    assert bodies(root) == Counter(["2 c", "5 c", "6 c", "1 u", "4 u", "7 u"]), "each once"
    plain = {"op": "send", "topic": "Plain", "body": "hello"}
    broker(java, root, [plain, {"op": "sleep", "ms": CHECKED_MS}], "COMMIT_MESSAGE")
    assert bodies(root) == Counter(["2 c", "5 c", "6 c", "1 u", "4 u", "7 u"]), "Java finds nothing left to ask"
    assert verify(root).defects == []


@pytest.mark.nightly(of=OF)
def test_d37_a_killed_rocketmq_delivers_twice(tmp_path: Path):
    """What it committed in its last 3 s it asks about again; ours, on a copy of the same directory, does not."""
    java, root = java_of("5.5.0"), tmp_path / "java"
    broker(java, root, [*transactions("1 c", "2 c"), {"op": "halt"}], outcomes_ms=3000)
    copied = Path(shutil.copytree(root, tmp_path / "ours"))
    plain = {"op": "send", "topic": "Plain", "body": "hello"}
    broker(java, root, [plain, {"op": "sleep", "ms": CHECKED_MS}], "COMMIT_MESSAGE")
    found = bodies(root)
    assert found.keys() == {"1 c", "2 c"} and max(found.values()) > 1, found
    flint(copied, "5.5.0", settle(commit=True))
    assert bodies(copied) == Counter({"1 c": 1, "2 c": 1})


@pytest.mark.nightly(of=OF)
def test_to_and_fro_through_all_versions(tmp_path: Path):
    """One store, each of three brokers and ours between them, all killed: nothing lost, nothing twice."""
    root, wanted = tmp_path / "store", Counter[str]()
    plain = {"op": "send", "topic": "Plain", "body": "hello"}
    for number, version in enumerate(VERSIONS):
        names = [f"{number}{letter}" for letter in "abc"]
        flint(root, version, begin(f"{names[0]} c", f"{names[1]} u", f"{names[2]} r"), killed=True)
        ops = [plain, {"op": "sleep", "ms": CHECKED_MS}, *transactions(f"{number}d c", f"{number}e u"), ENDED]
        broker(java_of(version), root, [*ops, {"op": "halt"}], "COMMIT_MESSAGE")
        wanted += Counter([f"{names[0]} c", f"{names[1]} u", f"{number}d c"])
        assert bodies(root) == wanted, version
        flint(root, version, settle(commit=False), killed=True)
        assert bodies(root) == wanted, f"{version}, after ours"
    assert verify(root).defects == []
