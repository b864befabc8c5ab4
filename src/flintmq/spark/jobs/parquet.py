"""Write record batches as Parquet files, one file (or few) for each topic and store date.

Rows wait, copied out by topic and date, until a group has enough for a row group, or until all groups together hold
too much; then the largest is written. So a task's memory is bounded whatever the number of topics.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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


class Group(NamedTuple):
    """Rows of one topic that were stored on one day."""

    topic: str
    day: int | None
    """Days since 1970-01-01 in UTC; None where the store time is outside the years 1 to 9999."""

    @property
    def folder(self) -> str:
        """Where the group's files lie below an export."""
        date = NO_VALUE if self.day is None else str(numpy.datetime64(self.day, "D"))
        return os.path.join(f"topic_name={escape(self.topic)}", f"date={date}")


def escape(topic: str) -> str:
    """A topic as part of a directory's name: safe in every file system, shell and locale.

    ASCII letters, digits and `_-.` stay; every other byte of its UTF-8 becomes %XX, as Hive and Spark have it. A name
    that would get too long for a file system is cut and ends with a hash. The column `topic` in the files is exact.
    """
    raw = topic.encode("utf-8", "surrogatepass")
    parts = [chr(byte) if byte in _SAFE else f"%{byte:02X}" for byte in raw]
    if sum(map(len, parts)) <= 200:
        return "".join(parts) or NO_VALUE
    while sum(map(len, parts)) > 160:
        parts.pop()
    return f"{''.join(parts)}~{hashlib.sha256(raw).hexdigest()[:16]}"


_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.")


@dataclass
class Written:
    """One finished file."""

    path: str
    folder: str
    rows: int
    size: int


@dataclass
class _Waiting:
    """Rows of one group that are not written yet, and the file that is open for it."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    size: int = 0
    writer: pq.ParquetWriter | None = None
    path: str = ""
    rows: int = 0
    written: int = 0  # bytes of the file so far


class PartitionedWriter:
    """Sorts batches into files of one topic and date each.

    Args:
        folder: an existing directory of its own; files get numbers as names.
        schema: of all batches; has `topic` and `store_timestamp` in microseconds.
        compression: a Parquet codec: snappy, zstd, lz4, gzip or none.
        target_bytes: a file ends where it would get larger than about this; None: it may have any size.

    Attributes:
        files: finished files. Complete after `close`.
    """

    def __init__(
        self, folder: str, schema: pa.Schema, compression: str = "snappy", target_bytes: int | None = None
    ) -> None:
        self.folder, self.schema, self.target_bytes = folder, schema, target_bytes
        self.files: list[Written] = []
        self._groups: dict[Group, _Waiting] = {}
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
        for group, rows in by_group(batch):
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

    def _flush(self, group: Group) -> None:
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
            waiting.writer = pq.ParquetWriter(waiting.path, self.schema, **self._settings)
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

    def _finish(self, group: Group) -> None:
        """Close a group's file, if it has one, and make it durable."""
        waiting = self._groups.get(group)
        if waiting is None or waiting.writer is None:
            return
        waiting.writer.close()
        _sync(waiting.path)
        self.files.append(Written(waiting.path, group.folder, waiting.rows, os.stat(waiting.path).st_size))
        waiting.writer, waiting.rows, waiting.written = None, 0, 0
        if not waiting.batches:
            del self._groups[group]


def _sync(path: str) -> None:
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def by_group(batch: pa.RecordBatch) -> Iterator[tuple[Group, pa.RecordBatch]]:
    """The rows of a batch by topic and store date, in their order. Each part owns its memory."""
    topics: Any = pc.dictionary_encode(batch.column("topic"))
    times = batch.column("store_timestamp").cast(pa.int64())
    unknown = numpy.asarray(times.is_null())
    days = numpy.floor_divide(numpy.asarray(times.fill_null(0)), DAY_US)
    days[unknown] = _NO_DAY
    codes = numpy.asarray(topics.indices)
    if len(codes) and (codes == codes[0]).all() and (days == days[0]).all():
        yield _group(topics.dictionary[0].as_py(), int(days[0])), batch
        return
    order = numpy.lexsort((days, codes))
    breaks = numpy.flatnonzero((numpy.diff(codes[order]) != 0) | (numpy.diff(days[order]) != 0)) + 1
    for rows in numpy.split(order, breaks):
        if len(rows):
            yield (
                _group(topics.dictionary[int(codes[rows[0]])].as_py(), int(days[rows[0]])),
                batch.take(pa.array(rows, pa.int64())),
            )


_NO_DAY = -(2**62)


def _group(topic: str, day: int) -> Group:
    return Group(topic, None if day == _NO_DAY else day)
