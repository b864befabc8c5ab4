"""S6: a group-by over four columns in DuckDB or Polars on the scan, against Spark, warm and with start-up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from data import SIZES, sized
from engine_sums import NUMBERS, duckdb_sum, polars_sum
from harness import Context, Result, figures, measure
from spark_session import load, session

FOLDER = str(Path(__file__).resolve().parent)
SPARK_SCRIPT = """
import sys
from flintmq.spark import session
sys.path.insert(0, sys.argv[1])
from engine_lines import spark_sum
spark_sum(session("start", master="local[2]"), sys.argv[2])
"""
LOCAL_SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import engine_sums
getattr(engine_sums, sys.argv[3])(sys.argv[2], "map")
"""


def spark_sum(spark: Any, path: Any) -> Any:
    """The same aggregate on Spark, of these four columns alone; both map the files, which is faster for both."""
    from pyspark.sql import functions as f

    frame = load(spark, path, columns=",".join(NUMBERS), access="map")
    grouped = frame.groupBy("queue_id").agg(
        f.count("*"), f.sum("queue_offset"), f.sum("size"), f.max("store_timestamp")
    )
    return grouped.collect()


def s6(context: Context) -> list[Result]:
    """Warm: within running processes. Start: a process of its own each, from nothing to the answer."""
    spark, results = session(context), []
    for size in SIZES:
        written = sized(context, size)
        path = str(written.path)

        def process(script: str, *words: str, path: str = path) -> None:
            subprocess.run([sys.executable, "-c", script, FOLDER, path, *words], check=True, capture_output=True)

        warm = measure(
            context,
            {
                "spark": lambda path=path: spark_sum(spark, path),  # type: ignore[misc]
                "duckdb": lambda path=path: duckdb_sum(path, "map"),  # type: ignore[misc]
                "polars": lambda path=path: polars_sum(path, "map"),  # type: ignore[misc]
            },
        )
        start = measure(
            context,
            {
                "spark": lambda: process(SPARK_SCRIPT),
                "duckdb": lambda: process(LOCAL_SCRIPT, "duckdb_sum"),
                "polars": lambda: process(LOCAL_SCRIPT, "polars_sum"),
            },
        )
        for name, samples, bar, moonshot in (("warm", warm, 3.0, 6.0), ("start", start, 20.0, 40.0)):
            best = min(("duckdb", "polars"), key=lambda engine: samples[engine].wall)
            results.append(
                Result(
                    f"S6.{name}.{size}",
                    f"group-by over 4 columns on the scan in {best}, {size} bodies: speed / {name} Spark",
                    samples["spark"].wall / samples[best].wall,
                    bar,
                    moonshot=moonshot,
                    bound="validation of every record" if name == "warm" else "the scan; Spark's start is seconds",
                    detail=figures(samples),
                )
            )
    return results


LINES = {"S6": s6}
