"""Makes a record batch in one call: its memory is an Arrow IPC message, read in place.

Making a batch of all columns buffer by buffer costs a quarter of a millisecond, as much as gathering a thousand rows.
Arrow's IPC format has the same information in one header: the number of rows, and length and position of every buffer
in the body after it. Reading such a message copies nothing. The headers of one schema's batches differ only in numbers,
so a header that pyarrow wrote serves as the template: this module finds the positions of its numbers (as the format's
FlatBuffers schema `Message.fbs` defines them) and fills them in.
"""

from __future__ import annotations

import struct
from functools import lru_cache

import pyarrow as pa

_FIELDS_BEFORE = 4  # bytes of a FlatBuffers vtable before its first field

# Numbers of fields in Message.fbs.
_HEADER, _BODY_LENGTH = 2, 3  # of Message
_LENGTH, _NODES, _BUFFERS = 0, 1, 2  # of RecordBatch


class Envelope:
    """The header of an IPC message for batches of one schema.

    `nodes`: number of arrays, children included: each before its children, in the order of the schema. Thread: any.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        one_row = pa.RecordBatch.from_arrays([pa.nulls(1, field.type) for field in schema], schema=schema)
        form = one_row.serialize().to_pybytes()
        marker, length = struct.unpack_from("<Ii", form)
        assert marker == 0xFFFFFFFF, "pyarrow writes messages of the format's current version"
        self.size = -(-(8 + length) // 64) * 64  # bytes of the header; the body begins there, at a multiple of 64
        self._form = form[:4] + struct.pack("<i", self.size - 8) + form[8 : 8 + length].ljust(self.size - 8, b"\0")
        message = _Table(self._form, 8 + _u32(self._form, 8))
        batch = _Table(self._form, message.target(_HEADER))
        self._body_length, self._rows = message.place(_BODY_LENGTH), batch.place(_LENGTH)
        self._at_nodes, self.nodes = batch.vector(_NODES)
        self._at_buffers, self.buffers = batch.vector(_BUFFERS)
        self._node_numbers = struct.Struct(f"<{2 * self.nodes}q")
        self._buffer_numbers = struct.Struct(f"<{2 * self.buffers}q")

    def seal(self, memory: pa.Buffer, rows: int, nodes: list[int], buffers: list[int]) -> pa.RecordBatch:
        """Write the header into `memory`, and return the batch whose columns are in the rest of it.

        `buffers`: position in the body and bytes of each buffer; 0 bytes for validity bits that are not needed.
        """
        header = memoryview(memory).cast("B")[: self.size]
        header[:] = self._form
        struct.pack_into("<q", header, self._body_length, memory.size - self.size)
        struct.pack_into("<q", header, self._rows, rows)
        self._node_numbers.pack_into(header, self._at_nodes, *nodes)
        self._buffer_numbers.pack_into(header, self._at_buffers, *buffers)
        return pa.ipc.read_record_batch(memory, self.schema)


@lru_cache(64)
def envelope_of(schema: pa.Schema) -> Envelope:
    """Return the envelope of a schema, which is made once."""
    return Envelope(schema)


class _Table:
    """A FlatBuffers table, which finds the places of its fields."""

    def __init__(self, form: bytes, at: int) -> None:
        self.form, self.at = form, at
        self.vtable = at - struct.unpack_from("<i", form, at)[0]

    def place(self, field: int) -> int:
        """Return the position of the value of a field, or of the reference to it."""
        at = _FIELDS_BEFORE + 2 * field
        assert at < struct.unpack_from("<H", self.form, self.vtable)[0], "pyarrow writes every number of a row"
        return int(self.at + struct.unpack_from("<H", self.form, self.vtable + at)[0])

    def target(self, field: int) -> int:
        """Return the position of the table or vector that a field refers to."""
        place = self.place(field)
        return place + _u32(self.form, place)

    def vector(self, field: int) -> tuple[int, int]:
        """Return the position of the first element of a vector, and the number of elements."""
        at = self.target(field)
        return at + 4, _u32(self.form, at)


def _u32(form: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", form, at)[0])
