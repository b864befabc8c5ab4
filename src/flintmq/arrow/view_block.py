"""Holds the memory of a batch whose text and bodies are views of the log.

The kernel writes numbers, views (16 bytes each, see kernels/read/gather_views.py) and codes of dictionaries into the
block's memory. The batch holds that memory and, of each piece, the bytes between its first and its last row. So a batch
that is written, pickled or sent takes the bytes of its own rows along, not those of a whole file. Rows whose views
would hold much more of the log were copied before (batches.py); the copies of a batch share a few buffers.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any

import pyarrow as pa

from flintmq.arrow.column_block import ColumnBlock, patched
from flintmq.arrow.column_layout import ColumnLayout, Rates, Section
from flintmq.arrow.ipc_template import Envelope
from flintmq.arrow.schema import CODES
from flintmq.format.record_view import size_at
from flintmq.kernels.read import gather as kernel
from flintmq.kernels.read import gather_views
from flintmq.kernels.read.column_kinds import NAMED, NUMBERS

LONGEST = 0x7FFFFFFF  # bytes of one buffer: offsets in views are 32-bit numbers
GAP = 1 << 16  # bytes of unwanted records within a buffer: to hold them costs less than another buffer
_HOST_BYTES = 24  # room for the longest host, an entry of a dictionary
_LONGEST_TOPIC = 1 << 15
_CODES = {
    "topic": kernel.TOPIC_CODE,
    "born_host": kernel.BORN_HOST_CODE,
    "store_host": kernel.STORE_HOST_CODE,
    "magic": kernel.MAGIC_CODE,
}
_NAMED_VIEWS = {"tags": kernel.TAGS_VIEW, "keys": kernel.KEYS_VIEW, "msg_id": kernel.UNIQ_KEY_VIEW}
# From buffers: pa.array of a list imports pandas where that is installed, a fifth of a second of every start.
_MAGIC = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(struct.pack("=3i", 0, 2, 4)), pa.py_buffer(b"V1V2")])
_VIEW_KINDS = frozenset((kernel.BODY_VIEW, *range(kernel.PROPERTY_VIEWS, kernel.UNIQ_KEY_VIEW + 1)))
_INLINE = 12  # bytes of a text that is within its view
_WORD = pa.binary(16)
_WORDS: Any = pa.map_(_WORD, _WORD)
_NO_SLOTS = bytes(4 << gather_views.MOST_BITS)


class NoEnvelope(Envelope):
    """Replaces the header of an IPC message, which cannot refer to other bytes."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema, self.size = schema, 0


class ViewLayout(ColumnLayout):
    """Sections for the columns of a schema with views.

    `view_rows`: begins of the rows of the plan that name a buffer.
    """

    def __init__(self, envelope: Envelope, rows: int, rates: Rates, note_compressed: bool = False) -> None:
        super().__init__(envelope, rows, rates, note_compressed)
        kinds = [self.sections[name].kind for name in self.names]
        self.view_rows = [kernel.PLAN_ROW * at for at, kind in enumerate(kinds) if kind in _VIEW_KINDS]
        self.coded = [name for name in self.names if name in _CODES and name != "magic"]
        self.texts = [name for name in self.texts if name in ("offset_msg_id", "properties")]

    def _add_text(self, name: str, rates: Rates, note_compressed: bool) -> None:
        rows = self.rows
        if name == "body":
            self._add(name, kernel.BODY_VIEW, int(note_compressed), ints=4 * rows)
        elif name == "magic":
            self._add(name, kernel.MAGIC_CODE, 0, ints=rows)
        elif name in _CODES:
            self._add_codes(name)
        else:
            super()._add_text(name, rates, note_compressed)

    def _add_codes(self, name: str) -> None:
        """Append a column of codes, and the keys, slots, offsets and texts of its dictionary."""
        bits = min(self.rows.bit_length() + 1, gather_views.MOST_BITS)
        most = 1 << bits - 1
        slots = self._take(4 * (3 * most + 1)) // 4
        text = _HOST_BYTES * (most + 1) + (_LONGEST_TOPIC if name == "topic" else 0)
        self._add(name, _CODES[name], bits, longs=most + 1, ints=self.rows, text=text)
        self.sections[name] = self.sections[name]._replace(at_bits=slots)
        self.plan[-1] = slots

    def _add_properties(self, rates: Rates, mapped: bool) -> None:
        rows = self.rows
        pairs = rates.room("properties", rows) if mapped else 0
        self._add("properties", kernel.PROPERTY_VIEWS, pairs, ints=(rows + 1) * mapped)
        for kind, name in ((kernel.NAME_VIEWS, "names"), (kernel.VALUE_VIEWS, "values")):
            self._add(name, kind, int(mapped), ints=4 * pairs)
        for name in NAMED:
            on = int(name in self.envelope.schema.names)
            self._add(name, _NAMED_VIEWS[name], on, ints=4 * rows * on, bits=rows * on)


class ViewBlock(ColumnBlock):
    """Columns of up to `layout.rows` records being gathered as views."""

    layout: ViewLayout

    def __init__(self, layout: ViewLayout) -> None:
        super().__init__(layout)
        self._pieces: list[tuple[Any, int, int]] = []  # data, begin and end of each buffer
        self._number_of: dict[int, int] = {}  # id of the data -> its last buffer
        self._buffers: list[pa.Buffer] = []  # of the same data; a map stays mapped while one is there
        for name in layout.coded:
            section = layout.sections[name]
            at, most = 4 * section.at_bits, 1 << section.number - 1
            self.bytes[at : at + 8 * most] = _NO_SLOTS[: 8 * most]
            self.ints[section.at_bits + 2 * most] = 0
            self.longs[section.at_longs + most] = 0

    def gather(self, data: Any, positions: Any, first: int, last: int, notes: Any) -> tuple[int, int]:
        """Append the records at positions[first:last]; return the result of the kernel's `gather`.

        The batch will hold `data`, which must not change.
        """
        if not self.layout.view_rows:
            return super().gather(data, positions, first, last, notes)
        final = positions[last - 1]
        number, base = self._buffer_for(data, positions[first], final + size_at(data, final))
        for at in self.layout.view_rows:
            self.layout.plan[at + 2], self.layout.plan[at + 4] = base, number
        near = data if len(data) - base <= LONGEST else data[: base + LONGEST]
        taken, why = super().gather(near, positions, first, last, notes)
        if taken:
            at = positions[first + taken - 1]
            end = at + size_at(data, at)
            if number == len(self._buffers):
                self._buffers.append(pa.py_buffer(data))
                self._pieces.append((data, base, base))
                self._number_of[id(data)] = number
            self.held += end - self._pieces[number][2]
            self._pieces[number] = (data, base, end)
        return taken, why

    def _buffer_for(self, data: Any, begin: int, end: int) -> tuple[int, int]:
        """Return number and begin of the buffer for the records at data[begin:end].

        That is the last buffer of the same data, whose records come in ascending order, or a new one.
        """
        number = self._number_of.get(id(data))
        if number is not None:
            _, base, done = self._pieces[number]
            if begin - done <= GAP and end - base <= LONGEST:
                return number, base
        return len(self._pieces), begin

    def learn(self, rates: Rates, why: int) -> None:
        """Pass the sizes of the rows to the rates; that of "body" is how much of the log they hold."""
        super().learn(rates, why)
        rates.learn("body", self.held, self.count, full=False)

    def finish(self) -> pa.RecordBatch:
        schema = self.layout.envelope.schema
        buffers = [
            buffer.slice(begin, end - begin)
            for buffer, (_, begin, end) in zip(self._buffers, self._pieces, strict=True)
        ]
        columns = [self._column(field, buffers) for field in schema]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _column(self, field: pa.Field[Any], buffers: list[pa.Buffer]) -> pa.Array[Any]:
        name, section, count = field.name, self.layout.sections[field.name], self.count
        patches = self._patches.get(name, [])
        if name in NAMED or name == "body":
            bits = self._memory.slice(section.at_bits, (count + 7) // 8) if name in NAMED else None
            words = pa.Array.from_buffers(_WORD, count, [bits, self._ints(section, 4 * count)])
            if patches:
                texts = PatchedTexts(len(buffers))
                words = patched(words, [(row, texts.word(value)) for row, value in patches])
                buffers = [*buffers, *texts.buffers()]
            return as_viewed(words, field.type, buffers)
        if name == "properties":
            return self._map(field.type, section, buffers, patches)
        column = self._plain_column(field, section)
        return patched(column, patches) if patches else column

    def _plain_column(self, field: pa.Field[Any], section: Section) -> pa.Array[Any]:
        name, count = field.name, self.count
        if name == "magic":
            return _coded(count, self._ints(section, count), _MAGIC)
        if name in _CODES:
            return _coded(count, self._ints(section, count), self._dictionary(section))
        if name in NUMBERS:
            wide = section.kind != kernel.INT32
            numbers = self._memory.slice(8 * section.at_longs, 8 * count) if wide else self._ints(section, count)
            dated = section.kind == kernel.MICROSECONDS
            bits = self._memory.slice(section.at_bits, (count + 7) // 8) if dated else None
            return pa.Array.from_buffers(field.type, count, [bits, numbers])
        texts = self._memory.slice(section.at_text, self.used(name))
        return pa.Array.from_buffers(field.type, count, [None, self._ints(section, count + 1), texts])

    def _map(self, kind: Any, section: Section, buffers: list[pa.Buffer], patches: Any) -> pa.Array[Any]:
        pairs = self.used("properties")
        words = [
            pa.Array.from_buffers(_WORD, pairs, [None, self._ints(self.layout.sections[part], 4 * pairs)])
            for part in ("names", "values")
        ]
        offsets = self._ints(section, self.count + 1)
        if patches:
            texts = PatchedTexts(len(buffers))
            inner = pa.Array.from_buffers(_pair_type(_WORDS), pairs, [None], children=words)
            map_ = pa.Array.from_buffers(_WORDS, self.count, [None, offsets], children=[inner])
            rows = [(row, [(texts.word(key), texts.word(value)) for key, value in of]) for row, of in patches]
            whole: Any = patched(map_, rows)
            words, offsets = [whole.keys, whole.items], whole.buffers()[1]
            buffers = [*buffers, *texts.buffers()]
        names, values = (as_viewed(part, pa.string_view(), buffers) for part in words)
        inner = pa.Array.from_buffers(_pair_type(kind), len(names), [None], children=[names, values])
        return pa.Array.from_buffers(kind, self.count, [None, offsets], children=[inner])

    def _dictionary(self, section: Section) -> pa.Array[Any]:
        most = 1 << section.number - 1
        used, ends = self.longs[section.at_longs + most], section.at_bits + 2 * most
        if self.count and not used:  # every row is patched; meanwhile their code 0 has to exist
            return pa.array([""], pa.string())
        offsets = self._memory.slice(4 * ends, 4 * (used + 1))
        texts = self._memory.slice(section.at_text, self.ints[ends + used])
        return pa.Array.from_buffers(pa.string(), used, [None, offsets, texts])

    def _ints(self, section: Section, count: int) -> pa.Buffer:
        return self._memory.slice(4 * section.at_ints, 4 * count)


class PatchedTexts:
    def __init__(self, first: int) -> None:
        self._first, self._parts = first, [bytearray()]

    def word(self, value: str | bytes | None) -> bytes | None:
        """Return the view of a text, as 16 bytes."""
        if value is None:
            return None
        text = value.encode() if isinstance(value, str) else value
        if len(text) <= _INLINE:
            return struct.pack("=i12s", len(text), text)
        if len(self._parts[-1]) + len(text) > LONGEST:
            self._parts.append(bytearray())
        at, number = len(self._parts[-1]), self._first + len(self._parts) - 1
        self._parts[-1] += text
        return struct.pack("=i4sii", len(text), text[:4], number, at)

    def buffers(self) -> list[pa.Buffer]:
        return [pa.py_buffer(part) for part in self._parts]


def as_viewed(words: pa.Array[Any], kind: Any, buffers: list[pa.Buffer]) -> pa.Array[Any]:
    """Make a column of views from their 16 bytes each.

    It gets no buffers if every text is within its view: Arrow streams and pickle write all buffers of each column.
    """
    assert words.offset == 0  # they were made for this column
    valid, views = words.buffers()
    numbers = memoryview(views or b"").cast("B").cast("i")
    used = buffers if gather_views.goes_beyond(numbers, len(words)) else []
    return pa.Array.from_buffers(kind, len(words), [valid, views, *used])


def _coded(count: int, codes: pa.Buffer, dictionary: pa.Array[Any]) -> pa.Array[Any]:
    indices: Any = pa.Array.from_buffers(CODES.index_type, count, [None, codes])
    return pa.DictionaryArray.from_arrays(indices, dictionary, safe=False)


@lru_cache(4)
def _pair_type(kind: Any) -> Any:
    return pa.struct([kind.key_field, kind.item_field])
