"""How fast the machine is at the moment: a virtual machine's neighbours may take a part of it, and nothing says so.

Ratios of one run bear that, those to memcpy less than others; bars in seconds do not. So each figure keeps
the pace before and after its line; compare figures of different days only where their paces are alike.
"""

from __future__ import annotations

import mmap
import time
from dataclasses import dataclass
from pathlib import Path

TURNS, TRIES, COPIED = 1_000_000, 3, 256 << 20


@dataclass(frozen=True)
class Pace:
    """The pace of one moment.

    Attributes:
        loop_ns: nanoseconds of a turn of a plain loop of Python, the best of some tries.
        fresh_gbs: GB/s of writing memory that the process has not touched before, the best of some tries.
        stolen: ticks of the processors, since the machine started, that its host gave to others.
    """

    loop_ns: float
    fresh_gbs: float
    stolen: int

    @classmethod
    def now(cls) -> Pace:
        """Measure it; that takes a second."""
        return cls(min(_loop() for _ in range(TRIES)), max(_fresh() for _ in range(TRIES)), _stolen())


def words(before: Pace, after: Pace) -> str:
    """The slower pace of the two, and the time that was stolen between them."""
    loop, fresh = max(before.loop_ns, after.loop_ns), min(before.fresh_gbs, after.fresh_gbs)
    return f"loop {loop:.0f} ns, fresh memory {fresh:.1f} GB/s, stolen {after.stolen - before.stolen} ticks"


def _loop() -> float:
    total, begin = 0, time.perf_counter()
    for number in range(TURNS):
        total += number
    return (time.perf_counter() - begin) / TURNS * 1e9


def _fresh() -> float:
    source = bytes(1 << 20)
    with mmap.mmap(-1, COPIED) as memory:
        begin = time.perf_counter()
        for at in range(0, COPIED, len(source)):
            memory[at : at + len(source)] = source
        return COPIED / (time.perf_counter() - begin) / 1e9


def _stolen() -> int:
    """The eighth figure of the first line of /proc/stat; 0 where there is none."""
    stat = Path("/proc/stat")
    return int(stat.read_text(encoding="utf-8").split(maxsplit=9)[8]) if stat.exists() else 0
