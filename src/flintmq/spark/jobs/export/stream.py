"""Exports a live store on Spark: the tasks of lake/export/export_stream.py as Spark tasks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Unpack

from flintmq.cluster.members import Stores
from flintmq.config.keys import StoreConfig
from flintmq.lake.export import export_stream as local
from flintmq.lake.export.choices import ExportChoices
from flintmq.lake.export.export import Exported
from flintmq.lake.export.export_stream import INTERVAL_S, MAX_BYTES
from flintmq.spark.jobs.tasks import SparkWorkers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def export_stream(
    spark: SparkSession,
    root: Stores,
    out: str,
    config: StoreConfig | None = None,
    *,
    max_offsets: int | None = None,
    max_bytes: int = MAX_BYTES,
    interval_s: float = INTERVAL_S,
    once: bool = False,
    stop: threading.Event | None = None,
    on_batch: Callable[[Exported], None] | None = None,
    **choices: Unpack[ExportChoices],
) -> Exported:
    """Write the store's messages to Parquet below a directory, and continue with new ones.

    Args:
        spark: the session. Workers must see `root` and `out` under the same paths as the driver.
        root, out, config, max_offsets, max_bytes, interval_s, once, stop, on_batch, choices: as for
            export_stream.export_stream.

    Raises:
        FlintError: as export_stream.export_stream; StoreError also if Spark gave up.
    """
    return local.export_stream(
        root,
        out,
        config,
        workers=SparkWorkers(spark),
        max_offsets=max_offsets,
        max_bytes=max_bytes,
        interval_s=interval_s,
        once=once,
        stop=stop,
        on_batch=on_batch,
        **choices,
    )
