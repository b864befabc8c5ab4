"""A listener at a name server: what is sent is what a broker sends, as often as it must be, and taken back."""

import base64
import json
import struct
import zlib
from typing import Any

import pytest

from flintmq.errors import RemotingError, UsageError
from flintmq.ha.registration import Registration
from tests.compat.replication import FOLDER, VERSIONS
from tests.remoting.remoting_peer import Answer, Asked, RemotingPeer, reply
from tests.support.threads import within

NOBODY = b'{"brokerAddrTable":{},"clusterAddrTable":{}}'


def knows(address: str) -> bytes:
    """What a name server says that has a broker b with id 0 there."""
    return b'{"brokerAddrTable":{"b":{"brokerAddrs":{0:"%s"},"cluster":"C"}}}' % address.encode()


def names(clusters: bytes = NOBODY) -> Answer:
    """A name server that takes every registration."""
    return lambda asked: reply(asked, clusters if asked.code == 106 else b"", fields={} if asked.code == 103 else None)


def registration(servers: str, **rest: Any) -> Registration:
    """Of broker b of cluster C."""
    return Registration(servers, broker="b", cluster="C", ha_address="127.0.0.1:10912", **rest)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_fields_are_those_of_a_broker(version: str):
    """A slave's own registration was recorded; ours has another id, and no topics."""
    told = json.loads((FOLDER / f"registration{version}.json").read_text(encoding="utf-8"))
    data = base64.b64decode(next(one["bytes"] for one in told if one["code"] == 103))
    size = struct.unpack_from(">I", data, 4)[0]
    head, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    assert head["extFields"]["bodyCrc32"] == str(zlib.crc32(body) & 0x7FFFFFFF), "as our own is counted"
    with RemotingPeer(names()) as peer:
        with registration(peer.address):
            sent = peer.asked[1]
    assert (sent.code, sent.header["version"] >= 479) == (103, True)
    assert set(sent.fields) == set(head["extFields"])
    assert sent.fields["bodyCrc32"] == str(zlib.crc32(sent.body) & 0x7FFFFFFF)
    same = ("enableActingMaster", "compressed", "clusterName", "brokerName")
    assert {key: sent.fields[key] for key in same} == {key: head["extFields"][key] for key in same}
    assert (sent.fields["brokerId"], sent.fields["haServerAddr"]) == ("0", "127.0.0.1:10912")
    assert sent.fields["brokerAddr"] == "127.0.0.1:10911"
    ours, theirs = json.loads(sent.body), json.loads(body)
    assert set(ours) == set(theirs)
    wrapper = ours["topicConfigSerializeWrapper"]
    assert set(wrapper) == set(theirs["topicConfigSerializeWrapper"]) and wrapper["topicConfigTable"] == {}


TOPICS = {"Orders": (4, 8, 6), "库存": (1, 1, 4)}


def entries(sent: Asked) -> dict[str, tuple[int, int, int]]:
    """The topics of a registration: of each the numbers that Java's name server takes over."""
    body = json.loads(sent.body)
    assert sent.fields["bodyCrc32"] == str(zlib.crc32(sent.body) & 0x7FFFFFFF)
    table = body["topicConfigSerializeWrapper"]["topicConfigTable"]
    assert all(name == one["topicName"] for name, one in table.items())
    return {name: (one["readQueueNums"], one["writeQueueNums"], one["perm"]) for name, one in table.items()}


@pytest.mark.parametrize("version", VERSIONS)
def test_topics_have_the_keys_of_java(version: str):
    told = json.loads((FOLDER / f"registration{version}.json").read_text(encoding="utf-8"))
    data = base64.b64decode(next(one["bytes"] for one in told if one["code"] == 103))
    size = struct.unpack_from(">I", data, 4)[0]
    theirs = json.loads(data[8 + size :])["topicConfigSerializeWrapper"]["topicConfigTable"]
    with RemotingPeer(names()) as peer, registration(peer.address, topics=TOPICS):
        assert peer.codes() == [106, 103] and entries(peer.asked[1]) == TOPICS
        ours = json.loads(peer.asked[1].body)["topicConfigSerializeWrapper"]["topicConfigTable"]
    for one in ours.values():
        assert {key: type(value) for key, value in one.items()} == {
            key: type(value) for key, value in theirs["TBW102"].items()
        }


def test_other_topics_are_registered_at_once():
    with RemotingPeer(names()) as peer, registration(peer.address, topics=TOPICS) as running:
        running.tell(dict(TOPICS))
        running.tell(TOPICS | {"New": (2, 2, 6)})
        assert within(lambda: len(peer.asked) == 3)
        assert entries(peer.asked[2]) == TOPICS | {"New": (2, 2, 6)}, "the same ones are no news"


def test_one_topic_alone_comes_after_the_broker():
    """RocketMQ's name servers take one topic of a broker that is new for an addition, and refuse it."""
    with RemotingPeer(names()) as peer, registration(peer.address, topics={"Orders": (4, 4, 6)}, every_s=0.05):
        assert within(lambda: len(peer.asked) > 3)
        assert peer.codes()[:4] == [106, 103, 103, 103]
        assert [entries(one) for one in peer.asked[1:4]] == [{}, *[{"Orders": (4, 4, 6)}] * 2]


def test_one_connection_that_is_kept_and_the_end():
    with RemotingPeer(names()) as peer:
        with registration(peer.address, every_s=0.05):
            assert within(lambda: peer.codes().count(103) >= 4)
        assert peer.codes()[0] == 106 and set(peer.codes()[1:-1]) == {103} and peer.codes()[-1] == 104
        assert peer.asked[-1].fields == {
            "brokerName": "b", "brokerAddr": "127.0.0.1:10911", "clusterName": "C", "brokerId": "0",
        }  # fmt: skip
        assert len(peer.lines) == 1


def test_another_master_of_that_name_is_left_alone():
    with RemotingPeer(names(knows("127.0.0.1:999"))) as peer:
        with pytest.raises(RemotingError, match=r"broker 'b' is registered at '127.0.0.1:999'") as caught:
            registration(peer.address).start()
        assert caught.value.exit_code == 12 and peer.codes() == [106]
    with RemotingPeer(names(knows("127.0.0.1:10911"))) as peer:
        with registration(peer.address):
            assert peer.codes() == [106, 103], "it is our own of before"


def test_a_name_server_that_hangs_up_gets_it_again():
    state = {"cut": True}

    def answer(asked: Asked) -> bytes | None:
        if asked.code == 103 and len(peer.asked) == 3 and state["cut"]:
            state["cut"] = False
            return None
        return names()(asked)

    with RemotingPeer(answer) as peer, registration(peer.address, every_s=0.05):
        assert within(lambda: len(peer.lines) == 2 and peer.codes()[-1] == 103 and len(peer.asked) > 4)
        assert peer.codes()[:5] == [106, 103, 103, 106, 103], "who has the name is asked over each new connection"


def test_several_name_servers_of_which_one_is_gone(caplog: pytest.LogCaptureFixture):
    with RemotingPeer(lambda asked: None) as gone:
        pass
    with RemotingPeer(names()) as one, RemotingPeer(names()) as two:
        with registration(f"{gone.address};{one.address};{two.address}"):
            assert one.codes() == two.codes() == [106, 103]
        assert one.codes()[-1] == two.codes()[-1] == 104
    assert f"not registered: {gone.address}" in caplog.text
    with pytest.raises(ConnectionError):
        registration(gone.address).start()


def test_a_refusal_ends_it():
    with RemotingPeer(lambda asked: reply(asked, NOBODY, code=0 if asked.code == 106 else 1, remark="crc32")) as peer:
        with pytest.raises(RemotingError, match="request 103: refused with code 1: 'crc32'"):
            registration(peer.address).start()


@pytest.mark.parametrize("address", ["0.0.0.0:10912", "[::]:10912", "nowhere", "a:0"])
def test_addresses_that_no_slave_can_use(address: str):
    with pytest.raises(UsageError):
        Registration("127.0.0.1:9876", broker="b", cluster="C", ha_address=address)
    with pytest.raises(UsageError):
        Registration("127.0.0.1:9876", broker="", cluster="C", ha_address="127.0.0.1:10912")
