"""Messages that consumers send back come again later, and end in the dead letters."""

from collections.abc import Callable
from typing import Any

import pytest

from flintmq.broker import Broker
from flintmq.message import StoredMessage
from flintmq.store.services.topics import TopicSettings
from tests.broker.talk import Line, heartbeat, pull, records, send
from tests.broker.test_groups import leased
from tests.broker.test_send import stored

LEVELS = {"messageDelayLevel": "1s 1s 1s 1s 1h"}
MESSAGE = "UNIQ_KEY\x01U1\x02TAGS\x01red\x02"


@pytest.fixture
def broker(writing: Callable[..., Broker], line: Callable[[Broker], Line]) -> Broker:
    """A broker with one message in T, and the group G."""
    broker = writing(config=LEVELS)
    client = line(broker)
    assert client.ask(310, send("T", 0, MESSAGE), b"body").code == 0
    client.ask(34, body=heartbeat("c", "G", topics={"T": "*"}))
    return broker


def back(message: StoredMessage, **more: Any) -> dict[str, Any]:
    """The fields of a message that is sent back, as Java's client writes them."""
    return {
        "offset": message.physical_offset, "group": "G", "delayLevel": 0, "originMsgId": message.msg_id,
        "originTopic": message.topic, "unitMode": "false", "maxReconsumeTimes": 16, **more,
    }  # fmt: skip


def got(client: Line, topic: str, offset: int = 0, wait_ms: int = 8000) -> list[StoredMessage]:
    answer = client.ask(11, pull(topic, 0, offset, sysFlag=6, suspendTimeoutMillis=wait_ms))
    return [StoredMessage(one) for one in records(answer.body)]


def levels(broker: Broker) -> list[str]:
    """The delay levels of all messages that wait or have waited."""
    return [one.properties["DELAY"] for one in stored(broker) if one.topic == "SCHEDULE_TOPIC_XXXX"]


def test_it_comes_again_and_ends_in_the_dead_letters(broker: Broker, line: Callable[[Broker], Line]):
    client = line(broker)
    [one] = got(client, "T")
    for times in range(3):
        assert client.ask(36, back(one, maxReconsumeTimes=3, delayLevel=1)).code == 0
        [one] = got(client, "%RETRY%G", times)
        assert (one.body, one.reconsume_times, one.tags, one.msg_id) == (b"body", times + 1, "red", "U1")
        assert one.properties["RETRY_TOPIC"] == "T"
    assert client.ask(36, back(one, maxReconsumeTimes=3)).code == 0
    [dead] = got(client, "%DLQ%G")
    assert (dead.body, dead.reconsume_times, dead.properties["RETRY_TOPIC"]) == (b"body", 4, "T")
    assert b'"perm":6' in client.ask(105, {"topic": "%DLQ%G"}).body


def test_it_is_later_each_time(broker: Broker, line: Callable[[Broker], Line]):
    """Without a level the first retry waits for level 3, the next for level 4."""
    client = line(broker)
    [one] = got(client, "T")
    client.ask(36, back(one))
    assert levels(broker) == ["3"]
    [one] = got(client, "%RETRY%G")
    client.ask(36, back(one))
    assert levels(broker) == ["3", "4"]


def test_a_negative_level_is_a_dead_letter_at_once(broker: Broker, line: Callable[[Broker], Line]):
    client = line(broker)
    [one] = got(client, "T")
    assert client.ask(36, back(one, delayLevel=-1)).code == 0
    assert [m.body for m in got(client, "%DLQ%G")] == [b"body"]


def test_a_group_without_its_own_number_of_retries(broker: Broker, line: Callable[[Broker], Line]):
    client = line(broker)
    [one] = got(client, "T")
    client.ask(200, body=b'{"groupName":"G","retryMaxTimes":0}')
    fields = {name: value for name, value in back(one).items() if name != "maxReconsumeTimes"}
    assert client.ask(36, fields).code == 0
    assert [m.body for m in got(client, "%DLQ%G")] == [b"body"]


def test_what_cannot_be_sent_back(broker: Broker, line: Callable[[Broker], Line]):
    client = line(broker)
    [one] = got(client, "T")
    nowhere = client.ask(36, back(one, offset=one.physical_offset + 1))
    assert nowhere.code == 1 and "look message by offset failed" in str(nowhere.remark)
    stored(broker).create_topic("%RETRY%G", TopicSettings(1, 1, perm=4))
    closed = client.ask(36, back(one))
    assert closed.code == 16 and "%RETRY%G" in str(closed.remark)
    nobody = client.ask(36, back(one, group="Nobody"))
    assert nobody.code == 26 and "not exist" in str(nobody.remark)
    assert not stored(broker).get("%RETRY%G", 0, 0).messages


def test_an_orderly_consumer_sends_itself(broker: Broker, line: Callable[[Broker], Line]):
    """What it gives up it sends to the retries; with leases that is the dead letters at once, as at RocketMQ's."""
    client = line(broker)
    assert client.ask(310, send("%RETRY%G", 0, MESSAGE, retried=2, most=2), b"again").code == 0
    assert client.ask(310, send("%RETRY%G", 0, MESSAGE, retried=3, most=2), b"dead").code == 0
    assert [m.body for m in got(client, "%RETRY%G")] == [b"again"]
    assert [m.body for m in got(client, "%DLQ%G")] == [b"dead"]
    assert leased(client, "c", 0) == [0]
    assert client.ask(310, send("%RETRY%G", 0, MESSAGE, retried=1, most=2), b"leased").code == 0
    assert [m.body for m in got(client, "%DLQ%G", 1)] == [b"leased"]
    assert client.ask(310, send("%RETRY%Nobody", 0, MESSAGE), b"x").code == 26
    refused = client.ask(320, send("%RETRY%G", 0, batch="true"), b"")
    assert refused.code == 13 and "retry" in str(refused.remark)
