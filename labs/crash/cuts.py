"""Power cuts on real file systems: `make power-cuts CUTS=1000`. It goes on where it was stopped.

    python -m labs.crash.cuts --cuts 1000 [--seconds S] [--state DIR] [--report FILE]

A store lies on ext4 or XFS on a loop device. A child opens it, puts, closes and opens again; then the file system is
shut down under it, with its journal dropped or flushed: by the parent at a random moment, or by the child itself at a
chosen call that changes the disk. Every such disk is copied, mounted and checked by the whole contract; the next life
begins on the disk itself, so that cuts also come into recovery. After PER_DISK cuts a new disk begins. A cut after
which something is wrong keeps its disk, and ends the program with 1.

Without power nobody answers, but here the process lives on for a moment. An OK that it gives after the cut began is no
promise: the ext4 of Linux 6.18 answers OK to an fdatasync that is under way then, and forgets its blocks (seen by the
times of both). Such answers are `late`, those whose message is not there `late, gone`.
"""

from __future__ import annotations

import argparse
import faulthandler
import itertools
import os
import random
import shutil
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flintmq.store.message_store import MessageStore
from labs.torture import figures, report
from tests.robustness.crash.disks import DROP_JOURNAL, FLUSH_JOURNAL, Disk, pull_plug, tidy, why_not
from tests.robustness.crash.lives import KEYS, THREADS, Life, PutLedger, puts
from tests.robustness.crash.verdict import COUNTS, ContractReport, discount, judge, read_ledger, there
from tests.support.faults import Faulty

PER_DISK = 8
NAME = "power-cuts"
HEAD = ("opening", "in a call", "journal flushed", "SIGBUS", "late", "late, gone")
KINDS = tuple(itertools.product(("ext4", "xfs"), ("SYNC_FLUSH", "ASYNC_FLUSH"), (False, True)))


class Wrong(AssertionError):
    """A cut after which something is not as promised."""


@dataclass(frozen=True)
class Cut:
    """How a life ends: see Life; `flag` of the shutdown call; `after_s` cuts too where the call does not come."""

    life: Life
    flag: int


class Plug(Faulty):
    """A real disk that loses its power before its n-th call that changes it."""

    syncs = True

    def __init__(self, mounted: Path, cut: Cut, moment: Path) -> None:
        super().__init__()
        self.mounted, self.flag, self.moment = mounted, cut.flag, moment
        self.left, self.kernel_puts = cut.life.at_call, cut.life.kernel_puts
        self.before = self.maybe_cut

    @property
    def watches(self) -> bool:
        return not self.kernel_puts

    def maybe_cut(self, name: str, path: str) -> None:
        """Count a call."""
        self.calls.clear()
        if self.left is not None:
            self.left -= 1
            if self.left == -1:
                self.moment.write_text(str(time.monotonic_ns()))
                pull_plug(self.mounted, self.flag)


def cuts_of(number: int) -> tuple[str, list[Cut]]:
    """(file system, its cuts) of disk number `number`."""
    chance = random.Random(f"power-cuts-{number}")
    kind, disk, pool = KINDS[number % len(KINDS)]
    found = []
    for n in range(PER_DISK):
        at_call = int(chance.expovariate(1 / chance.choice((30, 200)))) if chance.random() < 0.5 else None
        life = Life(
            n, number * 100 + n, disk, at_call, chance.choice((chance.uniform(0, 0.2), chance.uniform(0.3, 0.8))),
            pool=pool, power=True, kernel_puts=chance.random() < 0.7,
        )  # fmt: skip
        found.append(Cut(life, chance.choice((DROP_JOURNAL, DROP_JOURNAL, FLUSH_JOURNAL))))
    return kind, found


def live(disk: Disk, ledger: Path, cut: Cut) -> tuple[dict[str, int], set[str]]:
    """One life on a mounted disk, until its power is cut and its process dead; what happened, and the late answers.

    Raises:
        Wrong: it ended before the cut.
    """
    life, complaints = cut.life, ledger.with_suffix(".wrong")  # what the child says on its standard error
    moment = ledger.with_suffix(".cut")  # when the child cut the power, if it did
    complaints.write_bytes(b"")
    moment.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        try:
            os.dup2(os.open(complaints, os.O_WRONLY | os.O_APPEND), 2)  # also what C says before it aborts
            _child(disk.mounted, PutLedger(ledger), cut, Plug(disk.mounted, cut, moment))
        except BaseException:
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(1)
    time.sleep(life.after_s)
    ended, status = os.waitpid(child, os.WNOHANG)
    if ended and not moment.exists():
        code = os.waitstatus_to_exitcode(status)  # negative: the number of a signal
        raise Wrong(f"{cut}: ended by itself, exit code {code}, standard error: {complaints.read_text() or 'nothing'}")
    since = time.monotonic_ns()
    disk.cut(cut.flag)
    time.sleep(life.seed % 5 * 0.01)  # puts go on, and are told that they failed
    if not ended:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    in_a_call = moment.exists()
    late = discount(ledger, min(since, int(moment.read_text() or since)) if in_a_call else since)
    sent, _ = read_ledger(ledger)
    return {
        "opening": not any(identity.startswith(f"{life.number}-") for identity in sent),
        "in a call": in_a_call,
        "journal flushed": cut.flag == FLUSH_JOURNAL,
        "SIGBUS": os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGBUS,
    }, late


def _child(mounted: Path, ledger: PutLedger, cut: Cut, plug: Plug) -> None:
    """Open, put, close and begin again, until killed."""
    faulthandler.disable()  # a SIGBUS is one of the ways to die here
    life, chance = cut.life, random.Random(cut.life.seed)
    flush = {"flushIntervalCommitLog": chance.choice((5, 20, 100)), "flushCommitLogLeastPages": chance.choice((0, 4))}
    keys = KEYS | flush | {"flushDiskType": life.disk, "transientStorePoolEnable": life.pool}
    numbers = [itertools.count() for _ in range(THREADS)]
    while True:
        store = MessageStore(mounted / "store", config=keys, effects=plug, unique_keys=False)
        share = chance.choice((0, 5, 40, None))
        threads = [
            threading.Thread(target=puts, args=(store, ledger, life, n, itertools.islice(numbers[n], share)))
            for n in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        store.close()


def check(disk: Disk, ledger: Path, folder: Path) -> ContractReport:
    """The contract on a copy of an unmounted disk."""
    image = disk.copy(folder / f"copy.{disk.kind}")
    try:
        with Disk(folder, disk.kind, image=image) as copy:
            return judge(copy.mounted / "store", ledger)
    finally:
        image.unlink(missing_ok=True)


def one_disk(number: int, folder: Path, most: int = PER_DISK, add: Any = lambda *_, **__: None) -> int:
    """The cuts of one disk, each checked; how many there were.

    Args:
        add: told of each cut: the row of the table, and its figures by name.

    Raises:
        Wrong: something is not as promised; `kept.*` in the folder is the disk after the cut.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    kind, cuts = cuts_of(number)
    disk, ledger = Disk(folder, kind), folder / "ledger"
    row = f"{kind}, {cuts[0].life.disk}{', pool' * cuts[0].life.pool}"
    for cut in cuts[:most]:
        with disk:
            happened, late = live(disk, ledger, cut)
        try:
            found = check(disk, ledger, folder)
        except Exception as error:
            raise Wrong(f"disk {number}, {cut}: {type(error).__name__}: {error}") from error
        if found.wrong:
            raise Wrong(f"disk {number}, {cut}: {found}")
        happened |= {"late": len(late), "late, gone": len(late - there(ledger))}
        add(row, cuts=1, **happened, **{name: getattr(found, name) for name in COUNTS})
    return len(cuts[:most])


def series(state: report.State) -> figures.Series:
    """What the run has counted."""
    names = ("cuts", *HEAD, *COUNTS)
    rows = [[row, *(int(sums.get(name, 0)) for name in names)] for row, sums in sorted(state["sums"].items())]
    return figures.Series(["disk", *names], rows, [report.commit()], run=state["begun"])


def main() -> int:
    """Run until so many cuts are done, this time and before. 3: the time was up; 4: they cannot be had here."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuts", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long; the next call goes on")
    parser.add_argument("--state", type=Path, default=Path("artifacts/power-cuts"))
    parser.add_argument("--report", type=Path)
    parser.add_argument("--disk", type=int, help="only the cuts of this disk, as a failure named it")
    words = parser.parse_args()
    for kind in ("ext4", "xfs"):
        if why_not(kind):
            print(f"power cuts cannot be tried here: {why_not(kind)}", file=sys.stderr)
            return 4
    until = time.monotonic() + words.seconds
    state = report.State(words.state, cuts=0, disks=0, sums={}, begun=figures.begun())
    folder = words.state / "disk"
    tidy(folder)
    try:
        if words.disk is not None:
            print(one_disk(words.disk, folder), "cuts, nothing wrong")
            return 0
        while state["cuts"] < words.cuts and time.monotonic() < until:
            state["cuts"] += one_disk(state["disks"], folder, add=state.add)
            state["disks"] += 1
            state.save()
            print(f"{state['cuts']} cuts", flush=True)
    except Wrong as error:
        print(f"WRONG: {error}\nkept in {folder}; again: python -m labs.crash.cuts --disk {state['disks']}")
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    if words.report is not None and state["cuts"]:
        figures.record(words.report, NAME, series(state))
    print(*figures.shown(NAME, series(state)), sep="\n")
    return 0 if state["cuts"] >= words.cuts else 3


if __name__ == "__main__":
    sys.exit(main())
