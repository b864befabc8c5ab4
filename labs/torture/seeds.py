"""Lives that one number decides, many of them: what a short form tries some of.

    python -m labs.torture.seeds stale-tail --first 0 --count 1000
    python -m labs.torture.seeds clock-steps --first 0 --count 1000
    python -m labs.torture.seeds derived --first 0 --count 2560        # 20 stores, each 64 subsets gone and
    zeroed

A failure names its seed and ends the program with 1; the same command with `--first SEED --count 1` shows it again.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

from labs.hostile import pages
from labs.torture import report, seeded
from tests.support.crashed import small_and_quick
from tests.support.engine import tree


def derived(folder: Path, seed: int) -> None:
    """T12. A subset of what is derived, gone or zeroed, is made again byte for byte; each 128 seeds are one store."""
    number, spoiled, store = seed % 64, seed // 64 % 2, random.Random(f"derived {seed // 128}")
    whole = pages.make(folder / "whole", count=store.randrange(5, 90), size=store.randrange(20, 200), **pages.SMALL)
    wanted = tree(folder / "whole", "consumequeue", "index")
    names = [name for n, name in enumerate(pages.DERIVED) if number >> n & 1]
    assert pages.without(folder, whole, wanted, names, bool(spoiled)) == [], names


LIVES: dict[str, Callable[[Path, int], None]] = {
    "stale-tail": seeded.stale_tail,
    "clock-steps": seeded.clock_steps,
    "derived": derived,
}


def main(words: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("life", choices=LIVES)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    given = parser.parse_args(words)
    small_and_quick(setattr)
    logging.getLogger("flintmq").setLevel(logging.CRITICAL)  # of clocks that were set back, and full disks
    for seed in range(given.first, given.first + given.count):
        with tempfile.TemporaryDirectory(prefix="flintmq-seeds-", dir=report.memory()) as folder:
            try:
                LIVES[given.life](Path(folder) / "store", seed)
            except Exception:
                traceback.print_exc()
                print(f"WRONG: python -m labs.torture.seeds {given.life} --first {seed} --count 1")
                return 1
    print(f"{given.life}: seeds {given.first} to {given.first + given.count - 1}, nothing wrong")
    return 0


if __name__ == "__main__":
    sys.exit(main())
