"""Reads rows of one Parquet file of a table, and says which of them an export added."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import product
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flintmq.arrow.schema import SPARK_SCHEMA
from flintmq.cluster.member import broker_words
from flintmq.config.s3 import S3Options
from flintmq.errors import StoreAccessError
from flintmq.lake.files.table_folder import TableFolder
from flintmq.lake.read.offsets import parse_flat
from flintmq.lake.table.target import Manifest, StoreProgress
from flintmq.objects.object_file import readable
from flintmq.objects.opening import bucket_of
from flintmq.storage.files.store_url import is_remote

_PUT_BACK = {
    "delta": "or RESTORE a version without it and export again, ",
    "iceberg": "or roll the table back to a snapshot without it and export again, ",
}

_PLACES = frozenset({"topic", "queue_id", "queue_offset", "physical_offset"})  # they say which message a row is


def fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Give a table these columns: its own in these types, and nulls for those that it lacks."""
    columns = [
        table[field.name].cast(field.type) if field.name in table.schema.names else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def state_of(path: str, s3: S3Options) -> tuple[int, int]:
    """Return when a file was written, in any unit, and its bytes."""
    if not is_remote(path):
        found = os.stat(path)
        return found.st_mtime_ns, found.st_size
    bucket, key = bucket_of(path, s3)
    there = bucket.find(key)
    if there is None or there.size is None:
        raise FileNotFoundError(2, os.strerror(2), path)
    return there.modified_ms or 0, there.size


def footer_of(path: str, s3: S3Options) -> Any:
    return _footer_of(path, s3, *state_of(path, s3))


@lru_cache(maxsize=10_000)
def _footer_of(path: str, s3: S3Options, time: int, size: int) -> Any:
    with readable(path, s3) as source:
        return pq.read_metadata(source)


def rows_in(
    path: str, s3: S3Options, schema: pa.Schema, begin: int | None, end: int | None, broker: str
) -> pa.Table | None:
    """Read the rows of messages in a range of a log from one file.

    None if its statistics show that it has none. Not by a dataset's filter: that of deltalake leaves out files whose
    columns have no statistics in Delta's log, and Arrow's does not know the types of files that deltalake rewrote.

    `begin`, `end`: log offsets [begin, end); None: no border.
    """
    footer = footer_of(path, s3)
    place = {footer.schema.column(number).path: number for number in range(footer.num_columns)}["physical_offset"]
    groups = [
        number
        for number in range(footer.num_row_groups)
        if _may_have(footer.row_group(number).column(place).statistics, begin, end)
    ]
    if not groups:
        return None
    with readable(path, s3) as source, pq.ParquetFile(source, metadata=footer) as file:
        known = set(file.schema_arrow.names)
        wanted = {*schema.names, "physical_offset", *broker_words(broker)}
        rows = file.read_row_groups(groups, sorted(wanted & known), use_threads=False)
    mask = _within(rows["physical_offset"], begin, end)
    for column, value in broker_words(broker).items():
        mask = pc.and_(mask, pc.equal(rows[column].cast(pa.string()), pa.scalar(value)))
    return fitted(rows, schema).filter(mask)


@contextmanager
def told(path: str, missing: Callable[[str], StoreAccessError]) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise missing(path) from error
    except (pa.ArrowException, KeyError) as error:
        what = " ".join(str(error).split())[:100]
        raise StoreAccessError(f"{path}: not readable as a file of an export ({what}); restore it") from error


def _may_have(statistics: Any, begin: int | None, end: int | None) -> bool:
    """Return whether a row group may have rows of a range."""
    if statistics is None or not statistics.has_min_max:
        return True
    return (begin is None or statistics.max >= begin) and (end is None or statistics.min < end)


def _within(offsets: Any, begin: int | None, end: int | None) -> Any:
    mask = pc.is_valid(offsets)
    mask = mask if begin is None else pc.and_(mask, pc.greater_equal(offsets, pa.scalar(begin, pa.int64())))
    return mask if end is None else pc.and_(mask, pc.less(offsets, pa.scalar(end, pa.int64())))


def below(column: Any, border: Any) -> Any:
    """Return which values are less than a border, or than that of their row, as a mask."""
    return pc.less(column, border)


def is_exported(rows: pa.Table, progress: StoreProgress) -> Any:
    """Return which rows, or messages, of one store a table has up to a progress, as a mask."""
    read = below(rows["physical_offset"], progress.end)
    if progress.offsets is None:
        return read
    known = parse_flat("offsets of the table", progress.offsets)
    queues: Any = zip(rows["topic"].to_pylist(), rows["queue_id"].to_pylist(), strict=True)
    # Queue offsets alone do not tell: a topic that is deleted and made again begins at 0 once more.
    return pc.and_(read, below(rows["queue_offset"], pa.array([known.get(queue, 0) for queue in queues], pa.int64())))


def has_rows_of(paths: Iterable[str], folder: TableFolder, made: Manifest, before: Manifest | None) -> bool:
    """Return whether the files of a Delta table have a row of one export.

    The progress after and before the export says which rows it added.

    `before`: of the one before it; None: there is none.
    """
    schema = pa.schema([field for field in SPARK_SCHEMA if field.name in _PLACES])
    for path, (broker, progress) in product(paths, made.stores.items()):
        earlier = None if before is None else before.stores.get(broker)
        if progress == earlier:
            continue
        with told(path, lambda path: is_missing(path, "file", folder.where, "delta")):
            rows = rows_in(path, folder.s3, schema, 0, None, broker)
        if rows is None:
            continue
        fresh = rows if earlier is None else rows.filter(pc.invert(is_exported(rows, earlier)))
        if pc.any(is_exported(fresh, progress)).as_py():
            return True
    return False


def is_missing(path: str, what: str, root: str, to: str = "parquet") -> StoreAccessError:
    """Return the error about a file, or the directory of an export, that a table has lost."""
    return StoreAccessError(
        f"this {what} of the table {root} is missing, so rows are",
        place=path,
        advice=f"put it back from a copy, {_PUT_BACK.get(to, '')}or export anew into another directory",
    )
