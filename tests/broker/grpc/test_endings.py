"""Transactions of the 5.x clients, their ends, their check-back, and recalls."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq.broker import Broker
from flintmq.broker.grpc import definitions_pb2 as wire
from flintmq.store.services.topics import TopicSettings
from tests.broker.conftest import SMALL
from tests.broker.grpc.talk import GrpcTalk, message, producer, resource, sending
from tests.broker.test_send import stored
from tests.support.threads import within

Talk = Callable[..., GrpcTalk]
OFTEN = {"transactionTimeOut": 100, "transactionCheckInterval": 50, "timerPrecisionMs": 100}


@pytest.fixture
def shop(writing: Callable[..., Broker]) -> Broker:
    """A broker with a topic for transactions, and one for messages that wait."""
    broker = writing(config=OFTEN)
    stored(broker).create_topic("T", TopicSettings(1, 1, attributes={"message.type": "TRANSACTION"}))
    stored(broker).create_topic("D", TopicSettings(1, 1, attributes={"message.type": "DELAY"}))
    return broker


def begun(client: GrpcTalk, body: bytes = b"x", key: str = "U1", **more: Any) -> wire.EndTransactionRequest:
    """Send a message of a transaction; the request that commits it."""
    sent = message(body=body, key=key, message_type=wire.TRANSACTION, **more)
    sent.system_properties.born_timestamp.GetCurrentTime()  # one of years ago is given up at once
    answer = client.ask("SendMessage", sending(sent))
    assert answer.status.code == wire.OK, answer
    [entry] = answer.entries
    return wire.EndTransactionRequest(
        topic=resource("T"),
        message_id=key,
        transaction_id=entry.transaction_id,
        resolution=wire.COMMIT,
        source=wire.SOURCE_CLIENT,
    )


def come(broker: Broker, topic: str = "T") -> list[bytes]:
    return [one.body for one in stored(broker).get(topic, 0, 0).messages]


def asked(client: GrpcTalk, stream: int) -> wire.RecoverOrphanedTransactionCommand:
    """The next check on a client's stream."""
    limit = time.monotonic() + 20
    while True:
        for one in client.streams.of[stream].messages():
            command = wire.TelemetryCommand.FromString(one)
            if command.HasField("recover_orphaned_transaction_command"):
                return command.recover_orphaned_transaction_command
        assert client.pump(limit - time.monotonic()), "nobody was asked"


def test_commit_and_rollback(shop: Broker, talk: Talk):
    client = talk(shop)
    committed, rolled_back = begun(client, b"committed", "U1"), begun(client, b"rolled back", "U2")
    assert come(shop) == []
    rolled_back.resolution = wire.ROLLBACK
    assert client.ask("EndTransaction", rolled_back).status.code == wire.OK
    assert client.ask("EndTransaction", committed).status.code == wire.OK
    assert within(lambda: come(shop) == [b"committed"])
    [found] = stored(shop).get("T", 0, 0).messages
    assert (found.msg_id, found.properties["PGROUP"]) == ("U1", "T")
    again = client.ask("EndTransaction", committed).status
    assert again.code == wire.INTERNAL_SERVER_ERROR and again.message
    assert come(shop) == [b"committed"] and shop.stats().failed == 0


def test_who_does_not_know_is_asked(shop: Broker, talk: Talk):
    client = talk(shop)
    stream, _ = client.settle(producer("T"))
    request = begun(client, properties={"a": "b"}, tag="red")
    request.resolution = wire.TRANSACTION_RESOLUTION_UNSPECIFIED
    assert client.ask("EndTransaction", request).status.code == wire.OK
    command = asked(client, stream)
    sent = command.message
    assert (sent.topic.name, sent.body, sent.system_properties.message_id) == ("T", b"x", "U1")
    assert (dict(sent.user_properties), sent.system_properties.tag) == ({"a": "b"}, "red")
    assert sent.system_properties.message_type == wire.TRANSACTION and come(shop) == []
    answer = wire.EndTransactionRequest(
        topic=resource("T"),
        message_id="U1",
        transaction_id=command.transaction_id,
        resolution=wire.COMMIT,
        source=wire.SOURCE_SERVER_CHECK,
    )
    assert client.ask("EndTransaction", answer).status.code == wire.OK
    assert within(lambda: come(shop) == [b"x"])


def test_another_producer_of_the_topic_is_asked(shop: Broker, talk: Talk):
    with GrpcTalk(shop.address, client="dies") as client:
        client.settle(producer("T"))
        begun(client, b"orphan")
    others, elsewhere = GrpcTalk(shop.address, client="lives"), GrpcTalk(shop.address, client="other")
    with others, elsewhere:
        elsewhere.settle(producer("D"))
        stream, _ = others.settle(producer("T"))
        assert asked(others, stream).message.body == b"orphan"


def test_a_transaction_ends_after_a_restart(writing: Callable[..., Broker], tmp_path: Path):
    config = {"transactionTimeOut": 60_000}
    with Broker(tmp_path / "kept", config=SMALL | config) as broker:
        stored(broker).create_topic("T", TopicSettings(1, 1, attributes={"message.type": "TRANSACTION"}))
        with GrpcTalk(broker.address) as client:
            request = begun(client, b"later")
    again = writing(tmp_path / "kept", config=config)
    with GrpcTalk(again.address) as client:
        assert client.ask("EndTransaction", request).status.code == wire.OK
    assert within(lambda: come(again) == [b"later"])


@pytest.mark.parametrize("id_", ["", "none", "U1"])
def test_a_transaction_id_that_is_none(shop: Broker, talk: Talk, id_: str):
    request = wire.EndTransactionRequest(topic=resource("T"), transaction_id=id_, resolution=wire.COMMIT)
    assert talk(shop).ask("EndTransaction", request).status.code == wire.INVALID_TRANSACTION_ID


def test_ends_of_what_is_no_half_message(shop: Broker, talk: Talk):
    client = talk(shop)
    plain = client.ask("SendMessage", sending(message("D", delivery_ms=int(time.time() * 1000) + 60_000)))
    assert plain.status.code == wire.OK
    for id_, topic in (("0", "T"), ("7FFFFFFFFFFFFFFF", "T"), ("1" * 40, "T"), ("-1", "T"), ("0", "D")):
        request = wire.EndTransactionRequest(topic=resource(topic), transaction_id=id_, resolution=wire.COMMIT)
        status = client.ask("EndTransaction", request).status
        assert status.code in (wire.INTERNAL_SERVER_ERROR, wire.INVALID_TRANSACTION_ID) and status.message, id_
    other = begun(client)
    other.topic.name = "D"
    assert "group" in client.ask("EndTransaction", other).status.message
    assert shop.stats().failed == 0 and come(shop) == []


def test_a_recall(shop: Broker, talk: Talk):
    client, at = talk(shop), int(time.time() * 1000) + 2000
    kept = client.ask("SendMessage", sending(message("D", b"kept", "M1", delivery_ms=at)))
    gone = client.ask("SendMessage", sending(message("D", b"gone", "M2", delivery_ms=at)))
    assert kept.status.code == gone.status.code == wire.OK
    request = wire.RecallMessageRequest(topic=resource("D"), recall_handle=gone.entries[0].recall_handle)
    answer = client.ask("RecallMessage", request)
    assert (answer.status.code, answer.message_id) == (wire.OK, "M2")
    assert within(lambda: come(shop, "D") == [b"kept"])
    late = client.ask("RecallMessage", request).status
    assert late.code == wire.INTERNAL_SERVER_ERROR and "timestamp invalid" in late.message
    for topic, handle in (("D", "none"), ("D", ""), ("none", "x"), ("T", request.recall_handle)):
        request = wire.RecallMessageRequest(topic=resource(topic), recall_handle=handle)
        assert client.ask("RecallMessage", request).status.code != wire.OK
    assert shop.stats().failed == 0 and come(shop, "D") == [b"kept"]
