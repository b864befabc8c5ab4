"""What became of each of 100,000 messages of stock clients: `flintmq trace` beside what the clients were told.

    python -m labs.broker_traced --messages 100000 [--kind java-5.5.0] [--spark] [--record]

RocketMQ's client sends messages in all their ways to a live broker: at once, for a delay, for a timer, in transactions
that commit, roll back or stay open. Four groups consume: one everything, one that gives each of its messages back once,
one that gives each up, one that is stopped on its way. A ledger has what these clients were told: ids, places,
deliveries, and the offsets that the broker says the groups have. Each row of `trace` has to say the same, from the live
store and after the broker's end. The broker's clock is moved, so that nobody waits for delays. What is wrong ends the
program with 1, and the folder is kept.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flintmq.broker.testing import BrokerControl
from flintmq.cluster.member import Member
from flintmq.config.keys import StoreConfig
from flintmq.forensics.answers.collect import TraceAsked
from flintmq.forensics.answers.trace import Trace, trace
from labs.torture import figures, report
from tests.broker.test_what_became import Told, disagreements
from tests.interop.stock_clients import Client, clients

NAME = "broker-traced"
CONFIG = StoreConfig.from_keys({"transactionTimeOut": 1})
BROKER = {"transactionCheckInterval": 36_000_000, "flushConsumerOffsetInterval": 100}
TOPIC, QUEUES = "T", 4
AT_ONCE = 50  # messages of a request to the client, which gives up an answer after 3 s
DAY_S = 86_400
WAYS = {
    "plain": 8, "again": 2, "dead": 1, "soon": 2, "later": 1, "timed": 1, "timed later": 1, "commit": 2, "roll back": 1,
    "open": 1,
}  # fmt: skip
"""Of so many messages of 20 each."""
LEVELS = {"soon": 2, "later": 18}
WORDS = {"commit": "c", "roll back": "r", "open": "u"}
SOURCES = {
    **dict.fromkeys(("plain", "again", "dead")), **dict.fromkeys(LEVELS, "delay"),
    **dict.fromkeys(("timed", "timed later"), "timer"), **dict.fromkeys(WORDS, "transaction"),
}  # fmt: skip
STATES = {"later": "waiting", "timed later": "waiting", "roll back": "rolled back", "open": "hanging"}
STEP_S, MOVED_S_MAX = 20, 3600  # by which the broker's clock is moved at a time, and in all: "later" waits two hours
WAIT_S = 1800.0


class Traced:
    """One broker, its clients and their ledger.

    Attributes:
        ledger: by the sender's id.
        wrong: (said by a row, told to the clients) of each row that disagrees, with a word for which answer.
    """

    def __init__(self, folder: Path, client: Client, messages: int) -> None:
        self.folder, self.client, self.messages = folder, client, messages
        self.ledger: dict[str, Told] = {}
        self.counted: Counter[str] = Counter()
        self.seconds: dict[str, float] = {}
        self.wrong: list[tuple[str, Any]] = []

    def run(self, with_spark: bool) -> None:
        with BrokerControl(self.folder / "store", BROKER) as broker:
            broker.store.create_topic(TOPIC, queues=QUEUES)
            self._consume(broker.address)
            self._send(broker.address)
            self._wait(broker)
            self._offsets(broker.address)
            time.sleep(1)  # offsets are written each 100 ms
            self._judge("live", self._traced(TraceAsked(topic=TOPIC)))
            broker.stop()
        self._judge("at rest", self._traced(TraceAsked(topic=TOPIC)))
        self._judge("by key", self._traced(TraceAsked(key="all")))
        if with_spark:
            self._judge("Spark", self._on_spark())

    def _send(self, address: str) -> None:
        began = time.monotonic()
        ways = [way for way, often in WAYS.items() for _ in range(often)]
        bodies = defaultdict[str, list[str]](list)
        for number in range(self.messages):
            way = ways[number % len(ways)]
            bodies[way].append(f"{number} {WORDS.get(way, 'x')}")
        parts = {way: [some[at : at + AT_ONCE] for at in range(0, len(some), AT_ONCE)] for way, some in bodies.items()}
        for number in range(max(map(len, parts.values()))):  # the ways in turns
            for way, some in parts.items():
                if number < len(some):
                    self._send_part(address, way, some[number])
        self.seconds["sending"] = time.monotonic() - began
        assert len(self.ledger) == self.messages

    def _send_part(self, address: str, way: str, bodies: list[str]) -> None:
        words = {"topic": TOPIC, "bodies": bodies, "tags": way.partition(" ")[0], "keys": "all"}
        if way.startswith("timed"):  # the client's program knows no timers: the property comes with the tag before it
            words["tags"] += f"\x02TIMER_DELAY_SEC\x01{30 if way == 'timed' else DAY_S}"
        if way in WORDS:
            sent = self.client.ask("transact", address, group="P", **words)["sent"]
        else:
            sent = self.client.ask("send", address, how="async", level=LEVELS.get(way, 0), **words)["sent"]
        assert len(sent) == len(bodies) and {row["status"] for row in sent} == {"SEND_OK"}, (way, len(sent))
        for row in sent:
            told = self.ledger[row["id"]] = Told(way, STATES.get(way, "delivered"), SOURCES[way])
            if way == "again":
                told.retries.append(("Again", 1, True))
            elif way == "dead":
                told.retries.append(("Dead", 1, True))
                told.dead.append("Dead")

    def _consume(self, address: str) -> None:
        self.client.consume("All", address, [TOPIC])
        self.client.consume("Again", address, [TOPIC], tags="again", refuse=1)
        self.client.consume("Dead", address, [TOPIC], tags="dead", refuse=99, most=1)

    def _wait(self, broker: BrokerControl) -> None:
        """Move the clock until everything that comes has come, as often as it was to come."""
        ways = Counter(told.way for told in self.ledger.values())
        there = sum(told.state == "delivered" for told in self.ledger.values())
        wanted = {"All": there, "Again": 2 * ways["again"], "Dead": 2 * ways["dead"]}
        limit, moved = time.monotonic() + WAIT_S, 0
        began = time.monotonic()
        while any(len(self.client.got(group)) < count for group, count in wanted.items()):
            if moved < MOVED_S_MAX:
                broker.advance(STEP_S)
                moved += STEP_S
            time.sleep(2)
            assert time.monotonic() < limit, {group: len(self.client.got(group)) for group in wanted}
        broker.wait("%DLQ%Dead", ways["dead"], timeout=60)
        self.client.consume("Half", broker.address, [TOPIC])
        self.client.await_messages("Half", there // 3, settle_s=0)
        got = {group: self.client.stop(group) for group in (*wanted, "Half")}
        self.seconds["consuming"] = time.monotonic() - began
        for group, count in wanted.items():
            assert len(got[group]) == count, f"{group} got {len(got[group])}, not {count}"
        self.places = {row["id"]: (row["queue"], row["offset"]) for row in got["All"]}
        self.counted["deliveries"] = sum(map(len, got.values()))
        delivered = {id for id, told in self.ledger.items() if told.state == "delivered"}
        assert self.places.keys() == delivered, len(self.places.keys() ^ delivered)

    def _offsets(self, address: str) -> None:
        """Ask the broker, by the client, how far the groups are."""
        for group in ("All", "Again", "Dead", "Half"):
            words = {"group": group, "topic": TOPIC}
            ends = [self.client.ask("committed", address, queue=queue, **words)["offset"] for queue in range(QUEUES)]
            for id, (queue, offset) in self.places.items():
                self.ledger[id].passed[group] = offset < ends[queue]

    def _traced(self, asked: TraceAsked) -> list[Trace]:
        found = trace([Member(str(self.folder / "store"), "")], asked, CONFIG)
        assert found.report.damage_count == 0 and not found.is_cut
        return found.rows

    def _on_spark(self) -> list[Any]:
        import flintmq.spark

        spark = flintmq.spark.session("traced", "local[2]")
        try:
            found = flintmq.spark.trace(spark, str(self.folder / "store"), CONFIG, topics=[TOPIC])
            times = [f"unix_millis({name}) AS {name}" for name in ("stored_ms", "due_ms")]
            rest = ["msg_id", "queue_id", "queue_offset", "state", "source", "retries", "dead", "groups"]
            return list(found.selectExpr(*rest, *times).collect())
        finally:
            spark.stop()

    def _judge(self, which: str, rows: list[Any]) -> None:
        """Compare rows, and the place of each message, with what the clients were told."""
        self.wrong += [(which, one) for one in disagreements(rows, self.ledger)]
        for row in rows:
            place = None if row.queue_offset is None else (row.queue_id, row.queue_offset)
            if row.msg_id in self.ledger and self.places.get(row.msg_id) != place:
                self.wrong.append((which, (row.msg_id, place, self.places.get(row.msg_id))))
        self.counted["rows"] += len(rows)


def series(one: Traced, kind: str, begun: str) -> figures.Series:
    """What the run has counted, and how many messages were sent in each way."""
    ways = Counter(told.way for told in one.ledger.values())
    told = {"messages": len(one.ledger), "deliveries": one.counted["deliveries"], "rows": one.counted["rows"]}
    told |= {"retries": sum(len(each.retries) for each in one.ledger.values())}
    told |= {"dead letters": sum(len(each.dead) for each in one.ledger.values())}
    more = {"disagree": len(one.wrong), "client": kind, **{name: round(s) for name, s in one.seconds.items()}}
    rows = [[way, STATES.get(way, "delivered"), ways[way]] for way in WAYS]
    return figures.Series(["sent", "became", "messages of the way"], rows, [report.commit()], told | more, begun)


def main(words: Iterable[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--kind", default="java-5.5.0", help="of the client: java-5.3.3 or java-5.5.0")
    parser.add_argument("--spark", action="store_true", help="compare the rows of Spark, too")
    parser.add_argument("--record", action="store_true", help=f"add the run to {NAME}.json")
    given = parser.parse_args(None if words is None else list(words))
    begun, folder = figures.begun(), Path(tempfile.mkdtemp(prefix="flintmq-traced-"))
    with clients(given.kind, folder, ["-Xmx1g"]) as client:
        one = Traced(folder, client, given.messages)
        one.run(given.spark)
    counted = series(one, given.kind, begun)
    return figures.ended(NAME, counted, one.wrong, folder, given.record)


if __name__ == "__main__":
    sys.exit(main())
