"""Timers to and fro between FlintMQ and RocketMQ's broker: each message once, never early, whoever has the store."""

import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from flintmq.message import Message, StoredMessage
from flintmq.store.message_store import MessageStore
from flintmq.store.view import open_store
from tests.interop.running_broker import java_of, run_broker

pytestmark = pytest.mark.slow

KEYS: dict[str, Any] = {
    "mappedFileSizeCommitLog": 65536,
    "mappedFileSizeConsumeQueue": 2000,
    "maxHashSlotNum": 500,
    "maxIndexNum": 2000,
    "mappedFileSizeTimerLog": 10 * 52 + 16,
    "timerPrecisionMs": 100,
    "timerRollWindowSlot": 60,  # 6 s: what waits longer is stored once more
    "timerFlushIntervalMs": 1000,
}
TOPIC = "Timed"


def in_flintmq(root: Path, peer: str, count: int, name: str, seconds: float, killed: bool = False) -> None:
    """Open the store for some seconds; put messages first that are due every 700 ms; recall one of them."""
    child = os.fork()
    if child == 0:
        store = MessageStore(root, config=KEYS, peer=peer)
        handle = None
        for n in range(count):
            due = store.effects.now_ms() + 1000 + 700 * n
            handle = store.put(Message(TOPIC, f"{name}{n}".encode(), keys=f"{name}{n}", deliver_timestamp=due))
        if handle is not None:
            last = Message(TOPIC, b"recalled", deliver_timestamp=store.effects.now_ms() + 5500)  # after the close
            store.recall(store.put(last).recall_handle() or "").raise_for_status()
        time.sleep(seconds)
        if killed:
            os.kill(os.getpid(), 9)
        store.close()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == (9 if killed else 0)


def came(root: Path) -> list[StoredMessage]:
    with open_store(root, set=KEYS) as view:
        return [m for m in view.messages() if m.topic == TOPIC]


def check(found: list[StoredMessage], wanted: set[str], at_most: int = 1) -> None:
    counts = Counter(m.body.decode() for m in found)
    assert counts.keys() == wanted, wanted ^ counts.keys()
    assert max(counts.values()) <= at_most, counts.most_common(3)
    for m in found:
        due = m.properties.get("TIMER_DELIVER_MS") or m.born_timestamp + int(m.properties["TIMER_DELAY_MS"])
        assert m.store_timestamp >= int(due), f"{m.body!r} came {int(due) - m.store_timestamp} ms too early"


@pytest.mark.turn(6)
@pytest.mark.parametrize(("version", "halted"), [("5.3.3", True), ("5.4.0", False), ("5.5.0", True)])
def test_to_and_fro(tmp_path: Path, version: str, halted: bool):
    """Both begin with what the other left: overdue, waiting, stored once more, recalled."""
    java, root = java_of(version), tmp_path / "store"
    send = {"op": "send", "topic": TOPIC}
    sends = [send | {"body": f"j{n}", "keys": f"j{n}", "delay_ms": 1000 + 1500 * n} for n in range(20)]
    in_flintmq(root, version, 40, "f", 4)
    run_broker(java, root, [*sends, {"op": "sleep", "ms": 6000}, *[{"op": "halt"}] * halted], TOPIC, KEYS)
    in_flintmq(root, version, 15, "g", 5)
    run_broker(java, root, [{"op": "sleep", "ms": 8000}], TOPIC, KEYS)
    in_flintmq(root, version, 0, "", 12)
    wanted = {f"f{n}" for n in range(40)} | {f"j{n}" for n in range(20)} | {f"g{n}" for n in range(15)}
    check(came(root), wanted)
    before = len(came(root))
    run_broker(java, root, [{"op": "sleep", "ms": 3000}], TOPIC, KEYS)
    assert len(came(root)) == before, "and nothing comes again"


@pytest.mark.turn(6)
@pytest.mark.parametrize("version", ["5.3.3", "5.4.0", "5.5.0"])
def test_a_broker_after_a_kill(tmp_path: Path, version: str):
    """It gives what came within the last second before the kill once more at most, and loses nothing."""
    java, root = java_of(version), tmp_path / "store"
    in_flintmq(root, version, 12, "f", 4, killed=True)
    run_broker(java, root, [{"op": "sleep", "ms": 9000}], TOPIC, KEYS)
    check(came(root), {f"f{n}" for n in range(12)}, at_most=2)
    counts = Counter(m.body for m in came(root))
    assert sum(count > 1 for count in counts.values()) <= 3, counts


@pytest.mark.turn(6)
@pytest.mark.parametrize(("version", "snapshots"), [("5.4.0", True), ("5.5.0", True)])
def test_copies_of_the_wheel(tmp_path: Path, version: str, snapshots: bool):
    """A broker that keeps copies of its wheel (timerWheelSnapshotFlush) finds what FlintMQ added since."""
    java, root = java_of(version), tmp_path / "store"
    keys = KEYS | {"timerWheelSnapshotFlush": snapshots, "timerWheelSnapshotIntervalMs": 1000}
    send = {"op": "send", "topic": TOPIC}
    sends = [send | {"body": f"j{n}", "keys": f"j{n}", "delay_ms": 1000 + 2000 * n} for n in range(15)]
    run_broker(java, root, [*sends, {"op": "sleep", "ms": 3000}], TOPIC, keys)
    in_flintmq(root, version, 20, "f", 2)
    run_broker(java, root, [{"op": "sleep", "ms": 25_000}], TOPIC, keys)
    check(came(root), {f"f{n}" for n in range(20)} | {f"j{n}" for n in range(15)})
