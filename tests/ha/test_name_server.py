"""Where brokers are, by a name server, and where their replication ports are, by themselves."""

import pytest

from flintmq.errors import ReplicationError, UsageError
from flintmq.ha import name_server
from flintmq.ha.connection import parse_master
from flintmq.ha.name_server import BrokerRoute
from tests.remoting.remoting_peer import Answer, RemotingPeer, broker, reply

# As a name server of 5.3.3 and 5.4.0 answers: ids are numbers, without quotes.
CLUSTERS = (
    b'{"brokerAddrTable":{"a":{"brokerAddrs":{0:"127.0.0.1:10911",1:"127.0.0.1:10921"},"brokerName":"a","cluster":"C",'
    b'"enableActingMaster":false},"b":{"brokerAddrs":{1:"127.0.0.1:10931"},"brokerName":"b","cluster":"D",'
    b'"enableActingMaster":false}},"clusterAddrTable":{"C":["a"],"D":["b"]}}'
)


def test_brokers_with_their_masters():
    with RemotingPeer(broker({106: CLUSTERS})) as peer:
        assert name_server.routes([peer.address]) == {
            "a": BrokerRoute("a", "C", "127.0.0.1:10911"),
            "b": BrokerRoute("b", "D", None),
        }


def test_the_first_name_server_that_answers_counts():
    with RemotingPeer(lambda asked: None) as gone, RemotingPeer(broker({106: CLUSTERS})) as peer:
        assert set(name_server.routes([gone.address, peer.address])) == {"a", "b"}
        with pytest.raises(ConnectionError, match=gone.address):
            name_server.routes([gone.address])


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"brokerAddrTable":[]}', b'{"brokerAddrTable":{"a":{}}}', b'{"brokerAddrTable":{"a":5}}']
)
def test_rubbish_is_no_list_of_brokers(body: bytes):
    with RemotingPeer(broker({106: body})) as peer, pytest.raises(ReplicationError, match="request 106") as caught:
        name_server.routes([peer.address])
    assert caught.value.reason == "config"


def test_addresses_of_name_servers():
    assert name_server.name_servers("a:9876; b:9877;") == ["a:9876", "b:9877"]
    for text in ("", ";", "a", "a:9876,b:9876"):
        with pytest.raises(UsageError):
            name_server.name_servers(text)


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("broker-a", True), ("host.local", True), ("a%b|c_1", True), ("A" * 127, True),
        ("", False), (".", False), ("..", False), (".hidden", False), ("a/b", False), ("../x", False), ("a\\b", False),
        ("a\0", False), ("a\n", False), ("A" * 128, False), ("{broker}", False), ("ä", False), ("a b", False),
    ],
)  # fmt: skip
def test_names_that_may_be_directories(name: str, plain: bool):
    assert BrokerRoute(name, "C", None).is_plain == plain


def test_the_replication_port_of_a_broker():
    told = {"masterAddress": "127.0.0.1:10911", "masterHaAddress": "127.0.0.1:10912", "masterFlushOffset": "0"}
    with RemotingPeer(lambda asked: reply(asked, fields=told)) as peer:
        assert name_server.ha_address(peer.address) == "127.0.0.1:10912"
        assert peer.codes() == [906] and peer.asked[0].fields == {}, "fields would change the broker"
        assert "extFields" not in peer.asked[0].header


@pytest.mark.parametrize(
    "answer",
    [
        lambda asked: reply(asked),
        lambda asked: reply(asked, fields={"masterHaAddress": "nowhere"}),
        lambda asked: reply(asked, fields={"masterHaAddress": "127.0.0.1:0"}),
        lambda asked: reply(asked, code=16, remark="no"),
    ],
)
def test_brokers_that_give_no_address(answer: Answer):
    with RemotingPeer(answer) as peer, pytest.raises(ReplicationError, match="request 906") as caught:
        name_server.ha_address(peer.address)
    assert caught.value.reason == "config"


@pytest.mark.parametrize(("told", "address"), [("::1:10912", "[::1]:10912"), ("[::1]:7", "[::1]:7"), ("b:7", "b:7")])
def test_an_ipv6_address_is_given_as_a_follower_takes_it(told: str, address: str):
    with RemotingPeer(lambda asked: reply(asked, fields={"masterHaAddress": told})) as peer:
        assert name_server.ha_address(peer.address) == address
    assert parse_master(address)[1] == int(told.rpartition(":")[2])


@pytest.mark.parametrize("code", [2, 14, 1500, -1006])
def test_a_refusal_that_may_pass_is_as_good_as_no_answer(code: int):
    with RemotingPeer(lambda asked: reply(asked, code=code, remark="busy")) as peer:
        with pytest.raises(ConnectionError, match=f"refused with code {code}: 'busy'"):
            name_server.ha_address(peer.address)
        with pytest.raises(ConnectionError, match=f"code {code}"):
            name_server.routes([peer.address])
