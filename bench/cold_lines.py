"""P19: random gets of 4 KiB messages by queue offset from a cold cache, with Java's store and fio's random reads."""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import java
from data import store
from harness import Context, Result, Unavailable

from flintmq import MessageStore, open_store

BODY = 4096 - 176
FILE = 64 << 20
PERCENT = 60  # of each queue, and of the log


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


def p19(context: Context) -> list[Result]:
    """Files of 64 MiB, of which both sides read but the last few when they start; gets lie in those before."""
    if not shutil.which("fio"):
        raise Unavailable("fio is missing; make debian installs it")
    java.home(context)
    written = store(context, "cold", BODY, commit_log_file_size=FILE)
    with open_store(written.path) as view:
        queues = [(q.topic, q.queue_id, q.max_offset * PERCENT // 100) for q in view.queues()]
    count, config = 300 if context.quick else 3000, {"mappedFileSizeCommitLog": FILE}
    cases: dict[str, Callable[[], float]] = {
        "flintmq": lambda: ours(written.path, config, queues, count),
        "java": lambda: java.oracle(
            context, "coldbench", written.path, config, "--count", str(count), "--percent", str(PERCENT)
        )[0]["us_per_get"],
        "fio": lambda: fio(written.path, count),
    }
    found: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(context.rounds):
        for name in list(cases)[number % 3 :] + list(cases)[: number % 3]:
            cold(written.path)
            found[name].append(cases[name]())
    micros = {name: statistics.median(values) for name, values in found.items()}
    detail = {f"{name} us": round(value, 1) for name, value in micros.items()}
    what = "random get of a 4 KiB message by queue offset, cold cache: "
    bound = "one read of the disk for the message, now and then one for its unit"
    own = micros["flintmq"]
    found_cached = statistics.median(cached(written.path, config, queues, 10 * count) for _ in range(context.rounds))
    return [
        Result("P19.java", what + "Java's time / ours", micros["java"] / own, 1.3, bound=bound, detail=detail),
        Result("P19.cached", "processor microseconds of a get of a 4 KiB message that is cached", found_cached, 2.5,
               True, 1.5, "bytes, checks and an object"),
        Result("P19.fio", what + "fio's random read of 4 KiB, one at a time / ours", micros["fio"] / own, 0.8,
               moonshot=0.95, bound=bound, detail=detail),
    ]  # fmt: skip


def ours(path: Path, config: dict[str, int], queues: list[tuple[str, int, int]], count: int) -> float:
    """Microseconds a get."""
    chance = random.Random(19)
    wanted = [(t, q, chance.randrange(end)) for t, q, end in chance.choices(queues, k=count)]
    with MessageStore(path, config, unique_keys=False) as store:
        began = time.perf_counter()
        for topic, queue_id, offset in wanted:
            [message] = store.get(topic, queue_id, offset, 1).messages
            assert len(message.body) == BODY
        return (time.perf_counter() - began) / count * 1e6


def cached(path: Path, config: dict[str, int], queues: list[tuple[str, int, int]], count: int) -> float:
    """Processor microseconds of a get of a message that was got before."""
    topic, queue_id, end = queues[0]
    chance = random.Random(19)
    wanted = [chance.randrange(end) for _ in range(64)]
    with MessageStore(path, config, unique_keys=False) as store:
        for offset in wanted:
            store.get(topic, queue_id, offset, 1)
        began = time.process_time()
        for number in range(count):
            store.get(topic, queue_id, wanted[number % 64], 1)
        return (time.process_time() - began) / count * 1e6


def fio(path: Path, count: int) -> float:
    """Microseconds a read of 4 KiB with pread, in the same part of the log."""
    files = sorted((path / "commitlog").iterdir())
    names = ":".join(str(file) for file in files[: len(files) * PERCENT // 100])
    words = ["fio", "--name=cold", f"--filename={names}", "--readonly", "--rw=randread", "--bs=4k", "--iodepth=1",
             "--ioengine=psync", f"--number_ios={count}", "--invalidate=1", "--output-format=json"]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)["jobs"][0]["read"]["clat_ns"]["mean"] / 1000)


LINES = {"P19": p19}
