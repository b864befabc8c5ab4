"""Growth: the same read of a log of 1 and of 10 GB, from a disk and from object storage.

    python bench/scale.py [GB ...] [--write]    1 and 10 by default; --write puts the table into docs/spark/scale.md

What is measured of each size: planning (seconds, requests, bytes fetched), and a pass over two columns by Spark on this
machine, from the directory and from a server on this machine that serves it. The server takes part of the processor
time, so seconds from object storage are an upper bound, and nothing of a network is in them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flintmq.lake.read.options import ReadOptions
from flintmq.lake.read.scan import plan_scan
from flintmq.lake.read.splits import cores, shares, split_count
from flintmq.spark import session
from flintmq.store.commitlog.report import Report
from flintmq.testing import Written, write_store

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "spark" / "scale.md"
BEGIN, END = "<!-- measured: python bench/scale.py --write -->", "<!-- end -->"
BODY, OVERHEAD = 1024, 176
HEAD = """
| log | files | tasks | planning | requests | fetched | pass, disk | pass, object storage | requests | each brings |
|---|---|---|---|---|---|---|---|---|---|
"""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The endpoint of a server for a directory."""
    command = [sys.executable, str(HERE / "folder_server.py"), str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.stdin.close()


def counted(endpoint: str) -> tuple[int, int]:
    """Requests and bytes since the last call."""
    with urllib.request.urlopen(f"{endpoint}/_count", data=b"", timeout=30) as answer:
        requests, fetched = json.load(answer)
    return requests, fetched


def a_pass(spark: Any, path: str, options: dict[str, str]) -> float:
    """Seconds of a sum over the store."""
    frame = spark.read.format("flintmq").options(**options).option("columns", "size,queue_id").load(path)
    began = time.perf_counter()
    frame.selectExpr("count(*)", "sum(size)", "max(queue_id)").collect()
    return time.perf_counter() - began


def line(spark: Any, written: Written, endpoint: str) -> str:
    """A row of the table."""
    keys = {"s3.endpoint": endpoint, "s3.anonymous": "true"}
    url = f"s3://bench/{written.path.name}"
    options = ReadOptions(url, config=written.config.with_keys(keys))
    counted(endpoint)
    began = time.perf_counter()
    plan = plan_scan(options, Report())
    parts = shares(plan.log, plan.begin, plan.end, split_count(plan.end - plan.begin, cores()))
    planning = time.perf_counter() - began
    requests, fetched = counted(endpoint)
    assert plan.end == written.max_offset
    near = min(a_pass(spark, str(written.path), {}) for _ in range(2))
    counted(endpoint)
    far = a_pass(spark, url, {**keys, **{name: str(value) for name, value in written.keys.items()}})
    reading, brought = counted(endpoint)
    size = plan.end - plan.begin
    return (
        f"| {size / 1e9:.1f} GB | {len(plan.log.files)} | {len(parts)} | {planning * 1000:.0f} ms | {requests} "
        f"| {fetched / 1024:.0f} KiB | {near:.1f} s, {size / near / 1e6:.0f} MB/s "
        f"| {far:.1f} s, {size / far / 1e6:.0f} MB/s | {reading} | {brought / reading / 2**20:.1f} MiB |"
    )


def main(words: list[str]) -> None:
    """Measure, and print or write the table."""
    sizes = [float(word) for word in words if not word.startswith("-")] or [1.0, 10.0]
    rows = []
    with tempfile.TemporaryDirectory(prefix="flintmq-scale-") as scratch, served(Path(scratch)) as endpoint:
        spark = session("flintmq scale", "local[2]", **{"spark.driver.memory": "2g"})
        try:
            for size in sizes:
                path = Path(scratch) / f"{size:g}"
                written = write_store(path, int(size * 1e9 / (BODY + OVERHEAD)), body_bytes=BODY, bodies="random")
                rows.append(line(spark, written, endpoint))
                print(rows[-1], file=sys.stderr)
                subprocess.run(["rm", "-rf", str(path)], check=True)
        finally:
            spark.stop()
    machine = f"Of one machine with {os.cpu_count()} processors, bodies of {BODY} bytes, the log in the page cache."
    table = f"{machine}\n{HEAD}" + "\n".join(rows)
    print(table)
    if "--write" in words:
        text = PAGE.read_text(encoding="utf-8")
        before, rest = text.split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
