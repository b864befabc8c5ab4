"""A Spark stream reads a broker's store while a stock Java producer sends, and both are killed twice.

    python -m labs.broker_stream --messages 100000 [--seed 1] [--record]

`readStream.format("flintmq")` carries the store into Parquet files, as in labs/torture_spark/streams.py. The broker
and the query are killed in turn (of the query its driver, then its Java), each twice, between a fifth and four fifths
of the messages, and started again; nobody touches the producer. At the end the store is what the producer was told,
and the table has each message of the store once. What is wrong ends the program with 1, and the folder is kept.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import pytest

from labs.broker.check import WRONG, check_store
from labs.broker.process import BrokerProcess
from labs.broker.stock import StockSender
from labs.three_brokers.check import Found
from labs.torture import figures, report
from labs.torture_spark.check import Verdict, check_table, count
from labs.torture_spark.loop import STUCK_S, wanted_of
from labs.torture_spark.streams import Query
from labs.torture_spark.writer import KEYS
from tests.interop.stock_clients import clients

NAME = "broker-stream"
CLIENT, MASTER = "java-5.5.0", "local[2,8]"
VICTIMS = ("broker", "driver", "broker", "java")  # in this order, at equal distances
PAUSE_S, STOP_S, WAIT_S = 0.02, 130.0, 600.0
COUNTED = ("acknowledged", "sent", "stored", "sent again")


class Streamed:
    """A broker, a producer and a query of the store.

    Args:
        folder: an empty directory.
        messages: how many are to be acknowledged, at least.
        seed: of what is random.
        pause_s: of the producer, at most, after each operation.
    """

    def __init__(self, folder: Path, messages: int, seed: int, pause_s: float = PAUSE_S) -> None:
        self.folder, self.messages, self.chance, self.pause_s = folder, messages, random.Random(seed), pause_s
        words = [word for key, value in KEYS.items() for word in ("--set", f"{key}={value}")]
        self.broker = BrokerProcess(folder, *words)
        self.query = Query(folder, str(self.broker.store), MASTER, max(100, messages // 30), "none")
        self.found, self.verdict, self.kills = Found(), Verdict(), 0

    def run(self) -> None:
        """Send, kill, and compare.

        Raises pytest's Skipped: the client cannot be had here.
        """
        home = self.folder / "client"
        home.mkdir()
        with ExitStack() as stack:
            client = stack.enter_context(clients(CLIENT, home))
            stack.callback(self.query.end)
            stack.callback(self.broker.kill)
            sender = StockSender("java", client, self.broker.address, self.chance, self.pause_s)
            self.broker.start()
            self.broker.wait_ready()
            sender.start()
            self._wait(sender, 1)
            self.query.start()
            for number, whom in enumerate(VICTIMS, 1):
                self._wait(sender, self.messages * number // (len(VICTIMS) + 1))
                self._kill(whom)
            self._wait(sender, self.messages)
            sender.stop(STOP_S)
            self.broker.stop()
            self._catch_up(wanted_of(self.broker.store))
            check_store(self.broker.store, KEYS, sender.ledger, self.found)
            places = [told.physical_offset for told in sender.ledger.acknowledged.values()]
            self.verdict = check_table(self.broker.store, self.query.table, (at for at in places if at is not None))

    def _wait(self, sender: StockSender, acknowledged: int) -> None:
        limit = time.monotonic() + WAIT_S
        while len(sender.ledger.acknowledged) < acknowledged:
            assert sender.is_alive() and time.monotonic() < limit, f"the producer: {sender.error}"
            assert self.broker.runs, f"the broker ended by itself: {self.broker.said()}"
            time.sleep(0.05)

    def _kill(self, whom: str) -> None:
        """Kill one, once the query is at work, and start it again."""
        if whom == "broker":
            self.broker.kill()
            self.broker.start()
            self.broker.wait_ready()
        else:
            assert self.query.wait_for_a_task(STUCK_S), f"the query has no task: {self._last_words()}"
            assert self.query.kill(whom, self.chance), f"there is no {whom} of the query: {self._last_words()}"
            self.query.check_gone()
            self.query.start()
        self.kills += 1
        print(f"killed: {whom}; {count(self.query.table):,} messages in the table", flush=True)

    def _catch_up(self, wanted: int) -> None:
        """Wait until the table has so many messages, and stop the query."""
        there, moved = 0, time.monotonic()
        while there < wanted:
            assert self.query.runs, f"the query ended by itself: {self._last_words()}"
            assert time.monotonic() < moved + STUCK_S, f"the table stays at {there} of {wanted}: {self._last_words()}"
            time.sleep(0.5)
            before, there = there, count(self.query.table)
            moved = moved if there == before else time.monotonic()
        code = self.query.close()
        assert code in (0, -signal.SIGTERM), f"the query stopped with {code}: {self._last_words()}"

    def _last_words(self) -> str:
        errors = self.folder / "export.err"
        return errors.read_text(errors="replace")[-1000:] if errors.exists() else ""


def series(one: Streamed, seed: int, begun: str) -> figures.Series:
    """What the run has counted."""
    counted, verdict = one.found.counted, one.verdict
    table = {f"{name} of the table": number for name, number in _of_table(verdict).items()}
    columns = ["seed", "kills", *COUNTED, "in the table", *WRONG, *table]
    row = [seed, one.kills, *(counted[name] for name in COUNTED), verdict.exported]
    row += [*(counted[name] for name in WRONG), *table.values()]
    return figures.Series(columns, [row], [report.commit()], {}, begun)


def _of_table(verdict: Verdict) -> dict[str, int]:
    names = ("missing", "doubled", "foreign", "lost", "unqueued")
    return {name: getattr(verdict, name) for name in names}


def main(words: Iterable[str] | None = None) -> int:
    """The command line. 4: the client cannot be had here."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true", help=f"add the run to {NAME}.json")
    given = parser.parse_args(None if words is None else list(words))
    begun, folder = figures.begun(), Path(tempfile.mkdtemp(prefix="flintmq-stream-"))
    one = Streamed(folder, given.messages, given.seed)
    try:
        one.run()
    except pytest.skip.Exception as error:
        print(f"left out: {error}", file=sys.stderr)
        return 4
    except AssertionError as error:
        print(f"WRONG, kept in {folder}: {error}", file=sys.stderr)
        return 1
    counted = series(one, given.seed, begun)
    return figures.ended(NAME, counted, [*one.found.wrong, *one.verdict.wrong], folder, given.record)


if __name__ == "__main__":
    sys.exit(main())
