"""Messages that wait for a time, and recalls of them, by requests of stock clients."""

from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.broker import Broker
from flintmq.format import recall_handle
from flintmq.store.message_store import MessageStore
from tests.broker.talk import Line, send
from tests.support.threads import within

RECALL = 370
KEY = "UNIQ_KEY\x01AC10\x02"


def stored(broker: Broker) -> MessageStore:
    assert isinstance(broker.store, MessageStore)
    return broker.store


def come(broker: Broker) -> list[bytes]:
    return [m.body for m in stored(broker).get("T", 0, 0).messages]


def ask_later(client: Line, body: bytes, ms: int, key: str = KEY) -> str:
    """Send a message that waits; its handle."""
    answer = client.ask(310, send("T", 0, f"{key}TIMER_DELAY_MS\x01{ms}\x02"), body)
    assert answer.code == 0, answer.remark
    return answer.fields["recallHandle"]


def test_a_message_comes_at_its_time(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing(config={"timerPrecisionMs": 100})
    client = line(broker)
    handle = recall_handle.decode(ask_later(client, b"x", 1500))
    assert within(lambda: len(stored(broker).get("rmq_sys_wheel_timer", 0, 0).messages) == 1)
    assert (handle.topic, handle.broker_name, handle.unique_key) == ("T", "broker-a", "AC10")
    assert client.ask(310, send("T"), b"now").fields.keys().isdisjoint({"recallHandle"})
    assert within(lambda: b"x" in come(broker))
    found = next(m for m in stored(broker).get("T", 0, 0).messages if m.body == b"x")
    assert found.store_timestamp >= handle.time_ms - 1 + 100 and found.msg_id == "AC10"


def test_what_is_recalled_never_comes(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing(config={"timerPrecisionMs": 100})
    client = line(broker)
    handle = ask_later(client, b"recalled", 2000)
    ask_later(client, b"other", 2000, "UNIQ_KEY\x01AC11\x02")
    answer = client.ask(RECALL, {"topic": "T", "recallHandle": handle, "producerGroup": "P", "bname": "broker-a"})
    assert (answer.code, answer.fields["msgId"]) == (0, "AC10")
    assert within(lambda: b"other" in come(broker))
    assert come(broker) == [b"other"]
    late = client.ask(RECALL, {"topic": "T", "recallHandle": handle, "producerGroup": "P"})
    assert late.code == 604 and "timestamp invalid" in str(late.remark)


@pytest.mark.parametrize(
    ("topic", "handle", "code", "remark"),
    [
        ("Nobody", ("T", "broker-a"), 17, "not exist"),
        ("T", ("Other", "broker-a"), 604, "topic not match"),
        ("T", ("T", "broker-b"), 604, "broker service not available"),
        ("T", None, 604, "recall handle is invalid"),
    ],
)
def test_what_cannot_be_recalled(
    writing: Callable[..., Broker], line: Callable[[Broker], Line],
    topic: str, handle: tuple[str, str] | None, code: int, remark: str,
):  # fmt: skip
    broker = writing()
    client = line(broker)
    assert client.ask(310, send("T"), b"x").code == 0
    end = stored(broker).max_physical_offset
    far = stored(broker).effects.now_ms() + 100_000
    text = "djE=" if handle is None else recall_handle.encode(recall_handle.RecallHandle(*handle, far, "K"))
    answer = client.ask(RECALL, {"topic": topic, "recallHandle": text})
    assert answer.code == code and remark in str(answer.remark)
    assert client.ask(RECALL, {"topic": "T"}).code == 1, "a field that is missing"
    assert stored(broker).max_physical_offset == end


def test_recalls_may_be_switched_off(writing: Callable[..., Broker], line: Callable[[Broker], Line], tmp_path: Path):
    client = line(writing(config={"recallMessageEnable": "false"}))
    handle = ask_later(client, b"x", 100_000)
    answer = client.ask(RECALL, {"topic": "T", "recallHandle": handle})
    assert answer.code == 16 and "forbidden" in str(answer.remark)


def test_a_broker_that_only_reads_recalls_nothing(
    served: Callable[..., Broker], resting: Path, line: Callable[[Broker], Line]
):
    assert line(served(resting)).ask(RECALL, {"topic": "T", "recallHandle": "x"}).code == 16
