"""Measures the least that lines 23, 24 and 28 of the bench must do, with nothing of FlintMQ.

    python experiments/second_bounds.py DIRECTORY    on the disk that the bench uses

Those bars are seconds, not ratios, so they depend on the machine. Prints medians of fifteen runs: (23) the offsets of
10,000 groups joined, written and synced twice, the file and the one that it replaces; (24) for each message of 1,024
an object, its body cut out of the record, and the loop that looks at it; (28) a Python that imports what `sql` needs of
others, and one that only starts; and the pace, a turn of an empty loop.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

GROUPS, MESSAGES, RUNS = 10_000, 1024, 15
SQL = "import duckdb, pyarrow; duckdb.connect().execute('select 1').fetchall()"


class Record:
    """A message that knows its record and where the body lies."""

    __slots__ = ("begin", "end", "raw")

    def __init__(self, raw: bytes, begin: int, end: int) -> None:
        self.raw, self.begin, self.end = raw, begin, end

    @property
    def body(self) -> bytes:
        return self.raw[self.begin : self.end]


def commit(folder: Path) -> Callable[[], None]:
    texts = [f'"T@group{number}":{{0:1,1:1,2:1,3:1,4:1,5:1,6:1,7:1}}' for number in range(GROUPS)]

    def once() -> None:
        data = ('{"offsetTable":{' + ",".join(texts) + "}}").encode()
        for name in ("offsets.bak", "offsets"):
            with open(folder / (name + ".tmp"), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(folder / (name + ".tmp"), folder / name)

    return once


def get() -> None:
    raw = os.urandom(220)
    seen = 0
    for record in [Record(raw, 88, 188) for _ in range(MESSAGES)]:
        seen += len(record.body) > 0


def process(program: str) -> Callable[[], None]:
    return lambda: void(subprocess.run([sys.executable, "-c", program], check=True))


def void(_: object) -> None:
    """Forget what was returned."""


def turn() -> None:
    for _ in range(1_000_000):
        pass


def median(act: Callable[[], None], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return seconds."""
    taken = []
    for _ in range(RUNS):
        began = clock()
        act()
        taken.append(clock() - began)
    return statistics.median(taken)


def main(folder: Path) -> None:
    """Print the table."""
    print(f"pace                   {median(turn) * 1e3:.0f} ns")
    print(f"23 commit              {median(commit(folder)) * 1e3:.2f} ms")
    print(f"24 get, a message      {median(get, time.process_time) / MESSAGES * 1e6:.2f} us")
    print(f"28 sql, imports        {median(process(SQL)):.2f} s")
    print(f"   Python alone        {median(process('pass')):.2f} s")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
