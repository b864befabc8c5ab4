"""Exports messages on Spark: the tasks of `lake/export/` as Spark tasks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Unpack

from flintmq.cluster.members import Stores
from flintmq.config.keys import StoreConfig
from flintmq.lake.export import export_once
from flintmq.lake.export import export_stream as streaming
from flintmq.lake.export.choices import ExportChoices
from flintmq.lake.export.export import Exported
from flintmq.spark.jobs.tasks import Progress, SparkWorkers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class StreamChoices(ExportChoices, total=False):
    """Declares the keywords of `export_stream`, with those of every export."""

    max_offsets: int | None
    max_bytes: int
    interval_s: float
    once: bool
    stop: threading.Event | None
    on_batch: Callable[[Exported], None] | None


def export(
    spark: SparkSession,
    root: Stores,
    out: str,
    config: StoreConfig | None = None,
    *,
    progress: Progress | None = None,
    **choices: Unpack[ExportChoices],
) -> Exported:
    """Write the store's messages to Parquet below a directory; a later call adds new messages.

    Args:
        spark: the session. Workers must see `root` and `out` under the same paths as the driver.
        root, out, config, progress, choices: as for export_once.export, which a later call may use as well.

    Raises:
        FlintError: as export_once.export; StoreError also if Spark gave up.
    """
    return export_once.export(root, out, config, workers=SparkWorkers(spark), progress=progress, **choices)


def export_stream(
    spark: SparkSession, root: Stores, out: str, config: StoreConfig | None = None, **choices: Unpack[StreamChoices]
) -> Exported:
    """Write the store's messages to Parquet below a directory, and continue with new ones.

    Args:
        spark: the session. Workers must see `root` and `out` under the same paths as the driver.
        root, out, config, choices: as for the `export_stream` of `lake/export/export_stream.py`.

    Raises:
        FlintError: as there; StoreError also if Spark gave up.
    """
    return streaming.export_stream(root, out, config, workers=SparkWorkers(spark), **choices)
