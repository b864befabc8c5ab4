"""The Spark session of a command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flintmq.cli.output import Output, Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def spark_job(name: str, master: str | None, out: Output) -> Iterator[tuple[SparkSession, Progress]]:
    """Open a session for one job; yield it and a function that takes progress.

    The session ends with the block, but for one that was running before it: who started that one stops it.
    """
    from flintmq.spark import session
    from flintmq.spark.session import running

    started = running() is None
    spark = session(f"flintmq {name}", master)
    try:
        with out.progress(name) as progress:
            yield spark, progress
    finally:
        if started:
            spark.stop()
