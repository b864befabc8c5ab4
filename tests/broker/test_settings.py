"""What operators change: topics, groups, offsets that are set back."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from flintmq.broker import Broker
from flintmq.message import StoredMessage
from tests.broker.talk import Line, heartbeat, pull, records, send
from tests.broker.test_send import stored

TOPIC = {
    "topic": "T",
    "readQueueNums": 4,
    "writeQueueNums": 4,
    "perm": 6,
    "topicFilterType": "SINGLE_TAG",
    "order": "false",
}
RESET = {"topic": "T", "group": "G", "timestamp": 0, "isForce": "true"}


def route(client: Line, topic: str = "T") -> dict[str, Any]:
    [found] = json.loads(client.ask(105, {"topic": topic}).body)["queueDatas"]
    return dict(found)


def reset(client: Line, **more: Any) -> dict[int, int]:
    """Set a group's offsets; the new ones by queue. Keys of the answer are objects, which is no JSON."""
    answer = client.ask(222, {**RESET, **more})
    assert answer.code == 0, answer.remark
    text = answer.body.decode()
    pairs = re.findall(r'\{"brokerName": ?"broker-a", ?"queueId": ?(\d+), ?"topic": ?"T"\}:(\d+)', text)
    assert text.startswith('{"offsetTable":{') and text.endswith("}}")
    return {int(queue): int(offset) for queue, offset in pairs}


def test_a_topic_is_made_and_changed(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing()
    client = line(broker)
    assert client.ask(17, {**TOPIC, "attributes": "+message.type=FIFO"}).code == 0
    assert (route(client)["readQueueNums"], route(client)["perm"]) == (4, 6)
    assert client.ask(17, {**TOPIC, "writeQueueNums": 8, "readQueueNums": 8, "perm": 4}).code == 0
    assert (route(client)["writeQueueNums"], route(client)["perm"]) == (8, 4)
    settings = stored(broker).topic("T")
    assert settings is not None and dict(settings.attributes) == {"message.type": "FIFO"}, "it was not named again"
    client.ask(17, {**TOPIC, "attributes": "-message.type"})
    settings = stored(broker).topic("T")
    assert settings is not None and not settings.attributes


@pytest.mark.parametrize(
    "change",
    [
        {"topic": "a/b"},
        {"topic": ""},
        {"readQueueNums": 0},
        {"writeQueueNums": "x"},
        {"perm": 9},
        {"attributes": "x=y"},
    ],
)
def test_a_topic_that_cannot_be(writing: Callable[..., Broker], line: Callable[[Broker], Line], change: dict[str, Any]):
    broker = writing()
    answer = line(broker).ask(17, {**TOPIC, **change})
    assert answer.code in (1, 29) and answer.remark
    assert stored(broker).topics() == {}


def test_what_a_topic_lets_clients_do(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing()
    client = line(broker)
    client.ask(310, send("T"), b"x")
    assert stored(broker).wait_dispatched(10)
    client.ask(17, {**TOPIC, "perm": 4})
    refused = client.ask(310, send("T"), b"x")
    assert refused.code == 16 and "sending message is forbidden" in str(refused.remark)
    assert client.ask(11, pull()).code == 0
    client.ask(17, {**TOPIC, "perm": 2})
    assert client.ask(11, pull()).code == 16
    assert client.ask(310, send("T"), b"x").code == 0


def test_a_topic_is_deleted(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing()
    client, waiting = line(broker), line(broker)
    client.ask(34, body=heartbeat("c", "G", topics={"T": "*"}))
    client.ask(310, send("T"), b"old")
    assert stored(broker).wait_dispatched(10)
    client.ask(15, {"consumerGroup": "G", "topic": "T", "queueId": 0, "commitOffset": 1})
    number = waiting.start(11, pull(offset=1, sysFlag=6, suspendTimeoutMillis=9000))
    assert waiting.is_quiet(0.05)
    assert client.ask(215, {"topic": "T"}).code == 0 == client.ask(216, {"topic": "T"}).code
    assert waiting.answer(number, 5).code == 17, "who waits is told"
    assert client.ask(105, {"topic": "T"}).code == 17
    assert client.ask(11, pull()).code == 17
    assert stored(broker).consumer_offset("G", "T", 0) is None
    assert client.ask(310, send("T"), b"new").fields["queueOffset"] == "0"
    assert stored(broker).wait_dispatched(10)
    assert [StoredMessage(one).body for one in records(client.ask(11, pull()).body)] == [b"new"]


def test_a_group_is_deleted(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing()
    client = line(broker)
    assert client.ask(200, body=b'{"groupName":"G","retryMaxTimes":3}').code == 0
    made = stored(broker).group("G")
    assert made is not None and made.retry_max_times == 3
    stored(broker).commit_offset("G", "T", 0, 5)
    assert client.ask(207, {"groupName": "G", "cleanOffset": "true"}).code == 0
    assert stored(broker).group("G") is None and stored(broker).group_offsets("G") == {}
    assert client.ask(200, body=b"{}").code == 1


def test_offsets_of_a_group_at_rest(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing()
    client = line(broker)
    stored(broker).create_topic("T", 2)
    for n in range(10):
        client.ask(310, send("T", n % 2), b"x")
    assert stored(broker).wait_dispatched(10)
    stored(broker).create_group("G")
    for queue in range(2):
        stored(broker).commit_offset("G", "T", queue, 4)
    assert reset(client) == {0: 0, 1: 0}
    assert reset(client, timestamp=-1) == {0: 5, 1: 5}
    assert reset(client, isForce="false", timestamp=-1) == {}, "it only goes back"
    assert reset(client, queueId=1, offset=2) == {1: 2}
    assert stored(broker).group_offsets("G") == {("T", 0): 5, ("T", 1): 2}
    for wrong in ({"queueId": 2}, {"queueId": 1, "offset": 6}, {"topic": "X"}, {"group": "X"}):
        answer = client.ask(222, {**RESET, **wrong})
        assert answer.code != 0 and answer.remark
    assert stored(broker).group_offsets("G") == {("T", 0): 5, ("T", 1): 2}


def test_offsets_of_a_group_that_consumes(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    """A member learns it by its next pull, and what it commits before that does not undo it."""
    broker = writing()
    client, member = line(broker), line(broker)
    stored(broker).create_topic("T", 1)
    for _ in range(5):
        client.ask(310, send("T"), b"x")
    assert stored(broker).wait_dispatched(10)
    member.ask(34, body=heartbeat("c", "G", topics={"T": "*"}))
    number = member.start(11, pull(offset=5, sysFlag=6, suspendTimeoutMillis=9000))
    assert member.is_quiet(0.05)
    assert reset(client) == {0: 0}
    told = member.answer(number, 5)
    assert (told.code, told.fields["nextBeginOffset"]) == (21, "0"), "at once, although it waits"
    assert reset(client) == {0: 0}
    member.ask(15, {"consumerGroup": "G", "topic": "T", "queueId": 0, "commitOffset": 5})
    assert stored(broker).consumer_offset("G", "T", 0) == 0
    assert member.ask(11, pull(offset=5)).code == 21
    assert len(list(records(member.ask(11, pull(offset=0)).body))) == 5
    member.ask(15, {"consumerGroup": "G", "topic": "T", "queueId": 0, "commitOffset": 5})
    assert stored(broker).consumer_offset("G", "T", 0) == 5


def test_members_are_notified_of_new_offsets(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    """As RocketMQ's Broker2Client.resetOffset: all members of the group, whatever they do just now, and nobody else."""
    broker = writing()
    client, members, other = line(broker), [line(broker), line(broker)], line(broker)
    stored(broker).create_topic("T", 2)
    for n in range(6):
        client.ask(310, send("T", n % 2), b"x")
    assert stored(broker).wait_dispatched(10)
    for n, member in enumerate(members):
        member.ask(34, body=heartbeat(f"c{n}", "G", topics={"T": "*"}))
    other.ask(34, body=heartbeat("c3", "H", topics={"T": "*"}))
    for member in (*members, other):
        while member.frame(0.05):  # of members that came
            pass
    assert reset(client, isForce="false", timestamp=-1) == {0: 3, 1: 3}
    assert reset(client, timestamp=0, queueId=1) == {1: 0}
    assert reset(client, isForce="false", timestamp=-1) == {}
    for member in members:
        first, second = member.frame(), member.frame()
        assert first is not None and second is not None and member.is_quiet(0.05), "what moves nothing is no news"
        assert (first.code, first.flag, dict(first.fields)) == (
            220, 2, {"group": "G", "topic": "T", "timestamp": "-1", "isForce": "false"},
        )  # fmt: skip
        zero, one = (b'{"brokerName":"broker-a","queueId":%d,"topic":"T"}' % queue for queue in range(2))
        assert first.body == b'{"offsetTable":{' + zero + b":3," + one + b":3}}"
        assert (second.fields["timestamp"], second.body) == ("0", b'{"offsetTable":{' + one + b":0}}")
    assert other.is_quiet(0)


def test_commits_count_again_when_a_member_has_gone_on(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    """Java's client takes 10 s for a reset; what it commits meanwhile is of before it."""
    broker = writing()
    client, member = line(broker), line(broker)
    stored(broker).create_topic("T", 1)
    for _ in range(5):
        client.ask(310, send("T"), b"x")
    assert stored(broker).wait_dispatched(10)
    member.ask(34, body=heartbeat("c", "G", topics={"T": "*"}))

    def commit(offset: int) -> int | None:
        member.ask(15, {"consumerGroup": "G", "topic": "T", "queueId": 0, "commitOffset": offset})
        return stored(broker).consumer_offset("G", "T", 0)

    assert commit(4) == 4 and reset(client, offset=1) == {0: 1}
    assert member.ask(11, pull(offset=5)).code == 21 and commit(5) == 1, "it knows, and has not gone there"
    assert member.ask(11, pull(offset=1)).code == 0 and commit(2) == 2
    assert reset(client, offset=1) == {0: 1}
    assert member.ask(11, pull(offset=5)).code == 21 and commit(5) == 1
    assert member.ask(11, pull(offset=3)).code == 0 and commit(3) == 3, "it goes on elsewhere, knowingly"


def test_the_configuration_is_that_of_the_start(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    client = line(writing())
    refused = client.ask(25, body=b"flushDiskType=SYNC_FLUSH\n")
    assert refused.code == 16 and "--set" in str(refused.remark)
    assert b"flushDiskType=ASYNC_FLUSH" in client.ask(26).body


def test_what_no_operator_may_make(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing()
    client = line(broker)
    for topic in ("SCHEDULE_TOPIC_XXXX", "TBW102", "RMQ_SYS_TRANS_HALF_TOPIC", "bad topic", "x" * 128):
        refused = client.ask(17, {**TOPIC, "topic": topic})
        assert refused.code in (1, 29) and refused.remark
    assert client.ask(200, body=b'{"groupName":"a b"}').code == 1
    assert stored(broker).topics() == {} and stored(broker).groups() == {}


def test_fewer_queues_count_at_once(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing()
    client = line(broker)
    client.ask(17, {**TOPIC, "readQueueNums": 8, "writeQueueNums": 8})
    for queue in range(8):
        assert client.ask(310, send("T", queue), b"x").code == 0
    client.ask(17, {**TOPIC, "readQueueNums": 2, "writeQueueNums": 2})
    assert (route(client)["readQueueNums"], route(client)["writeQueueNums"]) == (2, 2)
