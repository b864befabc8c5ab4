"""Reads messages of one queue of an open store as a record batch: MessageStore.get_batch."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from flintmq.arrow.batches import LARGEST_BATCH, Gatherer, Oddities, joined
from flintmq.arrow.column_layout import Rates
from flintmq.arrow.schema import narrow
from flintmq.errors import UsageError
from flintmq.format.text import java_encode
from flintmq.message import GetBatchResult
from flintmq.store.commitlog.report import Report
from flintmq.store.read.get import LiveReader
from flintmq.store.read.get_batch import PieceReader


def get_batch(
    reader: LiveReader,
    topic: str,
    queue_id: int,
    offset: int,
    max_messages: int,
    max_bytes: int,
    columns: Sequence[str] | None,
    wait_ms: int,
) -> GetBatchResult:
    """Read messages of a queue; see MessageStore.get_batch for the arguments and the result.

    Thread: any.
    """
    schema = narrow(columns)
    if max_messages < 1 or not 1 <= max_bytes <= LARGEST_BATCH:
        raise UsageError(f"max_messages={max_messages}, max_bytes={max_bytes}; give 1 at least, and at most 1 GiB")
    found = PieceReader(reader, java_encode(topic), queue_id, offset, max_messages, max_bytes)
    try:
        answer = reader.answer(found.topic, queue_id, offset, wait_ms, found.take)
        batch = _gathered(found, schema)
    finally:
        found.release()
    return GetBatchResult(answer.status, batch, answer.next_begin_offset, answer.min_offset, answer.max_offset)


def _gathered(found: PieceReader, schema: pa.Schema) -> pa.RecordBatch:
    if not found.rows:
        return pa.RecordBatch.from_pylist([], schema=schema)
    gatherer = Gatherer(schema, Oddities(False, True, Report()), LARGEST_BATCH, found.rows, Rates())
    parts = [batch for piece in found.pieces for batch in gatherer.take(piece, piece.count)]
    (batch,) = joined([*parts, *gatherer.finish()])
    assert batch.num_rows == found.rows
    return batch
