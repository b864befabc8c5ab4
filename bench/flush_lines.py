"""Durable puts, memory, and what keeps page faults away: P7, P8, P16 and the table A1.

Every case opens a store of its own in the scratch folder, so all of them meet the same disk. Java runs as a process of
its own between ours, and its own clock counts, without its start.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import java
from harness import Context, Result, Unavailable
from threads_peer import by_threads

from flintmq import Message, MessageStore
from flintmq.storage.files.filesystem import Effects

BODY = bytes(100)


@contextmanager
def folder(context: Context, name: str) -> Iterator[Path]:
    """An empty folder that is removed afterwards."""
    path = context.scratch / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def sync_store(context: Context) -> Iterator[MessageStore]:
    """A store that answers a put when it is on disk, after its first put."""
    with folder(context, "sync") as path, MessageStore(path, flush_disk_type="SYNC_FLUSH", unique_keys=False) as store:
        store.put(Message("Bench", BODY))
        yield store


def rounds(context: Context, cases: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    """Medians of what each case says it took, in microseconds a message, over interleaved rounds."""
    names = list(cases)
    found: dict[str, list[float]] = {name: [] for name in names}
    for number in range(context.rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            found[name].append(cases[name]())
    return {name: statistics.median(times) for name, times in found.items()}


# -- P7, P8: group commit ---------------------------------------------------------------------------------------------


def by_loop(context: Context, tasks: int, count: int) -> float:
    """The same with tasks of an event loop."""
    with sync_store(context) as store:

        async def work() -> None:
            for _ in range(count // tasks):
                await store.put_async(Message("Bench", BODY, tags="TagA"))

        async def main() -> float:
            began = time.perf_counter()
            await asyncio.gather(*[work() for _ in range(tasks)])
            return time.perf_counter() - began

        return asyncio.run(main()) / (count // tasks * tasks) * 1e6


def by_java(context: Context, threads: int, window: int, count: int) -> float:
    """The same by the Java store: so many threads with so many puts under way each."""
    with folder(context, "java") as path:
        words = {"flush": "SYNC_FLUSH", "threads": threads, "window": window, "count": count, "size": len(BODY)}
        words["warmup"] = count if context.quick else 400_000 if threads * window > 1 else 20_000
        options = [text for key, value in words.items() for text in (f"--{key}", str(value))]
        line = next(line for line in java.oracle(context, "bench", path, None, *options) if line["op"] == "bench")
        assert not line["failed"], line
        return float(line["seconds"] / line["count"] * 1e6)


def bare(context: Context, count: int, *, allocated: bool, group: int = 1) -> float:
    """Microseconds a message of a pwrite and an fdatasync in a loop, with groups of records of the same size."""
    with folder(context, "bare") as path:
        fd = os.open(path / "file", os.O_RDWR | os.O_CREAT, 0o600)
        record = bytes(91 + len("Bench") + len(BODY) + len("TAGS_TagA_")) * group
        if allocated:
            os.posix_fallocate(fd, 0, 64 << 20)
        os.fsync(fd)
        began = time.perf_counter()
        for number in range(count):
            os.pwrite(fd, record, number * len(record))
            os.fdatasync(fd)
        took = time.perf_counter() - began
        os.close(fd)
        return took / (count * group) * 1e6


def p7(context: Context) -> list[Result]:
    """16, 64 and 1024 puts under way by an event loop, with a bare group's share and Java's better way.

    The bars of each number: to a bare group's share, its moonshot, to Java, its moonshot.
    """
    java.home(context)
    count, results = 3_200 if context.quick else 32_000, []
    bars = {16: (2.4, 2.0, 1.5, 2.5), 64: (2.0, 1.6, 2.5, 3.5), 1024: (17.0, 12.0, None, None)}
    for flight, (bar, moonshot, java_bar, java_moonshot) in bars.items():
        many = count if flight < 1024 else 4 * count
        cases: dict[str, Callable[..., float]] = {
            "async": lambda n=flight, many=many: by_loop(context, n, many),
            "bare": lambda n=flight: bare(context, max(200, count // n), allocated=True, group=n),
        }
        if java_bar is not None:
            cases["java threads"] = lambda n=flight: by_java(context, n, 1, count)
            cases["java window"] = lambda n=flight: by_java(context, 1, n, count)
        found = rounds(context, cases)
        detail = {f"{name} us": round(value, 3) for name, value in found.items()}
        what, bound = f"SYNC_FLUSH, {flight} puts under way by an event loop: ", "the event loop's tasks"
        results.append(
            Result(f"P7.{flight}.bare", what + "our time / a bare group's share", found["async"] / found["bare"], bar,
                   True, moonshot, bound, detail)
        )  # fmt: skip
        if java_bar is not None:
            best = min(found["java threads"], found["java window"])
            results.append(
                Result(f"P7.{flight}.java", what + "Java's time / ours", best / found["async"], java_bar, False,
                       java_moonshot, bound, detail)
            )  # fmt: skip
    return results


def by_threads_of(context: Context, root: Path | None, threads: int, count: int, pinned: bool = False) -> float:
    """Run threads_peer.py, with the environment of another checkout if one is given."""
    python = sys.executable if root is None else str(root / ".venv" / "bin" / "python")
    words = [python, str(Path(__file__).with_name("threads_peer.py")), str(context.scratch / "sync")]
    words += [str(threads), str(count), "pinned" if pinned else "free"]
    return float(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def p7t(context: Context) -> list[Result]:
    """16 and 64 threads, with Java's as many threads, and with an earlier commit that --beside names (4e52f3d)."""
    java.home(context)
    count, results = 3_200 if context.quick else 32_000, []
    for flight, java_bar in ((16, 1.3), (64, 1.0)):
        cases: dict[str, Callable[[], float]] = {
            "threads": lambda n=flight: by_threads_of(context, None, n, count),  # type: ignore[misc]
            "one core": lambda n=flight: by_threads_of(context, None, n, count, pinned=True),  # type: ignore[misc]
            "java threads": lambda n=flight: by_java(context, n, 1, count),  # type: ignore[misc]
        }
        if context.beside is not None:
            cases["before"] = lambda n=flight: by_threads_of(context, context.beside, n, count)  # type: ignore[misc]
        found = rounds(context, cases)
        detail = {f"{name} us": round(value, 2) for name, value in found.items()}
        what, bound = f"SYNC_FLUSH, {flight} threads that put: ", "handing the GIL from thread to thread"
        results.append(
            Result(f"P7t.{flight}.java", what + "Java's time with as many threads / ours",
                   found["java threads"] / found["threads"], java_bar, False, 2.0, bound, detail)
        )  # fmt: skip
        if context.beside is not None:
            results.append(
                Result(f"P7t.{flight}.before", what + "time of the commit beside it / ours",
                       found["before"] / found["threads"], 1.3, bound=bound, detail=detail)
            )  # fmt: skip
    if context.beside is None:
        context.say("  without --beside (a built checkout of 4e52f3d) the ratio to the commit before is not measured")
    return results


def p8(context: Context) -> list[Result]:
    """One put under way."""
    java.home(context)
    count = 500 if context.quick else 4_000
    found = rounds(
        context,
        {
            "flintmq": lambda: by_threads(str(context.scratch / "sync"), 1, count),
            "bare allocated": lambda: bare(context, count, allocated=True),
            "bare growing": lambda: bare(context, count, allocated=False),
            "java": lambda: by_java(context, 1, 1, count),
        },
    )
    detail = {f"{name} us": round(value, 1) for name, value in found.items()}
    own, loop = found["flintmq"], min(found["bare allocated"], found["bare growing"])
    bound = "the sync, and waking the flusher and back"
    what = "SYNC_FLUSH, one put at a time: our time / "
    return [
        Result("P8.bare", what + "a bare pwrite+fdatasync loop", own / loop, 1.2, True, 1.1, bound, detail),
        Result("P8.java", "SYNC_FLUSH, one put at a time: Java's time / ours", found["java"] / own, 2.0, False, 2.5,
               bound, detail),
    ]  # fmt: skip


# -- P16: memory ------------------------------------------------------------------------------------------------------

MEMORY_SCRIPT = """
import json, sys, time
from flintmq import Message, MessageStore
with MessageStore(sys.argv[1], unique_keys=False) as store:
    store.put(Message("Bench", b"x"))
    time.sleep(1)
    idle = store.stats().memory_bytes
    most = 0
    for number in range(int(sys.argv[2])):
        store.put(Message(f"Bench{number % 8}", bytes(1000), tags="TagA", keys=f"k{number}", queue_id=number % 16))
        if number % 1000 == 0:
            most = max(most, store.stats().memory_bytes)
    store.wait_dispatched(600)
    print(json.dumps([idle, max(most, store.stats().memory_bytes)]))
"""


def p16(context: Context) -> list[Result]:
    """A process of its own: memory that belongs to no mapped file, idle and while it puts."""
    count, found = 20_000 if context.quick else 500_000, []
    for _ in range(context.rounds):
        with folder(context, "memory") as path:
            words = [sys.executable, "-c", MEMORY_SCRIPT, str(path), str(count)]
            found.append(json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout))
    if not found[0][0]:
        raise Unavailable("this system does not tell what memory a process has (Linux does)")
    return [
        Result(f"P16.{name}", f"MiB of a process with a store, {name}, mapped files left out",
               statistics.median(pair[n] for pair in found) / (1 << 20), 64.0, True, 32.0, "Python itself",
               {"puts": count if n else 1})
        for n, name in enumerate(("idle", "load"))
    ]  # fmt: skip


# -- A1: what each of them changes ----------------------------------------------------------------------------------


class Unlocked(Effects):
    """The real disk, without memory locks."""

    def lock_memory(self, map_: Any, *, on_fault: bool = False) -> None:
        """Done, it says."""

    def unlock_memory(self, map_: Any) -> None:
        """Done."""


def putting(context: Context, keys: dict[str, Any], change: Callable[[MessageStore], None], effects: Effects) -> Any:
    """Put 1 KB messages over a few files: microseconds a put, processor microseconds of the whole process, and the
    time in ms below which 999 of 1000 puts stayed, warm-up of the first file left out."""
    count = context.mib * 1024 // 4
    with folder(context, "pages") as path, MessageStore(path, keys, effects=effects, unique_keys=False) as store:
        change(store)
        message = Message("Bench", bytes(1000), tags="TagA")
        store.put(message)
        time.sleep(0.2 if context.quick else 1.0)  # files ahead are there, as they are in a store that runs for long
        took = []
        used = resource.getrusage(resource.RUSAGE_SELF)
        began = last = time.perf_counter()
        for _ in range(count):
            store.put(message)
            now = time.perf_counter()
            took.append(now - last)
            last = now
        wall = last - began
        store.wait_dispatched(60)
        after = resource.getrusage(resource.RUSAGE_SELF)
        cpu = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    took.sort()
    return wall / count * 1e6, cpu / count * 1e6, took[count * 999 // 1000] * 1e3, took[-1] * 1e3


def nothing_ahead(store: MessageStore) -> None:
    """Files are made by the put that needs them."""
    allocation, store._parts.files.allocation = store._parts.files.allocation, None
    if allocation is not None:
        allocation.stop()


def not_populated(store: MessageStore) -> None:
    """Files are made ahead, and nothing else."""
    allocation = store._parts.files.allocation
    if allocation is not None and allocation.ahead is not None:
        allocation.ahead.populate = False


def as_it_is(store: MessageStore) -> None:
    """Everything that is on by default."""


def a1(context: Context) -> list[Result]:
    """Files of 64 MiB, so that every case rolls over; each case against the one it adds something to."""
    size = {"mappedFileSizeCommitLog": (16 if context.quick else 64) << 20}
    real, warm = Effects(), {**size, "warmMapedFileEnable": True}
    cases: dict[str, tuple[dict[str, Any], Callable[[MessageStore], None], Effects]] = {
        "nothing": (size, nothing_ahead, real),
        "allocation ahead": (size, not_populated, real),
        "populating ahead": (size, as_it_is, real),
        "warm-up": (warm, not_populated, Unlocked()),
        "warm-up with mlock": (warm, not_populated, real),
        "transient pool": ({**size, "transientStorePoolEnable": True}, as_it_is, real),
    }
    found: dict[str, list[Any]] = {name: [] for name in cases}
    for _ in range(context.rounds):
        for name, words in cases.items():
            found[name].append(putting(context, *words))
    middle = {name: [statistics.median(values) for values in zip(*runs, strict=True)] for name, runs in found.items()}
    base, results = middle["nothing"], []
    for number, (name, (wall, cpu, late, worst)) in enumerate(middle.items()):
        detail = {
            "wall us": round(wall, 2),
            "cpu us": round(cpu, 2),
            "p99.9 ms": round(late, 3),
            "max ms": round(worst, 1),
        }
        results.append(
            Result(f"A1.{number}", f"1 KB puts, {name}: wall with nothing / with this", base[0] / wall,
                   bound="no bar: what each changes", detail=detail)
        )  # fmt: skip
    return results


LINES = {"P7": p7, "P7t": p7t, "P8": p8, "P16": p16, "A1": a1}
