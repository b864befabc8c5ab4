"""Gives a table the target of its format, and imports no other one's."""

from __future__ import annotations

from flintmq.lake.files.table_folder import BucketFolder, TableFolder
from flintmq.lake.table.bucket_target import BucketTarget
from flintmq.lake.table.iceberg_catalog import TableName
from flintmq.lake.table.parquet_target import ParquetTarget
from flintmq.lake.table.target import Target


def target_at(folder: TableFolder, to: str, name: TableName) -> Target:
    if to == "delta":
        from flintmq.lake.table.delta import DeltaTarget

        return DeltaTarget(folder)
    if to == "iceberg":
        from flintmq.lake.table.iceberg import IcebergTarget

        return IcebergTarget(folder, name)
    return BucketTarget(folder) if isinstance(folder, BucketFolder) else ParquetTarget(folder)
