"""Adds the last record that was read, by log offset and store time, to a stream's offset.

Queue offsets alone do not distinguish a queue from a later one of the same name. The log offset does: every record that
was read is at or before it, so a queue whose last read record is after it was deleted and created again, however many
messages it has got since. And if another record is at that log offset, the log was truncated, or belongs to another
store. Offsets that version 0.1 wrote have no anchor; they cannot be checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from flintmq.errors import UsageError
from flintmq.lake.offsets import MARKS

if TYPE_CHECKING:
    from flintmq.lake.stream.admission import Span
    from flintmq.lake.stream.queues import StreamQueues
    from flintmq.store.layout.queue_name import QueueName

NO_TIME = -1
"""The anchor is only a bound: there need not be a record."""


class StreamAnchor(NamedTuple):
    """The last record that was read: its log offset, and its store time in ms (or NO_TIME)."""

    log_offset: int
    store_timestamp: int

    def marks(self) -> dict[str, int]:
        """Return the anchor as keys of an offset."""
        return dict(zip(MARKS, self, strict=True))


def anchor_in(offset: Mapping[str, Any]) -> StreamAnchor | None:
    """Return the anchor of an offset, if it has one.

    Raises:
        UsageError: the values of its keys are not numbers.
    """
    if not any(mark in offset for mark in MARKS):
        return None
    found = [offset.get(mark) for mark in MARKS]
    if any(not isinstance(number, int) or isinstance(number, bool) for number in found):
        raise UsageError(f"the query's checkpoint: {' and '.join(MARKS)} are not numbers; begin with a new checkpoint")
    return StreamAnchor(*found)  # type: ignore[arg-type]


def begin_anchor(queues: StreamQueues, offsets: Mapping[QueueName, int]) -> StreamAnchor | None:
    """Return the anchor of a query that begins at these offsets, if messages are before them.

    It is no later than the log's end.
    """
    later = any(offset > queues.bounds[name][0] for name, offset in offsets.items())
    return StreamAnchor(queues.end - 1, NO_TIME) if later else None


def next_anchor(
    queues: StreamQueues, spans: Mapping[QueueName, Span], before: StreamAnchor | None
) -> StreamAnchor | None:
    """Return the anchor of the end of a micro-batch.

    Args:
        queues: as the store has them.
        spans: offsets of each queue that the micro-batch reads.
        before: anchor of its begin.

    Raises:
        StoreAccessError: a file may not be read.
    """
    last = -1
    for name in queues.in_order(spans):
        place = queues.place(name, spans[name][1] - 1)
        last = last if place is None else max(last, place)
    if before is not None and last <= before.log_offset:
        return before
    record = queues.record(last) if last >= 0 else None
    return before if last < 0 else StreamAnchor(last, NO_TIME if record is None else record.store_timestamp)


def made_again(queues: StreamQueues, name: QueueName, offset: int, anchor: StreamAnchor | None) -> bool:
    """Return whether a queue is not the one whose messages before an offset were read.

    Raises:
        StoreAccessError: a file may not be read.
    """
    if anchor is None or offset <= 0 or queues.ends.get(name, 0) <= anchor.log_offset:
        return False
    low, high = queues.bounds[name]
    at = min(offset, high) - 1
    place = queues.place(name, at) if at >= low else None
    if place is None or place <= anchor.log_offset:
        return False
    message = queues.message(name, at)
    return message is not None and message.physical_offset > anchor.log_offset


def walked_to(queues: StreamQueues, anchor: StreamAnchor | None) -> int | None:
    """Return the log offset of a record before which the query has read everything.

    The result is None if that is not known.

    Raises:
        StoreAccessError: a file may not be read.
    """
    if anchor is None:  # nothing was read yet, and nothing left out
        return queues.log.min_offset
    if anchor.store_timestamp == NO_TIME or is_other_log(queues, anchor):
        return None
    return max(anchor.log_offset, queues.log.min_offset)


def is_other_log(queues: StreamQueues, anchor: StreamAnchor | None) -> bool:
    """Return whether the last record that was read is missing from the log.

    The result is False if it may have expired.

    Raises:
        StoreAccessError: a file may not be read.
    """
    if anchor is None or anchor.store_timestamp == NO_TIME or anchor.log_offset < queues.log.min_offset:
        return False
    if anchor.log_offset >= queues.end:
        return True
    record = queues.record(anchor.log_offset)
    return record is None or record.store_timestamp != anchor.store_timestamp
