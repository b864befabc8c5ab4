"""Consumers that subscribe by SQL92 get what their condition wants, by pulls and pops, or are refused in words."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flintmq.broker import Broker, sql
from flintmq.broker.connection import ClientConnection
from flintmq.broker.pop import Popped, Pops, PopWanted
from flintmq.broker.served_store import ServedStore
from flintmq.message import Message
from flintmq.remoting.frames import RemotingFrame
from flintmq.store.message_store import MessageStore
from tests.broker.conftest import SMALL
from tests.broker.talk import Line, heartbeat, pop, popped, pull, records
from tests.broker.test_pull import numbers, place
from tests.broker.test_send import stored
from tests.support.threads import within

PULL, CHECK, HEARTBEAT, POP, ACK, PEEK = 11, 46, 34, 200050, 200051, 200052
FOUND, NOT_FOUND, AGAIN = 0, 19, 20
SQL = {"expressionType": "SQL92"}
CONDITION = "(p BETWEEN 3 AND 6) AND TAGS IN ('A')"
COUNT = 2000
WANTED = [n for n in range(COUNT) if 3 <= n % 10 <= 6 and n % 3 == 0]
PARSE, NOT_THERE = "parse the consumer's subscription failed: ", "The broker's consumer filter data is not exist!"
Connected = Callable[[Broker], Line]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No look ends early because the machine is slow."""
    monkeypatch.setattr("flintmq.store.read.answer.LOOKS_S", 60)


def fill(store: MessageStore, count: int = COUNT, **more: str) -> None:
    """Put messages 0..count-1 with the tags A, B, C in turn, and a property p of 0 to 9."""
    for number in range(count):
        properties = {"p": str(number % 10), "n": str(number), **more}
        store.put(Message("T", b"%d" % number, tags="ABC"[number % 3], queue_id=0, properties=properties))
    assert store.wait_dispatched(60)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("filters") / "store"
    with MessageStore(root, config=SMALL) as store:
        store.create_topic("T", queues=2)
        fill(store)
    return root


@pytest.fixture(params=["writing", "read-only"])
def broker(request: pytest.FixtureRequest, filled: Path, tmp_path: Path) -> Iterator[Broker]:
    """A broker that serves these messages."""
    if request.param == "read-only":
        made = Broker(filled, read_only=True)
    else:
        with MessageStore(tmp_path / "store", config=SMALL) as store:
            store.create_topic("T", queues=2)
            fill(store)
        made = Broker(tmp_path / "store", config=SMALL)
    with made as running:
        yield running
        assert running.stats().failed == 0


def pulls(client: Line, condition: str, **more: Any) -> list[RemotingFrame]:
    """The answers from the queue's begin to its end; each goes on, and has no more than it may."""
    found, at = list[RemotingFrame](), 0
    while (answer := client.ask(PULL, pull(offset=at, subscription=condition, **SQL, **more))).code != NOT_FOUND:
        assert (answer.code == FOUND) == bool(answer.body) and answer.code in (FOUND, AGAIN), answer.remark
        assert at < place(answer)[0] <= at + 1000, "a step is bounded"
        found.append(answer)
        at = place(answer)[0]
    assert at == COUNT
    return found


# -- pulls -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, {"maxMsgNums": 1}, {"maxMsgNums": 7}, {"maxMsgNums": 900}, {"maxMsgBytes": 700}])
def test_pulls_get_what_is_wanted(broker: Broker, line: Connected, more: dict[str, int]):
    answers = pulls(line(broker), CONDITION, **more)
    assert [number for answer in answers for number in numbers(answer)] == WANTED
    for answer in answers:
        count = len(numbers(answer))
        assert count <= more.get("maxMsgNums", 32)
        assert count <= 1 or len(answer.body) <= more.get("maxMsgBytes", 256 << 10)


def test_nobody_wants_them(broker: Broker, line: Connected):
    answers = pulls(line(broker), "p > 9")
    assert {answer.code for answer in answers} == {AGAIN}
    assert {answer.remark for answer in answers} == {"NO_MATCHED_MESSAGE"}
    assert len(answers) == 3, "800 are looked at for one answer"


def test_the_subscription_of_a_heartbeat(broker: Broker, line: Connected):
    client = line(broker)
    asked = pull(sysFlag=0, subVersion=1)
    client.ask(HEARTBEAT, body=heartbeat("a", "G", topics={"T": CONDITION}, kind="SQL92"))
    assert numbers(client.ask(PULL, asked)) == WANTED[:32]
    client.ask(HEARTBEAT, body=heartbeat("a", "G", topics={"T": "p >"}, kind="SQL92", version=2))
    answer = client.ask(PULL, asked)
    assert answer.code == 27 and str(answer.remark).startswith(NOT_THERE + "Your expression may be wrong!: ")
    client.ask(HEARTBEAT, body=heartbeat("a", "G", topics={"T": "B"}, kind="", version=3))
    assert numbers(client.ask(PULL, asked))[0] == 1, "an empty kind is that of tags"


@pytest.mark.parametrize("condition", ["", "*", "A || B", "p >", "p = 'x", "(" * 4096, "p = " + "9" * 4093, "p > 'x'"])
def test_what_is_no_condition(broker: Broker, line: Connected, condition: str):
    answer = line(broker).ask(PULL, pull(subscription=condition, **SQL))
    assert answer.code == 23 and str(answer.remark).startswith(PARSE) and len(str(answer.remark)) < 300


def test_other_kinds(broker: Broker, line: Connected):
    answer = line(broker).ask(PULL, pull(subscription="p > 1", expressionType="XPATH"))
    refusal = "The broker does not support consumer to filter message by XPATH"
    assert (answer.code, answer.remark) == (1, refusal)


def test_enable_property_filter(filled: Path, line: Connected):
    refusal = 1, "The broker does not support consumer to filter message by SQL92"
    with Broker(filled, read_only=True, config={"enablePropertyFilter": False}) as broker:
        client = line(broker)
        answer = client.ask(PULL, pull(subscription=CONDITION, **SQL))
        assert (answer.code, answer.remark) == refusal
        answer = client.ask(CHECK, body=subscription(CONDITION, "SQL92"))
        assert (answer.code, answer.remark) == refusal
        assert numbers(client.ask(PULL, pull(subscription="A", maxMsgNums=2))) == [0, 3], "tags go on"


def test_a_held_pull_goes_on(writing: Callable[..., Broker], line: Connected):
    broker = writing()
    fill(stored(broker), 10)
    client, hold = line(broker), {"sysFlag": 6, "suspendTimeoutMillis": 8000, "subscription": "p = 5", **SQL}
    number = client.start(PULL, pull(offset=10, **hold))
    assert within(lambda: broker.stats().held == 1)
    stored(broker).put(Message("T", b"no", queue_id=0, properties={"p": "4"}))
    answer = client.answer(number)
    assert (answer.code, place(answer)[0]) == (AGAIN, 11), "behind what it does not want"
    number = client.start(PULL, pull(offset=11, **hold))
    assert within(lambda: broker.stats().held == 1)
    stored(broker).put(Message("T", b"yes", queue_id=0, properties={"p": "5"}))
    assert numbers(client.answer(number)) == [11]


def test_a_slow_condition_holds_nobody_up(broker: Broker, line: Connected, monkeypatch: pytest.MonkeyPatch):
    """It is evaluated by a thread: the loop answers others meanwhile, also who is behind it on its connection."""
    begun, go = threading.Event(), threading.Event()

    def slow(properties: Any) -> bool:
        begun.set()
        assert go.wait(30)
        return True

    monkeypatch.setattr(sql, "wanted", lambda text: slow)
    client = line(broker)
    number = client.start(PULL, pull(offset=COUNT - 1, subscription="p = 9", **SQL))
    try:
        assert begun.wait(30)
        assert client.ask(PULL, pull(maxMsgNums=1)).code == FOUND
    finally:
        go.set()
    assert numbers(client.answer(number)) == [COUNT - 1]


def test_a_message_that_comes_meanwhile_is_looked_at(
    writing: Callable[..., Broker], line: Connected, monkeypatch: pytest.MonkeyPatch
):
    """The queue ended before it when the loop looked, and has it when the loop reads."""
    broker = writing()
    fill(stored(broker), 10)
    monkeypatch.setattr(broker.store, "bounds", lambda topic, queue_id: (0, 0))
    assert numbers(line(broker).ask(PULL, pull(subscription="p = 5", **SQL))) == [5]


def test_large_messages_are_looked_at_in_steps(
    writing: Callable[..., Broker], line: Connected, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("flintmq.store.read.answer.LOOKED_AT", 1 << 20)
    broker = writing()
    for _ in range(12):
        stored(broker).put(Message("T", bytes(300_000), queue_id=0, properties={"p": "1"}))
    stored(broker)
    client, at, steps = line(broker), 0, []
    while (answer := client.ask(PULL, pull(offset=at, subscription="p = 2", **SQL))).code == AGAIN:
        steps.append(place(answer)[0] - at)
        at = place(answer)[0]
    assert steps == [4, 4, 4] and answer.code == NOT_FOUND


# -- what clients ask before they consume ------------------------------------------------------------------------------


def subscription(text: str | None, kind: str | None) -> bytes:
    told = {"topic": "T", "subString": text, "expressionType": kind, "tagsSet": [], "subVersion": 1}
    return json.dumps({"clientId": "c", "group": "G", "subscriptionData": told}).encode()


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        (subscription(CONDITION, "SQL92"), 0, None),
        (subscription("A || B", "TAG"), 0, None),
        (subscription("A || B", None), 0, None),
        (subscription("A || B", ""), 0, None),
        (
            subscription("p >", "SQL92"),
            23,
            "Invalid MessageSelector: position 3: its end cannot follow what comes before",
        ),
        (subscription("", "SQL92"), 23, "Invalid MessageSelector: position 0: its end cannot follow what comes before"),
        (
            subscription(None, "SQL92"),
            23,
            "Invalid MessageSelector: position 0: its end cannot follow what comes before",
        ),
        (subscription("p > 1", "XPATH"), 1, "The broker does not support consumer to filter message by XPATH"),
        (b'{"subscriptionData": 7}', 0, None),
        (b"{}", 0, None),
    ],
)
def test_clients_ask_before(broker: Broker, line: Connected, body: bytes, code: int, said: str | None):
    answer = line(broker).ask(CHECK, body=body)
    assert (answer.code, answer.remark) == (code, said)


# -- pops --------------------------------------------------------------------------------------------------------------


@contextmanager
def popping(writing: Callable[..., Broker], count: int, **keys: Any) -> Iterator[tuple[Broker, Line]]:
    broker = writing(config=keys)
    stored(broker).create_topic("T", 1)
    fill(stored(broker), count)
    with Line(broker.address) as client:
        yield broker, client
    assert broker._now.pops is not None
    broker._now.pops.check_invariants()
    assert broker.stats().failed == 0


def test_pops_pass_what_is_not_wanted(writing: Callable[..., Broker]):
    """It counts as consumed. A retry comes whatever its condition is, as with tags."""
    asked = pop(exp=CONDITION, expType="SQL92")
    with popping(writing, COUNT) as (broker, client):
        found = list[int]()
        while (answer := client.ask(POP, asked)).code == FOUND:
            assert len(popped(answer)) <= 32
            for one in popped(answer):
                found.append(one.message.queue_offset)
                assert client.ask(ACK, one.fields()).code == 0
        assert answer.code == 210 and found == WANTED
        assert stored(broker).consumer_offset("G", "T", 0) == COUNT, "what nobody wanted is passed"
        never = pop(group="H", exp="p = 77", expType="SQL92")
        assert client.ask(POP, never).code == 210 and stored(broker).consumer_offset("H", "T", 0) == COUNT


Look = tuple[int, int]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Look]:
    """Each pop looks at 32 messages, as its time is over then; what each look begins with, and for how many it is."""
    monkeypatch.setattr("flintmq.store.read.answer.LOOKS_S", 0)
    found, read = list[Look](), ServedStore.read

    async def looked(of: ServedStore, *asked: Any) -> Any:
        if len(asked) > 4 and asked[4].wanted is not None:
            found.append((asked[2], asked[3]))
        return await read(of, *asked)

    monkeypatch.setattr(ServedStore, "read", looked)
    return found


def test_a_pop_looks_for_a_time(writing: Callable[..., Broker], looks: list[Look]):
    """It gives nothing then; the next one goes on, and misses nothing."""
    asked = pop(exp="n = 199", expType="SQL92")
    with popping(writing, 210) as (broker, client):
        for count, offset in enumerate((32, 64, 96, 100, 132, 164, 196), 1):  # a file has 100 units
            assert client.ask(POP, asked).code == 210
            assert stored(broker).consumer_offset("G", "T", 0) == offset and len(looks) == count
        [one] = popped(client.ask(POP, asked))
        assert one.message.body == b"199"


def test_others_come_between_the_looks_of_a_pop(
    writing: Callable[..., Broker], line: Connected, looks: list[Look], monkeypatch: pytest.MonkeyPatch
):
    """It goes on while its time lasts."""
    other_asks, take, read = threading.Event(), Pops._take, ServedStore.read

    async def taken(of: Pops, wanted: PopWanted) -> Popped:
        if wanted.most == 1:
            other_asks.set()
        return await take(of, wanted)

    async def looked(of: ServedStore, *asked: Any) -> Any:
        while len(looks) == 3 and not other_asks.is_set():
            await asyncio.sleep(0.001)
        return await read(of, *asked)

    monkeypatch.setattr(Pops, "_take", taken)
    monkeypatch.setattr(ServedStore, "read", looked)
    with popping(writing, COUNT) as (broker, client):
        number = client.start(POP, pop(exp=f"n = {COUNT - 1}", expType="SQL92", pollTime=60_000))
        assert within(lambda: len(looks) == 3)
        [one] = popped(line(broker).ask(POP, pop(exp="n > 0", expType="SQL92", maxMsgNums=1)))
        assert one.message.body == b"100" and looks[4] == (100, 1)
        [one] = popped(client.answer(number, 60))
        assert one.message.body == b"%d" % (COUNT - 1)
        assert looks == sorted(looks), "each message is looked at once"


def test_other_answers_of_a_connection_come_between_the_looks_of_its_pops(
    writing: Callable[..., Broker], looks: list[Look], monkeypatch: pytest.MonkeyPatch
):
    """Its turns are theirs, too."""
    monkeypatch.setattr("flintmq.broker.connection.TURNS", 1)
    came, others = list[None](), list[int]()
    take, read, began = Pops._take, ServedStore.read, ClientConnection.began

    async def taken(of: Pops, wanted: PopWanted) -> Popped:
        if wanted.group == "H":
            others.append(len(looks))
        return await take(of, wanted)

    async def looked(of: ServedStore, *asked: Any) -> Any:
        while len(looks) == 3 and len(came) < 2:
            await asyncio.sleep(0.001)
        return await read(of, *asked)

    monkeypatch.setattr(Pops, "_take", taken)
    monkeypatch.setattr(ServedStore, "read", looked)
    monkeypatch.setattr(ClientConnection, "began", lambda of: (came.append(None), began(of)))
    with popping(writing, COUNT) as (_, client):
        client.start(POP, pop(exp="n = -1", expType="SQL92", pollTime=60_000))
        assert within(lambda: len(looks) == 3)
        assert len(popped(client.ask(POP, pop(group="H")))) == 32
    assert others and others[0] < 6 < COUNT // 32


def test_a_pop_that_had_no_time_leaves_the_rest_to_others(
    writing: Callable[..., Broker], line: Connected, monkeypatch: pytest.MonkeyPatch
):
    """It was the one that a message woke, and never came to its queue."""
    monkeypatch.setattr("flintmq.broker.pop.random.randrange", lambda count: 0)
    broker = writing()
    stored(broker).create_topic("T", 2)
    one, two = line(broker), line(broker)
    first = one.start(POP, pop(exp="n = 1", expType="SQL92", pollTime=2000))
    assert within(lambda: broker.stats().held == 1)
    second = two.start(POP, pop(pollTime=60_000))
    assert within(lambda: broker.stats().held == 2)
    monkeypatch.setattr("flintmq.store.read.answer.LOOKS_S", 0)
    stored(broker).put(Message("T", b"x", queue_id=1))
    assert one.answer(first).code == 210
    assert [found.message.body for found in popped(two.answer(second))] == [b"x"]


def test_a_pop_ends_with_its_client(writing: Callable[..., Broker], line: Connected, looks: list[Look]):
    with popping(writing, COUNT) as (broker, client):
        with Line(broker.address) as gone:
            gone.start(POP, pop(exp="n = -1", expType="SQL92", pollTime=60_000))
            assert within(lambda: looks)
        assert within(lambda: broker.stats().connections == 1)
        after = len(looks)
        assert client.ask(CHECK, body=subscription("a = 1", "SQL92")).code == 0
        assert len(looks) <= after + 2 < COUNT // 32


def test_a_retry_comes_whatever_is_asked_for(writing: Callable[..., Broker]):
    with popping(writing, 10) as (_, client):
        asked = pop(exp="n = 3", expType="SQL92", invisibleTime=100)
        [first] = popped(client.ask(POP, asked))
        [again] = popped(client.ask(POP, pop(exp="n = 77", expType="SQL92", pollTime=8000)))
        assert (again.message.body, again.message.reconsume_times) == (first.message.body, 1)


def test_a_pop_waits_for_what_is_wanted(writing: Callable[..., Broker]):
    with popping(writing, 10) as (broker, client):
        number = client.start(POP, pop(exp="n = 10", expType="SQL92", pollTime=8000))
        assert within(lambda: broker.stats().held == 1)
        stored(broker).put(Message("T", b"no", queue_id=0, properties={"n": "9"}))
        assert client.is_quiet(0.2)
        stored(broker).put(Message("T", b"yes", queue_id=0, properties={"n": "10"}))
        [one] = popped(client.answer(number))
        assert one.message.body == b"yes"


def test_pops_without_a_condition(writing: Callable[..., Broker]):
    with popping(writing, 3) as (_, client):
        assert len(popped(client.ask(POP, pop(exp="", expType="SQL92")))) == 3, "as RocketMQ takes an empty one"
        for condition in ("p >", "*", " "):
            answer = client.ask(POP, pop(exp=condition, expType="SQL92"))
            assert answer.code == 23 and str(answer.remark).startswith(PARSE)
        assert client.ask(POP, pop(exp="p = 1", expType="XPATH")).code == 1


def test_pops_are_refused_where_conditions_are(writing: Callable[..., Broker]):
    with popping(writing, 3, enablePropertyFilter=False) as (_, client):
        answer = client.ask(POP, pop(exp="p = 1", expType="SQL92"))
        assert (answer.code, answer.remark) == (1, "The broker does not support consumer to filter message by SQL92")
        assert len(list(records(client.ask(POP, pop(exp="A")).body))) == 1
