"""Writes record batches as Parquet files, grouped by topic and store date or fewer columns.

Rows are copied into groups by topic and date. A group is written when it has enough for a row group; when all groups
together hold too much, the largest is written. So the memory of a task is bounded whatever the number of topics.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flintmq.config.text import DAY_MS
from flintmq.lake.files.failed_file import give_up, naming
from flintmq.storage.files.filesystem import REAL
from flintmq.storage.files.whole_file import sync_file
from flintmq.store.layout.queue_name import refuse_other_encoding

ROW_GROUP_BYTES = 32 << 20  # of a group's rows in memory
PENDING_BYTES = 96 << 20  # of all groups' rows in memory
OPEN_FILES = 32
BATCH_COST = 16 << 10  # of a waiting batch besides its values
PAGE_BYTES = 256 << 10  # of a column's values: the unit of compression fits into the cache
DAY_US = 1000 * DAY_MS
PARTITIONS = ("topic_name", "date")
TEXT_MOST = 32  # characters of a text in Delta's statistics
TEXT_LAST = "\U0010ffff"  # sorts after every other character
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # Spark, Hive and Arrow read it as null

# Columns whose values repeat, for which a dictionary pays off, and columns with statistics for readers.
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
# (Tags are not searched: every row group has all of them, and comparing them takes a twentieth of the encoding. Numbers
# have statistics too, which cost little, because Delta's log needs them: see `statistics`.)
SEARCHED = ("topic", "queue_id", "queue_offset", "born_timestamp", "store_timestamp", "physical_offset")
_RISING = ("queue_offset", "born_timestamp", "store_timestamp", "physical_offset")


Values = tuple[tuple[str, str | None], ...]
"""Partition columns and values of the rows of one directory, outermost first; None is null."""


def folder_of(values: Iterable[Sequence[str | None]]) -> str:
    """Return the directory of these values: `topic_name=Orders/date=2026-01-31`."""
    return os.path.join("", *(f"{name}={NO_VALUE if value is None else escape(value)}" for name, value in values))


def escape(value: str) -> str:
    """Escape a partition value for the name of a directory.

    Readers get partition_value(value) back.

    ASCII letters, digits and `_-.` stay; other ASCII characters become %XX, as readers expect: Hive and Spark escape a
    subset of them. Characters above ASCII stay, as with Hive and Spark: Spark reads %XX as one character, not as a byte
    of UTF-8.

    Raises UsageError: the value is not ASCII, where names of files are not UTF-8: Arrow writes UTF-8, Python would not.
    """
    refuse_other_encoding(value)
    return "".join(map(_escaped, partition_value(value)))


def partition_value(value: str) -> str:
    """Return `topic_name` as readers of a Parquet export get it, shortened if it is long.

    The name of a directory has room for 255 bytes. A value whose escaped form has more than 200 bytes of UTF-8 is cut
    between characters to at most 160 bytes, followed by `~` and 16 hexadecimal digits of its SHA-256. The one value
    that readers take for null gets the same suffix.
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
    path: str
    values: Values
    rows: int
    size: int
    stats: dict[str, Any]  # statistics of its columns, in Delta's form (`statistics`)


@dataclass
class _Waiting:
    """Rows of one group that are not yet written, and the open file of the group."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    size: int = 0
    writer: pq.ParquetWriter | None = None
    footers: list[Any] = field(default_factory=list)  # of the file, after it is closed
    nulls: Counter[str] = field(default_factory=Counter)  # of the file, by column
    path: str = ""
    rows: int = 0
    written: int = 0  # bytes of the file so far


class PartitionedWriter:
    """Sorts batches into files of one topic and date each, or as partition_by says.

    A block `with` a writer gives its open files up if it ends with an error; otherwise `close` comes first.

    Args:
        folder: an existing directory of its own; files get numbers as names.
        target_bytes: approximate largest size of a file; None: no limit.
        durable: fsync files; false where they are put elsewhere, and only that copy is kept.
    """

    def __init__(
        self,
        folder: str,
        schema: pa.Schema,
        compression: str = "snappy",
        target_bytes: int | None = None,
        partition_by: Sequence[str] = PARTITIONS,
        *,
        durable: bool = True,
    ) -> None:
        self.folder, self.schema, self.target_bytes, self.partition_by = folder, schema, target_bytes, partition_by
        self._durable = durable
        self.files: list[WrittenFile] = []
        self._groups: dict[Values, _Waiting] = {}
        self._pending = 0
        self._made = 0
        self._syncer = ThreadPoolExecutor(1, "flintmq-sync")
        self._syncs: deque[Future[None]] = deque()  # of which the results were not looked at
        self._disk_failed = False
        self._settings: dict[str, Any] = {
            "compression": compression,
            "data_page_size": PAGE_BYTES,
            "use_dictionary": [name for name in _REPEATING if name in schema.names],
            "write_statistics": [
                each.name for each in schema if each.name in SEARCHED or pa.types.is_integer(each.type)
            ],
            # A column of a database may have such a name.
            "column_encoding": {
                each.name: "DELTA_BINARY_PACKED"
                for each in schema
                if each.name in _RISING and (pa.types.is_integer(each.type) or pa.types.is_timestamp(each.type))
            },
        }

    def __enter__(self) -> PartitionedWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is None:
            return
        for waiting in self._groups.values():
            if waiting.writer is not None:
                give_up(waiting.writer)
        self._groups.clear()
        self._syncer.shutdown(cancel_futures=True)

    def write(self, batch: pa.RecordBatch) -> None:
        """Add a batch, which is written now or later."""
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
        """Write all waiting rows, and fsync every file where that was asked for."""
        while self._groups:  # flushing one may finish, and remove, another
            group = next(iter(self._groups))
            self._flush(group)
            self._finish(group)
        assert not self._groups and self._pending == 0  # every row is in a file
        # All syncs are over before the caller hears that the files are there.
        self._syncer.shutdown()
        self._look_at_syncs()

    def _flush(self, group: Values) -> None:
        """Write the waiting rows of a group as one row group."""
        waiting = self._groups[group]
        if not waiting.batches:
            return
        if waiting.writer is None:
            open_ones = [other for other, state in self._groups.items() if state.writer is not None]
            if len(open_ones) >= OPEN_FILES:
                self._finish(open_ones[0])
            self._made += 1
            waiting.path = os.path.join(self.folder, f"{self._made:06d}.part")
            with naming(waiting.path):
                waiting.writer = pq.ParquetWriter(
                    waiting.path, self.schema, metadata_collector=waiting.footers, **self._settings
                )
        table = pa.Table.from_batches(waiting.batches, self.schema)
        with naming(waiting.path):
            waiting.writer.write_table(table, row_group_size=max(1, table.num_rows))
        waiting.rows += table.num_rows
        waiting.nulls.update({name: table[name].null_count for name in self.schema.names})
        self._pending -= waiting.size
        assert self._pending >= 0  # each row was counted once
        waiting.batches, waiting.size = [], 0
        before, waiting.written = waiting.written, os.stat(waiting.path).st_size
        if self.target_bytes and waiting.written + (waiting.written - before) // 2 > self.target_bytes:
            self._finish(group)  # with another row group the file would be too large
        elif self._durable and not self._look_at_syncs():
            self._sync_in_background(waiting.path)

    def _sync_in_background(self, path: str) -> None:
        """Start an fsync on another thread, so that it overlaps with what is written next."""
        self._syncs.append(self._syncer.submit(self._sync, path))

    def _sync(self, path: str) -> None:
        """Fsync a file, unless the disk has failed: what fails once is never tried again."""
        if self._disk_failed:
            return
        # Set before, not in an `except`: an interrupt amid the sync leaves it set, and no later sync can hide the loss.
        self._disk_failed = True
        sync_file(path, REAL)
        self._disk_failed = False

    def _look_at_syncs(self) -> int:
        """Return how many fsyncs are not over; raise the error of one that failed."""
        while self._syncs and self._syncs[0].done():
            self._syncs.popleft().result()
        return len(self._syncs)

    def _finish(self, group: Values) -> None:
        """Close the file of a group, if it has one, and have it synced where that was asked for."""
        waiting = self._groups.get(group)
        if waiting is None or waiting.writer is None:
            return
        with naming(waiting.path):
            waiting.writer.close()
        if self._durable:
            self._sync_in_background(waiting.path)
        stats = statistics(waiting.footers.pop(), self.schema, waiting.nulls)
        assert not waiting.footers and stats["numRecords"] == waiting.rows  # the footer is this file's
        self.files.append(WrittenFile(waiting.path, group, waiting.rows, os.stat(waiting.path).st_size, stats))
        waiting.writer, waiting.rows, waiting.written, waiting.nulls = None, 0, 0, Counter()
        if not waiting.batches:
            del self._groups[group]


def statistics(footer: Any, schema: pa.Schema, nulls: Mapping[str, int]) -> dict[str, Any]:
    """Return the statistics of a file as Delta's log has them.

    Every column of numbers, times or text has some. Where others have statistics and a column has none, deltalake (1.6)
    takes every comparison with the column for false, and leaves the file out: rows would be missing without a word.
    Texts that are not searched have the widest bounds that there are, as if they were cut to no characters.

    Returns:
        `numRecords`, and by column `minValues` and `maxValues` (times as ISO 8601 in milliseconds; of text the first
        characters), and `nullCount`.
    """
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    places = {footer.schema.column(number).path: number for number in range(footer.num_columns)}
    described = [each for each in schema if _is_described(each.type)]
    for field_ in described:
        name = field_.name
        if nulls[name] == footer.num_rows:
            continue
        found = [group.column(places[name]).statistics for group in groups]
        valued = [each for each in found if each is not None and each.has_min_max]
        if len(valued) + sum(each is not None and not each.num_values for each in found) == len(found):
            low, high = min(each.min for each in valued), max(each.max for each in valued)
        elif pa.types.is_string(field_.type):
            low, high = "", ""
        else:
            continue
        least[name], most[name] = _least(low), _most(high, pa.types.is_string(field_.type) and not valued)
    # Statistics of no field: without these deltalake takes a struct that is null for one that is there.
    least |= {each.name: {} for each in schema if pa.types.is_struct(each.type)}
    most |= {each.name: {} for each in schema if pa.types.is_struct(each.type)}
    counts = {each.name: nulls[each.name] for each in described}
    return {"numRecords": footer.num_rows, "minValues": least, "maxValues": most, "nullCount": counts}


def _is_described(kind: pa.DataType) -> bool:
    """Return whether columns of a type have statistics in Delta's log."""
    return pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_timestamp(kind)


def _least(value: Any) -> Any:
    """Return a lower bound: of a long text its begin."""
    return value[:TEXT_MOST] if isinstance(value, str) else _stat(value)


def _most(value: Any, unknown: bool) -> Any:
    """Return an upper bound: of a long text its begin, and what sorts after all that may follow."""
    if not isinstance(value, str):
        return _stat(value)
    return value[:TEXT_MOST] + TEXT_LAST * 4 if unknown or len(value) > TEXT_MOST else value


def _stat(value: Any) -> Any:
    """Format a time for Delta's statistics in milliseconds, as exact as the store's own times."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
    return value


def by_group(batch: pa.RecordBatch, by: Sequence[str] = PARTITIONS) -> Iterator[tuple[Values, pa.RecordBatch]]:
    """Split a batch by topic, store date, both or neither. Each part owns its memory."""
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
    """Return store dates as days since 1970-01-01 in UTC; _NO_DAY outside the years 1 to 9999."""
    times = batch.column("store_timestamp").cast(pa.int64())
    days = numpy.floor_divide(numpy.asarray(times.fill_null(0)), DAY_US)
    days[numpy.asarray(times.is_null())] = _NO_DAY
    return days


def _date(day: int) -> str | None:
    return None if day == _NO_DAY else str(numpy.datetime64(day, "D"))
