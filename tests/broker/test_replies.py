"""Request and reply: a reply goes to the client that asked, and into the cluster's topic of replies."""

import asyncio
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq.broker import Broker
from flintmq.broker.served_store import ServedStore
from flintmq.remoting.frames import RemotingFrame
from tests.broker.talk import SEPARATORS, Line, request, send
from tests.broker.test_clients import HEARTBEAT
from tests.broker.test_send import stored
from tests.broker.test_transactions import heartbeat
from tests.support.loopback import SMALL_BUFFER
from tests.support.threads import within

TOPIC = "DefaultCluster_REPLY_TOPIC"
LONG = (
    "producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag", "bornTimestamp", "flag",
    "properties", "reconsumeTimes", "unitMode",
)  # fmt: skip
"""What the fields a to k of a send are called in the long form."""
Connected = Callable[[Broker], Line]


def of_reply(client: str = "asker", **more: Any) -> dict[str, Any]:
    """The fields of a reply as Java's MessageUtil.createReplyMessage makes them."""
    text = (
        f"CORRELATION_ID\x01c1\x02MSG_TYPE\x01reply\x02UNIQ_KEY\x01R1\x02TTL\x013000\x02REPLY_TO_CLIENT\x01{client}\x02"
    )
    return send(TOPIC, 0, text, **more)


def pushed(client: Line) -> RemotingFrame:
    """The next reply that this client gets."""
    while True:
        frame = client.told.pop(0) if client.told else client.frame()
        assert frame is not None and not frame.is_answer
        if frame.code == 326:
            return frame


def take(client: Line, frame: RemotingFrame, code: int = 0) -> None:
    """Answer a request of the broker's."""
    client.send(request(code, opaque=frame.opaque, flag=1))


def bodies(broker: Broker) -> list[bytes]:
    assert stored(broker).wait_dispatched(60)
    return [one.body for one in stored(broker).get(TOPIC, 0, 0).messages]


def ask(client: Line, name: str = "asker") -> None:
    """Send a request as Java's client does, which the broker's compiled way would take, if it were any message."""
    text = f"CORRELATION_ID\x01c1\x02REPLY_TO_CLIENT\x01{name}\x02TTL\x013000\x02UNIQ_KEY\x01A1\x02"
    assert client.ask(310, send("T", 0, text), b"question").code == 0


@pytest.mark.parametrize("known_by", ["request", "second request", "heartbeat"])
@pytest.mark.parametrize("code", [324, 325])
def test_a_reply(writing: Callable[..., Broker], line: Connected, code: int, known_by: str):
    broker = writing()
    asker, replier = line(broker), line(broker)
    if known_by == "heartbeat":
        assert asker.ask(HEARTBEAT, body=heartbeat("asker", "P")).code == 0
    else:
        ask(asker)
        if known_by == "second request":
            ask(asker)
    fields, before = of_reply(flag=5), int(time.time() * 1000)
    sent = fields if code == 325 else dict(zip(LONG, (fields[short] for short in "abcdefghijk"), strict=True))
    number = replier.start(code, sent, b"answer")
    found = pushed(asker)
    assert (found.code, found.flag, found.body) == (326, 0, b"answer")
    told = dict(found.fields)
    assert before <= int(told["storeTimestamp"]) <= time.time() * 1000
    text, _, pushed_at = told.pop("properties").partition("PUSH_REPLY_TIME\x01")
    assert text == fields["i"] and pushed_at == told.pop("storeTimestamp") + "\x02"
    assert told == {
        "producerGroup": "P", "topic": TOPIC, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": "0",
        "sysFlag": "0", "bornTimestamp": "1700000000000", "flag": "5", "reconsumeTimes": "0", "unitMode": "false",
        "bornHost": "{}:{}".format(*replier.socket.getsockname()), "storeHost": broker.address,
    }  # fmt: skip
    assert replier.is_quiet(0.05), "the answer says whether the client took it"
    take(asker, found)
    answer = replier.answer(number)
    assert (answer.code, answer.remark, answer.fields["queueOffset"]) == (0, None, "0")
    assert len(answer.fields["msgId"]) == 32 and bodies(broker) == [b"answer"]


def test_replies_that_are_not_stored(writing: Callable[..., Broker], line: Connected):
    broker = writing(config={"storeReplyMessageEnable": "false"})
    asker, replier = line(broker), line(broker)
    ask(asker)
    number = replier.start(325, of_reply(), b"answer")
    take(asker, pushed(asker))
    answer = replier.answer(number)
    assert (answer.code, answer.fields["msgId"], answer.fields["queueOffset"]) == (0, "0", "0")
    assert set(stored(broker).topics()) == {"T"}


def test_replies_that_nobody_gets(writing: Callable[..., Broker], line: Connected, monkeypatch: pytest.MonkeyPatch):
    broker = writing()
    asker, other, replier = line(broker), line(broker), line(broker)
    unknown = replier.ask(325, of_reply(), b"1")
    assert (unknown.code, unknown.remark) == (1, "push reply message fail, channel of <asker> not found.")
    nameless = replier.ask(325, send(TOPIC), b"2")
    assert (nameless.code, nameless.remark) == (1, "reply message properties[REPLY_TO_CLIENT] is null")
    ask(asker)
    number = replier.start(325, of_reply(), b"3")
    found = pushed(asker)
    take(other, found)  # which was not asked
    assert replier.is_quiet(0.05)
    take(asker, found, code=1)
    refused = replier.answer(number)
    assert (refused.code, refused.remark) == (1, "push reply message to askerfail.")
    monkeypatch.setattr("flintmq.broker.calls.ANSWER_S", 0.1)
    late = replier.ask(325, of_reply(), b"4")
    assert (late.code, late.remark) == (1, "push reply message to askerfail.")
    monkeypatch.undo()
    number = replier.start(325, of_reply(), b"5")
    pushed(asker), pushed(asker)
    asker.close()
    assert replier.answer(number, 5).code == 1, "at once, when it has gone"
    assert within(lambda: replier.ask(325, of_reply(), b"6").remark == unknown.remark), "it is forgotten"
    assert bodies(broker)[:5] == [b"1", b"2", b"3", b"4", b"5"], "they are stored all the same"


def test_another_connection_of_the_client_takes_its_place(writing: Callable[..., Broker], line: Connected):
    broker = writing()
    old, new, replier = line(broker), line(broker), line(broker)
    ask(old)
    assert new.ask(HEARTBEAT, body=heartbeat("asker", "P")).code == 0
    old.close()
    assert within(lambda: broker.stats().connections == 2)
    number = replier.start(325, of_reply(), b"answer")
    take(new, pushed(new))
    assert replier.answer(number).code == 0


def test_who_forwards_a_request_does_not_get_its_reply(writing: Callable[..., Broker], line: Connected):
    """It copies a message with all its properties, the client id of who asked among them."""
    broker = writing()
    asker, forwarder, replier = line(broker), line(broker), line(broker)
    ask(asker)
    ask(forwarder)
    number = replier.start(325, of_reply(), b"answer")
    take(asker, pushed(asker))
    assert replier.answer(number).code == 0 and forwarder.is_quiet(0.05)
    asker.close()
    assert within(lambda: broker.stats().connections == 2)
    ask(forwarder)
    number = replier.start(325, of_reply(), b"answer")
    take(forwarder, pushed(forwarder))
    assert replier.answer(number).code == 0, "nobody else is there by that id"


def test_a_request_that_is_refused_makes_no_client_known(writing: Callable[..., Broker], line: Connected):
    broker = writing()
    asker = line(broker)
    text = f"REPLY_TO_CLIENT\x01asker\x02UNIQ_KEY\x01A1\x02long\x01{'x' * 32768}\x02"
    assert asker.ask(310, send("T", 0, text), b"question").code == 13
    refused = line(broker).ask(325, of_reply(), b"1")
    assert (refused.code, refused.remark) == (1, "push reply message fail, channel of <asker> not found.")


def test_nobody_is_known_by_a_connection_that_has_ended(
    writing: Callable[..., Broker], monkeypatch: pytest.MonkeyPatch
):
    """A request, and a half message, that wait until their topic is made."""
    broker, came, go_on, make = writing(), threading.Event(), threading.Event(), ServedStore.make_topic

    async def made(of: ServedStore, *asked: Any) -> None:
        came.set()
        while not go_on.is_set():
            await asyncio.sleep(0.001)
        await make(of, *asked)

    monkeypatch.setattr(ServedStore, "make_topic", made)
    with Line(broker.address) as gone:
        text = "REPLY_TO_CLIENT\x01asker\x02TRAN_MSG\x01true\x02PGROUP\x01P\x02"
        gone.start(310, send("New", 0, text), b"question")
        assert came.wait(5)
    assert within(lambda: broker.stats().connections == 0)
    go_on.set()
    assert within(lambda: stored(broker).bounds("RMQ_SYS_TRANS_HALF_TOPIC", 0)[1] == 1)
    clients = broker._now._clients
    assert (clients._peers, clients._named, clients._producers, clients._produces) == ({}, {}, {}, {})


def test_replies_to_a_client_that_reads_nothing(
    writing: Callable[..., Broker], line: Connected, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("flintmq.broker.connection.UNSENT_MAX", 1 << 20)
    broker, body = writing(config={"storeReplyMessageEnable": "false"}), bytes(1 << 20)
    replier = line(broker)
    with Line(broker.address, receive_buffer=SMALL_BUFFER) as asker:
        ask(asker)
        for _ in range(40):
            replier.start(325, of_reply(), body, flag=2)
        refused = replier.ask(325, of_reply(), body)
        assert (refused.code, refused.remark) == (1, "push reply message to askerfail."), "and at once"
        kept = 0
        while asker.frame(0.5) is not None:
            kept += 1
        assert 1 <= kept <= 10, "what the system's buffers hold, the limit, and one more"


def test_replies_to_a_client_that_answers_none(
    writing: Callable[..., Broker], line: Connected, monkeypatch: pytest.MonkeyPatch
):
    """Each is kept until it is answered, or 10 s are over."""
    monkeypatch.setattr("flintmq.broker.calls.UNANSWERED_MAX", 1000)
    broker = writing()
    asker, replier = line(broker), line(broker)
    ask(asker)
    numbers, found = list[int](), list[RemotingFrame]()
    for _ in range(2):
        numbers.append(replier.start(325, of_reply(), bytes(1000)))
        found.append(pushed(asker))
    assert replier.ask(325, of_reply(), bytes(1000)).remark == "push reply message to askerfail."
    for number, frame in zip(numbers, found, strict=True):
        take(asker, frame)
        assert replier.answer(number).code == 0
    number = replier.start(325, of_reply(), bytes(1000))
    take(asker, pushed(asker))
    assert replier.answer(number).code == 0 and not broker._now._clients.calls._unanswered


def test_a_reply_may_not_go_anywhere(writing: Callable[..., Broker], line: Connected):
    broker = writing()
    asker, replier = line(broker), line(broker)
    ask(asker)
    for topic, code in (("SCHEDULE_TOPIC_XXXX", 16), ("a/b", 1)):
        assert replier.ask(325, {**of_reply(), "b": topic}).code == code
    assert replier.ask(325, {**of_reply(), "e": 7}).code == 1
    assert asker.is_quiet(0.05)


def test_the_topic_of_replies_has_a_route(writing: Callable[..., Broker], line: Connected):
    """Before anybody replied, and where no topic is made by itself."""
    broker = writing(config={"autoCreateTopicEnable": "false"}, cluster="Orders")
    client = line(broker)
    [queues] = json.loads(client.ask(105, {"topic": "Orders_REPLY_TOPIC"}).body)["queueDatas"]
    assert (queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]) == (1, 1, 6)
    assert client.ask(105, {"topic": TOPIC}).code == 17
    assert "Orders_REPLY_TOPIC" in json.loads(client.ask(206).body)["topicList"]
    assert stored(broker).topics() == {}
    assert client.ask(325, {**of_reply(), "b": "Orders_REPLY_TOPIC"}).fields["queueOffset"] == "0"
    made = stored(broker).topic("Orders_REPLY_TOPIC")
    assert made is not None and (made.read_queues, made.write_queues) == (1, 1)


def test_read_only(served: Callable[..., Broker], resting: Path, line: Connected):
    client = line(served(resting))
    assert client.ask(324, of_reply()).code == 16 == client.ask(325, of_reply()).code
    assert SEPARATORS == (",", ":"), "requests here are such as kernels read"
