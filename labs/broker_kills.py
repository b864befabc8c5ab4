"""kill -9 a broker at random moments while six stock clients send to it. It goes on where it was stopped.

    python -m labs.broker_kills --kills 200 [--seed 1] [--flush async|sync] [--seconds S] [--state DIR] [--report FILE]

Two clients each of Java 5.5.0, Java 5.3.3 and Go send one by one and in batches, and those of Java all at once; one of
each consumes for a group too. The broker is killed while it serves and while it opens, and started again at its
address; nobody touches the clients. After PER_SERIES kills each of them must have been answered again by itself; then
the broker stops, and the store is compared with what all were told. `kill -9` leaves the page cache, so nothing that
was acknowledged may be missing under ASYNC_FLUSH either. A series that is wrong is kept, and ends the program with 1.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from labs.broker.check import WRONG, check_store
from labs.broker.ledger import TOPIC, SendLedger
from labs.broker.process import BrokerProcess
from labs.broker.stock import KINDS, StockSender, started
from labs.three_brokers.check import Found
from labs.torture import figures, report
from tests.interop.stock_clients import Client

NAME = "broker-kills"
GROUP = "Group"
PER_SERIES = 10
KEYS: Mapping[str, object] = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 20_000,
    "maxHashSlotNum": 5_000,
    "maxIndexNum": 20_000,
}
GOES_ON_S, STOP_S = 60.0, 130.0  # until a client is answered again; for what it has under way
GROUP_S = 120.0  # until the group has everything: its members heartbeat each 30 s
COUNTED = ("kills", "while opening", "acknowledged", "sent", "stored", "sent again", "consumed", "not consumed")
COLUMNS = ("flush", *COUNTED, "slowest to go on, s", *WRONG)


class Series:
    """One store, its broker, and the clients, which outlive it.

    Args:
        folder: an empty directory.
        clients: by name.
        flush: flushDiskType.
        chance: decides what is random.
    """

    def __init__(self, folder: Path, clients: Mapping[str, Client], flush: str, chance: random.Random) -> None:
        self.chance, self.found, self.keys = chance, Found(), {**KEYS, "flushDiskType": flush}
        words = [word for key, value in self.keys.items() for word in ("--set", f"{key}={value}")]
        self.broker = BrokerProcess(folder, *words)
        self.senders = [
            StockSender(name, client, self.broker.address, random.Random(chance.random()))
            for name, client in clients.items()
        ]
        self.consumers = [client for name, client in clients.items() if name.endswith("-1")]
        self.slowest_s = 0.0

    def live(self, kills: int) -> Found:
        """Kill so often, and compare the store with what the clients were told."""
        self.broker.start()
        try:
            self.broker.wait_ready()
            while not self.senders[0].last:
                self.senders[0].send_once()  # a Go consumer wants a topic that is there
            for client in self.consumers:
                client.consume(GROUP, self.broker.address, [TOPIC])
            for sender in self.senders:
                sender.start()
            for _ in range(kills):
                self._kill()
            self._settle()
            self.broker.stop()
            check_store(self.broker.store, self.keys, self._ledger(), self.found)
        finally:
            self.broker.kill()
        return self.found

    def _kill(self) -> None:
        """End one life, while it opens or while it serves, and begin the next."""
        if self.chance.random() < 0.25:
            time.sleep(self.chance.uniform(0, 0.7))
        else:
            self.broker.wait_ready()
            time.sleep(self.chance.choice((0.1, 1, 3)) * self.chance.uniform(0.2, 1))
        self.found.counted["while opening"] += not self.broker.is_ready()
        self.found.counted["kills"] += 1
        assert self.broker.runs, f"the broker ended by itself: {self.broker.said()}"
        self.broker.kill()
        self.broker.start()

    def _settle(self) -> None:
        """Wait until every client has gone on; then stop them, and let the group have what is there."""
        self.broker.wait_ready()
        since, limit = self.broker.ready_at, self.broker.ready_at + GOES_ON_S
        while waiting := [sender.name for sender in self.senders if sender.last <= since and sender.is_alive()]:
            assert time.monotonic() < limit, f"{GOES_ON_S} s after the start {waiting} had no answer"
            time.sleep(0.05)
        self.slowest_s = max(sender.last for sender in self.senders) - since
        for sender in self.senders:
            sender.stopping.set()
        for sender in self.senders:
            sender.stop(STOP_S)
        self._await_group()
        for client in self.consumers:
            client.stop(GROUP)

    def _await_group(self) -> None:
        """Wait until the group has each acknowledged message."""
        wanted = {told[:2] for told in self._ledger().acknowledged.values()}
        limit = time.monotonic() + GROUP_S
        while missing := wanted - (there := self._consumed()):
            if time.monotonic() > limit:
                break
            time.sleep(0.2)
        self.found.counted["consumed"] += len(wanted & there)
        for place in sorted(missing):
            self.found.note("not consumed", f"queue {place[0]}, offset {place[1]}")

    def _consumed(self) -> set[tuple[int, int]]:
        return {(row["queue"], row["offset"]) for client in self.consumers for row in client.got(GROUP)}

    def _ledger(self) -> SendLedger:
        whole = SendLedger()
        for sender in self.senders:
            whole.add(sender.ledger)
        return whole


def series(rows: list[list[Any]], done: list[str], told: dict[str, Any], begun: str) -> figures.Series:
    """What the run has counted."""
    return figures.Series(list(COLUMNS), rows, done, told, begun)


def row_of(flush: str, one: Series) -> list[Any]:
    """A series' row of the table."""
    counted = one.found.counted
    return [flush, *(counted[name] for name in COUNTED), round(one.slowest_s, 1), *(counted[name] for name in WRONG)]


def run(state: report.State, kills: int, flushes: tuple[str, ...], until: float, kinds: tuple[str, ...]) -> list[str]:
    """Go on until so many kills are done in all, or it is late; what is wrong."""
    with ExitStack() as stack:
        homes = stack.enter_context(tempfile.TemporaryDirectory(prefix="flintmq-clients-"))
        found = started(Path(homes), kinds, stack)
        while state["kills"] < kills and time.monotonic() < until:
            number = len(state["rows"])
            flush, chance = flushes[number % len(flushes)], random.Random(f"{state['seed']} {number}")
            folder = Path(tempfile.mkdtemp(prefix="flintmq-kills-"))
            one = Series(folder, found, flush, chance)
            try:
                wrong = one.live(min(PER_SERIES, kills - state["kills"])).wrong
            except AssertionError as error:
                wrong = [str(error)]
            if wrong:
                return [f"series {number}, {flush}, kept in {folder}", *wrong]
            shutil.rmtree(folder)
            state["kills"] += one.found.counted["kills"]
            state["rows"].append(row_of(flush, one))
            report.note(state, report.commit())
            state.save()
            print(f"{state['kills']} kills: {dict(zip(COLUMNS, state['rows'][-1], strict=True))}", flush=True)
    return []


def main(words: Iterable[str] | None = None) -> int:
    """The command line. 3: the time was up; 4: a client cannot be had here."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--flush", choices=("async", "sync"), help="one alone; else series of both in turn")
    parser.add_argument("--kinds", default=",".join(KINDS), help="of clients, two of each")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long; the next call goes on")
    parser.add_argument("--state", type=Path, default=Path("build", NAME))
    parser.add_argument("--report", type=Path)
    given = parser.parse_args(None if words is None else list(words))
    until = time.monotonic() + given.seconds
    flushes = tuple(f"{kind.upper()}_FLUSH" for kind in ((given.flush,) if given.flush else ("async", "sync")))
    state = report.State(given.state, kills=0, seed=given.seed, rows=[], commits=[], begun=figures.begun())
    try:
        wrong = run(state, given.kills, flushes, until, tuple(given.kinds.split(",")))
    except pytest.skip.Exception as error:
        print(f"left out: {error}", file=sys.stderr)
        return 4
    if wrong:
        print("WRONG:", *wrong, sep="\n", file=sys.stderr)
        return 1
    counted = series(state["rows"], state["commits"], {"seed": state["seed"]}, state["begun"])
    print(*figures.shown(NAME, counted), sep="\n")
    if state["kills"] < given.kills:
        print(f"time is up; the same command goes on ({given.state})")
        return 3
    if given.report is not None:
        figures.record(given.report, NAME, counted)
        shutil.rmtree(given.state)
    return 0


if __name__ == "__main__":
    sys.exit(main())
