"""What a group commit gains if its pages were written before: `python experiments/written_before_bound.py [DIR]`.

A log file is allocated (`posix_fallocate`), so each of its blocks has an address and a note that it was never written.
The first sync of a block changes that note, too. Here records are stored into the map of such a file, one or 64 a
group, and synced, by the same thread or by another one; once as it is, and once with the pages of the whole round made
present and synced ahead (not counted): zeros are written then, and the notes are gone. Ways take turns; medians and
least of microseconds a group.
"""

from __future__ import annotations

import mmap
import os
import statistics
import sys
import tempfile
import threading
import time

RECORD = bytes(range(1, 207))
GROUPS, ROUNDS, SIZE, PAGE = 300, 9, 64 << 20, 4096
MADV_POPULATE_WRITE = 23


def one_round(folder: str, before: bool, two: bool, group: int) -> float:
    path = os.path.join(folder, "file")
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    records = RECORD * group
    os.posix_fallocate(fd, 0, SIZE)
    os.fsync(fd)
    log = mmap.mmap(fd, SIZE)
    if before:
        log.madvise(MADV_POPULATE_WRITE, 0, -(-len(records) * GROUPS // PAGE) * PAGE)
        os.fdatasync(fd)
    asked, answered, stopping = threading.Semaphore(0), threading.Semaphore(0), threading.Event()

    def flusher() -> None:
        while asked.acquire() and not stopping.is_set():
            os.fdatasync(fd)
            answered.release()

    thread = threading.Thread(target=flusher)
    thread.start()
    began = time.perf_counter()
    for number in range(GROUPS):
        log[number * len(records) : (number + 1) * len(records)] = records
        if two:
            asked.release()
            answered.acquire()
        else:
            os.fdatasync(fd)
    took = time.perf_counter() - began
    stopping.set()
    asked.release()
    thread.join()
    log.close()
    os.close(fd)
    os.remove(path)
    return took / GROUPS * 1e6


def main() -> None:
    cases = [(before, two) for two in (False, True) for before in (False, True)]
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        for group in (1, 64):
            found: dict[tuple[bool, bool], list[float]] = {case: [] for case in cases}
            for number in range(ROUNDS):
                for case in cases[number % 4 :] + cases[: number % 4]:
                    found[case].append(one_round(folder, *case, group))
            for (before, two), times in found.items():
                what = f"{group:2} a group, {'two threads' if two else 'one thread'}"
                what += ", written before" if before else ", allocated"
                print(f"{what:42} {statistics.median(times):6.1f} us, least {min(times):6.1f}")


if __name__ == "__main__":
    main()
