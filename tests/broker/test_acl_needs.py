"""What each request needs of an ACL: resources, actions, rules and addresses."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.broker import Broker
from flintmq.broker.acl import Guard
from flintmq.broker.needs import ACTIONS, FREE, NEEDS, NEEDS_MAX
from flintmq.broker.requests import Need, Refused, Request
from flintmq.remoting.frames import RemotingFrame
from tests.broker.guarding import BOB, Rules, asked_by_bob, guard_of, rule, signed
from tests.broker.talk import heartbeat
from tests.broker.test_clients import FakePeer

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
