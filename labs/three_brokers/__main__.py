"""Follow three real brokers of one name server at once, under load; kill and move them, and compare at the end.

    python -m labs.three_brokers --minutes 30 [--seed 1] [--version 5.4.0]
        [--report docs/internals/reliability.md]

Name server and brokers are RocketMQ's own mains, with small log files and ASYNC_FLUSH; broker-a has the transient pool,
so that it loses what it acknowledged within its last 200 ms when it is killed. Each broker has a producer, which writes
down what it was told. One `flintmq follow --namesrv` follows all three. At an eighth of the time broker-a is killed
and started again, at two the follower, at three broker-b is stopped and started elsewhere, at other ports; from then on
something is drawn each few seconds. After each the copies must come to where the producers were. At the end each copy
must have its master's log byte for byte, and the three together what the producers were told, each message once; what
is missing must be missing at its master too. `flintmq verify` finds nothing.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from flintmq.errors import NotAStoreError, ReplicationError, StoreAccessError
from flintmq.ha import metadata
from flintmq.ha.name_server import routes
from flintmq.store.view import open_store
from labs.interop.broker_process import START_S, Broker, name_server
from labs.replication.sides import FollowerProcess
from labs.three_brokers.check import WRONG, Found, check_broker
from labs.three_brokers.ledger import Producer, read_ledger
from labs.torture import figures, report
from tests.interop.java import VERSIONS
from tests.interop.running_broker import free_ports

BROKERS = ("broker-a", "broker-b", "broker-c")
LOG_SIZE = 4 << 20
KEYS: dict[str, object] = {
    "mappedFileSizeCommitLog": LOG_SIZE,
    "mappedFileSizeConsumeQueue": 60_000,
    "maxHashSlotNum": 50_000,
    "maxIndexNum": 200_000,
    "transactionMetricFlushInterval": 500,  # a broker spins through its first interval, ten seconds by itself
}
FIRST = ("kill broker-a", "kill follower", "move broker-b")
LATER = ("kill", "kill", "move", "follower", "both")
RATE = 200.0
GAP_S = 30.0  # between two things that are done, at most
CATCH_UP_S = 180  # a broker that moved is found within 30 s
FINISH_S = 900  # for all that is not the load


class Run:
    """The processes, and what was done to them.

    Args:
        folder: an empty directory.
        version: of RocketMQ.
        seed: of what is drawn.
        rate: messages a second of each producer.
    """

    def __init__(self, folder: Path, version: str, seed: int, rate: float = RATE) -> None:
        self.chance, self.rate, self.folder = random.Random(seed), rate, folder
        self.done, self.kills, self.slowest_s = Counter[str](), Counter[str](), 0.0
        self.names = name_server(version, folder / "names", free_ports()[0])
        self.brokers = {
            name: Broker(version, folder / name, 0, self.names.port, brokerName=name, **KEYS, **more)
            for name, more in zip(BROKERS, ({"transientStorePoolEnable": "true"}, {}, {}), strict=True)
        }
        copies = str(folder / "copies" / "{broker}")
        self.follower = FollowerProcess(folder, "--namesrv", self.names.address, "--store", copies)
        self.producers: dict[str, Producer] = {}

    def start(self) -> None:
        """Start all of them."""
        self.names.start()
        self.names.wait()
        for name, broker in self.brokers.items():
            broker.port = free_ports()[1]
            broker.start()
            self._wait_registered(name)
        self.follower.start()
        for name in self.brokers:
            path = self.folder / f"{name}.ledger"
            self.producers[name] = Producer(self.names.address, name, path, self.rate)

    def disturb(self, seconds: float) -> None:
        """Kill and move for so long; what is first is done in any case."""
        began = time.monotonic()
        for number, what in enumerate(FIRST, 1):
            _sleep_until(began + number * seconds / 8)
            self._do(what)
        while (left := began + seconds - time.monotonic()) > GAP_S:
            time.sleep(min(self.chance.uniform(1, GAP_S), left))
            self._do(self._drawn())
        _sleep_until(began + seconds)

    def _drawn(self) -> str:
        what, broker = self.chance.choice(LATER), self.chance.choice(BROKERS)
        return "kill follower" if what == "follower" else f"{what} {broker}"

    def _do(self, what: str) -> None:
        began = time.monotonic()
        kind, _, whom = what.partition(" ")
        self._check_follower()
        if whom == "follower" or kind == "both":
            self.follower.kill()
            self.done["follower killed"] += 1
        if whom != "follower":
            self._restart(whom, moved=kind == "move")
        if not self.follower.running:
            time.sleep(self.chance.uniform(0, 5))
            self.follower.start()
        back = time.monotonic()
        self._wait_copies(what, self._next_acknowledged())
        now = time.monotonic()
        self.slowest_s = max(self.slowest_s, now - back)
        print(f"{what}: back after {back - began:.1f} s, caught up after {now - back:.1f} s more", flush=True)

    def _restart(self, name: str, *, moved: bool) -> None:
        broker = self.brokers[name]
        if moved:
            assert broker.stop(), f"{name} did not stop: {broker.said()}"
            self._move(broker)
            self.done["moved"] += 1
        else:
            broker.kill()
            self.kills[name] += 1
            self.done["brokers killed"] += 1
        time.sleep(self.chance.uniform(0, 5))
        broker.start()
        self._wait_registered(name)

    def _move(self, broker: Broker) -> None:
        store, name = broker.store, str(broker.keys["brokerName"])
        broker.folder = self.folder / f"{name}-{self.done['moved'] + 1}"
        broker.folder.mkdir()
        store.rename(broker.store)
        broker.port = free_ports()[1]

    def _wait_registered(self, name: str) -> None:
        broker, limit = self.brokers[name], time.monotonic() + START_S
        broker.wait()
        while True:
            try:
                route = routes([self.names.address]).get(name)
            except (OSError, ReplicationError):
                route = None
            if route is not None and route.master == broker.address:
                return
            assert time.monotonic() < limit, f"{name} is not registered: {broker.said()}"
            time.sleep(0.2)

    def _next_acknowledged(self) -> dict[str, int]:
        """Wait until each producer has an answer to a message from now on; log offsets of the last answers."""
        before, limit = {name: one.acknowledged for name, one in self.producers.items()}, time.monotonic() + START_S
        while dumb := [name for name, one in self.producers.items() if one.acknowledged == before[name]]:
            assert time.monotonic() < limit, f"{dumb} acknowledge nothing"
            time.sleep(0.1)
        return {name: one.last for name, one in self.producers.items()}

    def _wait_copies(self, what: str, wanted: dict[str, int]) -> None:
        """Wait until each copy has the record at a log offset."""
        limit = time.monotonic() + CATCH_UP_S
        while late := [name for name, at in wanted.items() if self.copy_end(name) <= at]:
            self._check_follower()
            assert time.monotonic() < limit, f"{CATCH_UP_S} s after {what} {late} lag: {self.follower.said()}"
            time.sleep(0.5)

    def copy(self, name: str) -> Path:
        """The directory of a broker's copy."""
        return self.folder / "copies" / name

    def copy_end(self, name: str) -> int:
        """The end of a copy's log; 0 if there is none yet."""
        try:
            with open_store(self.copy(name)) as view:
                return view.max_physical_offset
        except (NotAStoreError, StoreAccessError):
            return 0

    def _check_follower(self) -> None:
        assert self.follower.running, f"the follower ended: {self.follower.said()}"
        refused = [event for event in self.follower.events() if event["event"] == "refused"]
        assert not refused, f"refused: {refused} {self.follower.said()}"

    def finish(self) -> Found:
        """Stop all in order, and compare."""
        for producer in self.producers.values():
            producer.stop()
        ends = {name: metadata.fetch(broker.address).end or 0 for name, broker in self.brokers.items()}
        self._wait_copies("the load", {name: end - 1 for name, end in ends.items()})
        self._check_follower()
        self.follower.stop()
        found = Found()
        for name, broker in self.brokers.items():
            assert broker.stop(), f"{name} did not stop: {broker.said()}"
            ledger, kills = read_ledger(self.producers[name].path), self.kills[name]
            check_broker(name, self.copy(name), broker.store, ledger, found, size=LOG_SIZE, kills=kills)
        return found

    def close(self) -> None:
        """End every process."""
        for producer in self.producers.values():
            producer.stopping.set()
        self.follower.kill()
        for one in (*self.brokers.values(), self.names):
            one.kill()


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


def series(version: str, minutes: float, seed: int, run: Run, found: Found, begun: str) -> figures.Series:
    """What the run has counted."""
    done = ("brokers killed", "moved", "follower killed")
    told = ("acknowledged", "unknown fate", "of them stored", "lost by killed masters", "in the copies")
    compared = ("log files", "log bytes compared")
    row = [version, seed, minutes, *(run.done[name] for name in done)]
    row += [found.counted[name] for name in (*told, *compared)]
    row += [round(run.slowest_s), *(found.counted[name] for name in WRONG)]
    head = ["RocketMQ", "seed", "minutes", *done, *told, *compared, "slowest to catch up, s", *WRONG]
    return figures.Series(head, [row], [report.commit()], run=begun)


def _bounded(seconds: float) -> None:
    """Raise in this thread when the time is up, or at SIGTERM."""

    def out(number: int, _: object) -> None:
        if number == signal.SIGALRM:
            raise TimeoutError(f"not done within {seconds:.0f} s")
        raise SystemExit(128 + number)

    signal.signal(signal.SIGALRM, out)
    signal.signal(signal.SIGTERM, out)
    signal.alarm(int(seconds))


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--version", choices=VERSIONS, default="5.4.0")
    parser.add_argument("--rate", type=float, default=RATE, help="messages a second of each producer")
    parser.add_argument("--report", type=Path)
    words = parser.parse_args()
    _bounded(words.minutes * 60 + FINISH_S)
    begun, folder = figures.begun(), Path(tempfile.mkdtemp(prefix="flintmq-three-"))
    run = Run(folder, words.version, words.seed, words.rate)
    try:
        run.start()
        run.disturb(words.minutes * 60)
        found = run.finish()
    except BaseException:
        print(f"kept in {folder}", flush=True)
        raise
    finally:
        run.close()
    counted = series(words.version, words.minutes, words.seed, run, found, begun)
    print(*figures.shown("three-brokers", counted), *found.wrong, sep="\n")
    if found.wrong:
        print(f"kept in {folder}")
        return 1
    shutil.rmtree(folder)
    if words.report is not None:
        figures.record(words.report, "three-brokers", counted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
