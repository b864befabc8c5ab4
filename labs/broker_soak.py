"""A broker under a steady load for long: what it holds must not grow.

    python -m labs.broker_soak --minutes 60 --connections 100 [--seed 1] [--record]

Of the connections four in ten send, three are groups that consume everything by held pulls, two only send heartbeats,
and one comes and goes all the while (labs/broker/load.py). Memory (RssAnon), descriptors and threads of the broker are
told for each fifth of the time: the last one may not be higher than the second one, beyond a slack. Its event loop is
watched: no callback may have more than 100 ms of its own, and each longer one is a line of its log. At the end each
group has had every message, the broker stops cleanly, and the store is what the senders were told. What is wrong ends
the program with 1, and the folder is kept.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flintmq.remoting.client import RemotingClient
from flintmq.remoting.names import MAKE_TOPIC
from labs.broker import watched
from labs.broker.check import WRONG, check_store
from labs.broker.ledger import QUEUES, TOPIC
from labs.broker.load import Load
from labs.broker.process import BrokerProcess
from labs.soak.run import Sample, fifths, grown
from labs.three_brokers.check import Found
from labs.torture import figures, report

NAME = "broker-soak"
SAMPLE_S = 5.0
LONGEST_CPU_MS = 100.0  # of one callback
SLACK = {"memory_kib": 8 << 10, "descriptors": 12, "threads": 1}  # comers are there at one look, and not at the next
FIGURES = {"memory_kib": "memory, KiB", "descriptors": "descriptors", "threads": "threads"}
ALL_WRONG = (*WRONG, "grown", "slow callbacks", "not consumed")
COUNTED = ("acknowledged", "stored", "consumed", "came and went")


class BrokerSoak:
    """One broker and its load.

    Args:
        folder: an empty directory.
        connections: of clients at a time.
        seed: of what is random.
    """

    def __init__(self, folder: Path, connections: int, seed: int) -> None:
        self.watch_file = folder / "watch.json"
        self.broker = BrokerProcess(folder, program=("labs.broker.watched", str(self.watch_file)))
        self.connections, self.seed, self.seconds = connections, seed, 0.0
        self.found, self.samples, self.watch = Found(), list[Sample](), watched.Watch()

    def run(self, seconds: float) -> Found:
        """Live for so long, and judge."""
        self.seconds = seconds
        self.broker.start()
        try:
            self.broker.wait_ready()
            with RemotingClient(self.broker.address) as line:
                queues = {"readQueueNums": str(QUEUES), "writeQueueNums": str(QUEUES), "perm": "6"}
                line.ask(MAKE_TOPIC, {"topic": TOPIC, **queues})
            load = asyncio.run(self._live())
            self.broker.stop()
        finally:
            self.broker.kill()
        check_store(self.broker.store, {}, load.ledger, self.found)
        self.found.counted.update(load.counted)
        self._judge()
        return self.found

    async def _live(self) -> Load:
        load = Load(self.broker.address, self.connections, self.seed)
        looking = asyncio.create_task(self._look(load))
        try:
            await load.run()
        finally:
            load.stopping.set()
            await looking
        return load

    async def _look(self, load: Load) -> None:
        """Look at the broker again and again, and end the load when its time is over."""
        began = time.monotonic()
        while (now := time.monotonic() - began) < self.seconds and not load.stopping.is_set():
            one = self.broker.look(now)
            self.samples += [one] if one is not None else []
            await asyncio.sleep(min(SAMPLE_S, self.seconds / 20))
        load.stopping.set()

    def _judge(self) -> None:
        for line in grown(self.samples, self.seconds, ("broker",), SLACK):
            self.found.note("grown", line)
        self.watch = watched.read(self.watch_file)
        if self.watch.longest_cpu_ms > LONGEST_CPU_MS:
            lines = [line for line in self.broker.lines() if line.startswith("slow callback")]
            self.found.note("slow callbacks", f"{len(lines)}, such as {lines[:3]}")
        counted = self.found.counted
        groups = max(1, self.connections * 30 // 100)
        if counted["consumed"] != groups * counted["stored"]:
            self.found.note("not consumed", f"{groups} groups had {counted['consumed']} of {counted['stored']} each")


def series(soak: BrokerSoak, begun: str) -> figures.Series:
    """What the run has counted, and the greatest value of each figure in each fifth of the time."""
    counted = soak.found.counted
    told: dict[str, Any] = {"minutes": round(soak.seconds / 60, 1), "connections": soak.connections, "seed": soak.seed}
    told |= {name: counted[name] for name in (*COUNTED, *ALL_WRONG)}
    told |= {"callbacks": soak.watch.callbacks, "callbacks over 100 ms": soak.watch.slow}
    told |= {"longest callback, ms": soak.watch.longest_ms, "of its own, ms": soak.watch.longest_cpu_ms}
    rows = [[shown, *fifths(soak.samples, soak.seconds, "broker", name)] for name, shown in FIGURES.items()]
    columns = ["figure", "first fifth", "second", "third", "fourth", "last"]
    return figures.Series(columns, rows, [report.commit()], told, begun)


def main(words: Iterable[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--connections", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true", help=f"add the run to {NAME}.json")
    given = parser.parse_args(None if words is None else list(words))
    begun, folder = figures.begun(), Path(tempfile.mkdtemp(prefix="flintmq-soak-"))
    soak = BrokerSoak(folder, given.connections, given.seed)
    try:
        found = soak.run(60 * given.minutes)
    except (AssertionError, ExceptionGroup) as error:
        print(f"WRONG, kept in {folder}: {error!r}", file=sys.stderr)
        return 1
    counted = series(soak, begun)
    return figures.ended(NAME, counted, found.wrong, folder, given.record)


if __name__ == "__main__":
    sys.exit(main())
