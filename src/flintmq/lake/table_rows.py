"""Reads rows of a table that exports made: of one version, whatever is exported meanwhile."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flintmq.errors import StoreAccessError, UsageError
from flintmq.lake.iceberg_catalog import TableName
from flintmq.lake.table_format import format_of
from flintmq.lake.target import ExportTarget, Manifest
from flintmq.storage.store_url import local_only


@dataclass(frozen=True)
class TableVersion:
    """Names one version of a table, for tasks.

    Attributes:
        root: directory of the table.
        to: "parquet", "delta" or "iceberg".
        version: the paths of its files, or the id of the snapshot.
        name: of an Iceberg table in its catalog.
    """

    root: str
    to: str
    version: Any
    name: TableName

    def rows(self, schema: pa.Schema, begin: int, end: int | None, broker: str | None = None) -> pa.Table:
        """Read the rows of messages in a range of a log, in the order of the log.

        Args:
            schema: the columns; one that the table does not have is null.
            begin, end: log offsets [begin, end); None: no end.
            broker: of a table of several stores, the broker.

        Raises:
            StoreAccessError: a file of the table is damaged.
            OSError: a file of the table cannot be read.
        """
        order: Any = [("physical_offset", "ascending"), ("queue_offset", "ascending")]
        if self.to == "iceberg":
            return fitted(_snapshot(self)(schema.names, begin, end, broker), schema).sort_by(order)
        parts = [part for path in self.version if (part := _read(path, schema, begin, end, broker)) is not None]
        return (pa.concat_tables(parts) if parts else schema.empty_table()).sort_by(order)

    def count_before(self, offset: int, broker: str | None = None) -> int:
        """Count the rows of messages before a log offset."""
        if self.to == "iceberg":
            return int(_snapshot(self)(["physical_offset"], None, offset, broker).num_rows)
        schema = pa.schema([("physical_offset", pa.int64())])
        parts = [_read(path, schema, None, offset, broker) for path in self.version]
        return sum(0 if part is None else part.num_rows for part in parts)

    def count(self) -> int:
        """Count all rows, also those that name no message."""
        if self.to == "iceberg":
            return int(_snapshot(self)(["physical_offset"], None, None, None).num_rows)
        return sum(_footer(path).num_rows for path in self.version)


def open_table(path: str, catalog: str | None = None) -> tuple[Manifest, TableVersion]:
    """Return the manifest of the newest export in a table, and the version that it is.

    Args:
        path: directory of the table.
        catalog: of an Iceberg table, NAME:NAMESPACE.TABLE; None: its own.

    Raises:
        UsageError: no export made a table there.
        StoreAccessError, MissingExtraError: the table cannot be read.
    """
    root, to, name = os.path.abspath(local_only(path)), format_of(path), TableName.parse(catalog)
    if catalog is not None:
        to = "iceberg"
    if to is None:
        raise UsageError(f"{path} holds no table that an export made; give the --out of one")
    manifest, version = _target(root, to, name).committed()
    if manifest is None:
        raise UsageError(f"{path} holds no table that an export made, or nothing was exported yet")
    return manifest, TableVersion(root, to, version, name)


def _target(root: str, to: str, name: TableName) -> ExportTarget:
    if to == "delta":
        from flintmq.lake.delta import DeltaTarget

        return DeltaTarget(Path(root))
    if to == "iceberg":
        from flintmq.lake.iceberg import IcebergTarget

        return IcebergTarget(Path(root), name)
    return ExportTarget(Path(root))


def fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Give a table these columns: its own in these types, and nulls for those that it lacks."""
    columns = [
        table[field.name].cast(field.type) if field.name in table.schema.names else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _footer(path: str) -> Any:
    found = os.stat(path)
    return _footer_of(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=10_000)
def _footer_of(path: str, time_ns: int, size: int) -> Any:
    """Read the footer of a file in the state that these tell."""
    return pq.read_metadata(path)


def _read(path: str, schema: pa.Schema, begin: int | None, end: int | None, broker: str | None) -> pa.Table | None:
    """Read a file as `_of_file` does.

    Raises:
        StoreAccessError: it is damaged.
    """
    try:
        return _of_file(path, schema, begin, end, broker)
    except (pa.ArrowException, KeyError) as error:
        what = " ".join(str(error).split())[:100]
        raise StoreAccessError(f"{path}: not readable as a file of an export ({what}); restore it") from error


def _of_file(path: str, schema: pa.Schema, begin: int | None, end: int | None, broker: str | None) -> pa.Table | None:
    """Read the rows of a range from one file; None if its statistics show that it has none.

    Not by a dataset's filter: that of deltalake leaves out files whose columns have no statistics in Delta's log, and
    Arrow's does not know the types of files that deltalake rewrote.
    """
    footer = _footer(path)
    place = {footer.schema.column(number).path: number for number in range(footer.num_columns)}["physical_offset"]
    groups = [
        number
        for number in range(footer.num_row_groups)
        if _may_have(footer.row_group(number).column(place).statistics, begin, end)
    ]
    if not groups:
        return None
    with pq.ParquetFile(path, metadata=footer) as file:
        known = set(file.schema_arrow.names)
        wanted = {*schema.names, "physical_offset", *(() if broker is None else ("broker",))}
        rows = file.read_row_groups(groups, sorted(wanted & known), use_threads=False)
    mask = _within(rows["physical_offset"], begin, end)
    if broker is not None:
        mask = pc.and_(mask, pc.equal(rows["broker"].cast(pa.string()), pa.scalar(broker)))
    return fitted(rows, schema).filter(mask)


def _may_have(statistics: Any, begin: int | None, end: int | None) -> bool:
    """Return whether a row group may have rows of a range."""
    if statistics is None or not statistics.has_min_max:
        return True
    return (begin is None or statistics.max >= begin) and (end is None or statistics.min < end)


def _within(offsets: Any, begin: int | None, end: int | None) -> Any:
    mask = pc.is_valid(offsets)
    mask = mask if begin is None else pc.and_(mask, pc.greater_equal(offsets, pa.scalar(begin, pa.int64())))
    return mask if end is None else pc.and_(mask, pc.less(offsets, pa.scalar(end, pa.int64())))


@lru_cache(maxsize=4)
def _snapshot(table: TableVersion) -> Any:
    """Return a function that reads rows of a snapshot."""
    from pyiceberg import expressions

    made: Any = expressions
    loaded = table.name.open(Path(table.root)).load_table(table.name.identifier)
    known = {field.name for field in loaded.schema().fields}

    def read(names: list[str], begin: int | None, end: int | None, broker: str | None) -> pa.Table:
        wanted = made.AlwaysTrue()
        for part in (
            None if begin is None else made.GreaterThanOrEqual("physical_offset", begin),
            None if end is None else made.LessThan("physical_offset", end),
            None if broker is None else made.EqualTo("broker", broker),
        ):
            wanted = wanted if part is None else made.And(wanted, part)
        fields = tuple(name for name in names if name in known)
        return loaded.scan(wanted, fields, snapshot_id=table.version).to_arrow()

    return read


def below(column: Any, border: Any) -> Any:
    """Return which values are less than a border, or than that of their row, as a mask."""
    return pc.less(column, border)


def keys(table: pa.Table) -> list[tuple[Any, Any]]:
    """Return log offset and queue offset of each row."""
    return list(zip(table["physical_offset"].to_pylist(), table["queue_offset"].to_pylist(), strict=True))


def milliseconds(column: Any) -> Any:
    """Return times of a column in ms since 1970."""
    return pc.divide(column.cast(pa.int64()), pa.scalar(1000, pa.int64()))
