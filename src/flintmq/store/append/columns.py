"""Puts Arrow columns: the messages of one topic, without an object for each row.

A record batch is used by its buffers, so that nothing here imports pyarrow. All rows are checked before one is written,
because nothing useful can be said about half a batch. The buffers may belong to somebody who writes to them meanwhile:
log and queues depend only on copies, and no reference to the caller's buffers is kept after the rows are written.
RocketMQ has no counterpart.
"""

from __future__ import annotations

import logging
import re
from array import array
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

from flintmq.errors import UsageError
from flintmq.kernels.write import append_columns as kernel
from flintmq.kernels.write.fast_append import QueueCounter, Topic
from flintmq.message import ColumnsResult, Message, PutMessageStatus, PutRule
from flintmq.store.append.checks import TIMERS, encode_properties, message_rule, start_rule
from flintmq.store.append.commit_log import CommitLog
from flintmq.store.append.unique_keys import UniqueKeys
from flintmq.store.dispatch.handover import HandedRows

log = logging.getLogger("flintmq.commitlog")

AT_ONCE = 8 << 20  # bytes written before the log's new end is published
NARROW, WIDE = ("binary", "string"), ("large_binary", "large_string")
WANTED = {
    "body": (*NARROW, *WIDE),
    "tags": ("string", "large_string"),
    "keys": ("string", "large_string"),
    "queue_id": ("int32",),
    "born_timestamp": ("int64", "timestamp[ms]", "timestamp[ms, tz=UTC]"),
    "properties": ("map<string, string>",),
}
RESERVED = ("KEYS", "TAGS", "WAIT", "DELA", "TIME", "INNE")  # prefixes of property names that the kernel refuses
CLOSED = ColumnsResult(PutMessageStatus.SERVICE_NOT_AVAILABLE)
RULES = {
    kernel.ILLEGAL: PutRule.COLUMN_ROW,
    kernel.LONG: PutRule.PROPERTIES_SIZE,
    kernel.RESERVED: PutRule.RESERVED_PROPERTY,
}


def put_columns(commit_log: CommitLog, name: str, batch: Any) -> ColumnsResult:
    """Append the rows of a record batch as messages of one topic.

    Thread: any. Durability: the kernel has the records; nothing is on disk yet.
    """
    check_schema(batch)
    topic = commit_log.get_or_create_topic(name)
    if topic is None:
        return ColumnsResult(PutRule.TOPIC.status, reason=PutRule.TOPIC)
    if (rule := start_rule(name, b"")) is not None:  # the timer's topic: no column says when a message is due
        return _refused(commit_log, rule, 0)
    if not kernel.COMPILED:
        return _one_by_one(commit_log, topic, name, batch)
    columns = columns_of(topic.raw, batch, commit_log.unique)
    config, seen = commit_log.config, bytearray(kernel.QUEUES)
    row, what = columns.check(config.max_message_size, commit_log.files.file_size, config.enabled_append_prop_crc, seen)
    if what != kernel.GOOD:
        rule = RULES[what]
        if what == kernel.RESERVED and _asks_for_timer(batch, row):
            rule = PutRule.TIMER
        return _refused(commit_log, rule, row)
    queue_ids = [found.start() for found in re.finditer(b"\1", seen)]
    return commit_log.locked(lambda: _append(commit_log, topic, columns, queue_ids), CLOSED)


def _append(commit_log: CommitLog, topic: Topic, columns: kernel.Columns, queue_ids: list[int]) -> ColumnsResult:
    """Write the rows. The put lock is held."""
    now, appender = commit_log.settle_and_next_time(), commit_log.appender
    places = {q: topic.places.get(q) or QueueCounter(0) for q in queue_ids}
    first = {q: place.next for q, place in places.items()}
    # Before a row is written: the kernel counts in these objects, and a queue that has a record must be known.
    topic.places.update(places)
    next_offsets = array("q", bytes(8 * (max(queue_ids, default=0) + 1)))
    row, begin, status, changed, room = 0, -1, PutMessageStatus.PUT_OK, None, AT_ONCE
    while row < columns.rows:
        file = commit_log.reserve_space(room)
        if file is None:
            status = PutMessageStatus.CREATE_MAPPED_FILE_FAILED
            break
        at = file.wrote
        began = array("q", next_offsets)
        for q, place in places.items():
            began[q] = place.next
        before, row = row, columns.put(appender, file, row, now, AT_ONCE, places, next_offsets)
        if begin < 0 and row > before:
            begin = file.start + at
        commit_log.effects.wrote(file.fd, at, columns.written_end - at)
        if row > before and commit_log.handed_over is not None:
            end = file.start + columns.rows_end
            rows = HandedRows(file.start + at, end, topic.raw, columns, before, row, now, queue_ids, began)
            commit_log.handed_over.add(rows)
        if file.wrote == file.size:
            file.end_here(columns.written_end)
            log.info("%s is full", file.path)
        elif columns.changed != kernel.GOOD:
            changed = RULES[columns.changed]  # changed since it was checked
            break
        elif row == before:
            assert room == AT_ONCE, "a row that was found valid did not fit the window that was reserved for it"
            # Not from the start: with a large maxMessageSize every append would be too large for the transient pool.
            room = AT_ONCE + commit_log.config.max_message_size
            continue
        room = AT_ONCE
    columns.let_go()
    if changed is not None:
        refused = _refused(commit_log, changed, row)
        if begin < 0:
            return refused
        return replace(
            refused,
            count=row,
            physical_offset=begin,
            end=appender.end,
            queue_offsets=first,
            store_timestamp=now,
            store_host=commit_log.host,
        )
    if begin < 0:
        return ColumnsResult(status)
    return ColumnsResult(status, row, begin, appender.end, first, now, commit_log.host)


def _refused(commit_log: CommitLog, rule: PutRule, row: int) -> ColumnsResult:
    log.warning("%s: row %d is not a valid message: %s", commit_log.files.place, row, rule)
    return ColumnsResult(rule.status, reason=rule, row=row)


def _asks_for_timer(batch: Any, row: int) -> bool:
    """Return whether a row has a property that requests a timer."""
    return any(name in TIMERS for name, _ in batch.column("properties")[row].as_py() or ())


def check_schema(batch: Any) -> None:
    """Refuse a batch whose columns have a wrong type."""
    if type(batch).__name__ != "RecordBatch":  # a Table's columns are in pieces
        way = (
            "put each of its to_batches()"
            if hasattr(batch, "to_batches")
            else "pyarrow.RecordBatch.from_pydict makes one"
        )
        raise UsageError(f"columns are a pyarrow.RecordBatch, not of type {type(batch).__name__}; {way}")
    for name in batch.schema.names:
        if name not in WANTED:
            raise UsageError(f"column {name!r} is not one of: {', '.join(WANTED)}; leave it out")
        found = str(batch.column(name).type)
        if found not in WANTED[name]:
            raise UsageError(f"column {name!r} is {found}; cast it to {' or '.join(WANTED[name])}")
        if name in ("body", "queue_id", "born_timestamp") and batch.column(name).null_count:
            raise UsageError(f"column {name!r} has nulls; fill them")
        if name == "properties" and batch.column(name).items.null_count:
            raise UsageError("a property has the value null; leave it out")
    if "body" not in batch.schema.names:
        raise UsageError("there is no column 'body'; add one; a body may be empty")


def columns_of(topic: bytes, batch: Any, unique: UniqueKeys | None = None) -> kernel.Columns:
    names = set(batch.schema.names)
    maps = batch.column("properties") if "properties" in names else None
    return kernel.Columns(
        topic,
        _texts(batch.column("body")),
        _texts(batch.column("tags")) if "tags" in names else None,
        _texts(batch.column("keys")) if "keys" in names else None,
        _offsets(maps) if maps is not None else None,
        _texts(maps.keys) if maps is not None else None,
        _texts(maps.items) if maps is not None else None,
        _numbers(batch, "queue_id", "i"),
        _numbers(batch, "born_timestamp", "q"),
        *(unique.numbers(batch.num_rows) if unique is not None else ()),
    )


def _texts(column: Any) -> kernel.Texts:
    valid, offsets, data = column.buffers()
    rows = len(column)
    mask = valid if column.null_count else None
    begins = _bytes(offsets, 8 * (column.offset + rows + 1))
    return kernel.Texts(_bytes(data), begins, _bytes(mask), str(column.type) in WIDE, column.offset, rows)


def _offsets(column: Any) -> kernel.Texts:
    """Return the rows' ranges of a map column as a text column of one byte an entry."""
    valid, offsets = column.buffers()[:2]
    rows = len(column)
    mask = valid if column.null_count else None
    begins = _bytes(offsets, 4 * (column.offset + rows + 1))
    return kernel.Texts(bytes(len(column.keys)), begins, _bytes(mask), False, column.offset, rows)


def _bytes(buffer: Any, missing: int = 0) -> memoryview:
    """Return a buffer as unsigned bytes; `missing` zeros if there is none."""
    return memoryview(bytes(missing) if buffer is None else buffer).cast("B")


def _numbers(batch: Any, name: str, kind: Literal["i", "q"]) -> memoryview | array[int]:
    if name not in batch.schema.names or not batch.num_rows:
        return array(kind)
    column = batch.column(name)
    return _bytes(column.buffers()[1]).cast(kind)[column.offset : column.offset + len(column)]


def _one_by_one(commit_log: CommitLog, topic: Topic, name: str, batch: Any) -> ColumnsResult:
    """Put the rows one by one as objects, for kernels that are not compiled."""
    checked = []
    for row, message in enumerate(messages_of(name, batch)):
        if commit_log.unique is not None:
            commit_log.unique.add_to(message)
        properties = encode_properties(message)
        if properties is None:
            return _refused(commit_log, PutRule.COLUMN_ROW, row)
        if any(key.startswith(RESERVED) for key in message.properties or ()):
            timer = any(key in TIMERS for key in message.properties or ())
            return _refused(commit_log, PutRule.TIMER if timer else PutRule.RESERVED_PROPERTY, row)
        rule = message_rule(message, properties, commit_log.config)
        if rule is not None:
            return _refused(
                commit_log, PutRule.PROPERTIES_SIZE if rule is PutRule.PROPERTIES_SIZE else PutRule.COLUMN_ROW, row
            )
        checked.append((message, properties))
    return commit_log.locked(lambda: _append_each(commit_log, topic, checked), CLOSED)


def _append_each(commit_log: CommitLog, topic: Topic, checked: list[tuple[Message, bytes]]) -> ColumnsResult:
    """Write checked messages. The put lock is held."""
    results, status = [], PutMessageStatus.PUT_OK
    first: dict[int, int] = {}
    for message, properties in checked:
        result = commit_log.append_locked(message, topic, properties, commit_log.hosts)
        if result.status is not PutMessageStatus.PUT_OK:
            status = result.status
            break
        first.setdefault(message.queue_id, result.queue_offset)
        results.append(result)
    if not results:
        return ColumnsResult(status)
    begin, last = results[0].physical_offset, results[-1]
    end = last.physical_offset + last.size
    return ColumnsResult(status, len(results), begin, end, first, last.store_timestamp, last.store_host)


def messages_of(name: str, batch: Any) -> Iterator[Message]:
    for row in batch.to_pylist():
        body = row.pop("body")
        born = row.pop("born_timestamp", None)
        properties = dict(row.pop("properties", None) or ())
        yield Message(
            name,
            body.encode() if isinstance(body, str) else body,
            properties=properties,
            born_timestamp=born if born is None or isinstance(born, int) else round(born.timestamp() * 1000),
            **row,
        )
