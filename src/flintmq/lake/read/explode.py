"""Unpacks inner batches, so that each of their messages becomes a row.

RocketMQ's client unpacks them in the same way (upstream MessageDecoder.decodeMessage): each message has its own body,
flag and properties, its queue offset counts up from that of the batch, and all other fields are those of the batch.
Batches are rare and unpacked in Python; the rows between them are passed on unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy
import pyarrow as pa
import pyarrow.compute as pc

from flintmq.arrow.schema import SPARK_SCHEMA, narrow
from flintmq.errors import FormatError
from flintmq.format import inner_batch, properties
from flintmq.format.compression import original_body
from flintmq.format.record import INNER_BATCH
from flintmq.store.commitlog.predicate import Predicate

MESSAGES_MAX = 32_767  # INNER_NUM is a 16-bit number
JOINED_BYTES = 4 << 20  # of unpacked messages in one batch, approximately
NEEDED = ("topic", "queue_id", "queue_offset", "body", "tags", "sys_flag")
_PROPERTIES = {"tags": properties.TAGS, "keys": properties.KEYS, "msg_id": properties.UNIQ_KEY}


def with_needed(schema: pa.Schema) -> pa.Schema:
    return narrow([*schema.names, *(name for name in NEEDED if name not in schema.names)], SPARK_SCHEMA)


def before_exploding(predicate: Predicate) -> Predicate:
    """Drop the conditions that apply to messages and not to whole batches: tags, queue offsets."""
    return replace(predicate, tags=None, offsets=(), any_key=None)


def exploded(
    batch: pa.RecordBatch, schema: pa.Schema, predicate: Predicate, decompressed: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a batch with inner batches unpacked, filtered by tags and queue offsets.

    The batch has the columns of `with_needed(schema)`, and bodies as the producer gave them if `decompressed`, whatever
    sys_flag says. A body that is not an inner batch, although its record's flag says so, stays one row.
    """
    flags = pc.bit_wise_and(batch.column("sys_flag"), pa.scalar(INNER_BATCH, pa.int32()))
    parts: list[pa.RecordBatch] = []
    done = size = 0
    for row in numpy.flatnonzero(numpy.asarray(flags)).tolist():
        entries = _entries(batch, row, decompressed)
        if entries:
            parts += [batch.slice(done, row - done), _messages(batch, row, entries)]
            done = row + 1
            size += sum(len(entry.body) + len(entry.properties) for entry in entries)
        if size > JOINED_BYTES:  # a few compressed bytes may unpack to very many
            yield from _joined(parts, schema, predicate)
            parts, size = [], 0
    yield from _joined([*parts, batch.slice(done)], schema, predicate)


def _entries(batch: pa.RecordBatch, row: int, decompressed: bool) -> list[inner_batch.Entry]:
    """Return the messages of the inner batch in a row.

    The result is empty if the body is not an inner batch, or has more messages than INNER_NUM can count.
    """
    try:
        sys_flag = 0 if decompressed else batch.column("sys_flag")[row].as_py()
        body = original_body(batch.column("body")[row].as_py(), sys_flag)
        entries = list(islice(inner_batch.iterate(body), MESSAGES_MAX + 1))
    except FormatError:
        return []
    return entries if len(entries) <= MESSAGES_MAX else []


def _messages(batch: pa.RecordBatch, row: int, entries: list[inner_batch.Entry]) -> pa.RecordBatch:
    assert 0 < len(entries) <= MESSAGES_MAX
    pairs = [properties.parse_bytes(entry.properties) for entry in entries]
    first = batch.column("queue_offset")[row].as_py()
    own: dict[str, list[Any]] = {
        "body": [entry.body for entry in entries],
        "flag": [entry.flag for entry in entries],
        "queue_offset": list(range(first, first + len(entries))),
        "properties": [list(values.items()) for values in pairs],
        **{name: [values.get(key) for values in pairs] for name, key in _PROPERTIES.items()},
    }
    shared = batch.take(pa.array([row] * len(entries), pa.int64()))
    columns = [
        pa.array(own[field.name], field.type) if field.name in own else shared.column(field.name)
        for field in batch.schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _joined(parts: list[pa.RecordBatch], schema: pa.Schema, predicate: Predicate) -> list[pa.RecordBatch]:
    rows = _wanted(pa.Table.from_batches(parts), predicate)
    return rows.select(schema.names).combine_chunks().to_batches()


def _wanted(rows: pa.Table, predicate: Predicate) -> pa.Table:
    if predicate.tags is not None:
        rows = rows.filter(pc.is_in(rows.column("tags"), pa.array(sorted(predicate.tags), pa.string())))
    column = pc.field
    for topic, queue, least, stop in predicate.offsets:
        elsewhere = (column("topic") != pc.scalar(topic)) | (column("queue_id") != pc.scalar(queue))
        inside = (column("queue_offset") >= pc.scalar(least)) & (column("queue_offset") < pc.scalar(stop))
        rows = rows.filter(elsewhere | inside)
    return rows
