"""Applies the predicate of a scan to rows of a table."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flintmq.kernels.read.select import ANY_QUEUE
from flintmq.store.commitlog.predicate import LEAST, MOST, Predicate

COLUMNS = ("topic", "queue_id", "queue_offset", "store_timestamp", "tags")
"""The columns that a mask may need."""


def columns_of(predicate: Predicate) -> tuple[str, ...]:
    return () if predicate.everything else COLUMNS


def mask_of(predicate: Predicate, rows: pa.Table) -> Any:
    """Return which rows a predicate wants, as a mask without nulls.

    `Predicate.wants` is the reference. A row without a store time, which is outside the years 1 to 9999, is in no range
    of time.
    """
    parts = [_of_queues(predicate, rows)] if predicate.asks_topics else []
    times = rows["store_timestamp"]
    for bound, compare in ((predicate.since, pc.greater_equal), (predicate.until, pc.less)):
        if bound is not None:
            ms = pc.divide(times.cast(_us(times)).cast(pa.int64()), pa.scalar(1000, pa.int64()))
            parts.append(compare(ms, pa.scalar(bound, pa.int64())))
    if predicate.tags is not None:
        parts.append(pc.is_in(rows["tags"], value_set=pa.array(sorted(predicate.tags), pa.string())))
    if not parts:
        return pa.chunked_array([pa.repeat(pa.scalar(True), rows.num_rows)])
    return pc.fill_null(reduce(pc.and_kleene, parts), False)


def _us(times: Any) -> pa.DataType:
    return pa.timestamp("us", times.type.tz)


def _of_queues(predicate: Predicate, rows: pa.Table) -> Any:
    codes: Any = rows["topic"].combine_chunks().dictionary_encode()
    queue, offset = rows["queue_id"], rows["queue_offset"]
    found: Any = pa.chunked_array([pa.repeat(pa.scalar(False), rows.num_rows)])
    for code, topic in enumerate(codes.dictionary.to_pylist()):
        rules = predicate.rules(topic)
        if rules is None:
            continue
        of_topic: Any = pc.equal(codes.indices, pa.scalar(code, pa.int32()))
        # The first rule of a queue decides; one for any queue comes last.
        decided: Any = pc.invert(of_topic)
        for wanted, least, stop in rules:
            here = (
                of_topic if wanted == ANY_QUEUE else pc.and_(of_topic, pc.equal(queue, pa.scalar(wanted, pa.int32())))
            )
            here = pc.and_not(here, decided)
            decided = pc.or_(decided, here)
            if least > LEAST:
                here = pc.and_(here, pc.greater_equal(offset, pa.scalar(least, pa.int64())))
            if stop < MOST:
                here = pc.and_(here, pc.less(offset, pa.scalar(stop, pa.int64())))
            found = pc.or_(found, here)
    return found
