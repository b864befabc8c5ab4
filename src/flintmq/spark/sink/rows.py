"""A DataFrame's rows as messages: which columns there may be, what they mean, and what cannot be stored.

Columns are those of the one schema. `topic` and `body` must be there; what is missing else has a message's default.
Columns that a store gives a record itself (queue_offset, store_timestamp and so on) are taken and not heeded, so that a
DataFrame read from a store can be written as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy
import pyarrow as pa

from flintmq.arrow.schema import SPARK_SCHEMA
from flintmq.config import StoreConfig
from flintmq.config_text import short
from flintmq.errors import UsageError
from flintmq.format import properties as names
from flintmq.format.record import INNER_BATCH, TRANSACTION_PREPARED
from flintmq.message import Message
from flintmq.spark.jobs.once import messages_of
from flintmq.store.put_checks import message_status, record_size, topic_status

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

REQUIRED = ("topic", "body")
_PROPERTY = {"keys": names.KEYS, "tags": names.TAGS, "msg_id": names.UNIQ_KEY}
_SEPARATORS = ("\0", names.NAME_END, names.VALUE_END)
_HOSTS = bytes(40)  # as long as two hosts can be


def check_columns(schema: StructType) -> None:
    """Raise UsageError unless a DataFrame of this schema can be written."""
    from flintmq.spark.schema import spark_schema

    ours = {field.name: field.dataType.simpleString() for field in spark_schema().fields}
    for field in schema.fields:
        found, right = field.dataType.simpleString(), ours.get(field.name)
        if right is None:
            raise UsageError(f"column {short(field.name)} is none of: {', '.join(ours)}; leave it out")
        if found != right and not (field.name == "body" and found == "string"):
            raise UsageError(f"column {field.name} is of type {found}, not {right}; cast it")
    missing = [name for name in REQUIRED if name not in schema.fieldNames()]
    if missing:
        raise UsageError(f"there is no column {' and '.join(missing)}; every message has a topic and a body")


def to_schema(batch: pa.RecordBatch, config: StoreConfig) -> pa.RecordBatch:
    """The rows with all columns of SPARK_SCHEMA, ready to be put: tags, keys and msg_id stand in the properties.

    Args:
        batch: of columns that `check_columns` took.
        config: of the store.

    Raises:
        UsageError: a row that makes no message; the text says which and why.
    """
    rows = batch.num_rows
    columns = []
    for field in SPARK_SCHEMA:
        if field.name == "properties":
            columns.append(_properties(batch))
        elif field.name in batch.schema.names:
            column = batch.column(field.name)
            if column.null_count and field.name in REQUIRED:
                row = int(numpy.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
                raise UsageError(f"row {row} of a batch has no {field.name}; fill it, or leave the row out")
            columns.append(column.cast(field.type))
        else:
            columns.append(pa.nulls(rows, field.type))
    filled = pa.RecordBatch.from_arrays(columns, schema=SPARK_SCHEMA)
    for row, message in enumerate(messages_of(filled)):
        why = _refusal(message, config)
        if why:
            raise UsageError(
                f"row {row} of a batch, topic {short(message.topic)}, queue {message.queue_id}: {why}; mend it, or "
                "leave the row out"
            )
    return filled


def _properties(batch: pa.RecordBatch) -> pa.Array[Any]:
    """The map of each row, with what the columns tags, keys and msg_id say; their values win."""
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
        for name, value in values.items():
            if not name or value is None or any(mark in name or mark in value for mark in _SEPARATORS):
                raise UsageError(
                    f"row {row} of a batch: property {short(name)} has no name or no value, or a byte 0, 1 or 2 in it; "
                    "mend it, or leave it out"
                )
        found.append(list(values.items()))
    made: pa.Array[Any] = pa.array(found, SPARK_SCHEMA.field("properties").type)
    return made


def _refusal(message: Message, config: StoreConfig) -> str:
    """Why a store would refuse this message; empty if it takes it."""
    topic, properties = message.topic.encode("utf-8", "surrogatepass"), message.properties_bytes or b""
    if topic_status(message.topic, topic) is not None:
        return "a topic has 1 to 127 bytes and is a directory's name"
    if message.queue_id < 0:
        return "its queue id is negative"
    status = message_status(message, properties, config)
    if status is not None:
        return f"{status.name}: its body, queue id or properties are too large"
    if message.sys_flag & (TRANSACTION_PREPARED | INNER_BATCH):
        return "its sys_flag is that of a prepared or rolled-back transaction record or of an inner batch"
    most = config.mapped_file_size_commit_log
    if record_size(message.body, topic, properties, _HOSTS, config) > most - 8:
        return f"its record is larger than a log file of {most} bytes"
    return ""
