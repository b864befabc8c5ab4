"""Sends: each is stored as RocketMQ's broker stores it, and answered as it answers."""

import contextlib
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import flintmq
from flintmq.broker import Broker
from flintmq.broker.served_store import ServedStore
from flintmq.message import Message, PutResult, StoredMessage
from flintmq.store.message_store import MessageStore
from flintmq.store.services.topics import TopicSettings
from tests.broker import talk
from tests.broker.conftest import SMALL
from tests.broker.talk import Line, batch, heartbeat, pull, records, send
from tests.support.threads import within

PROPERTIES = "KEYS\x01k1 k2\x02UNIQ_KEY\x01AC10\x02WAIT\x01true\x02TAGS\x01red\x02"
MARKS = "CLUSTER\x01DefaultCluster\x02MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02"
ONE_WAY = 2


def stored(broker: Broker) -> MessageStore:
    assert isinstance(broker.store, MessageStore)
    assert broker.store.wait_dispatched(60)
    return broker.store


def only(broker: Broker, topic: str = "T", queue_id: int = 0) -> StoredMessage:
    """The one message of a queue."""
    [found] = stored(broker).get(topic, queue_id, 0).messages
    return found


def test_a_message_is_stored_as_it_came(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing()
    with Line(broker.address) as client:
        mine = "{}:{}".format(*client.socket.getsockname())
        answer = client.ask(310, send("T", 2, PROPERTIES, flag=5, sys_flag=1), b"body")
    assert (answer.code, answer.remark, answer.language) == (0, None, "JAVA")
    one = only(broker, "T", 2)
    assert answer.fields == {
        "msgId": one.offset_msg_id,
        "queueId": "2",
        "queueOffset": "0",
        "transactionId": "AC10",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
    }
    assert (one.body, one.flag, one.sys_flag, one.born_host) == (b"body", 5, 1, mine)
    assert (one.born_timestamp, one.reconsume_times, one.tags, one.keys) == (1_700_000_000_000, 0, "red", "k1 k2")
    assert one.fields.properties == (PROPERTIES + MARKS).encode()
    assert one.store_host == broker.address, "VIEW_MESSAGE_BY_ID goes to the address in the id"


@pytest.mark.parametrize("separators", [talk.PLAIN, talk.LOOSE])
def test_a_message_gets_the_broker_s_properties_once(
    writing: Callable[..., Broker],
    line: Callable[[Broker], Line],
    monkeypatch: pytest.MonkeyPatch,
    separators: tuple[str, str],
):
    """By the compiled way and the other one; a client that gives a message back has them in any order."""
    monkeypatch.setattr(talk, "SEPARATORS", separators)
    broker = writing()
    client = line(broker)
    back = "TRACE_ON\x01true\x02UNIQ_KEY\x01U\x02MSG_REGION\x01DefaultRegion\x02CLUSTER\x01DefaultCluster\x02"
    for text in ("UNIQ_KEY\x01U\x02", "UNIQ_KEY\x01U\x02", back):
        assert client.ask(310, send("T", 0, text), b"x").code == 0
    assert stored(broker).wait_dispatched(60)
    found = [one.fields.properties.decode() for one in stored(broker).get("T", 0, 0).messages]
    assert found == ["UNIQ_KEY\x01U\x02" + MARKS] * 2 + [back]


def test_the_long_form(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    """Go's client sends so (10), and ends properties without their last sign."""
    broker = writing()
    fields = {
        "producerGroup": "P", "topic": "T", "defaultTopic": "TBW102", "defaultTopicQueueNums": 4, "queueId": 1,
        "sysFlag": 0, "bornTimestamp": 5, "flag": 0, "properties": "TAGS\x01x", "reconsumeTimes": 0,
        "unitMode": "false", "maxReconsumeTimes": 0, "batch": "false",
    }  # fmt: skip
    assert line(broker).ask(10, fields, b"go").code == 0
    one = only(broker, "T", 1)
    assert (one.body, one.tags, one.properties["CLUSTER"]) == (b"go", "x", "DefaultCluster")
    assert one.msg_id, "as RocketMQ's broker, it gives a message without a key one"


def test_the_first_send_makes_the_topic(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing()
    client = line(broker)
    assert client.ask(105, {"topic": "New"}).code == 17
    template = client.ask(105, {"topic": "TBW102"})
    assert b'"perm":7' in template.body and b'"writeQueueNums":8' in template.body
    numbers = [client.start(310, send("New", n % 4, queues=4), b"%d" % n) for n in range(40)]
    assert [client.answer(number).code for number in numbers] == [0] * 40
    route = client.ask(105, {"topic": "New"})
    assert route.code == 0 and b'"perm":6' in route.body and b'"writeQueueNums":4' in route.body
    bodies = [one.body for queue in range(4) for one in stored(broker).get("New", queue, 0).messages]
    assert sorted(bodies) == sorted(b"%d" % n for n in range(40))


def test_no_topic_is_made_where_that_is_off(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    client = line(writing(config={"autoCreateTopicEnable": "false"}))
    assert client.ask(105, {"topic": "TBW102"}).code == 17
    answer = client.ask(310, send("New"), b"x")
    assert (answer.code, answer.remark) == (17, "topic[New] not exist, apply first please!")


def test_a_queue_that_a_topic_has_not(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing()
    client = line(broker)
    stored(broker).create_topic("T", 4)
    assert client.ask(310, send("T", 4), b"x").code == 1
    places = {int(client.ask(310, send("T", -1), b"x").fields["queueId"]) for _ in range(60)}
    assert places == {0, 1, 2, 3}, "any of them"
    assert stored(broker).topic("T").write_queues == 4  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("topic", "code"),
    [("", 1), (" ", 1), ("a/b", 1), ("ä", 1), ("x" * 128, 1), ("SCHEDULE_TOPIC_XXXX", 16),
     ("RMQ_SYS_TRANS_HALF_TOPIC", 16), ("rmq_sys_wheel_timer", 16), ("x" * 127, 0), ("a%b|c-D_9", 0)],
)  # fmt: skip
def test_topics(writing: Callable[..., Broker], line: Callable[[Broker], Line], topic: str, code: int):
    answer = line(writing()).ask(310, send(topic), b"x")
    assert answer.code == code and (answer.remark or code == 0)


def test_what_the_store_refuses(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing(config={"maxMessageSize": 1000})
    client = line(broker)
    assert client.ask(310, send("T"), b"x" * 1000).code == 0
    large = client.ask(310, send("T"), b"x" * 1001)
    assert large.code == 13 and "msg body length limit 1000B" in str(large.remark)
    assert client.ask(310, send("T", 0, "a\x01" + "b" * 33_000), b"x").code == 13
    assert client.ask(320, send("T", batch="true"), batch((b"", "")) * 46).code == 13, "1,012 bytes together"
    assert client.ask(310, send("T", 0, "DELAY\x011\x02" + "a\x01b\x02" * 20_000), b"x").code == 13
    assert client.ask(310, send("T", 0, "a\x01\0\x02"), b"x").code == 13, "a zero byte"
    for wrong in ("TIMER_DELAY_MS\x01x\x02", "TIMER_DELAY_SEC\x01259201\x02"):
        timer = client.ask(310, send("T", 0, wrong), b"x")
        assert timer.code == 13 and "WHEEL_TIMER_MSG_ILLEGAL" in str(timer.remark)
    assert len(stored(broker).get("T", 0, 0).messages) == 1


@pytest.mark.parametrize("name", list("behg"))
def test_a_field_that_is_missing_or_none(writing: Callable[..., Broker], line: Callable[[Broker], Line], name: str):
    client = line(writing())
    without = {one: value for one, value in send("T").items() if one != name}
    if name != "h":  # a flag may be missing
        answer = client.ask(310, without, b"x")
        assert answer.code == 1 and f"field {name}" in str(answer.remark)
    if name != "b":
        answer = client.ask(310, {**send("T"), name: "x"}, b"x")
        assert answer.code == 1 and f"field {name}" in str(answer.remark)


def test_oneway(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    """Nothing is answered, and what came before the client hung up is stored."""
    broker = writing()
    client = line(broker)
    for n in range(50):
        client.start(310, send("T", 0), b"%d" % n, flag=ONE_WAY)
    assert client.is_quiet(0.1)
    client.close()
    assert within(lambda: len(list(stored(broker))) == 50)


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_messages_of_a_connection_keep_their_order(
    writing: Callable[..., Broker], line: Callable[[Broker], Line], flush: str
):
    broker = writing(config={"flushDiskType": flush})
    client = line(broker)
    numbers = [client.start(310, send("T", 0), b"%d" % n) for n in range(300)]
    offsets = [int(client.answer(number).fields["queueOffset"]) for number in numbers]
    assert offsets == list(range(300))
    found = [one.body for one in stored(broker)]
    assert found == [b"%d" % n for n in range(300)]


def test_under_sync_flush_an_answer_means_the_disk(
    writing: Callable[..., Broker], line: Callable[[Broker], Line], monkeypatch: pytest.MonkeyPatch
):
    broker = writing(config={"flushDiskType": "SYNC_FLUSH"})
    client = line(broker)
    assert client.ask(310, send("T", 0), b"x").code == 0
    store = stored(broker)
    assert store.stats().flush_behind_bytes == 0


def test_batches(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing()
    client = line(broker)
    parts = [
        (b"a", "TAGS\x01t\x02UNIQ_KEY\x01U1\x02"),
        (b"b", "TAGS\x01t\x02UNIQ_KEY\x01U2"),
        (b"", "UNIQ_KEY\x01U3\x02"),
    ]
    answer = client.ask(320, send("T", 1, "UNIQ_KEY\x01U1,U2,U3\x02WAIT\x01true\x02", batch="true"), batch(*parts))
    assert answer.code == 0
    found = stored(broker).get("T", 1, 0).messages
    assert [one.body for one in found] == [b"a", b"b", b""]
    assert [one.msg_id for one in found] == ["U1", "U2", "U3"]
    assert {one.flag for one in found} == {7}
    assert answer.fields["msgId"] == ",".join(one.offset_msg_id for one in found)
    assert (answer.fields["queueOffset"], answer.fields["transactionId"]) == ("0", "U1,U2,U3")


@pytest.mark.parametrize("code", [310, 320])
def test_a_topic_that_is_deleted_as_it_is_made(
    writing: Callable[..., Broker], line: Callable[[Broker], Line], monkeypatch: pytest.MonkeyPatch, code: int
):
    real = ServedStore.make_topic

    async def make_topic(self: ServedStore, name: str, settings: TopicSettings) -> None:
        await real(self, name, settings)
        await self.run(self.store.delete_topic, name)

    monkeypatch.setattr(ServedStore, "make_topic", make_topic)
    broker = writing()
    answer = line(broker).ask(code, send("New"), batch((b"x", "")))
    assert (answer.code, answer.remark) == (17, "topic[New] not exist, apply first please!")
    assert broker.stats().failed == 0


def test_a_batch_is_read_and_stored_by_a_worker(
    writing: Callable[..., Broker], line: Callable[[Broker], Line], monkeypatch: pytest.MonkeyPatch
):
    """A frame has room for hundreds of thousands of messages: in the loop they would keep all others waiting."""
    threads, real = list[str](), MessageStore.put_batch

    def put_batch(self: MessageStore, messages: list[Message], *rest: Any) -> list[PutResult]:
        threads.append(threading.current_thread().name)
        assert type(messages) is list, "they are made by the same thread"
        return real(self, messages, *rest)

    monkeypatch.setattr(MessageStore, "put_batch", put_batch)
    broker = writing()
    answer = line(broker).ask(320, send("T", 0, batch="true"), batch((b"", "")) * 5_000)
    assert answer.code == 0 and answer.fields["msgId"].count(",") == 4_999
    assert [name.rstrip("0123456789") for name in threads] == ["flintmq-broker-"]
    assert stored(broker).bounds("T", 0) == (0, 5_000)


@pytest.mark.parametrize(
    "body",
    [b"", b"x", batch((b"a", ""))[:-1], batch((b"a", "")) + b"\0", struct.pack(">iiiii", -1, 0, 0, 0, -5) + b"12"],
)
def test_a_batch_that_is_none_is_not_stored(
    writing: Callable[..., Broker], line: Callable[[Broker], Line], body: bytes
):
    broker = writing()
    answer = line(broker).ask(320, send("T", 0, batch="true"), body)
    assert answer.code == 13 and answer.remark
    assert not stored(broker).get("T", 0, 0).messages


def test_delay_levels(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing(config={"messageDelayLevel": "1s 1h"})
    client = line(broker)
    assert client.ask(310, send("T", 0, "DELAY\x011\x02"), b"soon").code == 0
    assert client.ask(310, send("T", 0, "DELAY\x012\x02"), b"late").code == 0
    answer = client.ask(11, pull("T", 0, 0, sysFlag=6, suspendTimeoutMillis=8000))
    [one] = records(answer.body)
    assert StoredMessage(one).body == b"soon"


def test_a_waiting_consumer_gets_a_message_at_once(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing()
    stored(broker).create_topic("T", 1)
    waiting, sender = line(broker), line(broker)
    for n in range(20):
        number = waiting.start(11, pull("T", 0, n, sysFlag=6, suspendTimeoutMillis=9000))
        assert waiting.is_quiet(0.02)
        sender.ask(310, send("T", 0), b"%d" % n)
        [one] = records(waiting.answer(number, 2).body)
        assert StoredMessage(one).body == b"%d" % n


def test_many_connections_send_at_once(writing: Callable[..., Broker]):
    broker = writing()

    def work(number: int) -> None:
        with Line(broker.address) as client:
            waiting = [client.start(310, send("T", number % 4), b"%d-%d" % (number, n)) for n in range(200)]
            codes.extend(client.answer(one).code for one in waiting)

    codes: list[int] = []
    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert codes == [0] * 1600
    bodies = [one.body for one in stored(broker)]
    assert len(bodies) == len(set(bodies)) == 1600


def test_a_temporary_store(line: Callable[[Broker], Line]):
    with Broker(dev=True) as broker:
        root = Path(stored(broker).root)
        assert line(broker).ask(310, send("T"), b"x").code == 0 and root.exists()
    assert not root.exists()


def test_what_was_sent_is_there_after_a_restart(tmp_path: Path):
    for n in range(3):
        with Broker(tmp_path / "s", config=SMALL) as broker, Line(broker.address) as client:
            assert client.ask(310, send("T", 0), b"%d" % n).fields["queueOffset"] == str(n)
            assert client.ask(34, body=heartbeat("c", "G", topics={"T": "*"})).code == 0
            client.ask(15, {"consumerGroup": "G", "topic": "T", "queueId": 0, "commitOffset": n + 1})
            assert client.ask(14, {"consumerGroup": "G", "topic": "T", "queueId": 0}).fields["offset"] == str(n + 1)


def test_a_message_to_the_template_ends_nothing(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    client = line(writing(config={"defaultTopicQueueNums": 2}))
    for topic in ("TBW102", "New", "Newer"):
        assert client.ask(310, send(topic), b"x").code == 0
        template = client.ask(105, {"topic": "TBW102"}).body
        assert b'"perm":7' in template and b'"writeQueueNums":2' in template
    assert b'"writeQueueNums":2' in client.ask(105, {"topic": "New"}).body, "no more than the template has"


def test_a_delay_that_is_no_number(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    client = line(writing())
    for level in ("x", "2147483648"):
        refused = client.ask(310, send("T", 0, f"DELAY\x01{level}\x02"), b"x")
        assert refused.code == 13 and "DELAY is no number" in str(refused.remark)
    prepared = client.ask(310, send("T", 0, sys_flag=4), b"x")
    assert prepared.code == 13 and "transaction:" in str(prepared.remark), "the store's own rule is said, too"


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_at_the_end_all_that_is_stored_is_answered(tmp_path: Path, flush: str, caplog: pytest.LogCaptureFixture):
    """Thousands of sends are on their way; the client goes on sending until it sees our end."""
    answers, keys = [], {**SMALL, "flushDiskType": flush}
    with Broker(tmp_path / "s", config=keys) as broker, Line(broker.address) as client:
        client.ask(310, send("T"), b"first")
        for n in range(4000):
            client.start(310, send("T", n % 4), b"%d" % n)
        ending = threading.Thread(target=broker.__exit__)
        ending.start()
        try:
            while True:
                client.start(310, send("T"), b"late", flag=0)
                while (found := client.frame(0.001)) is not None:
                    answers.append(found)
        except (EOFError, OSError):
            pass
        with contextlib.suppress(EOFError, OSError):
            while (found := client.frame(1)) is not None:
                answers.append(found)
        ending.join(20)
    with flintmq.open_store(tmp_path / "s") as view:
        stored = sum(1 for _ in view.messages())
    assert stored == 1 + sum(1 for one in answers if one.code == 0)
    assert not [one for one in caplog.records if "destroyed" in one.getMessage()]


def test_a_store_that_somebody_closed(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    """A process that shares the store with its clients may close it; they are answered, on the same connection."""
    broker = writing()
    client = line(broker)
    assert client.ask(310, send("T", 0, PROPERTIES), b"x").code == 0
    broker.store.close()
    for _ in range(2):
        refused = client.ask(310, send("T", 0, PROPERTIES), b"x")
        assert refused.code == 29 and "closed" in str(refused.remark)


def test_a_name_that_ends_like_the_keys_is_no_key(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    """Also of a send of which no frame is made: the second one."""
    broker = writing()
    client = line(broker)
    for name in ("UNIQ_KEY", "MY_UNIQ_KEY"):
        assert client.ask(310, send("T", 0, f"{name}\x01mine\x02"), b"x").code == 0
    first, second = stored(broker).get("T", 0, 0).messages
    assert first.msg_id == "mine" and second.properties["MY_UNIQ_KEY"] == "mine"
    assert second.msg_id and second.msg_id != "mine"
