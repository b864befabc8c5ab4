"""An ACL: who signs a request, and what that user may do.

Signatures that are written out here are Java's: AclClientRPCHook of rocketmq-client 5.5.0 and 4.9.8 signed the frames.
The one of a client of before 4.9.4 is openssl's: `printf alice09000000000000U164acl-t | openssl dgst -sha1 -hmac
secret12 -binary | base64`. All others are made by `signed`, which is RocketMQ's formula once more.
"""

import base64
import hashlib
import hmac
import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from flintmq.broker import Broker, acl
from flintmq.broker.acl import Guard
from flintmq.broker.clients import Clients
from flintmq.broker.needs import ACTIONS, FREE, NEEDS, NEEDS_MAX, of_topic
from flintmq.broker.requests import Need, Refused, Request
from flintmq.errors import UsageError
from flintmq.message import StoredMessage
from flintmq.remoting.frames import RemotingFrame
from tests.broker import talk
from tests.broker.talk import Line, heartbeat, pull, records, send
from tests.broker.test_bad_input import frame
from tests.broker.test_clients import FakePeer
from tests.broker.test_consumers import WHO, asked
from tests.broker.test_replies import ask, of_reply, pushed, take
from tests.broker.test_send import stored
from tests.broker.test_transactions import COMMIT, OFTEN, begun, end, prepared
from tests.broker.test_transactions import heartbeat as of_producers
from tests.support.threads import within

Guarded = Callable[..., Broker]
Connected = Callable[..., Line]
Rules = list[dict[str, Any]]


def signed(
    fields: Mapping[str, Any] | None, body: bytes = b"", user: str = "alice", password: str = "secret12"
) -> dict[str, str]:
    """Fields with a user's signature."""
    told = {**{name: str(value) for name, value in (fields or {}).items()}, "AccessKey": user}
    content = "".join(told[name] for name in sorted(told)).encode() + body
    made = hmac.new(password.encode(), content, hashlib.sha1).digest()
    return {**told, "Signature": base64.b64encode(made).decode()}


class SignedLine(Line):
    """A connection whose requests are signed."""

    def __init__(self, address: str, user: str = "alice", password: str = "secret12") -> None:
        super().__init__(address)
        self.user, self.password = user, password

    def start(self, code: int, fields: Mapping[str, Any] | None = None, body: bytes = b"", *, flag: int = 0) -> int:
        return super().start(code, signed(fields, body, self.user, self.password), body, flag=flag)


def rule(resource: str, *actions: str, **more: Any) -> dict[str, Any]:
    return {"resource": resource, "actions": [*actions], **more}


def users(*rules: dict[str, Any], **more: Any) -> str:
    """An ACL: alice may do anything, bob what these rules say."""
    bob = {"username": "bob", "password": "onlybilling", "rules": [*rules], **more}
    return json.dumps({"users": [{"username": "alice", "password": "secret12", "type": "Super"}, bob]})


@pytest.fixture
def guarded(writing: Callable[..., Broker], tmp_path: Path) -> Guarded:
    """guarded(rule, ...) -> a broker with an ACL, tmp_path/acl.json: alice may do anything, bob what the rules say."""

    def guard(*rules: dict[str, Any], **given: Any) -> Broker:
        path = tmp_path / "acl.json"
        path.write_text(users(*rules), encoding="utf-8")
        return writing(acl=path, **given)

    return guard


@pytest.fixture
def by() -> Iterator[Connected]:
    """by(broker, user, password) -> a connection with signed requests, by itself alice's; closed after the test."""
    with ExitStack() as stack:
        yield lambda broker, *who: stack.enter_context(SignedLine(broker.address, *who))


BOB = ("bob", "onlybilling")

# -- signatures --------------------------------------------------------------------------------------------------------


def from_java(code: int, fields: str, version: int, body: bytes = b"") -> bytes:
    """The frame of a Java client, of these fields as it wrote them."""
    rest = '"flag":0,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON"'
    return frame(f'{{"code":{code},"extFields":{{{fields}}},{rest},"version":{version}}}'.encode(), body=body)


_SEND = (
    '"a":"P","b":"acl-t","c":"TBW102","d":"4","e":"0","f":"0","g":"1700000000000","h":"0",'
    '"i":"UNIQ_KEY\\u0001U1\\u0002k\\u0001值😀\\u0002","j":"0","k":"false","m":"false"'
)
_ALICE = '"AccessKey":"alice"'
_SIGNED, _WITH_TOKEN = '"Signature":"FGUTOnnxwoH/Huqoyr0XfdwiXwA="', '"Signature":"8BZHRgZ8wpasNjF6HWKcqPBM9ms="'
SENDS = {
    "5.5.0": from_java(310, f"{_ALICE},{_SEND},{_SIGNED}", 513, b"body"),
    "5.5.0, a token": from_java(310, f'{_ALICE},{_SEND},"SecurityToken":"token",{_WITH_TOKEN}', 513, b"body"),
    "5.5.0, ROCKETMQ": bytes.fromhex(
        "000000ee010000e60136000201000000070000000000000000000000d100094163636573734b657900000005616c696365000161000000"
        "01500001620000000561636c2d74000163000000065442573130320001640000000134000165000000013000016600000001300001670000"
        "000d31373030303030303030303030000168000000013000016900000016554e49515f4b4559015531026b01e580bcf09f98800200016a00"
        "0000013000016b0000000566616c736500016d0000000566616c736500095369676e61747572650000001c464755544f6e6e78776f482f48"
        "75716f79723058666477695877413d626f6479"
    ),
    "4.9.8": from_java(310, f"{_SEND},{_SIGNED},{_ALICE}", 409, b"body"),
}
"""The same message as Java's clients sign it: of alice, whose password is secret12."""
OF_ALL, OF_OLD = "tW8x5jdgnHkxQTGBumel2w9+uTk=", "LZWk9e8bQNip8U+sgSL3mqYy9G8="


@pytest.mark.parametrize("name", SENDS)
def test_frames_that_java_signed(guarded: Guarded, line: Connected, name: str):
    broker = guarded()
    client = line(broker)
    client.send(SENDS[name])
    assert client.answer(7).code == 0
    for old, new in ((b"body", b"bodY"), (b"acl-t", b"acl-u"), (b"alice", b"alicf")):
        client.send(SENDS[name].replace(old, new))
        answer = client.answer(7)
        assert (answer.code, answer.remark) == (16, "check signature failed.")
    [found] = stored(broker).get("acl-t", 0, 0).messages
    assert (found.body, found.properties["k"]) == (b"body", "值😀") and set(stored(broker).topics()) == {"acl-t"}


@pytest.mark.parametrize(
    ("version", "signature", "code"),
    [(513, OF_ALL, 0), (409, OF_ALL, 0), (400, OF_OLD, 16), (399, OF_OLD, 0), (399, OF_ALL, 16)],
)
def test_a_query_by_id(guarded: Guarded, line: Connected, version: int, signature: str, code: int):
    """Clients until 4.9.3 sign it without the field that says so."""
    broker = guarded()
    client = line(broker)
    client.send(SENDS["5.5.0"])
    assert client.answer(7).code == 0 and stored(broker).wait_dispatched(60)
    named = '"maxNum":"64","beginTimestamp":"0","key":"U1","_UNIQUE_KEY_QUERY":"true","topic":"acl-t"'
    fields = f'{named},{_ALICE},"endTimestamp":"9000000000000","Signature":"{signature}"'
    client.send(from_java(12, fields, version))
    answer = client.answer(7)
    assert answer.code == code
    assert [StoredMessage(one).body for one in records(answer.body)] == ([] if code else [b"body"])


@pytest.mark.parametrize("separators", [talk.PLAIN, talk.LOOSE])
def test_requests_that_nobody_signed(
    guarded: Guarded, line: Connected, by: Connected, monkeypatch: pytest.MonkeyPatch, separators: tuple[str, str]
):
    """Also such as kernels read, of a topic and a group that are there: with an ACL no compiled way takes them."""
    monkeypatch.setattr(talk, "SEPARATORS", separators)
    broker = guarded()
    owner, stranger = by(broker), line(broker)
    text = "UNIQ_KEY\x01U\x02"
    for _ in range(2):
        assert owner.ask(310, send("T", 0, text), b"x").code == 0
    assert stored(broker).wait_dispatched(60)
    assert owner.ask(11, pull()).code == 0 and owner.ask(15, {**pull(), "commitOffset": 1}).code == 0
    body = heartbeat("c", "H", topics={"T": "*"})
    for code, fields in (
        (310, send("T", 0, text)), (11, pull()), (11, pull(sysFlag=7, commitOffset=2)), (34, {}), (105, {"topic": "T"}),
        (17, {"topic": "New", "readQueueNums": 1, "writeQueueNums": 1}), (15, {**pull(), "commitOffset": 2}),
        (106, {}), (38, {"consumerGroup": "G"}), (21, {}), (200050, talk.pop()),
    ):  # fmt: skip
        unsigned = stranger.ask(code, fields, body)
        assert (unsigned.code, unsigned.remark, unsigned.body) == (16, "username cannot be null.", b"")
        for who in (("bob", "secret12"), ("carol", "secret12"), ("alice", "secret13")):
            answer = stranger.ask(code, signed(fields, body, *who), body)
            assert (answer.code, answer.remark) == (16, "check signature failed.")
    for broken in ({"AccessKey": "alice"}, {"AccessKey": "alice", "Signature": "no base64!"}, {"Signature": OF_ALL}):
        assert stranger.ask(310, {**send("T", 0, text), **broken}).code == 16
    assert stored(broker).bounds("T", 0) == (0, 2) and stored(broker).consumer_offset("G", "T", 0) == 1
    assert broker.stats().groups == {"G": 0} and broker.stats().failed == 0
    assert set(stored(broker).topics()) == {"T", "%RETRY%G"}


def test_a_request_that_is_not_known(guarded: Guarded, line: Connected):
    assert line(guarded()).ask(99_999).code == 3, "whoever asks: there is nothing to guard"


def test_read_only(served: Callable[..., Broker], resting: Path, tmp_path: Path, line: Connected, by: Connected):
    path = tmp_path / "acl.json"
    path.write_text(users(rule("Topic:T", "Sub")), encoding="utf-8")
    broker = served(resting, acl=path)
    assert line(broker).ask(11, pull()).code == 16
    assert by(broker).ask(11, pull()).code == 0
    refused = by(broker, *BOB).ask(11, pull())
    assert refused.code == 16 and "no permission to access Group:G" in str(refused.remark)


# -- what requests need ------------------------------------------------------------------------------------------------

FIELDS = {"topic": "T", "b": "T", "consumerGroup": "G", "group": "G", "groupName": "G"}
BODY = json.dumps({
    "topic": "T", "consumerGroup": "G", "groupName": "G", "acks": [{"c": "G", "t": "T"}],
    "consumerDataSet": [{"groupName": "G", "subscriptionDataSet": [{"topic": "T"}, {"topic": "%RETRY%G"}]}],
}).encode()  # fmt: skip
EXPECTED: dict[tuple[int, ...], tuple[str, ...]] = {
    (10, 310, 320, 324, 325, 370): ("Topic:T Pub",),
    (11, 361, 200050, 200052, 200054, 400): ("Topic:T Sub", "Group:G Sub"),
    (34, 35, 36, 41, 42, 309, 200051, 200053, 200151): ("Group:G Sub",),
    (34,): ("Topic:T Sub", "Group:G Sub"),
    (14,): ("Topic:T Sub Get", "Group:G Sub Get"),
    (15,): ("Topic:T Sub Update", "Group:G Sub Update"),
    (401,): ("Topic:T Update", "Group:G Update"),
    (38,): ("Group:G Sub Get",),
    (105,): ("Topic:T Pub Sub Get",),
    (12, 29, 30, 31, 32): ("Topic:T Sub Get",),
    (202, 300, 351): ("Topic:T Get",),
    (203, 208, 307): ("Group:G Get",),
    (17,): ("Topic:T Create",),
    (215, 216): ("Topic:T Delete",),
    (200,): ("Group:G Create",),
    (207,): ("Group:G Delete",),
    (222,): ("Group:G Update",),
    (25,): ("Cluster:C Update",),
    (21, 26, 28, 43, 45, 60, 201, 206, 315, 402, 906): ("Cluster:C Get List",),
}
"""Codes -> for each resource the actions of which one is enough; a later entry of a code wins."""
OF_CODE = {code: needs for codes, needs in EXPECTED.items() for code in codes}
ANY_USER = {33, 37, 46, 106}


def guard_of(path: Path, *rules: dict[str, Any], **more: Any) -> Guard:
    path.write_text(users(*rules, **more), encoding="utf-8")
    return Guard(str(path), "C")


def asked_by_bob(code: int, fields: Mapping[str, Any] = FIELDS, body: bytes = BODY) -> Request:
    return Request(RemotingFrame(code, 1, fields=signed(fields, body, *BOB), body=body), FakePeer(), 479)


def test_every_code_is_named(
    writing: Callable[..., Broker], served: Callable[..., Broker], resting: Path, tmp_path: Path
):
    """What a broker answers is checked, or is free for each user: a new code has its place in `needs`, and here."""
    codes = writing()._now._requests._handlers.keys() | served(resting)._now._requests._handlers.keys()
    assert codes == NEEDS.keys() | FREE and not NEEDS.keys() & FREE
    assert OF_CODE.keys() == NEEDS.keys() and FREE == ANY_USER
    with pytest.raises(Refused, match="User:bob has no permission to access request:77777 from here, no matched"):
        guard_of(tmp_path / "acl.json", rule("*", "All")).remoting(asked_by_bob(77777))


@pytest.mark.parametrize("code", OF_CODE)
def test_what_a_request_needs(tmp_path: Path, code: int):
    """Each of its resources by one of the actions; a user who lacks one is refused, and that one named."""
    wanted = [(resource, actions) for resource, *actions in (need.split() for need in OF_CODE[code])]
    for missing, actions in wanted:
        others = [rule(resource, more[0]) for resource, more in wanted if resource != missing]
        wrong = [action for action in ACTIONS if action not in actions]
        guard = guard_of(tmp_path / "acl.json", *others, rule(missing, *wrong), rule(f"{missing}x", "All"))
        with pytest.raises(Refused) as refused:
            guard.remoting(asked_by_bob(code))
        assert refused.value.code == 16
        words = f"User:bob has no permission to access {missing} from here, no matched policies."
        assert refused.value.remark == words
        for action in actions:
            guard = guard_of(tmp_path / "acl.json", *others, rule(missing, action))
            assert guard.remoting(asked_by_bob(code)).frame.code == code


@pytest.mark.parametrize("code", sorted(ANY_USER))
def test_what_each_user_may_ask(tmp_path: Path, code: int):
    guard = guard_of(tmp_path / "acl.json")
    request = guard.remoting(asked_by_bob(code))
    with pytest.raises(Refused, match="Topic:T"):
        request.may(Need("Topic", "T", ("Sub",)))


@pytest.mark.parametrize(
    ("code", "fields", "need"),
    [
        (310, {"b": "%RETRY%G"}, "Group:G Sub"),
        (11, {"topic": "%RETRY%G", "consumerGroup": "G"}, "Group:G Sub"),
        (11, {"topic": "%RETRY%H", "consumerGroup": "G"}, "Group:H Sub"),
        (105, {"topic": "%RETRY%G"}, "Group:G Get"),
        (105, {"topic": "%DLQ%G"}, "Topic:%DLQ%G Sub"),
        (17, {"topic": "%RETRY%G"}, "Group:G Create"),
        (14, {"topic": "%RETRY%G", "consumerGroup": "G"}, "Group:G Get"),
    ],
)
def test_topics_of_groups(tmp_path: Path, code: int, fields: dict[str, str], need: str):
    """Retries are the group's: who may consume by it may also send them. Dead letters are a topic as any."""
    resource, action = need.split()
    more = [rule("Group:G", "Sub")] if resource == "Group:H" else []
    guard = guard_of(tmp_path / "acl.json", rule(resource, action), *more)
    assert guard.remoting(asked_by_bob(code, fields)).frame.code == code
    if resource.startswith("Group:"):
        guard = guard_of(tmp_path / "acl.json", rule("Topic:*", "All"), *more)
        with pytest.raises(Refused, match=f"no permission to access {resource} "):
            guard.remoting(asked_by_bob(code, fields))


def test_what_needs_nothing(tmp_path: Path):
    """Producers ask for the route of TBW102; one that leaves names no group of consumers."""
    guard = guard_of(tmp_path / "acl.json")
    assert guard.remoting(asked_by_bob(105, {"topic": "TBW102"})).frame.code == 105
    assert guard.remoting(asked_by_bob(35, {"clientID": "c", "producerGroup": "P"})).frame.code == 35
    assert guard.remoting(asked_by_bob(34, {}, heartbeat("c"))).frame.code == 34


def test_requests_that_name_nothing_or_too_much(tmp_path: Path):
    guard = guard_of(tmp_path / "acl.json", rule("Topic:*", "All"), rule("Group:*", "All"))
    with pytest.raises(Refused, match="the field topic is missing"):
        guard.remoting(asked_by_bob(11, {"consumerGroup": "G"}))
    for body in (b"", b"{}", b'{"consumerGroup":5}'):
        with pytest.raises(Refused, match="body"):
            guard.remoting(asked_by_bob(41, {}, body))
    topics = [{"topic": f"T{number}"} for number in range(NEEDS_MAX)]
    many = json.dumps({"consumerDataSet": [{"groupName": "G", "subscriptionDataSet": topics}]}).encode()
    with pytest.raises(Refused, match="more than 10000 topics and groups"):
        guard.remoting(asked_by_bob(34, {}, many))


@pytest.mark.parametrize(
    ("rules", "topic", "denied"),
    [
        ([rule("Topic:a-*", "Pub"), rule("Topic:a-x", "Pub", decision="Deny")], "a-x", "the decision is deny."),
        ([rule("Topic:a-*", "Pub"), rule("Topic:a-x", "Pub", decision="Deny")], "a-y", ""),
        ([rule("Topic:orders-*", "Pub", decision="deny"), rule("Topic:orders-x*", "pub")], "orders-xy", ""),
        ([rule("Topic:*", "Pub"), rule("Topic:orders-*", "Pub", decision="DENY")], "orders-1", "the decision is deny."),
        ([rule("Topic:T", "Pub"), rule("Topic:T", "Pub", decision="Deny")], "T", "the decision is deny."),
        ([rule("*", "Pub"), rule("Topic:*", "Pub", decision="Deny")], "T", "the decision is deny."),
        ([rule("*", "Pub")], "T", ""),
        ([rule("topic:T", "ALL")], "T", ""),
        ([rule("Topic:T", "Sub"), rule("Topic:*", "Pub")], "T", ""),
        ([rule("Topic:Ta", "Pub"), rule("Topic:t", "Pub"), rule("Group:T", "Pub")], "T", "no matched policies."),
        ([], "T", "no matched policies."),
    ],
)  # fmt: skip
def test_the_most_exact_rule_decides(tmp_path: Path, rules: Rules, topic: str, denied: str):
    for turned in (rules, rules[::-1]):
        guard = guard_of(tmp_path / "acl.json", *turned)
        if not denied:
            assert guard.remoting(asked_by_bob(310, {"b": topic})).frame.fields["b"] == topic
            continue
        with pytest.raises(Refused) as refused:
            guard.remoting(asked_by_bob(310, {"b": topic}))
        assert refused.value.remark == f"User:bob has no permission to access Topic:{topic} from here, {denied}"


@pytest.mark.parametrize("topic", ["RMQ_SYS_TRANS_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"])
@pytest.mark.parametrize(
    ("more", "denied"),
    [
        ([], "Cluster:C from here, no matched policies."),
        ([rule("Cluster:C", "Sub")], ""),
        ([rule("Cluster:C*", "All", decision="Deny")], "Cluster:C from here, the decision is deny."),
        ([rule("Cluster:*", "Sub"), rule("Topic:rmq_sys_*", "All", decision="Deny"),
          rule("Topic:RMQ_SYS_TRANS_HALF_TOPIC", "Sub", decision="Deny"), rule("Topic:S*", "All", decision="Deny")],
         "Topic:TOPIC from here, the decision is deny."),
        ([rule("Cluster:*", "Sub"), rule("Topic:*", "All", decision="Deny"), rule("Topic:secrets", "Sub")],
         "Topic:TOPIC from here, the decision is deny."),
        ([rule("Cluster:*", "Sub"), rule("Topic:*", "Pub", "Get", decision="Deny")], ""),
    ],
)  # fmt: skip
def test_a_topic_of_rocketmqs_own_needs_the_cluster(tmp_path: Path, topic: str, more: Rules, denied: str):
    """Messages of `secret` wait there: a user who may all but that gets it by a rule of the cluster alone."""
    given = rule("*", "All"), rule("Topic:secret", "All", decision="Deny")
    guard, fields = guard_of(tmp_path / "acl.json", *given, *more), {"topic": topic, "consumerGroup": "G"}
    assert guard.remoting(asked_by_bob(38)).frame.code == 38
    if not denied:
        assert guard.remoting(asked_by_bob(11, fields)).frame.code == 11
        return
    with pytest.raises(Refused) as refused:
        guard.remoting(asked_by_bob(11, fields))
    assert refused.value.remark == f"User:bob has no permission to access {denied.replace('TOPIC', topic, 1)}"


@pytest.mark.parametrize(
    ("source", "inside", "outside"),
    [
        ("127.0.0.1", "127.0.0.1:5", "127.0.0.2:5"),
        ("10.1.0.0/16", "10.1.255.1:5", "10.2.0.1:5"),
        ("10.1.*", "10.1.2.3:5", "10.11.2.3:5"),
        ("10.1.*", "10.1.2.3:5", "110.1.2.3:5"),
        ("*", "10.1.2.3:5", None),
        ("10.0.0.0/8", "[::ffff:10.1.2.3]:5", "[::1]:5"),
        ("fe80::/10", "[fe80::1]:5", "?:0"),
        ("::1", "[::1]:5", "127.0.0.1:5"),
    ],
)  # fmt: skip
def test_addresses(tmp_path: Path, source: str, inside: str, outside: str | None):
    """Of a rule, and of users and of all who need no signature there."""
    path = tmp_path / "acl.json"
    fields = {"b": "T", "AccessKey": "bob"}

    def at(address: str, told: dict[str, str]) -> Request:
        peer = FakePeer()
        peer.address = address
        return Request(RemotingFrame(310, 1, fields=told), peer, 479)

    of_rule = guard_of(path, rule("Topic:T", "Pub", sources=["192.168.0.1", source]))
    of_user = guard_of(path, rule("Topic:T", "Pub"), trusted=[source])
    path.write_text(json.dumps({"users": [], "trusted": [source]}), encoding="utf-8")
    of_all = Guard(str(path), "C")
    for guard, told in ((of_rule, signed(fields, b"", *BOB)), (of_user, fields), (of_all, {"b": "T"})):
        assert guard.remoting(at(inside, told)).frame.code == 310
        if outside is not None:
            with pytest.raises(Refused):
                guard.remoting(at(outside, told))
    with pytest.raises(Refused, match="check signature failed"):
        of_user.remoting(at(inside, {"b": "T", "AccessKey": "carol"}))
    with pytest.raises(Refused, match="bob has no permission to access Topic:U"):
        of_user.remoting(at(inside, {"b": "U", "AccessKey": "bob"}))


# -- a broker ----------------------------------------------------------------------------------------------------------


def test_a_user_does_what_the_rules_say(guarded: Guarded, by: Connected):
    broker = guarded(rule("Topic:acl-*", "Sub"), rule("Group:*", "Sub"))
    owner, reader = by(broker), by(broker, *BOB)
    assert owner.ask(310, send("acl-t"), b"x").code == 0 and stored(broker).wait_dispatched(60)
    assert reader.ask(34, body=heartbeat("c", "G", topics={"acl-t": "*", "%RETRY%G": "*"})).code == 0
    assert [StoredMessage(one).body for one in records(reader.ask(11, pull("acl-t")).body)] == [b"x"]
    assert reader.ask(15, {**pull("acl-t"), "commitOffset": 1}).code == 0
    assert reader.ask(106).code == 0 and reader.ask(105, {"topic": "TBW102"}).code == 0
    refused = reader.ask(310, send("acl-t"), b"y")
    words = "User:bob has no permission to access Topic:acl-t from 127.0.0.1, no matched policies."
    assert (refused.code, refused.remark) == (16, words)
    assert reader.ask(34, body=heartbeat("c", "G", topics={"other": "*"})).code == 16
    assert reader.ask(21).code == 16 == reader.ask(207, {"groupName": "G"}).code
    number = reader.start(11, pull("acl-t", 0, 1, sysFlag=6, suspendTimeoutMillis=9000))
    assert reader.is_quiet(0.05)
    assert owner.ask(310, send("acl-t"), b"y").code == 0
    assert [StoredMessage(one).body for one in records(reader.answer(number).body)] == [b"y"], "a held pull"


def test_messages_of_other_topics_are_not_given(guarded: Guarded, by: Connected):
    """By a place in the log anybody could name any message: its own topic counts."""
    broker = guarded(rule("Topic:mine", "Sub"), rule("Group:*", "Sub"))
    owner, user, member = by(broker), by(broker, *BOB), by(broker)
    ids = {topic: owner.ask(310, send(topic), topic.encode()).fields["msgId"] for topic in ("mine", "other")}
    assert owner.ask(200, body=b'{"groupName":"G"}').code == 0
    assert member.ask(34, body=heartbeat("c1", "G", topics={"mine": "*"})).code == 0
    for topic, code in (("mine", 0), ("other", 16)):
        offset = int(ids[topic][16:], 16)
        seen = user.ask(33, {"offset": offset, "topic": "mine"})
        assert (seen.code, bool(seen.body)) == (code, not code)
        back = {"offset": offset, "group": "G", "delayLevel": 0, "originTopic": "mine"}
        assert user.ask(36, back).code == code
        number = user.start(309, {**WHO, "topic": "mine", "msgId": ids[topic]})
        if code:
            assert user.answer(number).code == code
    found = asked(member, 309)
    assert StoredMessage(found.body).body == b"mine" and member.is_quiet(0.05)
    assert stored(broker).bounds("SCHEDULE_TOPIC_XXXX", 2) == (0, 1), "one of the two waits for its retry"


def test_transactions_of_other_topics_are_not_ended(guarded: Guarded, by: Connected):
    broker = guarded(rule("Topic:mine", "Pub"))
    owner, user = by(broker), by(broker, *BOB)
    fields = begun(owner)
    refused = end(user, fields, COMMIT, topic="mine")
    assert refused.code == 16 and "Topic:T" in str(refused.remark)
    assert stored(broker).bounds("T", 2) == (0, 0)
    assert end(owner, fields, COMMIT).code == 0


def test_who_may_not_send_is_not_asked_for_transactions(guarded: Guarded, by: Connected):
    """What is asked has the message in it, and everybody may say to be of a group of producers."""
    broker = guarded(rule("Topic:mine", "Pub"), config=OFTEN)
    owner, user = by(broker), by(broker, *BOB)
    assert user.ask(34, body=of_producers("c2", "Shop")).code == 0
    for topic, client in (("T", owner), ("mine", user), ("mine", user)):  # three: two members take turns
        half = send(topic, 2, prepared(), sys_flag=4, born=int(time.time() * 1000))
        assert client.ask(310, half, topic.encode()).code == 0
    assert {StoredMessage(asked(owner, 39).body).topic for _ in range(6)} >= {"T"}
    assert {StoredMessage(asked(user, 39).body).topic for _ in range(4)} == {"mine"}


def test_topics_in_which_those_of_others_wait(guarded: Guarded, by: Connected):
    """A user with each topic but one reads its messages in none of RocketMQ's own, and puts none there."""
    broker = guarded(
        rule("Topic:*", "All"), rule("Group:*", "Sub"), rule("Topic:secret", "All", decision="Deny"),
        rule("Cluster:*", "Get", "List"),
    )  # fmt: skip
    owner, user = by(broker), by(broker, *BOB)
    later = f"TIMER_DELIVER_MS\x01{int(time.time() * 1000) + 60_000}\x02"
    places = []
    for text, sys_flag in ((later, 0), ("DELAY\x015\x02", 0), (prepared(), 4)):
        sent = owner.ask(310, send("secret", 0, text, sys_flag=sys_flag), b"hidden")
        assert sent.code == 0
        places.append(int(sent.fields["msgId"][16:], 16))
    for topic, queue_id in (("rmq_sys_wheel_timer", 0), ("SCHEDULE_TOPIC_XXXX", 4), ("RMQ_SYS_TRANS_HALF_TOPIC", 0)):
        assert records(owner.ask(11, pull(topic, queue_id)).body), "it waits there"
        for code, fields in ((11, pull(topic, queue_id)), (200050, talk.pop(topic)), (12, {"topic": topic})):
            refused = user.ask(code, fields)
            assert refused.code == 16 and "Cluster:DefaultCluster" in str(refused.remark) and not refused.body
    assert [user.ask(33, {"offset": place}).code for place in places] == [16, 16, 16]
    for topic in ("RMQ_SYS_TRACE_TOPIC", "BenchmarkTest", "DefaultCluster_REPLY_TOPIC"):
        assert user.ask(310, send(topic), b"x").code == 0


def test_replies_need_the_topic_of_replies(guarded: Guarded, by: Connected):
    """Whatever topic they name: they go to a client."""
    broker = guarded(rule("Topic:mine", "Pub"), rule("Topic:DefaultCluster_REPLY_TOPIC", "Pub"))
    asker, user = by(broker), by(broker, *BOB)
    assert asker.ask(34, body=of_producers("asker", "P")).code == 0
    reply = send("mine", 0, "REPLY_TO_CLIENT\x01asker\x02")
    long = {"topic": "mine", "queueId": 0, "bornTimestamp": 1, "producerGroup": "P", "properties": reply["i"]}
    number = user.start(325, reply, b"right")
    talk_frame = asker.told.pop(0) if asker.told else asker.frame()
    assert talk_frame is not None and (talk_frame.code, talk_frame.body) == (326, b"right")
    asker.send(talk.request(0, opaque=talk_frame.opaque, flag=1))
    assert user.answer(number).code == 0
    lose(broker, rule("Topic:mine", "Pub"))
    for code, fields in ((325, reply), (324, long)):
        refused = user.ask(code, fields, b"forged")
        assert refused.code == 16 and "Topic:DefaultCluster_REPLY_TOPIC" in str(refused.remark)
    assert asker.is_quiet(0.05) and stored(broker).bounds("mine", 0) == (0, 1)


@pytest.mark.parametrize("how", ["heartbeat", "request"])
@pytest.mark.parametrize("first", ["alice", "bob"])
def test_a_client_id_of_two_users_gets_no_reply(guarded: Guarded, by: Connected, first: str, how: str):
    """Ids are no secret, and who is there first may be the wrong one. Once one has gone the other gets it."""
    broker = guarded(rule("Topic:T", "Pub"))
    one, two, replier = by(broker), by(broker, *BOB), by(broker)
    if first == "bob":
        one, two = two, one
    assert one.ask(34, body=of_producers("asker", "P")).code == 0
    replied(replier, one)
    if how == "heartbeat":
        assert two.ask(34, body=of_producers("asker", "P")).code == 0
    else:
        ask(two)
    assert one.ask(34, body=of_producers("asker", "P")).code == 0
    refused = replier.ask(325, of_reply(), b"secret")
    assert (refused.code, refused.remark) == (1, "push reply message fail, <asker> is the client id of 2 users.")
    assert one.is_quiet(0.05) and two.is_quiet(0.05)
    one.close()
    assert within(lambda: broker.stats().connections == 2)
    replied(replier, two)


def test_another_connection_of_a_user_takes_the_place_of_a_client(guarded: Guarded, by: Connected):
    """Another user's that forwards the client's request does not, and is no second user of it."""
    broker = guarded(rule("Topic:T", "Pub"))
    old, new, forwarder, replier = by(broker), by(broker), by(broker, *BOB), by(broker)
    for client, name in ((old, "asker"), (forwarder, "own"), (new, "asker")):
        assert client.ask(34, body=of_producers(name, "P")).code == 0
    ask(forwarder)
    replied(replier, new)
    assert old.is_quiet(0.05) and forwarder.is_quiet(0.05)
    replied(replier, forwarder, "own")


def test_a_connection_that_has_ended_is_no_client():
    """A send may wait for its topic, and its client be gone by then."""
    clients, peer = Clients(), FakePeer()
    clients.note_asker("asker", peer)
    assert clients.find("asker") == [peer]
    clients.left(peer)
    peer.is_closed = True
    clients.note_asker("asker", peer)
    assert clients.find("asker") == []


def replied(replier: Line, client: Line, name: str = "asker") -> None:
    """A reply to this client id gets to this client."""
    number = replier.start(325, of_reply(name), b"answer")
    take(client, pushed(client))
    assert replier.answer(number).code == 0


# -- rights that are taken away ----------------------------------------------------------------------------------------


def lose(broker: Broker, *rules: dict[str, Any], **more: Any) -> None:
    """Let another ACL count, as if it were read again."""
    path = Path(broker._now._guard._path)
    path.write_text(users(*rules, **more), encoding="utf-8")
    broker._now._guard._acl = acl.read(str(path))


@pytest.mark.parametrize("code", [11, 200050])
@pytest.mark.parametrize("how", ["rule", "user", "password"])
def test_what_is_held_goes_on_by_the_acl_of_now(guarded: Guarded, by: Connected, code: int, how: str):
    given = rule("Topic:T", "Sub"), rule("Group:G", "Sub")
    broker = guarded(*given)
    owner, user = by(broker), by(broker, *BOB)
    assert owner.ask(310, send("T"), b"x").code == 0 and owner.ask(200, body=b'{"groupName":"G"}').code == 0
    assert stored(broker).wait_dispatched(60)
    waits = {**talk.pop(), "pollTime": 9000, "initMode": 1} if code == 200050 else pull("T", 0, 1, sysFlag=6)
    assert code == 11 or user.ask(code, {**waits, "pollTime": 0}).code == 0
    number = user.start(code, {**waits, "suspendTimeoutMillis": 9000})
    assert within(lambda: broker._now._rooms.held.count == 1)
    if how == "rule":
        lose(broker, rule("Group:G", "Sub"))
    elif how == "user":
        lose(broker, *given, username="robert")
    else:
        lose(broker, *given, password="another")
    assert owner.ask(310, send("T"), b"secret").code == 0
    refused = user.answer(number)
    assert (refused.code, refused.body) == (16, b"")


@pytest.mark.parametrize("kind", ["normal", "super"])
def test_who_may_not_send_any_more_is_not_asked(guarded: Guarded, by: Connected, kind: str):
    """Also one who may do anything when the group was named."""
    broker = guarded()
    lose(broker, rule("Topic:T", "Pub"), type=kind)
    user, need = by(broker, *BOB), of_topic("T", "Pub")
    assert user.ask(34, body=of_producers("c", "Shop")).code == 0
    assert broker._now._clients.producer("Shop", need) is not None
    lose(broker, rule("Topic:mine", "Pub"))
    assert broker._now._clients.producer("Shop", need) is None


def test_names_times_rules_are_looked_up(tmp_path: Path):
    """Thousands of each take the loop no longer than a glance."""
    rules = [rule(f"Topic:T{number:04}{'*' * (number % 2)}", "Sub") for number in range(5000)]
    guard = guard_of(tmp_path / "acl.json", *rules, rule("Group:G", "Sub"))
    topics = [{"topic": f"T{number % 5000:04}"} for number in range(NEEDS_MAX - 1)]
    body = json.dumps({"consumerDataSet": [{"groupName": "G", "subscriptionDataSet": topics}]}).encode()
    request = asked_by_bob(34, {}, body)
    began = time.process_time()
    guard.remoting(request)
    assert time.process_time() - began < 0.5, "one by one they take seconds"


# -- the file ----------------------------------------------------------------------------------------------------------


def test_a_file_that_changes(
    guarded: Guarded, by: Connected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """It counts from the next request on; one that is broken, or gone, changes nothing, and the log says so."""
    monkeypatch.setattr("flintmq.broker.acl.LOOK_S", 0.01)
    caplog.set_level(logging.INFO, "flintmq.broker")
    broker = guarded()
    user, path = by(broker, *BOB), tmp_path / "acl.json"

    def put(text: str) -> None:
        path.with_suffix(".new").write_text(text, encoding="utf-8")
        path.with_suffix(".new").replace(path)

    def code() -> int:
        return user.ask(310, send("T"), b"x").code

    def count(words: str) -> int:
        return sum(words in record.getMessage() for record in caplog.records)

    assert code() == 16
    put(users(rule("Topic:T", "Pub")))
    assert within(lambda: code() == 0) and count("acl.json: the ACL is read again: 2 users") == 1
    put('{"users": [')
    assert within(lambda: count("the ACL of before counts on") == 1) and code() == 0
    path.unlink()
    assert within(lambda: count("the ACL of before counts on") == 2) and code() == 0
    assert count("acl.json: is not there") == 1
    put(users())
    assert within(lambda: code() == 16)
    monkeypatch.setattr("flintmq.broker.acl.LOOK_S", 0.5)
    told = users(rule("Topic:T", "Pub"), rule("Topic:U", "Pub", decision="Deny"))
    before = count("the ACL is read again") + count("the ACL of before counts on")
    for upto in range(0, len(told), 8):  # an editor that writes it slowly
        path.write_text(told[:upto], encoding="utf-8")
        time.sleep(0.01)
        assert code() == 16 and count("the ACL is read again") + count("the ACL of before counts on") == before
    path.write_text(told, encoding="utf-8")
    assert within(lambda: code() == 0)
    assert not any(word in record.getMessage() for record in caplog.records for word in ("onlybilling", "secret12"))


def test_a_file_of_4_x_that_is_emptied(
    writing: Callable[..., Broker], by: Connected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):  # fmt: skip
    """It is read as one without accounts, and that is no ACL to go on with; neither is one with an old time."""
    monkeypatch.setattr("flintmq.broker.acl.LOOK_S", 0.01)
    path = tmp_path / "plain_acl.yml"
    path.write_text(PLAIN.replace("{DEFAULT}", "DENY"), encoding="utf-8")
    user = by(writing(acl=path), "RocketMQ", "12345678")
    assert user.ask(310, send("topicB"), b"x").code == 0
    path.write_text("", encoding="utf-8")
    assert within(lambda: "plain_acl.yml: it has no accounts" in caplog.text)
    assert user.ask(310, send("topicB"), b"x").code == 0
    before = path.stat()
    path.write_text(PLAIN.replace("{DEFAULT}", "PUB"), encoding="utf-8")
    assert within(lambda: user.ask(310, send("topicD"), b"x").code == 0)
    found = path.stat()
    path.write_text(PLAIN.replace("{DEFAULT}", "SUB"), encoding="utf-8")
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_ino) == (found.st_size, found.st_ino) and before.st_size == 0
    assert within(lambda: user.ask(310, send("topicD"), b"x").code == 16), "by the time of its change alone"


ALICE = '"username":"alice","password":"secret12"'
ALL, DENY = '"actions":["All"]', '"decision":"Deny"'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no ACL"),
        ("[]", "no ACL"),
        ('{"users":{}}', "users is no list"),
        ('{"users":["secret12"]}', "a user is no object"),
        ('{"user":[]}', "'user' is none of trusted, users"),
        ('{"users":[{"username":"alice"}]}', "a password is missing"),
        ('{"users":[{"password":"secret12"}]}', "a username is missing"),
        ('{"users":[{"username":"","password":"secret12"}]}', "a username is missing"),
        ('{"users":[{"username":"alice","password":12345678}]}', "a password is missing"),
        ('{"users":[{ALICE,"admin":true}]}', "'admin' is none of password, rules, trusted, type, username"),
        ('{"users":[{ALICE,"type":"root"}]}', "the type of 'alice' is super or normal, not 'root'"),
        ('{"users":[{ALICE},{ALICE}]}', "two users have one name"),
        ('{"users":[{ALICE,"rules":[{"resource":"T"}]}]}', "the resource 'T' is none such as"),
        ('{"users":[{ALICE,"rules":[{"resource":"Topic:"}]}]}', "the resource 'Topic:' is none such as"),
        ('{"users":[{ALICE,"rules":[{"resource":"Queue:T"}]}]}', "the resource 'Queue:T' is none such as"),
        ('{"users":[{ALICE,"rules":[{"actions":["Pub"]}]}]}', "a resource is missing"),
        ('{"users":[{ALICE,"rules":[{"resource":"*","actions":["Push"]}]}]}', "the action 'Push' is none of Pub, "),
        ('{"users":[{ALICE,"rules":[{"resource":"*","actions":"Pub"}]}]}', "actions is no list"),
        ('{"users":[{ALICE,"rules":[{"resource":"*","decision":"Maybe"}]}]}', "neither Allow nor Deny"),
        ('{"users":[{ALICE,"rules":[{"resource":"*","actions":["All"],"sources":["a.b"]}]}]}', "'a.b' is no address"),
        ('{"users":[{ALICE,"rules":[{"resource":"*","actions":["All"],"sources":["10.0.0.1-9"]}]}]}', "is no address"),
        ('{"users":[{ALICE,"rules":[{"resource":"*","source":[]}]}]}', "'source' is none of"),
        ('{"users":[{ALICE,"rules":[{"resource":"Topic:T","decision":"Deny"}]}]}', "'Topic:T' has no actions"),
        ('{"users":[{ALICE,"rules":[{"resource":"Topic:T","actions":[]}]}]}', "'Topic:T' has no actions"),
        ('{"users":[{ALICE,"rules":[{"resource":"Topic:sal*ries",ALL}]}]}', "topic contains illegal characters"),
        ('{"users":[{ALICE,"rules":[{"resource":"Topic: salaries",ALL}]}]}', "topic contains illegal characters"),
        ('{"users":[{ALICE,"rules":[{"resource":"Group:g.*",ALL}]}]}', "group contains illegal characters"),
        ('{"users":[{ALICE,"rules":[{"resource":"Topic:%RETRY%g",ALL}]}]}', "'Topic:%RETRY%g' has no rights of its"),
        ('{"users":[{ALICE,"rules":[{"resource":"Group:%RETRY%*",ALL}]}]}', "'Group:%RETRY%*' has no rights of its"),
        ('{"users":[{ALICE,"rules":[{"resource":"Topic:%R*",ALL,DENY}]}]}', "'Topic:%R*' has no rights of its own"),
        ('{"users":[{ALICE,"rules":[{"resource":"Topic:SCHEDULE_TOPIC_XXXX",ALL}]}]}', "or of the cluster"),
        ('{"trusted":[null]}', "'None' is no address"),
    ],
)  # fmt: skip
def test_files_that_are_none(tmp_path: Path, text: str, words: str):
    path = tmp_path / "acl.json"
    path.write_text(text.replace("ALICE", ALICE).replace("ALL", ALL).replace("DENY", DENY), encoding="utf-8")
    with pytest.raises(UsageError) as refused:
        acl.read(str(path))
    assert str(refused.value).startswith(f"{path}: no ACL: ") and words in str(refused.value)
    assert "secret12" not in str(refused.value)


def test_a_broker_does_not_start_without_its_acl(tmp_path: Path, writing: Callable[..., Broker]):
    with pytest.raises(UsageError, match=r"acl\.json: is not there"):
        writing(acl=tmp_path / "acl.json")
    (tmp_path / "acl.json").write_bytes(b" " * ((1 << 20) + 1))
    with pytest.raises(UsageError, match="has more than 1048576 bytes"):
        writing(acl=tmp_path / "acl.json")
    assert not (tmp_path / "store").exists()


# -- plain_acl.yml -----------------------------------------------------------------------------------------------------

PLAIN = """\
# As RocketMQ 4.x ships it.
globalWhiteRemoteAddresses:
  - 10.10.103.*
  - '192.168.0.0/24'

accounts:
  - accessKey: RocketMQ   # its key
    secretKey: 12345678
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: {DEFAULT}
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - topicC=SUB
      - topicE = PUB
      - topicF =DENY
    groupPerms:
    - groupA=DENY
    - groupB=PUB|SUB
  - accessKey: rocketmq2
    secretKey: "1234 5678"
    whiteRemoteAddress: 192.168.1.*,192.168.2.1
    admin: true
  - accessKey: white
    secretKey: 12345678
    whiteRemoteAddress: 192.168.7.7
dataVersion:
- counter: 1
  stateVersion: 0
"""


DEFAULT = "what the default says"


def plain(path: Path, text: str = PLAIN, default: str = "DENY") -> Guard:
    path.write_text(text.replace("{DEFAULT}", default), encoding="utf-8")
    return Guard(str(path), "C")


@pytest.mark.parametrize("default", ["DENY", "PUB|SUB"])
@pytest.mark.parametrize(
    ("code", "fields", "may"),
    [
        (310, {"b": "topicA"}, False), (310, {"b": "topicB"}, True), (310, {"b": "topicC"}, False),
        (310, {"b": "topicD"}, DEFAULT), (310, {"b": "topicE"}, True), (310, {"b": "topicF"}, False),
        (11, {"topic": "topicD", "consumerGroup": "groupB"}, DEFAULT),
        (11, {"topic": "topicE", "consumerGroup": "groupB"}, False), (105, {"topic": "topicE"}, True),
        (11, {"topic": "topicF", "consumerGroup": "groupB"}, False),
        (11, {"topic": "topicB", "consumerGroup": "groupB"}, True),
        (11, {"topic": "topicC", "consumerGroup": "groupD"}, True),
        (11, {"topic": "topicC", "consumerGroup": "groupA"}, False),
        (11, {"topic": "topicA", "consumerGroup": "groupB"}, False),
        (11, {"topic": "%RETRY%groupD", "consumerGroup": "groupD"}, True),
        (105, {"topic": "topicC"}, True), (105, {"topic": "topicD"}, DEFAULT),
        (17, {"topic": "topicB"}, False), (206, {}, False),
    ],
)  # fmt: skip
def test_the_acl_of_4_x(tmp_path: Path, code: int, fields: dict[str, str], may: bool | str, default: str):
    """Default permissions are only for what is not named; what admins ask needs an admin."""
    guard = plain(tmp_path / "plain_acl.yml", default=default)
    of_user = default != "DENY" if may == DEFAULT else may
    for user, password, allowed in (("RocketMQ", "12345678", of_user), ("rocketmq2", "1234 5678", True)):
        told = RemotingFrame(code, 1, fields=signed(fields, b"", user, password))
        if allowed:
            assert guard.remoting(Request(told, FakePeer(), 479)).frame is told
        else:
            with pytest.raises(Refused, match="User:RocketMQ has no permission"):
                guard.remoting(Request(told, FakePeer(), 479))


@pytest.mark.parametrize(
    ("address", "user", "may"),
    [
        ("10.10.103.7:1", "", True), ("192.168.0.9:1", "", True), ("192.168.1.9:1", "", False),
        ("192.168.1.9:1", "rocketmq2", True), ("192.168.2.1:1", "rocketmq2", True),
        ("192.168.2.2:1", "rocketmq2", False), ("192.168.1.9:1", "RocketMQ", False),
        ("192.168.7.7:1", "white", True), ("192.168.7.8:1", "white", False),
    ],
)  # fmt: skip
def test_white_addresses_of_4_x(tmp_path: Path, address: str, user: str, may: bool):
    guard, peer = plain(tmp_path / "plain_acl.yml"), FakePeer()
    peer.address = address
    request = Request(RemotingFrame(17, 1, fields={"topic": "T", "AccessKey": user}), peer, 479)
    if may:
        assert guard.remoting(request).frame is request.frame
    else:
        with pytest.raises(Refused):
            guard.remoting(request)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("accounts: [a]", "line 1 has a value of a form that is not read here"),
        ("accounts:\n  - secret12", "an account has no names with values"),
        ("accounts:\n  - accessKey: a\n   secretKey: b", "line 3 belongs to nothing"),
        ("accounts:\n  - accessKey: a\n      secretKey: b", "line 3"),
        ("accounts:\n  - accessKey: &a secret12", "line 2 has a value"),
        ("accounts:\n  - accessKey: 'a", "line 2 has a value"),
        ("accounts:\n  - accessKey: a\n    admin: true", "a password is missing"),
        ("accounts:\n  - accessKey: a\n    secretKey: b\n    topicPerms:\n    - t", "'t': there is none of PUB"),
        ("accounts:\n  - accessKey: a\n    secretKey: b\n    topicPerms:\n    - top*=PUB", "a name of 4.x has no *"),
        ("accounts:\n  - accessKey: a\n    secretKey: b\n    groupPerms:\n    - '*=DENY'", "a name of 4.x has no *"),
        ("accounts:\n  - accessKey: a\n    secretKey: b\n    whiteRemoteAddress: 10.0.{1,2}.*", "is no address"),
        ("- a\n- b", "belongs to nothing"),
        ("accounts", "line 1 is neither NAME: VALUE nor - VALUE"),
        ("\n".join(" " * depth + "a:" for depth in range(20)), "line 10 is nested too deep"),
        ("\x00", "line 1 is neither"),
    ],
)  # fmt: skip
def test_files_of_4_x_that_are_none(tmp_path: Path, text: str, words: str):
    with pytest.raises(UsageError) as refused:
        plain(tmp_path / "plain_acl.yaml", text)
    assert words in str(refused.value) and "secret12" not in str(refused.value)


ODD = """\
accounts:
  - accessKey: bob
    secretKey: onlybilling
    defaultTopicPerm: PUB|SUB
    defaultGroupPerm: {GROUPS}
    topicPerms:
      - "%RETRY%allowed=SUB"
      - "%RETRY%denied=DENY"
      - SCHEDULE_TOPIC_XXXX=DENY
      - OFFSET_MOVED_EVENT=SUB
      - rmq_sys_TRACE_DATA_a=PUB
      - rmq_sys_TRACE_DATA_b=SUB
      - lower=pub
    groupPerms:
      - "%RETRY%other=SUB"
  - accessKey: alice
    secretKey: secret12
    admin: True
"""
"""What 4.x takes, too."""


@pytest.mark.parametrize("groups", ["DENY", "SUB", "sub"])
@pytest.mark.parametrize(
    ("code", "fields", "may"),
    [
        (38, {"consumerGroup": "allowed"}, True), (38, {"consumerGroup": "denied"}, False),
        (38, {"consumerGroup": "other"}, DEFAULT), (310, {"b": "%RETRY%allowed"}, True),
        (105, {"topic": "SCHEDULE_TOPIC_XXXX"}, False), (105, {"topic": "OFFSET_MOVED_EVENT"}, False),
        (310, {"b": "rmq_sys_TRACE_DATA_a"}, True), (310, {"b": "rmq_sys_TRACE_DATA_b"}, False),
        (310, {"b": "lower"}, False), (310, {"b": "any"}, True),
    ],
)  # fmt: skip
def test_odd_rules_of_4_x(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, code: int, fields: dict[str, str], may: bool | str, groups: str
):
    """A permission that is none is DENY, as there; what would do nothing here is left out, and allows nothing."""
    guard = plain(tmp_path / "plain_acl.yml", ODD.replace("{GROUPS}", groups))
    if may is True or (may == DEFAULT and groups == "SUB"):
        assert guard.remoting(asked_by_bob(code, fields)).frame.code == code
    else:
        with pytest.raises(Refused, match="User:bob has no permission"):
            guard.remoting(asked_by_bob(code, fields))
    of_alice = RemotingFrame(206, 1, fields=signed({}))
    assert guard.remoting(Request(of_alice, FakePeer(), 479)).frame is of_alice, "an admin"
    left_out = "left out: '{}' has no rights of its own, but those of a group, or of the cluster"
    assert [record.getMessage() for record in caplog.records] == [
        "Topic 'lower': the permission 'pub' is read as DENY",
        *(["Group '*': the permission 'sub' is read as DENY"] if groups == "sub" else []),
        left_out.format("Topic:OFFSET_MOVED_EVENT"),
        left_out.format("Group:%RETRY%other"),
    ]


def test_a_file_that_lets_nobody_in_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    path, words = tmp_path / "acl.json", "all requests are refused"
    path.write_text('{"trusted": ["10.0.0.1"]}', encoding="utf-8")
    Guard(str(path), "C")
    assert words not in caplog.text
    path.write_text("{}", encoding="utf-8")
    Guard(str(path), "C")
    assert caplog.text.count(words) == 1


def test_an_empty_file_of_4_x_knows_nobody(tmp_path: Path):
    path = tmp_path / "plain_acl.yml"
    for text in ("", "accounts:\n", "---\n# nothing\n"):
        path.write_text(text, encoding="utf-8")
        assert acl.read(str(path)).users == {}
