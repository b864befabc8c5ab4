"""Exports new messages on Spark: the tasks of lake/export/export_once.py as Spark tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from flintmq.cluster.members import Stores
from flintmq.config.keys import StoreConfig
from flintmq.lake.export import export_once
from flintmq.lake.export.choices import ExportChoices
from flintmq.lake.export.export import Exported
from flintmq.spark.jobs.tasks import Progress, SparkWorkers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
