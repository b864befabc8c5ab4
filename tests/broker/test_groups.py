"""Groups of a broker that writes: they are made, go on from their offsets, and lease queues."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from flintmq.broker import Broker
from tests.broker.talk import Line, heartbeat, pull, send
from tests.broker.test_send import stored

PLACE = {"consumerGroup": "G", "topic": "T", "queueId": 0}


def queues(client: str, *ids: int, group: str = "G") -> bytes:
    """The body of a request for leases, or of one that gives them back."""
    wanted = [{"brokerName": "broker-a", "queueId": one, "topic": "T"} for one in ids]
    return json.dumps({"clientId": client, "consumerGroup": group, "mqSet": wanted}).encode()


def leased(line: Line, client: str, *ids: int) -> list[int]:
    body = line.ask(41, body=queues(client, *ids)).body
    return sorted(one["queueId"] for one in json.loads(body)["lockOKMQSet"])


def test_a_heartbeat_makes_a_group_and_its_topic(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing()
    client = line(broker)
    assert client.ask(105, {"topic": "%RETRY%G"}).code == 17
    assert client.ask(34, body=heartbeat("c", "G", topics={"T": "*"})).code == 0
    assert b'"writeQueueNums":1' in client.ask(105, {"topic": "%RETRY%G"}).body
    assert stored(broker).group("G") is not None


def test_no_group_is_made_where_that_is_off(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing(config={"autoCreateSubscriptionGroup": "false"})
    client = line(broker)
    stored(broker).create_topic("T", 1)
    assert client.ask(34, body=heartbeat("c", "G", topics={"T": "*"})).code == 0
    assert stored(broker).groups() == {}
    assert client.ask(15, {**PLACE, "commitOffset": 1}).code == 26, "a commit makes none, either"
    refused = client.ask(11, pull())
    assert refused.code == 26 and "[G] does not exist" in str(refused.remark)
    stored(broker).create_group("G")
    assert client.ask(11, pull()).code == 19


def test_offsets_are_the_stores(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing()
    client = line(broker)
    client.ask(310, send("T"), b"x")
    assert client.ask(15, {**PLACE, "commitOffset": 1}).code == 26, "nobody knows the group"
    client.ask(34, body=heartbeat("c", "G", topics={"T": "*"}))
    assert client.ask(14, PLACE).fields["offset"] == "0", "a new group of a young topic begins at 0"
    assert client.ask(15, {**PLACE, "commitOffset": 1}).code == 0
    assert stored(broker).consumer_offset("G", "T", 0) == 1
    assert client.ask(14, PLACE).fields["offset"] == "1"
    assert client.ask(11, pull(offset=1, sysFlag=5, commitOffset=7)).code == 19
    assert stored(broker).consumer_offset("G", "T", 0) == 7, "a pull commits, too"


def test_a_queue_is_leased_to_one(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing()
    one, two = line(broker), line(broker)
    for number, client in enumerate((one, two)):
        client.ask(34, body=heartbeat(f"c{number}", "G", topics={"T": "*"}))
    assert leased(one, "c0", 0, 1) == [0, 1]
    assert leased(two, "c1", 0, 1, 2) == [2]
    assert leased(one, "c0", 0, 1, 2) == [0, 1], "renewed"
    assert json.loads(two.ask(41, body=queues("c1", 0, group="H")).body)["lockOKMQSet"], "another group"
    assert one.ask(42, body=queues("c0", 0)).code == 0
    assert two.ask(42, body=queues("c1", 1)).code == 0, "not its own: nothing happens"
    assert leased(two, "c1", 0, 1) == [0]


@pytest.mark.parametrize("how", ["leave", "hang up"])
def test_who_leaves_gives_its_queues_back(writing: Callable[..., Broker], line: Callable[[Broker], Line], how: str):
    broker = writing()
    one, two = line(broker), line(broker)
    for number, client in enumerate((one, two)):
        client.ask(34, body=heartbeat(f"c{number}", "G", topics={"T": "*"}))
    assert leased(one, "c0", 0) == [0] and leased(two, "c1", 0) == []
    if how == "leave":
        one.ask(35, {"clientID": "c0", "consumerGroup": "G"})
    else:
        one.close()
        assert two.frame(5) is not None, "the members are told"
    assert leased(two, "c1", 0) == [0]


def test_a_lease_ends_by_itself(
    writing: Callable[..., Broker], line: Callable[[Broker], Line], monkeypatch: pytest.MonkeyPatch
):
    broker = writing()
    client = line(broker)
    monkeypatch.setattr("flintmq.broker.locks.LEASE_S", -1.0)
    assert leased(client, "c0", 0) == [0]
    assert leased(client, "c1", 0) == [0]


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"clientId":"c"}', b'{"clientId":1,"consumerGroup":"G"}'])
def test_a_body_that_is_none(writing: Callable[..., Broker], line: Callable[[Broker], Line], body: bytes):
    client = line(writing())
    for code in (41, 42):
        answer = client.ask(code, body=body)
        assert answer.code == 1 and "body" in str(answer.remark)


def test_a_group_that_may_not_consume(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing()
    client = line(broker)
    client.ask(310, send("T"), b"x")
    assert stored(broker).wait_dispatched(60)
    settings: dict[str, Any] = {"groupName": "G", "consumeEnable": False}
    assert client.ask(200, body=json.dumps(settings).encode()).code == 0
    assert client.ask(11, pull()).code == 16
    assert client.ask(200, body=json.dumps({**settings, "consumeEnable": True}).encode()).code == 0
    assert client.ask(11, pull()).code == 0
