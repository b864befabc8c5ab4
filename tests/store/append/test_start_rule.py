"""No door stores what RocketMQ's start cannot bear: each recorded case by each way to put."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq.message import Message, PutMessageStatus, PutResult, PutRule
from flintmq.store.append.checks import start_rule
from flintmq.store.message_store import MessageStore
from tests.format.test_start_fields import CASES, text_of
from tests.support.engine import open_small

Door = Callable[[MessageStore, Message], PutResult]
WRONG = [case for case in CASES if set(case["verdicts"].values()) != {"loaded"} and "queue_offset" not in case]


async def _async(store: MessageStore, message: Message) -> PutResult:
    return await store.put_async(message)


DOORS: dict[str, Door] = {
    "put": lambda store, message: store.put(message),
    "put_many": lambda store, message: store.put_many([message])[0],
    "put_batch": lambda store, message: store.put_batch([message, message])[0],
    "put_async": lambda store, message: asyncio.run(_async(store, message)),
    "until_refused": lambda store, message: store._parts.log.append_many([message], delivered=True)[0],
}


@pytest.mark.parametrize("as_bytes", [False, True], ids=["pairs", "bytes"])
@pytest.mark.parametrize("door", DOORS)
def test_what_a_start_cannot_bear_is_refused(tmp_path: Path, door: str, as_bytes: bool):
    with open_small(tmp_path) as store:
        assert store.create_topic("Bulk", 1, "BatchCQ") is None
        put = DOORS[door]
        assert put(store, Message("T", b"x")).status is PutMessageStatus.PUT_OK
        end = store._parts.log.end
        for case in WRONG:
            ways: dict[str, Any] = {"properties": case["properties"]}
            if as_bytes:
                ways = {"properties_bytes": text_of(case["properties"])}
            result = put(store, Message(case["topic"], b"x", sys_flag=case["sys_flag"], **ways))
            assert result.status is PutMessageStatus.MESSAGE_ILLEGAL, case
            assert store._parts.log.end == end, case
        assert len(WRONG) > 40


@pytest.mark.parametrize("door", DOORS)
def test_numbers_that_a_start_reads_are_stored(tmp_path: Path, door: str):
    good = [case for case in CASES if case["topic"] == "SCHEDULE_TOPIC_XXXX" and "DELAY" in case["properties"]]
    good = [case for case in good if set(case["verdicts"].values()) == {"loaded"}]
    assert good
    with open_small(tmp_path) as store:
        for case in good:
            message = Message(case["topic"], b"x", properties_bytes=text_of(case["properties"]))
            assert DOORS[door](store, message).status is PutMessageStatus.PUT_OK, case


def test_the_timers_topic_takes_only_what_says_when(tmp_path: Path):
    topic = "rmq_sys_wheel_timer"
    with open_small(tmp_path) as store:
        for door in DOORS.values():
            for wrong in (Message(topic, b"x"), Message(topic, b"x", properties={"TIMER_OUT_MS": "soon"})):
                assert door(store, wrong).reason is PutRule.START_FIELD
            good = Message(topic, b"x", properties={"TIMER_OUT_MS": "1795167354000"})
            assert door(store, good).status is PutMessageStatus.PUT_OK
            assert door(store, Message(topic, b"x")).reason is PutRule.START_FIELD, "the fast way is not open to it"


def test_columns_cannot_say_when_a_timer_is_due(tmp_path: Path):
    pa = pytest.importorskip("pyarrow")
    with open_small(tmp_path) as store:
        batch = pa.RecordBatch.from_pydict({"body": [b"x"]})
        assert store.put_columns("rmq_sys_wheel_timer", batch).reason is PutRule.START_FIELD
        pairs = pa.array([[("DELAY", "x")]], pa.map_(pa.string(), pa.string()))
        batch = pa.RecordBatch.from_pydict({"body": [b"x"], "properties": pairs})
        assert store.put_columns("SCHEDULE_TOPIC_XXXX", batch).reason is PutRule.RESERVED_PROPERTY
        assert store._parts.log.end == 0


def test_other_names_are_nobodys_business():
    assert start_rule("T", b"DELAYED\x01x\x02K\x01DELAY\x02INNER\x01x\x02") is None
    assert start_rule("SCHEDULE_TOPIC_XXXX", b"DELAY\x01x\x02DELAY\x013\x02") is None, "the last one counts"
