"""What became of each message: `flintmq trace` against a ledger of what clients of a live broker did."""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from flintmq.broker.testing import BrokerControl
from flintmq.cluster.member import Member
from flintmq.config.keys import StoreConfig
from flintmq.forensics.answers.collect import TraceAsked
from flintmq.forensics.answers.dead import dead
from flintmq.forensics.answers.halves import halves
from flintmq.forensics.answers.timers import timers
from flintmq.forensics.answers.trace import Trace, trace
from flintmq.message import StoredMessage
from flintmq.remoting.names import COMMIT_OFFSET, POP, SEND_BACK, SEND_SHORT
from tests.broker.talk import Line, heartbeat, pop, popped, pull, records, send
from tests.broker.test_send_back import back
from tests.broker.test_transactions import COMMIT, ROLLBACK, begun, end
from tests.support.threads import within

CONFIG = StoreConfig.from_keys({"transactionTimeOut": 1})
MESSAGES = 3000
QUEUES = 4
ACK, RECALL = 200051, 370
HOUR, DAY = 3600, 86_400
WAYS = ("plain", "plain", "plain", "soon", "later", "timed", "timed later", "recalled", "commit", "roll back", "open")


@dataclass
class Told:
    """What happened to one message, as its sender and its consumers know it."""

    way: str
    state: str
    source: str | None
    retries: list[tuple[str, int, bool]] = field(default_factory=list)  # group, times, whether it came again
    dead: list[str] = field(default_factory=list)
    passed: dict[str, bool] = field(default_factory=dict)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerControl]:
    config = {"transactionCheckInterval": 3_600_000, "flushConsumerOffsetInterval": 100}
    with BrokerControl(tmp_path / "store", config) as broker:
        broker.store.create_topic("T", queues=QUEUES)
        yield broker


@pytest.fixture
def client(broker: BrokerControl) -> Iterator[Line]:
    with Line(broker.address) as line:
        yield line


def id_of(number: int) -> str:
    return f"{number:032X}"


def sent(client: Line, number: int, way: str) -> Told:
    """Send a message in one of the ways."""
    text, queue = f"UNIQ_KEY\x01{id_of(number)}\x02KEYS\x01k{number} all\x02", number % QUEUES
    if way in ("commit", "roll back", "open"):
        ending = begun(client, key=id_of(number), more=f"KEYS\x01k{number} all\x02")
        if way != "open":
            assert end(client, ending, COMMIT if way == "commit" else ROLLBACK).code == 0
        states = {"commit": "delivered", "roll back": "rolled back", "open": "prepared"}
        return Told(way, states[way], "transaction")
    more = {
        "soon": "DELAY\x012\x02", "later": "DELAY\x0118\x02",
        "timed": "TIMER_DELAY_SEC\x0130\x02", "timed later": f"TIMER_DELAY_SEC\x01{DAY}\x02",
        "recalled": f"TIMER_DELAY_SEC\x01{DAY}\x02",
    }.get(way, "")  # fmt: skip
    answer = client.ask(SEND_SHORT, send("T", queue, text + more), b"%d" % number)
    assert answer.code == 0, answer.remark
    if way == "recalled":
        handle = answer.fields["recallHandle"]
        fields = {"topic": "T", "recallHandle": handle, "producerGroup": "P", "bname": "broker-a"}
        assert client.ask(RECALL, fields).code == 0
    source = {"plain": None, "soon": "delay", "later": "delay"}.get(way, "timer")
    return Told(
        way, {"later": "waiting", "timed later": "waiting", "recalled": "recalled"}.get(way, "delivered"), source
    )


def pulled(client: Line, topic: str, queue: int, group: str) -> list[StoredMessage]:
    """All messages of a queue, pulled as a consumer does, and the offset after them committed."""
    found: list[StoredMessage] = []
    while True:
        answer = client.ask(11, pull(topic, queue, found[-1].queue_offset + 1 if found else 0, group))
        got = [StoredMessage(one) for one in records(answer.body)]
        if not got:
            break
        found += got
    if found:
        commit(client, topic, queue, group, found[-1].queue_offset + 1)
    return found


def commit(client: Line, topic: str, queue: int, group: str, offset: int) -> None:
    fields = {"consumerGroup": group, "topic": topic, "queueId": queue, "commitOffset": offset}
    assert client.ask(COMMIT_OFFSET, fields).code == 0


def disagreements(rows: list[Trace], ledger: dict[str, Told]) -> list[tuple[Any, Any]]:
    """Rows that say something else than the ledger, and messages that have not one row."""
    wrong: list[tuple[Any, Any]] = []
    counts = Counter(row.msg_id for row in rows)
    wrong += [(id, counts[id]) for id in ledger.keys() | counts.keys() if counts[id] != 1 or id not in ledger]
    for row in rows:
        told = ledger.get(row.msg_id or "")
        if told is None:
            continue
        said = (
            row.state, row.source, sorted((one.group, one.times, one.stored_ms is not None) for one in row.retries),
            sorted(one.group for one in row.dead), {one.group: one.passed for one in row.groups},
        )  # fmt: skip
        want = told.state, told.source, sorted(told.retries), sorted(told.dead), told.passed
        if said != want:
            wrong.append((said, want))
        if told.source == "delay" and told.state == "delivered":
            late = (row.stored_ms or 0) - (row.due_ms or 0)
            wrong += [] if late >= 0 else [("early", late)]
    return wrong


def test_no_row_disagrees_with_the_ledger(broker: BrokerControl, client: Line, tmp_path: Path):
    ledger = {id_of(n): sent(client, n, WAYS[n % len(WAYS)]) for n in range(MESSAGES)}
    there = sum(told.state == "delivered" for told in ledger.values())
    assert within(lambda: len(broker.messages("rmq_sys_wheel_timer")) >= 4 * (MESSAGES // len(WAYS)))
    broker.advance(60)
    arrived = broker.wait("T", there, timeout=60)
    assert {message.msg_id for message in arrived} == {id for id, told in ledger.items() if told.state == "delivered"}

    client.ask(34, body=heartbeat("c", "G", "H", topics={"T": "*"}))
    for queue in range(QUEUES):  # G gets all, gives each seventh back, and gives each 21st up
        for message in pulled(client, "T", queue, "G"):
            told, number = ledger[message.msg_id], int(message.keys.split(" ")[0][1:])
            told.passed["G"] = True
            if number % 7 == 0:
                level = -1 if number % 21 == 0 else 1
                fields = {"delayLevel": level, "originTopic": "T", "originMsgId": message.offset_msg_id}
                assert client.ask(SEND_BACK, back(message, **fields)).code == 0
                if level < 0:
                    told.dead.append("G")
                else:
                    told.retries.append(("G", 1, True))
        stop = broker.store.bounds("T", queue)[1] // 2  # H has half of each queue
        commit(client, "T", queue, "H", stop)
        for message in broker.messages("T"):
            if message.queue_id == queue:
                ledger[message.msg_id].passed["H"] = message.queue_offset < stop
    broker.advance(2)
    retried = sum(len(told.retries) for told in ledger.values())
    broker.wait("%RETRY%G", retried, timeout=30)
    for message in pulled(client, "%RETRY%G", 0, "G"):  # a part of these waits two hours for its second try
        if int(message.keys.split(" ")[0][1:]) % 2 == 0:
            assert client.ask(SEND_BACK, back(message, delayLevel=18, originTopic="T")).code == 0
            ledger[message.msg_id].retries.append(("G", 2, False))

    given = popped(client.ask(POP, pop("T", "J", invisibleTime=HOUR * 1000)))  # J acknowledges half of what it pops
    assert len(given) == 32
    late = []
    for number, one in enumerate(given):
        if number % 2:
            assert client.ask(ACK, one.fields("T", "J")).code == 0
        else:
            late.append(one.message.msg_id)
            ledger[one.message.msg_id].retries.append(("J", 1, True))
    broker.advance(HOUR)
    broker.wait("%RETRY%J_T", len(late), timeout=30)

    def offset_of(queue: int) -> int:
        return broker.store.consumer_offset("J", "T", queue) or 0

    assert within(lambda: sum(offset_of(queue) for queue in range(QUEUES)) == 32)
    for message in broker.messages("T"):
        ledger[message.msg_id].passed["J"] = message.queue_offset < offset_of(message.queue_id)
    for told in ledger.values():  # their senders had the time that CONFIG gives them to say how they end
        told.state = "hanging" if told.state == "prepared" else told.state

    path = tmp_path / "store"
    time.sleep(0.5)  # offsets are written each 100 ms
    member = [Member(str(path), "")]
    live = trace(member, TraceAsked(topic="T"), CONFIG)
    assert disagreements(live.rows, ledger) == [] and live.report.damage_count == 0
    broker.stop()
    by_topic, by_key = trace(member, TraceAsked(topic="T"), CONFIG), trace(member, TraceAsked(key="all"), CONFIG)
    assert disagreements(by_topic.rows, ledger) == [] and by_topic.notes == []
    assert by_key.rows == by_topic.rows == trace(member, TraceAsked(topic="T", key="all"), CONFIG).rows
    for number in range(0, MESSAGES, 97):
        [row] = [row for row in by_topic.rows if row.msg_id == id_of(number)]
        assert (
            trace(member, TraceAsked(key=f"k{number}"), CONFIG).rows
            == trace(member, TraceAsked(id=id_of(number)), CONFIG).rows
            == [row]
        )
        assert trace(member, TraceAsked(key=f"k{number}", topic="T"), CONFIG).rows == [row], "by the index"
    _others_agree(member, ledger)


def _others_agree(member: list[Member], ledger: dict[str, Told]) -> None:
    open_ones = {id for id, told in ledger.items() if told.way == "open"}
    assert {row.msg_id for row in halves(member, CONFIG).rows} == open_ones
    ends = {row.msg_id: row.state for row in halves(member, CONFIG, ended=True).rows}
    words = {"delivered": "committed"}
    assert ends == {
        id: words.get(told.state, told.state) for id, told in ledger.items() if told.source == "transaction"
    }
    waiting = [id for id, told in ledger.items() if told.state == "waiting"]
    waiting += [id for id, told in ledger.items() for group, _, came in told.retries if not came]
    found = timers(member)
    assert Counter(row.msg_id for row in found.rows) == Counter(waiting)
    assert sum(found.counts.values()) == len(waiting) and [row.due_ms for row in found.rows] == sorted(
        row.due_ms for row in found.rows
    )
    letters = dead(member, retries=True)
    assert {row.msg_id for row in letters.rows if row.is_dead} == {id for id, told in ledger.items() if told.dead}
    assert all(row.first_topic == "T" and row.first_ms is not None for row in letters.rows)
    assert {row.reason for row in letters.rows if row.is_dead} == {"given back as a dead letter after 0 of 16 retries"}
    popped_ones = {row.reason for row in letters.rows if row.group == "J"}
    assert popped_ones == {"popped and not acknowledged"}
