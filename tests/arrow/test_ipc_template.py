"""Headers of IPC messages: batches that pyarrow itself would have written, from memory laid out by hand."""

import struct

import pyarrow as pa
import pytest

from flintmq.arrow.ipc_template import Envelope
from flintmq.arrow.schema import SCHEMA, SPARK_SCHEMA, narrow


def sealed(schema: pa.Schema, rows: int, nodes: list[int], body: bytes, buffers: list[int]) -> pa.RecordBatch:
    """A batch from a body written by hand."""
    envelope = Envelope(schema)
    memory = pa.allocate_buffer(envelope.size + len(body))
    memoryview(memory).cast("B")[envelope.size :] = body
    batch = envelope.seal(memory, rows, nodes, buffers)
    batch.validate(full=True)
    return batch


def test_numbers_and_text_by_hand() -> None:
    body = struct.pack("<2q", 7, -1) + bytes(48) + struct.pack("<3i", 0, 2, 5) + bytes(52) + b"abcde" + bytes(59)
    schema = narrow(["queue_offset", "topic"])
    batch = sealed(schema, 2, [2, 0, 2, 0], body, [0, 0, 0, 16, 0, 0, 64, 12, 128, 5])
    assert batch.to_pydict() == {"queue_offset": [7, -1], "topic": ["ab", "cde"]}


def test_nulls_by_hand() -> None:
    body = b"\x05" + bytes(63) + struct.pack("<4i", 0, 1, 1, 3) + bytes(48) + b"xyz" + bytes(61)
    batch = sealed(narrow(["tags"]), 3, [3, 1], body, [0, 1, 64, 16, 128, 3])
    assert batch.to_pydict() == {"tags": ["x", None, "yz"]}
    assert batch.column(0).null_count == 1


def test_a_map_by_hand() -> None:
    offsets = struct.pack("<3i", 0, 0, 2) + bytes(52)
    names = struct.pack("<3i", 0, 1, 2) + bytes(52) + b"AB" + bytes(62)
    values = struct.pack("<3i", 0, 1, 3) + bytes(52) + b"122" + bytes(61)
    buffers = [0, 0, 0, 12, 0, 0, 0, 0, 64, 12, 128, 2, 0, 0, 192, 12, 256, 3]
    batch = sealed(narrow(["properties"]), 2, [2, 0, 2, 0, 2, 0, 2, 0], offsets + names + values, buffers)
    assert batch.to_pydict() == {"properties": [[], [("A", "1"), ("B", "22")]]}


@pytest.mark.parametrize("schema", [SCHEMA, SPARK_SCHEMA])
def test_counts_of_the_whole_schema(schema: pa.Schema) -> None:
    """12 columns of numbers with two buffers, 8 of bytes with three, and a map: two, one, three and three."""
    numbers = sum(pa.types.is_integer(field.type) or pa.types.is_timestamp(field.type) for field in schema)
    texts = len(schema) - numbers - 1
    envelope = Envelope(schema)
    assert (envelope.nodes, envelope.buffers) == (len(schema) + 3, 2 * numbers + 3 * texts + 9)
    assert envelope.size % 64 == 0


def test_no_rows() -> None:
    body = bytes(64)
    assert sealed(narrow(["queue_id"]), 0, [0, 0], body, [0, 0, 0, 0]).num_rows == 0
    assert sealed(narrow(["body"]), 0, [0, 0], body, [0, 0, 0, 4, 0, 0]).to_pydict() == {"body": []}


def test_the_memory_is_not_copied() -> None:
    envelope = Envelope(narrow(["queue_id"]))
    memory = pa.allocate_buffer(envelope.size + 64)
    batch = envelope.seal(memory, 16, [16, 0], [0, 0, 0, 64])
    assert batch.column(0).buffers()[1].address == memory.address + envelope.size
