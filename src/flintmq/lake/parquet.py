"""Write record batches as Parquet files, one file (or few) for each topic and store date, or as asked for.

Rows wait, copied out by topic and date, until a group has enough for a row group, or until all groups together hold
too much; then the largest is written. So a task's memory is bounded whatever the number of topics.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ROW_GROUP_BYTES = 32 << 20  # of a group's rows in memory
PENDING_BYTES = 96 << 20  # of all groups' rows in memory
OPEN_FILES = 32
BATCH_COST = 16 << 10  # what a waiting batch takes beside its values
PAGE_BYTES = 256 << 10  # of a column's values: what is compressed at once stays in the cache
DAY_US = 86_400_000_000
PARTITIONS = ("topic_name", "date")
TEXT_MOST = 32  # characters of a text in Delta's statistics
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # what Spark, Hive and Arrow read as null

# Columns whose values repeat, for which a dictionary pays, and columns whose least and largest values help a reader.
_REPEATING = (
    "topic",
    "queue_id",
    "tags",
    "born_host",
    "store_host",
    "size",
    "magic",
    "flag",
    "sys_flag",
    "reconsume_times",
    "prepared_transaction_offset",
)
# (Tags do not: every row group has them all, and comparing each of them takes a twentieth of the encoding.)
_SEARCHED = ("topic", "queue_id", "queue_offset", "born_timestamp", "store_timestamp", "physical_offset")
_RISING = ("queue_offset", "born_timestamp", "store_timestamp", "physical_offset")


Values = tuple[tuple[str, str | None], ...]
"""Of the rows of one directory: partition columns and their values, from the outermost on; None is null."""


def folder_of(values: Iterable[Sequence[str | None]]) -> str:
    """Where rows of these values lie below an export: `topic_name=Orders/date=2026-01-31`."""
    return os.path.join("", *(f"{name}={NO_VALUE if value is None else escape(value)}" for name, value in values))


def escape(value: str) -> str:
    """A partition value as part of a directory's name, from which every reader gets partition_value(value).

    ASCII letters, digits and `_-.` stay; other ASCII characters become %XX: all that Hive and Spark escape, and some
    more, which readers take back as well. Characters above ASCII stay, as with Hive and Spark: Spark reads %XX as one
    character, not as a byte of UTF-8.
    """
    return "".join(map(_escaped, partition_value(value)))


def partition_value(value: str) -> str:
    """What readers of a Parquet export get as `topic_name`: the topic, or its begin and a hash if it is long.

    A name of a directory has room for 255 bytes. A value whose escaped form has more than 200 bytes of UTF-8 is cut
    behind a character, so that at most 160 bytes are left, and ends with `~` and 16 hexadecimal digits of its SHA-256.
    So does the one value that readers take for null.
    """
    sizes = [len(_escaped(char).encode("utf-8", "surrogatepass")) for char in value]
    size = sum(sizes)
    if size <= 200 and value != NO_VALUE:
        return value
    while size > 160:
        size -= sizes.pop()
    return f"{value[: len(sizes)]}~{hashlib.sha256(value.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def _escaped(char: str) -> str:
    return char if char in _SAFE or char > "\x7f" else f"%{ord(char):02X}"


_SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.")


@dataclass
class WrittenFile:
    """One finished file.

    Attributes:
        path: where it is.
        values: of its rows.
        rows: how many; size: in bytes.
        stats: what its footer says of columns that are searched, as Delta has it (`statistics`).
    """

    path: str
    values: Values
    rows: int
    size: int
    stats: dict[str, Any]


@dataclass
class _Waiting:
    """Rows of one group that are not written yet, and the file that is open for it."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    size: int = 0
    writer: pq.ParquetWriter | None = None
    footers: list[Any] = field(default_factory=list)  # of the file, once it is closed
    path: str = ""
    rows: int = 0
    written: int = 0  # bytes of the file so far


class PartitionedWriter:
    """Sorts batches into files of one topic and date each, or as partition_by says.

    Args:
        folder: an existing directory of its own; files get numbers as names.
        schema: of all batches; has `topic` and `store_timestamp` in microseconds.
        compression: a Parquet codec: snappy, zstd, lz4, gzip or none.
        target_bytes: a file ends where it would get larger than about this; None: it may have any size.
        partition_by: what the rows of a file have in common: some of PARTITIONS.

    Attributes:
        files: finished files. Complete after `close`.
    """

    def __init__(
        self,
        folder: str,
        schema: pa.Schema,
        compression: str = "snappy",
        target_bytes: int | None = None,
        partition_by: Sequence[str] = PARTITIONS,
    ) -> None:
        self.folder, self.schema, self.target_bytes, self.partition_by = folder, schema, target_bytes, partition_by
        self.files: list[WrittenFile] = []
        self._groups: dict[Values, _Waiting] = {}
        self._pending = 0
        self._made = 0
        self._syncer = ThreadPoolExecutor(1, "flintmq-sync")
        self._syncing: Future[None] | None = None
        self._settings: dict[str, Any] = {
            "compression": compression,
            "data_page_size": PAGE_BYTES,
            "use_dictionary": [name for name in _REPEATING if name in schema.names],
            "write_statistics": [name for name in _SEARCHED if name in schema.names],
            "column_encoding": {name: "DELTA_BINARY_PACKED" for name in _RISING if name in schema.names},
        }

    def write(self, batch: pa.RecordBatch) -> None:
        """Take a batch; it may be written now or later.

        Raises:
            OSError: the disk is full or fails.
        """
        row_bytes = batch.get_total_buffer_size() / max(1, batch.num_rows)
        for group, rows in by_group(batch, self.partition_by):
            waiting = self._groups.setdefault(group, _Waiting())
            waiting.batches.append(rows)
            size = int(rows.num_rows * row_bytes) + BATCH_COST
            waiting.size += size
            self._pending += size
            if waiting.size >= min(ROW_GROUP_BYTES, self.target_bytes or ROW_GROUP_BYTES):
                self._flush(group)
        while self._pending > PENDING_BYTES:
            self._flush(max(self._groups, key=lambda group: self._groups[group].size))

    def close(self) -> None:
        """Write what waits and make every file durable.

        Raises:
            OSError: as write.
        """
        while self._groups:  # flushing one may finish, and remove, another
            group = next(iter(self._groups))
            self._flush(group)
            self._finish(group)
        if self._syncing is not None:
            self._syncing.result()
        self._syncer.shutdown()

    def _flush(self, group: Values) -> None:
        """Write the rows of a group that wait, as one row group."""
        waiting = self._groups[group]
        if not waiting.batches:
            return
        if waiting.writer is None:
            open_ones = [other for other, state in self._groups.items() if state.writer is not None]
            if len(open_ones) >= OPEN_FILES:
                self._finish(open_ones[0])
            self._made += 1
            waiting.path = os.path.join(self.folder, f"{self._made:06d}.part")
            waiting.writer = pq.ParquetWriter(
                waiting.path, self.schema, metadata_collector=waiting.footers, **self._settings
            )
        table = pa.Table.from_batches(waiting.batches, self.schema)
        waiting.writer.write_table(table, row_group_size=max(1, table.num_rows))
        waiting.rows += table.num_rows
        self._pending -= waiting.size
        waiting.batches, waiting.size = [], 0
        before, waiting.written = waiting.written, os.stat(waiting.path).st_size
        if self.target_bytes and waiting.written + (waiting.written - before) // 2 > self.target_bytes:
            self._finish(group)  # with one row group more it would be too large rather than too small
        else:
            self._sync_behind(waiting.path)

    def _sync_behind(self, path: str) -> None:
        """Let the disk take what is written while the next row group is encoded, and not all of it at the end."""
        if self._syncing is not None:
            if not self._syncing.done():
                return
            self._syncing.result()
        self._syncing = self._syncer.submit(_sync, path)

    def _finish(self, group: Values) -> None:
        """Close a group's file, if it has one, and make it durable."""
        waiting = self._groups.get(group)
        if waiting is None or waiting.writer is None:
            return
        waiting.writer.close()
        _sync(waiting.path)
        stats = statistics(waiting.footers.pop())
        self.files.append(WrittenFile(waiting.path, group, waiting.rows, os.stat(waiting.path).st_size, stats))
        waiting.writer, waiting.rows, waiting.written = None, 0, 0
        if not waiting.batches:
            del self._groups[group]


def _sync(path: str) -> None:
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def statistics(footer: Any) -> dict[str, Any]:
    """What a file's footer says of the columns that are searched, as Delta's log has it.

    Args:
        footer: a pyarrow.parquet.FileMetaData.

    Returns:
        `numRecords`, and by column `minValues` and `maxValues` (times as ISO 8601 in milliseconds; text only if it is
        short), and `nullCount`.
    """
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    places = {footer.schema.column(number).path: number for number in range(footer.num_columns)}
    for name in _SEARCHED:
        found = [group.column(places[name]).statistics for group in groups] if name in places else []
        if not found or not all(each is not None and each.has_null_count for each in found):
            continue
        nulls[name] = sum(each.null_count for each in found)
        valued = [each for each in found if each.num_values]  # the others are null throughout
        if valued and all(each.has_min_max for each in valued):
            low, high = min(each.min for each in valued), max(each.max for each in valued)
            if not isinstance(low, str) or max(len(low), len(high)) <= TEXT_MOST:
                least[name], most[name] = _stat(low), _stat(high)
    return {"numRecords": footer.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}


def _stat(value: Any) -> Any:
    """A time as Delta's statistics have it; its microseconds are none, for the store has milliseconds."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
    return value


def by_group(batch: pa.RecordBatch, by: Sequence[str] = PARTITIONS) -> Iterator[tuple[Values, pa.RecordBatch]]:
    """The rows of a batch by topic, store date, both or neither, in their order. Each part owns its memory."""
    codes = days = numpy.zeros(batch.num_rows, numpy.int64)
    topics: Any = None
    if "topic_name" in by:
        topics = pc.dictionary_encode(batch.column("topic"))
        codes = numpy.asarray(topics.indices)
    if "date" in by:
        days = _days(batch)

    def values(row: int) -> Values:
        topic = (("topic_name", topics.dictionary[int(codes[row])].as_py() or None),) if "topic_name" in by else ()
        return (*topic, ("date", _date(int(days[row])))) if "date" in by else topic

    if not batch.num_rows:
        return
    if (codes == codes[0]).all() and (days == days[0]).all():
        yield values(0), batch
        return
    order = numpy.lexsort((days, codes))
    breaks = numpy.flatnonzero((numpy.diff(codes[order]) != 0) | (numpy.diff(days[order]) != 0)) + 1
    for rows in numpy.split(order, breaks):
        yield values(rows[0]), batch.take(pa.array(rows, pa.int64()))


_NO_DAY = -(2**62)


def _days(batch: pa.RecordBatch) -> Any:
    """Store dates as days since 1970-01-01 in UTC; _NO_DAY where the store time is outside the years 1 to 9999."""
    times = batch.column("store_timestamp").cast(pa.int64())
    days = numpy.floor_divide(numpy.asarray(times.fill_null(0)), DAY_US)
    days[numpy.asarray(times.is_null())] = _NO_DAY
    return days


def _date(day: int) -> str | None:
    return None if day == _NO_DAY else str(numpy.datetime64(day, "D"))
