"""What operators change: topics, groups, offsets that are set back."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from flintmq.broker import Broker, store_offsets
from flintmq.broker.store_offsets import StoreOffsets
from flintmq.message import StoredMessage
from flintmq.remoting.frames import RemotingFrame
from tests.broker.talk import Line, heartbeat, pull, records, send
from tests.broker.test_send import stored
from tests.support.own_time import own_time
from tests.support.threads import within

TOPIC = {
    "topic": "T",
    "readQueueNums": 4,
    "writeQueueNums": 4,
    "perm": 6,
    "topicFilterType": "SINGLE_TAG",
    "order": "false",
}
RESET = {"topic": "T", "group": "G", "timestamp": 0, "isForce": "true"}


def route(client: Line, topic: str = "T") -> dict[str, Any]:
    [found] = json.loads(client.ask(105, {"topic": topic}).body)["queueDatas"]
    return dict(found)


def reset(client: Line, **more: Any) -> dict[int, int]:
    """Set a group's offsets; the new ones by queue. Keys of the answer are objects, which is no JSON."""
    answer = client.ask(222, {**RESET, **more})
    assert answer.code == 0, answer.remark
    text = answer.body.decode()
    pairs = re.findall(r'\{"brokerName": ?"broker-a", ?"queueId": ?(\d+), ?"topic": ?"T"\}:(\d+)', text)
    assert text.startswith('{"offsetTable":{') and text.endswith("}}")
    return {int(queue): int(offset) for queue, offset in pairs}


def test_a_topic_is_made_and_changed(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing()
    client = line(broker)
    assert client.ask(17, {**TOPIC, "attributes": "+message.type=FIFO"}).code == 0
    assert (route(client)["readQueueNums"], route(client)["perm"]) == (4, 6)
    assert client.ask(17, {**TOPIC, "writeQueueNums": 8, "readQueueNums": 8, "perm": 4}).code == 0
    assert (route(client)["writeQueueNums"], route(client)["perm"]) == (8, 4)
    settings = stored(broker).topic("T")
    assert settings is not None and dict(settings.attributes) == {"message.type": "FIFO"}, "it was not named again"
    client.ask(17, {**TOPIC, "attributes": "-message.type"})
    settings = stored(broker).topic("T")
    assert settings is not None and not settings.attributes


@pytest.mark.parametrize(
    "change",
    [
        {"topic": "a/b"},
        {"topic": ""},
        {"readQueueNums": 0},
        {"writeQueueNums": "x"},
        {"perm": 9},
        {"attributes": "x=y"},
    ],
)
def test_a_topic_that_cannot_be(writing: Callable[..., Broker], line: Callable[[Broker], Line], change: dict[str, Any]):
    broker = writing()
    answer = line(broker).ask(17, {**TOPIC, **change})
    assert answer.code in (1, 29) and answer.remark
    assert stored(broker).topics() == {}


def test_what_a_topic_lets_clients_do(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing()
    client = line(broker)
    client.ask(310, send("T"), b"x")
    assert stored(broker).wait_dispatched(60)
    client.ask(17, {**TOPIC, "perm": 4})
    refused = client.ask(310, send("T"), b"x")
    assert refused.code == 16 and "sending message is forbidden" in str(refused.remark)
    assert client.ask(11, pull()).code == 0
    client.ask(17, {**TOPIC, "perm": 2})
    assert client.ask(11, pull()).code == 16
    assert client.ask(310, send("T"), b"x").code == 0


def test_a_topic_is_deleted(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing()
    client, waiting = line(broker), line(broker)
    client.ask(34, body=heartbeat("c", "G", topics={"T": "*"}))
    client.ask(310, send("T"), b"old")
    assert stored(broker).wait_dispatched(60)
    client.ask(15, {"consumerGroup": "G", "topic": "T", "queueId": 0, "commitOffset": 1})
    number = waiting.start(11, pull(offset=1, sysFlag=6, suspendTimeoutMillis=9000))
    assert waiting.is_quiet(0.05)
    assert client.ask(215, {"topic": "T"}).code == 0 == client.ask(216, {"topic": "T"}).code
    assert waiting.answer(number, 5).code == 17, "who waits is told"
    assert client.ask(105, {"topic": "T"}).code == 17
    assert client.ask(11, pull()).code == 17
    assert stored(broker).consumer_offset("G", "T", 0) is None
    assert client.ask(310, send("T"), b"new").fields["queueOffset"] == "0"
    assert stored(broker).wait_dispatched(60)
    assert [StoredMessage(one).body for one in records(client.ask(11, pull()).body)] == [b"new"]


def test_a_group_is_deleted(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing()
    client = line(broker)
    assert client.ask(200, body=b'{"groupName":"G","retryMaxTimes":3}').code == 0
    made = stored(broker).group("G")
    assert made is not None and made.retry_max_times == 3
    stored(broker).commit_offset("G", "T", 0, 5)
    assert client.ask(207, {"groupName": "G", "cleanOffset": "true"}).code == 0
    assert stored(broker).group("G") is None and stored(broker).group_offsets("G") == {}
    assert client.ask(200, body=b"{}").code == 1


def test_offsets_of_a_group_at_rest(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing()
    client = line(broker)
    stored(broker).create_topic("T", 2)
    for n in range(10):
        client.ask(310, send("T", n % 2), b"x")
    assert stored(broker).wait_dispatched(60)
    stored(broker).create_group("G")
    for queue in range(2):
        stored(broker).commit_offset("G", "T", queue, 4)
    assert reset(client) == {0: 0, 1: 0}
    assert reset(client, timestamp=-1) == {0: 5, 1: 5}
    assert reset(client, isForce="false", timestamp=-1) == {}, "it only goes back"
    assert reset(client, queueId=1, offset=2) == {1: 2}
    assert stored(broker).group_offsets("G") == {("T", 0): 5, ("T", 1): 2}
    for wrong in ({"queueId": 2}, {"queueId": 1, "offset": 6}, {"topic": "X"}, {"group": "X"}):
        answer = client.ask(222, {**RESET, **wrong})
        assert answer.code != 0 and answer.remark
    assert stored(broker).group_offsets("G") == {("T", 0): 5, ("T", 1): 2}


def consumed(writing: Callable[..., Broker], line: Callable[[Broker], Line]) -> tuple[Broker, Line, Line]:
    """A broker with five messages of T, an operator's connection, and that of a member of G."""
    broker = writing()
    client, member = line(broker), line(broker)
    stored(broker).create_topic("T", 1)
    for _ in range(5):
        client.ask(310, send("T"), b"x")
    assert stored(broker).wait_dispatched(60)
    member.ask(34, body=heartbeat("c", "G", topics={"T": "*"}))
    return broker, client, member


def test_offsets_of_a_group_that_consumes(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    """A member learns it by its next pull, and what it commits before that does not undo it."""
    broker, client, member = consumed(writing, line)
    number = member.start(11, pull(offset=5, sysFlag=6, suspendTimeoutMillis=9000))
    assert member.is_quiet(0.05)
    assert reset(client) == {0: 0}
    told = member.answer(number, 5)
    assert (told.code, told.fields["nextBeginOffset"]) == (21, "0"), "at once, although it waits"
    assert reset(client) == {0: 0}
    member.ask(15, {"consumerGroup": "G", "topic": "T", "queueId": 0, "commitOffset": 5})
    assert stored(broker).consumer_offset("G", "T", 0) == 0
    assert member.ask(11, pull(offset=5)).code == 21
    assert len(list(records(member.ask(11, pull(offset=0)).body))) == 5
    member.ask(15, {"consumerGroup": "G", "topic": "T", "queueId": 0, "commitOffset": 5})
    assert stored(broker).consumer_offset("G", "T", 0) == 5


def test_members_are_notified_of_new_offsets(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    """As RocketMQ's Broker2Client.resetOffset: all members of the group, whatever they do just now, and nobody else."""
    broker = writing()
    client, members, other = line(broker), [line(broker), line(broker)], line(broker)
    stored(broker).create_topic("T", 2)
    for n in range(6):
        client.ask(310, send("T", n % 2), b"x")
    assert stored(broker).wait_dispatched(60)
    for n, member in enumerate(members):
        member.ask(34, body=heartbeat(f"c{n}", "G", topics={"T": "*"}))
    other.ask(34, body=heartbeat("c3", "H", topics={"T": "*"}))
    for member in (*members, other):
        while member.frame(0.05):  # of members that came
            pass
    assert reset(client, isForce="false", timestamp=-1) == {0: 3, 1: 3}
    assert reset(client, timestamp=0, queueId=1) == {1: 0}
    assert reset(client, isForce="false", timestamp=-1) == {}
    for member in members:
        first, second = member.frame(), member.frame()
        assert first is not None and second is not None and member.is_quiet(0.05), "what moves nothing is no news"
        assert (first.code, first.flag, dict(first.fields)) == (
            220, 2, {"group": "G", "topic": "T", "timestamp": "-1", "isForce": "false"},
        )  # fmt: skip
        zero, one = (b'{"brokerName":"broker-a","queueId":%d,"topic":"T"}' % queue for queue in range(2))
        assert first.body == b'{"offsetTable":{' + zero + b":3," + one + b":3}}"
        assert (second.fields["timestamp"], second.body) == ("0", b'{"offsetTable":{' + one + b":0}}")
    assert other.is_quiet(0)


def test_commits_count_again_when_a_member_has_gone_on(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    """Java's client takes 10 s for a reset; what it commits meanwhile is of before it."""
    broker, client, member = consumed(writing, line)

    def commit(offset: int) -> int | None:
        member.ask(15, {"consumerGroup": "G", "topic": "T", "queueId": 0, "commitOffset": offset})
        return stored(broker).consumer_offset("G", "T", 0)

    assert commit(4) == 4 and reset(client, offset=1) == {0: 1}
    assert member.ask(11, pull(offset=5)).code == 21 and commit(5) == 1, "it knows, and has not gone there"
    assert member.ask(11, pull(offset=1)).code == 0 and commit(2) == 2
    assert reset(client, offset=1) == {0: 1}
    assert member.ask(11, pull(offset=5)).code == 21 and commit(5) == 1
    assert member.ask(11, pull(offset=3)).code == 0 and commit(3) == 3, "it goes on elsewhere, knowingly"


# -- who knows an offset that was set ----------------------------------------------------------------------------------


class ResetTopic:
    """A topic of ten messages that the group G has consumed, its members, and an operator."""

    def __init__(self, broker: Broker, line: Callable[[Broker], Line], members: int = 1, **subscribed: str) -> None:
        self.broker, self.line, self.client = broker, line, line(broker)
        self.fill()
        self.members = [line(broker) for _ in range(members)]
        for number, member in enumerate(self.members):
            member.ask(34, body=heartbeat(f"c{number}", "G", topics=subscribed))
            self.commit(member, 10)

    def fill(self) -> None:
        stored(self.broker).create_topic("T", 1)
        for _ in range(10):
            self.client.ask(310, send("T"), b"x")
        assert stored(self.broker).wait_dispatched(60)

    def commit(self, by: Line, offset: int) -> int | None:
        """Commit an offset; that of the group, then."""
        assert by.ask(15, {"consumerGroup": "G", "topic": "T", "queueId": 0, "commitOffset": offset}).code == 0
        return stored(self.broker).consumer_offset("G", "T", 0)

    def hold(self, by: Line, offset: int = 10) -> int:
        before = self.broker.stats().held
        number = by.start(11, pull(offset=offset, sysFlag=6, suspendTimeoutMillis=9000))
        assert within(lambda: self.broker.stats().held == before + 1)
        return number


def offsets_of(broker: Broker) -> StoreOffsets:
    offsets = broker._now._rooms.offsets
    assert isinstance(offsets, StoreOffsets)
    return offsets


def moved(answer: RemotingFrame) -> int | None:
    """Where a pull is told to go; None: it may read on."""
    return int(answer.fields["nextBeginOffset"]) if answer.code == 21 else None


Connected = Callable[[Broker], Line]
Writing = Callable[..., Broker]


def test_two_that_hold_pulls_of_one_queue_learn_it_each(writing: Writing, line: Connected):
    """While members share queues out anew, two may have one for a time."""
    topic = ResetTopic(writing(), line, 2, T="*")
    one, two = topic.members
    numbers = [topic.hold(one), topic.hold(two)]
    reset(topic.client, offset=0, queueId=0)
    assert [moved(talk.answer(number, 5)) for talk, number in zip((one, two), numbers, strict=True)] == [0, 0]
    assert topic.commit(one, 10) == 0 == topic.commit(two, 10), "neither has gone on"
    assert moved(one.ask(11, pull(offset=0))) is None and topic.commit(one, 3) == 3
    assert topic.commit(two, 10) == 3, "the other has not gone on yet"
    assert moved(two.ask(11, pull(offset=10))) == 3, "it goes where the group is"
    assert moved(two.ask(11, pull(offset=3))) is None and topic.commit(two, 4) == 4


def test_a_pull_that_is_sent_twice_is_no_word_of_one_who_knows(writing: Writing, line: Connected):
    topic = ResetTopic(writing(), line, T="*")
    [one] = topic.members
    numbers = [topic.hold(one), topic.hold(one)]
    reset(topic.client, offset=0, queueId=0)
    assert [moved(one.answer(number, 5)) for number in numbers] == [0, 0]
    assert topic.commit(one, 10) == 0
    numbers = [one.start(11, pull(offset=10)) for _ in range(2)]  # they wait for a socket, or were sent again
    assert [moved(one.answer(number, 5)) for number in numbers] == [0, 0]
    assert topic.commit(one, 10) == 0
    assert moved(one.ask(11, pull(offset=0))) is None and topic.commit(one, 1) == 1


def test_one_that_insists_gets_what_it_wants(writing: Writing, line: Connected):
    """Some keep offsets elsewhere, and ask for the same place whatever they are told."""
    topic = ResetTopic(writing(), line, T="*")
    [one] = topic.members
    reset(topic.client, offset=0, queueId=0)
    found = [moved(one.ask(11, pull(offset=9))) for _ in range(4)]
    assert found == [0, 0, 0, None] and topic.commit(one, 10) == 10


def test_a_pull_that_waits_at_the_very_offset_learns_it(writing: Writing, line: Connected):
    """Its client may have messages of before, whose offsets it would commit."""
    topic = ResetTopic(writing(), line, T="*")
    [one] = topic.members
    number = topic.hold(one)
    reset(topic.client, offset=10, queueId=0)
    assert moved(one.answer(number, 5)) == 10 and topic.commit(one, 7) == 10
    assert moved(one.ask(11, pull(offset=10))) is None and topic.commit(one, 10) == 10


def test_a_client_that_connects_again_has_not_learned_it(writing: Writing, line: Connected):
    """Its pulls come before its heartbeat, and bring what it has to commit."""
    topic = ResetTopic(writing(), line, T="*")
    reset(topic.client, offset=0, queueId=0)
    topic.members[0].close()
    assert within(lambda: topic.broker.stats().groups["G"] == 0)
    again = line(topic.broker)
    assert moved(again.ask(11, pull(offset=10, sysFlag=7, commitOffset=10))) == 0 and topic.commit(again, 10) == 0
    assert moved(again.ask(11, pull(offset=0))) is None and topic.commit(again, 2) == 2


def test_one_that_did_nothing_yet_goes_on_where_the_others_are(writing: Writing, line: Connected):
    topic = ResetTopic(writing(), line, 2, T="*")
    one, two = topic.members
    reset(topic.client, offset=0, queueId=0)
    assert moved(one.ask(11, pull(offset=0))) is None and topic.commit(one, 5) == 5
    assert topic.commit(two, 10) == 5, "it gives the queue up, and commits what it had"
    assert moved(two.ask(11, pull(offset=5))) is None and topic.commit(two, 6) == 6, "it has read where to go on"
    new = line(topic.broker)
    assert moved(new.ask(11, pull(offset=8))) is None and topic.commit(new, 9) == 9, "it came after the reset"


@pytest.mark.parametrize("subscribed", [{"T": "*"}, {}])
def test_who_may_consume_a_topic_learns_it(writing: Writing, line: Connected, subscribed: dict[str, str]):
    """Java's DefaultLitePullConsumer subscribes to nothing if its queues were assigned to it."""
    topic = ResetTopic(writing(), line, **subscribed)
    reset(topic.client, offset=0, queueId=0)
    assert topic.commit(topic.members[0], 10) == 0 and moved(topic.members[0].ask(11, pull(offset=10))) == 0


def test_members_that_subscribe_to_other_topics_have_nothing_to_learn(writing: Writing, line: Connected):
    topic = ResetTopic(writing(), line, U="*")
    reset(topic.client, offset=9, queueId=0)
    assert moved(topic.client.ask(11, pull(offset=0))) is None and topic.commit(topic.client, 7) == 7


@pytest.mark.parametrize("what", ["topic", "group"])
def test_what_is_deleted_takes_its_reset_along(writing: Writing, line: Connected, what: str):
    topic = ResetTopic(writing(), line, T="*")
    reset(topic.client, offset=9, queueId=0)
    if what == "topic":
        assert topic.client.ask(215, {"topic": "T"}).code == 0
        topic.fill()
    else:
        assert topic.client.ask(207, {"groupName": "G", "cleanOffset": "true"}).code == 0
    answer = topic.members[0].ask(11, pull(offset=0))
    assert answer.code == 0 and len(list(records(answer.body))) == 10, "no message is passed"
    assert topic.commit(topic.members[0], 2) == 2


def test_a_group_that_is_deleted_without_its_offsets_keeps_its_reset(writing: Writing, line: Connected):
    topic = ResetTopic(writing(), line, T="*")
    reset(topic.client, offset=1, queueId=0)
    assert topic.client.ask(207, {"groupName": "G", "cleanOffset": "false"}).code == 0
    assert moved(topic.members[0].ask(11, pull(offset=10, sysFlag=7, commitOffset=10))) == 1
    assert stored(topic.broker).consumer_offset("G", "T", 0) == 1


def test_when_the_last_member_has_left_commits_count(writing: Writing, line: Connected):
    topic = ResetTopic(writing(), line, 2, T="*")
    one, two = topic.members
    reset(topic.client, offset=0, queueId=0)
    assert one.ask(35, {"clientID": "c0", "consumerGroup": "G"}).code == 0 and topic.commit(topic.client, 7) == 0
    assert topic.commit(two, 10) == 0, "what it commits before it leaves is of before the reset"
    assert two.ask(35, {"clientID": "c1", "consumerGroup": "G"}).code == 0 and topic.commit(topic.client, 7) == 7
    assert moved(topic.client.ask(11, pull(offset=3))) is None


def test_when_the_last_connection_is_gone_for_long_commits_count(
    writing: Writing, line: Connected, monkeypatch: pytest.MonkeyPatch
):
    now = [1000.0]
    own_time(monkeypatch, store_offsets, monotonic=lambda: now[0])
    monkeypatch.setattr("flintmq.broker.broker.SAVE_S", 0.01)
    topic = ResetTopic(writing(), line, T="*")
    offsets = offsets_of(topic.broker)
    sweeps, sweep = list[float](), StoreOffsets.sweep
    monkeypatch.setattr(StoreOffsets, "sweep", lambda of: (sweep(of), sweeps.append(now[0])))

    def later(seconds: float) -> None:
        now[0] += seconds
        before = len(sweeps)
        assert within(lambda: len(sweeps) > before + 1)

    reset(topic.client, offset=0, queueId=0)
    later(1000)
    assert topic.commit(topic.client, 7) == 0, "a member is there, and does not know"
    topic.members[0].close()
    assert within(lambda: topic.broker.stats().groups["G"] == 0)
    later(119)
    assert topic.commit(topic.client, 7) == 0
    reset(topic.client, offset=1, queueId=0)
    later(119)
    assert topic.commit(topic.client, 7) == 1, "set again, it is to be learned as well"
    later(2)
    assert topic.commit(topic.client, 7) == 7 and offsets._resets == {}


def test_a_connection_that_ends_leaves_a_client_that_does_not_know(
    writing: Writing, line: Connected, monkeypatch: pytest.MonkeyPatch
):
    """Its queue is another's for a time; it comes back, and wants and commits what it had."""
    now = [1000.0]
    own_time(monkeypatch, store_offsets, monotonic=lambda: now[0])
    topic = ResetTopic(writing(), line, 2, T="*")
    one, two = topic.members
    number, offsets = topic.hold(one), offsets_of(topic.broker)
    reset(topic.client, offset=0, queueId=0)
    assert moved(one.answer(number, 5)) == 0, "it waits before it goes there"
    one.close()
    assert within(lambda: topic.broker.stats().groups["G"] == 1)
    assert moved(two.ask(11, pull(offset=0))) is None and topic.commit(two, 1) == 1
    now[0] += 1
    again = line(topic.broker)
    assert topic.commit(again, 10) == 1, "before the sweep"
    offsets.sweep()
    now[0] += 119
    assert topic.commit(again, 10) == 1 and moved(again.ask(11, pull(offset=10))) == 1, "and after it"
    assert moved(two.ask(11, pull(offset=5))) is None and topic.commit(two, 5) == 5, "this one has gone on"
    assert moved(again.ask(11, pull(offset=5))) is None and topic.commit(again, 6) == 6
    now[0] += 1
    offsets.sweep()
    assert offsets._resets == {}


def test_a_member_that_never_had_the_queue_has_nothing_to_learn(
    writing: Writing, line: Connected, monkeypatch: pytest.MonkeyPatch
):
    """Days later it begins where the other one has come to, whatever that commits meanwhile."""
    now = [1000.0]
    own_time(monkeypatch, store_offsets, monotonic=lambda: now[0])
    topic = ResetTopic(writing(), line, 2, T="*")
    one, two = topic.members
    offsets = offsets_of(topic.broker)
    reset(topic.client, offset=0, queueId=0)
    assert moved(one.ask(11, pull(offset=0))) is None and topic.commit(one, 5) == 5
    now[0] += 119
    offsets.sweep()
    assert topic.commit(two, 10) == 5, "it has the queue after all, and does not know"
    now[0] += 119
    offsets.sweep()
    assert topic.commit(two, 10) == 5
    now[0] += 120
    offsets.sweep()
    assert moved(two.ask(11, pull(offset=3))) is None and topic.commit(two, 4) == 4 and offsets._resets == {}


def test_a_look_at_a_reset_changes_none(writing: Writing, line: Connected):
    """A scrape's thread looks while the loop goes through them."""
    topic = ResetTopic(writing(), line, T="*")
    reset(topic.client, offset=0, queueId=0)
    offsets = offsets_of(topic.broker)
    stored(topic.broker).delete_topic("T")
    assert offsets.get("G", "T", 0) is None and offsets.is_reset("G", "T", 0) and len(offsets._resets) == 1


def test_the_configuration_is_that_of_the_start(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    client = line(writing())
    refused = client.ask(25, body=b"flushDiskType=SYNC_FLUSH\n")
    assert refused.code == 16 and "--set" in str(refused.remark)
    assert b"flushDiskType=ASYNC_FLUSH" in client.ask(26).body


def test_what_no_operator_may_make(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing()
    client = line(broker)
    for topic in ("SCHEDULE_TOPIC_XXXX", "TBW102", "RMQ_SYS_TRANS_HALF_TOPIC", "bad topic", "x" * 128):
        refused = client.ask(17, {**TOPIC, "topic": topic})
        assert refused.code in (1, 29) and refused.remark
    assert client.ask(200, body=b'{"groupName":"a b"}').code == 1
    assert stored(broker).topics() == {} and stored(broker).groups() == {}


def test_fewer_queues_count_at_once(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing()
    client = line(broker)
    client.ask(17, {**TOPIC, "readQueueNums": 8, "writeQueueNums": 8})
    for queue in range(8):
        assert client.ask(310, send("T", queue), b"x").code == 0
    client.ask(17, {**TOPIC, "readQueueNums": 2, "writeQueueNums": 2})
    assert (route(client)["readQueueNums"], route(client)["writeQueueNums"]) == (2, 2)
