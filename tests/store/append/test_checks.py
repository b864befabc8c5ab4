"""What a put is refused for, by the reference's limits; the property string on disk."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flintmq.config.keys import StoreConfig
from flintmq.format import properties as names
from flintmq.message import Message, PutMessageStatus, PutResult, PutRule
from flintmq.spark.jobs.replay.refusals import why_refused
from flintmq.store.append.checks import encode_properties, message_rule, start_rule, topic_status
from flintmq.store.message_store import MessageStore
from tests.compat.stores import Golden
from tests.format.test_start_fields import CASES, text_of
from tests.support.engine import check_derived, open_small, records

ILLEGAL = PutMessageStatus.MESSAGE_ILLEGAL
CONFIG = StoreConfig.from_keys({"maxMessageSize": 1000})


@pytest.mark.parametrize(
    ("topic", "status"),
    [
        ("T", None),
        ("t" * 127, None),
        ("t" * 128, ILLEGAL),
        ("主" * 42, None),  # 126 bytes
        ("主" * 43, ILLEGAL),  # 129 bytes, though 43 characters
        ("%RETRY%" + "t" * 248, None),
        ("%RETRY%" + "t" * 249, ILLEGAL),
        ("%DLQ%" + "t" * 250, None),
        ("%DLQ%" + "t" * 251, ILLEGAL),
        ("t%RETRY%" + "t" * 120, ILLEGAL),
        ("", ILLEGAL),
        (".", ILLEGAL),
        ("..", ILLEGAL),
        ("...", None),
        ("a/b", ILLEGAL),
        ("/", ILLEGAL),
        ("a\0b", ILLEGAL),
        ("with space", None),
    ],
)
def test_topics(topic: str, status: PutMessageStatus | None):
    assert topic_status(topic, topic.encode()) is status


@pytest.mark.parametrize(
    ("message", "properties", "status"),
    [
        (Message("T", bytes(1000)), b"", None),
        (Message("T", bytes(1001)), b"", ILLEGAL),
        (Message("T", b""), b"", None),
        (Message("T", b"", queue_id=-1), b"", ILLEGAL),
        (Message("T", b"", queue_id=0x7FFFFFFF), b"", None),
        (Message("T", b""), b"p" * 32767, None),
        (Message("T", b""), b"p" * 32768, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED),
    ],
)
def test_messages(message: Message, properties: bytes, status: PutMessageStatus | None):
    rule = message_rule(message, properties, CONFIG)
    assert (None if rule is None else rule.status) is status


@pytest.mark.parametrize(
    ("message", "encoded"),
    [
        (Message("T"), b""),
        (Message("T", tags="a", keys="k1 k2"), b"KEYS\x01k1 k2\x02TAGS\x01a\x02"),
        (Message("T", properties={"b": "2", "a": "1"}, tags="x"), b"b\x012\x02a\x011\x02TAGS\x01x\x02"),
        (Message("T", properties={"TAGS": "old", "b": ""}, tags="new"), b"TAGS\x01new\x02b\x01\x02"),
        (Message("T", wait=False), b"WAIT\x01false\x02"),
        (Message("T", tags="报警😀"), "TAGS\x01报警😀\x02".encode()),
        (Message("T", tags=""), b""),
        (Message("T", tags="a", properties_bytes=b"as it is\x02"), b"as it is\x02"),
        (Message("T", tags="a\x01b"), None),
        (Message("T", tags="a\0b"), None),
        (Message("T", properties_bytes=b"a\x01b\0\x02"), None),
        (Message("T", keys="a\x02b"), None),
        (Message("T", properties={"a\x01": "b"}), None),
        (Message("T", properties={"a": "b\x02c\x01"}), None),
    ],
)
def test_the_property_string(message: Message, encoded: bytes | None):
    assert encode_properties(message) == encoded


# -- Messages that ask for a timer, by every door of a put: they wait, or are refused as without one; never early

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


TOGETHER = ("put_batch", "put_batch, shared", "put_batch, inner", "put_columns")


@pytest.mark.parametrize(
    ("door", "enabled"), [*((door, False) for door in DOORS), *((door, True) for door in TOGETHER)]
)
def test_no_door_takes_what_asks_for_a_timer(tmp_path: Path, door: str, enabled: bool):
    """Where there is none; and of messages that are put together none waits."""
    with open_small(tmp_path, timerWheelEnable=enabled) as store:
        store.create_topic("B", 1, "BatchCQ")
        assert store.put(Message("T", b"first"))  # from now on plain messages go the fast way
        end = store._parts.log.end
        for name in TIMERS:
            for result in DOORS[door](store, message(a="b", **{name: "1"})):
                assert result.status is PutMessageStatus.WHEEL_TIMER_NOT_ENABLE, (name, result)
                assert not result and result.reason is PutRule.TIMER
        assert store._parts.log.end == end
    check_derived(tmp_path)


@pytest.mark.parametrize("door", sorted(set(DOORS) - set(TOGETHER)))
def test_what_is_put_by_itself_waits(tmp_path: Path, door: str):
    with open_small(tmp_path) as store:
        results = DOORS[door](store, message(TIMER_DELAY_SEC="1000"))
        assert results and all(results)
    assert {r.topic for r in records(tmp_path)} == {b"rmq_sys_wheel_timer"}


def test_a_delay_level_is_stronger_and_a_property_is_one_too(tmp_path: Path):
    with open_small(tmp_path) as store:
        assert store.put(Message("T", b"1", properties={"TIMER_DELIVER_MS": "1", "a": "b"}, delay_level=18))
        assert store.put(Message("T", b"2", properties={"DELAY": "18"}))
        assert store.wait_dispatched(60)
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
    with open_small(tmp_path, timerWheelEnable=False) as copy:
        refused = [message for message, has in zip(timed, due, strict=True) if not has]
        assert {result.reason for result in copy.put_many(refused)} == {PutRule.TIMER}
        assert all(copy.put_many(timed, delivered=True))
    assert [r.properties for r in records(tmp_path)] == [message.properties_bytes for message in timed]


# -- Messages whose sys_flag says prepared or rolled back, by every door of a put: nobody would read or check them -----

HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
FLAG_DOORS: dict[str, Callable[[MessageStore, Message], list[Any]]] = {
    "put": lambda store, one: [store.put(one)],
    "put_many": lambda store, one: store.put_many([one, one]),
    "put_async": lambda store, one: [asyncio.run(put_async(store, one))],
    "put_batch": lambda store, one: store.put_batch([one, one]),
    "put_batch, inner": lambda store, one: store.put_batch([Message("B", b"x", sys_flag=one.sys_flag)]),
}


@pytest.mark.parametrize("door", FLAG_DOORS)
def test_no_door_takes_what_no_queue_would_have(tmp_path: Path, door: str):
    with open_small(tmp_path) as store:
        store.create_topic("B", 1, "BatchCQ")
        assert store.put(Message("T", b"first"))  # from now on plain messages go the fast way
        end = store._parts.log.end
        for flag in (4, 12, 5):
            for more in ({}, {"delay_level": 3}, {"properties": {"TRAN_MSG": "true"}}, {"properties_bytes": b""}):
                for topic in ("T", HALF_TOPIC):
                    for result in FLAG_DOORS[door](store, Message(topic, b"half", sys_flag=flag, **more)):
                        assert result.status is PutMessageStatus.MESSAGE_ILLEGAL, (flag, more, topic)
                        assert result.reason is (PutRule.BATCH if door == "put_batch" else PutRule.TRANSACTION)
        assert store._parts.log.end == end
        assert store.put(Message("T", b"committed", sys_flag=8)), "a queue has it"
    check_derived(tmp_path)


def test_copies_of_a_brokers_records_are_kept(tmp_path: Path):
    kept = [Message("T", b"%d" % flag, sys_flag=flag) for flag in (4, 0, 12, 8)]
    with open_small(tmp_path) as store:
        assert all(store.put_many(kept, delivered=True))
        assert store.wait_dispatched(60)
        assert [m.body for m in store.get("T", 0, 0).messages] == [b"0", b"8"]
    assert [r.body for r in records(tmp_path)] == [b"4", b"0", b"12", b"8"]


def test_the_sink_of_spark_refuses_them_too():
    config = StoreConfig()
    wrong = [why_refused(Message("T", b"x", sys_flag=flag, properties_bytes=b""), config) for flag in (4, 12, 8, 0)]
    assert [bool(why) for why in wrong] == [True, True, False, False]


# -- No door stores what RocketMQ's start cannot bear: each recorded case by each way to put ---------------------------

Door = Callable[[MessageStore, Message], PutResult]
WRONG = [case for case in CASES if set(case["verdicts"].values()) != {"loaded"} and "queue_offset" not in case]


async def _async(store: MessageStore, message: Message) -> PutResult:
    return await store.put_async(message)


START_DOORS: dict[str, Door] = {
    "put": lambda store, message: store.put(message),
    "put_many": lambda store, message: store.put_many([message])[0],
    "put_batch": lambda store, message: store.put_batch([message, message])[0],
    "put_async": lambda store, message: asyncio.run(_async(store, message)),
    "until_refused": lambda store, message: store._parts.log.append_many([message], delivered=True)[0],
}


@pytest.mark.parametrize("as_bytes", [False, True], ids=["pairs", "bytes"])
@pytest.mark.parametrize("door", START_DOORS)
def test_what_a_start_cannot_bear_is_refused(tmp_path: Path, door: str, as_bytes: bool):
    with open_small(tmp_path) as store:
        assert store.create_topic("Bulk", 1, "BatchCQ") is None
        put = START_DOORS[door]
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


@pytest.mark.parametrize("door", START_DOORS)
def test_numbers_that_a_start_reads_are_stored(tmp_path: Path, door: str):
    good = [case for case in CASES if case["topic"] == "SCHEDULE_TOPIC_XXXX" and "DELAY" in case["properties"]]
    good = [case for case in good if set(case["verdicts"].values()) == {"loaded"}]
    assert good
    with open_small(tmp_path) as store:
        for case in good:
            message = Message(case["topic"], b"x", properties_bytes=text_of(case["properties"]))
            assert START_DOORS[door](store, message).status is PutMessageStatus.PUT_OK, case


def test_the_timers_topic_takes_only_what_says_when(tmp_path: Path):
    topic = "rmq_sys_wheel_timer"
    with open_small(tmp_path) as store:
        for door in START_DOORS.values():
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
