"""A whole broker, with real clients, on a directory of FlintMQ, and the other way round: topics, offsets, delays."""

import os
from pathlib import Path
from typing import Any

import pytest

from flintmq.message import Message, StoredMessage
from flintmq.store.layout.config_reader import read_config
from flintmq.store.message_store import MessageStore
from flintmq.store.services.delay import delivered
from flintmq.store.view import open_store
from tests.interop.java import Java
from tests.interop.running_broker import java_of, run_broker
from tests.support.faults import Faulty

pytestmark = pytest.mark.slow

KEYS: dict[str, Any] = {
    "mappedFileSizeCommitLog": 65536,
    "mappedFileSizeConsumeQueue": 2000,
    "maxHashSlotNum": 500,
    "maxIndexNum": 2000,
    "flushDelayOffsetInterval": 1000,
    "messageDelayLevel": "1s 2s 3s 600s",
}
QUIET = {"timerFlushIntervalMs": 20_000}  # a flush of its timer, which nothing here uses, copies 38 MB each second
SCHEDULE = "SCHEDULE_TOPIC_XXXX"
WAIT_MS = 600_000  # of level 4


def broker(java: Java, root: Path, ops: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run a broker and clients on a store; the answers."""
    return run_broker(java, root, ops, "Later", KEYS | QUIET)


def messages(root: Path) -> tuple[list[StoredMessage], list[StoredMessage]]:
    """The waiting messages, and those of topic Later, in the order of the log."""
    with open_store(root, set=KEYS) as view:
        found = list(view.messages())
    return [m for m in found if m.topic == SCHEDULE], [m for m in found if m.topic == "Later"]


def flint_writes(root: Path, peer: str, killed: bool) -> None:
    """12 messages that wait seconds, 2 that wait long, 10 plain ones of which group G has consumed 4."""
    child = os.fork()
    if child == 0:
        store = MessageStore(root, config=KEYS, peer=peer, unique_keys=False)
        store._parts.housekeeping.delay.put = lambda message: pytest.fail("delivered too early for this test")
        for n in range(14):
            level = 1 + n % 3 if n < 12 else 4
            store.put(Message("Later", b"%d" % n, tags="a", keys=f"k{n}", queue_id=n % 2, delay_level=level))
        for n in range(10):
            store.put(Message("Plain", b"%d" % n))
        store.wait_dispatched(60)
        consumer = store.consumer("G", "Plain")
        assert [m.body for m in consumer.poll(4)] == [b"0", b"1", b"2", b"3"]
        consumer.commit()
        if killed:
            os.kill(os.getpid(), 9)
        store.close()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == (9 if killed else 0)


# A broker and its clients take half a minute, so each version has one way to stop in each direction, and its day of
# six.


@pytest.mark.turn(6)
@pytest.mark.parametrize(("version", "how"), [("5.3.3", "killed"), ("5.4.0", "closed"), ("5.5.0", "killed")])
def test_a_broker_goes_on_where_flintmq_stopped(tmp_path: Path, version: str, how: str):
    """It delivers what waits, byte for byte as FlintMQ would; its consumer goes on at the group's offset."""
    java = java_of(version)
    root = tmp_path / "store"
    flint_writes(root, java.version, how == "killed")
    answers = broker(java, root, [
        {"op": "consume", "topic": "Later", "group": "L", "count": 12, "timeout_ms": 45_000},
        {"op": "consume", "topic": "Plain", "group": "G", "count": 6, "timeout_ms": 45_000},
    ])  # fmt: skip
    assert [row.get("consumed") for row in answers] == [12, 6], "each once, and none of the four again"
    waiting, arrived = messages(root)
    assert len(waiting) == 14 and len(arrived) == 12
    of = {m.keys: m for m in waiting}
    for m in arrived:
        made = delivered(of[m.keys])
        assert made is not None
        assert (made.topic, made.queue_id, made.properties_bytes, made.body, made.flag, made.born_timestamp) == (
            m.topic, m.queue_id, m.fields.properties, m.body, m.flag, m.born_timestamp,
        )  # fmt: skip
        assert made.sys_flag == m.sys_flag and made.reconsume_times == m.reconsume_times
    clock = Faulty()
    clock.clock = waiting[-1].store_timestamp + 3_000_000
    with MessageStore(root, config=KEYS, peer=java.version, effects=clock, unique_keys=False) as store:
        assert store.consumer_offset("G", "Plain", 0) == 10
        store.put(Message("Plain", b"next"))
        with store.consumer("G", "Plain") as consumer:
            assert [m.body for m in consumer.poll(wait_ms=10_000)] == [b"next"], "where the broker's consumer stopped"
        assert [store._parts.housekeeping.delay.offset(level) for level in (1, 2, 3, 4)] == [4, 4, 4, 0]
        store._parts.housekeeping.delay.deliver_once()
    assert sorted(m.body for m in messages(root)[1]) == sorted(b"%d" % n for n in range(14)), "the rest, and once"


@pytest.mark.turn(6)
@pytest.mark.parametrize(("version", "how"), [("5.3.3", "closed"), ("5.4.0", "halted"), ("5.5.0", "halted")])
def test_flintmq_goes_on_where_a_broker_stopped(tmp_path: Path, version: str, how: str):
    """What a broker left waiting is delivered once by FlintMQ, and not again by the next broker."""
    java = java_of(version)
    root = tmp_path / "store"
    send = {"op": "send", "topic": "Later", "tags": "a", "delay_level": 4}
    ops = [send | {"keys": f"k{n}", "body": f"{n}"} for n in range(8)]
    ops += [{"op": "sleep", "ms": 1500}] + ([{"op": "halt"}] if how == "halted" else [])
    answers = broker(java, root, ops)
    assert [row["status"] for row in answers[:8]] == ["SEND_OK"] * 8
    waiting, arrived = messages(root)
    assert len(waiting) == 8 and arrived == []
    clock = Faulty()
    clock.clock = waiting[0].store_timestamp + WAIT_MS - 1
    with MessageStore(root, config=KEYS, peer=java.version, effects=clock, unique_keys=False) as store:
        store._parts.housekeeping.delay.deliver_once()
        assert store._parts.housekeeping.delay.offset(4) == 0, "not early"
        clock.clock = waiting[-1].store_timestamp + WAIT_MS
        store._parts.housekeeping.delay.deliver_once()
        store.put(Message("Plain", b"x"))
    assert "Plain" in read_config(str(root)).topics and "TBW102" in read_config(str(root)).topics
    answers = broker(java, root, [{"op": "consume", "topic": "Later", "group": "L", "count": 8, "timeout_ms": 45_000}])
    assert answers[0]["consumed"] == 8
    _, arrived = messages(root)
    assert sorted(m.body for m in arrived) == [b"%d" % n for n in range(8)], "no broker delivers them again"
    assert {m.keys: m.born_timestamp for m in arrived} == {m.keys: m.born_timestamp for m in waiting}
