"""Each call of the 5.x clients, and what is refused."""

import contextlib
import hashlib
import time
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from flintmq import Message
from flintmq.broker import Broker
from flintmq.broker.grpc import definitions_pb2 as wire
from flintmq.broker.grpc.sending import consistent_hash
from flintmq.store.services.groups import GroupSettings
from flintmq.store.services.topics import TopicSettings
from tests.broker.grpc.talk import (
    ANSWERS,
    GrpcTalk,
    consumer,
    given,
    message,
    prefixed,
    producer,
    receiving,
    resource,
    sending,
)
from tests.broker.talk import Line, heartbeat, pull, records, send
from tests.broker.test_send import stored
from tests.support.prometheus import only, samples
from tests.support.threads import within

Talk = Callable[..., GrpcTalk]
ENDPOINTS = wire.Endpoints(scheme=wire.DOMAIN_NAME, addresses=[wire.Address(host="tunnel", port=4711)])


def route(topic: str = "T", endpoints: wire.Endpoints | None = None) -> wire.QueryRouteRequest:
    return wire.QueryRouteRequest(topic=resource(topic), endpoints=endpoints or ENDPOINTS)


def put(broker: Broker, count: int = 1, topic: str = "T", **more: Any) -> None:
    for number in range(count):
        assert stored(broker).put(Message(topic, b"m%d" % number, **more))
    assert stored(broker).wait_dispatched(60)


def bodies(messages: list[wire.Message]) -> list[bytes]:
    return sorted(one.body for one in messages)


# -- any call ----------------------------------------------------------------------------------------------------------


def test_an_unknown_call_is_counted(broker: Broker, talk: Talk):
    client = talk(broker)
    for name in ("PullMessage", "/other.Service/Call", "/"):
        found = client.answered(client.start(name, b""))
        assert found.status == 12 and found.trailers["grpc-message"].startswith("Method not found")
    assert broker.stats().unsupported["/apache.rocketmq.v2.MessagingService/PullMessage"] == 1


@pytest.mark.parametrize("name", [name for name in ANSWERS if name != "Telemetry"])
def test_a_client_without_an_id(broker: Broker, talk: Talk, name: str):
    with GrpcTalk(broker.address, client=None) as client:
        found = client.answered(client.start(name, prefixed(b"")))
        [answer] = found.messages()
        assert ANSWERS[name].FromString(answer).status.code == wire.CLIENT_ID_REQUIRED and found.status == 0


@pytest.mark.parametrize("name", list(ANSWERS))
def test_a_request_that_is_none(broker: Broker, talk: Talk, name: str):
    client = talk(broker)
    found = client.answered(client.start(name, prefixed(b"\xff\xff\xff")))
    assert found.status == 3 and "cannot be read" in found.trailers["grpc-message"]
    assert broker.stats().failed == 0


def test_a_call_without_its_request_or_with_two(broker: Broker, talk: Talk):
    client = talk(broker)
    assert client.answered(client.start("QueryRoute", None)).status == 3
    assert client.answered(client.start("QueryRoute", prefixed(b"") * 2)).status == 3


def test_an_error_of_ours_is_told_and_counted(broker: Broker, talk: Talk, monkeypatch: pytest.MonkeyPatch):
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("by a test")

    client = talk(broker)
    assert client.ask("QueryRoute", route()).status.code == wire.OK
    monkeypatch.setattr(broker._now._grpc._served, "topic", broken)
    status = client.ask("QueryRoute", route()).status
    assert (status.code, status.message) == (wire.INTERNAL_SERVER_ERROR, "an error of the broker; its log tells more")
    assert broker.stats().failed == 1


# -- routes ------------------------------------------------------------------------------------------------------------


def test_a_route(broker: Broker, talk: Talk):
    found = talk(broker).ask("QueryRoute", route())
    assert [(q.id, q.permission, q.broker.name, q.broker.id) for q in found.message_queues] == [
        (0, wire.READ_WRITE, "broker-a", 0), (1, wire.READ_WRITE, "broker-a", 0),
    ]  # fmt: skip
    assert all(q.broker.endpoints == ENDPOINTS and q.topic.name == "T" for q in found.message_queues)
    assert list(found.message_queues[0].accept_message_types) == [1, 2, 3, 4]


def test_a_route_for_who_names_no_endpoints(broker: Broker, talk: Talk):
    request = wire.QueryRouteRequest(topic=resource("T"))
    found = talk(broker).ask("QueryRoute", request).message_queues[0].broker.endpoints
    assert (found.scheme, found.addresses[0].host) == (wire.IPv4, "127.0.0.1")
    assert f"127.0.0.1:{found.addresses[0].port}" == broker.address


@pytest.mark.parametrize(
    ("perm", "read", "write", "expected"),
    [
        (6, 3, 1, "RR+"), (6, 1, 3, "WW+"), (4, 2, 8, "RR"), (2, 8, 2, "WW"), (0, 2, 1, "--"), (6, 1, 1, "+"),
    ],
)  # fmt: skip
def test_queues_by_permission(broker: Broker, talk: Talk, perm: int, read: int, write: int, expected: str):
    stored(broker).create_topic("P", TopicSettings(read, write, perm))
    letters = {wire.READ: "R", wire.WRITE: "W", wire.READ_WRITE: "+", wire.NONE: "-"}
    found = talk(broker).ask("QueryRoute", route("P")).message_queues
    assert "".join(letters[q.permission] for q in found) == expected and [q.id for q in found] == [*range(len(found))]


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [("", [1]), ("NORMAL", [1]), ("FIFO", [2]), ("DELAY", [3]), ("TRANSACTION", [4]), ("MIXED", [1, 2, 3, 4])],
)
def test_a_topic_says_what_it_takes(writing: Callable[..., Broker], talk: Talk, attribute: str, expected: list[int]):
    broker = writing()
    attributes = {"message.type": attribute} if attribute else {}
    stored(broker).create_topic("A", TopicSettings(1, 1, attributes=attributes))
    [queue] = talk(broker).ask("QueryRoute", route("A")).message_queues
    assert list(queue.accept_message_types) == expected


BAD_TOPICS = ["", "  ", "a b", "a/b", "ä", "x" * 128, "SCHEDULE_TOPIC_XXXX", "TBW102", "rmq_sys_wheel_timer"]


@pytest.mark.parametrize("topic", BAD_TOPICS)
def test_topics_that_may_not_be(broker: Broker, talk: Talk, topic: str):
    client = talk(broker)
    assert client.ask("QueryRoute", route(topic)).status.code == wire.ILLEGAL_TOPIC
    assert client.ask("SendMessage", sending(message(topic))).status.code == wire.ILLEGAL_TOPIC
    [answer] = client.receive(receiving(topic))
    assert answer.status.code == wire.ILLEGAL_TOPIC


def test_a_topic_that_nobody_made(broker: Broker, talk: Talk):
    client = talk(broker)
    assert client.ask("QueryRoute", route("Gone")).status.code == wire.TOPIC_NOT_FOUND
    assert client.ask("SendMessage", sending(message("Gone"))).status.code == wire.TOPIC_NOT_FOUND
    request = wire.QueryAssignmentRequest(topic=resource("Gone"), group=resource("G"))
    assert client.ask("QueryAssignment", request).status.code == wire.TOPIC_NOT_FOUND
    [answer] = client.receive(receiving("Gone"))
    assert answer.status.code == wire.TOPIC_NOT_FOUND
    assert "Gone" not in stored(broker).topics(), "gRPC makes none"


def test_assignments(broker: Broker, talk: Talk):
    client = talk(broker)
    stored(broker).create_group("Ordered", GroupSettings(consume_orderly=True))
    stored(broker).create_topic("Closed", TopicSettings(1, 1, 2))
    for group, expected in (("G", [-1]), ("Ordered", [0, 1])):
        request = wire.QueryAssignmentRequest(topic=resource("T"), group=resource(group), endpoints=ENDPOINTS)
        found = [one.message_queue for one in client.ask("QueryAssignment", request).assignments]
        assert [queue.id for queue in found] == expected and found[0].broker.endpoints == ENDPOINTS
        assert found[0].permission == wire.READ_WRITE
    request = wire.QueryAssignmentRequest(topic=resource("Closed"), group=resource("G"))
    assert client.ask("QueryAssignment", request).status.code == wire.FORBIDDEN


@pytest.mark.parametrize("group", ["", " ", "a b", "x" * 121, "CID_RMQ_SYS_TRANS"])
def test_groups_that_may_not_be(broker: Broker, talk: Talk, group: str):
    client = talk(broker)
    request = wire.QueryAssignmentRequest(topic=resource("T"), group=resource(group))
    assert client.ask("QueryAssignment", request).status.code == wire.ILLEGAL_CONSUMER_GROUP
    [answer] = client.receive(receiving(group=group))
    assert answer.status.code == wire.ILLEGAL_CONSUMER_GROUP


# -- clients -----------------------------------------------------------------------------------------------------------


def test_a_producer_gets_its_settings_completed(broker: Broker, talk: Talk):
    settings = producer("T")
    settings.MergeFromString(b"\x3a\x04\x12\x025x")  # user_agent.version, which definitions.proto does not have
    number, found = talk(broker).settle(settings)
    assert found.publishing.max_body_size == 4 << 20 and not found.publishing.validate_message_type
    policy = found.backoff_policy
    assert policy.max_attempts == 3 and policy.exponential_backoff.multiplier == 2
    assert policy.exponential_backoff.initial.ToMilliseconds() == 10
    assert policy.exponential_backoff.max.ToMilliseconds() == 1000
    assert not found.metric.on and found.publishing.topics[0].name == "T" and number == 1
    assert b"\x12\x025x" in found.SerializeToString(), "what it does not know comes back"


def test_a_consumer_gets_its_settings_completed(writing: Callable[..., Broker], talk: Talk):
    broker = writing(config={"messageDelayLevel": "1s 5s 10s 30s"})
    stored(broker).create_group("Ordered", GroupSettings(consume_orderly=True, retry_max_times=2))
    _, found = talk(broker).settle(consumer("G", wire.PUSH_CONSUMER))
    assert found.subscription.receive_batch_size == 32 and not found.subscription.fifo
    assert found.subscription.long_polling_timeout.ToMilliseconds() == 20_000
    assert found.backoff_policy.max_attempts == 17
    assert [one.ToMilliseconds() for one in found.backoff_policy.customized_backoff.next] == [10_000, 30_000]
    _, found = talk(broker, client="other").settle(consumer("Ordered"))
    assert found.subscription.fifo and found.backoff_policy.max_attempts == 3


def test_a_consumer_is_a_member_of_its_group(broker: Broker, talk: Talk, line: Callable[[Broker], Line]):
    client, admin = talk(broker), line(broker)
    client.settle(consumer("G", wire.PUSH_CONSUMER, {"T": "red || blue"}))
    assert broker.stats().groups == {"G": 1} and stored(broker).group("G") is not None
    shown = admin.ask(203, {"consumerGroup": "G"}).body
    assert b'"clientId":"test"' in shown and b"red || blue" in shown and b"PYTHON" in shown
    asked = admin.ask(307, {"consumerGroup": "G", "clientId": "test"})
    assert (asked.code, asked.remark) == (1, "The Consumer <G> <test> not online"), "it hears nothing by remoting"
    answer = client.ask("NotifyClientTermination", wire.NotifyClientTerminationRequest(group=resource("G")))
    assert answer.status.code == wire.OK and broker.stats().groups == {"G": 0}


def test_members_by_remoting_are_told_of_one_by_grpc(broker: Broker, talk: Talk, line: Callable[[Broker], Line]):
    member = line(broker)
    member.ask(34, body=heartbeat("c", "G", topics={"T": "*"}))
    member.told.clear()
    talk(broker).settle(consumer())
    frame = member.frame()
    assert frame is not None and (frame.code, frame.fields["consumerGroup"]) == (40, "G")


def test_clients_are_on_the_page_for_prometheus(broker: Broker, talk: Talk):
    talk(broker).settle(producer("T"))
    talk(broker, client="c").settle(consumer())
    found, labels = samples(broker.metrics()), ("language", "version")
    assert only(found, "rocketmq_producer_connections", *labels) == {("python", "v5_3_3"): 1}
    assert only(found, "rocketmq_consumer_connections", "consumer_group", "consume_mode", *labels) == {
        ("G", "pull", "python", "v5_3_3"): 1
    }


def test_heartbeats(broker: Broker, talk: Talk):
    client = talk(broker)
    request = wire.HeartbeatRequest(group=resource("G"), client_type=wire.SIMPLE_CONSUMER)
    before = client.ask("Heartbeat", request).status
    assert before.code == wire.UNRECOGNIZED_CLIENT_TYPE, "its settings come first; it sends them then"
    client.settle(consumer())
    assert client.ask("Heartbeat", request).status.code == wire.OK
    assert client.ask("Heartbeat", wire.HeartbeatRequest()).status.code == wire.ILLEGAL_CONSUMER_GROUP
    other = talk(broker, client="other")
    other.settle(producer("T"))
    assert other.ask("Heartbeat", wire.HeartbeatRequest()).status.code == wire.OK
    gone = talk(broker, client="nobody")
    assert gone.ask("NotifyClientTermination", wire.NotifyClientTerminationRequest()).status.code == (
        wire.UNRECOGNIZED_CLIENT_TYPE
    )


def test_who_is_silent_is_gone(broker: Broker, talk: Talk, monkeypatch: pytest.MonkeyPatch):
    client = talk(broker)
    client.settle(consumer())
    monkeypatch.setattr("flintmq.broker.grpc.sessions.SILENT_S", 0.0)
    sessions = broker._now._grpc.sessions
    time.sleep(0.01)
    broker._thread._loop.call_soon_threadsafe(sessions.sweep)
    assert within(lambda: sessions.get("test") is None)
    request = wire.HeartbeatRequest(group=resource("G"))
    assert client.ask("Heartbeat", request).status.code == wire.UNRECOGNIZED_CLIENT_TYPE


@pytest.mark.parametrize(
    ("settings", "code", "status"),
    [
        (wire.Settings(client_type=wire.PRODUCER), wire.UNRECOGNIZED_CLIENT_TYPE, 3),
        (consumer("G", 4), wire.UNRECOGNIZED_CLIENT_TYPE, 3),  # PULL_CONSUMER
        (consumer("a b"), None, 3),
        (producer("a b"), None, 3),
    ],
    ids=["neither", "an unknown type", "a bad group", "a bad topic"],
)
def test_settings_that_may_not_be(broker: Broker, talk: Talk, settings: Any, code: int | None, status: int):
    client = talk(broker)
    found = client.answered(client.start("Telemetry", wire.TelemetryCommand(settings=settings), ends=False))
    assert found.status == status and "failed" in found.trailers["grpc-message"]
    codes = [wire.TelemetryCommand.FromString(one).status.code for one in found.messages()]
    assert codes == ([] if code is None else [code])


def test_a_group_that_may_not_come(writing: Callable[..., Broker], talk: Talk):
    broker = writing(config={"autoCreateSubscriptionGroup": "false"})
    client = talk(broker)
    found = client.answered(client.start("Telemetry", wire.TelemetryCommand(settings=consumer()), ends=False))
    assert found.status == 3 and "G" in found.trailers["grpc-message"]


def test_telemetry_ends_with_its_client(broker: Broker, talk: Talk):
    client = talk(broker)
    number, _ = client.settle(consumer())
    client.say(number, wire.TelemetryCommand(status=wire.Status(code=wire.OK)))
    client.h2.end_stream(number)
    client.flush()
    assert client.answered(number).status == 0
    with GrpcTalk(broker.address, client=None) as nameless:
        found = nameless.answered(nameless.start("Telemetry", wire.TelemetryCommand(settings=consumer()), ends=False))
        [command] = found.messages()
        assert wire.TelemetryCommand.FromString(command).status.code == wire.CLIENT_ID_REQUIRED


# -- sends -------------------------------------------------------------------------------------------------------------


def all_of(broker: Broker, topic: str = "T") -> list[Any]:
    queues = stored(broker).topic(topic).read_queues
    return [one for queue_id in range(queues) for one in stored(broker).get(topic, queue_id, 0, 1000).messages]


def test_a_send(broker: Broker, talk: Talk):
    client = talk(broker)
    sent = message(tag="red", keys=["k1", "k2"], properties={"color": "blau"}, born_host="host", trace_context="t1")
    answer = client.ask("SendMessage", sending(sent))
    [entry] = answer.entries
    assert (answer.status.code, entry.status.code, entry.message_id) == (wire.OK, wire.OK, "M1")
    [one] = all_of(broker)
    assert (one.body, one.tags, one.keys, one.msg_id, one.queue_offset) == (
        b"hello",
        "red",
        "k1 k2",
        "M1",
        entry.offset,
    )
    assert one.born_timestamp == 1_700_000_000_123 and one.born_host.startswith("127.0.0.1:") and one.sys_flag == 0
    assert one.properties == {
        "color": "blau", "TAGS": "red", "KEYS": "k1 k2", "UNIQ_KEY": "M1", "PGROUP": "T", "TRACE_CONTEXT": "t1",
        "__BORNHOST": "host", "BORN_TIMESTAMP": "1700000000123", "CLUSTER": "DefaultCluster",
        "MSG_REGION": "DefaultRegion", "TRACE_ON": "true",
    }  # fmt: skip
    assert [found.msg_id for found in stored(broker).query("T", "k2")] == ["M1"]


def test_queues_take_turns(broker: Broker, talk: Talk):
    client = talk(broker)
    for number in range(6):
        client.ask("SendMessage", sending(message(key=f"M{number}")))
    assert [len(stored(broker).get("T", queue_id, 0, 10).messages) for queue_id in (0, 1)] == [3, 3]


def test_a_message_group_has_one_queue(broker: Broker, talk: Talk):
    client = talk(broker)
    stored(broker).create_topic("Many", TopicSettings(8, 8))
    for number in range(40):
        sent = message("Many", key=f"M{number}", message_group=f"g{number % 4}", message_type=wire.FIFO)
        assert client.ask("SendMessage", sending(sent)).status.code == wire.OK
    places = {one.properties["__SHARDINGKEY"]: one.queue_id for one in all_of(broker, "Many")}
    assert len(all_of(broker, "Many")) == 40 and len(places) == 4
    assert len({(one.properties["__SHARDINGKEY"], one.queue_id) for one in all_of(broker, "Many")}) == 4


@pytest.mark.parametrize(
    ("value", "buckets", "expected"),
    # Guava 31, Hashing.consistentHash; those of its own test: a bucket more moves few values.
    [(10863919174838991, 11, 6), (2016238256797177309, 11, 3), (1673758223894951030, 11, 5), (2, 100001, 80343),
     (2201, 100001, 22152), (2202, 100001, 15018), (5, 1, 0)],
)  # fmt: skip
def test_the_hash_is_guavas(value: int, buckets: int, expected: int):
    assert consistent_hash(value, buckets) == expected


def test_the_hash_of_small_numbers_is_guavas():
    found = [consistent_hash(value, 100) for value in range(20)]
    assert found == [0, 55, 62, 8, 45, 59, 86, 97, 82, 59, 73, 37, 17, 56, 86, 21, 90, 37, 38, 83]


def test_several_messages_in_one_call(broker: Broker, talk: Talk):
    client = talk(broker)
    answer = client.ask("SendMessage", sending(*(message(key=f"M{number}") for number in range(5))))
    assert answer.status.code == wire.OK and [one.message_id for one in answer.entries] == [f"M{n}" for n in range(5)]
    assert [one.offset for one in answer.entries] == [*range(5)] and len(all_of(broker)) == 5
    mixed = client.ask("SendMessage", sending(message(), message("Other")))
    assert mixed.status.code == wire.MESSAGE_CORRUPTED and len(all_of(broker)) == 5
    assert client.ask("SendMessage", sending()).status.code == wire.MESSAGE_CORRUPTED


def test_a_synced_send(writing: Callable[..., Broker], talk: Talk):
    broker = writing(config={"flushDiskType": "SYNC_FLUSH"})
    stored(broker).create_topic("T", TopicSettings(2, 2))
    client = talk(broker)
    numbers = [client.start("SendMessage", sending(message(key=f"M{number}"))) for number in range(50)]
    for number in numbers:
        [answer] = client.answered(number).messages()
        assert wire.SendMessageResponse.FromString(answer).status.code == wire.OK
    assert len(all_of(broker)) == 50


MANY = {f"p{number}": "x" for number in range(129)}


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"tag": "a|b"}, wire.ILLEGAL_MESSAGE_TAG),
        ({"tag": "  "}, wire.ILLEGAL_MESSAGE_TAG),
        ({"tag": "a\x01b"}, wire.ILLEGAL_MESSAGE_TAG),
        ({"keys": ["a\x02b"]}, wire.ILLEGAL_MESSAGE_KEY),
        ({"keys": [" "]}, wire.ILLEGAL_MESSAGE_KEY),
        ({"message_group": " "}, wire.ILLEGAL_MESSAGE_GROUP),
        ({"message_group": "g" * 64}, wire.ILLEGAL_MESSAGE_GROUP),
        ({"message_group": "g\n"}, wire.ILLEGAL_MESSAGE_GROUP),
        ({"properties": {"UNIQ_KEY": "x"}}, wire.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"properties": {"a\x01": "x"}}, wire.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"properties": {"a": "x\x7f"}}, wire.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"properties": {"a": "\x85"}}, wire.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"properties": MANY}, wire.MESSAGE_PROPERTIES_TOO_LARGE),
        ({"properties": {"a": "x" * (16 << 10)}}, wire.MESSAGE_PROPERTIES_TOO_LARGE),
        ({"key": " "}, wire.ILLEGAL_MESSAGE_ID),
        ({"key": "a\x02TAGS\x01x"}, wire.ILLEGAL_MESSAGE_ID),
        ({"body": b""}, wire.MESSAGE_BODY_EMPTY),
        ({"body": bytes((4 << 20) + 1)}, wire.MESSAGE_BODY_TOO_LARGE),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_messages_that_may_not_be(writing: Callable[..., Broker], talk: Talk, more: dict[str, Any], code: int):
    broker = writing(config={"enableTopicMessageTypeCheck": "false", "mappedFileSizeCommitLog": 16 << 20})
    stored(broker).create_topic("T", TopicSettings(2, 2))
    client = talk(broker)
    answer = client.ask("SendMessage", sending(message(**more)))
    assert answer.status.code == code and answer.status.message, answer
    assert all_of(broker) == [] and broker.stats().failed == 0
    assert client.ask("SendMessage", sending(message())).status.code == wire.OK


def test_the_largest_body_and_words_of_any_language(writing: Callable[..., Broker], talk: Talk):
    broker = writing(config={"enableTopicMessageTypeCheck": "false", "mappedFileSizeCommitLog": 16 << 20})
    stored(broker).create_topic("T", TopicSettings(2, 2))
    client = talk(broker)
    large = client.ask("SendMessage", sending(message(body=bytes(4 << 20), properties={"a": "x" * 16_000})))
    assert large.status.code == wire.OK
    words = message(key="M2", tag="标签", keys=["键"], properties={"名": "值 👩‍👩‍👧"}, message_group="组")
    assert client.ask("SendMessage", sending(words)).status.code == wire.OK
    [one] = [one for one in all_of(broker) if one.msg_id == "M2"]
    assert (one.tags, one.keys, one.properties["名"]) == ("标签", "键", "值 👩‍👩‍👧")
    too_large = client.answered(client.start("SendMessage", sending(message(body=bytes((4 << 20) + (80 << 10))))))
    assert too_large.status == 8, "beyond what a message may be in all, gRPC refuses it"


@pytest.mark.parametrize(
    ("takes", "more", "may"),
    [
        ("NORMAL", {}, True),
        ("NORMAL", {"message_group": "g"}, False),
        ("NORMAL", {"delivery_ms": 1}, False),
        ("FIFO", {"message_group": "g"}, True),
        ("FIFO", {}, False),
        ("DELAY", {}, False),
        ("TRANSACTION", {}, False),
        ("MIXED", {"message_group": "g"}, True),
        ("", {}, True),
        ("", {"message_group": "g"}, False),
    ],
)
def test_a_topic_takes_what_it_says(writing: Callable[..., Broker], talk: Talk, takes: str, more: Any, may: bool):
    broker = writing()
    stored(broker).create_topic("A", TopicSettings(1, 1, attributes={"message.type": takes} if takes else {}))
    status = talk(broker).ask("SendMessage", sending(message("A", **more))).status
    assert status.code == (wire.OK if may else wire.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE)
    if not may:
        assert f"the expected type is {takes or 'NORMAL'}" in status.message


def test_a_topic_that_is_closed(broker: Broker, talk: Talk):
    client = talk(broker)
    stored(broker).create_topic("Closed", TopicSettings(1, 1, 4))
    assert client.ask("SendMessage", sending(message("Closed"))).status.code == wire.FORBIDDEN


def test_a_send_after_which_the_client_leaves(broker: Broker):
    with GrpcTalk(broker.address) as client:
        client.start("SendMessage", sending(message()))
    assert within(lambda: len(all_of(broker)) == 1)


# -- receives ----------------------------------------------------------------------------------------------------------


def test_a_receive_and_its_acknowledgement(broker: Broker, talk: Talk):
    client = talk(broker)
    client.settle(consumer())
    client.ask("SendMessage", sending(message(tag="red", keys=["k1", "k2"], properties={"a": "b"}, message_group="g")))
    [one] = given(client.receive(receiving()))
    told = one.system_properties
    assert (one.topic.name, one.body, dict(one.user_properties)) == ("T", b"hello", {"a": "b"})
    assert (told.tag, list(told.keys), told.message_id, told.message_group) == ("red", ["k1", "k2"], "M1", "g")
    assert (told.message_type, told.body_encoding, told.delivery_attempt) == (wire.FIFO, wire.IDENTITY, 1)
    assert (told.body_digest.type, told.body_digest.checksum) == (wire.MD5, hashlib.md5(b"hello").hexdigest().upper())
    assert told.born_timestamp.ToMilliseconds() == 1_700_000_000_123 and told.born_host.startswith("127.0.0.1")
    assert abs(told.store_timestamp.ToMilliseconds() / 1000 - time.time()) < 60 and told.queue_offset == 0
    assert len(told.receipt_handle.split()) == 8 and told.store_host == broker.address
    entries = [wire.AckMessageEntry(message_id="M1", receipt_handle=told.receipt_handle)]
    answer = client.ask("AckMessage", wire.AckMessageRequest(group=resource("G"), topic=resource("T"), entries=entries))
    assert answer.status.code == wire.OK and answer.entries[0].message_id == "M1"
    assert stored(broker).consumer_offset("G", "T", told.queue_id) == 1


def test_a_receive_before_any_settings(broker: Broker, talk: Talk):
    """Python's client begins so; RocketMQ answers 50001 until the settings have come."""
    put(broker, 3)
    assert bodies(given(talk(broker).receive(receiving()))) == [b"m0", b"m1", b"m2"]


def test_a_batch_is_as_large_as_it_may_be(broker: Broker, talk: Talk):
    put(broker, 40)
    client = talk(broker)
    assert len(given(client.receive(receiving(batch_size=3)))) == 3
    assert len(given(client.receive(receiving(batch_size=1000)))) == 32
    assert len(given(client.receive(receiving(batch_size=0)))) == 1


def test_a_receive_waits_for_a_message(broker: Broker, talk: Talk):
    client = talk(broker)
    client.settle(consumer())
    number = client.start("ReceiveMessage", receiving())
    assert within(lambda: broker.stats().held == 1)
    put(broker)
    begin = time.monotonic()
    found = client.answered(number)
    assert [wire.ReceiveMessageResponse.FromString(one) for one in found.messages()][1].message.body == b"m0"
    assert time.monotonic() - begin < 4.5 and within(lambda: broker.stats().held == 0)


def test_a_receive_that_waits_in_vain(broker: Broker, talk: Talk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("flintmq.broker.grpc.consuming.LEAST_POLL_S", 0.1)
    begin = time.monotonic()
    [status, last] = talk(broker).receive(receiving(wait_ms=100))
    assert status.status.code == wire.MESSAGE_NOT_FOUND and last.HasField("delivery_timestamp")
    assert 0.09 <= time.monotonic() - begin < 5


@pytest.mark.parametrize(
    ("fields", "timeout", "own_ms", "expected"),
    [
        ({"wait_ms": 12_000}, None, None, 12),
        ({"wait_ms": 1_000}, None, None, 5),
        ({"wait_ms": 60_000}, None, None, 20),
        ({"wait_ms": 15_000}, "10S", None, 9.8),
        ({"wait_ms": 1}, "30S", None, 5),
        ({}, "20S", 3_000, 18.5),
        ({}, "20S", None, 18.5),
        ({}, "60S", 3_000, 20),
        ({}, None, None, 20),
        ({}, "4S", 3_000, None),
    ],
)
def test_for_how_long_a_receive_waits(
    broker: Broker, talk: Talk, monkeypatch: pytest.MonkeyPatch, fields: Any, timeout: str | None, own_ms: int | None,
    expected: float | None,
):  # fmt: skip
    waits = list[float]()
    client = talk(broker)
    if own_ms is not None:
        client.settle(consumer())
    client.ask("QueryRoute", route())
    pops = broker._now.pops
    real = pops.pop

    async def pop(wanted: Any, peer: Any, wait_s: float = 0.0) -> Any:
        waits.append(wait_s)
        return await real(wanted, peer, 0.0)

    monkeypatch.setattr(pops, "pop", pop)
    request = receiving(**fields)
    if not fields:
        request.ClearField("long_polling_timeout")
    more = {} if timeout is None else {"grpc_timeout": timeout}
    status = client.receive(request, **more)[0].status
    if expected is None:
        assert status.code == wire.ILLEGAL_POLLING_TIME and waits == []
    else:
        assert waits == [pytest.approx(expected, abs=0.2)] and status.code == wire.MESSAGE_NOT_FOUND


def test_a_receive_whose_client_gives_up(broker: Broker, talk: Talk):
    client = talk(broker)
    number = client.start("ReceiveMessage", receiving())
    assert within(lambda: broker.stats().held == 1)
    client.h2.reset_stream(number)
    client.flush()
    assert within(lambda: broker.stats().held == 0)
    number = client.start("ReceiveMessage", receiving())
    assert within(lambda: broker.stats().held == 1)
    client.close()
    assert within(lambda: broker.stats().held == 0)
    put(broker)
    assert bodies(given(talk(broker).receive(receiving()))) == [b"m0"], "nobody else got it"


@pytest.mark.parametrize("how", ["reset", "hang up"])
def test_a_client_that_takes_half_of_a_receive_gets_it_again(
    broker: Broker, talk: Talk, monkeypatch: pytest.MonkeyPatch, how: str
):
    """Its windows have no room for the rest, and it lives on: nothing is kept for it."""
    monkeypatch.setattr("flintmq.broker.pop.UNSENT_MS", 100)
    for number in range(8):
        assert stored(broker).put(Message("T", b"%d" % number * 20_000, queue_id=0))
    assert stored(broker).wait_dispatched(60)
    client = GrpcTalk(broker.address, reads=False)
    client.settle(consumer("G", wire.PUSH_CONSUMER))
    number = client.start("ReceiveMessage", receiving(auto_renew=True))
    while len(client.streams.of[number].data) < 60_000:
        assert client.pump()
    if how == "reset":
        client.h2.reset_stream(number)
        client.flush()
    else:
        client.close()
    other, found = talk(broker, client="other"), list[wire.Message]()
    while len(found) < 8:
        found += given(other.receive(receiving()))
    assert sorted(one.body[:1] for one in found) == [b"%d" % number for number in range(8)]
    assert within(lambda: broker._now._grpc._renewals._kept == {})
    client.close()


def test_what_a_client_of_no_session_gets_is_not_renewed_for_ever(
    broker: Broker, talk: Talk, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("flintmq.broker.grpc.consuming.RENEWED_MS", 300)
    monkeypatch.setattr("flintmq.broker.grpc.renewals.RENEWED_MS", 300)
    put(broker)
    given(talk(broker).receive(receiving(auto_renew=True, invisible_ms=0)))
    renewals = broker._now._grpc._renewals
    broker._thread._loop.call_soon_threadsafe(renewals.renew)
    assert within(lambda: renewals._kept == {})
    [again] = given(talk(broker, client="other").receive(receiving()))
    assert again.system_properties.delivery_attempt == 2


def test_an_answer_that_is_never_taken_ends_the_connection(broker: Broker, talk: Talk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("flintmq.broker.connection.KEPT_MAX", 1 << 20)
    settings = consumer(topics={f"T{number}{'x' * 100}": "*" for number in range(3000)})
    client = GrpcTalk(broker.address, reads=False)
    number = client.start("Telemetry", wire.TelemetryCommand(settings=settings), ends=False)
    with contextlib.suppress(OSError, EOFError):
        for _ in range(50):
            client.say(number, wire.TelemetryCommand(settings=settings))
    assert within(lambda: broker.stats().broken == 1)
    assert talk(broker).ask("QueryRoute", route()).status.code == wire.OK
    client.close()


def test_calls_of_one_block_take_turns(broker: Broker, talk: Talk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("flintmq.broker.grpc.line.TURN_S", 0.0)
    client = talk(broker)
    numbers = [client.start("QueryRoute", route()) for _ in range(300)]
    assert {client.answered(number).status for number in numbers} == {0}


@pytest.mark.parametrize("name", ["IS_TRAN_MSG", "MY_UNIQ_KEY", "AWAIT", "NO_DELAY"])
def test_a_property_whose_name_ends_like_another(broker: Broker, talk: Talk, name: str):
    answer = talk(broker).ask("SendMessage", sending(message(key="M7", properties={name: "false"})))
    assert answer.status.code == wire.OK
    [found] = all_of(broker)
    assert (found.topic, found.msg_id, found.properties[name]) == ("T", "M7", "false")


def test_tags(broker: Broker, talk: Talk):
    client = talk(broker)
    for tag in ("red", "blue", "green", "标签"):
        put(broker, tags=tag)
    for wanted, count in (("red || 标签", 2), ("none", 0), ("*", 4), ("", 4)):
        group = f"G{count}{len(wanted)}"
        answers = client.receive(receiving(group=group, tags=wanted, wait_ms=1))
        assert len([one for one in answers if one.HasField("message")]) == count
    [answer] = client.receive(receiving(tags="||"))
    assert answer.status.code == wire.ILLEGAL_FILTER_EXPRESSION


def test_conditions(broker: Broker, talk: Talk):
    for number in range(20):
        put(broker, tags="AB"[number % 2], properties={"p": str(number)})
    client = talk(broker)
    answers = client.receive(receiving(tags="(p BETWEEN 3 AND 6) AND TAGS IN ('A')", filter_type=wire.SQL))
    assert sorted(one.user_properties["p"] for one in given(answers)) == ["4", "6"]
    for condition in ("p >", "", "*", "A || B"):
        [answer] = client.receive(receiving(tags=condition, filter_type=wire.SQL))
        assert answer.status.code == wire.ILLEGAL_FILTER_EXPRESSION
        assert "parse the consumer's subscription failed: position" in answer.status.message


def test_conditions_that_are_not_taken(writing: Callable[..., Broker], talk: Talk):
    broker = writing(config={"enablePropertyFilter": "false"})
    stored(broker).create_topic("T", TopicSettings(1, 1))
    [answer] = talk(broker).receive(receiving(tags="p = 1", filter_type=wire.SQL))
    assert answer.status.code == wire.ILLEGAL_FILTER_EXPRESSION
    assert answer.status.message == "The broker does not support consumer to filter message by SQL92"


@pytest.mark.parametrize("ms", [0, 9_999, 12 * 3_600_000 + 1])
def test_times_of_invisibility_that_may_not_be(broker: Broker, talk: Talk, ms: int):
    [answer] = talk(broker).receive(receiving(invisible_ms=ms))
    assert answer.status.code == wire.ILLEGAL_INVISIBLE_TIME


def test_what_is_not_acknowledged_comes_again(writing: Callable[..., Broker], talk: Talk):
    broker = writing(config={"minInvisibleTimeMillsForRecv": 100})
    put(broker)
    client = talk(broker)
    [first] = given(client.receive(receiving(invisible_ms=200)))
    [again] = given(client.receive(receiving(invisible_ms=60_000)))
    assert (again.body, again.topic.name, again.system_properties.delivery_attempt) == (b"m0", "T", 2)
    assert again.system_properties.receipt_handle != first.system_properties.receipt_handle
    late = acked(client, first.system_properties.receipt_handle)
    assert late.status.code == wire.OK, "as RocketMQ answers who comes too late"


def acked(client: GrpcTalk, *receipts: str, group: str = "G") -> Any:
    entries = [wire.AckMessageEntry(message_id="M", receipt_handle=one) for one in receipts]
    return client.ask("AckMessage", wire.AckMessageRequest(group=resource(group), topic=resource("T"), entries=entries))


def test_acknowledgements_that_may_not_be(broker: Broker, talk: Talk):
    put(broker)
    client = talk(broker)
    [one] = given(client.receive(receiving()))
    for bad in ("", "1 2 3", "a b c d e f g h", "0 1 2 3 9 broker-a 0 0"):
        answer = acked(client, bad)
        assert answer.status.code == answer.entries[0].status.code == wire.INVALID_RECEIPT_HANDLE
    answer = acked(client, one.system_properties.receipt_handle, "bad")
    assert answer.status.code == wire.MULTIPLE_RESULTS
    assert [entry.status.code for entry in answer.entries] == [wire.OK, wire.INVALID_RECEIPT_HANDLE]
    assert acked(client).status.code == wire.BAD_REQUEST


def changed(client: GrpcTalk, receipt: str, ms: int) -> Any:
    request = wire.ChangeInvisibleDurationRequest(group=resource("G"), topic=resource("T"), receipt_handle=receipt)
    request.invisible_duration.FromMilliseconds(ms)
    return client.ask("ChangeInvisibleDuration", request)


def test_a_changed_time_counts(broker: Broker, talk: Talk):
    put(broker)
    client = talk(broker)
    [one] = given(client.receive(receiving()))
    answer = changed(client, one.system_properties.receipt_handle, 200)
    assert answer.status.code == wire.OK and answer.receipt_handle != one.system_properties.receipt_handle
    [again] = given(client.receive(receiving()))
    assert again.system_properties.delivery_attempt == 2
    assert changed(client, one.system_properties.receipt_handle, 200).status.code == wire.INVALID_RECEIPT_HANDLE
    assert changed(client, "bad", 200).status.code == wire.INVALID_RECEIPT_HANDLE
    receipt = again.system_properties.receipt_handle
    assert changed(client, receipt, 12 * 3_600_000 + 1).status.code == wire.ILLEGAL_INVISIBLE_TIME
    assert changed(client, receipt, -1).status.code == wire.ILLEGAL_INVISIBLE_TIME


def test_a_message_into_the_dead_letters(broker: Broker, talk: Talk, line: Callable[[Broker], Line]):
    put(broker, tags="red")
    client = talk(broker)
    [one] = given(client.receive(receiving()))
    request = wire.ForwardMessageToDeadLetterQueueRequest(
        group=resource("G"), topic=resource("T"), receipt_handle=one.system_properties.receipt_handle
    )
    assert client.ask("ForwardMessageToDeadLetterQueue", request).status.code == wire.OK
    [dead] = stored(broker).get("%DLQ%G", 0, 0).messages
    assert (dead.body, dead.tags) == (b"m0", "red")
    again = client.ask("ForwardMessageToDeadLetterQueue", request)
    assert again.status.code == wire.INVALID_RECEIPT_HANDLE
    request.receipt_handle = "bad"
    assert client.ask("ForwardMessageToDeadLetterQueue", request).status.code == wire.INVALID_RECEIPT_HANDLE
    assert line(broker).ask(11, pull("%DLQ%G")).code == 0


def test_a_group_that_consumes_in_order(broker: Broker, talk: Talk):
    stored(broker).create_group("Ordered", GroupSettings(consume_orderly=True))
    put(broker, 2)
    client = talk(broker)
    [first] = given(client.receive(receiving(group="Ordered", batch_size=1)))
    answers = client.receive(receiving(group="Ordered", batch_size=1))
    assert answers[0].status.code == wire.MESSAGE_NOT_FOUND, "what is in flight holds its queue"
    acked(client, first.system_properties.receipt_handle, group="Ordered")
    [second] = given(client.receive(receiving(group="Ordered")))
    assert [first.body, second.body] == [b"m0", b"m1"]


def test_bodies_that_a_client_of_remoting_compressed(broker: Broker, talk: Talk, line: Callable[[Broker], Line]):
    """They are given as they were, and one that is gzip as gzip; what nobody can read goes as it is."""
    producer_, client = line(broker), talk(broker)
    gzip = zlib.compressobj(wbits=31)
    zipped = gzip.compress(b"gzip" * 50) + gzip.flush()
    for body, flag in (
        (zlib.compress(b"text" * 50), 1),
        (zipped, 1),
        (b"broken", 1),
        (zlib.compress(b"z" * 99), 0x301),
    ):
        assert producer_.ask(310, send("T", 0, f"UNIQ_KEY\x01{flag}\x02", sys_flag=flag), body).code == 0
    assert stored(broker).wait_dispatched(60)
    found = [(one.body, one.system_properties.body_encoding) for one in given(client.receive(receiving()))]
    assert found == [
        (b"text" * 50, wire.IDENTITY), (zipped, wire.GZIP), (b"broken", wire.GZIP), (b"z" * 99, wire.IDENTITY),
    ]  # fmt: skip


def test_what_remoting_sends_and_takes(broker: Broker, talk: Talk, line: Callable[[Broker], Line]):
    """One store for both doors: properties and ids are the same."""
    remoting, client = line(broker), talk(broker)
    remoting.ask(310, send("T", 0, "UNIQ_KEY\x01U1\x02TAGS\x01red\x02KEYS\x01k1\x02own\x01x\x02"), b"body")
    client.ask("SendMessage", sending(message(tag="blue", properties={"own": "y"})))
    found = {one.system_properties.message_id: one for one in given(client.receive(receiving()))}
    assert found["U1"].system_properties.tag == "red" and dict(found["U1"].user_properties) == {"own": "x"}
    assert set(found) == {"U1", "M1"}
    pulled = remoting.ask(11, pull("T", found["M1"].system_properties.queue_id)).body
    *_, record = records(pulled)
    assert b"own\x01y\x02" in record and b"TAGS\x01blue\x02" in record


# -- what is renewed ---------------------------------------------------------------------------------------------------


def test_a_message_is_renewed_while_its_client_lives(broker: Broker, talk: Talk, monkeypatch: pytest.MonkeyPatch):
    """The client acknowledges by the receipt that it got, whatever it was renewed to."""
    client = talk(broker)
    client.settle(consumer("G", wire.PUSH_CONSUMER))
    monkeypatch.setattr("flintmq.broker.grpc.consuming.RENEWED_MS", 300)
    monkeypatch.setattr("flintmq.broker.grpc.renewals.RENEWED_MS", 300)
    monkeypatch.setattr("flintmq.broker.grpc.renewals.AHEAD_S", 0.2)
    renewals = broker._now._grpc._renewals
    put(broker)
    [one] = given(client.receive(receiving(auto_renew=True, invisible_ms=0)))
    for _ in range(20):
        time.sleep(0.05)
        broker._thread._loop.call_soon_threadsafe(renewals.renew)
    [kept] = renewals._kept["test"].values()
    assert str(kept.receipt) != one.system_properties.receipt_handle
    assert acked(client, one.system_properties.receipt_handle).status.code == wire.OK
    assert renewals._kept == {} and stored(broker).consumer_offset("G", "T", 0) == 1


def test_who_names_anothers_client_and_receipt_ends_no_renewal(broker: Broker, talk: Talk):
    """A receipt names no group and no topic; neither is a secret, and client ids are none."""
    client, other = talk(broker), talk(broker)
    client.settle(consumer("G", wire.PUSH_CONSUMER))
    put(broker)
    [one] = given(client.receive(receiving(auto_renew=True, invisible_ms=0)))
    receipt, renewals = one.system_properties.receipt_handle, broker._now._grpc._renewals
    assert acked(other, receipt, group="mine").status.code == wire.OK, "as one that is over"
    more: dict[str, Any] = {"group": resource("mine"), "topic": resource("T"), "receipt_handle": receipt}
    for name, request in (
        ("ChangeInvisibleDuration", wire.ChangeInvisibleDurationRequest(**more)),
        ("ForwardMessageToDeadLetterQueue", wire.ForwardMessageToDeadLetterQueueRequest(**more)),
    ):
        assert other.ask(name, request).status.code == wire.INVALID_RECEIPT_HANDLE
    assert len(renewals._kept["test"]) == 1 and stored(broker).consumer_offset("G", "T", 0) != 1
    assert acked(client, receipt).status.code == wire.OK
    assert renewals._kept == {} and stored(broker).consumer_offset("G", "T", 0) == 1


def test_a_client_that_ends_gives_its_messages_back(broker: Broker, talk: Talk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("flintmq.broker.grpc.renewals.GONE_MS", 100)
    put(broker)
    client = talk(broker)
    client.settle(consumer("G", wire.PUSH_CONSUMER))
    given(client.receive(receiving(auto_renew=True)))
    client.ask("NotifyClientTermination", wire.NotifyClientTerminationRequest(group=resource("G")))
    [again] = given(talk(broker, client="other").receive(receiving()))
    assert again.system_properties.delivery_attempt == 2


# -- start and end -----------------------------------------------------------------------------------------------------


def test_the_end_answers_what_is_under_way(writing: Callable[..., Broker], talk: Talk):
    broker = writing()
    put(broker)
    client = talk(broker)
    client.receive(receiving())
    number = client.start("ReceiveMessage", receiving())
    assert within(lambda: broker.stats().held == 1)
    broker.__exit__(None, None, None)
    found = client.answered(number)
    assert found.status == 0 and client.hung_up() and client.streams.goaway == 0
    assert wire.ReceiveMessageResponse.FromString(found.messages()[0]).status.code == wire.MESSAGE_NOT_FOUND


def test_both_doors_at_each_address(writing: Callable[..., Broker]):
    broker = writing(grpc="127.0.0.1:0")
    put(broker)
    assert len(broker.addresses) == 2
    for address in broker.addresses:
        with GrpcTalk(address) as client, Line(address) as remoting:
            assert client.ask("QueryRoute", route()).status.code == wire.OK
            assert remoting.ask(105, {"topic": "T"}).code == 0


def test_a_store_that_is_only_read_speaks_no_grpc(served: Callable[..., Broker], resting: Any):
    broker = served(resting, grpc="127.0.0.1:0")
    with GrpcTalk(broker.address) as client:
        assert client.hung_up()
    with Line(broker.addresses[1]) as remoting:
        assert remoting.ask(105, {"topic": "T"}).code == 0
