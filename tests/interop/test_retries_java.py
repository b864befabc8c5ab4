"""Retries and dead letters across implementations: a real broker goes on with those of FlintMQ, and the other way."""

import os
from pathlib import Path

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.message import Message, StoredMessage
from flintmq.store.append.delayed_message import scheduled
from flintmq.store.consumer.retry import sent_back
from flintmq.store.message_store import MessageStore
from flintmq.store.view import open_store
from tests.interop.running_broker import java_of
from tests.interop.test_broker_java import KEYS, SCHEDULE, broker
from tests.support.faults import Faulty

pytestmark = pytest.mark.slow

HOUR_MS = 3_600_000
FIELDS = ("topic", "body", "queue_id", "flag", "sys_flag", "born_timestamp", "born_host", "reconsume_times")


def flint_writes(root: Path, peer: str) -> None:
    """Messages 0 and 1 that group G gave back and that are due after a second or two, and 2, which it was given 17
    times and never gave back; a kill."""
    child = os.fork()
    if child == 0:
        store = MessageStore(root, config=KEYS, peer=peer, unique_keys=False)
        store._parts.housekeeping.stop()
        for n in range(3):
            store.put(Message("Plain", b"%d" % n, tags="a", keys=f"k{n}", reconsume_times=16 if n == 2 else 0))
        store.wait_dispatched(60)
        consumer = store.consumer("G", "Plain", retries=True)
        for message, level in zip(consumer.poll(2), (1, 2), strict=True):
            consumer.retry(message, level)
        consumer.commit()
        os.kill(os.getpid(), 9)
    _, status = os.waitpid(child, 0)
    assert status == 9


@pytest.mark.turn(3)
@pytest.mark.parametrize("version", ["5.3.3", "5.4.0", "5.5.0"])
def test_each_goes_on_with_the_retries_of_the_other(tmp_path: Path, version: str):
    """A broker delivers what FlintMQ left waiting. Its consumer gives all of it back: the records that it makes are
    those of `sent_back`, byte for byte, of a second round and of a dead letter too. FlintMQ goes on with them."""
    java, root = java_of(version), tmp_path / "store"
    flint_writes(root, java.version)
    answers = broker(
        java,
        root,
        [{"op": "consume", "topic": "Plain", "group": "G", "count": 3, "fail": 3, "again": True, "timeout_ms": 45_000}],
    )
    assert answers[0]["consumed"] == 3, "two retries of FlintMQ, and what its group did not consume"
    with open_store(root, set=KEYS) as view:
        everything = list(view.messages())
    given = {m.keys: m for m in everything if m.topic == "%RETRY%G"} | {
        m.keys: m for m in everything if m.topic == "Plain" and m.keys == "k2"
    }
    made = {m.keys: m for m in everything if m.reconsume_times in (2, 17) and m.topic in (SCHEDULE, "%DLQ%G")}
    assert sorted(given) == sorted(made) == ["k0", "k1", "k2"]
    config = StoreConfig.from_keys(KEYS)
    for key, of_java in made.items():
        ours = sent_back(given[key], "G")
        same(scheduled(ours, config) if ours.delay_level else ours, of_java)
    clock = Faulty()
    clock.clock = everything[-1].store_timestamp + HOUR_MS
    with MessageStore(root, config=KEYS, peer=java.version, effects=clock, unique_keys=False) as store:
        store._parts.housekeeping.stop()
        store._parts.housekeeping.delay.deliver_once()
        assert store.wait_dispatched(60)
        with store.consumer("G", "Plain", retries=True) as consumer:
            found = sorted((m.topic, m.body, m.reconsume_times) for m in consumer.poll())
            assert found == [("Plain", b"0", 2), ("Plain", b"1", 2)], "the rest of them, each once"


def same(ours: Message | None, of_java: StoredMessage) -> None:
    assert ours is not None and ours.properties_bytes == of_java.fields.properties
    assert [getattr(ours, field) for field in FIELDS] == [getattr(of_java, field) for field in FIELDS]
