"""What bounds group commit in Python (P7): N puts under way and nothing but a store into a map, a wait and a sync.

    python experiments/group_bound.py [--folder DIR] [--rounds 5]

`threads`: N threads store 200 bytes, hand in a latch of kernels/threads/handoff, and wait; one thread takes all latches
there are, syncs and opens them. `tasks`: the same with N tasks of an event loop, one call into the loop a group.
Nothing is checked, encoded, dispatched or counted: what FlintMQ takes beyond is its own.
"""

from __future__ import annotations

import argparse
import asyncio
import mmap
import os
import statistics
import tempfile
import threading
import time
from pathlib import Path

from flintmq.kernels.threads.handoff import Latch, Signal

RECORD = bytes(200)
SIZE = 128 << 20


class Log:
    """A mapped file with room for every record, and its syncs."""

    def __init__(self, folder: Path) -> None:
        self.fd = os.open(folder / "log", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        os.posix_fallocate(self.fd, 0, SIZE)
        self.map, self.end = mmap.mmap(self.fd, SIZE), 0
        self.waiting: list = []
        self.bell, self.stop, self.groups = Signal(), False, 0
        os.fsync(self.fd)

    def store(self) -> None:
        """A record at the end."""
        self.map[self.end : self.end + 200] = RECORD
        self.end += 200

    def flush(self, answer) -> None:
        """Sync for whoever waits, as long as somebody may."""
        latches = None
        while not self.stop:
            self.bell.wait(1.0, latches)
            group, self.waiting = self.waiting, []
            latches = None
            if group:
                os.fdatasync(self.fd)
                self.groups += 1
                latches = answer(group)
        for latch in latches or ():
            latch.open()

    def close(self) -> None:
        """Give everything back."""
        self.map.close()
        os.close(self.fd)


def by_threads(folder: Path, flight: int, count: int) -> tuple[float, float]:
    """(microseconds a message, messages a sync)."""
    log = Log(folder)

    def work() -> None:
        for _ in range(count // flight):
            log.store()
            latch = Latch()
            log.waiting.append(latch)
            log.bell.set_and_wait(latch, 5.0)

    flusher = threading.Thread(target=log.flush, args=(lambda group: group,))
    workers = [threading.Thread(target=work) for _ in range(flight)]
    flusher.start()
    began = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    took = time.perf_counter() - began
    log.stop = True
    log.bell.set()
    flusher.join()
    log.close()
    return took / count * 1e6, count / log.groups


def by_tasks(folder: Path, flight: int, count: int) -> tuple[float, float]:
    """The same."""
    log = Log(folder)

    async def main() -> float:
        loop = asyncio.get_running_loop()

        def complete(group: list) -> None:
            for future in group:
                future.set_result(None)

        flusher = threading.Thread(
            target=log.flush, args=(lambda group: loop.call_soon_threadsafe(complete, group) and None,)
        )
        flusher.start()

        async def work() -> None:
            for _ in range(count // flight):
                log.store()
                future = loop.create_future()
                log.waiting.append(future)
                log.bell.set()
                await future

        began = time.perf_counter()
        await asyncio.gather(*[work() for _ in range(flight)])
        took = time.perf_counter() - began
        log.stop = True
        log.bell.set()
        flusher.join()
        return took

    took = asyncio.run(main())
    log.close()
    return took / count * 1e6, count / log.groups


def bare(folder: Path, records: int, turns: int) -> float:
    """Microseconds of a turn of one thread alone that stores so many records and syncs."""
    log = Log(folder)
    began = time.perf_counter()
    for _ in range(turns):
        for _ in range(records):
            log.store()
        os.fdatasync(log.fd)
    took = time.perf_counter() - began
    log.close()
    return took / turns * 1e6


def main() -> None:
    """Medians of interleaved rounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=16_000)
    words = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=words.folder) as name:
        folder = Path(name)
        cases = {}
        for flight in (16, 64, 1024):
            cases[f"{flight} records and a sync, one thread"] = lambda n=flight: (bare(folder, n, 400) / n, n)
            if flight < 1024:
                cases[f"{flight} threads"] = lambda n=flight: by_threads(folder, n, words.count)
            cases[f"{flight} tasks"] = lambda n=flight: by_tasks(folder, n, words.count)
        found = {name: [] for name in cases}
        for _ in range(words.rounds):
            for name, case in cases.items():
                found[name].append(case())
    for name, pairs in found.items():
        us, size = (statistics.median(p[i] for p in pairs) for i in (0, 1))
        print(f"{name:40} {us:8.2f} us a message, {size:7.1f} a sync, {us * size:8.1f} us a group")


if __name__ == "__main__":
    main()
