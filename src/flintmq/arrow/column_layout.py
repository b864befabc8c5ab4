"""Lays out the columns of a batch in its memory, and sizes their sections.

One allocation holds a whole batch: the header of an Arrow IPC message (see ipc_template), then a section for each
column's numbers, offsets, bytes and validity bits, at multiples of 64 bytes. The bytes of text in a row are not known
beforehand: Rates estimates them from batch to batch. Every column is made by the kernel, one derived from another field
too; a new kind of column goes after the last one in `kernels/read/gather.py`.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from flintmq.arrow.ipc_template import Envelope
from flintmq.arrow.schema import US, has_views
from flintmq.kernels.read import gather as kernel
from flintmq.kernels.read.column_kinds import NAMED, NUMBERS, TEXTS
from flintmq.kernels.read.record_parts import MOST_PAIRS

# Before NAMED in the order of the kernel's six plan rows; "names" and "values" make up the map.
MAP_PARTS = ("properties", "names", "values")

_SPARE_BYTES = 1024  # of each section of text, more than the rate requires
_SPARE_PAIRS = 64
_LARGEST = 0x7FFFFF00 - kernel.SLACK  # bytes of one section: offsets are 32-bit numbers
_MOST_PROPERTY_BYTES = 65_536  # of one record: their length is a 16-bit number


@dataclass
class Rates:
    """Estimated size of a row: bytes of each text, and number of pairs ("properties").

    Thread: may be shared; a lost update only makes a section larger or smaller than ideal.
    """

    of: dict[str, float] = field(default_factory=dict)

    def rate(self, name: str) -> float:
        """Return the estimated bytes (or pairs) per row."""
        return self.of.get(name, 4.0 if name == "properties" else 40.0)

    def row_bytes(self, schema: pa.Schema) -> float:
        """Return the estimated bytes of all columns of a row.

        With views, an eighth of the log that they hold counts too.
        """
        if has_views(schema):
            sizes = {"properties": 32 * self.rate("properties"), "offset_msg_id": 36}
            texts = [sizes.get(name, 16) for name in schema.names if name not in NUMBERS]
            return sum(texts) + 8 * (len(schema.names) - len(texts)) + self.rate("body") / 8
        total = 8.0 * len(schema.names)
        for name in schema.names:
            if name == "properties":
                total += self.rate("names") + self.rate("values") + 8 * self.rate("properties")
            elif name not in NUMBERS:
                total += self.rate(name)
        return total

    def room(self, name: str, rows: int) -> int:
        """Return the bytes (or pairs) to reserve for this many rows: an eighth more than estimated."""
        spare = _SPARE_PAIRS if name == "properties" else _SPARE_BYTES
        return min(int(rows * self.rate(name) * 1.125) + spare, _LARGEST)

    def learn(self, name: str, used: int, rows: int, full: bool) -> None:
        """Update an estimate from a batch; a section that was full gets half as much again."""
        self.of[name] = used / max(1, rows) * (1.5 if full else 1.0)

    def need(self, name: str, record_bytes: int, rows: int) -> None:
        """Raise an estimate after one record of this size did not fit among `rows` of them."""
        if name == "properties":
            amount = MOST_PAIRS
        else:
            amount = record_bytes if name in ("body", "topic") else min(record_bytes, _MOST_PROPERTY_BYTES)
        self.of[name] = max(self.rate(name), amount / rows)


class Section(NamedTuple):
    """The place of a column, from the start of the memory."""

    kind: int  # kind, number: as the kernel's plan has them
    number: int
    at_longs: int
    at_ints: int
    at_text: int
    end_text: int
    at_bits: int


class ColumnLayout:
    """Sections for the columns of a schema.

    `note_compressed`: leave bodies with the compressed flag to the caller. Thread: any.

    `texts`: columns that have bytes, and "properties" if there is a map.
    """

    def __init__(self, envelope: Envelope, rows: int, rates: Rates, note_compressed: bool = False) -> None:
        self.envelope, self.rows = envelope, max(1, rows)
        self.plan = array("q")  # for the kernel: the sections, one row after another
        self.names: list[str] = []
        self.sections: dict[str, Section] = {}
        self.size = envelope.size  # bytes of the whole memory
        schema = envelope.schema
        for name in schema.names:
            if name in NUMBERS:
                self._add_number(name, micro=schema.field(name).type == US)
            elif name in TEXTS:
                self._add_text(name, rates, note_compressed)
        if "properties" in schema.names or not NAMED.keys().isdisjoint(schema.names):
            self._add_properties(rates, "properties" in schema.names)
        wanted = {*schema.names, *(MAP_PARTS if "properties" in schema.names else ())}
        self.texts = [name for name in self.names if name in wanted and name not in NUMBERS]

    def _add_number(self, name: str, micro: bool) -> None:
        kind, position = NUMBERS[name]
        if kind == kernel.INT32:
            self._add(name, kind, position, ints=self.rows + 1)
        elif micro:
            self._add(name, kernel.MICROSECONDS, position, longs=self.rows, bits=self.rows)
        else:
            self._add(name, kind, position, longs=self.rows)

    def _add_text(self, name: str, rates: Rates, note_compressed: bool) -> None:
        room = rates.room(name, self.rows)
        self._add(name, TEXTS[name], int(note_compressed), ints=self.rows + 1, text=room)

    def _add_properties(self, rates: Rates, mapped: bool) -> None:
        rows = self.rows
        pairs = rates.room("properties", rows) if mapped else 0
        self._add("properties", kernel.PROPERTIES, pairs, ints=(rows + 1) * mapped)
        for kind, name in ((kernel.NAMES, "names"), (kernel.VALUES, "values")):
            self._add(name, kind, int(mapped), ints=(pairs + 1) * mapped, text=rates.room(name, rows) * mapped)
        for name, kind in NAMED.items():
            on = int(name in self.envelope.schema.names)
            self._add(name, kind, on, ints=(rows + 1) * on, text=rates.room(name, rows) * on, bits=rows * on)

    def _add(
        self, name: str, kind: int, number: int, longs: int = 0, ints: int = 0, text: int = 0, bits: int = 0
    ) -> None:
        at_longs = self._take(8 * longs) // 8
        at_ints = self._take(4 * ints) // 4
        text += kernel.SLACK if text else 0
        at_text = self._take(text)
        section = Section(kind, number, at_longs, at_ints, at_text, at_text + text, self._take((bits + 7) // 8))
        assert name not in self.sections and number >= 0
        self.plan.extend(section)
        self.names.append(name)
        self.sections[name] = section

    def _take(self, count: int) -> int:
        assert self.size % 64 == 0  # Arrow wants its buffers aligned, and the kernel its numbers
        at: int = self.size
        self.size += -(-count // 64) * 64
        return at
