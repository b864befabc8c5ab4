"""What the labs of transactions and of timers share: lives that end by kill -9, and a judge at the end of several."""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flintmq.testing.contract import PutLedger
from tests.robustness.crash.lives import Life, live

Work = Callable[[Path, PutLedger, Life], None]
Judge = Callable[[Path, Path], tuple[Counter[str], list[str]]]
"""Opens a store beside a ledger; returns figures, and what is wrong, a line each."""


def lines(ledger: Path) -> list[dict[str, Any]]:
    """The whole lines of a ledger."""
    return [json.loads(line) for line in ledger.read_text().splitlines() if line.endswith("}")]


def named(**found: list[str]) -> list[str]:
    """A line for each kind of wrong keys, with the first of them."""
    return [f"{what.replace('_', ' ')}: {keys[:5]}" for what, keys in found.items() if keys]


def one_store(root: Path, lives: list[Life], work: Work, judge: Judge) -> tuple[Counter[str], list[str]]:
    """Live them all on one store, and judge it."""
    wrong = []
    for life in lives:
        how = live(root / "store", root / "ledger", life, work)
        if how != "killed":
            wrong.append(how)
    found, more = judge(root / "store", root / "ledger")
    return found, wrong + more


def lives_of(seed: int, count: int) -> list[Life]:
    """Lives that end at a moment or at a call that changes the disk."""
    chance = random.Random(seed)
    return [
        Life(
            number, seed * 1000 + number, chance.choice(("SYNC_FLUSH", "ASYNC_FLUSH")),
            at_call=chance.randrange(20, 400) if chance.random() < 0.5 else None,
            after_s=chance.choice((0.1, 0.2, 0.4)), kernel_puts=chance.random() < 0.5,
        )
        for number in range(count)
    ]  # fmt: skip


def main(text: str, work: Work, judge: Judge) -> None:
    """Kill so many lives, five of each store."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    words = parser.parse_args()
    found, wrong = Counter[str](), list[str]()
    for number in range((words.kills + 4) // 5):
        lives = lives_of(words.seed + number, min(5, words.kills - 5 * number))
        with tempfile.TemporaryDirectory() as folder:
            figures, more = one_store(Path(folder), lives, work, judge)
            found += figures
            wrong += [f"seed {words.seed + number}: {one}" for one in more]
    print(f"{words.kills} kills: {dict(found)}; wrong: {len(wrong)}")
    print(*wrong, sep="\n")
    raise SystemExit(bool(wrong))
