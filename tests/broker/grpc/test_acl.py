"""An ACL by gRPC: who signs a call, and what that user may do.

The signature of a date that is written out here is Java's: TLSHelper.sign of rocketmq-client-java 5.0.8.
"""

import hashlib
import hmac
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, Self

import pytest

from flintmq import Message
from flintmq.broker import Broker, acl
from flintmq.broker.acl import Guard
from flintmq.broker.grpc import definitions_pb2 as wire
from flintmq.broker.requests import Refused, Unsigned
from flintmq.store.services.topics import TopicSettings
from tests.broker.grpc.talk import (
    ANSWERS,
    GrpcTalk,
    consumer,
    given,
    message,
    producer,
    receiving,
    resource,
    sending,
)
from tests.broker.guarding import rule, users
from tests.broker.test_send import stored
from tests.support.threads import within

Talk = Callable[..., GrpcTalk]
DATE, SIGNATURE = "20261130T061500Z", "4A7CC2B586E9149281052AA432D295217F83DB62"  # by secret12
FORMATS = {
    "java": "MQv2-HMAC-SHA1 Credential=alice, SignedHeaders=x-mq-date-time, Signature=%s",
    "go": "MQv2-HMAC-SHA1 Credential=alice//RocketMQ, SignedHeaders=x-mq-date-time, Signature=%s",
    "no blanks": "MQv2-HMAC-SHA1 Signature=%s,Credential=alice",
}


def headers(user: str, password: str) -> dict[str, str]:
    """The headers of a call of now."""
    date = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    made = hmac.new(password.encode(), date.encode(), hashlib.sha1).hexdigest()
    return {"x_mq_date_time": date, "authorization": FORMATS["java"].replace("alice", user) % made}


class SignedTalk(GrpcTalk):
    """A connection whose calls are signed."""

    def __init__(self, address: str, user: str = "alice", password: str = "secret12") -> None:
        self.who = user, password
        super().__init__(address, client=user)

    def start(self, name: str, request: Any, *, ends: bool = True, **more: str) -> int:
        return super().start(name, request, ends=ends, **{**headers(*self.who), **more})


@pytest.fixture
def guarded(writing: Callable[..., Broker], tmp_path: Path) -> Callable[..., Broker]:
    """guarded(rule, ...) -> a broker with a topic T and an ACL: alice may do anything, bob what these rules say."""

    def guard(*rules: dict[str, Any]) -> Broker:
        path = tmp_path / "acl.json"
        path.write_text(users(*rules), encoding="utf-8")
        broker = writing(acl=path, config={"enableTopicMessageTypeCheck": "false"})
        stored(broker).create_topic("T", TopicSettings(1, 1))
        return broker

    return guard


@pytest.fixture
def by() -> Iterator[Talk]:
    """by(broker, user, password) -> a connection with signed calls, by itself alice's; closed after the test."""
    with ExitStack() as stack:
        yield lambda broker, *who: stack.enter_context(SignedTalk(broker.address, *who))


def status_of(name: str, answer: bytes) -> wire.Status:
    found = ANSWERS[name].FromString(answer)
    status: wire.Status = getattr(found, "status")  # noqa: B009  (of any answer)
    return status


REQUESTS: dict[str, Any] = {
    "QueryRoute": wire.QueryRouteRequest(topic=resource("T")),
    "QueryAssignment": wire.QueryAssignmentRequest(topic=resource("T"), group=resource("G")),
    "Heartbeat": wire.HeartbeatRequest(group=resource("G"), client_type=wire.SIMPLE_CONSUMER),
    "SendMessage": sending(message("T")),
    "ReceiveMessage": receiving("T", "G", batch_size=1),
    "AckMessage": wire.AckMessageRequest(topic=resource("T"), group=resource("G")),
    "ChangeInvisibleDuration": wire.ChangeInvisibleDurationRequest(topic=resource("T"), group=resource("G")),
    "ForwardMessageToDeadLetterQueue": wire.ForwardMessageToDeadLetterQueueRequest(
        topic=resource("T"), group=resource("G")
    ),
    "NotifyClientTermination": wire.NotifyClientTerminationRequest(group=resource("G")),
    "EndTransaction": wire.EndTransactionRequest(topic=resource("T"), transaction_id="0"),
    "RecallMessage": wire.RecallMessageRequest(topic=resource("T"), recall_handle="x"),
    "Telemetry": wire.TelemetryCommand(settings=consumer("G", topics={"T": "*"})),
}
EXPECTED = {
    **dict.fromkeys(("SendMessage", "EndTransaction", "RecallMessage"), ("Topic:T Pub",)),
    **dict.fromkeys(REQUESTS.keys() & {"Heartbeat", "NotifyClientTermination"}, ("Group:G Sub",)),
    "QueryRoute": ("Topic:T Pub Sub Get",),
    **dict.fromkeys(
        ("QueryAssignment", "ReceiveMessage", "AckMessage", "ChangeInvisibleDuration", "Telemetry",
         "ForwardMessageToDeadLetterQueue"),
        ("Topic:T Sub", "Group:G Sub"),
    ),
}  # fmt: skip
"""Calls -> for each resource the actions of which one is enough."""


def begin(client: GrpcTalk, name: str, **more: str) -> int:
    return client.start(name, REQUESTS[name], ends=name != "Telemetry", **more)


def test_every_call_is_named(guarded: Callable[..., Broker], by: Talk):
    """What is answered is checked: a new call has its needs beside its handler, and a place here."""
    broker = guarded()
    assert by(broker).ask("QueryRoute", REQUESTS["QueryRoute"]).status.code == wire.OK
    calls = broker._now._grpc._methods.keys() | {"Telemetry"}
    assert calls == REQUESTS.keys() == EXPECTED.keys() == ANSWERS.keys()


@pytest.mark.parametrize("name", REQUESTS)
def test_calls_that_nobody_signed(guarded: Callable[..., Broker], name: str):
    broker = guarded()
    good = headers("alice", "secret12")
    for wrong, words in (
        ({}, "username cannot be null."),
        ({**good, "authorization": ""}, "username cannot be null."),
        ({**good, "authorization": "MQv2-HMAC-SHA1"}, "username cannot be null."),
        ({**good, "authorization": good["authorization"] + "0"}, "check signature failed."),
        ({**good, "authorization": FORMATS["java"] % "no hex"}, "check signature failed."),
        ({**good, "x_mq_date_time": "20260101T000000Z"}, "check signature failed."),
        (headers("carol", "secret12"), "check signature failed."),
        (headers("alice", "secret13"), "check signature failed."),
    ):
        with GrpcTalk(broker.address) as client:
            found = client.answered(begin(client, name, **wrong))
            [answer] = found.messages()
            status = status_of(name, answer)
            assert (status.code, status.message, found.status) == (wire.UNAUTHORIZED, words, 0)
    assert stored(broker).bounds("T", 0) == (0, 0) and broker.stats().groups == {} and broker.stats().failed == 0


@pytest.mark.parametrize("name", REQUESTS)
def test_what_a_call_needs(guarded: Callable[..., Broker], by: Talk, tmp_path: Path, name: str):
    """Each of its resources by one of the actions; a user who lacks one is refused, and that one named."""
    broker = guarded()
    for _ in range(2):  # a receive waits for none
        assert stored(broker).put(Message("T", b"x"))
    assert stored(broker).wait_dispatched(60)
    wanted = [(of, actions) for of, *actions in (need.split() for need in EXPECTED[name])]
    for missing, actions in wanted:
        others = [rule(of, more[0]) for of, more in wanted if of != missing]
        path = tmp_path / "acl.json"
        path.write_text(users(*others), encoding="utf-8")
        client = by(broker, "bob", "onlybilling")
        client.ask("QueryRoute", REQUESTS["QueryRoute"])  # since then there is a service
        broker._now._grpc._guard = Guard(str(path), "DefaultCluster")
        [answer] = client.answered(begin(client, name)).messages()
        status = status_of(name, answer)
        words = f"User:bob has no permission to access {missing} from 127.0.0.1, no matched policies."
        assert (status.code, status.message) == (wire.FORBIDDEN, words)
        for action in actions:
            path.write_text(users(*others, rule(missing, action)), encoding="utf-8")
            broker._now._grpc._guard = Guard(str(path), "DefaultCluster")
            number = begin(client, name)
            while not client.streams.of[number].messages():
                assert client.pump()
            assert status_of(name, client.streams.of[number].messages()[0]).code not in (
                wire.FORBIDDEN, wire.UNAUTHORIZED,
            )  # fmt: skip


def test_a_user_does_what_the_rules_say(guarded: Callable[..., Broker], by: Talk):
    broker = guarded(rule("Topic:T", "Sub"), rule("Group:G", "Sub"))
    owner, reader = by(broker), by(broker, "bob", "onlybilling")
    owner.settle(producer("T"))
    assert owner.ask("SendMessage", sending(message())).status.code == wire.OK
    assert stored(broker).wait_dispatched(60)
    reader.settle(consumer("G", topics={"T": "*"}))
    assert [one.body for one in given(reader.receive(receiving()))] == [b"hello"]
    assert reader.ask("SendMessage", sending(message())).status.code == wire.FORBIDDEN
    assert reader.ask("SendMessage", sending(message(), message("Other"))).status.code == wire.FORBIDDEN
    assert stored(broker).bounds("T", 0) == (0, 1)


def test_a_transaction_of_another_topic_is_not_ended(guarded: Callable[..., Broker], by: Talk):
    """Its id says where its half message is; the topic of that one counts, not the call's."""
    broker = guarded(rule("Topic:mine", "Pub"))
    half = message(message_type=wire.TRANSACTION)
    [entry] = by(broker).ask("SendMessage", sending(half)).entries
    request = wire.EndTransactionRequest(
        topic=resource("mine"), transaction_id=entry.transaction_id, resolution=wire.COMMIT
    )
    refused = by(broker, "bob", "onlybilling").ask("EndTransaction", request).status
    assert refused.code == wire.FORBIDDEN and "Topic:T " in refused.message


def test_a_client_is_its_users(guarded: Callable[..., Broker], by: Talk):
    """Ids are no secret: who names another user's neither ends that client, nor gets what is meant for it."""
    broker = guarded(rule("Group:mine", "Sub"), rule("Topic:*", "All"))
    owner, other = by(broker), by(broker, "bob", "onlybilling")
    owner.settle(consumer("G"))
    other.client = "alice"
    beat = wire.HeartbeatRequest(group=resource("mine"), client_type=wire.SIMPLE_CONSUMER)
    for name, request in (("NotifyClientTermination", wire.NotifyClientTerminationRequest()), ("Heartbeat", beat)):
        refused = other.ask(name, request).status
        assert (refused.code, refused.message) == (wire.FORBIDDEN, "the client alice is another user's")
    number = other.start("Telemetry", wire.TelemetryCommand(settings=consumer("mine")), ends=False)
    assert "another user's" in other.answered(number).trailers["grpc-message"]
    assert broker.stats().groups == {"G": 1}
    assert owner.ask("Heartbeat", wire.HeartbeatRequest(group=resource("G"))).status.code == wire.OK
    owner.socket.close()

    def settled() -> bool:
        number = other.start("Telemetry", wire.TelemetryCommand(settings=consumer("mine")), ends=False)
        while not (found := other.streams.of[number]).messages() and not found.is_over:
            assert other.pump()
        return bool(found.messages())

    assert within(settled), "once it has gone, its id is free"
    assert other.ask("Heartbeat", beat).status.code == wire.OK


def test_a_consumer_that_changes_its_user(guarded: Callable[..., Broker], by: Talk, tmp_path: Path):
    """Its session goes with it once the old user has lost the group, and to nobody who may not have that."""
    broker = guarded(rule("Group:G", "Sub"), rule("Topic:*", "Sub"))
    client, path = by(broker, "bob", "onlybilling"), tmp_path / "acl.json"
    client.settle(consumer("G"))
    beat = wire.HeartbeatRequest(group=resource("G"), client_type=wire.SIMPLE_CONSUMER)
    client.who = "alice", "secret12"
    assert client.ask("Heartbeat", beat).status.code == wire.FORBIDDEN
    path.write_text(users(rule("Topic:*", "Sub"), username="carol"), encoding="utf-8")
    broker._now._guard._acl = acl.read(str(path))
    client.who = "carol", "onlybilling"
    refused = client.ask("Heartbeat", beat).status
    assert refused.code == wire.FORBIDDEN and "Group:G " in refused.message
    client.who = "alice", "secret12"
    assert client.ask("Heartbeat", beat).status.code == wire.OK and broker.stats().groups == {"G": 1}
    path.write_text(users(rule("Group:G", "Sub")), encoding="utf-8")
    broker._now._guard._acl = acl.read(str(path))
    client.who = "bob", "onlybilling"
    assert client.ask("Heartbeat", beat).status.message == "the client bob is another user's", "it is alice's now"


def test_a_session_whose_group_is_the_users_no_more(guarded: Callable[..., Broker], by: Talk, tmp_path: Path):
    broker = guarded(rule("Group:*", "Sub"), rule("Topic:*", "Sub"))
    user, path = by(broker, "bob", "onlybilling"), tmp_path / "acl.json"
    user.settle(consumer("G"))
    path.write_text(users(rule("Group:mine", "Sub")), encoding="utf-8")
    broker._now._grpc._guard = Guard(str(path), "DefaultCluster")
    refused = user.ask("Heartbeat", wire.HeartbeatRequest(group=resource("mine"))).status
    assert refused.code == wire.FORBIDDEN and "Group:G " in refused.message


def test_rights_that_are_taken_away(guarded: Callable[..., Broker], by: Talk, tmp_path: Path):
    """A producer is asked for no message of a topic, and a receive that waits gets none, that its user may not have."""
    broker = guarded(rule("Topic:*", "All"), rule("Group:*", "Sub"))
    user, waits = by(broker, "bob", "onlybilling"), by(broker, "bob", "onlybilling")
    user.settle(producer("T"))
    sessions = broker._now._grpc.sessions
    assert len(list(sessions.producers("T"))) == 1
    number = waits.start("ReceiveMessage", receiving())
    assert within(lambda: broker._now._rooms.held.count == 1)
    path = tmp_path / "acl.json"
    path.write_text(users(rule("Topic:T", "All", decision="Deny"), rule("*", "All")), encoding="utf-8")
    broker._now._guard._acl = acl.read(str(path))
    assert list(sessions.producers("T")) == []
    assert by(broker).ask("SendMessage", sending(message())).status.code == wire.OK
    [answer] = waits.answered(number).messages()
    refused = wire.ReceiveMessageResponse.FromString(answer).status
    assert refused.code == wire.FORBIDDEN and "Topic:T " in refused.message


# -- dates -------------------------------------------------------------------------------------------------------------


def guard_at(monkeypatch: pytest.MonkeyPatch, path: Path, moment: str, hours: int = 0, kind: str = "Normal") -> Guard:
    """A guard at a moment, on a machine whose own time is some hours ahead of UTC."""
    now = datetime.strptime(moment, "%Y%m%dT%H%M%SZ")

    class Fixed(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            found = now + timedelta(hours=0 if tz else hours)
            return cls(found.year, found.month, found.day, found.hour, found.minute, found.second, tzinfo=tz)

    monkeypatch.setattr("flintmq.broker.acl.datetime", Fixed)
    told = {"users": [{"username": "alice", "password": "secret12", "type": kind}]}
    path.write_text(json.dumps(told), encoding="utf-8")
    return Guard(str(path), "C")


@pytest.mark.parametrize("kind", ["Normal", "Super"])
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    ("now", "hours", "may"),
    [
        (DATE, 0, True), ("20261130T063000Z", 0, True), ("20261130T063001Z", 0, False),
        ("20261130T060000Z", 0, True), ("20261130T055959Z", 0, False), ("20271130T061500Z", 0, False),
        ("20261129T221500Z", 8, True), ("20261129T223001Z", 8, False), ("20261130T061500Z", 8, True),
    ],
)  # fmt: skip
def test_dates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, now: str, hours: int, may: bool, form: str, kind: str):
    """A quarter of an hour off they are refused. The clients of Java, Go and Python write the time of their machine."""
    guard = guard_at(monkeypatch, tmp_path / "acl.json", now, hours, kind)
    for signature in (SIGNATURE, SIGNATURE.lower()):
        if may:
            assert guard.grpc(FORMATS[form] % signature, DATE, "127.0.0.1")[0] == "alice"
        else:
            with pytest.raises(Unsigned, match=f"x-mq-date-time {DATE} is more than 15 minutes off"):
                guard.grpc(FORMATS[form] % signature, DATE, "127.0.0.1")


def test_a_date_that_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Whoever has the password can sign any text."""
    guard = guard_at(monkeypatch, tmp_path / "acl.json", DATE)
    for text in ("", "now", "2026-11-30T06:15:00Z", "20261130T061500", "20269930T061500Z"):
        made = hmac.new(b"secret12", text.encode(), hashlib.sha1).hexdigest()
        with pytest.raises(Refused, match="is no date such as 20260131T235959Z"):
            guard.grpc(FORMATS["java"] % made, text, "127.0.0.1")
