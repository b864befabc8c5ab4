"""Power cuts of ext4 and XFS under a broker with SYNC_FLUSH. It goes on where it was stopped.

    python -m labs.broker_cuts --cuts 50 [--seed 1] [--seconds S] [--state DIR] [--report FILE]

The store of `flintmq broker` lies on a loop device, as in labs/crash/cuts.py. Four connections send, many at a time,
so that answers wait for syncs together; then the file system is shut down under the broker, while it opens or while it
serves, with its journal dropped or flushed. Every such disk is copied, mounted and recovered: each message that was
answered with success before the cut is there, at its place. The next life begins on the disk itself. Answers after the
cut began promise nothing (see there): they are `late`. A cut that is wrong keeps its disk, and ends the program with 1.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from flintmq.config.keys import StoreConfig
from flintmq.store.message_store import MessageStore
from labs.broker.check import WRONG, check_store
from labs.broker.ledger import SendLedger
from labs.broker.lines import LineSender
from labs.broker.process import BrokerProcess
from labs.three_brokers.check import Found
from labs.torture import figures, report
from tests.robustness.crash.disks import DROP_JOURNAL, FLUSH_JOURNAL, Disk, tidy, why_not

NAME = "broker-cuts"
KINDS = ("ext4", "xfs")
PER_DISK, LINES = 5, 4
KEYS: dict[str, object] = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 20_000,
    "maxHashSlotNum": 500,
    "maxIndexNum": 2_000,
    "flushDiskType": "SYNC_FLUSH",
}
STOP_S = 30.0
COUNTED = ("cuts", "opening", "journal flushed", "acknowledged", "late", "sent", "stored")


class CutBroker:
    """A broker on a disk whose power is cut again and again, and what its senders were told in all lives.

    Args:
        folder: an empty directory.
        kind: of the file system.
        chance: decides what is random.
    """

    def __init__(self, folder: Path, kind: str, chance: random.Random) -> None:
        self.folder, self.chance, self.disk = folder, chance, Disk(folder, kind)
        self.ledger, self.counted = SendLedger(), Counter[str]()
        words = [word for key, value in KEYS.items() for word in ("--set", f"{key}={value}")]
        self.broker = BrokerProcess(folder, *words, store=self.disk.mounted / "store")

    def live(self, number: int) -> Found:
        """One life until its power is cut, and what a check of the disk finds."""
        senders = [
            LineSender(f"{number}.{one}", self.broker.address, random.Random(f"{self.chance.random()}"))
            for one in range(LINES)
        ]
        with self.disk:
            try:
                self._until_the_cut(senders)
            finally:
                self.broker.kill()
        assert not self.broker.tracebacks(), self.broker.tracebacks()[0]
        return self._check()

    def _until_the_cut(self, senders: list[LineSender]) -> None:
        self.broker.start()
        if self.chance.random() < 0.2:
            time.sleep(self.chance.uniform(0, 0.5))
        else:
            self.broker.wait_ready()
        self.counted["opening"] += not self.broker.is_ready()
        for sender in senders:
            sender.start()
        time.sleep(self.chance.choice((0.1, 0.6)) * self.chance.uniform(0.2, 1))
        flag = self.chance.choice((DROP_JOURNAL, DROP_JOURNAL, FLUSH_JOURNAL))
        assert self.broker.runs, f"the broker ended by itself: {self.broker.said()}"
        since = time.monotonic()
        self.disk.cut(flag)
        time.sleep(self.chance.uniform(0, 0.05))  # sends go on, and are told that they failed
        self.broker.kill()
        self.counted.update({"cuts": 1, "journal flushed": flag == FLUSH_JOURNAL})
        for sender in senders:
            sender.stop(STOP_S)
            self.counted["late"] += sender.ledger.discount(since)
            self.ledger.add(sender.ledger)

    def _check(self) -> Found:
        """Recover a copy of the disk, and compare it with the ledger."""
        found, image = Found(), self.disk.copy(self.folder / f"copy.{self.disk.kind}")
        with Disk(self.folder, self.disk.kind, image=image) as copy:
            store = copy.mounted / "store"
            if not self.ledger.acknowledged and not (store / "commitlog").is_dir():
                return found  # the first one was cut before it had made its directories
            MessageStore(store, StoreConfig.from_keys(KEYS), unique_keys=False).close()
            check_store(store, KEYS, self.ledger, found)
        if found.counted["sent again"]:
            found.note("offsets twice", f"{found.counted['sent again']} messages are there again, and were sent once")
        image.unlink()
        return found


def one_disk(number: int, folder: Path, seed: int, most: int = PER_DISK) -> tuple[list[Any], list[str]]:
    """The cuts of one disk: their row of the table, and what is wrong."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    kind = KINDS[number % len(KINDS)]
    one, found = CutBroker(folder, kind, random.Random(f"{seed} {number}")), Found()
    for life in range(most):
        found = one.live(life)
        if found.wrong:
            break
    one.counted.update({name: found.counted[name] for name in ("acknowledged", "sent", "stored")})
    return [kind, *(one.counted[name] for name in COUNTED), *(found.counted[name] for name in WRONG)], found.wrong


def series(state: report.State) -> figures.Series:
    """What the run has counted."""
    told = {"seed": state["seed"]}
    return figures.Series(["disk", *COUNTED, *WRONG], state["rows"], state["commits"], told, state["begun"])


def main() -> int:
    """The command line. 3: the time was up; 4: power cuts cannot be had here."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuts", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long; the next call goes on")
    parser.add_argument("--state", type=Path, default=Path("build", NAME))
    parser.add_argument("--report", type=Path)
    words = parser.parse_args()
    for kind in KINDS:
        if why_not(kind):
            print(f"power cuts cannot be tried here: {why_not(kind)}", file=sys.stderr)
            return 4
    until, folder = time.monotonic() + words.seconds, words.state / "disk"
    state = report.State(words.state, cuts=0, seed=words.seed, rows=[], commits=[], begun=figures.begun())
    tidy(folder)
    while state["cuts"] < words.cuts and time.monotonic() < until:
        number = len(state["rows"])
        row, wrong = one_disk(number, folder, state["seed"], min(PER_DISK, words.cuts - state["cuts"]))
        if wrong:
            print(f"WRONG: disk {number}, kept in {folder}", *wrong, sep="\n", file=sys.stderr)
            return 1
        state["cuts"] += row[1]
        state["rows"].append(row)
        report.note(state, report.commit())
        state.save()
        print(f"{state['cuts']} cuts: {dict(zip(['disk', *COUNTED], row, strict=False))}", flush=True)
    print(*figures.shown(NAME, series(state)), sep="\n")
    if state["cuts"] < words.cuts:
        return 3
    shutil.rmtree(folder, ignore_errors=True)
    if words.report is not None:
        figures.record(words.report, NAME, series(state))
    return 0


if __name__ == "__main__":
    sys.exit(main())
