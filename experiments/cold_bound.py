"""What a random get from a cold cache can reach (P19): `python experiments/cold_bound.py [DIR] [MIB]`.

A store of 4 KiB messages; the same random places each time, nothing in the page cache before. Microseconds a get,
medians of five interleaved rounds:

- page: `pread` of the aligned 4 KiB that the record begins in: what fio does.
- record: `pread` of the record, which lies on two pages.
- unit and record: `pread` of the queue's 20 bytes first.
- get: `MessageStore.get`.
- get, queues read before: the same after every queue file was read once.
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from flintmq import Message, MessageStore

BODY, COUNT, ROUNDS, FILE = 4096 - 176, 2000, 5, 64 << 20
KEYS = {"mappedFileSizeCommitLog": FILE}


def cold(root: Path) -> None:
    """Nothing of these files stays in the page cache."""
    for file in root.rglob("*"):
        if file.is_file():
            fd = os.open(file, os.O_RDONLY)
            os.fdatasync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def timed(step: Callable[[int], object], places: list[int]) -> float:
    began = time.perf_counter()
    for place in places:
        step(place)
    return (time.perf_counter() - began) / len(places) * 1e6


def main(folder: str, mib: int) -> None:
    """Write, then measure."""
    root = Path(folder) / "store"
    count = mib * (1 << 20) // 4096
    with MessageStore(root, KEYS, unique_keys=False) as store:
        body = os.urandom(BODY)
        results = store.put_many(Message("Cold", body, queue_id=0) for _ in range(count))
        units = [(r.physical_offset, r.size) for r in results]
    offsets = random.Random(19).sample(range(count * 6 // 10), COUNT)
    logs = {int(f.name): os.open(f, os.O_RDONLY) for f in (root / "commitlog").iterdir()}
    queue = os.open(sorted((root / "consumequeue/Cold/0").iterdir())[0], os.O_RDONLY)

    def read(place: int, size: int) -> bytes:
        return os.pread(logs[place // FILE * FILE], size, place % FILE)

    def both(offset: int) -> bytes:
        unit = os.pread(queue, 20, 20 * offset)
        return read(int.from_bytes(unit[:8], "big"), int.from_bytes(unit[8:12], "big"))

    def by_store(warm: bool) -> float:
        with MessageStore(root, KEYS, unique_keys=False) as store:
            if warm:
                for file in (root / "consumequeue").glob("*/*/*"):
                    file.read_bytes()
            return timed(lambda n: store.get("Cold", 0, n, 1).messages[0].body, offsets)

    cases: dict[str, Callable[[], float]] = {
        "page": lambda: timed(lambda n: read(units[n][0] & ~4095, 4096), offsets),
        "record": lambda: timed(lambda n: read(*units[n]), offsets),
        "unit and record": lambda: timed(both, offsets),
        "get": lambda: by_store(False),
        "get, queues read before": lambda: by_store(True),
    }
    found: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(ROUNDS):
        for name, case in cases.items():
            cold(root)
            found[name].append(case())
    first = statistics.median(found["page"])
    for name, times in found.items():
        print(f"{name:26} {statistics.median(times):7.1f} us   page / this: {first / statistics.median(times):.2f}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as name:
        main(name, int(sys.argv[2]) if len(sys.argv) > 2 else 512)
