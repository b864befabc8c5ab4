"""S1, S2, S4: the Spark source to noop, against ready batches, against Parquet, and one column against all."""

from __future__ import annotations

import shutil
from typing import Any

from data import SIZES, sized
from harness import Context, Result, figures, measure
from ready_source import prepare
from spark_session import load, noop, session


def s1(context: Context) -> list[Result]:
    """All columns against the hand-over of the same batches, made ready beforehand."""
    spark, results = session(context), []
    for size in SIZES:
        written = sized(context, size)
        ready = context.scratch / f"ready-{size}"
        assert prepare(written.path, ready) == written.records
        samples = measure(
            context,
            {
                "ready": lambda ready=ready: noop(spark.read.format("ready").load(str(ready))),  # type: ignore[misc]
                "flintmq": lambda written=written: noop(load(spark, written.path, access="map")),  # type: ignore[misc]
            },
        )
        shutil.rmtree(ready)
        results.append(
            Result(
                f"S1.{size}",
                f"Spark source, all 21 columns, {size} bodies: speed / hand-over of ready batches",
                samples["ready"].wall / samples["flintmq"].wall,
                0.85,
                moonshot=0.95,
                bound="making the batches shares two cores with the JVM that takes them",
                detail=figures(samples),
            )
        )
    return results


def s2(context: Context) -> list[Result]:
    """All columns against Spark's own Parquet reader, not compressed and with snappy: the faster one counts."""
    spark, results = session(context), []
    for size, bar, moonshot in (("100B", 0.6, 0.9), ("1KB", 0.8, 1.1)):
        written = sized(context, size)
        cases: dict[str, Any] = {"flintmq": lambda written=written: noop(load(spark, written.path, access="map"))}
        for codec in ("none", "snappy"):
            parquet = context.scratch / f"parquet-{size}-{codec}"
            load(spark, written.path).write.option("compression", codec).parquet(str(parquet))
            cases[f"parquet {codec}"] = lambda parquet=parquet: noop(spark.read.parquet(str(parquet)))
        samples = measure(context, cases)
        peer = min(samples["parquet none"].wall, samples["parquet snappy"].wall)
        for codec in ("none", "snappy"):
            shutil.rmtree(context.scratch / f"parquet-{size}-{codec}")
        results.append(
            Result(
                f"S2.{size}",
                f"Spark source, all 21 columns, {size} bodies: speed / Spark's Parquet reader",
                peer / samples["flintmq"].wall,
                bar,
                moonshot=moonshot,
                bound="the way through the socket and into JVM rows, which Parquet does not go",
                detail=figures(samples),
            )
        )
    return results


def s4(context: Context) -> list[Result]:
    """One numeric column against all."""
    spark, results = session(context), []
    for size, bar in (("100B", 2.5), ("1KB", 3.5)):
        written = sized(context, size)
        samples = measure(
            context,
            {
                "all": lambda written=written: noop(load(spark, written.path)),  # type: ignore[misc]
                "one": lambda written=written: noop(load(spark, written.path, columns="queue_offset")),  # type: ignore[misc]
            },
        )
        results.append(
            Result(
                f"S4.{size}",
                f"one numeric column, {size} bodies: speed / all columns",
                samples["all"].wall / samples["one"].wall,
                bar,
                bound="validation of every record, and what a job costs",
                detail=figures(samples),
            )
        )
    return results


LINES = {"S1": s1, "S2": s2, "S4": s4}
