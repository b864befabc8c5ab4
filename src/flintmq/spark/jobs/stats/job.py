"""Counts a store's traffic on Spark: the tasks of `lake/stats/` as Spark tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flintmq.cluster.members import Stores
from flintmq.config.keys import StoreConfig
from flintmq.lake.stats import run
from flintmq.lake.stats.statistics import Statistics
from flintmq.spark.jobs.tasks import Progress, SparkWorkers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def stats(
    spark: SparkSession,
    root: Stores,
    out: str | None = None,
    config: StoreConfig | None = None,
    *,
    topics: Sequence[str] | None = None,
    since: int | None = None,
    until: int | None = None,
    compare: str | None = None,
    fail_on_data_loss: bool = True,
    access: str = "pread",
    progress: Progress | None = None,
) -> Statistics:
    """Count the messages of a store, and write a page about it.

    Args:
        spark: the session. Workers must see `root` under the same path as the driver.
        root, out, config, topics, since, until, compare, fail_on_data_loss, access, progress: as for the `stats` of
            `lake/stats/run.py`, whose figures these are.

    Raises:
        FlintError: as there; StoreError also if Spark gave up.
    """
    return run.stats(
        root,
        out,
        config,
        topics=topics,
        since=since,
        until=until,
        compare=compare,
        fail_on_data_loss=fail_on_data_loss,
        access=access,
        workers=SparkWorkers(spark),
        progress=progress,
    )
