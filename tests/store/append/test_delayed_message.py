"""Messages with a delay level: the bytes of Java, and what cannot be delivered."""

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.format import properties
from flintmq.message import Message, PutMessageStatus
from flintmq.store.append.delayed_message import delivered, scheduled
from flintmq.store.view import open_store
from tests.support.engine import open_small, records

SCHEDULE = "SCHEDULE_TOPIC_XXXX"


@pytest.mark.parametrize("name", ["delay", "config", "config540", "delay550", "config550"])
def test_waiting_and_delivered_records_are_javas(golden, name):
    """Every waiting record of a real broker is what `scheduled` makes of its sender's message, and every delivered one
    what `delivered` makes of the waiting one, property for property in Java's order."""
    store = golden(name)
    with open_store(store.path) as view:
        messages = [m for m in view.messages() if properties.REAL_TOPIC in m.properties]
    waiting = [m for m in messages if m.topic == SCHEDULE]
    arrived = {m.msg_id: m for m in messages if m.topic != SCHEDULE and properties.DELAY in m.properties}
    assert waiting
    for m in waiting:
        sent = {n: v for n, v in m.properties.items() if n not in ("DELAY", "REAL_TOPIC", "REAL_QID")}
        message = Message(
            m.properties["REAL_TOPIC"], m.body, queue_id=int(m.properties["REAL_QID"]),
            delay_level=int(m.properties["DELAY"]), properties_bytes=properties.encode(sent),
        )  # fmt: skip
        made = scheduled(message, StoreConfig())
        assert (made.topic, made.queue_id, made.properties_bytes) == (SCHEDULE, m.queue_id, m.fields.properties)
        copy = arrived.get(m.msg_id)
        if copy is not None:
            made = delivered(m)
            assert (made.topic, made.queue_id, made.properties_bytes) == (
                copy.topic, copy.queue_id, copy.fields.properties,
            )  # fmt: skip
            assert (made.body, made.flag, made.sys_flag, made.born_timestamp, made.reconsume_times, made.born_host) == (
                copy.body, copy.flag, copy.sys_flag, copy.born_timestamp, copy.reconsume_times, copy.born_host,
            )  # fmt: skip
    assert arrived or name != "delay"


def test_levels_above_the_last_are_the_last():
    made = scheduled(Message("T", b"x", delay_level=99), StoreConfig())
    assert (made.queue_id, properties.parse_bytes(made.properties_bytes)["DELAY"]) == (17, "18")


@pytest.mark.parametrize(
    "message",
    [Message("T", b"x", sys_flag=4, delay_level=1), Message("T", b"x", sys_flag=12, delay_level=1),
     Message("", b"x", delay_level=1), Message("t" * 128, b"x", delay_level=1), Message("T", b"x", queue_id=-1,
     delay_level=1), Message("T", b"x", properties={"a": "\x02"}, delay_level=1)],
)  # fmt: skip
def test_what_is_no_waiting_message_stays_as_it_is(message):
    assert scheduled(message, StoreConfig()) is message


@pytest.mark.parametrize("message", [Message("a\x02b", b"x", delay_level=1), Message("T", bytes(4000), delay_level=1)])
def test_what_could_not_be_delivered_is_refused_at_once(tmp_path, message):
    with open_small(tmp_path / "s") as store:
        assert store.put(message).status is PutMessageStatus.MESSAGE_ILLEGAL
        assert store.put_many([message, Message("T", b"y")])[0].status is PutMessageStatus.MESSAGE_ILLEGAL
    assert [r.body for r in records(tmp_path / "s")] == [b"y"]


def test_a_waiting_record_without_an_address_is_nobodys(golden):
    with open_store(golden("delay").path) as view:
        plain = next(m for m in view.messages() if properties.REAL_TOPIC not in m.properties)
    assert delivered(plain) is None
