"""S7 and S9: what a micro-batch with little to do costs, and what planning costs when the log grows."""

from __future__ import annotations

import shutil
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

from bare_stream import BareSource, write_bare
from data import OVERHEAD, store
from harness import Context, Result, figures, measure
from spark_session import session

from flintmq.spark.source import FlintMQSource
from flintmq.testing import Written, write_store

QUEUES, BATCHES = 8, 20
ROUNDS = 4  # times as many as of other lines
PLAN_BYTES = 8 << 20  # of a planned micro-batch
SMALL, LARGE = 1.5, 10.5  # times --mib of log: the last file is half full in both

KINDS = {"batch": "batch read", "micro": "micro-batch"}


def s7(context: Context) -> list[Result]:
    """Micro-batches of one message a queue, against a source that hands over as many ready rows in one partition."""
    spark = session(context)
    path, ready = context.scratch / "s7", context.scratch / "s7-ready"
    write_store(path, QUEUES * (BATCHES + 2), topics=2, queues=QUEUES // 2, body_bytes=100)
    write_bare(path, ready)
    spark.dataSource.register(BareSource)
    times: dict[str, list[float]] = {"bare": [], "flintmq": []}
    for number in range(context.rounds):
        for name in list(times)[:: 1 if number % 2 else -1]:
            folder = path if name == "flintmq" else ready
            times[name].append(micro_batch(spark, name, folder, context.scratch / "s7-checkpoint"))
    seconds = {name: statistics.median(found) for name, found in times.items()}
    return [
        Result(
            "S7",
            f"micro-batch over {QUEUES} queues with little to do: time / bare one-partition Python source",
            seconds["flintmq"] / seconds["bare"],
            1.2,
            at_most=True,
            moonshot=1.05,
            bound="Spark's write-ahead log, commit log and the Python task, which both pay",
            detail={name: round(found, 4) for name, found in seconds.items()},
        )
    ]


def micro_batch(spark: Any, source: str, path: Path, checkpoint: Path) -> float:
    """Median seconds of the micro-batches of one query, the first two left out."""
    shutil.rmtree(checkpoint, ignore_errors=True)
    frame = spark.readStream.format(source).option("maxOffsetsPerTrigger", QUEUES).load(str(path))
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    progress = [one for one in query.recentProgress if one["numInputRows"]]
    assert len(progress) >= BATCHES, f"{len(progress)} micro-batches"
    millis: float = statistics.median(one["durationMs"]["triggerExecution"] for one in progress[2:])
    return millis / 1000


def s9(context: Context) -> list[Result]:
    """Planning of a batch read, and of a micro-batch in a query that runs."""
    planners = {name: Planner(written.path) for name, written in grown(context).items()}
    results = []
    often = replace(context, rounds=ROUNDS * context.rounds)  # planning takes milliseconds: other load shows
    for kind in KINDS:
        samples = measure(often, {name: getattr(planner, kind) for name, planner in planners.items()})
        results.append(
            Result(
                f"S9.{kind}",
                f"planning a {KINDS[kind]}: time with 7 times the log / with the log",
                samples["large"].wall / samples["small"].wall,
                1.2,
                at_most=True,
                moonshot=1.05,
                bound="a batch read walks the last file to find the log's end; a micro-batch bisects in the queues",
                detail=figures(samples) | {"MiB": int(LARGE * context.mib), "record": 1024 + OVERHEAD},
            )
        )
    return results


def grown(context: Context) -> dict[str, Written]:
    """A log of 1 KB bodies, and one of seven times its size; made once for all lines that ask."""
    config = {"mappedFileSizeCommitLog": context.mib << 20}
    return {
        name: store(context, f"s9-{name}", 1024, int(times * context.mib), config=config)
        for name, times in (("small", SMALL), ("large", LARGE))
    }


class Planner:
    """Plans reads of one store, as Spark's planner does."""

    def __init__(self, path: Path) -> None:
        self.source = FlintMQSource({"path": str(path)})
        self.schema = self.source.schema()
        self.stream = FlintMQSource({"path": str(path), "maxBytesPerTrigger": str(PLAN_BYTES)}).streamReader(
            self.schema
        )
        self.start = self.stream.initialOffset()
        self.limit = self.stream.getDefaultReadLimit()

    def batch(self) -> None:
        assert self.source.reader(self.schema).partitions()

    def micro(self) -> None:
        for _ in range(10):
            end = self.stream.latestOffset(self.start, self.limit)
            assert self.stream.partitions(self.start, end)


LINES = {"S7": s7, "S9": s9}
