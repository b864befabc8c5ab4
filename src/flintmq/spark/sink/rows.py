"""Makes messages from the rows of a DataFrame: checks columns, values and their meaning.

Columns are those of the one schema. `topic` and `body` are required; for other missing columns a message has its
defaults. Columns that a store itself gives a record (queue_offset, store_timestamp and so on) are accepted and ignored,
so that a DataFrame read from a store can be written unchanged.
"""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy
import pyarrow as pa

from flintmq.arrow.schema import SPARK_SCHEMA
from flintmq.config.keys import StoreConfig
from flintmq.config.text import short
from flintmq.errors import FormatError, UsageError
from flintmq.format import properties as names
from flintmq.format.message_id import parse_host
from flintmq.message import Message
from flintmq.spark.jobs.replay.exactly_once import messages_of
from flintmq.spark.jobs.replay.refusals import why_refused
from flintmq.store.append.checks import timer_rule
from flintmq.store.append.unique_keys import UniqueKeys

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

REQUIRED = ("topic", "body")
_PROPERTY = {"keys": names.KEYS, "tags": names.TAGS, "msg_id": names.UNIQ_KEY}
_SEPARATORS = ("\0", names.NAME_END, names.VALUE_END)
FROM_KAFKA = (
    'this looks like a frame for Kafka: .selectExpr("topic", "coalesce(value, X\'\') AS body", "CAST(key AS STRING) AS '
    'keys") makes one for this sink; docs/spark/replay.md has headers and partition'
)

BadRows = list[tuple[int, str]]
"""Numbers of rows that make no message, with the reasons."""


def check_columns(schema: StructType, topic: str | None = None) -> None:
    """Raise UsageError unless a DataFrame of this schema can be written. `topic`: of all rows."""
    from flintmq.spark.schema import spark_schema

    ours = {field.name: field.dataType.simpleString() for field in spark_schema().fields}
    if "value" in schema.fieldNames() and "body" not in schema.fieldNames():
        raise UsageError(f"there is a column value and no column body; {FROM_KAFKA}")
    for field in schema.fields:
        found, right = field.dataType.simpleString(), ours.get(field.name)
        if right is None:
            raise UsageError(f"column {short(field.name)} is not one of: {', '.join(ours)}; leave it out")
        if found != right and not (field.name == "body" and found == "string"):
            raise UsageError(f"column {field.name} is of type {found}, not {right}; cast it")
    missing = [name for name in REQUIRED if name not in schema.fieldNames() and not (name == "topic" and topic)]
    if missing:
        raise UsageError(f"there is no column {' and '.join(missing)}; every message has a topic and a body")


WAYS = "correct it, leave the row out, or let the option badRowsPath collect such rows"


def named(batch: pa.RecordBatch, row: int, which: str) -> str:
    value = {name: batch.column(name)[row].as_py() for name in ("topic", "queue_id") if name in batch.schema.names}
    topic = value.get("topic")
    return f"{which}, topic {'null' if topic is None else short(topic)}, queue {value.get('queue_id') or 0}"


def of_topic(batch: pa.RecordBatch, topic: str) -> pa.RecordBatch:
    """Return the rows with this topic where they name none."""
    if "topic" not in batch.schema.names:
        return batch.append_column("topic", pa.repeat(topic, batch.num_rows))
    number = batch.schema.get_field_index("topic")
    return batch.set_column(number, "topic", batch.column(number).fill_null(topic))


def judge(
    batch: pa.RecordBatch,
    config: StoreConfig,
    inner_topics: Collection[str] = (),
    unique: UniqueKeys | None = None,
    topic: str | None = None,
) -> tuple[pa.RecordBatch, BadRows]:
    """Separate the rows that make messages, with all columns of SPARK_SCHEMA, from the others.

    `unique`: gives rows without a unique key one; None: they have none. `topic`: the only one that rows may have.
    """
    maps = _properties(batch)
    if unique is not None:
        without = [pairs for pairs in maps if names.UNIQ_KEY not in pairs]
        for pairs, key in zip(without, unique.take(len(without)), strict=True):
            pairs[names.UNIQ_KEY] = key
    bad = dict(_without_a_store(batch, maps))
    if topic is not None:
        elsewhere = enumerate(batch.column("topic").to_pylist())
        bad |= {row: f"its topic is not {short(topic)}" for row, name in elsewhere if name not in (None, topic)}
    good = [row for row in range(batch.num_rows) if row not in bad]
    filled = _filled(batch, maps, good)
    refused = [why_refused(message, config, inner_topics) or _timer(message) for message in messages_of(filled)]
    bad |= {row: why for row, why in zip(good, refused, strict=True) if why}
    if any(refused):
        filled = filled.filter(pa.array([not why for why in refused]))
    assert filled.num_rows + len(bad) == batch.num_rows  # each row makes a message or is reported
    return filled, sorted(bad.items())


def _timer(message: Message) -> str:
    """Return why a message that asks for a timer is refused; "" if it does not ask.

    A replay does not use this rule, because it copies messages that were delivered.
    """
    rule = timer_rule(message.topic, message.properties_bytes or b"")
    return "" if rule is None else f"{rule.status.name}: {rule.text}"


def as_json(batch: pa.RecordBatch, row: int, why: str) -> str:
    """Format a row that makes no message as JSON: `reason` and all columns, body in base64."""
    values = {name: batch.column(name)[row].as_py() for name in batch.schema.names}
    body = values["body"]
    values["body"] = (
        None if body is None else base64.b64encode(body.encode() if isinstance(body, str) else body).decode()
    )
    if values.get("properties") is not None:
        values["properties"] = dict(values["properties"])
    return json.dumps({"reason": why, **values}, ensure_ascii=True, default=_json) + "\n"


def _json(value: Any) -> str:
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _filled(batch: pa.RecordBatch, maps: list[dict[Any, Any]], good: list[int]) -> pa.RecordBatch:
    if len(good) < batch.num_rows:
        batch = batch.take(pa.array(good, pa.int64()))
    columns: list[Any] = []
    for field in SPARK_SCHEMA:
        if field.name == "properties":
            columns.append(pa.array([list(maps[row].items()) for row in good], field.type))
        elif field.name in batch.schema.names:
            columns.append(batch.column(field.name).cast(field.type))
        else:
            columns.append(pa.nulls(batch.num_rows, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=SPARK_SCHEMA)


def _without_a_store(batch: pa.RecordBatch, maps: list[dict[Any, Any]]) -> BadRows:
    """Find rows that no store accepts: without topic or body, or with unstorable values."""
    found = []
    for name in REQUIRED:
        rows: Any = batch.column(name).is_null().to_numpy(zero_copy_only=False)
        found += [(row, f"it has no {name}") for row in numpy.flatnonzero(rows).tolist()]
    for row, pairs in enumerate(maps):
        for name, value in pairs.items():
            if not name or value is None or any(mark in name or mark in value for mark in _SEPARATORS):
                found.append((row, f"property {short(name)} has no name or no value, or a byte 0, 1 or 2 in it"))
    if "born_host" in batch.schema.names:
        found += [(row, "its born_host is not a host") for row in _wrong_hosts(batch.column("born_host"))]
    return found


def _wrong_hosts(column: Any) -> list[int]:
    known: dict[str, bool] = {}
    for text in column.unique().to_pylist():
        try:
            known[text] = not text or bool(parse_host(text))
        except FormatError:
            known[text] = False
    return [row for row, text in enumerate(column.to_pylist()) if not known[text]]


def _properties(batch: pa.RecordBatch) -> list[dict[Any, Any]]:
    """Return the properties of each row, overridden by the columns tags, keys and msg_id."""
    given = {name: batch.column(name).to_pylist() for name in _PROPERTY if name in batch.schema.names}
    maps: list[Any] = [None] * batch.num_rows
    if "properties" in batch.schema.names:
        maps = batch.column("properties").to_pylist()
    found = []
    for row, pairs in enumerate(maps):
        values = dict(pairs or ())
        for name, column in given.items():
            if column[row]:
                values[_PROPERTY[name]] = column[row]
        found.append(values)
    return found
