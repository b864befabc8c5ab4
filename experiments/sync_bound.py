"""What one durable put at a time can reach: `python experiments/sync_bound.py [DIR]`.

The same record, over and over, made durable by nothing but the calls that cannot be left out. Each way takes turns with
the others; medians of microseconds a record, and the ratio to the first.

- pwrite: one thread, `pwrite` and `fdatasync`: the bare loop of P8.
- map: one thread, a store into the map and `fdatasync`.
- map, two threads: another thread syncs, handed over by two bare locks: the least that a put costs which waits for a
  flusher, so that a sync that hangs cannot keep it longer than syncFlushTimeout.
- map, two threads, pipes: handed over by pipes, whose wake-ups let the woken thread run on the same processor.
"""

from __future__ import annotations

import mmap
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable

RECORD = os.urandom(220)
COUNT, ROUNDS, SIZE = 2000, 7, 1 << 30


def new_file(folder: str) -> tuple[int, mmap.mmap, str]:
    path = os.path.join(folder, "sync_bound")
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    os.ftruncate(fd, SIZE)
    os.posix_fallocate(fd, 0, 64 << 20)
    os.fsync(fd)
    memory = mmap.mmap(fd, SIZE)
    memory.madvise(mmap.MADV_RANDOM)
    return fd, memory, path


def timed(step: Callable[[int], None]) -> float:
    began = time.perf_counter()
    for number in range(COUNT):
        step(number * len(RECORD))
    return (time.perf_counter() - began) / COUNT * 1e6


def pwrite(fd: int, memory: mmap.mmap) -> float:
    def step(at: int) -> None:
        os.pwrite(fd, RECORD, at)
        os.fdatasync(fd)

    return timed(step)


def mapped(fd: int, memory: mmap.mmap) -> float:
    def step(at: int) -> None:
        memory[at : at + len(RECORD)] = RECORD
        os.fdatasync(fd)

    return timed(step)


def two_threads(
    fd: int, memory: mmap.mmap, ask: Callable[[], object], asked: Callable[[], object],
    answer: Callable[[], object], answered: Callable[[], object],
) -> float:  # fmt: skip
    stop = False

    def flusher() -> None:
        while True:
            asked()
            if stop:
                return
            os.fdatasync(fd)
            answer()

    def step(at: int) -> None:
        memory[at : at + len(RECORD)] = RECORD
        ask()
        answered()

    thread = threading.Thread(target=flusher)
    thread.start()
    took = timed(step)
    stop = True
    ask()
    thread.join()
    return took


def by_locks(fd: int, memory: mmap.mmap) -> float:
    there, back = threading.Lock(), threading.Lock()
    there.acquire()
    back.acquire()
    return two_threads(fd, memory, there.release, there.acquire, back.release, back.acquire)


def by_pipes(fd: int, memory: mmap.mmap) -> float:
    (asked, ask), (answered, answer) = os.pipe(), os.pipe()
    took = two_threads(
        fd, memory, lambda: os.write(ask, b"x"), lambda: os.read(asked, 1),
        lambda: os.write(answer, b"x"), lambda: os.read(answered, 1),
    )  # fmt: skip
    for end in (asked, ask, answered, answer):
        os.close(end)
    return took


WAYS = {"pwrite": pwrite, "map": mapped, "map, two threads": by_locks, "map, two threads, pipes": by_pipes}


def main(folder: str) -> None:
    found: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(ROUNDS):
        for name, way in WAYS.items():
            fd, memory, path = new_file(folder)
            found[name].append(way(fd, memory))
            memory.close()
            os.close(fd)
            os.unlink(path)
    bare = statistics.median(found["pwrite"])
    for name, times in found.items():
        middle = statistics.median(times)
        print(f"{name:<26} {middle:8.1f} us  {middle / bare:5.2f}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else ".")
