"""Transactions of clients: half messages, their ends, and producers that are asked."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq.broker import Broker
from flintmq.message import Message, StoredMessage
from flintmq.remoting.frames import RemotingFrame
from tests.broker.talk import Line, pull, records, send
from tests.broker.test_send import ONE_WAY, stored
from tests.support.threads import within

HALF, OUTCOME = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
OFTEN = {"transactionTimeOut": 100, "transactionCheckInterval": 50}
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0


def prepared(key: str = "U1", more: str = "") -> str:
    return f"UNIQ_KEY\x01{key}\x02TRAN_MSG\x01true\x02PGROUP\x01Shop\x02TAGS\x01red\x02{more}"


def begun(client: Line, body: bytes = b"x", key: str = "U1", more: str = "", age_ms: int = 0) -> dict[str, Any]:
    """Send a message of a transaction as Java's client does; the fields of its end."""
    born = int(time.time() * 1000) - age_ms
    answer = client.ask(310, send("T", 2, prepared(key, more), sys_flag=4, flag=5, born=born), body)
    assert answer.code == 0, answer.remark
    assert (answer.fields["queueId"], answer.fields["transactionId"]) == ("2", key)
    return {
        "producerGroup": "Shop",
        "tranStateTableOffset": answer.fields["queueOffset"],
        "commitLogOffset": int(answer.fields["msgId"][16:], 16),
        "fromTransactionCheck": "false",
        "msgId": key,
        "transactionId": key,
        "topic": "T",
    }


def end(client: Line, fields: dict[str, Any], how: int, **more: Any) -> RemotingFrame:
    return client.ask(37, {**fields, "commitOrRollback": how, **more})


def bodies(broker: Broker, topic: str = "T", queue_id: int = 2) -> list[bytes]:
    return [one.body for one in stored(broker).get(topic, queue_id, 0).messages]


def asked(client: Line) -> RemotingFrame:
    """The next check of this client."""
    while True:
        frame = client.told.pop(0) if client.told else client.frame()
        assert frame is not None
        if frame.code == 39:
            return frame


def heartbeat(client: str, *groups: str) -> bytes:
    producers = [{"groupName": group} for group in groups]
    return json.dumps({"clientID": client, "producerDataSet": producers, "consumerDataSet": []}).encode()


def test_a_commit(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing()
    client = line(broker)
    fields = begun(client)
    assert bodies(broker) == []
    waiting = client.start(11, pull("T", 2, 0, sysFlag=6, suspendTimeoutMillis=9000))
    assert end(client, fields, COMMIT).code == 0
    [one] = records(client.answer(waiting).body)
    found = StoredMessage(one)
    assert (found.body, found.flag, found.sys_flag, found.tags, found.msg_id) == (b"x", 5, 8, "red", "U1")
    assert found.prepared_transaction_offset == fields["commitLogOffset"]
    [half] = stored(broker).get(HALF, 0, 0).messages
    assert (half.sys_flag, half.properties["REAL_TOPIC"], half.properties["REAL_QID"]) == (0, "T", "2")
    assert half.properties["__transactionId__"] == "U1" and half.born_host == found.born_host
    assert bodies(broker, OUTCOME, 0) == [b"0,"]


def test_a_rollback_and_one_that_does_not_know(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing()
    client = line(broker)
    first, second = begun(client, b"first"), begun(client, b"second", "U2")
    assert end(client, first, ROLLBACK).code == 0
    client.start(37, {**second, "commitOrRollback": UNKNOWN}, flag=ONE_WAY)
    client.start(37, {**second, "commitOrRollback": COMMIT}, flag=ONE_WAY)
    assert within(lambda: bodies(broker) == [b"second"])
    assert bodies(broker, OUTCOME, 0) == [b"0,", b"1,"]


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_many_at_once(writing: Callable[..., Broker], line: Callable[[Broker], Line], flush: str):
    broker = writing(config={"flushDiskType": flush})
    client = line(broker)
    ends = [begun(client, b"%d" % n, f"U{n}") for n in range(200)]
    for n, fields in enumerate(ends):
        client.start(37, {**fields, "commitOrRollback": ROLLBACK if n % 4 == 0 else COMMIT}, flag=ONE_WAY)
    client.close()  # what was asked is done nevertheless
    store = stored(broker)

    def ended() -> bool:
        assert store.wait_dispatched(60)
        return store.bounds(OUTCOME, 0)[1] == 200

    assert within(ended, 20)
    assert store.bounds("T", 2) == (0, 150)
    found = {store.get("T", 2, offset, 1).messages[0].body for offset in range(150)}
    assert found == {b"%d" % n for n in range(200) if n % 4}


@pytest.mark.parametrize(
    ("change", "code", "remark"),
    [
        ({"producerGroup": "Other"}, 1, "The producer group wrong"),
        ({"tranStateTableOffset": 7}, 1, "The transaction state table offset wrong"),
        ({"commitLogOffset": 7}, 1, "Find prepared transaction message failed"),
        ({"commitOrRollback": 5}, 1, "commitOrRollback field wrong"),
        ({"commitOrRollback": "x"}, 1, "the field commitOrRollback is no number: 'x'"),
    ],
)
def test_ends_that_are_refused(
    writing: Callable[..., Broker], line: Callable[[Broker], Line], change: dict[str, Any], code: int, remark: str
):
    broker = writing()
    client = line(broker)
    fields = begun(client) | {"commitOrRollback": COMMIT}
    answer = client.ask(37, fields | change)
    assert (answer.code, answer.remark) == (code, remark)
    assert client.ask(37, fields).code == 0, "it is open still"
    again = client.ask(37, fields)
    assert again.code == 1 and "has ended" in str(again.remark)
    assert bodies(broker) == [b"x"]
    del fields["producerGroup"]
    assert client.ask(37, fields).remark == "the field producerGroup is missing"


def test_half_messages_that_are_refused(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing()
    client = line(broker)
    for more in ("DELAY\x013\x02", "TIMER_DELAY_MS\x015000\x02"):
        answer = client.ask(310, send("T", 0, prepared(more=more)), b"x")
        assert answer.code == 13 and "no delay, and no timer" in str(answer.remark)
    old = client.ask(310, send("T", 0, prepared(more="DELAY\x011\x02"), retried=1), b"given back")
    assert old.code == 0, "a client of before 4.6.1 gives a message back with all its properties"
    assert bodies(broker, HALF, 0) == []


def test_one_that_names_no_group_is_nobody_s(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing(config=OFTEN)
    client = line(broker)
    born = int(time.time() * 1000)
    assert client.ask(310, send("T", 2, "TRAN_MSG\x01true\x02UNIQ_KEY\x01U\x02", born=born), b"x").code == 0
    assert client.is_quiet(0.3) and bodies(broker, HALF, 0) == [b"x"]


def test_a_producer_is_asked(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing(config=OFTEN)
    client = line(broker)
    fields = begun(client, b"body")
    check = asked(client)
    message = StoredMessage(check.body)
    assert (message.topic, message.queue_id, message.body, message.flag) == ("T", 2, b"body", 5)
    assert message.msg_id == "U1" and check.flag == ONE_WAY
    assert check.fields == {
        "topic": HALF,
        "tranStateTableOffset": fields["tranStateTableOffset"],
        "commitLogOffset": str(fields["commitLogOffset"]),
        "msgId": "U1",
        "transactionId": "U1",
        "offsetMsgId": message.offset_msg_id,
        "bname": "broker-a",
    }
    second = asked(client)
    assert second.fields["tranStateTableOffset"] != fields["tranStateTableOffset"], "a copy of it"
    named = {name: second.fields[name] for name in ("tranStateTableOffset", "commitLogOffset", "msgId")}
    client.start(
        37,
        {**named, "producerGroup": "Shop", "commitOrRollback": COMMIT, "fromTransactionCheck": "true", "topic": HALF},
        flag=ONE_WAY,
    )
    assert within(lambda: bodies(broker) == [b"body"])


def test_another_one_of_the_group_is_asked(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    """The sender has died; one that came by its heartbeat answers. Until then nobody is, and nothing is given up."""
    broker = writing(config={**OFTEN, "transactionCheckMax": 2})
    with Line(broker.address) as sender:
        fields = begun(sender)
    other = line(broker)
    assert other.ask(34, body=heartbeat("c1", "Others")).code == 0
    assert other.is_quiet(0.5)
    assert other.ask(34, body=heartbeat("c1", "Others", "Shop")).code == 0
    check = asked(other)
    assert check.fields["msgId"] == "U1"
    assert end(other, fields, COMMIT, fromTransactionCheck="true").code == 0, "its answer names the first copy"
    assert bodies(broker) == [b"x"]
    assert other.ask(35, {"clientID": "c1", "producerGroup": "Shop"}).code == 0
    begun(line(broker), b"y", "U2")
    assert other.is_quiet(0.3), "it has left"


def test_a_first_check_that_the_sender_set_is_waited_for(
    writing: Callable[..., Broker], line: Callable[[Broker], Line], tmp_path: Path
):
    broker = writing(config={"transactionTimeOut": 1, "transactionCheckInterval": 3_600_000})
    client = line(broker)
    fields = begun(client, more="CHECK_IMMUNITY_TIME_IN_SECONDS\x011\x02", age_ms=5000)
    late = end(client, fields, COMMIT)
    assert late.code == 604 and bodies(broker) == []
    assert end(client, fields, COMMIT, fromTransactionCheck="true").code == 0 and bodies(broker) == [b"x"]


def test_a_broker_goes_on_after_a_restart(tmp_path: Path, writing: Callable[..., Broker]):
    keys = {"mappedFileSizeCommitLog": 1 << 20, "mappedFileSizeConsumeQueue": 2000, "maxHashSlotNum": 100}
    with Broker(tmp_path / "s", config={**keys, "maxIndexNum": 400}) as broker, Line(broker.address) as client:
        fields = begun(client)
    with Broker(tmp_path / "s", config={**keys, **OFTEN, "maxIndexNum": 400}) as broker, Line(broker.address) as client:
        assert client.ask(34, body=heartbeat("c1", "Shop")).code == 0
        assert asked(client).fields["commitLogOffset"] == str(fields["commitLogOffset"])
        assert end(client, fields, COMMIT).code == 0
        assert bodies(broker) == [b"x"]


def test_transactions_of_the_process_itself(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    """A broker asks its clients; of groups that have none, whoever shares its store."""
    broker = writing(config=OFTEN)
    store = stored(broker)
    store.on_check(lambda half: half.commit())
    store.begin(Message("T", b"own", queue_id=2), "Own")
    assert within(lambda: bodies(broker) == [b"own"])


def test_read_only(served: Callable[..., Broker], resting: Path, line: Callable[[Broker], Line]):
    assert line(served(resting)).ask(37, {"producerGroup": "P"}).code == 16
