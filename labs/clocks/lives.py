"""Stores whose clock stepped: by a real RocketMQ under a clock of our own, or made byte by byte as such ones lie."""

from __future__ import annotations

import os
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

from flintmq.format import checkpoint, record
from flintmq.format.consume_queue import UNIT, Unit
from labs.interop.live import KEYS, LiveJava
from tests.interop.java import VERSIONS

SECOND, HOUR = 1000, 3_600_000
YEARS = 24 * 365 * 24 * HOUR
STEPS = {"-1 s": SECOND, "-20 s": 20 * SECOND, "-1 h": HOUR, "-8 h": 8 * HOUR, "2050 and back": YEARS}
FLUSHES = ("ASYNC_FLUSH", "SYNC_FLUSH")
STOPS = ("living", "stopped", "killed")
TOPICS, QUEUES = ("T0", "T1"), 2
FLUSHED_S = 2.5  # after so long the checkpoint holds the time of the last record
FAST = {"flushCommitLogThoroughInterval": 1000, "flushConsumeQueueThoroughInterval": 1000}  # 10 and 60 s else


class Life(NamedTuple):
    """One broker: version, flush mode, step of its clock, and how it ends."""

    version: str
    flush: str
    step: str
    stop: str


def lives() -> list[Life]:
    """All of them; neighbours differ in everything, so that a part of the run is a part of everything."""
    every = [Life(*one) for one in zip_all(VERSIONS, FLUSHES, STEPS, STOPS)]
    return [every[number * 37 % len(every)] for number in range(len(every))]


def zip_all(*parts: Iterator[str] | tuple[str, ...] | dict[str, int]) -> Iterator[tuple[str, ...]]:
    """Every combination."""
    first, *rest = parts
    for one in first:
        for others in zip_all(*rest) if rest else iter([()]):
            yield one, *others


@cache
def library() -> Path:
    """The clock, compiled."""
    folder = Path(tempfile.mkdtemp(prefix="flintmq-clock-"))
    source = Path(__file__).with_name("clock.c")
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", folder / "clock.so", source], check=True)
    return folder / "clock.so"


class Clock:
    """The wall clock of processes that are started within `given`."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "clock"
        self.ahead(0)

    def ahead(self, ms: int) -> None:
        """Set it, for those that run, too."""
        with self.file.open("r+b" if self.file.exists() else "wb") as file:
            file.write(struct.pack("=q", ms))

    @contextmanager
    def given(self) -> Iterator[None]:
        """Give it to processes that are started now."""
        more = {"LD_PRELOAD": str(library()), "FLINTMQ_CLOCK": str(self.file)}
        os.environ.update(more)
        try:
            yield
        finally:
            for name in more:
                del os.environ[name]


@contextmanager
def broker(life: Life, root: Path) -> Iterator[Path]:
    """A store in which a broker lived such a life; one that is "living" does until the end of the block."""
    clock, store = Clock(root), root / "store"
    back = STEPS[life.step]
    clock.ahead(back if back == YEARS else 0)
    with clock.given():
        java = LiveJava(life.version, store, flushDiskType=life.flush, **FAST)
    try:
        put(java, 0, 30)
        time.sleep(FLUSHED_S)
        clock.ahead(0 if back == YEARS else -back)
        put(java, 30, 30)
        if life.stop == "stopped":
            java("dispatch")
            java.stop()
        elif life.stop == "killed":
            java.kill()
        else:
            java("dispatch")
        yield store
    finally:
        java.kill()


def put(java: LiveJava, first: int, count: int) -> None:
    """Put messages; about 45 KiB, so that the log gets a second file, and 40 in a fourth of a file before a step."""
    for number in range(first, first + count):
        words = {"topic": TOPICS[number % 2], "queue": number // 2 % QUEUES, "tags": "a", "keys": f"k{number}"}
        done = java("put", body={"seed": number, "size": 700 + 40 * (number % 20)}, **words)
        assert done["status"] == "PUT_OK", done


# -- the same, byte by byte ------------------------------------------------------------------------------------------

NOW = 1_795_790_000_000


def make(root: Path, step: str, stop: str, files: int) -> None:
    """A store as RocketMQ leaves it after a step of its clock: the checkpoint keeps the time before.

    Args:
        files: of the log; the step is in the last one, or in the first of several.
    """
    data, sizes, places = [b""], KEYS["mappedFileSizeCommitLog"], {}
    for number in range(40 + 50 * (files - 1)):
        topic, queue_id = TOPICS[number % 2], number // 2 % QUEUES
        body = bytes([number % 251]) * (1000 + number)
        ahead = STEPS[step] if step == "2050 and back" else 0
        stored = NOW + number + (ahead if number < 20 else ahead - STEPS[step])
        begin = (len(data) - 1) * sizes + len(data[-1])
        one = record.Record(
            body_crc=record.crc(body), queue_id=queue_id, queue_offset=number // 4, physical_offset=begin,
            born_timestamp=stored, store_timestamp=stored, body=body, topic=topic.encode(),
            properties=b"KEYS\x01k%d\x02TAGS\x01a\x02" % number,
        )  # fmt: skip
        raw = record.encode(one)
        if len(data[-1]) + len(raw) + 8 > sizes:
            data[-1] += record.encode_blank(sizes - len(data[-1]))
            data.append(b"")
            raw = record.encode(one._replace(physical_offset=(len(data) - 1) * sizes))
            begin = (len(data) - 1) * sizes
        data[-1] += raw
        places.setdefault((topic, queue_id), []).append(UNIT.pack(Unit(begin, len(raw), ord("a"))))
    (root / "commitlog").mkdir(parents=True)
    for number, file in enumerate(data):
        (root / "commitlog" / f"{number * sizes:020d}").write_bytes(file.ljust(sizes, b"\0"))
    for (topic, queue_id), units in places.items():
        folder = root / "consumequeue" / topic / str(queue_id)
        folder.mkdir(parents=True)
        (folder / f"{0:020d}").write_bytes(b"".join(units).ljust(2000, b"\0"))
    before = NOW + 19 + (STEPS[step] if step == "2050 and back" else 0)
    known = checkpoint.Checkpoint(before, NOW + 39 - (0 if step == "2050 and back" else STEPS[step]))
    (root / "checkpoint").write_bytes(checkpoint.encode(known))
    if stop == "killed":
        (root / "abort").write_text("1")
