"""Plain pulls: kernels read and answer them, as the general codec does, and nothing else is different."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq.broker import Broker
from flintmq.kernels import compiled
from flintmq.message import Message
from flintmq.remoting.frames import ROCKETMQ, RemotingFrame, decode_frame, encode_frame, frame_size
from flintmq.store.message_store import MessageStore
from tests.broker.talk import LOOSE, Line, heartbeat, pull, records, request, send
from tests.support.loopback import SMALL_BUFFER
from tests.support.threads import within

Connected = Callable[[Broker], Line]
PULL, LITE, SEND, HEARTBEAT = 11, 361, 310, 34
HOLD = {"sysFlag": 4 | 2, "suspendTimeoutMillis": 8000}  # longer than any test waits
ONE_WAY = 2


def filled(broker: Broker, count: int = 30, size: int = 10) -> MessageStore:
    """Its store with messages in queue 0 of T, in files that were read once: what follows is read in the loop."""
    assert isinstance(broker.store, MessageStore)
    broker.store.create_topic("T", 2)
    for n in range(count):
        broker.store.put(Message("T", bytes([n % 251]) * size, tags=f"t{n % 3}", queue_id=0))
    assert broker.store.wait_dispatched(60)
    with Line(broker.address) as talk:
        assert talk.ask(PULL, pull()).code == 0
    return broker.store


def raw_answer(talk: Line, data: bytes) -> bytes:
    """What comes back, as bytes."""
    talk.send(data)
    got = bytearray()
    while (size := frame_size(got)) is None or len(got) < size:
        got += talk.socket.recv(1 << 20)
    assert len(got) == size
    return bytes(got)


def rocketmq(code: int, fields: dict[str, Any]) -> bytes:
    texts = {name: str(value) for name, value in fields.items()}
    return encode_frame(RemotingFrame(code, 1, 0, None, texts, language="JAVA", version=493), ROCKETMQ)


ASKED: dict[str, dict[str, Any]] = {
    "from the begin": {},
    "a few": {"offset": 5, "maxMsgNums": 3},
    "tags": {"subscription": "t1 || t2"},
    "no such tag": {"subscription": "nobody"},
    "at the end": {"offset": 30},
    "beyond the end": {"offset": 99},
    "before the begin": {"offset": -1},
    "a queue without messages": {"queue_id": 1},
    "a time that is soon over": {"offset": 30, "sysFlag": 6, "suspendTimeoutMillis": 1},
    "an offset to commit": {"sysFlag": 5, "commitOffset": 7},
    "no such topic": {"topic": "Nope"},
    "no such queue": {"queue_id": 2},
    "no subscription": {"sysFlag": 0, "group": "nobody"},
    "a condition": {"subscription": "TAGS IN ('t1')", "expressionType": "SQL92"},
    "no condition": {"subscription": "a >", "expressionType": "SQL92"},
    "no number": {"maxMsgNums": "many"},
}


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED.keys())
@pytest.mark.parametrize("code", [PULL, LITE])
def test_the_answer_is_the_same_in_each_form(
    writing: Callable[..., Broker], line: Connected, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], code: int
):
    broker = writing()
    store, talk, fields = filled(broker), line(broker), pull(**asked)
    plain = raw_answer(talk, request(code, fields))
    if asked.get("sysFlag") == 5:
        assert store.consumer_offset("G", "T", 0) == 7
    monkeypatch.setattr("tests.broker.talk.SEPARATORS", LOOSE)
    assert raw_answer(talk, request(code, fields)) == plain == raw_answer(talk, rocketmq(code, fields))
    assert encode_frame(decode_frame(plain)) == plain and broker.stats().failed == 0


@pytest.mark.skipif(not compiled(), reason="the kernels are not compiled here")
def test_plain_pulls_and_sends_need_no_frame(
    writing: Callable[..., Broker], line: Connected, monkeypatch: pytest.MonkeyPatch
):
    broker = writing()
    store, talk, decoded = filled(broker), line(broker), list[int]()

    def watched(data: bytes) -> RemotingFrame:
        found = decode_frame(data)
        decoded.append(found.code)
        return found

    monkeypatch.setattr("flintmq.broker.remoting_line.decode_frame", watched)
    talk.ask(SEND, send("T", 0, "UNIQ_KEY\1k\2"), b"the first one makes it known")
    assert store.wait_dispatched(60)
    held = talk.start(PULL, pull(offset=31, **HOLD))
    assert within(lambda: broker.stats().held == 1)
    assert talk.ask(PULL, pull()).code == 0
    assert talk.ask(SEND, send("T", 0, "UNIQ_KEY\1l\2"), b"news").code == 0
    assert next(records(talk.answer(held).body)).count(b"news") == 1
    assert decoded == [SEND], "the first one to a topic"
    talk.ask(HEARTBEAT, body=heartbeat("a", "G"))
    assert decoded[-1] == HEARTBEAT


def test_a_send_wakes_all_that_are_held(writing: Callable[..., Broker], line: Connected):
    """Of one connection and of others, each once; those of another queue stay, and those with other tags go on."""
    broker = writing()
    filled(broker)
    talks = [line(broker) for _ in range(3)]
    numbers = [[talk.start(PULL, pull(offset=30, **HOLD)) for _ in range(20)] for talk in talks]
    tagged = talks[0].start(PULL, pull(offset=30, subscription="other", **HOLD))
    stays = talks[1].start(PULL, pull(queue_id=1, **HOLD))
    assert within(lambda: broker.stats().held == 62)
    assert talks[2].ask(SEND, send("T", 0, "UNIQ_KEY\1k\2TAGS\1red\2"), b"news").code == 0
    for talk, own in zip(talks, numbers, strict=True):
        answers = [talk.answer(number) for number in own]
        assert {(one.code, one.body.count(b"news"), one.fields["nextBeginOffset"]) for one in answers} == {(0, 1, "31")}
    behind = talks[0].answer(tagged)
    assert (behind.code, behind.fields["nextBeginOffset"]) == (20, "31")
    assert broker.stats().held == 1
    assert talks[2].ask(SEND, send("T", 1, "UNIQ_KEY\1l\2"), b"more").code == 0
    assert b"more" in talks[1].answer(stays).body and broker.stats().held == 0


@pytest.mark.parametrize("size", [1000, 1100, 30_000, 100_000])
def test_large_bodies_among_small_answers(writing: Callable[..., Broker], line: Connected, size: int):
    """A large body is sent apart from its header; what is asked in one block is answered in its order."""
    broker = writing(config={"mappedFileSizeCommitLog": 8 << 20})
    store = filled(broker, 32, size)
    talk = line(broker)
    asked = [{"offset": 0}, {"offset": 32}, {"offset": 1, "maxMsgNums": 1}, {"offset": 31}, {"offset": 99}] * 3
    talk.send(b"".join(request(PULL, pull(**one), opaque=n) for n, one in enumerate(asked)))
    for n, one in enumerate(asked):
        answer = talk.frame()
        assert answer is not None and answer.opaque == n
        wanted = store.get_raw("T", 0, one["offset"], one.get("maxMsgNums", 32))
        assert answer.body == wanted.data and answer.fields["nextBeginOffset"] == str(wanted.next_begin_offset)


def test_a_oneway_pull_commits_and_is_answered_by_nothing(writing: Callable[..., Broker], line: Connected):
    broker = writing()
    store, talk = filled(broker), line(broker)
    talk.start(PULL, pull(sysFlag=5, commitOffset=9), flag=ONE_WAY)
    talk.start(PULL, pull(offset=30, sysFlag=6, suspendTimeoutMillis=20), flag=ONE_WAY)
    assert within(lambda: broker.stats().held == 1) and within(lambda: broker.stats().held == 0)
    assert talk.ask(PULL, pull(offset=29)).opaque == 3 and talk.told == []
    assert store.consumer_offset("G", "T", 0) == 9


def test_a_client_that_takes_nothing_is_read_for_when_it_does(
    writing: Callable[..., Broker], monkeypatch: pytest.MonkeyPatch
):
    """Held pulls that news wakes: no more is read than its connection takes, and all are answered in the end."""
    monkeypatch.setattr("flintmq.broker.connection.UNSENT_MAX", 1 << 20)
    broker = writing(config={"mappedFileSizeCommitLog": 8 << 20})
    store = filled(broker)
    with Line(broker.address, receive_buffer=SMALL_BUFFER) as talk:
        numbers = [talk.start(PULL, pull(offset=30, **HOLD)) for _ in range(100)]
        assert within(lambda: broker.stats().held == 100)
        [connection] = [one for one in broker._now._listener._connections if not one.is_closed]
        transport = connection._transport
        assert transport is not None
        store.put(Message("T", b"n" * 200_000, queue_id=0))
        assert within(lambda: transport.get_write_buffer_size() > 1 << 20)
        assert not within(lambda: transport.get_write_buffer_size() > 4 << 20, 0.3)
        assert sum(talk.answer(number).body.count(b"n" * 200_000) for number in numbers) == 100
    assert broker.stats().failed == 0


def test_a_pull_of_a_group_that_is_new_makes_it(writing: Callable[..., Broker], line: Connected):
    broker = writing()
    store = filled(broker)
    assert line(broker).ask(PULL, pull(group="Fresh")).code == 0
    assert store.group("Fresh") is not None
    closed = writing(store.root + "-2", config={"autoCreateSubscriptionGroup": "false"})
    assert isinstance(closed.store, MessageStore)
    closed.store.create_topic("T", 2)
    assert line(closed).ask(PULL, pull(group="Fresh")).code == 26


def test_a_group_s_settings_act_at_once(writing: Callable[..., Broker], line: Connected):
    broker = writing()
    store, talk = filled(broker), line(broker)
    assert talk.ask(PULL, pull()).code == 0
    found = store.group("G")
    assert found is not None
    for may, code in ((False, 16), (True, 0)):
        body = {"groupName": "G", "consumeEnable": may}
        assert talk.ask(200, body=json.dumps(body).encode()).code == 0
        assert talk.ask(PULL, pull()).code == code


def test_a_subscription_is_the_newest_of_the_members(writing: Callable[..., Broker], line: Connected):
    """The broker keeps it from pull to pull, until a member says something else, or goes."""
    broker = writing()
    filled(broker)
    talk, other = line(broker), line(broker)
    asked = pull(sysFlag=0, subVersion=1)

    def offsets() -> list[int]:
        return [struct.unpack_from(">q", one, 20)[0] for one in records(talk.ask(PULL, asked).body)]

    talk.ask(HEARTBEAT, body=heartbeat("a", "G", topics={"T": "t1"}, version=7))
    assert offsets() == offsets() == list(range(1, 30, 3))
    other.ask(HEARTBEAT, body=heartbeat("b", "G", topics={"T": "t2"}, version=8))
    assert offsets() == offsets() == list(range(2, 30, 3))
    other.close()
    assert within(lambda: broker.stats().groups["G"] == 1)
    assert offsets() == list(range(1, 30, 3))
    talk.ask(35, {"clientID": "a", "consumerGroup": "G"})
    assert talk.ask(PULL, asked).code == 24


def test_a_broker_that_stops_answers_what_it_holds(tmp_path: Path):
    with Broker(tmp_path / "store", dev=True) as broker:
        filled(broker)
        talk = Line(broker.address)
        number = talk.start(PULL, pull(offset=30, **HOLD))
        assert within(lambda: broker.stats().held == 1)
    with talk:
        assert talk.answer(number).code == 19 and talk.hung_up()
