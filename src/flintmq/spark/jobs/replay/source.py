"""Reads the source of a replay: a store, or a table of messages in Parquet or Delta.

Tables are those that `flintmq spark export` writes. A source is cut into chunks by the log offsets of its rows, so that
a chunk has every message of its span, in the order of their log, and no two chunks share one. Rows come as they were
stored: inner batches are unpacked, bodies stay compressed. An export may have decompressed or unpacked them; the body's
checksum shows it, and then sys_flag, which an export does not change, is corrected.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy
import pyarrow as pa
import pyarrow.parquet as pq

from flintmq.arrow.schema import FIRST_COLUMNS, SPARK_SCHEMA
from flintmq.config.keys import StoreConfig
from flintmq.config.s3 import S3Options
from flintmq.errors import NotAStoreError, StoreAccessError, UsageError
from flintmq.format.record import COMPRESSED, COMPRESSION_MASK, INNER_BATCH, NEED_UNWRAP
from flintmq.lake.files.table_folder import folder_at
from flintmq.lake.files.table_format import format_in
from flintmq.lake.read.explode import exploded
from flintmq.lake.read.options import ReadOptions
from flintmq.lake.read.scan import ScanPlan, plan_scan, scan_range
from flintmq.lake.read.splits import LogRange, equal_ranges
from flintmq.lake.table.row_files import fitted
from flintmq.lake.table.table_rows import TableVersion, open_delta, open_table
from flintmq.objects.object_file import readable
from flintmq.spark.jobs.replay.rows import lacking
from flintmq.storage.files.filesystem import REAL
from flintmq.storage.files.store_url import absolute, effects_for, is_remote
from flintmq.store.commitlog.predicate import Predicate
from flintmq.store.commitlog.report import Report
from flintmq.store.layout.config_reader import read_config

CHUNK_BYTES = 96 << 20  # approximate; a task holds a chunk of a table in memory, to sort it
BATCH_ROWS = 16_384
PLACE = ("physical_offset", "queue_offset")  # columns that order the rows
BROKER = "broker"  # the column of tables of several stores
_UNPACKED = INNER_BATCH | NEED_UNWRAP | COMPRESSED | COMPRESSION_MASK


class Chunk(NamedTuple):
    """A part of a source: rows with log offsets in [begin, end), in these files (none: the log)."""

    begin: int
    end: int
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReplaySource:
    """A store, read up to the end that its log had when it was opened."""

    plan: ScanPlan
    report: Report  # notes of the plan
    kind: str = "store"

    @property
    def begin(self) -> int:
        return self.plan.begin

    def chunks(self, begin: int, chunk_bytes: int) -> list[Chunk]:
        """Return chunks of the rows from a log offset on, in order."""
        first, end = max(begin, self.plan.begin), self.plan.end
        count = max(1, -(-(end - first) // chunk_bytes))
        return [
            Chunk(part.begin, part.end)
            for part in equal_ranges(self.plan.log, first, end, count)
            if part.begin < part.end
        ]

    def stored(self, chunk: Chunk, report: Report) -> Iterator[pa.RecordBatch]:
        return scan_range(self.plan, LogRange(chunk.begin, chunk.end), SPARK_SCHEMA, report)

    def queue_counts(self) -> dict[str, int]:
        """Return the number of queues of each topic, from the store's own settings."""
        read = self.plan.options
        topics = read_config(read.path, effects_for(read.path, read.config.s3), strict=True).topics
        return {name: topic.write_queues for name, topic in topics.items()}


@dataclass(frozen=True)
class TableFile:
    """A file of a table: least and largest log offset of its rows, and bytes of its columns."""

    path: str
    least: int
    most: int
    size: int


@dataclass(frozen=True)
class TableSource:
    """Parquet files with the columns of the schema; columns that a file lacks are null."""

    files: tuple[TableFile, ...]
    kind: str
    s3: S3Options = field(default_factory=S3Options)

    @property
    def begin(self) -> int:
        return min((file.least for file in self.files), default=0)

    def chunks(self, begin: int, chunk_bytes: int) -> list[Chunk]:
        """Return chunks of the rows from a log offset on, in order.

        Files with overlapping spans are in the same chunks; large files are in several.
        """
        chunks: list[Chunk] = []
        group: list[TableFile] = []
        for file in sorted(self.files, key=lambda file: (file.least, file.most)):
            if group and file.least > max(each.most for each in group):
                chunks += _parted(group, begin, chunk_bytes)
                group = []
            group.append(file)
        return chunks + (_parted(group, begin, chunk_bytes) if group else [])

    def stored(self, chunk: Chunk, report: Report) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a chunk in log order."""
        tables = [rows for path in chunk.files for rows in _rows_between(path, chunk.begin, chunk.end, self.s3)]
        if not tables:
            return
        table = pa.concat_tables(tables)
        places: Any = table.column("physical_offset").to_numpy()
        if (numpy.diff(places) <= 0).any():  # equal ones: messages of one inner batch
            table = table.take(pa.array(numpy.lexsort((table.column("queue_offset").to_numpy(), places)), pa.int64()))
        yield from table.to_batches(max_chunksize=BATCH_ROWS)

    def queue_counts(self) -> dict[str, int]:
        return {}


Source = ReplaySource | TableSource


def open_source(path: str, config: StoreConfig, fail_on_data_loss: bool = True, access: str = "pread") -> Source:
    root = absolute(path)
    options = ReadOptions(
        path=root, fail_on_data_loss=fail_on_data_loss, skip_option="--skip-damage", access=access, config=config
    )
    kinds, report = "a store, a Delta table or an export to Parquet", Report()
    if not is_remote(root):
        if not os.path.isdir(root):
            raise UsageError(f"{root}: there is no such directory; give {kinds}")
        if format_in(REAL.listdir(root)) is None:
            return ReplaySource(plan_scan(options, report), report)
    else:
        with contextlib.suppress(NotAStoreError):
            return ReplaySource(plan_scan(options, report), report)
    to = format_in(folder_at(root, config.s3).names())
    if to is None:
        raise UsageError(f"{root}: give {kinds}; none is there")
    if to == "iceberg":
        raise UsageError(f"{root}: an Iceberg table is not replayed; give {kinds}")
    table = open_delta(root, config.s3) if to == "delta" else open_table(root, s3=config.s3)[1]
    return TableSource(_table_files(table), to, config.s3)


def rows_of(source: Source, chunk: Chunk, report: Report) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a chunk in log order, with the columns of SPARK_SCHEMA."""
    for batch in source.stored(chunk, report):
        yield from _as_stored(batch) if batch.num_rows else ()


def _as_stored(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Unpack inner batches, and correct sys_flag to fit the bodies.

    Rows that lack a column stay as they are: `refusals.checked` refuses them.
    """
    flags: Any = batch.column("sys_flag").fill_null(0).to_numpy(zero_copy_only=False)
    special = numpy.flatnonzero(flags & (COMPRESSED | INNER_BATCH))
    if not len(special):
        yield batch
        return
    flags = flags.copy()
    whole = [row for row in special.tolist() if not lacking(batch, row)]
    flags[numpy.setdiff1d(special, whole)] &= ~_UNPACKED
    for row in whole:
        if zlib.crc32(batch.column("body")[row].as_py()) & 0x7FFFFFFF != batch.column("body_crc")[row].as_py():
            flags[row] &= ~_UNPACKED
    for rows in exploded(_with_flags(batch, flags), SPARK_SCHEMA, Predicate()):
        flags = rows.column("sys_flag").fill_null(0).to_numpy(zero_copy_only=False)
        yield _with_flags(rows, numpy.where(flags & INNER_BATCH, flags & ~_UNPACKED, flags))


def _with_flags(batch: pa.RecordBatch, flags: Any) -> pa.RecordBatch:
    column = batch.schema.get_field_index("sys_flag")
    unknown: Any = batch.column(column).is_null().to_numpy(zero_copy_only=False)
    return batch.set_column(column, batch.schema.field(column), pa.array(flags, pa.int32(), mask=unknown))


def _parted(group: list[TableFile], begin: int, chunk_bytes: int) -> list[Chunk]:
    """Return chunks of files whose spans overlap."""
    first, end = max(begin, min(file.least for file in group)), max(file.most for file in group) + 1
    if first >= end:
        return []
    count = max(1, sum(file.size for file in group) // chunk_bytes)
    cuts = [first + (end - first) * number // count for number in range(count)] + [end]
    parts = [
        Chunk(low, high, tuple(file.path for file in group if file.least < high and file.most >= low))
        for low, high in pairwise(cuts)
    ]
    return [part for part in parts if part.files]


def _rows_between(path: str, begin: int, end: int, s3: S3Options) -> Iterator[pa.Table]:
    """Yield the rows of a file with log offsets in [begin, end); other row groups are not read."""
    try:
        with readable(path, s3) as place, pq.ParquetFile(place) as file:
            for group in range(file.num_row_groups):
                least, most = _span(file.metadata.row_group(group))
                if most < begin or least >= end:
                    continue
                table = fitted(file.read_row_group(group, columns=SPARK_SCHEMA.names), SPARK_SCHEMA)
                unknown = next((name for name in PLACE if table.column(name).null_count), None)
                if unknown is not None:
                    raise UsageError(
                        f"{path}: a row has no {unknown}, which says its place among the messages; remove such rows "
                        "from the table"
                    )
                if least < begin or most >= end:
                    places: Any = table.column("physical_offset").to_numpy()
                    table = table.filter(pa.array((places >= begin) & (places < end)))
                yield table
    except (OSError, pa.ArrowException) as error:
        raise StoreAccessError(f"{path}: not a readable file of messages ({_line(error)}); export anew") from error


def _table_files(table: TableVersion) -> tuple[TableFile, ...]:
    """Read the footers of the files.

    Raises UsageError: a file lacks columns that every export has; the rows are of several stores, whose offsets say
    nothing of each other: messages that came later would be taken for replayed ones.
    """
    found, brokers = [], set[str | None]()
    for path in table.files:
        try:
            with readable(path, table.s3) as place, pq.ParquetFile(place) as file:
                missing = [name for name in FIRST_COLUMNS if name not in file.schema_arrow.names]
                if missing:
                    raise UsageError(
                        f"{path}: lacks column {' and '.join(missing[:3])}; a replay needs an export with all columns"
                    )
                groups = [file.metadata.row_group(group) for group in range(file.num_row_groups)]
                spans = [_span(group) for group in groups if group.num_rows]
                if BROKER in file.schema_arrow.names:
                    brokers.update(file.read(columns=[BROKER]).column(0).unique().to_pylist())  # it has no statistics
        except FileNotFoundError as error:
            raise table.missing(path) from error
        except (OSError, pa.ArrowException) as error:
            raise StoreAccessError(f"{path}: not a readable Parquet file ({_line(error)}); export anew") from error
        if spans:
            size = sum(group.total_byte_size for group in groups)
            found.append(TableFile(path, min(s[0] for s in spans), max(s[1] for s in spans), size))
        if len(brokers) > 1 or None in brokers:
            raise UsageError(
                f"{table.root}: the table has messages of several stores, or of an unknown one; a replay takes those "
                "of one: replay the stores themselves, one by one"
            )
    return tuple(found)


def _span(group: Any) -> tuple[int, int]:
    """Return least and largest log offset of a row group; without statistics, all offsets."""
    leaves = (group.column(number) for number in range(group.num_columns))
    statistics = next(leaf.statistics for leaf in leaves if leaf.path_in_schema == "physical_offset")
    if statistics is None or not statistics.has_min_max:
        return 0, 2**63 - 2
    return statistics.min, statistics.max


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
