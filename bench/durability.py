"""What each step between a put and the disk costs on this machine: the figures of docs/internals/durability.md.

    .venv/bin/python bench/durability.py [--scratch DIR] [--mib 256] [--schedulers]

Plain system calls first, then the store. Each figure is a median of at least five; nothing else should run.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import mmap
import os
import platform
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flintmq import Message, MessageStore
from flintmq.storage.files import libc_memory

MIB = 1 << 20
ROUNDS = 5


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def median_us(work: Callable[[], object], times: int) -> float:
    """Median of so many calls, in microseconds."""
    return 1e6 * statistics.median(seconds(work) for _ in range(times))


@contextmanager
def new_file(folder: Path, size: int, allocate: bool = True, written: bool = False) -> Iterator[int]:
    """A file of this size, with blocks or without, whose blocks were written before or not."""
    path = folder / "file"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.ftruncate(fd, size)
    if allocate:
        os.posix_fallocate(fd, 0, size)
    if written:
        for at in range(0, size, MIB):
            os.pwrite(fd, bytes(MIB), at)
    os.fsync(fd)
    try:
        yield fd
    finally:
        os.close(fd)
        path.unlink()


def meminfo(name: str) -> float:
    """A line of /proc/meminfo in MiB."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) / 1024
    raise KeyError(name)


def disk_bytes() -> int:
    """Bytes that this process made dirty for the disk."""
    words = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(words["write_bytes"])


def page_cache(folder: Path, mib: int) -> Iterator[tuple[str, str]]:
    """Writing without and with a sync, reading cold and cached, with and without read-ahead."""
    block = os.urandom(MIB)
    cold: list[float] = []
    cached: list[float] = []
    stored, synced, bare, dirty = [], [], [], []
    for _ in range(ROUNDS):
        with new_file(folder, mib * MIB) as fd:
            before = meminfo("Dirty")
            stored.append(seconds(lambda: [os.pwrite(fd, block, n * MIB) for n in range(mib)]))
            dirty.append(meminfo("Dirty") - before)
            synced.append(seconds(lambda: os.fdatasync(fd)))
            buffer = bytearray(4096)

            def read(count: int = mib * 256, fd: int = fd, buffer: bytearray = buffer) -> None:
                for at in range(count):
                    os.preadv(fd, [buffer], at * 4096)

            for advice, found in ((os.POSIX_FADV_NORMAL, cold), (os.POSIX_FADV_NORMAL, cached)):
                if found is cold:
                    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.posix_fadvise(fd, 0, 0, advice)
                found.append(seconds(read))
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
            bare.append(seconds(lambda: read(mib * 8)) * 32)
    rate = {name: mib / statistics.median(times) for name, times in
            (("stored", stored), ("synced", synced), ("cold", cold), ("cached", cached), ("bare", bare))}  # fmt: skip
    yield f"`pwrite` of {mib} MiB into the page cache", f"{rate['stored']:,.0f} MiB/s"
    yield "... of which dirty when it returns", f"{100 * statistics.median(dirty) / mib:.0f} %"
    yield "... and the `fdatasync` behind it", f"{rate['synced']:,.0f} MiB/s"
    yield "reading it in order by 4 KiB, cached", f"{rate['cached']:,.0f} MiB/s"
    yield "... cold, with read-ahead", f"{rate['cold']:,.0f} MiB/s"
    yield "... cold, without (`POSIX_FADV_RANDOM`)", f"{rate['bare']:,.0f} MiB/s"


def syncs(folder: Path) -> Iterator[tuple[str, str]]:
    """One dirty page and a sync, in files of each history and under each kind of page; they take turns."""
    size, calls = 8 * MIB, 60
    kinds: list[tuple[str, dict[str, Any], str]] = [
        ("1 KB by `pwrite` and `fdatasync`, file grows", {"size": 0, "allocate": False}, "grows"),
        ("... sparse file of full size", {"size": size, "allocate": False}, "pwrite"),
        ("... allocated before (`fallocate`)", {"size": size}, "pwrite"),
        ("... allocated and written before", {"size": size, "written": True}, "pwrite"),
        ("... through a map, large pages in the cache", {"size": size, "written": True}, "map"),
        ("... through a map, `MADV_RANDOM`", {"size": size, "written": True}, "random"),
    ]
    times: list[list[float]] = [[] for _ in kinds]
    dirtied: list[list[int]] = [[] for _ in kinds]
    for _ in range(ROUNDS):
        for number, (_text, keys, how) in enumerate(kinds):
            with new_file(folder, **keys) as fd, mmap.mmap(fd, size) if keys["size"] else mmap.mmap(-1, 1) as map_:
                if how == "random":
                    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                    libc_memory.advise(map_, 0, size, libc_memory.MADV_RANDOM)
                before = disk_bytes()
                for n in range(calls):
                    began = time.perf_counter()
                    if how in ("map", "random"):
                        map_[n * 4096 : n * 4096 + 1024] = b"y" * 1024
                    else:
                        os.pwrite(fd, b"y" * 1024, n * (1024 if how == "grows" else 4096))
                    os.fdatasync(fd)
                    times[number].append(time.perf_counter() - began)
                dirtied[number].append((disk_bytes() - before) // calls)
    for (text, _, _), found, wrote in zip(kinds, times, dirtied, strict=True):
        each = f", {statistics.median(wrote) / 1024:,.0f} KiB to the disk" if "map" in text else ""
        yield text, f"{1e6 * statistics.median(found):,.0f} µs{each}"


def pages(folder: Path, mib: int) -> Iterator[tuple[str, str]]:
    """Storing records through a map and by pwrite; getting pages ahead; locking them."""
    record = os.urandom(1024)
    count = mib * 1024

    def through(map_: mmap.mmap) -> float:
        def work() -> None:
            for at in range(0, count * 1024, 1024):
                map_[at : at + 1024] = record

        return 1e9 * seconds(work) / count

    fresh, present, ahead, populate, written, locked = [], [], [], [], [], []
    for _ in range(ROUNDS):
        with new_file(folder, mib * MIB) as fd, mmap.mmap(fd, mib * MIB) as map_:
            fresh.append(through(map_))
            present.append(through(map_))
        with new_file(folder, mib * MIB) as fd, mmap.mmap(fd, mib * MIB) as map_:
            populate.append(seconds(lambda: libc_memory.advise(map_, 0, len(map_), libc_memory.MADV_POPULATE_WRITE)))
            ahead.append(through(map_))
            try:
                locked.append(seconds(lambda: libc_memory.lock(map_)))
                libc_memory.unlock(map_)
            except OSError:
                locked.clear()
        with new_file(folder, mib * MIB) as fd:
            took = seconds(lambda: [os.pwrite(fd, record, n * 1024) for n in range(count)])
            written.append(1e9 * took / count)
    yield "1 KB into a map, first touch of each page", f"{statistics.median(fresh):,.0f} ns"
    yield "... pages there already (second round)", f"{statistics.median(present):,.0f} ns"
    yield "... pages populated ahead", f"{statistics.median(ahead):,.0f} ns"
    yield "1 KB by `pwrite`", f"{statistics.median(written):,.0f} ns"
    yield "populating ahead (`MADV_POPULATE_WRITE`)", f"{1e6 * statistics.median(populate) / mib:,.0f} µs/MiB"
    yield "`mlock` of present pages", f"{1e6 * statistics.median(locked) / mib:,.0f} µs/MiB" if locked else "refused"


def store(folder: Path) -> Iterator[tuple[str, str]]:
    """Puts of 1 KB under each promise."""
    body = os.urandom(1024)

    def fresh(**keys: object) -> MessageStore:
        shutil.rmtree(folder / "store", ignore_errors=True)
        return MessageStore(folder / "store", config={"mappedFileSizeCommitLog": 256 * MIB} | keys, unique_keys=False)

    for text, keys in (("put, `ASYNC_FLUSH`", {}), ("... with the transient pool", {"transientStorePoolEnable": True})):
        with fresh(**keys) as made:
            made.put(Message("T", body))
            times = [seconds(lambda: made.put(Message("T", body))) for _ in range(200_000)]
            cuts = statistics.quantiles(times, n=1000)
        longest = f"longest {1e3 * max(times):,.1f} ms"
        yield text, f"median {1e6 * cuts[499]:,.1f} µs, 99.9 % below {1e6 * cuts[998]:,.0f} µs, {longest}"
    with fresh(flushDiskType="SYNC_FLUSH") as made:
        yield "put, `SYNC_FLUSH`, one at a time", f"{median_us(lambda: made.put(Message('T', body)), 500):,.0f} µs"

        def many(threads: int = 16, each: int = 100) -> float:
            work = [threading.Thread(target=lambda: [made.put(Message("T", body)) for _ in range(each)])
                    for _ in range(threads)]  # fmt: skip

            def run() -> None:
                for thread in work:
                    thread.start()
                for thread in work:
                    thread.join()

            return seconds(run) / threads / each

        yield "... by 16 threads, each put", f"{1e6 * statistics.median(many() for _ in range(ROUNDS)):,.0f} µs"

        async def group() -> float:
            began = time.perf_counter()
            await asyncio.gather(*(made.put_async(Message("T", body)) for _ in range(1000)))
            return (time.perf_counter() - began) / 1000

        both = [asyncio.run(group()) for _ in range(ROUNDS)]
        yield "... 1,000 under way by `put_async`, each", f"{1e6 * statistics.median(both):,.1f} µs"


def schedulers(folder: Path, queue: Path) -> Iterator[tuple[str, str]]:
    """A small write and its sync beside another process's large ones, under each I/O scheduler that may be set."""
    file = queue / "scheduler"
    try:
        names = file.read_text().replace("[", "").replace("]", "").split()
        before = file.read_text().partition("[")[2].partition("]")[0]
        file.write_text(before)
    except OSError as error:
        yield "I/O schedulers", f"not tried: {error.strerror} ({file}); run it as root, on a disk of the machine's own"
        return
    try:
        for name in names:
            file.write_text(name)
            yield f"4 KiB appended and synced beside large writes, I/O scheduler {name}", f"{_beside(folder):,.0f} µs"
    finally:
        file.write_text(before)


def _beside(folder: Path) -> float:
    """Median microseconds of a small append and its sync while a thread writes and syncs megabytes."""
    stop = threading.Event()

    def busy() -> None:
        with (folder / "large").open("wb", buffering=0) as large:
            while not stop.is_set():
                large.seek(0)
                for _ in range(16):
                    large.write(bytes(MIB))
                os.fdatasync(large.fileno())

    other = threading.Thread(target=busy)
    other.start()
    try:
        with (folder / "small").open("wb", buffering=0) as small:

            def append() -> None:
                small.write(bytes(4096))
                os.fdatasync(small.fileno())

            return median_us(append, 100)
    finally:
        stop.set()
        other.join()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--schedulers", action="store_true", help="set each I/O scheduler of the disk for a moment")
    words = parser.parse_args()
    device = os.stat(words.scratch).st_dev
    queue = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/queue")
    queue = queue if queue.exists() else queue.parent.parent / "queue"
    told = {name: (queue / name).read_text().strip() for name in ("scheduler", "read_ahead_kb") if queue.exists()}
    limits = {
        name: Path(f"/proc/sys/vm/{name}").read_text().strip()
        for name in ("dirty_background_ratio", "dirty_ratio", "dirty_expire_centisecs", "dirty_writeback_centisecs")
    }
    print(f"{datetime.date.today()}, Linux {platform.release()}, {os.cpu_count()} CPUs; {told}; {limits}\n")
    print("| what | figure |\n|---|---|")
    with tempfile.TemporaryDirectory(dir=words.scratch) as name:
        folder = Path(name)
        large = page_cache(folder, words.mib), pages(folder, words.mib)
        for part in (*large, syncs(folder), store(folder)):
            for text, figure in part:
                print(f"| {text} | {figure} |", flush=True)
        for text, figure in schedulers(folder, queue) if words.schedulers else [("I/O schedulers", "not tried")]:
            print(f"| {text} | {figure} |", flush=True)


if __name__ == "__main__":
    main()
