"""Kill a master and `flintmq follow --ack`, cut their line, stop either, at random moments; compare the logs.

    python -m labs.replication --kills 100 --seed 1 [--version 5.4.0 | --version FlintMQ]

The master is a RocketMQ of that version, or FlintMQ; without --version each of them in turn, a new store after 20
kills. It gets messages all the while, also when it is killed. After each turn the follower's files must hold the
master's bytes and then zeros, and what it acknowledged must be among them. A process reads the followed store
meanwhile (`reader`). At the end of a store log, queues and keys must be the master's, and `flintmq verify` finds
nothing. Seconds between two turns are random too, so that some kills come while either side starts.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from flintmq.config.keys import StoreConfig
from flintmq.forensics.verify.run import verify
from flintmq.store.view import open_store
from labs.interop.live import KEYS
from labs.replication.logs import check_acknowledged, check_prefix, read_log, written_end
from labs.replication.sides import (
    FILE_SIZE,
    FlintMaster,
    FollowerProcess,
    JavaMaster,
    Load,
    Master,
    some_keys,
)
from labs.torture_spark.actors import end, spawn
from tests.compat.replication import queue_units
from tests.interop.java import VERSIONS
from tests.interop.relay import Relay

TURNS = ("follower", "follower", "master", "both", "cut", "cut", "stop follower", "stop master")
KILLS = ("follower", "master", "both")
KILLS_A_STORE = 20
CATCH_UP_S = 60
AGAIN_S = 0.3
MOST = 100_000  # messages of one key


class Run:
    """One master and one follower, and what was done to them.

    Args:
        folder: an empty directory.
        version: of RocketMQ, or "FlintMQ".
        seed: of what is random.
        counted: what was done, added to.
    """

    def __init__(self, folder: Path, version: str, seed: int, counted: Counter[str]) -> None:
        self.chance, self.counted = random.Random(f"{version} {seed}"), counted
        self.theirs, self.ours = folder / "theirs", folder / "ours"
        self.master: Master = FlintMaster(self.theirs) if version == "FlintMQ" else JavaMaster(version, self.theirs)
        self.master.start()
        self.line = Relay(self.master.port, keep=">")
        sets = [word for key, value in KEYS.items() for word in ("--set", f"{key}={value}")]
        to = f"127.0.0.1:{self.line.port}"
        self.follower = FollowerProcess(folder, to, "--store", str(self.ours), *sets, "--ack")
        self.folder = folder
        self.reader = self._reader()
        self.load = Load(self.master, self.chance)

    def turns(self, kills: int) -> None:
        """Do things at random until so many processes were killed."""
        killed = 0
        while killed < kills:
            if not self.follower.running:
                self.follower.start()
            time.sleep(self.chance.uniform(0, 2))
            what = self.chance.choice(TURNS)
            self._do(what)
            self.counted[what] += 1
            killed += (1, 1, 2)[KILLS.index(what)] if what in KILLS else 0
            self.check(what)

    def _do(self, what: str) -> None:
        if what in ("follower", "both"):
            self._still_following()
            self.follower.kill()
        if what in ("master", "both"):
            self.master.kill()
            self._restart_master()
        elif what == "cut":
            if self.chance.random() < 0.7:
                self.line.left = self.chance.randrange(1, 60_000)
                time.sleep(self.chance.uniform(0, 0.5))
            self.line.cut()
        elif what == "stop follower":
            self._still_following()
            self.follower.stop()
        elif what == "stop master":
            self.load.stop()
            self.master.stop()
            self._restart_master()

    def _restart_master(self) -> None:
        self.load.stop()
        self.master.start()
        self.load = Load(self.master, self.chance)

    def _still_following(self) -> None:
        assert self.follower.running, self.follower.said()

    def check(self, what: str) -> None:
        """Compare the files as they are, whatever runs meanwhile."""
        try:
            self._compare()
        except AssertionError:
            time.sleep(AGAIN_S)  # a read beside a write may get some bytes of before and some of after
            try:
                self._compare()
            except AssertionError as error:
                raise AssertionError(f"after {what}: {error}; {self.follower.said()}") from error
        assert self.reader.poll() is None, (self.folder / "reader.err").read_text()[-2000:]
        self.counted["compared"] += 1

    def _compare(self) -> None:
        reported, ours, theirs = self._reported(), read_log(self.ours), read_log(self.theirs)
        check_prefix(ours, theirs, FILE_SIZE)
        check_acknowledged(ours, theirs, reported)

    def finish(self) -> None:
        """Stop the load, and compare everything at rest."""
        if not self.follower.running:
            self.follower.start()
        self.load.stop()
        assert not self.load.killed
        self.master.fill(1, 7)
        last = written_end(read_log(self.theirs))  # nobody puts now
        assert self.follower.wait("caught_up", CATCH_UP_S, end=last), (last, self.follower.said())
        self.follower.stop()
        log_end, keys = self.master.finish()
        assert log_end == last
        self.check("all")
        self.counted["messages read"] += self._stop_reader()
        ours, theirs = read_log(self.ours), read_log(self.theirs)
        assert ours.below(ours.begin, last) == theirs.below(ours.begin, last)
        assert ours.begin == theirs.begin and not any(ours.data[last - ours.begin :])
        assert queue_units(self.ours) == queue_units(self.theirs)
        with open_store(self.ours, set=KEYS) as view:
            found = {(t, k): sorted(m.physical_offset for m in view.query(t, k, limit=MOST)) for t, k in some_keys()}
            wanted = {key: list[int]() for key in found}
            for message in view.messages():
                self.counted["messages"] += 1
                for key in set((message.keys or "").split()):
                    if (message.topic, key) in wanted:
                        wanted[message.topic, key].append(message.physical_offset)
        other = {key: (found[key], wanted[key]) for key in wanted if found[key] != wanted[key]}
        assert not other and any(wanted.values()), other
        for key, there in keys.items():
            self._compare_keys(there, wanted[key])
        assert verify(self.ours, StoreConfig.from_keys(KEYS)).defects == []
        self.counted["stores equal"] += 1
        self.counted["starts of the follower"] += self.follower.starts
        self.counted["lines"] += self.line.sessions

    def _compare_keys(self, there: list[int], wanted: list[int]) -> None:
        """Compare what the master finds for a key with what the log has.

        A RocketMQ that was killed has lost index files that were not synced, and makes some of their entries anew only
        (messageIndexSafe=false): it may find less than there is.
        """
        missing = len(set(wanted) - set(there))
        assert set(there) <= set(wanted)
        assert not missing or isinstance(self.master, JavaMaster)
        self.counted["keys' messages that the killed master has lost"] += missing

    def close(self) -> None:
        """End every process."""
        self.load._stopping.set()
        self.follower.kill()
        self.master.kill()
        end(self.reader)
        self.line.close()

    def _reported(self) -> int:
        """The highest offset that was acknowledged so far."""
        lines: dict[int, bytearray] = {}
        for one in list(self.line.passed):
            lines.setdefault(one.session, bytearray()).extend(one.data)
        whole = [bytes(data[: len(data) // 8 * 8]) for data in lines.values()]
        return max((n for data in whole for (n,) in struct.iter_unpack(">q", data)), default=-1)

    def _reader(self) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "labs.replication.reader", str(self.ours), str(self.theirs)]
        return spawn(words, self.folder / "reader.out", self.folder / "reader.err")

    def _stop_reader(self) -> int:
        self.reader.send_signal(signal.SIGTERM)
        assert self.reader.wait(60) == 0, (self.folder / "reader.err").read_text()[-2000:]
        said = json.loads((self.folder / "reader.out").read_text())
        assert said["messages"] > 0
        return int(said["messages"])


def killed(folder: Path, version: str, seed: int, kills: int, counted: Counter[str] | None = None) -> Counter[str]:
    """Make one store with so many kills; AssertionError if something is wrong."""
    counted = Counter() if counted is None else counted
    run = Run(folder, version, seed, counted)
    try:
        run.turns(kills)
        run.finish()
    finally:
        run.close()
    return counted


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--version", choices=(*VERSIONS, "FlintMQ"))
    words = parser.parse_args()
    masters = [words.version] if words.version else [*VERSIONS, "FlintMQ"]
    left, number = words.kills, 0
    while left > 0:
        version, counted = masters[(words.seed + number) % len(masters)], Counter[str]()
        with tempfile.TemporaryDirectory() as folder:
            killed(Path(folder), version, words.seed + number, min(left, KILLS_A_STORE), counted)
        kills = counted["follower"] + counted["master"] + 2 * counted["both"]
        print(f"{version}, seed {words.seed + number}: {kills} kills, {dict(counted)}, 0 wrong", flush=True)
        left, number = left - kills, number + 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
