"""RocketMQ opens a store in which a topic was deleted and made again, and goes on; and what it does itself.

Skipped where Java or the oracle is missing; tests/interop/java.py says which, and how to have it.
"""

from pathlib import Path
from typing import Any

import pytest

from flintmq import Message, TopicSettings
from flintmq.forensics.verify.run import verify
from flintmq.store.message_store import MessageStore
from tests.interop.java import Java
from tests.robustness.crash.lives import KEYS

pytestmark = pytest.mark.slow

MORE = {"topics": {"T": {"queues": 1}, "U": {"queues": 1}}}
Entries = dict[str, list[tuple[int, str]]]


def puts(topic: str, first: int, count: int) -> list[dict[str, Any]]:
    return [{"op": "put", "topic": topic, "queue": 0, "body": f"{topic}{first + n}"} for n in range(count)]


def java_goes_on(java: Java, root: Path, last: str) -> list[int]:
    """Have Java put two messages into T and one into U, and close the store or be killed; the queue offsets."""
    ops = [*puts("T", 200, 2), *puts("U", 200, 1), {"op": "dispatch"}, {"op": last}]
    return [row["queue_offset"] for row in java("run", root, KEYS, ops, more=MORE) if row["op"] == "put"]


def java_ends(java: Java, root: Path) -> dict[str, tuple[int, int]]:
    rows = java("dump", root, KEYS, more=MORE)
    return {row["topic"]: (row["min"], row["max"]) for row in rows if row["kind"] == "queue"}


def opened(root: Path, peer: str) -> MessageStore:
    return MessageStore(root, config=KEYS, peer=peer, unique_keys=False)


def ours(root: Path, peer: str) -> Entries:
    """The queues of T and U as FlintMQ gives them."""
    with opened(root, peer) as store:
        assert store.wait_dispatched(30)
        return {
            topic: [(one.queue_offset, one.body.decode()) for one in store.get(topic, 0, 0, 100).messages]
            for topic in ("T", "U")
        }


def entries(topic: str, *runs: tuple[int, int]) -> list[tuple[int, str]]:
    return list(enumerate(f"{topic}{first + n}" for first, count in runs for n in range(count)))


def put_all(store: MessageStore, topic: str, first: int, count: int) -> None:
    for number in range(first, first + count):
        store.put(Message(topic, f"{topic}{number}".encode())).raise_for_status()


@pytest.mark.parametrize("remade", [0, 3])
@pytest.mark.parametrize("last", ["flush", "halt"])
def test_java_goes_on_with_a_topic_that_was_made_again(tmp_path: Path, java: Java, remade: int, last: str):
    """At its new offsets, and both then read the same."""
    with opened(tmp_path, java.version) as store:
        put_all(store, "T", 0, 20)
        put_all(store, "U", 0, 5)
        store.commit_offset("g", "T", 0, 7)
        store.delete_topic("T")
        store.create_topic("T", TopicSettings(1, 1, attributes={"message.type": "FIFO"}))
        put_all(store, "T", 100, remade)
    assert java_ends(java, tmp_path) == {"U": (0, 5)} | ({"T": (0, remade)} if remade else {})
    assert java_goes_on(java, tmp_path, last) == [remade, remade + 1, 5]
    assert ours(tmp_path, java.version) == {
        "T": entries("T", (100, remade), (200, 2)),
        "U": entries("U", (0, 5), (200, 1)),
    }
    assert verify(tmp_path).defects == []
    assert java_ends(java, tmp_path) == {"T": (0, remade + 2), "U": (0, 6)}


def test_d36_a_killed_rocketmq_gives_a_deleted_topic_its_old_messages_back(tmp_path: Path, java: Java):
    """And FlintMQ does not, whoever was killed."""
    java_root, root = tmp_path / "java", tmp_path / "ours"
    ops = [*puts("T", 0, 5), *puts("U", 0, 2), {"op": "dispatch"}, {"op": "delete_topic", "topic": "T"}]
    java("run", java_root, KEYS, [*ops, {"op": "flush"}, {"op": "halt"}], more=MORE)
    assert java_ends(java, java_root) == {"T": (0, 5), "U": (0, 2)}
    with opened(root, java.version) as store:
        put_all(store, "T", 0, 5)
        put_all(store, "U", 0, 2)
        store.delete_topic("T")
    java("run", root, KEYS, [{"op": "halt"}], more=MORE)
    assert ours(root, java.version) == {"T": [], "U": entries("U", (0, 2))}
