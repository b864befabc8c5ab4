"""Makes record batches from pieces of the log.

Goal: batches of a size that suits consumers, whatever the pieces are: many small records, few records that pass a
predicate, one record that is larger than a piece. Plan: a ColumnBlock takes rows from piece after piece until it has
enough. The kernel decodes the rows and notes unusual values (text that is not UTF-8, repeated property names, IPv6
hosts, bodies to decompress); the slow and exact code here decodes those, and patches them in when the batch is made.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import groupby
from mmap import mmap
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flintmq.arrow.column_block import ColumnBlock
from flintmq.arrow.column_layout import MAP_PARTS, ColumnLayout, Rates
from flintmq.arrow.ipc_template import envelope_of
from flintmq.arrow.options import DEFAULT, BatchOptions
from flintmq.arrow.schema import has_views
from flintmq.arrow.view_block import NoEnvelope, ViewBlock, ViewLayout
from flintmq.errors import CorruptStoreError, FormatError
from flintmq.format.compression import original_body
from flintmq.format.message_id import host_text
from flintmq.format.record_view import size_at
from flintmq.kernels.read import gather as kernel
from flintmq.kernels.read.gather_views import copy_records
from flintmq.message import StoredMessage, stored_message
from flintmq.store.commitlog.predicate import Predicate, Selector
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.walk import Piece

LARGEST_BATCH = 1 << 30  # largest size to ask for: offsets are 32-bit, and one body may exceed the size


def record_batches(
    pieces: Iterable[Piece],
    schema: pa.Schema,
    predicate: Predicate | None = None,
    options: BatchOptions = DEFAULT,
    report: Report | None = None,
    rates: Rates | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield batches of the wanted columns of the wanted records, in log order.

    Memory: about three batches of `batch_bytes`, one piece, and one record or decompressed body. `rates`: sizes of such
    records, learned in another call; they are updated.
    """
    selector = Selector(predicate) if predicate is not None and not predicate.everything else None
    oddities = Oddities(options.decompress, options.strict, report if report is not None else Report())
    batch_bytes, max_rows = min(options.batch_bytes, LARGEST_BATCH), max(1, options.max_rows)
    gatherer = Gatherer(schema, oddities, batch_bytes, max_rows, rates or Rates())
    for piece in pieces:
        count = piece.count if selector is None else selector.select(piece)
        if count:
            yield from gatherer.take(piece, count)
    yield from gatherer.finish()


def joined(parts: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Join batches into one, or into more if a column would be too large for its offsets."""
    return parts if len(parts) < 2 else pa.Table.from_batches(parts).combine_chunks().to_batches()


class Gatherer:
    """Fills blocks from pieces and makes batches of them; used by `record_batches`."""

    def __init__(self, schema: pa.Schema, oddities: Oddities, batch_bytes: int, max_rows: int, rates: Rates) -> None:
        self.oddities, self.rates = oddities, rates
        self.viewing = has_views(schema)
        self.envelope = NoEnvelope(schema) if self.viewing else envelope_of(schema)
        self.batch_bytes, self.max_rows = batch_bytes, max_rows
        self.layout: ColumnLayout | None = None
        self.block: ColumnBlock | None = None
        self.notes = array("q", bytes(8 * kernel.NOTES))
        self.scratch = bytearray()
        self.few, self.few_used = memoryview(b""), 0  # memory that copied records of some pieces share
        self.parts: list[pa.RecordBatch] = []  # of one batch, which full sections have divided
        self.part_rows = 0

    def take(self, piece: Piece, count: int) -> Iterator[pa.RecordBatch]:
        """Append piece.positions[:count], and yield the batches that become full."""
        first = 0
        if self.viewing:
            piece = self._without_others(piece, count)
        while first < count:
            block = self.block or self._new_block(piece, count)
            before = block.count
            taken, why = block.gather(piece.data, piece.positions, first, count, self.notes)
            if self.notes[0]:
                taken = self._mend(block, piece, first, taken, before)
            assert 0 <= taken <= count - first
            first += taken
            if block.count == 0:  # a single record is larger than a section
                self._make_room(block.layout, why, size_at(piece.data, piece.positions[first]))
            elif why not in (kernel.DONE, kernel.NOTES_FULL) or self._holds_enough(block):
                yield from self._close(block, why)

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield the remaining rows; more may be appended afterwards."""
        if self.block is not None and self.block.count:
            yield from self._close(self.block, kernel.DONE)
        yield from self._join()

    def _new_block(self, piece: Piece, count: int) -> ColumnBlock:
        """Make a block with the last layout, unless that was too small or much too large."""
        if self.layout is None:
            if "body" not in self.rates.of:
                self.rates.of["body"] = sum(
                    size_at(piece.data, piece.positions[i]) for i in range(min(count, 64))
                ) / min(count, 64)
            assert self.part_rows < self.max_rows  # parts with all rows of a batch were joined
            rows = min(self._ideal_rows(), self.max_rows - self.part_rows)
            kind = ViewLayout if self.viewing else ColumnLayout
            self.layout = kind(self.envelope, rows, self.rates, self.oddities.decompress)
        self.block = ViewBlock(self.layout) if isinstance(self.layout, ViewLayout) else ColumnBlock(self.layout)
        return self.block

    def _without_others(self, piece: Piece, count: int) -> Piece:
        """Copy the wanted records where views of them would hold more than twice their bytes.

        They hold the whole piece if it is memory, and of a map the bytes from the first record to the last.
        """
        begin, last = piece.positions[0], piece.positions[count - 1]
        span = last + size_at(piece.data, last) - begin
        mapped = isinstance(piece.data.obj, mmap)
        held = span if mapped else len(piece.data)
        if count == piece.count and 2 * span >= held:  # records of a piece follow each other
            return piece
        most = max(held // 2, _FEW if mapped else 0)
        if len(self.scratch) < most:
            self.scratch = bytearray(most)
        positions = array("q", bytes(8 * count))
        try:
            used = copy_records(piece.data, piece.positions, count, memoryview(self.scratch)[:most], positions)
        except ValueError:  # there is no room for them in a half
            return piece
        begin = self._keep(used)
        moved: Any = pc.add(pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(positions)]), begin)
        positions = array("q", memoryview(moved.buffers()[1]).cast("q")[:count])
        return replace(piece, data=self.few, positions=memoryview(positions))

    def _keep(self, count: int) -> int:
        """Move bytes from the scratch to memory that batches may hold; return their position there."""
        if len(self.few) - self.few_used < count:
            size = max(count, min(max(2 * len(self.few), _FEW), _MOST_FEW))
            self.few, self.few_used = memoryview(pa.allocate_buffer(size)).cast("B"), 0
        begin = self.few_used
        self.few_used += count
        self.few[begin : self.few_used] = memoryview(self.scratch)[:count]
        return begin

    def _holds_enough(self, block: ColumnBlock) -> bool:
        """Return whether to close a block that has room: it has many patches, or holds much log."""
        return block.patched_bytes >= self.batch_bytes or block.held >= _HELD * self.batch_bytes

    def _ideal_rows(self) -> int:
        return min(int(self.batch_bytes / self.rates.row_bytes(self.envelope.schema)) + 1, self.max_rows)

    def _fits(self, layout: ColumnLayout) -> bool:
        """Return whether the layout still has about the right size for the rates."""
        needed = layout.rows * self.rates.row_bytes(self.envelope.schema)
        return 0.8 < layout.rows / self._ideal_rows() < 1.25 and layout.size < 1.5 * needed + _SPARE

    def _make_room(self, layout: ColumnLayout, why: int, record_bytes: int) -> None:
        assert why >= 0  # a block that takes no row has a full section; else this would be tried for ever
        full = layout.names[why]
        for name in MAP_PARTS if full == "properties" else (full,):
            self.rates.need(name, record_bytes, layout.rows)
        self.block = self.layout = None

    def _mend(self, block: ColumnBlock, piece: Piece, first: int, taken: int, before: int) -> int:
        """Decode the values that the kernel left.

        Returns:
            How many rows stay: fewer if decompressed bodies fill the block.
        """
        noted = sorted(
            (self.notes[at], self.notes[at + 1])
            for at in range(1, self.notes[0] + 1, 2)
            if self.notes[at] < first + taken
        )
        for index, notes in groupby(noted, key=itemgetter(0)):
            row = before + index - first
            for _, column in notes:
                name = block.layout.names[column]
                block.patch(row, self.oddities.values(piece, piece.positions[index], name))
            if block.patched_bytes >= self.batch_bytes:
                block.take_back(row + 1)
                return int(index) + 1 - first
        return taken

    def _close(self, block: ColumnBlock, why: int) -> Iterator[pa.RecordBatch]:
        assert block.count > 0  # an empty batch tells nothing of sizes
        block.learn(self.rates, why)
        self.parts.append(block.finish())
        self.part_rows += block.count
        if why >= 0 or not self._fits(block.layout):
            self.layout = None
        self.block = None
        self.few, self.few_used = memoryview(b""), 0
        whole = why < 0 or 2 * block.count >= block.layout.rows or block.patched_bytes > 0
        if whole or self.part_rows >= self.max_rows or len(self.parts) == _MOST_PARTS:
            yield from self._join()

    def _join(self) -> Iterator[pa.RecordBatch]:
        parts, self.parts, self.part_rows = self.parts, [], 0
        yield from joined(parts)


_MOST_PARTS = 8
_HELD = 2  # times batch_bytes that views may hold of the log
_SPARE = 64 << 10
_FEW = 64 << 10  # bytes that are copied rather than held by a buffer of their own
_MOST_FEW = 1 << 20  # bytes of memory for copies that are reserved at once


class Oddities:
    """Decodes the values that the kernel does not decode."""

    def __init__(self, decompress: bool, strict: bool, report: Report) -> None:
        self.decompress, self.strict, self.report = decompress, strict, report

    def values(self, piece: Piece, at: int, name: str) -> dict[str, Any]:
        """Return column -> value of the record at piece.data[at], for a column that was noted."""
        message = stored_message(piece.data, at)
        if name == "body":
            return {name: self._body(piece, at, message)}
        if name.endswith("_host"):
            return {name: _host(getattr(message.fields, name))}
        if name == "properties":
            pairs = list(message.properties.items())
            return {"properties": pairs, "tags": message.tags, "keys": message.keys, "msg_id": message.msg_id}
        return {name: getattr(message, name)}

    def _body(self, piece: Piece, at: int, message: StoredMessage) -> bytes:
        try:
            return original_body(message.body, message.sys_flag)
        except FormatError as error:
            if self.report.undecoded is not None:
                self.report.undecoded.add(message.physical_offset)
                return message.body
            position = message.physical_offset - piece.file.start  # `at` may be a place in a copy
            if self.strict:
                advice = "read without decompress to get it as stored"
                raise CorruptStoreError(piece.file.path, position, error.reason, advice) from None
            self.report.note("undecodable_body", f"{piece.file.path}, position {position}: {error.reason}")
            return message.body


@lru_cache(4096)
def _host(raw: bytes) -> str:
    return host_text(raw)
