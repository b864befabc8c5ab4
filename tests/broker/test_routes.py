"""A name server's answers: where topics are, and which brokers there are."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq.broker import Broker
from flintmq.message import Message
from flintmq.remoting.client import RemotingClient
from tests.broker.talk import Line
from tests.support.engine import open_small, put_all

Serve = Callable[..., Broker]


def routed(broker: Broker, topic: str) -> dict[str, Any]:
    with RemotingClient(broker.address) as client:
        found: dict[str, Any] = json.loads(client.ask(105, {"topic": topic}).body)
    return found


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with open_small(tmp_path / "store") as made:
        made.create_topic("Orders", queues=3)
        put_all(made, 3, topic="Orders", queue_id=2)
        put_all(made, 2, topic="Other")
    return tmp_path / "store"


def test_a_route_in_standard_json_to_this_broker_alone(served: Serve, store: Path):
    broker = served(store, name="b-1", cluster="C")
    assert routed(broker, "Orders") == {
        "brokerDatas": [
            {"brokerAddrs": {"0": broker.address}, "brokerName": "b-1", "cluster": "C", "enableActingMaster": False}
        ],
        "filterServerTable": {},
        "queueDatas": [
            {"brokerName": "b-1", "perm": 6, "readQueueNums": 3, "topicSysFlag": 0, "writeQueueNums": 3},
        ],
    }


def test_a_topic_that_is_not_there(served: Serve, store: Path, line: Callable[[Broker], Line]):
    answer = line(served(store)).ask(105, {"topic": "No/such"})
    assert (answer.code, answer.body) == (17, b"")
    assert answer.remark == "No topic route info in name server for the topic: No/such"


def test_queues_that_no_entry_names_are_served(served: Serve, store: Path):
    """topics.json says one queue, or nothing: what lies on the disk is read all the same."""
    config = store / "config" / "topics.json"
    told = json.loads(config.read_text(encoding="utf-8"))
    told["topicConfigTable"]["Orders"] |= {"readQueueNums": 1, "writeQueueNums": 1, "perm": 4}
    del told["topicConfigTable"]["Other"]
    config.write_text(json.dumps(told), encoding="utf-8")
    broker = served(store)
    [orders], [other] = (routed(broker, topic)["queueDatas"] for topic in ("Orders", "Other"))
    assert (orders["readQueueNums"], orders["writeQueueNums"], orders["perm"]) == (3, 1, 4)
    assert (other["readQueueNums"], other["perm"]) == (1, 4)


def test_the_cluster_and_all_topics(served: Serve, store: Path, line: Callable[[Broker], Line]):
    broker = served(store)
    talk = line(broker)
    tables = json.loads(talk.ask(106).body)
    assert tables["clusterAddrTable"] == {"DefaultCluster": ["broker-a"]}
    assert tables["brokerAddrTable"]["broker-a"]["brokerAddrs"] == {"0": broker.address}
    configured = json.loads((store / "config" / "topics.json").read_text(encoding="utf-8"))["topicConfigTable"]
    assert set(json.loads(talk.ask(206).body)["topicList"]) == configured.keys() | {"Orders", "Other"}


def test_the_address_that_clients_are_told(served: Serve, store: Path):
    told = served(store, advertise="broker.example")
    assert routed(told, "Orders")["brokerDatas"][0]["brokerAddrs"]["0"].startswith("broker.example:")
    everywhere = served(store, listen="0.0.0.0:0")
    port = everywhere.address.rpartition(":")[2]
    for host in ("127.0.0.1", "127.0.0.2"):
        with RemotingClient(f"{host}:{port}") as client:
            [data] = json.loads(client.ask(105, {"topic": "Orders"}).body)["brokerDatas"]
        assert data["brokerAddrs"] == {"0": f"{host}:{port}"}, "the one that the client came to"


def test_a_second_listener_leads_to_the_first(served: Serve, store: Path):
    broker = served(store, grpc="127.0.0.1:0")
    first, second = broker.addresses
    assert first != second
    with RemotingClient(second) as client:
        [data] = json.loads(client.ask(105, {"topic": "Orders"}).body)["brokerDatas"]
    assert data["brokerAddrs"] == {"0": first}


def test_a_topic_that_comes_while_it_serves(served: Serve, store: Path, line: Callable[[Broker], Line]):
    broker = served(store)
    talk = line(broker)
    assert talk.ask(105, {"topic": "New"}).code == 17
    with open_small(store) as made:
        made.put(Message("New", b"x"))
        made.wait_dispatched(60)
        looks = 0
        while talk.ask(105, {"topic": "New"}).code == 17:
            looks += 1
            assert looks < 20_000


def test_requests_of_name_servers_that_it_is_not(served: Serve, store: Path, line: Callable[[Broker], Line]):
    """It knows one broker, itself: nobody registers."""
    broker = served(store)
    talk = line(broker)
    for code in (103, 104, 322):
        answer = talk.ask(code)
        assert (answer.code, answer.remark) == (3, f" request type {code} not supported")
    assert broker.stats().unsupported == {103: 1, 104: 1, 322: 1}
    log = talk.ask(906)
    assert log.code == 1 and log.remark is not None and "run `flintmq serve-ha` on the store" in log.remark
