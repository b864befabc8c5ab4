"""Messages that ask for a timer, by every door of a put: refused as a broker without timer wheel does, never early."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flintmq.format import properties as names
from flintmq.message import Message, PutMessageStatus, PutRule
from flintmq.store.message_store import MessageStore
from tests.compat.stores import Golden
from tests.support.engine import check_derived, open_small, records

TIMERS = ("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS")


def message(**properties: str) -> Message:
    return Message("T", b"timed", properties=properties)


async def put_async(store: MessageStore, one: Message) -> Any:
    return await store.put_async(one)


def put_columns(store: MessageStore, one: Message) -> list[Any]:
    pairs = pa.array([[], list((one.properties or {}).items())], pa.map_(pa.string(), pa.string()))
    result = store.put_columns("T", pa.record_batch({"body": pa.array([b"", b""], pa.binary()), "properties": pairs}))
    assert result.row == 1
    return [result]


def encoded(one: Message) -> Message:
    raw = "".join(f"{name}\1{value}\2" for name, value in (one.properties or {}).items()).encode()
    return Message("T", b"timed", properties_bytes=raw)


DOORS: dict[str, Callable[[MessageStore, Message], list[Any]]] = {
    "put": lambda store, one: [store.put(one)],
    "put_many": lambda store, one: store.put_many([one, one]),
    "put_batch": lambda store, one: store.put_batch([Message("T", b"plain"), one]),
    "put_batch, shared": lambda store, one: store.put_batch([Message("T", b"plain")], one.properties),
    "put_batch, inner": lambda store, one: store.put_batch([Message("B", b"", properties=one.properties)]),
    "put_async": lambda store, one: [asyncio.run(put_async(store, one))],
    "put_columns": put_columns,
    "encoded": lambda store, one: [store.put(encoded(one))],
}


@pytest.mark.parametrize("door", DOORS)
def test_no_door_takes_what_asks_for_a_timer(tmp_path: Path, door: str):
    with open_small(tmp_path) as store:
        store.create_topic("B", 1, "BatchCQ")
        assert store.put(Message("T", b"first"))  # from now on plain messages go the fast way
        end = store._parts.log.end
        for name in TIMERS:
            for result in DOORS[door](store, message(a="b", **{name: "1"})):
                assert result.status is PutMessageStatus.WHEEL_TIMER_NOT_ENABLE, (name, result)
                assert not result and result.reason is PutRule.TIMER
        assert store._parts.log.end == end
    check_derived(tmp_path)


def test_a_delay_level_is_stronger_and_a_property_is_one_too(tmp_path: Path):
    with open_small(tmp_path) as store:
        assert store.put(Message("T", b"1", properties={"TIMER_DELIVER_MS": "1", "a": "b"}, delay_level=18))
        assert store.put(Message("T", b"2", properties={"DELAY": "18"}))
        assert store.wait_dispatched(10)
        assert store.get("T", 0, 0).messages == [], "nothing is early"
    first, second = records(tmp_path)
    assert {first.topic, second.topic} == {b"SCHEDULE_TOPIC_XXXX"}
    assert names.parse_bytes(first.properties) == {"a": "b", "DELAY": "18", "REAL_TOPIC": "T", "REAL_QID": "0"}
    assert names.parse_bytes(second.properties) == {"DELAY": "18", "REAL_TOPIC": "T", "REAL_QID": "0"}


def test_what_a_timer_of_rocketmq_has_delivered_may_be_copied(tmp_path: Path, golden: Callable[[str], Golden]):
    """The golden store was written by a broker with a timer wheel; what it delivered keeps its properties."""
    import flintmq

    timed: list[Message] = []
    with flintmq.open_store(golden("timer").path) as store:
        for stored in store.messages():
            if stored.topic == "Timed" and any(name in stored.properties for name in TIMERS):
                timed.append(Message("Timed", stored.body, properties_bytes=stored.fields.properties))
    due = [b"TIMER_OUT_MS" in (message.properties_bytes or b"") for message in timed]  # not those that came too late
    assert (len(timed), sum(due)) == (27, 24)
    with open_small(tmp_path) as copy:
        refused = [message for message, has in zip(timed, due, strict=True) if not has]
        assert {result.reason for result in copy.put_many(refused)} == {PutRule.TIMER}
        assert all(copy.put_many(timed, delivered=True))
    assert [r.properties for r in records(tmp_path)] == [message.properties_bytes for message in timed]
