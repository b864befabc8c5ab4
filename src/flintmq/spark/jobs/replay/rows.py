"""Encodes rows of the schema as log records: selects messages, computes sizes, writes bytes.

All of it works by columns: kernels/write/encode takes Arrow columns of strings, and property strings are made by a join
over the column's maps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy
import pyarrow as pa
import pyarrow.compute as pc

from flintmq.config.keys import StoreConfig
from flintmq.errors import FormatError, UsageError
from flintmq.format.consume_queue import SCHEDULE_TOPIC
from flintmq.format.message_id import parse_host
from flintmq.format.properties import CRC32, NAME_END, VALUE_END
from flintmq.format.record import (
    BLANK_SIZE,
    BORN_HOST_V6,
    CRC_PROPERTY_SIZE,
    MAX_PROPERTIES,
    MIN_SIZE,
    STORE_HOST_V6,
    TRANSACTION_PREPARED,
    V1_TOPIC_LIMIT,
)
from flintmq.format.record_view import WIDER_HOST
from flintmq.store.commitlog.bulk_writer import LogRoom

LEAST_MS = -(2**62)
NO_HOST = bytes(8)
SYSTEM_TOPICS = (SCHEDULE_TOPIC, "RMQ_SYS_", "rmq_sys_")  # prefixes of the broker's own topics
NO_UNIT, SYSTEM = "transaction_records", "system_topics"  # reasons for leaving records out, for counts

REQUIRED = (
    "topic",
    "queue_id",
    "body",
    "properties",
    "size",
    "flag",
    "sys_flag",
    "reconsume_times",
    "prepared_transaction_offset",
    "body_crc",
)
"""Columns that each message of a store has, and of which its record is made. Without them a row is no message any more,
such as one whose body was erased, or did not decode when it was exported."""

Queues = dict[tuple[str, int], int]


class SourceRow(NamedTuple):
    """A row of a source, which identifies the source and the progress of an earlier run.

    `physical_offset`, `queue_offset`, `size`, `body_crc`: as in the source. The first two order its rows.
    """

    physical_offset: int
    queue_offset: int
    size: int
    body_crc: int

    @classmethod
    def of(cls, batch: pa.RecordBatch, row: int) -> SourceRow:
        """Return the identity of a row of a batch; -1 is the last row."""
        return cls(*(batch.column(name)[row].as_py() for name in cls._fields))


def rows_after(
    batches: Iterable[pa.RecordBatch], last: SourceRow | None, must_be_there: bool = False
) -> Iterator[pa.RecordBatch]:
    seen = last is None or not must_be_there
    for batch in batches:
        if last is not None and batch.num_rows:
            places: Any = batch.column("physical_offset").to_numpy()
            offsets: Any = batch.column("queue_offset").to_numpy()
            at = places == last.physical_offset
            for row in numpy.flatnonzero(at & (offsets == last.queue_offset)).tolist():
                if SourceRow.of(batch, row) != last:
                    raise UsageError(OTHER.format(last.physical_offset))
                seen = True
            after = (places > last.physical_offset) | (at & (offsets > last.queue_offset))
            batch = batch if after.all() else batch.filter(pa.array(after))
        yield batch
    if last is not None and not seen:
        raise UsageError(OTHER.format(last.physical_offset))


OTHER = (
    "the source no longer has the message at log offset {} that was replayed last; it is another one, or was "
    "made again: replay it into a new directory"
)


@dataclass(frozen=True)
class RowRules:
    """Rules for making records from rows.

    `puts`: configuration of a store that takes rows one by one, and refuses more than a bulk load; None for a load.
    """

    file_size: int
    max_size: int
    crc_property: bool = False  # records end with the checksum property
    system_topics: bool = False  # records of the broker's own topics are included
    puts: StoreConfig | None = None
    inner_topics: frozenset[str] = frozenset()
    skip_refused: bool = False  # rows that cannot be written are left out

    @property
    def largest(self) -> int:
        """The largest record in bytes that can be written."""
        return min(self.max_size, self.file_size - BLANK_SIZE)

    @property
    def most_properties(self) -> int:
        """The longest property string in bytes that can be written."""
        return MAX_PROPERTIES - (CRC_PROPERTY_SIZE if self.crc_property else 0)


def lacking(batch: pa.RecordBatch, row: int) -> str:
    """Return the first column of REQUIRED that a row has not; empty if it has all."""
    return next((name for name in REQUIRED if not batch.column(name)[row].is_valid), "")


def incomplete(batch: pa.RecordBatch) -> list[tuple[int, str]]:
    if not any(batch.column(name).null_count for name in REQUIRED):
        return []
    return [(row, f"it has no {name}") for row in range(batch.num_rows) if (name := lacking(batch, row))]


def messages(batch: pa.RecordBatch, rules: RowRules, left_out: Counter[str]) -> pa.RecordBatch:
    """Return the rows that are messages of a queue, in their order.

    These are left out and counted: prepared and rolled-back transaction records, which are in no queue; and records of
    the broker's own topics, which a broker that finds them would deliver or check again.
    """
    flags: Any = batch.column("sys_flag").fill_null(0).to_numpy(zero_copy_only=False)
    unqueued = flags & TRANSACTION_PREPARED != 0  # of prepared records, and of rolled-back ones
    keep = ~unqueued
    if not rules.system_topics:
        topic: Any = batch.column("topic").fill_null("")
        own: Any = pc.starts_with(topic, pattern=SYSTEM_TOPICS[0])
        for prefix in SYSTEM_TOPICS[1:]:
            own = pc.or_(own, pc.starts_with(topic, pattern=prefix))
        system = own.to_numpy(zero_copy_only=False)
        left_out[SYSTEM] += int((keep & system).sum())
        keep &= ~system
    left_out[NO_UNIT] += int(unqueued.sum())
    return batch if keep.all() else batch.filter(pa.array(keep))


class Records:
    """The rows of a batch as kernels/write/encode takes them."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch
        self.rows = batch.num_rows
        self.topics = _texts(batch.column("topic"))
        self.bodies = _texts(batch.column("body"))
        self.properties = _properties(batch.column("properties"))
        born, born_wide = _hosts(batch.column("born_host"))
        stored, stored_wide = _hosts(batch.column("store_host"))
        self.hosts = b"".join([*born[0], *stored[0]])
        self.born_hosts = born[1]
        self.store_hosts = stored[1] + sum(map(len, born[0]))
        flags = _numbers(batch, "sys_flag", numpy.int32) & ~(BORN_HOST_V6 | STORE_HOST_V6)
        self.sys_flags = flags | born_wide * numpy.int32(BORN_HOST_V6) | stored_wide * numpy.int32(STORE_HOST_V6)
        self._wide = born_wide.astype(numpy.int64) + stored_wide
        # A stored property string may lack its last separator: then the record is one byte shorter than this makes it.
        data, begins, ends = self.properties
        known = _numbers(batch, "size", numpy.int64)
        self._unended = (ends > begins) & (self._plain_sizes() == known + 1)
        self.properties = data, begins, ends - self._unended
        assert all(len(part[1]) == len(part[2]) == self.rows for part in (self.topics, self.bodies, self.properties))
        self.queue_offsets = numpy.zeros(self.rows, numpy.int64)
        self.store_times = _times(batch, "store_timestamp", LEAST_MS)
        self.born_times = _times(batch, "born_timestamp", LEAST_MS)
        self._columns: tuple[Any, ...] = ()

    def sizes(self, rules: RowRules) -> tuple[Any, Any]:
        """Return the bytes of each row's record, and of its properties."""
        sizes, properties = self._plain_sizes(), self.properties[2] - self.properties[1]
        if rules.crc_property:
            sizes = sizes + CRC_PROPERTY_SIZE + self._unended
        return sizes, properties

    def _plain_sizes(self) -> Any:
        """Return the bytes of each row's record without a checksum property."""
        topic, body, properties = (part[2] - part[1] for part in (self.topics, self.bodies, self.properties))
        return MIN_SIZE + topic + (topic > V1_TOPIC_LIMIT) + body + properties + WIDER_HOST * self._wide

    def count(self, queues: Queues) -> None:
        """Give each row the next offset of its queue; `queues` has the next offsets and is updated."""
        assert not self._columns  # the kernel has the offsets of before
        topics = self.batch.column("topic").dictionary_encode()
        names: list[Any] = topics.dictionary.to_pylist()
        ids = _numbers(self.batch, "queue_id", numpy.int64)
        keys = topics.indices.to_numpy(zero_copy_only=False).astype(numpy.int64) << 32 | ids & 0xFFFFFFFF
        found, inverse, counts = numpy.unique(keys, return_inverse=True, return_counts=True)
        order = numpy.argsort(inverse, kind="stable")
        nexts = numpy.empty(len(found), numpy.int64)
        for number, key in enumerate(found.tolist()):
            name = names[key >> 32], (key & 0xFFFFFFFF) - (key << 1 & 0x1_0000_0000)
            nexts[number] = queues.get(name, 0)
            queues[name] = int(nexts[number] + counts[number])
        begins = numpy.cumsum(counts) - counts
        self.queue_offsets[order] = numpy.arange(self.rows) + numpy.repeat(nexts - begins, counts)

    def rise(self, last: int) -> int:
        """Make store times never decrease, starting at `last` (ms); return that of the last row."""
        assert not self._columns  # the kernel has the times of before
        if self.rows:
            self.store_times = numpy.maximum(numpy.maximum.accumulate(self.store_times), last)
            last = int(self.store_times[-1])
        return last

    def append(self, room: LogRoom, first: int, last: int, reserve: int) -> tuple[int, int, int]:
        """Run kernels/write/encode over the rows first..last-1, with the kernel's result."""
        if not self._columns:
            self._columns = self._kernel_columns()
        return room.fill(first, last, reserve, self._columns)

    def _kernel_columns(self) -> tuple[Any, ...]:
        """Return the columns in the kernel's order, after queue offsets and store times are set."""
        columns: tuple[Any, ...] = (
            *self.bodies,
            *self.topics,
            *self.properties,
            self.hosts,
            self.born_hosts,
            self.store_hosts,
            _numbers(self.batch, "queue_id", numpy.int32),
            self.queue_offsets,
            _numbers(self.batch, "flag", numpy.int32),
            self.sys_flags,
            numpy.where(self.born_times == LEAST_MS, self.store_times, self.born_times),
            self.store_times,
            _numbers(self.batch, "reconsume_times", numpy.int32),
            _numbers(self.batch, "prepared_transaction_offset", numpy.int64),
            numpy.empty(self.rows, numpy.int64),  # receives the place of each record
        )
        # Plain buffers, because an uncompiled kernel needs Python's numbers.
        return tuple(each.data if isinstance(each, numpy.ndarray) else each for each in columns)


def _texts(column: Any) -> tuple[Any, Any, Any]:
    """Return the bytes of a column of strings, and the begin and end of each row."""
    _, offsets, data = column.buffers()
    ends = numpy.frombuffer(offsets, numpy.int32)[column.offset : column.offset + len(column) + 1].astype(numpy.int64)
    return b"" if data is None else memoryview(data).cast("B"), ends[:-1].copy(), ends[1:].copy()


def _properties(column: Any) -> tuple[Any, Any, Any]:
    """Make the property strings: `name 01 value 02` for each pair, without an old checksum."""
    bounds = numpy.frombuffer(column.buffers()[1], numpy.int32)[column.offset : column.offset + len(column) + 1]
    first = int(bounds[0])
    names, values = (each.slice(first, int(bounds[-1]) - first) for each in (column.keys, column.items))
    pairs: Any = pc.binary_join_element_wise(names, NAME_END, values, VALUE_END, "")
    old = pc.equal(names, pa.scalar(CRC32))
    if pc.any(old).as_py():
        pairs = pc.if_else(old, "", pairs)
    if not len(pairs):
        return b"", numpy.zeros(len(column), numpy.int64), numpy.zeros(len(column), numpy.int64)
    data, begins, ends = _texts(pairs)
    places = numpy.append(begins, ends[-1:])
    return data, places[bounds[:-1] - first], places[bounds[1:] - first]


def _hosts(column: Any) -> tuple[tuple[list[bytes], Any], Any]:
    """Return (raw hosts, where each row's host begins among them), and whether it is IPv6."""
    encoded = column.fill_null("").dictionary_encode()
    try:
        raw = [parse_host(text) if text else NO_HOST for text in encoded.dictionary.to_pylist()]
    except FormatError as error:
        raise UsageError(f"a born or store host of the source is not valid ({error.reason})") from error
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    widths = numpy.array([len(host) for host in raw], numpy.int64)
    return (raw, (numpy.cumsum(widths) - widths)[codes]), (widths > 8)[codes]


def _numbers(batch: pa.RecordBatch, name: str, kind: Any) -> Any:
    return numpy.ascontiguousarray(batch.column(name).fill_null(0).to_numpy(zero_copy_only=False), kind)


def _times(batch: pa.RecordBatch, name: str, unknown: int) -> Any:
    """Return a column of times in ms; `unknown` where the source has null."""
    times = batch.column(name).cast(pa.int64())
    known: Any = times.is_valid().to_numpy(zero_copy_only=False)
    return numpy.where(known, times.fill_null(0).to_numpy(zero_copy_only=False) // 1000, unknown)
