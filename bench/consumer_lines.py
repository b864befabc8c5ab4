"""P23, P24: what a consumer of an embedded user waits for. P13: `get` of many. P19: `get` of one, cached, and cold.

P23: one topic whose messages lie in 8 queues, polled by 32 as a program does by default, every body taken; the same
with as many queues that have nothing as make 1,000. P24: a group commits in a store that knows 10,000.
"""

from __future__ import annotations

import os
import random
import time
from functools import partial
from pathlib import Path
from typing import Any

import java
from data import store
from harness import Case, Context, Cost, Result, measure

from flintmq import Message, MessageStore, open_store

BODY = 4096 - 176  # of P19: a record is a page
FILE = 64 << 20
PERCENT = 60  # of each queue, and of the log: both sides read the last files when they start
Results = dict[str, Result]


def topic_of(context: Context, queues: int) -> tuple[Path, int]:
    """A store with a topic of so many queues, a message in each and all others in 8 of them; how many there are."""
    path, count = context.scratch / f"consumed-{queues}", context.mib * 100
    if not path.exists():
        with MessageStore(path, {"mappedFileSizeConsumeQueue": 20_000}, unique_keys=False) as opened:
            opened.create_topic("T", queues)
            for n in range(count):
                opened.put(Message("T", bytes(100), "TagA", keys=f"k{n}", queue_id=n if n < queues else n % 8))
    return path, count


def consumed(opened: Any, count: int) -> Cost:
    """Processor microseconds a message of a consumer that polls them all."""
    with opened.consumer("group", "T") as consumer:
        seen, began = 0, time.process_time()
        while seen < count:
            for message in consumer.poll(32):
                seen += len(message.body) > 0
        return {"us": (time.process_time() - began) / count * 1e6}


def polled(kind: str, path: Path, count: int) -> Cost:
    with MessageStore(path, unique_keys=False) if kind == "store" else open_store(path) as opened:
        return consumed(opened, count)


def p23(context: Context) -> Results:
    few, many = topic_of(context, 8), topic_of(context, 1000)
    cases = {
        "store": partial(polled, "store", *few),
        "view": partial(polled, "view", *few),
        "1,000 queues": partial(polled, "store", *many),
    }
    found = measure(context, cases, warm=True)
    own = found["store us"]
    ratios = {"store": own, "view": found["view us"], "queues": found["1,000 queues us"] / own}
    return {f"P23.{name}": found.result(ratio) for name, ratio in ratios.items()}


def p24(context: Context) -> Results:
    """The groups commit once beforehand, without waiting for the disk."""
    groups = 1_000 if context.quick else 10_000

    def commits(store: MessageStore) -> Cost:
        with store.consumer("one", "T") as consumer:
            consumer.poll(8)
            began = time.perf_counter()
            consumer.commit()
            return {"ms": (time.perf_counter() - began) * 1e3}

    with context.folder("alone") as one, context.folder("groups") as path:
        with MessageStore(one, unique_keys=False) as alone, MessageStore(path, unique_keys=False) as crowded:
            for opened, known in ((alone, 1), (crowded, groups)):
                for n in range(1000):
                    opened.put(Message("T", b"x", queue_id=n % 8))
                opened.wait_dispatched()
                for number in range(known):
                    with opened.consumer(f"group{number}", "T") as consumer:
                        consumer.poll(8)
                        consumer.commit(wait=False)
            cases = {"alone": partial(commits, alone), f"{groups:,} groups": partial(commits, crowded)}
            found = measure(context, cases, warm=True, rounds=15)
    return {"P24": found.result(found[f"{groups:,} groups ms"])}


def p13(context: Context) -> Results:
    """Every message of every queue, 1,024 a call."""
    path, count = topic_of(context, 8)

    def got() -> Cost:
        with MessageStore(path, unique_keys=False) as store:
            seen, began = 0, time.process_time()
            for queue in range(8):
                offset = 0
                while messages := store.get("T", queue, offset, 1024).messages:
                    for message in messages:
                        seen += len(message.body) > 0
                    offset += len(messages)
            assert seen == count, (seen, count)
            return {"us": (time.process_time() - began) / count * 1e6}

    found = measure(context, {"get": got}, warm=True)
    return {"P13.get": found.result(found["get us"])}


def p19(context: Context) -> Results:
    """Files of 64 MiB; gets lie in those before the last."""
    written = store(context, "cold", BODY, commit_log_file_size=FILE)
    with open_store(written.path) as view:
        queues = [(q.topic, q.queue_id, q.max_offset * PERCENT // 100) for q in view.queues()]
    count, config = 300 if context.quick else 3000, {"mappedFileSizeCommitLog": FILE}
    chance = random.Random(19)
    spread = [(topic, queue, chance.randrange(end)) for topic, queue, end in chance.choices(queues, k=count)]
    topic, queue, end = queues[0]
    again = [(topic, queue, chance.randrange(end)) for _ in range(64)] * (10 * count // 64)

    def gets(wanted: list[tuple[str, int, int]]) -> Cost:
        with MessageStore(written.path, config, unique_keys=False) as store:
            began, before = time.perf_counter(), time.process_time()
            for topic, queue, offset in wanted:
                [message] = store.get(topic, queue, offset, 1).messages
                assert len(message.body) == BODY
            wall, cpu = time.perf_counter() - began, time.process_time() - before
            return {"us": wall / len(wanted) * 1e6, "cpu us": cpu / len(wanted) * 1e6}

    def by_java() -> Cost:
        options = ("--count", str(count), "--percent", str(PERCENT))
        [row] = java.oracle(context, "coldbench", written.path, config, *options)
        return {"us": row["us_per_get"]}

    cases: dict[str, Case] = {"flintmq": partial(gets, spread), "java": by_java}
    found = measure(context, cases, before=lambda: cold(written.path))
    cached = measure(context, {"cached": partial(gets, again)}, warm=True)
    return {
        "P19.java": found.result(found["java us"] / found["flintmq us"]),
        "P19.cached": cached.result(cached["cached cpu us"]),
    }


def cold(path: Path) -> None:
    """Nothing of these files stays in the page cache."""
    for file in path.rglob("*"):
        if file.is_file():
            fd = os.open(file, os.O_RDONLY)
            try:
                os.fdatasync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(fd)


FAMILIES = {"P23": p23, "P24": p24, "P13": p13, "P19": p19}
