"""Declares the one schema as Arrow types.

It has the same columns in the same order as JSON, Spark and StoredMessage. All columns are declared nullable, which
costs nothing; of a store's rows only tags, keys and msg_id are ever null, and for Spark and SQL times outside the years
1 to 9999.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

import pyarrow as pa

from flintmq.errors import UsageError
from flintmq.message import COLUMNS, MEMBER_COLUMNS

TEXT = pa.string()
MS = pa.timestamp("ms", tz="UTC")
US = pa.timestamp("us", tz="UTC")  # the only timestamp that Spark accepts; null outside the years 1 to 9999
MAP = pa.map_(TEXT, TEXT)

_TYPES: dict[str, pa.DataType] = {
    "topic": TEXT,
    "queue_id": pa.int32(),
    "queue_offset": pa.int64(),
    "body": pa.binary(),
    "tags": TEXT,
    "keys": TEXT,
    "properties": MAP,
    "msg_id": TEXT,
    "offset_msg_id": TEXT,
    "born_timestamp": MS,
    "born_host": TEXT,
    "store_timestamp": MS,
    "store_host": TEXT,
    "physical_offset": pa.int64(),
    "size": pa.int32(),
    "magic": TEXT,
    "flag": pa.int32(),
    "sys_flag": pa.int32(),
    "reconsume_times": pa.int32(),
    "prepared_transaction_offset": pa.int64(),
    "body_crc": pa.int64(),
}

SCHEMA: pa.Schema = pa.schema([(name, _TYPES[name]) for name in COLUMNS])


def dated(schema: pa.Schema) -> pa.Schema:
    """Make times microseconds, of which those outside the years 1 to 9999 are null."""
    return pa.schema([(field.name, US if field.type == MS else field.type) for field in schema])


SPARK_SCHEMA: pa.Schema = dated(SCHEMA)

CODES = pa.dictionary(pa.int32(), TEXT)
_VIEWS: dict[str, pa.DataType] = {
    **dict.fromkeys(("topic", "born_host", "store_host", "magic"), CODES),
    **dict.fromkeys(("tags", "keys", "msg_id"), pa.string_view()),
    "body": pa.binary_view(),
    "properties": pa.map_(pa.string_view(), pa.string_view()),
}

VIEW_SCHEMA: pa.Schema = pa.schema([(field.name, _VIEWS.get(field.name, field.type)) for field in SCHEMA])
"""The schema of `views=True`: the columns of SCHEMA; those whose bytes are not copied have other types."""

_MANY = {
    schema: pa.schema([*schema, *(pa.field(name, kind) for name in MEMBER_COLUMNS)])
    for schema, kind in ((SCHEMA, TEXT), (SPARK_SCHEMA, TEXT), (VIEW_SCHEMA, CODES), (dated(VIEW_SCHEMA), CODES))
}


def of_many(schema: pa.Schema, many: bool) -> pa.Schema:
    """Return SCHEMA or one of its kin; for many stores with the columns broker and store."""
    return _MANY[schema] if many else schema


def member_columns(many: bool) -> list[str]:
    return of_many(SCHEMA, many).names[len(SCHEMA) :]


FIRST_COLUMNS = COLUMNS[: COLUMNS.index("body_crc") + 1]
"""Columns of the first version, which every export has.

A column that is added goes after them. Exports made before lack it, and their rows have null there: so a Delta table
and a directory of exports can be continued, and replayed.
"""


def has_views(schema: pa.Schema) -> bool:
    """Return whether batches of this schema refer to bytes of the log instead of holding copies."""
    return any(field.type == _VIEWS.get(field.name) for field in schema)


def narrow(columns: Sequence[str] | None = None, schema: pa.Schema = SCHEMA) -> pa.Schema:
    """Return the schema of these columns, in the order given; None means all.

    Args:
        columns: names of columns of the schema.
        schema: SCHEMA, VIEW_SCHEMA or SPARK_SCHEMA, or what of_many makes of one.

    Raises:
        UsageError: a name is not in the schema (the text names close ones) or occurs twice, there is no name at all, or
            a single string is given where a list of names is meant.
    """
    if columns is None:
        return schema
    if isinstance(columns, str):
        raise UsageError(f"columns is a list of names, not a string; did you mean [{columns[:60]!r}]?")
    if not isinstance(columns, Iterable):
        raise UsageError(f"columns is {columns!r:.60}, of type {type(columns).__name__}; give a list of names")
    columns = list(columns)
    if not columns:
        raise UsageError("columns names no column; leave it out for all of them")
    for number, name in enumerate(columns):
        if name not in schema.names:
            close = get_close_matches(str(name), schema.names, 3, 0.5)
            advice = f"did you mean {' or '.join(close)}?" if close else f"there are: {', '.join(schema.names)}"
            raise UsageError(f"no column {str(name)[:60]!r}; {advice}")
        if name in columns[:number]:
            raise UsageError(f"column {name!r} is named twice")
    return pa.schema([schema.field(name) for name in columns])
