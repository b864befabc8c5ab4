"""Holds the memory of one batch: filled by the kernel, made a record batch without a copy.

A full section of text ends the block before the record that did not fit. That costs nothing but a smaller batch; the
layout of the next block has a larger section.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa

from flintmq.arrow.column_layout import MAP_PARTS, ColumnLayout, Rates, Section
from flintmq.kernels.read import gather as kernel
from flintmq.kernels.read.column_kinds import NAMED, NUMBERS


class ColumnBlock:
    """Columns of up to `layout.rows` records being gathered.

    Attributes:
        patched_bytes: bytes of the values that were patched in.
        held: bytes of the log that the batch will hold.
    """

    def __init__(self, layout: ColumnLayout) -> None:
        self.layout = layout
        self.count = self.patched_bytes = self.held = 0
        self._patches: dict[str, list[tuple[int, Any]]] = {}
        self._memory = pa.allocate_buffer(layout.size)
        self.bytes = memoryview(self._memory).cast("B")
        self.ints, self.longs = self.bytes.cast("i"), self.bytes.cast("q")
        for name in layout.texts:
            self.ints[layout.sections[name].at_ints] = 0

    def gather(self, data: Any, positions: Any, first: int, last: int, notes: Any) -> tuple[int, int]:
        """Append the records at positions[first:last]; return the result of the kernel's `gather`."""
        taken, why = kernel.gather(
            data,
            positions,
            first,
            last,
            self.layout.plan,
            self.count,
            self.layout.rows,
            self.longs,
            self.ints,
            self.bytes,
            notes,
        )
        assert taken <= self.layout.rows - self.count
        self.count += taken
        return taken, why

    def patch(self, row: int, values: dict[str, Any]) -> None:
        """Set values (by column) of a row that was noted; rows come in ascending order."""
        for name in self.layout.envelope.schema.names:
            if name in values:
                self._patches.setdefault(name, []).append((row, values[name]))
                self.patched_bytes += len(values[name] or ())

    def take_back(self, count: int) -> None:
        """Remove rows so that `count` are left. None of the removed rows has been patched."""
        assert 0 < count <= self.count
        assert all(patches[-1][0] < count for patches in self._patches.values())
        self.count = count

    def used(self, name: str) -> int:
        """Return the bytes of text that the rows take (of "properties": the number of pairs)."""
        rows = self.used("properties") if name in ("names", "values") else self.count
        return int(self.ints[self.layout.sections[name].at_ints + rows])

    def learn(self, rates: Rates, why: int) -> None:
        """Pass the sizes of the rows to the rates; `why` is the reason that ended the block."""
        full = self.layout.names[why] if why >= 0 else ""
        for name in self.layout.texts:
            is_full = name == full or (full == "properties" and name in MAP_PARTS)
            rates.learn(name, self.used(name), self.count, is_full)

    def finish(self) -> pa.RecordBatch:
        """Make the batch of the rows. It holds the block's memory: do not use the block afterwards."""
        nodes: list[int] = []
        buffers: list[int] = []
        schema = self.layout.envelope.schema
        for name in schema.names:
            section = self.layout.sections[name]
            if name in NUMBERS:
                self._number(section, nodes, buffers)
            elif name == "properties":
                pairs = self.used(name)
                nodes += (self.count, 0, pairs, 0)
                buffers += (0, 0, *self._offsets(section, self.count), 0, 0)
                for part in ("names", "values"):
                    self._text(part, pairs, nodes, buffers)
            else:
                self._text(name, self.count, nodes, buffers)
        batch = self.layout.envelope.seal(self._memory, self.count, nodes, buffers)
        if self._patches:
            columns = [
                patched(column, self._patches[name]) if name in self._patches else column
                for name, column in zip(schema.names, batch.columns, strict=True)
            ]
            batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        return batch

    def _number(self, section: Section, nodes: list[int], buffers: list[int]) -> None:
        body = self.layout.envelope.size
        if section.kind == kernel.MICROSECONDS:
            self._validity(section, nodes, buffers)
        else:
            nodes += (self.count, 0)
            buffers += (0, 0)
        if section.kind == kernel.INT32:
            buffers += (4 * section.at_ints - body, 4 * self.count)
        else:
            buffers += (8 * section.at_longs - body, 8 * self.count)

    def _text(self, name: str, count: int, nodes: list[int], buffers: list[int]) -> None:
        section = self.layout.sections[name]
        if name in NAMED:
            self._validity(section, nodes, buffers)
        else:
            nodes += (count, 0)
            buffers += (0, 0)
        buffers += (*self._offsets(section, count), section.at_text - self.layout.envelope.size, self.used(name))

    def _offsets(self, section: Section, count: int) -> tuple[int, int]:
        return 4 * section.at_ints - self.layout.envelope.size, 4 * count + 4

    def _validity(self, section: Section, nodes: list[int], buffers: list[int]) -> None:
        whole, rest = divmod(self.count, 8)
        bits = self.bytes[section.at_bits : section.at_bits + whole + (rest > 0)]
        valid = int.from_bytes(bits[:whole], "little").bit_count()
        if rest:
            valid += (bits[whole] & (1 << rest) - 1).bit_count()
        nodes += (self.count, self.count - valid)
        buffers += (section.at_bits - self.layout.envelope.size, len(bits))


def patched(column: pa.Array[Any], patches: list[tuple[int, Any]]) -> pa.Array[Any]:
    """Replace some rows of a column: neighbouring patches become one array, the rest slices."""
    assert all(one[0] < other[0] for one, other in pairwise(patches))  # one a row, in order: slices lie between them
    parts: list[pa.Array[Any]] = []
    done = at = 0
    while at < len(patches):
        stop = at + 1
        while stop < len(patches) and patches[stop][0] == patches[stop - 1][0] + 1:
            stop += 1
        row = patches[at][0]
        parts.append(column.slice(done, row - done))
        parts.append(pa.array([value for _, value in patches[at:stop]], type=column.type))
        done, at = row + stop - at, stop
    parts.append(column.slice(done))
    return pa.concat_arrays(parts)
