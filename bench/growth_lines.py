"""S10, S11, S12: streams beside a writer at full speed, jobs in Arrow and through DataFrames, and logs that grow.

No bars: the figures are the result.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from data import log_bytes, sized
from harness import Context, Result, figures, measure
from spark_session import load, session
from stream_lines import grown

BODY = 1024
STREAM_BYTES = 64 << 20  # of a micro-batch of the stream source
JSON_SCHEMA = "id long, total double, name string, tags array<string>"
JSON_ROWS = 400  # a MiB of log, about
ROUNDS_OF_GROWTH = 2
WHAT = {"read": "batch read of four columns", "export": "export", "stream": "export --stream --once"}

# The writer: as many puts as go in, its count in a file of eight bytes. Ends after so many messages.
WRITER = """
import mmap, sys, time
from flintmq import Message, MessageStore
root, counter, messages, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with open(counter, "r+b") as file, MessageStore(root, unique_keys=False) as store:
    told = memoryview(mmap.mmap(file.fileno(), 8)).cast("q")
    body, put = bytes(range(256)) * (size // 256), store.put
    began = time.perf_counter()
    for number in range(messages):
        put(Message("Orders", body, queue_id=number & 7, keys="k%d" % number, tags="paid"))
        told[0] = number + 1
    print(time.perf_counter() - began)
"""


@dataclass
class Watched:
    """What was seen of a stream: of each micro-batch its rows, its seconds, and the lag in messages behind it."""

    rows: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    lags: list[int] = field(default_factory=list)


def beside_a_writer(context: Context, name: str, follow: Callable[[Path, Path, int, Watched], None]) -> Result:
    """Run a stream from the writer's first message to its last, and tell how it kept up."""
    root, counter = context.scratch / f"s10-{name}", context.scratch / f"s10-{name}.count"
    messages = max(20_000, (context.mib << 20) // BODY)
    counter.write_bytes(bytes(8))
    words = [sys.executable, "-c", WRITER, str(root), str(counter), str(messages), str(BODY)]
    seen, began = Watched(), time.perf_counter()
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as writer:
        try:
            while not written(counter) and writer.poll() is None:
                time.sleep(0.01)
            began = time.perf_counter()
            follow(root, counter, messages, seen)
            took = time.perf_counter() - began
            assert writer.stdout is not None
            writing = float(writer.stdout.read())
        finally:
            writer.kill()
    shutil.rmtree(root)
    assert sum(seen.rows) == messages, (sum(seen.rows), messages)
    detail = {
        "messages": messages,
        "puts a second": round(messages / writing),
        "rows a second": round(messages / took),
        "micro-batches": len(seen.rows),
        "trigger": round(statistics.median(seen.seconds), 3),
        "longest trigger": round(max(seen.seconds), 3),
        "most lag, messages": max(seen.lags),
        "lag at the end of writing, s": round(took - writing, 2),
    }
    return Result(
        f"S10.{name}",
        f"{name} beside a writer at full speed, {BODY} B bodies: rows a second / puts a second",
        writing / took,
        bound="writer, stream and the JVM share the processors",
        detail=detail,
    )


def written(counter: Path) -> int:
    """How many messages the writer has put."""
    return int.from_bytes(counter.read_bytes(), sys.byteorder)


def s10(context: Context) -> list[Result]:
    """The stream source into a sink that throws rows away, and the streaming export to Parquet and to Delta."""
    from flintmq.spark.jobs.export.job import export_stream

    spark = session(context)

    def source(root: Path, counter: Path, messages: int, seen: Watched) -> None:
        frame = spark.readStream.format("flintmq").option("maxBytesPerTrigger", str(STREAM_BYTES)).load(str(root))
        checkpoint = context.scratch / "s10-checkpoint"
        query = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
        done: set[int] = set()
        while sum(seen.rows) < messages:
            time.sleep(0.02)
            if query.exception() is not None:
                raise query.exception()
            for one in query.recentProgress:
                if one["numInputRows"] and one["batchId"] not in done:
                    done.add(one["batchId"])
                    seen.rows.append(one["numInputRows"])
                    seen.seconds.append(one["durationMs"]["triggerExecution"] / 1000)
                    seen.lags.append(json.loads(one["sources"][0]["latestOffset"])["lagMessages"])
        query.stop()
        shutil.rmtree(checkpoint)

    def export(to: str) -> Callable[[Path, Path, int, Watched], None]:
        def follow(root: Path, counter: Path, messages: int, seen: Watched) -> None:
            stop, out, last = threading.Event(), context.scratch / "s10-out", [time.perf_counter()]

            def on_batch(done: Any) -> None:
                now = time.perf_counter()
                seen.rows.append(done.rows)
                seen.seconds.append(now - last[0])
                seen.lags.append(written(counter) - sum(seen.rows))
                last[0] = now
                if sum(seen.rows) >= messages:
                    stop.set()

            export_stream(spark, str(root), str(out), to=to, interval_s=0.05, stop=stop, on_batch=on_batch)
            shutil.rmtree(out)

        return follow

    streams = {"source": source, "parquet": export("parquet"), "delta": export("delta")}
    return [beside_a_writer(context, name, follow) for name, follow in streams.items()]


def s11(context: Context) -> list[Result]:
    """The same files by topic and date, with bodies as they are and as JSON, by the job and by Spark's own writer."""
    from pyspark.sql import functions as f

    from flintmq.spark.jobs.export.job import export

    spark, out = session(context), context.scratch / "s11"
    plain, orders = sized(context, "1KB").path, context.scratch / "s11-json"
    write_orders(orders, JSON_ROWS * context.mib)

    def frame(path: Path, parse: bool) -> None:
        rows = load(spark, path, access="map", decompress="true" if parse else "false")
        if parse:
            rows = rows.withColumn("body", f.from_json(f.col("body").cast("string"), JSON_SCHEMA))
        day = f.to_date("store_timestamp")
        parted = rows.withColumn("topic_name", f.col("topic")).withColumn("date", day)
        parted.write.partitionBy("topic_name", "date").parquet(str(out))

    def job(path: Path, parse: bool) -> None:
        named: dict[str, Any] = {"body": "json", "body_schema": JSON_SCHEMA} if parse else {}
        assert not export(spark, str(path), str(out), access="map", **named).bad_bodies

    results = []
    for name, path, parse in (("1KB", plain, False), ("json", orders, True)):
        samples = measure(
            context,
            {
                "DataFrame": lambda path=path, parse=parse: frame(path, parse),  # type: ignore[misc]
                "job": lambda path=path, parse=parse: job(path, parse),  # type: ignore[misc]
            },
            before=lambda: shutil.rmtree(out, ignore_errors=True),
        )
        what = "bodies parsed as JSON" if parse else "1KB bodies"
        results.append(
            Result(
                f"S11.{name}",
                f"export by topic and date, {what}: speed / df.write.partitionBy of the same source",
                samples["DataFrame"].wall / samples["job"].wall,
                bound="Python's JSON parser" if parse else "Parquet's encoding, and writing the files",
                detail=figures(samples),
            )
        )
    for path in (out, orders):
        shutil.rmtree(path, ignore_errors=True)
    return results


def write_orders(path: Path, count: int) -> None:
    """A store of JSON bodies."""
    from flintmq import Message, MessageStore

    with MessageStore(path, unique_keys=False) as store:
        for n in range(count):
            order = {"id": n, "total": n / 8, "name": f"order {n}" + "." * (n % 300), "tags": ["a", "b"][: n % 3]}
            store.put(Message("Orders", json.dumps(order).encode(), queue_id=n & 7))


def s12(context: Context) -> list[Result]:
    """The same job on a log and on one of seven times its size: bytes a second."""
    from flintmq.spark.jobs.export.job import export, export_stream

    spark, stores, out = session(context), grown(context), context.scratch / "s12"
    columns = "topic,queue_id,queue_offset,size"
    jobs: dict[str, Callable[[str], Any]] = {
        "read": lambda path: load(spark, path, columns=columns).agg({"size": "sum"}).collect(),
        "export": lambda path: export(spark, path, str(out)),
        "stream": lambda path: export_stream(spark, path, str(out), once=True),
    }
    few = replace(context, rounds=min(context.rounds, ROUNDS_OF_GROWTH))
    results = []
    for name, job in jobs.items():
        samples = measure(
            few,
            {size: lambda job=job, written=written: job(str(written.path)) for size, written in stores.items()},  # type: ignore[misc]
            warm=False,
            before=lambda: shutil.rmtree(out, ignore_errors=True),
        )
        rates = {size: log_bytes(written) / samples[size].wall for size, written in stores.items()}
        results.append(
            Result(
                f"S12.{name}",
                f"{WHAT[name]}, 1 KB bodies: MB/s with 7 times the log / with the log",
                rates["large"] / rates["small"],
                bound="starting a job weighs less with a larger log; the disk takes what the page cache does not hold",
                detail=figures(samples)
                | {f"{size} log, MB": log_bytes(written) // 10**6 for size, written in stores.items()}
                | {f"{size}, MB/s": round(rate / 1e6, 1) for size, rate in rates.items()},
            )
        )
    shutil.rmtree(out, ignore_errors=True)
    return results


LINES = {"S10": s10, "S11": s11, "S12": s12}
