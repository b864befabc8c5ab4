"""The two ways of exporting, for tests of both."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flintmq.lake.export.export import Exported
from flintmq.lake.export.export_once import export
from flintmq.lake.export.export_stream import export_stream

Export = Callable[..., Exported]


def once(root: Any, out: Path, **choices: Any) -> Exported:
    """Export as a stream does, up to the present end."""
    return export_stream(root, str(out), once=True, **choices)


def whole(root: Any, out: Path, **choices: Any) -> Exported:
    """Export in one pass."""
    return export(root, str(out), **choices)


def iceberg_table(out: Path) -> Any:
    """The Iceberg table of a directory, as PyIceberg opens it."""
    from flintmq.lake.table.iceberg_catalog import TableName

    return TableName().open(out).load_table(TableName().identifier)


def table_of(out: Path, to: str) -> Any:
    """The rows of a table as readers of its format see them."""
    if to == "parquet":
        import pyarrow.dataset as ds

        return ds.dataset(str(out), partitioning="hive").to_table()
    if to == "delta":
        from deltalake import DeltaTable

        return DeltaTable(str(out)).to_pyarrow_table()
    return iceberg_table(out).scan().to_arrow()
