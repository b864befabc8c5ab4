"""The plug pulled before every sync of a store's lives, recovery included: lines 1, 2, 4 and 5 of the contract.

    python -m labs.crash.power --seeds 100        (make power SEEDS=100)

A life opens the store and puts from two threads; before each sync and at the end it notes what a power cut would leave
this moment (`tests.support.unplugged`) and what was acknowledged. Every one of these images must recover to a whole
store. The next life begins on one of them.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path

from flintmq.errors import FlintError
from flintmq.message import Outcome, PutResult
from tests.support.engine import check_derived, message, open_small, records
from tests.support.faults import Faulty
from tests.support.unplugged import Unplugged, write

PUTS = 25  # of each thread


@dataclass
class Cut:
    """One power cut: what is left, what was acknowledged by then, and how far the log had been flushed."""

    image: dict[str, bytes | None]
    told: dict[bytes, PutResult]
    flushed: int


@dataclass
class Case:
    """What is tried.

    Attributes:
        seed: of everything.
        disk: flushDiskType.
        kernel_puts: puts may take the one kernel call.
        worst: nothing is left but what was synced; else any sectors are.
        pool: puts go to the transient pool first.
        sent: bodies that were ever put.
    """

    seed: int
    disk: str
    kernel_puts: bool
    worst: bool
    pool: bool = False
    sent: set[bytes] = field(default_factory=set)


def live(root: Path, case: Case, life: int, told: dict[bytes, PutResult]) -> list[Cut]:
    """One life; `told` is what earlier lives left acknowledged and on disk."""
    told, cuts, flushed = dict(told), [], [0]
    chance = random.Random(f"{case.seed}-{life}")

    def cut() -> None:
        known, safe = dict(told), flushed[0]
        cuts.append(Cut(disk.image(None if case.worst else chance), known, safe))

    root.mkdir(parents=True, exist_ok=True)
    disk = Unplugged(root, cut, case.kernel_puts)
    store = open_small(
        root, disk, flushDiskType=case.disk, flushIntervalCommitLog=5, transientStorePoolEnable=case.pool
    )

    def work(thread: int) -> None:
        sizes = random.Random(f"{case.seed}-{life}-{thread}")
        for n in range(PUTS):
            m = message(10_000 * life + 1000 * thread + n, queue_id=thread, size=sizes.choice((20, 150, 700)))
            case.sent.add(m.body)
            result = store.put(m)
            if result.outcome is Outcome.OK:
                told[m.body] = result
            flushed[0] = store._parts.files.flushed_where

    threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(case.sent) == 2 * PUTS * (life + 1), "no put raised"
    store.close()
    cut()
    disk.forget()
    return cuts


def check(cut: Cut, root: Path, case: Case) -> dict[bytes, PutResult]:
    """Recover the image twice and compare; gives what is acknowledged and there."""
    write(cut.image, root)
    for _ in range(2):
        open_small(root, Faulty()).close()  # which syncs nothing: that takes most of the time
        found = records(root)
        log = {r.body: r for r in found}
        assert len(log) == len(found) and log.keys() <= case.sent, "none twice, none that was not put"
        check_derived(root)
        for body, result in cut.told.items():
            if case.disk == "SYNC_FLUSH" or result.physical_offset + result.size <= cut.flushed:
                assert body in log, f"lost {body[:6]!r} at {result.physical_offset}"
        there = {body: result for body, result in cut.told.items() if body in log}
        for body, result in there.items():
            place = log[body].physical_offset, log[body].queue_offset, log[body].size
            assert place == (result.physical_offset, result.queue_offset, result.size)
    shutil.rmtree(root)
    return there


def run(folder: Path, case: Case, lives: int = 3, most: int = 1 << 30) -> int:
    """Some lives, each on what a power cut left of the one before; how many cuts were checked (`most` of each)."""
    told: dict[bytes, PutResult] = {}
    chance = random.Random(case.seed)
    done = 0
    for life in range(lives):
        cuts = live(folder / f"life{life}", case, life, told)
        for cut in cuts if len(cuts) <= most else sorted(chance.sample(cuts, most), key=cuts.index):
            check(cut, folder / "cut", case)
            done += 1
        chosen = chance.choice(cuts)
        told = check(chosen, folder / "cut", case)
        write(chosen.image, folder / f"life{life + 1}")
    return done


def main() -> int:
    """The long form: every case of each seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--most", type=int, default=20, help="cuts of one life that are checked")
    words = parser.parse_args()
    sums: dict[str, int] = {}
    for seed in range(words.first, words.first + words.seeds):
        for number in range(8):
            disk = ("SYNC_FLUSH", "ASYNC_FLUSH")[number & 1]
            case = Case(seed, disk, bool(number & 2), bool(number & 4), pool=seed % 2 == 1)
            with tempfile.TemporaryDirectory() as folder:
                try:
                    done = run(Path(folder), case, most=words.most)
                except (AssertionError, FlintError) as error:
                    print(f"{case.disk}, seed {seed}, kernel puts {case.kernel_puts}, worst {case.worst}: {error}")
                    return 1
            name = f"{disk}{', pool' if case.pool else ''}, {'nothing unsynced' if case.worst else 'any sectors'}"
            sums[name] = sums.get(name, 0) + done
        print(f"seed {seed}:", *(f"{name} {count:,};" for name, count in sums.items()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
