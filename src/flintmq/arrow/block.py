"""The output arrays of one batch: planned, filled by the kernel, turned into Arrow arrays without a copy.

All columns of a batch share three buffers (64-bit numbers, 32-bit numbers and offsets, bytes), each column owning a
section of each. Three allocations a batch from Arrow's pool are cheaper than one a column, and pages that the pool
hands out again are present already, where fresh ones would cost more than the copying.

How large the sections of text must be is not known beforehand. `Rates` learns it from the block before; a section that
is full all the same ends the block early, which costs a smaller batch and nothing else.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from flintmq.arrow.schema import MAP, US
from flintmq.kernels import columns as kernel

# Column -> (kind, position in a record with two IPv4 hosts); store format 3.1.
_NUMBERS = {
    "queue_id": (kernel.INT32, 12),
    "queue_offset": (kernel.INT64, 20),
    "born_timestamp": (kernel.INT64, 40),
    "store_timestamp": (kernel.INT64, 56),
    "physical_offset": (kernel.INT64, 28),
    "size": (kernel.INT32, 0),
    "flag": (kernel.INT32, 16),
    "sys_flag": (kernel.INT32, 36),
    "reconsume_times": (kernel.INT32, 72),
    "prepared_transaction_offset": (kernel.INT64, 76),
    "body_crc": (kernel.UINT32, 8),
}
_TEXTS = {
    "topic": kernel.TOPIC,
    "body": kernel.BODY,
    "offset_msg_id": kernel.OFFSET_MSG_ID,
    "born_host": kernel.BORN_HOST,
    "store_host": kernel.STORE_HOST,
    "magic": kernel.MAGIC,
}
# What the properties give, in the order of the kernel's six plan rows; "names" and "values" make up the map.
_PROPERTIES = ("properties", "names", "values", "tags", "keys", "msg_id")

_SPARE_BYTES = 1024  # of each text section, over what the rate says
_SPARE_PAIRS = 64
_MOST_PROPERTY_BYTES = 65_536  # of one record: their length is a 16-bit number
_LARGEST = 0x7FFFFF00 - kernel.SLACK  # bytes of one section: offsets are 32-bit numbers


@dataclass
class Rates:
    """What a row takes: bytes of each text, and pairs ("properties"). Learned from block to block."""

    of: dict[str, float] = field(default_factory=dict)

    def rate(self, name: str) -> float:
        """Bytes (or pairs) a row, so far."""
        return self.of.get(name, 4.0 if name == "properties" else 40.0)

    def row_bytes(self, schema: pa.Schema) -> float:
        """Bytes that all columns of a row take."""
        total = 0.0
        for name in schema.names:
            if name == "properties":
                total += self.rate("names") + self.rate("values") + 8 * self.rate("properties")
            elif name not in _NUMBERS:
                total += self.rate(name)
            total += 8
        return total

    def room(self, name: str, rows: int) -> int:
        """Bytes (or pairs) for this many rows, an eighth more than expected."""
        spare = _SPARE_PAIRS if name == "properties" else _SPARE_BYTES
        return min(int(rows * self.rate(name) * 1.125) + spare, _LARGEST)

    def learn(self, name: str, used: int, rows: int, full: bool) -> None:
        """Take what a block needed; a section that was full gets half as much again."""
        self.of[name] = used / rows * (1.5 if full else 1.0)

    def need(self, name: str, amount: int, rows: int) -> None:
        """A single record needs this much."""
        self.of[name] = max(self.of.get(name, 0.0), amount / rows)


class Block:
    """Columns of up to `rows` records being gathered.

    Args:
        schema: the columns wanted, from flintmq.arrow.schema.
        rows: most rows.
        rates: tells the size of the sections, and learns.
        note_compressed: leave bodies with the compressed flag to the caller (they are noted, and empty until patched).

    Attributes:
        count: rows there are.
        patched_bytes: bytes of the values that were patched in.
    """

    def __init__(self, schema: pa.Schema, rows: int, rates: Rates, note_compressed: bool = False) -> None:
        self.schema, self.rows, self.rates = schema, max(1, rows), rates
        self.count = self.patched_bytes = 0
        self._patches: dict[str, list[tuple[int, Any]]] = {}
        self._plan = array("q")
        self._plan_names: list[str] = []
        self._sizes = [0, 0, 0]  # of longs, ints and bytes, in items
        for name in schema.names:
            if name in _NUMBERS:
                kind, position = _NUMBERS[name]
                micro = schema.field(name).type == US
                wide = kind != kernel.INT32
                self._add(
                    name,
                    kernel.MICROSECONDS if micro else kind,
                    position,
                    longs=self.rows if wide else 0,
                    ints=0 if wide else self.rows + 1,
                    bits=self.rows if micro else 0,
                )
            elif name in _TEXTS:
                room = rates.room(name, self.rows)
                self._add(name, _TEXTS[name], int(note_compressed), ints=self.rows + 1, text=room)
        if not set(_PROPERTIES).isdisjoint(schema.names):
            self._add_properties()
        self._allocate()

    def _add_properties(self) -> None:
        rows, rates = self.rows, self.rates
        mapped = int("properties" in self.schema.names)
        pairs = rates.room("properties", rows) if mapped else 0
        self._add("properties", kernel.PROPERTIES, pairs, ints=(rows + 1) * mapped)
        for kind, name in ((kernel.NAMES, "names"), (kernel.VALUES, "values")):
            self._add(name, kind, mapped, ints=(pairs + 1) * mapped, text=rates.room(name, rows) * mapped)
        for kind, name in ((kernel.TAGS, "tags"), (kernel.KEYS, "keys"), (kernel.UNIQ_KEY, "msg_id")):
            on = int(name in self.schema.names)
            self._add(name, kind, on, ints=(rows + 1) * on, text=rates.room(name, rows) * on, bits=rows * on)

    def _add(
        self, name: str, kind: int, number: int, longs: int = 0, ints: int = 0, text: int = 0, bits: int = 0
    ) -> None:
        """Append a plan row; sections begin at multiples of 64 bytes, as Arrow likes them."""
        at_longs, at_ints, at_text = self._sizes
        text = text + kernel.SLACK if text else 0
        at_bits = at_text + _round_up(text, 64)
        self._plan.extend((kind, number, at_longs, at_ints, at_text, at_text + text, at_bits))
        self._plan_names.append(name)
        self._sizes[0] += _round_up(longs, 8)
        self._sizes[1] += _round_up(ints, 16)
        self._sizes[2] = at_bits + _round_up((bits + 7) // 8, 64)

    def _allocate(self) -> None:
        longs, ints, text = self._sizes
        self._buffers = [pa.allocate_buffer(max(64, n)) for n in (8 * longs, 4 * ints, text)]
        self.longs = memoryview(self._buffers[0]).cast("B").cast("q")
        self.ints = memoryview(self._buffers[1]).cast("B").cast("i")
        self.text = memoryview(self._buffers[2]).cast("B")
        for at in range(0, len(self._plan), kernel.PLAN_ROW):
            if self._plan[at] > kernel.MICROSECONDS and self._plan[at + 3] < len(self.ints):
                self.ints[self._plan[at + 3]] = 0

    def gather(self, data: Any, positions: Any, first: int, last: int, notes: Any) -> tuple[int, int]:
        """Append the records at positions[first:last]; what kernels.columns.gather returns."""
        taken, why = kernel.gather(
            data, positions, first, last, self._plan, self.count, self.rows, self.longs, self.ints, self.text, notes
        )
        self.count += taken
        return taken, why

    def name_of(self, column: int) -> str:
        """Name of the column with this number in the plan."""
        return self._plan_names[column]

    def patch(self, row: int, values: dict[str, Any]) -> None:
        """Values (by column) for a row that was noted; rows come in ascending order."""
        for name in self.schema.names:
            if name in values:
                self._patches.setdefault(name, []).append((row, values[name]))
                self.patched_bytes += len(values[name] or ())

    def cut(self, count: int) -> None:
        """Take rows back, so that `count` are left. None of the others has been patched."""
        self.count = count

    def _used(self, name: str) -> int:
        """Bytes of text (of "properties": pairs) that the rows there are take."""
        at = kernel.PLAN_ROW * self._plan_names.index(name)
        row = self._used("properties") if name in ("names", "values") else self.count
        return int(self.ints[self._plan[at + 3] + row])

    def bytes(self) -> int:
        """About how many bytes the rows there are take."""
        total = self.count * 8 * len(self._plan_names) + self.patched_bytes
        for name in self._text_names():
            total += self._used(name)
        return total

    def _text_names(self) -> list[str]:
        texts = [name for name in _TEXTS if name in self.schema.names]
        texts += [name for name in ("tags", "keys", "msg_id") if name in self.schema.names]
        return texts + (["names", "values"] if "properties" in self.schema.names else [])

    def make_room(self, why: int, record_bytes: int) -> None:
        """Learn that a section was too small for a single record of this size; make a new block afterwards."""
        name = self.name_of(why)
        for full in _PROPERTIES if name == "properties" else (name,):
            most = record_bytes if full in ("body", "topic") else min(record_bytes, _MOST_PROPERTY_BYTES)
            self.rates.need(full, 64 if full == "properties" else most, self.rows)

    def finish(self, why: int) -> pa.RecordBatch:
        """The batch of the rows there are. The block must not be used afterwards: the batch holds its memory."""
        count = self.count
        full = self.name_of(why) if why >= 0 else ""
        for name in self._text_names() + (["properties"] if "properties" in self.schema.names else []):
            in_group = full == "properties" and name in _PROPERTIES
            self.rates.learn(name, self._used(name), max(1, count), name == full or in_group)
        arrays = []
        for name in self.schema.names:
            column = self._column(name, count)
            arrays.append(_patched(column, self._patches[name]) if name in self._patches else column)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _column(self, name: str, count: int) -> pa.Array[Any]:
        at = kernel.PLAN_ROW * self._plan_names.index(name)
        kind, _, at_longs, at_ints, at_text, _, at_bits = self._plan[at : at + kernel.PLAN_ROW]
        type_ = self.schema.field(name).type if name in self.schema.names else pa.string()
        if kind == kernel.INT32:
            return pa.Array.from_buffers(type_, count, [None, self._buffers[1].slice(4 * at_ints, 4 * count)], 0)
        if kind < kernel.MAGIC:
            bits = self._buffers[2].slice(at_bits, (count + 7) // 8) if kind == kernel.MICROSECONDS else None
            longs = self._buffers[0].slice(8 * at_longs, 8 * count)
            return pa.Array.from_buffers(type_, count, [bits, longs], -1 if bits else 0)
        offsets = self._buffers[1].slice(4 * at_ints, 4 * count + 4)
        if kind == kernel.PROPERTIES:
            pairs = self._used("properties")
            both = [self._column("names", pairs), self._column("values", pairs)]
            entries = pa.StructArray.from_buffers(_ENTRIES, pairs, [None], 0, children=both)
            return pa.Array.from_buffers(MAP, count, [None, offsets], 0, children=[entries])
        nullable = kind in (kernel.TAGS, kernel.KEYS, kernel.UNIQ_KEY)
        bits = self._buffers[2].slice(at_bits, (count + 7) // 8) if nullable else None
        text = self._buffers[2].slice(at_text, self._used(name))
        return pa.Array.from_buffers(type_, count, [bits, offsets, text], -1 if nullable else 0)


_ENTRIES = pa.struct([MAP.key_field, MAP.item_field])


def _round_up(number: int, to: int) -> int:
    return (number + to - 1) // to * to


def _patched(column: pa.Array[Any], patches: list[tuple[int, Any]]) -> pa.Array[Any]:
    """The column with some rows replaced: neighbouring patches become one array, what is between them a slice."""
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
