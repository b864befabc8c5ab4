"""A broker at name servers: what it registers, and that it takes it back."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq.broker import Broker, name_servers
from flintmq.errors import RemotingError, UsageError
from tests.broker.talk import KEYS, Line, heartbeat
from tests.remoting.remoting_peer import Answer, Asked, RemotingPeer, reply
from tests.support.engine import open_small, put_all
from tests.support.threads import within

Served = Callable[..., Broker]
REGISTER, BROKERS, TAKE_BACK = 103, 106, 104


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_servers, "LOOK_S", 0.02)


def knowing(brokers: str = "{}") -> Answer:
    """A name server that has these brokers, and takes every registration."""
    body = f'{{"brokerAddrTable":{brokers},"clusterAddrTable":{{}}}}'.encode()
    return lambda asked: reply(asked, body if asked.code == BROKERS else b"")


def topics(sent: Asked) -> dict[str, Any]:
    assert sent.code == REGISTER
    found: dict[str, Any] = json.loads(sent.body)["topicConfigSerializeWrapper"]["topicConfigTable"]
    return found


def test_its_topics_are_there_to_be_read(served: Served, resting: Path):
    with RemotingPeer(knowing()) as one, RemotingPeer(knowing()) as two:
        broker = served(resting, register=f"{one.address};{two.address}", name="copy", cluster="C")
        for peer in (one, two):
            assert peer.codes() == [BROKERS, REGISTER, REGISTER], "the only topic comes after the broker"
            sent = peer.asked[-1]
            assert {key: sent.fields[key] for key in ("brokerName", "clusterName", "brokerId")} == {
                "brokerName": "copy", "clusterName": "C", "brokerId": "0",
            }  # fmt: skip
            assert sent.fields["brokerAddr"] == sent.fields["haServerAddr"] == broker.address
            assert {name: (told["readQueueNums"], told["perm"]) for name, told in topics(sent).items()} == {"T": (2, 4)}
        broker.__exit__()
        for peer in (one, two):
            assert peer.codes()[-1] == TAKE_BACK and peer.asked[-1].fields["brokerAddr"] == broker.address


def test_a_new_topic_and_a_new_group_are_registered_soon(served: Served, store: Path):
    with RemotingPeer(knowing()) as peer, open_small(store, **KEYS) as writer:
        broker = served(store, register=[peer.address])
        writer.create_topic("New", queues=3)
        put_all(writer, 1)
        assert within(lambda: "New" in topics(peer.asked[-1]))
        with Line(broker.address) as talk:
            talk.ask(34, body=heartbeat("a", "G"))
            assert within(lambda: "%RETRY%G" in topics(peer.asked[-1]))
        assert topics(peer.asked[-1])["New"]["readQueueNums"] == 3


def test_topics_of_a_broker_that_writes_are_there_for_producers(writing: Served):
    """Also the one by which they make others, and those that any broker has, with a store that has none yet."""
    with RemotingPeer(knowing()) as peer:
        broker = writing(register=[peer.address])
        assert {name: told["perm"] for name, told in topics(peer.asked[-1]).items()} == {
            "TBW102": 7, "RMQ_SYS_TRACE_TOPIC": 6, "DefaultCluster_REPLY_TOPIC": 6,
        }  # fmt: skip
        with Line(broker.address) as talk:
            made = {"topic": "New", "readQueueNums": 3, "writeQueueNums": 4, "perm": 6, "defaultTopic": "TBW102"}
            more = {"topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false"}
            assert talk.ask(17, {**made, **more}).code == 0
        assert within(lambda: "New" in topics(peer.asked[-1]))
        told = topics(peer.asked[-1])["New"]
        assert (told["readQueueNums"], told["writeQueueNums"], told["perm"]) == (3, 4, 6)


def test_the_address_that_clients_reach(served: Served, resting: Path):
    with pytest.raises(UsageError, match="say with advertise"):
        Broker(resting, read_only=True, listen="0.0.0.0:0", register=["127.0.0.1:9876"])
    with RemotingPeer(knowing()) as peer:
        broker = served(resting, listen="0.0.0.0:0", advertise="127.0.0.1", register=[peer.address])
        port = broker.address.rpartition(":")[2]
        assert peer.asked[-1].fields["brokerAddr"] == f"127.0.0.1:{port}"


def test_a_start_that_registers_nowhere_fails(resting: Path):
    with RemotingPeer(lambda asked: None) as gone:
        pass
    with pytest.raises(ConnectionError, match=gone.address), Broker(resting, read_only=True, register=[gone.address]):
        pass
    with pytest.raises(UsageError, match="HOST:PORT"), Broker(resting, read_only=True, register=["nowhere"]):
        pass
    other = '{"broker-a":{"brokerAddrs":{"0":"127.0.0.1:999"},"cluster":"C"}}'
    with RemotingPeer(knowing(other)) as peer:
        with pytest.raises(RemotingError, match="stop that one first, or give another name"):
            with Broker(resting, read_only=True, register=[peer.address]):
                pass
        assert peer.codes() == [BROKERS]
        with Broker(resting, read_only=True, register=[peer.address], name="broker-b"):
            assert peer.codes()[-1] == REGISTER


def test_a_name_server_that_hangs_keeps_no_end(served: Served, resting: Path, monkeypatch: pytest.MonkeyPatch):
    """It is asked once, for a while; the clients are answered meanwhile."""
    monkeypatch.setattr(name_servers, "ANSWER_S", 0.5)

    def answer(asked: Asked) -> bytes:
        if asked.code == TAKE_BACK:
            time.sleep(6)
        return knowing()(asked) or b""

    with RemotingPeer(answer) as peer:
        broker = served(resting, register=[peer.address])
        begin = time.monotonic()
        broker.__exit__()
        assert time.monotonic() - begin < 5
