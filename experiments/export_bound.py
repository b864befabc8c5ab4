"""What bounds `flintmq export` to Parquet (line C3): python experiments/export_bound.py [MIB [ROUNDS]].

The kernel of an export is Parquet's writer. Here it gets ready Arrow batches, which lie in a mapped file, with the
settings of an export and an fsync of each file; nothing of FlintMQ is around it. Two threads of one process, and two
processes, each take half of the files. Beside it: the scan of the export's tasks without a writer, and the export.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from flintmq.lake.export_once import export
from flintmq.lake.members import plans_of
from flintmq.lake.options import ReadOptions
from flintmq.lake.parquet import PartitionedWriter
from flintmq.lake.scan import scan_range
from flintmq.lake.splits import shares, split_count
from flintmq.lake.workers import Threads

from flintmq.arrow.schema import SPARK_SCHEMA
from flintmq.lake.export import SCAN_BYTES
from flintmq.store.commitlog.report import Report
from flintmq.testing import write_store

HANDS = 2


def settings(folder: str) -> dict[str, Any]:
    """Those of an export's files."""
    writer = PartitionedWriter(folder, SPARK_SCHEMA)
    writer.close()
    return writer._settings


def tasks(store: Path) -> list[Callable[[], Any]]:
    """The scans of an export's tasks: batches of one topic each."""
    ((_, plan),) = plans_of(ReadOptions(path=str(store)), Report())
    parts = shares(plan.log, plan.begin, plan.end, split_count(plan.end - plan.begin, HANDS))
    return [lambda part=part: scan_range(plan, part, SPARK_SCHEMA, Report(), SCAN_BYTES, apart=True) for part in parts]


def prepare(store: Path, folder: Path) -> list[Path]:
    """An IPC file for each file of an export, with its batches."""
    made = []
    for number, scan in enumerate(tasks(store)):
        topics: dict[str, list[pa.RecordBatch]] = {}
        for batch in scan():
            topics.setdefault(batch.column("topic")[0].as_py(), []).append(batch)
        for topic, batches in topics.items():
            made.append(folder / f"{number:03d}-{topic}.arrow")
            with pa.ipc.new_file(str(made[-1]), SPARK_SCHEMA) as file:
                for batch in batches:
                    file.write_batch(batch)
    return made


def write(sources: list[Path], out: Path, given: dict[str, Any]) -> None:
    """Write each source as one Parquet file of one row group, and sync it."""
    for source in sources:
        with pa.memory_map(str(source)) as mapped:
            table = pa.ipc.open_file(mapped).read_all()
            target = out / source.with_suffix(".parquet").name
            with pq.ParquetWriter(str(target), table.schema, **given) as writer:
                writer.write_table(table, row_group_size=table.num_rows)
        fd = os.open(target, os.O_RDWR)
        os.fsync(fd)
        os.close(fd)


def serve(work: Any, sources: list[Path], out: Path, given: dict[str, Any]) -> None:
    """Write whenever it is told to, and answer with the processor time; the process is started before."""
    while work.recv():
        began = time.process_time()
        write(sources, out, given)
        work.send(time.process_time() - began)


def main() -> None:
    """Print medians of interleaved rounds."""
    mib, rounds = (int(sys.argv[at]) if len(sys.argv) > at else default for at, default in ((1, 1024), (2, 5)))
    with tempfile.TemporaryDirectory(prefix="flintmq-bound-") as name:
        folder = Path(name)
        store, out, ready = folder / "store", folder / "out", folder / "ready"
        ready.mkdir()
        write_store(store, (mib << 20) // 1200, body_bytes=1024, bodies="random")
        scans, sources, given = tasks(store), prepare(store, ready), settings(name)
        halves = [sources[hand::HANDS] for hand in range(HANDS)]
        spawned = multiprocessing.get_context("spawn")
        pipes = [spawned.Pipe() for _ in halves]
        for (_, theirs), half in zip(pipes, halves, strict=True):
            spawned.Process(target=serve, args=(theirs, half, out, given), daemon=True).start()
        threads = ThreadPoolExecutor(HANDS)

        def on_threads() -> float:
            list(threads.map(lambda half: write(half, out, given), halves))
            return 0.0

        def on_processes() -> float:
            for ours, _ in pipes:
                ours.send(True)
            return float(sum(ours.recv() for ours, _ in pipes))

        def scanned() -> float:
            list(threads.map(lambda scan: [None for _ in scan()], scans))
            return 0.0

        def exported() -> float:
            export(store, str(out), workers=Threads(HANDS))
            return 0.0

        cases = {"kernel, two threads": on_threads, "kernel, two processes": on_processes,
                 "scan, two threads": scanned, "export, two threads": exported}  # fmt: skip
        found: dict[str, list[tuple[float, float]]] = {what: [] for what in cases}
        for number in range(-1, rounds):
            for what in [*cases][number % len(cases) :] + [*cases][: number % len(cases)]:
                shutil.rmtree(out, ignore_errors=True)
                out.mkdir()
                os.sync()
                wall, cpu = time.perf_counter(), time.process_time()
                elsewhere = cases[what]()
                if number >= 0:
                    found[what].append((time.perf_counter() - wall, time.process_time() - cpu + elsewhere))
        for ours, _ in pipes:
            ours.send(False)
        for what, times in found.items():
            walls, cpus = zip(*times, strict=True)
            print(
                f"{what:22s} {statistics.median(walls):.2f} s wall, {statistics.median(cpus):.2f} s of processor time"
            )


if __name__ == "__main__":
    main()
