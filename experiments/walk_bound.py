"""What bounds P9b: validation of a mapped log against memcpy of it, with one thing after another left out.

    python experiments/walk_bound.py STORE [ROUNDS]

Cases take turns, and map the log's files anew each time; printed are least and middle wall clock in ms, and the ratio
of the least ones to memcpy's:

    tables        one byte of every 64 KiB: what filling the page tables and unmapping take
    read          every byte once, by NumPy
    memcpy        into memory that was touched before
    no checksum   the walk without comparing checksums, its pages touched by itself
    walk          the walk as it was: one thread
    ahead         the walk as it is: a second thread touches pages ahead of it
"""

from __future__ import annotations

import mmap
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy

from flintmq.kernels.read import walk
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.sources import TouchAhead
from flintmq.store.commitlog.walk import LogWalk

NEVER = 1 << 62


def main() -> None:
    store, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 9
    log = LogFiles.discover([os.path.join(store, "commitlog")])
    whole = LogWalk(log)
    records = sum(piece.count for piece in whole)
    used = {Path(file.path): min(file.size, whole.position - file.start) for file in log.files}
    used = {path: count for path, count in used.items() if count > 0}
    target = memoryview(bytearray(max(used.values())))

    def each(act: Callable[[memoryview], object]) -> None:
        for path, count in used.items():
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as map_:
                with memoryview(map_) as view, view[:count] as part:
                    act(part)

    def read(part: memoryview) -> None:
        words = numpy.frombuffer(part[: len(part) // 8 * 8], numpy.uint64)
        for at in range(0, len(words), 1 << 15):
            numpy.bitwise_xor.reduce(words[at : at + (1 << 15)])

    def copy(part: memoryview) -> None:
        target[: len(part)] = part

    def validate(least: int, check_crc: bool = True) -> None:
        TouchAhead.LEAST = least
        for _ in LogWalk(log, access="map", piece_bytes=8 << 20, check_crc=check_crc):
            pass

    asked = TouchAhead.LEAST
    cases: dict[str, Callable[[], None]] = {
        "tables": lambda: each(lambda part: walk.touch(part, 0, len(part), 1 << 16)),
        "read": lambda: each(read),
        "memcpy": lambda: each(copy),
        "no checksum": lambda: validate(NEVER, check_crc=False),
        "walk": lambda: validate(NEVER),
        "ahead": lambda: validate(asked),
    }
    times: dict[str, list[float]] = {name: [] for name in cases}
    for turn in range(rounds + 1):
        for name, case in cases.items():
            began = time.perf_counter()
            case()
            if turn:
                times[name].append(time.perf_counter() - began)
    print(f"{records} records, {sum(used.values()) / records:.0f} bytes each")
    for name, found in times.items():
        least, middle = min(found) * 1e3, statistics.median(found) * 1e3
        print(f"{name:12} {least:6.1f} ms, middle {middle:6.1f}, {min(times['memcpy']) / min(found):.2f} of memcpy")


if __name__ == "__main__":
    main()
