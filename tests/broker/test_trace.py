"""Message trace: clients put what they did into a topic that is there before, and anybody reads it."""

import json
from collections.abc import Callable

import pytest

from flintmq.broker import Broker
from flintmq.message import StoredMessage
from tests.broker.talk import Line, pull, records, send
from tests.broker.test_send import stored

TOPIC = "RMQ_SYS_TRACE_TOPIC"
Connected = Callable[[Broker], Line]


def queues(client: Line, topic: str = TOPIC) -> tuple[int, int, int]:
    [found] = json.loads(client.ask(105, {"topic": topic}).body)["queueDatas"]
    return found["readQueueNums"], found["writeQueueNums"], found["perm"]


@pytest.mark.parametrize("makes_topics", ["true", "false"])
@pytest.mark.parametrize("name", [TOPIC, "MyTrace"])
def test_a_trace_is_sent_and_read(writing: Callable[..., Broker], line: Connected, name: str, makes_topics: str):
    """The broker's switch is on unless it is said; RocketMQ's is not. Its topic has one queue."""
    broker = writing(config={"msgTraceTopicName": name, "autoCreateTopicEnable": makes_topics})
    client = line(broker)
    assert queues(client, name) == (1, 1, 6) and stored(broker).topics() == {}
    empty = client.ask(11, pull(name))
    assert (empty.code, empty.fields["maxOffset"]) == (19, "0")
    for number in range(2):
        text = f"KEYS\x01AC11{number}\x02UNIQ_KEY\x01U{number}\x02"
        answer = client.ask(310, send(name, 0, text), b"Pub\x01%d\x02" % number)
        assert (answer.code, answer.fields["queueOffset"]) == (0, str(number))
    assert client.ask(310, send(name, 1), b"x").code == 1, "it has one queue"
    assert stored(broker).wait_dispatched(60) and queues(client, name) == (1, 1, 6)
    assert [StoredMessage(one).body for one in records(client.ask(11, pull(name)).body)] == [
        b"Pub\x010\x02", b"Pub\x011\x02",
    ]  # fmt: skip
    found = client.ask(12, {"topic": name, "key": "AC111", "maxNum": 64, "beginTimestamp": 0, "endTimestamp": 1 << 60})
    assert [StoredMessage(one).body for one in records(found.body)] == [b"Pub\x011\x02"]


def test_no_trace(writing: Callable[..., Broker], line: Connected):
    broker = writing(config={"traceTopicEnable": "false", "autoCreateTopicEnable": "false"})
    client = line(broker)
    assert client.ask(105, {"topic": TOPIC}).code == 17 == client.ask(310, send(TOPIC), b"x").code


def test_an_operator_leaves_it(writing: Callable[..., Broker], line: Connected):
    made = {"topic": TOPIC, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}
    answer = line(writing()).ask(17, made)
    assert (answer.code, answer.remark) == (29, f"The topic[{TOPIC}] is conflict with system topic.")
