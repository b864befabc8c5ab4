"""Batches of acknowledgements: entries with a set of bits, as Java's client writes them."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from flintmq.broker import Broker
from tests.broker.talk import Line, PoppedMessage
from tests.broker.test_pop import broker as broker
from tests.broker.test_pop import client as client
from tests.broker.test_pop import comes, got, offset, put

ACK_BATCH = 200151


def entry(found: list[PoppedMessage], **more: Any) -> dict[str, Any]:
    """An entry of messages of one queue."""
    start, popped_ms, invisible_ms, revive, kind, _, queue, _ = found[0].receipt.split(" ")
    bits = sum(1 << (int(one.receipt.split(" ")[7]) - int(start)) for one in found)
    told = {
        "c": "G", "t": "T", "r": kind, "so": int(start), "q": int(queue), "rq": int(revive), "pt": int(popped_ms),
        "it": int(invisible_ms), "b": base64.b64encode(bits.to_bytes(bits.bit_length() // 8 + 1, "little")).decode(),
    }  # fmt: skip
    return {**told, **more}


def body(*entries: Any) -> bytes:
    return json.dumps({"brokerName": "broker-a", "acks": entries}).encode()


def test_a_batch(broker: Broker, client: Line):
    put(broker, *map(str, range(12)))
    found = got(client)
    assert client.ask(ACK_BATCH, body=body(entry(found[:1] + found[2:11]))).code == 0
    assert offset(broker) == 1
    assert client.ask(ACK_BATCH, body=body(entry(found[:2]), entry(found[11:]))).code == 0
    assert offset(broker) == 12


def test_a_batch_of_retries_by_long_names(broker: Broker, client: Line):
    put(broker, "a")
    got(client, invisibleTime=0)
    told = entry(comes(client))
    names = {"c": "consumerGroup", "t": "topic", "r": "retry", "so": "startOffset", "q": "queueId", "pt": "popTime"}
    names |= {"rq": "reviveQueueId", "it": "invisibleTime", "b": "bitSet"}
    assert client.ask(ACK_BATCH, body=body({names[name]: value for name, value in told.items()})).code == 0
    assert offset(broker, "%RETRY%G_T") == 1


@pytest.mark.parametrize(
    ("change", "code"),
    [({"b": "%"}, 1), ({"b": None}, 1), ({"so": "x"}, 1), ({"b": "A" * 1400}, 29), ({"c": 5}, 1)],
)
def test_entries_that_are_none(broker: Broker, client: Line, change: dict[str, Any], code: int):
    put(broker, "a")
    answer = client.ask(ACK_BATCH, body=body(entry(got(client), **change)))
    assert answer.code == code and answer.remark and offset(broker) == 0


def test_bodies_that_are_none(broker: Broker, client: Line):
    for one, code in ((b"{}", 208), (body(), 208), (body("x"), 1), (b"x", 1)):
        assert client.ask(ACK_BATCH, body=one).code == code


def test_more_than_may_be_acknowledged_at_once(broker: Broker, client: Line, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("flintmq.broker.pop_requests.ACKS_MAX", 2)
    put(broker, "a", "b", "c")
    found = got(client)
    assert client.ask(ACK_BATCH, body=body(entry(found))).code == 29 and offset(broker) == 0
    assert client.ask(ACK_BATCH, body=body(entry(found[:2]))).code == 0 and offset(broker) == 2


def test_a_message_of_another_queue_stays(broker: Broker, client: Line, line: Callable[[Broker], Line]):
    """Bits beyond what was given, and entries of nobody's, acknowledge nothing."""
    put(broker, "a")
    found = got(client)
    for change in ({"t": "Other"}, {"q": 3}, {"so": 100}, {"c": "Nobody"}, {"pt": 1}):
        assert client.ask(ACK_BATCH, body=body(entry(found, **change))).code == 0
    assert offset(broker) == 0
