"""Pops: messages come again unless they are acknowledged, after a kill too, and die in the end."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flintmq import GroupSettings, Message
from flintmq.broker import Broker, held
from flintmq.broker.connection import ClientConnection
from flintmq.broker.flights import Flights
from flintmq.broker.pop import Pops
from flintmq.broker.requests import Refused
from flintmq.broker.testing import BrokerControl
from flintmq.errors import PutFailedError
from flintmq.message import PutMessageStatus, PutResult, StoredMessage
from flintmq.remoting.client import join_address
from flintmq.store.services.topics import TopicSettings
from tests.broker.talk import Line, PoppedMessage, heartbeat, pop, popped, send
from tests.broker.test_send import stored
from tests.support.threads import within

POP, ACK, PEEK, CHANGE, NOTIFY = 200050, 200051, 200052, 200053, 200054
FOUND, NOT_FOUND, NO_MESSAGE, FULL, NOTHING = 0, 19, 208, 209, 210
RETRIES = "%RETRY%G_T"
SOON = {"invisibleTime": 100}  # ms
HOLD = {"pollTime": 8000}  # longer than any test waits

Connected = Callable[[Broker], Line]


@pytest.fixture
def broker(writing: Callable[..., Broker]) -> Iterator[Broker]:
    """A broker with the topic T of one queue, which is empty."""
    broker = writing()
    stored(broker).create_topic("T", 1)
    yield broker
    pops(broker).check_invariants()
    assert broker.stats().failed == 0


@pytest.fixture
def client(broker: Broker, line: Connected) -> Line:
    return line(broker)


def pops(broker: Broker) -> Pops:
    assert broker._now.pops is not None
    return broker._now.pops


def put(broker: Broker, *bodies: str, topic: str = "T", **more: Any) -> None:
    for body in bodies:
        assert stored(broker).put(Message(topic, body.encode(), **more))
    stored(broker)


def got(client: Line, **more: Any) -> list[PoppedMessage]:
    """What a pop gets at once."""
    answer = client.ask(POP, pop(**more))
    assert answer.code in (FOUND, NOTHING), answer.remark
    return popped(answer)


def comes(client: Line, **more: Any) -> list[PoppedMessage]:
    """What a pop gets that waits."""
    return got(client, **HOLD, **more)


def bodies(found: list[PoppedMessage]) -> list[str]:
    return [one.message.body.decode() for one in found]


def acknowledge(client: Line, *found: PoppedMessage, **more: Any) -> None:
    for one in found:
        assert client.ask(ACK, one.fields(**more)).code == 0


def offset(broker: Broker, topic: str = "T", group: str = "G", queue_id: int = 0) -> int | None:
    return stored(broker).consumer_offset(group, topic, queue_id)


def dead(broker: Broker) -> list[StoredMessage]:
    return stored(broker).get("%DLQ%G", 0, 0).messages


# -- given and acknowledged --------------------------------------------------------------------------------------------


def test_what_is_given_is_not_given_to_others(broker: Broker, client: Line, line: Connected):
    put(broker, "a", "b", "c")
    answer = client.ask(POP, pop(maxMsgNums=2))
    assert (answer.code, answer.remark) == (FOUND, "FOUND")
    told = {name: answer.fields[name] for name in ("invisibleTime", "reviveQid", "restNum")}
    assert told == {"invisibleTime": "60000", "reviveQid": "0", "restNum": "1"}
    assert (answer.fields["startOffsetInfo"], answer.fields["msgOffsetInfo"]) == ("0 0 0", "0 0 0,1")
    assert abs(int(answer.fields["popTime"]) - time.time() * 1000) < 10_000
    assert bodies(popped(answer)) == ["a", "b"]
    assert [one.message.raw for one in popped(answer)] == [
        one.raw for one in stored(broker).get("T", 0, 0, 2).messages
    ], "as they lie in the log"
    assert bodies(got(line(broker))) == ["c"]
    nothing = client.ask(POP, pop())
    assert (nothing.code, nothing.fields["restNum"], nothing.body) == (NOTHING, "0", b"")


def test_other_groups_have_their_own(broker: Broker, client: Line):
    put(broker, "a")
    assert bodies(got(client)) == bodies(got(client, group="H")) == ["a"]
    assert stored(broker).group("H") is not None, "a pop makes its group"


def test_the_oldest_in_flight_is_what_is_committed(broker: Broker, client: Line):
    put(broker, "a", "b", "c", "d")
    a, b, c = got(client, maxMsgNums=3)
    assert offset(broker) == 0
    acknowledge(client, b)
    assert offset(broker) == 0
    acknowledge(client, a)
    assert offset(broker) == 2, "c is in flight"
    acknowledge(client, c, c)  # again: accepted, in vain
    assert offset(broker) == 3, "d was never given"
    acknowledge(client, *got(client))
    assert offset(broker) == 4


def test_all_queues_are_popped_or_one(broker: Broker, client: Line):
    stored(broker).create_topic("Wide", 4)
    for queue in range(4):
        put(broker, f"{queue}", topic="Wide", queue_id=queue)
    assert bodies(got(client, topic="Wide", queueId=2)) == ["2"]
    rest = got(client, topic="Wide")
    assert sorted(bodies(rest)) == ["0", "1", "3"]
    acknowledge(client, *rest, topic="Wide")
    assert [offset(broker, "Wide", queue_id=queue) for queue in range(4)] == [1, 1, 0, 1]


def test_tags(broker: Broker, client: Line):
    """What they do not match counts as consumed; retries come whatever their tags are."""
    put(broker, "a", "b", tags="red")
    put(broker, "c", tags="blue")
    put(broker, "d", tags="red")
    [c] = got(client, exp="blue || green", **SOON)
    assert bodies([c]) == ["c"] and offset(broker) == 2
    [c] = comes(client, exp="green")
    assert bodies([c]) == ["c"], "as a retry"


def test_a_new_group_begins_where_one_does_that_pulls(broker: Broker, client: Line, monkeypatch: pytest.MonkeyPatch):
    put(broker, "old")
    assert bodies(got(client, group="Young", initMode=1)) == ["old"], "the topic is young"
    monkeypatch.setattr("flintmq.broker.lookup.YOUNG_FILES", 0)
    assert bodies(got(client, group="First", initMode=0)) == ["old"]
    assert got(client, group="Last", initMode=1) == []
    put(broker, "new")
    assert bodies(got(client, group="Last", initMode=1)) == ["new"]


# -- what comes again --------------------------------------------------------------------------------------------------


def test_what_is_not_acknowledged_comes_again(broker: Broker, client: Line):
    put(broker, "a", tags="red", keys="k")
    [first] = got(client, **SOON)
    [again] = comes(client)
    one = again.message
    assert (one.topic, one.body, one.tags, one.keys, one.reconsume_times) == ("T", b"a", "red", "k", 1)
    assert again.receipt.split(" ")[4] == "1" and one.properties["1ST_POP_TIME"] == first.receipt.split(" ")[1]
    assert offset(broker) == 1, "where it was it counts as acknowledged"
    acknowledge(client, first)  # its time is over: accepted, in vain
    assert offset(broker, RETRIES) == 0
    acknowledge(client, again)
    assert offset(broker, RETRIES) == 1
    [kept] = stored(broker).get(RETRIES, 0, 0).messages
    assert (kept.properties["RETRY_TOPIC"], kept.msg_id) == ("T", one.msg_id)
    assert (kept.born_timestamp, kept.born_host) == (first.message.born_timestamp, first.message.born_host)
    facts = stored(broker).topic(RETRIES)
    assert facts is not None and (facts.read_queues, facts.write_queues, facts.perm) == (1, 1, 6)


def test_a_poison_message_ends_in_the_dead_letters(broker: Broker, client: Line):
    stored(broker).create_group("G", GroupSettings(retry_max_times=2))
    put(broker, "poison", "good")
    times = []
    for _ in range(3):
        found = comes(client, **SOON)
        acknowledge(client, *(one for one in found if one.message.body == b"good"))
        times += [one.message.reconsume_times for one in found if one.message.body == b"poison"]
    assert times == [0, 1, 2], "it is given once, and again as often as the group says"
    assert within(lambda: len(dead(broker)) == 1)
    [one] = dead(broker)
    assert (one.body, one.reconsume_times, one.properties["RETRY_TOPIC"]) == (b"poison", 3, "T")
    assert got(client) == [] and (offset(broker), offset(broker, RETRIES)) == (2, 2)


def test_a_message_of_a_queue_that_has_gone_comes_no_more(broker: Broker, client: Line):
    put(broker, "a")
    got(client, **SOON)
    stored(broker).delete_topic("T")
    stored(broker).create_topic("T", 1)
    put(broker, "b")
    assert bodies(got(client)) == ["b"]
    time.sleep(0.3)
    assert got(client) == [] and stored(broker).topic(RETRIES) is None


def test_what_cannot_be_put_again_stays_in_flight(broker: Broker, client: Line, monkeypatch: pytest.MonkeyPatch):
    """The put comes before the forgetting."""
    monkeypatch.setattr("flintmq.broker.flights.AGAIN_S", 0.05)
    put_before, refusals = Flights._put, list[Message]()

    async def refuse(self: Flights, message: Message, original: StoredMessage) -> None:
        if len(refusals) < 3:
            refusals.append(message)
            assert self._offsets.get("G", "T", 0) == 0
            raise PutFailedError("the disk is full")
        await put_before(self, message, original)

    monkeypatch.setattr(Flights, "_put", refuse)
    put(broker, "a", "b")
    found = got(client, **SOON)
    again = comes(client, maxMsgNums=1) + comes(client, maxMsgNums=1)
    assert sorted(bodies(again)) == bodies(found) == ["a", "b"] and len(refusals) == 3
    assert offset(broker) == 2


def test_one_that_can_never_be_put_again_keeps_no_other_back(
    broker: Broker, client: Line, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """A copy has more properties. Where these are too many it has those of the message; else it does not come again."""
    put(broker, "large", properties={"a": "x" * 32_600})
    put(broker, "small")
    assert bodies(got(client, **SOON)) == ["large", "small"]
    assert sorted(bodies(comes(client, maxMsgNums=1) + comes(client, maxMsgNums=1))) == ["large", "small"]
    assert offset(broker) == 2
    refused = PutResult(PutMessageStatus.MESSAGE_ILLEGAL, -1, -1, 0, 0, b"", "by a test")

    async def refuse(message: Message) -> PutResult:
        return refused

    monkeypatch.setattr(stored(broker), "put_async", refuse)
    put(broker, "never")
    assert bodies(got(client, **SOON)) == ["never"]
    assert within(lambda: offset(broker) == 3)
    assert "cannot be put there, now or later" in caplog.text


def test_a_queue_that_cannot_be_read_keeps_no_other_from_its_client(
    broker: Broker, client: Line, monkeypatch: pytest.MonkeyPatch
):
    stored(broker).create_topic("Wide", 4)
    for queue in range(4):
        put(broker, f"{queue}", topic="Wide", queue_id=queue)
    read = broker._now.served.read

    async def broken(topic: str, queue_id: int, *more: Any) -> Any:
        if (topic, queue_id) == ("Wide", 2):
            raise OSError(5, "Input/output error")
        return await read(topic, queue_id, *more)

    monkeypatch.setattr(broker._now.served, "read", broken)
    found = got(client, topic="Wide")
    assert sorted(bodies(found)) == ["0", "1", "3"]
    refused = client.ask(POP, pop("Wide", queueId=2))
    assert refused.code == 1 and "Input/output error" in str(refused.remark)
    monkeypatch.undo()
    assert bodies(got(client, topic="Wide")) == ["2"] and broker.stats().failed == 1
    broker._now._requests.failed = 0  # that one, which the client was told of


def test_a_topic_that_is_closed_meanwhile_takes_acknowledgements(broker: Broker, client: Line):
    put(broker, "a")
    found = got(client)
    stored(broker).create_topic("T", TopicSettings(1, 1, perm=2))
    acknowledge(client, *found)
    assert offset(broker) == 1


def test_a_group_that_is_deleted_meanwhile_stays_away(broker: Broker, client: Line):
    put(broker, "a")
    got(client, invisibleTime=300)
    stored(broker).delete_group("G")
    assert not within(lambda: stored(broker).group("G") is not None, 0.8)
    assert stored(broker).topic(RETRIES) is None


def test_tags_that_are_too_many(broker: Broker, client: Line):
    refused = client.ask(POP, pop(exp="a||" * 30_000))
    assert refused.code == 1 and "65536 are the most" in str(refused.remark)


# -- other times -------------------------------------------------------------------------------------------------------


def changed(client: Line, one: PoppedMessage, ms: int) -> PoppedMessage:
    """Change how long a message is invisible; it with the receipt that the client makes of the answer."""
    answer = client.ask(CHANGE, one.fields(invisibleTime=ms))
    assert answer.code == 0, answer.remark
    words = one.receipt.split(" ")
    words[1:4] = (answer.fields[name] for name in ("popTime", "invisibleTime", "reviveQid"))
    return PoppedMessage(one.message, " ".join(words))


def test_an_invisible_time_is_made_longer(broker: Broker, client: Line):
    put(broker, "a")
    [one] = got(client, invisibleTime=300)
    longer = changed(client, one, 60_000)
    words = longer.receipt.split(" ")
    assert int(words[1]) + int(words[2]) >= time.time() * 1000 + 50_000, "the receipt tells until when"
    time.sleep(0.5)
    assert got(client) == [] and offset(broker) == 0
    acknowledge(client, longer)
    assert offset(broker) == 1


def test_an_invisible_time_is_made_shorter(broker: Broker, client: Line):
    """0: it comes again at once."""
    put(broker, "a", "b")
    a, b = got(client)
    changed(client, a, 0)
    assert bodies(comes(client)) == ["a"]
    acknowledge(client, changed(client, b, 60_000), b)
    assert offset(broker) == 2


def test_a_time_that_was_over_is_not_changed(broker: Broker, client: Line):
    put(broker, "a")
    [one] = got(client, **SOON)
    [again] = comes(client)
    refused = client.ask(CHANGE, one.fields(invisibleTime=1000))
    assert refused.code == NO_MESSAGE and "not in flight" in str(refused.remark)
    changed(client, again, 5000)


# -- waiting -----------------------------------------------------------------------------------------------------------


def test_a_pop_waits_for_a_message(broker: Broker, client: Line, line: Connected):
    number = client.start(POP, pop(**HOLD))
    assert within(lambda: broker.stats().held == 1)
    put(broker, "other", topic="Other")
    assert client.is_quiet(0.1)
    line(broker).ask(310, send("T", 0), b"new")
    assert bodies(popped(client.answer(number))) == ["new"] and broker.stats().held == 0


def test_a_pop_waits_for_a_message_that_another_did_not_acknowledge(broker: Broker, client: Line, line: Connected):
    put(broker, "a")
    assert bodies(got(client, invisibleTime=300)) == ["a"]
    begin = time.monotonic()
    assert bodies(comes(line(broker))) == ["a"]
    assert 0.1 < time.monotonic() - begin < 5


def test_of_many_that_wait_each_message_goes_to_one(broker: Broker, line: Connected):
    talks = [line(broker) for _ in range(5)]
    numbers = [talk.start(POP, pop(maxMsgNums=1, **HOLD)) for talk in talks]
    assert within(lambda: broker.stats().held == 5)
    put(broker, *"abcde")
    found = [popped(talk.answer(number)) for talk, number in zip(talks, numbers, strict=True)]
    assert sorted(body for one in found for body in bodies(one)) == list("abcde")


def held_pops(broker: Broker, line: Connected, count: int, **more: Any) -> list[tuple[Line, int]]:
    """Clients whose pops wait, and the numbers of the requests."""
    lines, before = [line(broker) for _ in range(count)], broker.stats().held
    found = [(talk, talk.start(POP, pop(**HOLD, **more))) for talk in lines]
    assert within(lambda: broker.stats().held == before + count)
    return found


def test_a_message_wakes_one_of_a_group(broker: Broker, line: Connected, monkeypatch: pytest.MonkeyPatch):
    """With all woken, 100 idle consumers and 50 messages a second filled the loop."""
    held_pops(broker, line, 10, maxMsgNums=1)
    held_pops(broker, line, 1, consumerGroup="Other")
    looks = list[str]()
    looked = Pops._take
    monkeypatch.setattr(Pops, "_take", lambda of, wanted: looks.append(wanted.group) or looked(of, wanted))
    put(broker, "a")
    assert within(lambda: broker.stats().held == 9)
    put(broker, "b", "c")
    assert within(lambda: looks.count("G") >= 3 and broker.stats().held == 7)
    assert looks.count("Other") == 1 and 3 <= looks.count("G") <= 5  # one may find the queue taken, and look again


def test_another_is_woken_for_one_that_cannot_look(broker: Broker, line: Connected, monkeypatch: pytest.MonkeyPatch):
    waiting = held_pops(broker, line, 2)
    checked, failed = Pops._check, list[int]()

    async def check(of: Pops, wanted: Any) -> None:
        if not failed:
            failed.append(1)
            raise Refused(1, "not now")
        await checked(of, wanted)

    monkeypatch.setattr(Pops, "_check", check)
    put(broker, "a")
    answers = [talk.answer(number) for talk, number in waiting]
    assert sorted(answer.code for answer in answers) == [FOUND, 1]


def connection(broker: Broker, talk: Line) -> ClientConnection:
    """The broker's side of a client whose pop waits."""
    assert broker._now._rooms is not None
    address, peers = join_address(*talk.socket.getsockname()), broker._now._rooms.held._of
    [found] = [one for one in peers if isinstance(one, ClientConnection) and one.address == address]
    return found


def in_loop(broker: Broker, work: Callable[[], object]) -> None:
    done = threading.Event()
    assert broker.loop is not None
    broker.loop.call_soon_threadsafe(lambda: (work(), done.set()))
    assert done.wait(5)


@pytest.mark.parametrize("what", ["answers", "turn", "answers after it was woken"])
def test_another_is_woken_for_one_that_cannot_go_on(
    broker: Broker, line: Connected, monkeypatch: pytest.MonkeyPatch, what: str
):
    """Its client takes no answers, or has no turn left: a message does not wait for that."""
    [(one, first)], [(two, second)] = (held_pops(broker, line, 1, maxMsgNums=1) for _ in range(2))
    peer = connection(broker, one)
    if what == "answers":
        in_loop(broker, peer._writable.clear)
    elif what == "turn":
        peer.turns = asyncio.Semaphore(0)
    with monkeypatch.context() as patch:
        if what == "answers after it was woken":
            chosen = held._chosen
            patch.setattr(held, "_chosen", lambda *asked: (chosen(*asked), peer._writable.clear())[0])
        put(broker, "a")
        assert bodies(popped(two.answer(second, 4))) == ["a"] and one.is_quiet(0)
    in_loop(broker, peer.turns.release if what == "turn" else peer._writable.set)
    put(broker, "b")
    assert bodies(popped(one.answer(first, 4))) == ["b"]


def test_one_that_can_go_on_after_its_time_takes_nothing(broker: Broker, client: Line, line: Connected):
    """Its client may have given up, and would never see the message."""
    number = client.start(POP, pop(pollTime=300))
    assert within(lambda: broker.stats().held == 1)
    peer = connection(broker, client)
    in_loop(broker, peer._writable.clear)
    put(broker, "a")
    assert within(lambda: broker.stats().held == 0)
    time.sleep(0.4)
    in_loop(broker, peer._writable.set)
    assert client.answer(number).code == NOTHING
    assert bodies(got(line(broker))) == ["a"]


def test_nothing_came_in_time(broker: Broker, client: Line):
    begin = time.monotonic()
    answer = client.ask(POP, pop(pollTime=200))
    assert (answer.code, answer.remark) == (NOTHING, "NO_MESSAGE_IN_QUEUE")
    assert 0.2 <= time.monotonic() - begin < 5 and broker.stats().held == 0


def test_more_than_may_wait(broker: Broker, client: Line, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("flintmq.broker.held.HELD_MAX", 1)
    client.start(POP, pop(**HOLD))
    assert within(lambda: broker.stats().held == 1)
    assert client.ask(POP, pop(**HOLD)).code == FULL
    assert client.ask(NOTIFY, pop(**HOLD)).fields == {"hasMsg": "false", "pollingFull": "true"}


def test_a_client_that_has_gone_gets_nothing(broker: Broker, client: Line, line: Connected):
    gone = line(broker)
    gone.start(POP, pop(**HOLD))
    assert within(lambda: broker.stats().held == 1)
    gone.close()
    assert within(lambda: broker.stats().held == 0)
    put(broker, "a")
    assert bodies(got(client)) == ["a"]


def test_a_notification_gives_nothing(broker: Broker, client: Line):
    assert client.ask(NOTIFY, pop()).fields == {"hasMsg": "false", "pollingFull": "false"}
    number = client.start(NOTIFY, pop(**HOLD))
    assert within(lambda: broker.stats().held == 1)
    put(broker, "a")
    assert client.answer(number).fields == {"hasMsg": "true", "pollingFull": "false"}
    got(client)
    assert client.ask(NOTIFY, pop()).fields["hasMsg"] == "false"


def test_a_peek_gives_nothing(broker: Broker, client: Line):
    assert client.ask(PEEK, pop()).code == NOT_FOUND
    put(broker, "a", "b", "c")
    for _ in range(2):
        answer = client.ask(PEEK, pop(maxMsgNums=2))
        assert (answer.code, answer.fields["restNum"]) == (FOUND, "1")
        assert answer.body == b"".join(one.raw for one in stored(broker).get("T", 0, 0, 2).messages)
    got(client, maxMsgNums=1)
    assert client.ask(PEEK, pop()).body == b"".join(one.raw for one in stored(broker).get("T", 0, 1).messages)


# -- who else sets offsets ---------------------------------------------------------------------------------------------


def test_an_operator_sets_the_group_back(broker: Broker, client: Line):
    put(broker, "a", "b", "c")
    found = got(client)
    acknowledge(client, found[0])
    reset = client.ask(222, {"topic": "T", "group": "G", "timestamp": 0, "isForce": "true"})
    assert reset.code == 0
    acknowledge(client, *found[1:])
    assert offset(broker) == 0, "what was in flight is forgotten"
    again = got(client)
    assert bodies(again) == ["a", "b", "c"]
    acknowledge(client, *again)
    assert offset(broker) == 3


def test_an_operator_sets_the_group_to_where_it_is(broker: Broker, client: Line):
    """What it acknowledges afterwards counts, and does not come again."""
    put(broker, "a")
    acknowledge(client, *got(client))
    beat = heartbeat("c", "G", topics={"T": "*"})
    assert client.ask(34, {}, beat).code == 0
    late = {"topic": "T", "group": "G", "timestamp": int(time.time() * 1000) + 60_000, "isForce": "true"}
    assert client.ask(222, late).code == 0
    put(broker, "b", "c")
    b, c = got(client)
    acknowledge(client, b)
    assert offset(broker) == 2 and got(client) == []
    acknowledge(client, c)
    assert offset(broker) == 3


def test_a_pop_that_waits_learns_that_the_group_is_set_back(broker: Broker, client: Line, line: Connected):
    put(broker, "a")
    acknowledge(client, *got(client))
    number = client.start(POP, pop(**HOLD))
    assert within(lambda: broker.stats().held == 1)
    assert line(broker).ask(222, {"topic": "T", "group": "G", "timestamp": 0, "isForce": "true"}).code == 0
    assert bodies(popped(client.answer(number))) == ["a"]


# -- a kill ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_saved", [False, True])
def test_after_a_kill_all_comes_again_that_was_not_acknowledged(tmp_path: Path, is_saved: bool):
    """Offsets are saved each 5 s; until then what was acknowledged comes again, too."""
    with BrokerControl(tmp_path / "store") as broker:
        broker.store.create_topic("T", 1)
        for body in "abcd":
            broker.store.put(Message("T", body.encode()))
        broker.store.wait_dispatched(60)
        with Line(broker.address) as client:
            a, b, _ = got(client, maxMsgNums=3)
            assert client.ask(CHANGE, b.fields(invisibleTime=0)).code == 0
            assert within(lambda: len(broker.messages(RETRIES)) == 1)
            acknowledge(client, a)
        if is_saved:
            broker.store._parts.housekeeping.save_now()
        broker.kill()
        broker.restart()
        with Line(broker.address) as client:
            found = got(client)
            assert sorted(bodies(found)) == (["b", "c", "d"] if is_saved else ["a", "b", "b", "c", "d"])
            acknowledge(client, *found)
            assert got(client) == []


# -- in order ----------------------------------------------------------------------------------------------------------

ORDER = {"order": "true"}


def test_in_order_a_queue_waits_for_what_is_in_flight(broker: Broker, client: Line, line: Connected):
    put(broker, "a", "b", "c")
    answer = client.ask(POP, pop(maxMsgNums=2, **ORDER))
    assert (answer.fields["reviveQid"], answer.fields["orderCountInfo"]) == ("999", "")
    a, b = popped(answer)
    other = line(broker)
    assert got(other, **ORDER) == [] and other.ask(NOTIFY, pop(**ORDER)).fields["hasMsg"] == "false"
    number = other.start(POP, pop(**ORDER, **HOLD))
    acknowledge(client, a)
    assert other.is_quiet(0.1)
    acknowledge(client, b)
    assert bodies(popped(other.answer(number))) == ["c"], "it is woken"


def test_in_order_what_is_not_acknowledged_comes_again_in_place(broker: Broker, client: Line):
    put(broker, "a", "b", "c")
    a, b = got(client, maxMsgNums=2, **ORDER, invisibleTime=200)
    acknowledge(client, a)
    answer = client.ask(POP, pop(**ORDER, **HOLD))
    [again] = popped(answer)
    assert bodies([again]) == ["b"] and answer.fields["orderCountInfo"] == "0 qo0%1 1"
    assert again.receipt.split(" ")[7] == b.receipt.split(" ")[7] and stored(broker).topic(RETRIES) is None
    acknowledge(client, b)  # by the receipt of before: in vain
    assert got(client, **ORDER) == []
    acknowledge(client, again)
    assert bodies(got(client, **ORDER)) == ["c"]


def test_an_attempt_gets_the_same_messages(broker: Broker, client: Line):
    """A client that lost an answer asks again; the receipts of the last answer count."""
    put(broker, "a", "b")
    lost = got(client, maxMsgNums=1, attemptId="one", **ORDER)
    time.sleep(0.01)
    found = got(client, maxMsgNums=1, attemptId="one", **ORDER)
    assert bodies(lost) == bodies(found) == ["a"] and got(client, attemptId="two", **ORDER) == []
    acknowledge(client, *lost)
    assert offset(broker) == 0
    acknowledge(client, *found)
    assert bodies(got(client, attemptId="two", **ORDER)) == ["b"]


def test_in_order_a_poison_message_ends_in_the_dead_letters(broker: Broker, client: Line):
    stored(broker).create_group("G", GroupSettings(retry_max_times=1))
    put(broker, "poison", "next")
    assert bodies(got(client, maxMsgNums=1, **ORDER, **SOON)) == ["poison"]
    assert bodies(comes(client, maxMsgNums=1, **ORDER, **SOON)) == ["poison"]
    assert bodies(comes(client, maxMsgNums=1, **ORDER)) == ["next"]
    assert [one.body for one in dead(broker)] == [b"poison"] and offset(broker) == 1


def test_a_group_that_is_no_more_in_order_gets_retries(broker: Broker, client: Line):
    put(broker, "a", "b")
    assert bodies(got(client, maxMsgNums=1, **ORDER, **SOON)) == ["a"]
    time.sleep(0.2)
    assert bodies(got(client, maxMsgNums=1)) == ["b"]
    assert bodies(comes(client)) == ["a"]


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"topic": "None"}, 17, "None"),
        ({"queueId": 1}, 29, "queueId"),
        ({"maxMsgNums": 33}, 29, "32"),
        ({"invisibleTime": -1}, 29, "invisibleTime"),
        ({"invisibleTime": 1 << 40}, 29, "invisibleTime"),
        ({"invisibleTime": "x"}, 1, "invisibleTime"),
    ],
)
def test_pops_that_are_refused(broker: Broker, client: Line, fields: dict[str, Any], code: int, words: str):
    answer = client.ask(POP, pop(**fields))
    assert answer.code == code and words in str(answer.remark)


def test_a_group_that_may_not_consume(broker: Broker, client: Line):
    stored(broker).create_group("G", GroupSettings(consume_enable=False))
    assert client.ask(POP, pop()).code == 16


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"extraInfo": "1 2 3"}, 1),
        ({"extraInfo": "0 1 2 0 7 broker-a 0 0"}, 1),
        ({"extraInfo": "0 x 2 0 0 broker-a 0 0"}, 1),
        ({"extraInfo": ""}, 1),
        ({"topic": "None"}, 17),
        ({"queueId": 1}, 13),
        ({"offset": 5}, NO_MESSAGE),
        ({"offset": -1}, 29),
    ],
)
def test_receipts_that_are_none(broker: Broker, client: Line, fields: dict[str, Any], code: int):
    put(broker, "a")
    [one] = got(client)
    for request in (ACK, CHANGE):
        answer = client.ask(request, {**one.fields(invisibleTime=1), **fields})
        assert answer.code == code and answer.remark
    assert offset(broker) == 0


def test_a_read_only_broker_gives_none(served: Callable[..., Broker], resting: Path, line: Connected):
    refused = line(served(resting)).ask(POP, pop())
    assert refused.code == 16 and "read-only" in str(refused.remark)
