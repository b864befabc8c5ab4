"""Gives messages the columns of Spark's Kafka source."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flintmq.arrow.schema import SPARK_SCHEMA, TEXT, US, member_columns, narrow, of_many

BINARY = pa.binary()
HEADERS = pa.field("headers", pa.list_(pa.struct([("key", TEXT), ("value", BINARY)])))
LOG_APPEND_TIME = 1  # the kind of time that Kafka calls so: when the broker stored the message
SOURCES = {
    "key": "keys",
    "value": "body",
    "topic": "topic",
    "partition": "queue_id",
    "offset": "queue_offset",
    "timestamp": "store_timestamp",
    "headers": "properties",
}
"""Column -> the column of a message that it is made of; `timestampType` is made of none."""
_TYPES: dict[str, pa.DataType] = {
    "key": BINARY,
    "value": BINARY,
    "topic": TEXT,
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": US,
    "timestampType": pa.int32(),
}


def kafka_schema(headers: bool, many: bool) -> pa.Schema:
    """Return all columns. `headers`: with the column of headers."""
    added = [pa.field(name, TEXT) for name in member_columns(many)]
    return pa.schema([*pa.schema(_TYPES), *([HEADERS] if headers else []), *added])


def messages_schema(wanted: pa.Schema, many: bool) -> pa.Schema:
    """Return the columns of messages that these are made of: one at least."""
    names = dict.fromkeys(SOURCES.get(name, name) for name in wanted.names if name != "timestampType")
    return narrow(list(names) or ["queue_id"], of_many(SPARK_SCHEMA, many))


def to_kafka(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """Return the rows of a batch with the columns of `wanted`."""
    return pa.RecordBatch.from_arrays([_column(batch, field) for field in wanted], schema=wanted)


def _column(batch: pa.RecordBatch, field: Any) -> Any:
    if field.name == "timestampType":
        return pa.repeat(pa.scalar(LOG_APPEND_TIME, field.type), batch.num_rows)
    column: Any = batch.column(SOURCES.get(field.name, field.name))
    return _headers(column).cast(field.type) if field.name == "headers" else column.cast(field.type)


def _headers(properties: Any) -> Any:
    """Return lists of pairs; null where there are none, as in Kafka's source."""
    pairs = pa.StructArray.from_arrays([properties.keys, properties.items.cast(BINARY)], ["key", "value"])
    lists: Any = pa.ListArray.from_arrays(properties.offsets, pairs)
    count: Any = pc.list_value_length(lists)
    return pc.if_else(pc.greater(count, pa.scalar(0)), lists, pa.scalar(None, lists.type))
