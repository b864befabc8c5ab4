"""P7, P7t, P8: durable puts.

Every case opens a store of its own in the scratch folder, so all of them meet the same disk. Java runs as a process of
its own between ours, and its own clock counts, without its start. `sync_in_caller` is measured where the store has it;
the same without it stands beside.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import java
from harness import Context, Cost, Result, measure

from flintmq import Message, MessageStore

BODY = bytes(100)
ROUNDS = 9  # of one put at a time: its rounds differ by a third
# The option by which a put syncs in its own thread, where the store has it.
CALLER: dict[str, Any] = (
    {"sync_in_caller": True} if "sync_in_caller" in inspect.signature(MessageStore).parameters else {}
)


@contextmanager
def sync_store(context: Context, **options: Any) -> Iterator[MessageStore]:
    """A store that answers a put when it is on disk, after its first put."""
    words: dict[str, Any] = {"flush_disk_type": "SYNC_FLUSH", "unique_keys": False} | options
    with context.folder("sync") as path, MessageStore(path, **words) as store:
        store.put(Message("Bench", BODY))
        yield store


def each(began: float, count: int) -> Cost:
    """Microseconds of each of so many messages since then."""
    return {"us": (time.perf_counter() - began) / count * 1e6}


def by_loop(context: Context, tasks: int, count: int) -> Cost:
    """Tasks of an event loop that put and wait."""
    with sync_store(context) as store:

        async def work() -> None:
            for _ in range(count // tasks):
                await store.put_async(Message("Bench", BODY, tags="TagA"))

        async def main() -> Cost:
            began = time.perf_counter()
            await asyncio.gather(*[work() for _ in range(tasks)])
            return each(began, count // tasks * tasks)

        return asyncio.run(main())


def by_threads(context: Context, threads: int, count: int, **options: Any) -> Cost:
    """Threads that put and wait."""
    with sync_store(context, **options) as store:

        def work() -> None:
            for _ in range(count // threads):
                store.put(Message("Bench", BODY, tags="TagA"))

        workers = [threading.Thread(target=work) for _ in range(threads)]
        began = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return each(began, count // threads * threads)


def by_java(context: Context, threads: int, count: int) -> Cost:
    """The same by the Java store."""
    with context.folder("java") as path:
        warm = count if context.quick else 400_000 if threads > 1 else 20_000
        words = {"flush": "SYNC_FLUSH", "threads": threads, "count": count, "size": len(BODY), "warmup": warm}
        options = [text for key, value in words.items() for text in (f"--{key}", str(value))]
        line = next(line for line in java.oracle(context, "bench", path, None, *options) if line["op"] == "bench")
        assert not line["failed"], line
        return {"us": line["seconds"] / line["count"] * 1e6}


def bare(context: Context, count: int, *, allocated: bool, group: int = 1) -> Cost:
    """A pwrite and an fdatasync in a loop, with groups of records of the same size."""
    with context.folder("bare") as path:
        fd = os.open(path / "file", os.O_RDWR | os.O_CREAT, 0o600)
        record = bytes(91 + len("Bench") + len(BODY) + len("TAGS_TagA_")) * group
        if allocated:
            os.posix_fallocate(fd, 0, 64 << 20)
        os.fsync(fd)
        began = time.perf_counter()
        for number in range(count):
            os.pwrite(fd, record, number * len(record))
            os.fdatasync(fd)
        cost = each(began, count * group)
        os.close(fd)
        return cost


def p7(context: Context) -> dict[str, Result]:
    count = 3_200 if context.quick else 32_000
    cases = {
        "async": partial(by_loop, context, 64, count),
        "bare": partial(bare, context, max(200, count // 64), allocated=True, group=64),
    }
    found = measure(context, cases)
    return {"P7.64.bare": found.result(found["async us"] / found["bare us"])}


def p7t(context: Context) -> dict[str, Result]:
    count = 3_200 if context.quick else 32_000
    cases = {"threads": partial(by_threads, context, 64, count), "java": partial(by_java, context, 64, count)}
    found = measure(context, cases)
    return {"P7t.64.java": found.result(found["java us"] / found["threads us"])}


def p8(context: Context) -> dict[str, Result]:
    """One put under way."""
    count = 500 if context.quick else 4_000
    cases = {
        "flusher": partial(by_threads, context, 1, count),
        "bare allocated": partial(bare, context, count, allocated=True),
        "bare growing": partial(bare, context, count, allocated=False),
        "java": partial(by_java, context, 1, count),
    }
    if CALLER:
        cases["caller"] = partial(by_threads, context, 1, count, **CALLER)
    found = measure(context, cases, rounds=ROUNDS)
    loop, own = found.best("bare allocated us", "bare growing us"), found["caller us" if CALLER else "flusher us"]
    results = {"P8.bare": found.result(found["flusher us"] / loop), "P8.java": found.result(found["java us"] / own)}
    return results | ({"P8.caller": found.result(own / loop)} if CALLER else {})


FAMILIES = {"P7": p7, "P7t": p7t, "P8": p8}
