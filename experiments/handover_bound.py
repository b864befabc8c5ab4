"""What bounds S1 and S2: the Python side of Spark's hand-over, without Spark.

    python experiments/handover_bound.py STORE [ROUNDS]

A task of a Python source writes its batches as an Arrow stream into a socket. Here another process takes and drops
them. Cases take turns; printed are least wall clock and processor time of the writing process in ns a record:

    ready 1 MiB       batches made beforehand, mapped from a file: what the source `ready` of the bench does
    flintmq 1 MiB     batches as the source makes them, of several sizes
    ahead 1 MiB       the same, made on a thread of their own, two ahead of the socket: wall clock is what could gain
"""

from __future__ import annotations

import os
import queue
import resource
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from flintmq.lake.options import ReadOptions
from flintmq.lake.scan import plan_scan, scan_range
from flintmq.lake.splits import equal_ranges

from flintmq.arrow.schema import SPARK_SCHEMA
from flintmq.store.commitlog.report import Report

Batches = Iterator[pa.RecordBatch]


def scan(store: str, batch_bytes: int) -> Batches:
    plan = plan_scan(ReadOptions(path=store, access="map"), Report())
    for part in equal_ranges(plan.log, plan.begin, plan.end, 2):
        yield from scan_range(plan, part, SPARK_SCHEMA, Report(), batch_bytes)


def ready(path: Path) -> Batches:
    with pa.memory_map(str(path)) as mapped:
        batches = pa.ipc.open_file(mapped)
        for number in range(batches.num_record_batches):
            yield batches.get_batch(number)


def ahead(batches: Batches) -> Batches:
    waiting: queue.Queue[pa.RecordBatch | None] = queue.Queue(2)

    def fill() -> None:
        for batch in batches:
            waiting.put(batch)
        waiting.put(None)

    threading.Thread(target=fill, daemon=True).start()
    while (batch := waiting.get()) is not None:
        yield batch


def hand_over(batches: Batches) -> tuple[int, float, float]:
    """Write batches to a process that drops them: rows, and wall clock and processor time of this process in s."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if not child:
        ours.close()
        buffer = bytearray(1 << 20)
        while theirs.recv_into(buffer):
            pass
        os._exit(0)
    theirs.close()
    used, began, rows = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter(), 0
    with ours, ours.makefile("wb", 65536) as sink, pa.ipc.new_stream(sink, SPARK_SCHEMA) as stream:
        for batch in batches:
            stream.write_batch(batch)
            rows += batch.num_rows
    wall, now = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    os.waitpid(child, 0)
    return rows, wall, now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime


def main() -> None:
    store, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(store))) as scratch:
        made = Path(scratch, "ready.arrow")
        with pa.ipc.new_file(str(made), SPARK_SCHEMA) as file:
            for batch in scan(store, 1 << 20):
                file.write_batch(batch)
        cases: dict[str, Callable[[], Batches]] = {"ready 1 MiB": lambda: ready(made)}
        for kib in (256, 512, 1024, 2048, 4096):
            cases[f"flintmq {kib} KiB"] = lambda size=kib << 10: scan(store, size)  # type: ignore[misc]
        cases["ahead 1 MiB"] = lambda: ahead(scan(store, 1 << 20))
        least: dict[str, tuple[float, float]] = dict.fromkeys(cases, (9e9, 9e9))
        for _ in range(rounds):
            for name, case in cases.items():
                rows, wall, cpu = hand_over(case())
                least[name] = min(least[name][0], wall / rows * 1e9), min(least[name][1], cpu / rows * 1e9)
    for name, (wall_ns, cpu_ns) in least.items():
        print(f"{name:16} {wall_ns:6.0f} ns wall, {cpu_ns:6.0f} ns processor a record")


if __name__ == "__main__":
    main()
