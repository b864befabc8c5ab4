"""Members of groups: heartbeats, who is told of them, and how they leave."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.broker import Broker, clients
from flintmq.broker.clients import Clients
from flintmq.broker.requests import Refused, Request
from flintmq.remoting.frames import RemotingFrame, decode_frame
from tests.broker.talk import Line, heartbeat
from tests.support.own_time import own_time
from tests.support.threads import within

Connected = Callable[[Broker], Line]
HEARTBEAT, LEAVE, MEMBERS, CHANGED = 34, 35, 38, 40


@pytest.fixture
def broker(served: Callable[..., Broker], resting: Path) -> Broker:
    return served(resting)


def members(talk: Line, group: str = "G") -> set[str]:
    answer = talk.ask(MEMBERS, {"consumerGroup": group})
    return set(json.loads(answer.body)["consumerIdList"]) if answer.code == 0 else set()


def notice(talk: Line) -> RemotingFrame:
    """The next frame of the broker's own."""
    found = talk.told.pop(0) if talk.told else talk.frame()
    assert found is not None and not found.is_answer
    return found


def test_the_others_are_told_of_a_new_member(broker: Broker, line: Connected):
    first, second = line(broker), line(broker)
    assert first.ask(HEARTBEAT, body=heartbeat("a", "G", topics={"T": "*"})).code == 0
    assert second.ask(HEARTBEAT, body=heartbeat("b", "G", topics={"T": "*"})).code == 0
    first_numbers = []
    for talk, count in ((first, 2), (second, 1)):  # a client is told of itself, too
        for _ in range(count):
            told = notice(talk)
            assert (told.code, told.flag & 2, dict(told.fields)) == (CHANGED, 2, {"consumerGroup": "G"})
            first_numbers += [told.opaque] if talk is first else []
    assert len(set(first_numbers)) == 2, "the broker counts its own requests"
    assert members(first) == members(second) == {"a", "b"} and broker.stats().groups == {"G": 2}
    assert first.ask(HEARTBEAT, body=heartbeat("a", "G", topics={"T": "*"}, version=2)).code == 0
    assert second.is_quiet(0.05), "the same subscription again is no news"


def test_a_new_subscription_is_news(broker: Broker, line: Connected):
    first, second = line(broker), line(broker)
    first.ask(HEARTBEAT, body=heartbeat("a", "G", topics={"T": "x"}))
    second.ask(HEARTBEAT, body=heartbeat("b", "G", topics={"T": "x"}))
    notice(second)
    first.ask(HEARTBEAT, body=heartbeat("a", "G", topics={"T": "x || y"}, version=2))
    assert notice(second).code == CHANGED


def test_nobody_is_in_a_group(broker: Broker, line: Connected):
    answer = line(broker).ask(MEMBERS, {"consumerGroup": "Nobody"})
    assert (answer.code, answer.remark) == (1, "no consumer for this group, Nobody")


def test_a_member_leaves(broker: Broker, line: Connected):
    first, second = line(broker), line(broker)
    first.ask(HEARTBEAT, body=heartbeat("a", "G", "H"))
    second.ask(HEARTBEAT, body=heartbeat("b", "G"))
    notice(second)
    assert first.ask(LEAVE, {"clientID": "a", "consumerGroup": "G"}).code == 0
    assert notice(second).fields == {"consumerGroup": "G"}
    assert members(second) == {"b"} and members(second, "H") == {"a"}
    assert first.ask(LEAVE, {"clientID": "a", "consumerGroup": "G"}).code == 0, "twice is no error"
    assert second.is_quiet(0.05)
    assert second.ask(LEAVE, {"clientID": "b", "producerGroup": "P"}).code == 0, "a producer leaves"


def test_a_connection_that_ends_takes_its_members_along(broker: Broker, line: Connected):
    first, second = line(broker), line(broker)
    first.ask(HEARTBEAT, body=heartbeat("a", "G", "H"))
    second.ask(HEARTBEAT, body=heartbeat("b", "G"))
    notice(second)
    first.close()
    assert notice(second).fields == {"consumerGroup": "G"}
    assert members(second) == {"b"} and members(second, "H") == set()


def test_one_client_id_by_two_connections(broker: Broker, line: Connected):
    """A client that connected again: the end of its old connection does not take it out."""
    old, new, other = line(broker), line(broker), line(broker)
    other.ask(HEARTBEAT, body=heartbeat("b", "G"))
    for talk in (old, new):
        talk.ask(HEARTBEAT, body=heartbeat("a", "G"))
    assert broker.stats().groups == {"G": 2}
    old.close()
    assert within(lambda: broker.stats().connections == 2)
    assert members(other) == {"a", "b"}
    while new.frame(0.05):
        pass
    line(broker).ask(HEARTBEAT, body=heartbeat("c", "G"))
    assert notice(new).code == CHANGED, "the newer connection is told"


class FakePeer:
    """A connection that keeps what is sent."""

    address, local_host, user, is_closed, is_writable = "here:1", "here", "", False, True

    def __init__(self) -> None:
        self.turns = asyncio.Semaphore()
        self.sent: list[RemotingFrame] = []

    async def writable(self) -> None:
        pass

    def began(self) -> None:
        pass

    def ended(self) -> None:
        pass

    def send(self, frame: RemotingFrame) -> None:
        self.sent.append(frame)

    def send_encoded(self, head: bytes, body: bytes = b"") -> None:
        self.sent.append(decode_frame(head + body))


def test_silence_takes_a_member_out(monkeypatch: pytest.MonkeyPatch):
    now = [1000.0]
    own_time(monkeypatch, clients, monotonic=lambda: now[0])
    table, first, second = Clients(), FakePeer(), FakePeer()

    def beat(peer: FakePeer, client: str) -> None:
        table.heartbeat(Request(RemotingFrame(HEARTBEAT, body=heartbeat(client, "G")), peer, 479))

    beat(first, "a")
    now[0] += 60
    beat(second, "b")
    second.sent.clear()
    now[0] += 59
    table.sweep()
    assert dict(table.groups())["G"].keys() == {"a", "b"} and second.sent == []
    now[0] += 2  # 121 s after the first one's only heartbeat
    table.sweep()
    assert dict(table.groups())["G"].keys() == {"b"} and [one.code for one in second.sent] == [CHANGED]
    assert set(table.names()) == {"G"}
    now[0] += 120
    table.sweep()
    assert dict(table.groups())["G"] == {} and "G" in table.names(), "a group is known also if nobody is left"


def test_producer_groups_of_a_connection_are_counted(monkeypatch: pytest.MonkeyPatch):
    """However many heartbeats bring them; those that fell silent, or left, count no more."""
    monkeypatch.setattr(clients, "GROUPS_MAX", 3)
    now = [1000.0]
    own_time(monkeypatch, clients, monotonic=lambda: now[0])
    table, peer = Clients(), FakePeer()

    def beat(*groups: str, client: str = "a", by: FakePeer = peer) -> None:
        told = {"clientID": client, "producerDataSet": [{"groupName": group} for group in groups]}
        table.heartbeat(Request(RemotingFrame(HEARTBEAT, body=json.dumps(told).encode()), by, 479))

    beat("A", "B")
    now[0] += 60
    beat("B", "C")
    beat("B", "D", client="b", by=FakePeer())
    with pytest.raises(Refused, match="3 producer groups"):
        beat("D")
    now[0] += 61
    table.sweep()
    beat("D")
    with pytest.raises(Refused, match="3 producer groups"):
        beat("A")
    fields = {"clientID": "a", "producerGroup": "C"}
    table.leave(Request(RemotingFrame(LEAVE, fields=fields), peer, 479))
    beat("A")
    now[0] += 121
    table.sweep()
    assert (table._producers, table._produces) == ({}, {})


def test_producer_groups_that_are_too_many_keep_no_consumer_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(clients, "GROUPS_MAX", 1)
    table, peer = Clients(), FakePeer()
    told = json.loads(heartbeat("a", "G")) | {"producerDataSet": [{"groupName": name} for name in "AB"]}
    with pytest.raises(Refused, match="1 producer groups"):
        table.heartbeat(Request(RemotingFrame(HEARTBEAT, body=json.dumps(told).encode()), peer, 479))
    assert table.members("G").keys() == {"a"}


def test_consumers_of_a_connection_are_counted(monkeypatch: pytest.MonkeyPatch):
    """By whatever client ids they come; those that left, fell silent, or came by another connection, count no more."""
    monkeypatch.setattr(clients, "GROUPS_MAX", 3)
    now = [1000.0]
    own_time(monkeypatch, clients, monotonic=lambda: now[0])
    table, peer, other = Clients(), FakePeer(), FakePeer()

    def beat(client: str, *groups: str, by: FakePeer = peer) -> None:
        table.heartbeat(Request(RemotingFrame(HEARTBEAT, body=heartbeat(client, *groups)), by, 479))

    beat("a", "G", "H")
    now[0] += 60
    beat("b", "G")
    beat("c", "G", by=other)
    beat("b", "G")
    for more in (("c", "G"), ("a", "I")):
        with pytest.raises(Refused, match="3 consumers of a connection"):
            beat(*more)
    table.leave(Request(RemotingFrame(LEAVE, fields={"clientID": "b", "consumerGroup": "G"}), peer, 479))
    beat("c", "G")
    with pytest.raises(Refused, match="3 consumers of a connection"):
        beat("d", "G")
    beat("c", "G", by=other)
    beat("d", "G")
    now[0] += 61
    table.sweep()
    beat("e", "G", "H")
    assert {group: set(there) for group, there in table.groups()} == {"G": {"c", "d", "e"}, "H": {"e"}}
    table.left(peer)
    table.left(other)
    assert not any(there for _, there in table.groups()) and table._of == {}


def test_a_connection_is_told_once_and_only_if_it_takes_it():
    """One with ever new client ids in a group got a frame for each of them each time."""
    table, peer, full = Clients(), FakePeer(), FakePeer()
    for client in "abc":
        table.heartbeat(Request(RemotingFrame(HEARTBEAT, body=heartbeat(client, "G")), peer, 479))
    full.is_writable = False
    table.heartbeat(Request(RemotingFrame(HEARTBEAT, body=heartbeat("d", "G")), full, 479))
    assert [frame.code for frame in peer.sent if frame.code == CHANGED] == [CHANGED] * 4
    assert [frame.code for frame in full.sent if frame.code == CHANGED] == []


def test_a_member_of_two_groups_may_fall_silent_in_one(monkeypatch: pytest.MonkeyPatch):
    """The heartbeat of a client that gave up a consumer names the other group alone."""
    now = [0.0]
    own_time(monkeypatch, clients, monotonic=lambda: now[0])
    table, peer = Clients(), FakePeer()
    for groups in (("G", "H"), ("H",), ("H",)):
        table.heartbeat(Request(RemotingFrame(HEARTBEAT, body=heartbeat("a", *groups)), peer, 479))
        now[0] += 61
    table.sweep()
    assert {group: list(there) for group, there in table.groups()} == {"G": [], "H": ["a"]}


def test_the_newest_subscription_counts(monkeypatch: pytest.MonkeyPatch):
    table = Clients()
    for client, tags, version in (("a", "x", 5), ("b", "y", 9), ("c", "z", 7)):
        body = heartbeat(client, "G", topics={"T": tags}, version=version)
        table.heartbeat(Request(RemotingFrame(HEARTBEAT, body=body), FakePeer(), 479))
    found = table.subscription("G", "T")
    assert found is not None and (found.expression, found.version) == ("y", 9)
    assert table.subscription("G", "U") is None and table.subscription("H", "T") is None


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "the body is no object"),
        (b"[]", "the body is no object"),
        (b"\xff\xfe", "the body is no object"),
        (b"{}", "clientID"),
        (b'{"clientID":7}', "clientID"),
        (b'{"clientID":""}', "clientID"),
        (b'{"clientID":"a","consumerDataSet":[{}]}', "groupName"),
        (b'{"clientID":"a","consumerDataSet":[{"groupName":5}]}', "groupName"),
        (b'{"clientID":"%s"}' % (b"x" * 1025), "a clientID of 1025 letters; 1024 are the most"),
        (b'{"clientID":"a","consumerDataSet":[{"groupName":"%s"}]}' % (b"x" * 1025), "a groupName of 1025 letters"),
        (b'{"clientID":"a","producerDataSet":[{"groupName":"%s"}]}' % (b"x" * 1025), "a groupName of 1025 letters"),
    ],
)
def test_heartbeats_that_are_none(broker: Broker, line: Connected, body: bytes, said: str):
    talk = line(broker)
    answer = talk.ask(HEARTBEAT, body=body)
    assert answer.code == 1 and said in str(answer.remark)
    assert talk.ask(HEARTBEAT, body=heartbeat("a", "G")).code == 0 and members(talk) == {"a"}


def test_odd_heartbeats_that_are_taken(broker: Broker, line: Connected):
    """What Go's and older clients leave out, and loose JSON."""
    talk = line(broker)
    for body in (
        b'{"clientID":"a"}',
        b"{'clientID':'a',consumerDataSet:[{groupName:'G',subscriptionDataSet:[{topic:'T'}],},],}",
        b'{"clientID":"a","consumerDataSet":null,"producerDataSet":[{"groupName":"P"}]}',
        b'{"clientID":"b","consumerDataSet":[{"groupName":"G","subscriptionDataSet":[5,null,{"topic":7},{"topic":"T",'
        b'"subString":null,"subVersion":"12"}]}]}',
    ):
        assert talk.ask(HEARTBEAT, body=body).code == 0, body
    assert members(talk) == {"a", "b"}


def test_what_consumer_connection_shows(broker: Broker, line: Connected):
    first, second = line(broker), line(broker)
    first.ask(HEARTBEAT, body=heartbeat("a", "G", topics={"T": "x || y"}))
    second.ask(HEARTBEAT, body=heartbeat("b", "G", topics={"T": "x || y"}))
    told = json.loads(first.ask(203, {"consumerGroup": "G"}).body)
    ours = ["{}:{}".format(*talk.socket.getsockname()) for talk in (first, second)]
    assert told["connectionSet"] == [
        {"clientAddr": address, "clientId": client, "language": "JAVA", "version": 493}
        for address, client in zip(ours, "ab", strict=True)
    ]
    assert (told["consumeType"], told["messageModel"]) == ("CONSUME_PASSIVELY", "CLUSTERING")
    assert told["consumeFromWhere"] == "CONSUME_FROM_LAST_OFFSET"
    assert told["subscriptionTable"]["T"]["subString"] == "x || y"
    nobody = first.ask(203, {"consumerGroup": "H"})
    assert (nobody.code, nobody.remark) == (206, "the consumer group[H] not online")
