"""Queues that the broker assigns, and groups that pop."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq.broker import Broker
from flintmq.broker.modes import _part, _to_pop
from tests.broker.talk import Line, heartbeat
from tests.broker.test_name_servers import knowing
from tests.broker.test_send import stored
from tests.remoting.remoting_peer import RemotingPeer

ASSIGN, SET, MODES, HEARTBEAT = 400, 401, 402, 34


@pytest.fixture
def client(writing: Callable[..., Broker], line: Callable[[Broker], Line]) -> Line:
    """A member, named a, of the group G of a broker with a topic of four queues."""
    broker = writing()
    stored(broker).create_topic("T", 4)
    client = line(broker)
    client.ask(HEARTBEAT, body=heartbeat("a", "G", topics={"T": "*"}))
    return client


def assigned(client: Line, name: str = "a", **more: Any) -> list[tuple[int, str]] | None:
    """The queues that a client is assigned, each with a mode; None: none are named."""
    usual = {"consumerGroup": "G", "messageModel": "CLUSTERING", "strategyName": "AVG", "topic": "T"}
    asked = {"clientId": name, **usual, **more}
    answer = client.ask(ASSIGN, body=json.dumps(asked).encode())
    assert answer.code == 0, answer.remark
    found = json.loads(answer.body).get("messageQueueAssignments")
    if found is None:
        return None
    assert {(one["messageQueue"]["brokerName"], one["messageQueue"]["topic"]) for one in found} <= {
        ("broker-a", asked["topic"])
    }
    return sorted((one["messageQueue"]["queueId"], one["mode"]) for one in found)


def set_mode(client: Line, mode: str, **more: Any) -> int:
    body = {"topic": "T", "consumerGroup": "G", "mode": mode, "popShareQueueNum": 0, **more}
    return client.ask(SET, body=json.dumps(body).encode()).code


def test_members_share_the_queues(client: Line):
    assert assigned(client) == [(queue, "PULL") for queue in range(4)]
    client.ask(HEARTBEAT, body=heartbeat("b", "G", topics={"T": "*"}))
    assert (assigned(client, "a"), assigned(client, "b")) == ([(0, "PULL"), (1, "PULL")], [(2, "PULL"), (3, "PULL")])
    circles = {"strategyName": "AVG_BY_CIRCLE"}
    assert assigned(client, "b", **circles) == [(1, "PULL"), (3, "PULL")]
    assert assigned(client, "stranger") == []
    assert assigned(client, "b", messageModel="BROADCASTING") == [(queue, "PULL") for queue in range(4)]


def test_what_cannot_be_assigned(client: Line):
    for more in ({"topic": "None"}, {"strategyName": "MINE"}, {"consumerGroup": "Nobody"}):
        assert assigned(client, **more) is None
    assert client.ask(ASSIGN, body=b'{"topic":"T"}').code == 1


def test_a_group_pops_and_pulls_again(client: Line):
    assert set_mode(client, "POP") == 0
    assert assigned(client) == [(-1, "POP")]
    assert assigned(client, topic="%RETRY%G") == [(0, "PULL")], "retries of consumers that pull"
    assert set_mode(client, "PULL") == 0
    assert assigned(client) == [(queue, "PULL") for queue in range(4)]


def test_modes_are_kept(client: Line):
    assert set_mode(client, "POP", popShareQueueNum=1) == 0
    kept = {"T": {"G": {"consumerGroup": "G", "mode": "POP", "popShareQueueNum": 1, "topic": "T"}}}
    assert json.loads(client.ask(MODES).body) == {"messageRequestModeMap": kept}


def test_modes_of_a_store_are_taken_up(tmp_path: Path, writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    modes = {"messageRequestModeMap": {"T": {"G": {"consumerGroup": "G", "mode": "POP", "topic": "T"}}}}
    root = tmp_path / "other"
    (root / "config").mkdir(parents=True)
    (root / "config" / "messageRequestMode.json").write_text(json.dumps(modes))
    broker = writing(root)
    stored(broker).create_topic("T", 4)
    client = line(broker)
    client.ask(HEARTBEAT, body=heartbeat("a", "G", topics={"T": "*"}))
    assert assigned(client) == [(-1, "POP")]


def test_modes_that_are_refused(client: Line):
    assert set_mode(client, "POP", topic="%RETRY%G") == 16
    assert set_mode(client, "POP", topic="None") == 17
    assert set_mode(client, "POP", consumerGroup="Nobody") == 26
    assert set_mode(client, "PUSH") == 29
    assert json.loads(client.ask(MODES).body) == {"messageRequestModeMap": {}}


@pytest.mark.parametrize("queues", [0, 1, 4, 5, 7])
@pytest.mark.parametrize("count", [1, 2, 3, 6])
@pytest.mark.parametrize("in_circles", [False, True])
def test_each_queue_is_one_member_s(queues: int, count: int, in_circles: bool):
    members = [f"c{n}" for n in range(count)]
    parts = [_part(list(range(queues)), members, one, in_circles=in_circles) for one in members]
    assert sorted(queue for part in parts for queue in part) == list(range(queues))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_members_that_pop_share_with_some_or_all():
    members, queues = ["a", "b", "c", "d"], list(range(8))
    assert _to_pop(queues, members, "a", 0, in_circles=False) == [-1]
    assert _to_pop(queues, members, "a", 3, in_circles=False) == [-1], "with all others"
    assert _to_pop(queues, members, "d", 1, in_circles=False) == [6, 7, 0, 1], "its own, and those of the next"
    assert _to_pop([0, 1], members, "d", 1, in_circles=False) == [1], "each has one at least"
    assert _to_pop(queues, members, "x", 1, in_circles=False) == []


def test_one_broker_of_several_assigns_none(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    """It does not know the queues of the others; consumers that are refused share them out themselves."""
    with RemotingPeer(knowing()) as peer:
        client = line(writing(register=peer.address))
        answer = client.ask(ASSIGN, body=b'{"topic":"T","consumerGroup":"G","clientId":"a"}')
        assert answer.code == 3 and "share" in str(answer.remark)
