"""What bounds P20 and `inspect` of P21: many queue files of one unit, and the calls that cannot be left out.

    python experiments/opening_bound.py [DIR] [ROUNDS]

10,000 queues in 2,500 topics, as the line P20 has them: folder, file of one unit, sparse. Cases take turns; printed are
the least and the middle processor time of the rounds, in seconds:

    list      each topic's and each queue's folder is listed
    read      and each file is opened, asked for its size, and its first page is read
    sync      each file's first unit is written again, then: open, fdatasync, close, nothing else
    folders   open, fsync, close of each queue's folder, after a file in it was made
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

TOPICS, QUEUES, SIZE, UNIT = 2500, 4, 6_000_000, bytes(range(20))
NAME = f"{0:020d}"


def folders(root: str) -> list[str]:
    return [f"{root}/topic-{topic:05d}/{queue}" for topic in range(TOPICS) for queue in range(QUEUES)]


def make(root: str) -> None:
    for folder in folders(root):
        os.makedirs(folder)
        with open(f"{folder}/{NAME}", "wb") as file:
            file.truncate(SIZE)
            file.write(UNIT)


def listed(root: str) -> list[str]:
    """Every queue's file, found by listing."""
    return [
        f"{root}/{topic}/{queue}/{name}"
        for topic in os.listdir(root)
        for queue in os.listdir(f"{root}/{topic}")
        for name in os.listdir(f"{root}/{topic}/{queue}")
    ]


def read(root: str) -> None:
    for path in listed(root):
        fd = os.open(path, os.O_RDONLY)
        os.fstat(fd)
        os.pread(fd, 4096, 0)
        os.close(fd)


def dirty(root: str) -> None:
    for folder in folders(root):
        with open(f"{folder}/{NAME}", "r+b") as file:
            file.write(UNIT)


def sync(root: str) -> None:
    for folder in folders(root):
        fd = os.open(f"{folder}/{NAME}", os.O_RDWR)
        os.fdatasync(fd)
        os.close(fd)


def another(root: str) -> None:
    for folder in folders(root):
        with open(f"{folder}/new", "wb"):
            pass
        os.unlink(f"{folder}/new")


def sync_folders(root: str) -> None:
    for folder in folders(root):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(fd)
        os.close(fd)


def main() -> None:
    folder = sys.argv[1] if len(sys.argv) > 1 else None
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    root = tempfile.mkdtemp(dir=folder)
    cases: dict[str, tuple[Callable[[str], object], Callable[[str], object] | None]] = {
        "list": (listed, None),
        "read": (read, None),
        "sync": (sync, dirty),
        "folders": (sync_folders, another),
    }
    times: dict[str, list[float]] = {name: [] for name in cases}
    try:
        make(root)
        for _ in range(rounds):
            for name, (act, before) in cases.items():
                if before is not None:
                    before(root)
                began = time.process_time()
                act(root)
                times[name].append(time.process_time() - began)
    finally:
        shutil.rmtree(Path(root))
    for name, found in times.items():
        print(f"{name:8} {min(found):.2f} s, middle {statistics.median(found):.2f}")


if __name__ == "__main__":
    main()
