"""A broker's page for Prometheus, against what clients did."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq.broker import Broker, figures
from flintmq.broker.pop import Pops
from flintmq.broker.testing import BrokerControl
from flintmq.message import Message
from flintmq.remoting.names import DELETE_GROUP, DELETE_TOPIC, GET_CONSUME_STATS, GET_OFFSETS, GET_TOPIC_STATS, PEEK
from flintmq.store.message_store import MessageStore
from flintmq.store.services.consumer_offsets import ConsumerOffsets
from flintmq.store.services.topics import TopicSettings
from tests.broker.talk import Line, heartbeat, pop, popped, pull, send
from tests.support.prometheus import only, samples
from tests.support.threads import beside, within

Connected = Callable[[Broker], Line]
PULL, COMMIT, HEARTBEAT, SEND, POP, ACK = 11, 15, 34, 310, 200050, 200051
GROUP = "consumer_group", "topic", "is_retry", "is_system"


def stored(broker: Broker) -> MessageStore:
    assert isinstance(broker.store, MessageStore)
    return broker.store


def page(broker: Broker, name: str, *labels: str) -> dict[tuple[str, ...], float]:
    return only(samples(broker.metrics()), name, *labels)


def test_what_came_and_went(writing: Callable[..., Broker], line: Connected):
    broker = writing(name="b-1", cluster="C")
    talk, store = line(broker), stored(broker)
    store.create_topic("Ordered", TopicSettings(1, 1, attributes={"message.type": "FIFO"}))
    for topic, count in (("T", 3), ("Ordered", 2)):
        for number in range(count):
            assert talk.ask(SEND, send(topic), b"%d" % number).code == 0
    for topic in ("%RETRY%G", "%DLQ%G", "BenchmarkTest"):
        store.put(Message(topic, b"x"))
    assert store.wait_dispatched(60)
    body = talk.ask(PULL, pull(maxMsgNums=2)).body
    assert body and talk.ask(PULL, pull(group="H", maxMsgNums=1)).body
    for topic in ("%RETRY%G", "%DLQ%G"):
        assert talk.ask(PULL, pull(topic)).body, "RocketMQ counts no such pull"
    found = samples(broker.metrics())
    assert only(found, "rocketmq_messages_in_total", "topic", "message_type", "is_system") == {
        ("T", "normal", "false"): 3, ("Ordered", "fifo", "false"): 2, ("BenchmarkTest", "normal", "true"): 1,
    }  # fmt: skip
    assert only(found, "rocketmq_send_to_dlq_messages_total", "consumer_group", "is_system") == {("G", "false"): 1}
    assert only(found, "rocketmq_messages_out_total", *GROUP) == {
        ("G", "T", "false", "false"): 2, ("H", "T", "false", "false"): 1,
    }  # fmt: skip
    assert only(found, "rocketmq_throughput_out_total", *GROUP) == {
        ("G", "T", "false", "false"): len(body), ("H", "T", "false", "false"): len(body) // 2,
    }, "equal records"  # fmt: skip
    [size] = only(found, "rocketmq_throughput_in_total", "cluster", "node_id").values()
    assert size == store.max_physical_offset
    assert only(found, "rocketmq_broker_permission", "cluster", "node_type", "node_id") == {("C", "broker", "b-1"): 6}
    assert only(found, "rocketmq_topic_number", "node_id") == {("b-1",): len(store.topics()) + 2}, "replies, trace"
    assert only(found, "rocketmq_consumer_group_number", "node_id") == {("b-1",): len(store.groups())}
    assert only(found, "flintmq_broker_left_out", "node_id") == {("b-1",): 0}


def test_what_nobody_consumes_does_not_go_out(writing: Callable[..., Broker], line: Connected):
    """Looks of mqadmin, a peek, and what is read to become a retry."""
    broker = writing()
    talk, store = line(broker), stored(broker)
    assert talk.ask(SEND, send(), b"x").code == 0 and store.wait_dispatched(60)
    [given] = popped(talk.ask(POP, pop(invisibleTime=1)))
    store.commit_offset("Other", "T", 0, 1)
    assert within(lambda: store.bounds("%RETRY%G_T", 0) == (0, 1))
    for code, fields in (
        (GET_TOPIC_STATS, {"topic": "T"}),
        (GET_CONSUME_STATS, {"consumerGroup": "Other"}),
        (PEEK, {"consumerGroup": "H", "topic": "T", "queueId": -1, "maxMsgNums": 1}),
    ):
        assert talk.ask(code, fields).body
    assert page(broker, "rocketmq_messages_out_total", *GROUP) == {("G", "T", "false", "false"): 1}
    size = given.message.size
    assert page(broker, "rocketmq_throughput_out_total", *GROUP) == {("G", "T", "false", "false"): size}


def test_retries_of_a_group_that_pops(writing: Callable[..., Broker], line: Connected):
    """They go out, and lag, under the topic that it asked for; they lag also while nobody is there to pop them."""
    broker = writing()
    talk, store = line(broker), stored(broker)
    for _ in range(3):
        assert talk.ask(SEND, send(), b"x").code == 0
    assert store.wait_dispatched(60)
    store.create_group("P_U")
    for topic in ("%RETRY%P_U", "%RETRY%P+U"):  # the first one is that of the other group
        store.put(Message(topic, b"x"))
    store.commit_offset("P", "U", 0, 0)
    assert len(popped(talk.ask(POP, pop(group="P", invisibleTime=1)))) == 3
    assert within(lambda: store.bounds("%RETRY%P_T", 0) == (0, 3)) and store.wait_dispatched(60)
    plain, again = (("P", "T", flag, "false") for flag in ("false", "true"))
    other, other_again = (("P", "U", flag, "false") for flag in ("false", "true"))
    lag, flying, ready = (f"rocketmq_consumer_{name}_messages" for name in ("lag", "inflight", "ready"))
    assert within(lambda: page(broker, lag, *GROUP)[plain] == 0)
    assert page(broker, lag, *GROUP) == {plain: 0, again: 3, other: 0, other_again: 1}
    assert page(broker, ready, *GROUP) == {plain: 0, again: 3, other_again: 1}
    assert len(popped(talk.ask(POP, pop(group="P", maxMsgNums=2)))) == 2
    assert page(broker, lag, *GROUP)[again] == 3
    assert page(broker, flying, *GROUP)[again] == 2 and page(broker, ready, *GROUP)[again] == 1
    assert page(broker, "rocketmq_messages_out_total", *GROUP) == {plain: 3, again: 2}


def test_what_was_deleted_is_gone(writing: Callable[..., Broker], line: Connected):
    broker = writing()
    talk, store = line(broker), stored(broker)
    for topic in ("Gone", "T"):
        assert talk.ask(SEND, send(topic), b"x").code == 0
    assert store.wait_dispatched(60)
    for topic, group in (("Gone", "G"), ("T", "G"), ("T", "GoneToo")):
        assert talk.ask(PULL, pull(topic, group=group)).body
    puts = sum(page(broker, "flintmq_puts_total", "duration").values())
    assert talk.ask(DELETE_TOPIC, {"topic": "Gone"}).code == 0
    assert talk.ask(DELETE_GROUP, {"groupName": "GoneToo"}).code == 0
    for name in ("messages", "throughput"):
        assert page(broker, f"rocketmq_{name}_out_total", "consumer_group", "topic").keys() == {("G", "T")}
    assert sum(page(broker, "flintmq_puts_total", "duration").values()) == puts == 2
    assert talk.ask(SEND, send("Gone"), b"x").code == 0 and store.wait_dispatched(60)
    assert talk.ask(PULL, pull("Gone")).body
    assert page(broker, "rocketmq_messages_out_total", "topic")["Gone",] == 1
    assert sum(page(broker, "flintmq_puts_total", "duration").values()) == 3


def test_who_is_there(writing: Callable[..., Broker], line: Connected):
    broker = writing()
    first, second = line(broker), line(broker)
    producers = {"clientID": "p", "producerDataSet": [{"groupName": "P"}, {"groupName": "Q"}]}
    assert first.ask(HEARTBEAT, body=json.dumps(producers).encode()).code == 0
    for talk, client, groups in ((first, "a", ["G", "H"]), (second, "b", ["G"])):
        assert talk.ask(HEARTBEAT, body=heartbeat(client, *groups, topics={"T": "*"})).code == 0
    popping = {"groupName": "P", "consumeType": "CONSUME_POP"}
    odd = {"clientID": "c", "consumerDataSet": [{"groupName": "CID_RMQ_SYS_x", "consumeType": ["?"]}, popping]}
    assert second.ask(HEARTBEAT, body=json.dumps(odd).encode()).code == 0
    assert second.ask(9999).code == 3
    found = samples(broker.metrics())
    assert only(found, "rocketmq_producer_connections", "language", "version") == {("java", "v5_4_0"): 2}
    labels = "consumer_group", "language", "version", "consume_mode", "is_system"
    assert only(found, "rocketmq_consumer_connections", *labels) == {
        ("G", "java", "v5_4_0", "push", "false"): 2, ("H", "java", "v5_4_0", "push", "false"): 1,
        ("CID_RMQ_SYS_x", "java", "v5_4_0", "other", "true"): 1, ("P", "java", "v5_4_0", "pop", "false"): 1,
    }  # fmt: skip
    assert only(found, "flintmq_broker_connections", "node_type") == {("broker",): 2}
    assert only(found, "flintmq_broker_accepted_total", "node_type") == {("broker",): 2}
    assert only(found, "flintmq_broker_unsupported_total", "request") == {("9999",): 1}
    first.close()
    assert within(lambda: "rocketmq_producer_connections" not in broker.metrics())


def test_how_far_groups_are(writing: Callable[..., Broker], line: Connected):
    """One that pulls, by its offsets; one that pops, by what it did not acknowledge."""
    broker = writing()
    talk, store = line(broker), stored(broker)
    before = int(time.time() * 1000)
    for number in range(6):
        assert talk.ask(SEND, send(queue_id=number % 2), b"x").code == 0
    store.wait_dispatched(60)
    talk.ask(HEARTBEAT, body=heartbeat("a", "G", "Done", topics={"T": "*"}))
    for group, offsets in (("G", (1, 3)), ("Done", (3, 3))):
        for queue_id, offset in enumerate(offsets):
            asked = {"consumerGroup": group, "topic": "T", "queueId": queue_id, "commitOffset": offset}
            assert talk.ask(COMMIT, asked).code == 0
    [given] = popped(talk.ask(POP, pop(group="P", queueId=0, maxMsgNums=1)))
    assert len(popped(talk.ask(POP, pop(group="P", queueId=0, maxMsgNums=1)))) == 1
    assert talk.ask(ACK, given.fields(group="P")).code == 0
    found = samples(broker.metrics())
    lag, labels = "rocketmq_consumer_lag_messages", ("consumer_group", "topic")
    assert only(found, lag, *labels) == {("G", "T"): 2, ("Done", "T"): 0, ("P", "T"): 2}
    assert only(found, "rocketmq_consumer_inflight_messages", *labels) == {("P", "T"): 1}
    assert only(found, "rocketmq_consumer_ready_messages", *labels) == {("P", "T"): 1}
    ages = only(found, "rocketmq_consumer_lag_latency", *labels)
    assert ages.keys() == {("G", "T"), ("Done", "T"), ("P", "T")} and ages["Done", "T"] == 0
    assert all(0 <= age <= time.time() * 1000 - before for age in ages.values())
    time.sleep(0.05)
    later = page(broker, "rocketmq_consumer_lag_latency", *labels)
    assert later["G", "T"] >= ages["G", "T"] + 50 and later["Done", "T"] == 0


def test_a_group_that_begins_to_pop(writing: Callable[..., Broker], line: Connected, monkeypatch: pytest.MonkeyPatch):
    """A page of the moment at which it is not known yet where the group goes on."""
    broker, pages, begin = writing(), list[dict[tuple[str, ...], float]](), Pops._begin
    talk, store = line(broker), stored(broker)
    for _ in range(6):
        assert talk.ask(SEND, send(), b"x").code == 0
    assert store.wait_dispatched(60)
    store.commit_offset("G", "T", 0, 5)

    async def begin_later(*given: Any) -> None:
        pages.append(page(broker, "rocketmq_consumer_lag_messages", "topic"))
        await begin(*given)

    monkeypatch.setattr(Pops, "_begin", begin_later)
    assert len(popped(talk.ask(POP, pop(queueId=0)))) == 1
    assert pages == [{("T",): 1}]


def test_ages_go_by_the_brokers_clock(tmp_path: Path):
    with BrokerControl(tmp_path / "store") as broker, Line(broker.address) as talk:
        assert talk.ask(SEND, send(), b"x").code == 0 and broker.store.wait_dispatched(60)
        broker.store.commit_offset("G", "T", 0, 0)
        broker.advance(3600)
        [age] = only(samples(broker.metrics()), "rocketmq_consumer_lag_latency", "topic").values()
        assert 3_600_000 <= age < 3_700_000


def test_all_offsets_are_looked_at_once(
    writing: Callable[..., Broker], line: Connected, monkeypatch: pytest.MonkeyPatch
):
    broker, passes, entries = writing(), list[Any](), ConsumerOffsets._entries
    store = stored(broker)
    for number in range(50):
        store.commit_offset(f"G{number}", "T", 0, 0)

    def counted(offsets: ConsumerOffsets, wanted: Callable[[str, str], bool]) -> Any:
        passes.append(wanted)
        return entries(offsets, wanted)

    monkeypatch.setattr(ConsumerOffsets, "_entries", counted)
    assert len(page(broker, "rocketmq_consumer_lag_messages", "consumer_group")) == 50 and len(passes) == 1
    assert line(broker).ask(GET_OFFSETS).body.count(b"T@G") == 50 and len(passes) == 2


def test_an_offset_beside_the_queue(writing: Callable[..., Broker], line: Connected):
    """After its end, and before its begin: no lag below 0, none of what is gone."""
    broker = writing()
    talk, store = line(broker), stored(broker)
    assert talk.ask(SEND, send(), b"x").code == 0 and store.wait_dispatched(60)
    store.commit_offset("G", "T", 0, 99)
    store.commit_offset("G", "Nowhere", 3, 5)
    lags = page(broker, "rocketmq_consumer_lag_messages", "consumer_group", "topic")
    assert lags == {("G", "T"): 0, ("G", "Nowhere"): 0}


def test_a_store_that_is_only_read(served: Callable[..., Broker], resting: Path, line: Connected):
    broker = served(resting)
    talk = line(broker)
    assert talk.ask(PULL, pull(maxMsgNums=7)).code == 0
    asked = {"consumerGroup": "G", "topic": "T", "queueId": 0, "commitOffset": 7}
    assert talk.ask(COMMIT, asked).code == 0
    found = samples(broker.metrics())
    assert only(found, "rocketmq_consumer_lag_messages", *GROUP) == {("G", "T", "false", "false"): 23}
    assert only(found, "rocketmq_messages_out_total", "topic") == {("T",): 7}
    assert only(found, "rocketmq_broker_permission", "node_type") == {("broker",): 4}
    assert only(found, "rocketmq_consumer_lag_latency", "topic")["T",] > 0
    assert "rocketmq_messages_in_total" not in found and "rocketmq_consumer_ready_messages" not in found


def test_no_metric_has_more_samples_than_the_limit(writing: Callable[..., Broker]):
    """Those of topics that somebody made come first."""
    broker = writing(config={"metricsOtelCardinalityLimit": 3})
    store = stored(broker)
    for number in range(5):
        store.put(Message(f"T{number}", b"x"))
        store.commit_offset("G", f"T{number}", 0, 0)
        store.commit_offset(f"G{number}", f"%RETRY%G{number}", 0, 0)
    store.commit_offset("G", "BenchmarkTest", 0, 0)
    found = samples(broker.metrics())
    assert only(found, "rocketmq_messages_in_total", "topic").keys() == {("T0",), ("T1",), ("T2",)}
    assert only(found, "rocketmq_consumer_lag_messages", "topic").keys() == {("T0",), ("T1",), ("T2",)}
    [left_out] = only(found, "flintmq_broker_left_out", "node_id").values()
    puts_by_duration = 13 - 3
    lags = 5 + 5 + 1 - 3
    assert left_out == 2 + lags + puts_by_duration


def test_ages_are_left_out_where_they_take_long(writing: Callable[..., Broker], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(figures, "TIMES_S", -1.0)
    broker = writing()
    store = stored(broker)
    store.put(Message("T", b"x"))
    store.commit_offset("G", "T", 0, 0)
    assert store.wait_dispatched(60)
    found = samples(broker.metrics())
    assert only(found, "rocketmq_consumer_lag_messages", "topic") == {("T",): 1}
    assert "rocketmq_consumer_lag_latency" not in found
    assert only(found, "flintmq_broker_left_out", "node_type") == {("broker",): 1}


def test_a_page_while_clients_come_and_go(writing: Callable[..., Broker], line: Connected):
    """Another thread reads the loop's tables: none of them changes under its hands."""
    broker, done = writing(), threading.Event()

    def come_and_go() -> None:
        talk, number = line(broker), 0
        while not done.is_set():
            number += 1
            groups = [f"G{number}-{one}" for one in range(20)]
            assert talk.ask(HEARTBEAT, body=heartbeat(f"c{number}", *groups, topics={"T": "*"})).code == 0
            assert talk.ask(SEND, send(f"T{number % 50}"), b"x").code == 0
            talk.ask(POP, pop(f"T{number % 50}", groups[0]))

    with beside(come_and_go):
        for _ in range(40):
            samples(broker.metrics())
        done.set()
    assert broker.stats().failed == 0
