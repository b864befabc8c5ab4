"""The long form of the kill loop: `make crash CYCLES=1000`. It goes on where it was stopped, and keeps what it counted.

    python -m labs.crash.loop --cycles 1000 [--state artifacts/crash] [--report
    docs/internals/reliability.md]

Each store lives a few lives, drawn from a seed, then the contract is checked and a new store begins. A failure keeps
the store and its ledger, names the lives (kills by time do not fall twice at one place), and ends the program with 1.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from flintmq.format.index import PEERS
from flintmq.testing.contract import ContractReport, check_contract, read_ledger
from labs.torture import figures, report
from tests.robustness.crash.lives import Life, live

LIVES = 10  # of one store
KINDS = (("ASYNC_FLUSH", False), ("SYNC_FLUSH", False), ("SYNC_FLUSH", True), ("ASYNC_FLUSH", True))
COUNTS = (
    "acknowledged",
    "unknown",
    "uncommitted",
    "stored",
    "lost",
    "phantom",
    "altered",
    "duplicated",
    "holes",
    "derived",
    "unserved",
)
NAME = "kills"


def kind_of(number: int) -> tuple[str, bool, str]:
    """(flushDiskType, whether it has the pool, the RocketMQ version it follows) of store number `number`."""
    return *KINDS[number % len(KINDS)], PEERS[number // len(KINDS) % len(PEERS)]


def lives_of(number: int) -> list[Life]:
    """The lives of store number `number`: ended at random moments or at chosen calls, some with interrupts."""
    chance = random.Random(number)
    disk, pool, peer = kind_of(number)
    found = []
    for n in range(LIVES):
        kind = chance.random()
        rest = {"pool": pool, "peer": peer, "kernel_puts": chance.random() < 0.75}
        if kind < 0.45:
            found.append(Life(n, number * 100 + n, disk, at_call=int(chance.expovariate(1 / 60)), **rest))
        elif kind < 0.9:
            found.append(Life(n, number * 100 + n, disk, after_s=chance.uniform(0.005, 0.12), **rest))
        else:
            found.append(Life(n, number * 100 + n, disk, after_s=0.1, interrupts=8, **rest))
    return [*found, Life(LIVES, number * 100 + LIVES, disk, after_s=0.1, pool=pool, peer=peer)]


def one_store(number: int, root: Path) -> ContractReport:
    """Live its lives and check the contract."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    for life in lives_of(number):
        end = live(root / "store", root / "ledger", life)
        assert end == "killed", f"{life}: {end}"
    return check_contract(root / "store", root / "ledger", peer=kind_of(number)[2])


def main() -> int:
    """Run until so many cycles are done, this time and before."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long (3); the next call goes on")
    parser.add_argument("--state", type=Path, default=Path("artifacts/crash"))
    parser.add_argument("--report", type=Path)
    parser.add_argument("--store", type=int, help="only the lives of this store, as a failure named it")
    words = parser.parse_args()
    state_file = words.state / "state.json"
    if words.store is not None:
        found = one_store(words.store, words.state / "again")
        print(found)
        return 1 if found.wrong else 0
    words.state.mkdir(parents=True, exist_ok=True)
    state = {"stores": 0, "sums": {}, "begun": figures.begun()}
    state |= json.loads(state_file.read_text()) if state_file.exists() else {}
    began = time.monotonic()
    while state["stores"] * (LIVES + 1) < words.cycles:
        if time.monotonic() - began > words.seconds:
            print(f"{state['stores'] * (LIVES + 1)} cycles; the time is up, the same command goes on")
            return 3
        number = state["stores"]
        root = words.state / f"store{number}"
        found = one_store(number, root)
        disk, pool, peer = kind_of(number)
        kind = f"{disk}{', pool' * pool}, {peer}"
        sums = state["sums"].setdefault(kind, dict.fromkeys(("cycles", "opening", *COUNTS), 0))
        sums["cycles"] += LIVES + 1
        sent, _ = read_ledger(root / "ledger")
        sums["opening"] += LIVES + 1 - len({identity.partition("-")[0] for identity in sent})
        for name in COUNTS:
            sums[name] += getattr(found, name)
        state["stores"] += 1
        state_file.write_text(json.dumps(state))
        if found.wrong:
            print(f"store {number}: {found}\nkept in {root}; again: python -m labs.crash.loop --store {number}")
            return 1
        shutil.rmtree(root)
        if number % 10 == 9:
            print(f"{state['stores'] * (LIVES + 1)} cycles, {time.monotonic() - began:.0f} s", flush=True)
    found_all = series(state)
    print(*figures.shown(NAME, found_all), sep="\n")
    if words.report is not None:
        figures.record(words.report, NAME, found_all)
        state_file.unlink()
    return 0


def series(state: dict[str, Any]) -> figures.Series:
    """What the run has counted: a row for each kind of store."""
    columns = ["cycles", "of them while opening", "disk, pool", *COUNTS]
    rows = [[sums["cycles"], sums["opening"], kind, *(sums[name] for name in COUNTS)]
            for kind, sums in sorted(state["sums"].items())]  # fmt: skip
    return figures.Series(columns, rows, [report.commit()], run=state["begun"])


if __name__ == "__main__":
    sys.exit(main())
