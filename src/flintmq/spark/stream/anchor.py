"""What a stream's offset says beside the queues' offsets: the last record that was read, by place and time.

Queue offsets alone cannot tell a queue from another one of the same name. The place can: everything that was read stood
in the log at this place or before it, so a queue whose record below its offset stands behind it was deleted and made
again meanwhile, however far it has grown. And where another record stands at the place itself, the log was cut, or is
that of another store. Offsets that version 0.1 wrote have no such place; of them nothing is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from flintmq.errors import UsageError
from flintmq.lake.offsets import MARKS

if TYPE_CHECKING:
    from flintmq.spark.stream.admission import Span
    from flintmq.spark.stream.queues import StreamQueues
    from flintmq.store.layout.queue_name import QueueName

NO_TIME = -1
"""The record is only a bound: it need not be there."""


class StreamAnchor(NamedTuple):
    """The last record that was read: where it begins in the log, and its store time in ms (or NO_TIME)."""

    log_offset: int
    store_timestamp: int

    def marks(self) -> dict[str, int]:
        """The anchor as keys of an offset."""
        return dict(zip(MARKS, self, strict=True))


def anchor_in(offset: Mapping[str, Any]) -> StreamAnchor | None:
    """The anchor of an offset, if it has one.

    Raises:
        UsageError: it has something else there.
    """
    if not any(mark in offset for mark in MARKS):
        return None
    found = [offset.get(mark) for mark in MARKS]
    if any(not isinstance(number, int) or isinstance(number, bool) for number in found):
        raise UsageError(f"the query's checkpoint: {' and '.join(MARKS)} are no numbers; begin with a new checkpoint")
    return StreamAnchor(*found)  # type: ignore[arg-type]


def begin_anchor(queues: StreamQueues, offsets: Mapping[QueueName, int]) -> StreamAnchor | None:
    """The anchor of a query that begins at these offsets, if messages lie before them: no later than the log's end."""
    later = any(offset > queues.bounds[name][0] for name, offset in offsets.items())
    return StreamAnchor(queues.end - 1, NO_TIME) if later else None


def next_anchor(
    queues: StreamQueues, spans: Mapping[QueueName, Span], before: StreamAnchor | None
) -> StreamAnchor | None:
    """The anchor of the end of a micro-batch.

    Args:
        queues: as the store has them.
        spans: what the micro-batch reads of each queue.
        before: that of its begin.

    Raises:
        StoreAccessError: a file may not be read.
    """
    places = [queues.place(name, high - 1) for name, (_, high) in spans.items()]
    last = max((place for place in places if place is not None), default=-1)
    if before is not None and last <= before.log_offset:
        return before
    record = queues.record(last) if last >= 0 else None
    return before if last < 0 else StreamAnchor(last, NO_TIME if record is None else record.store_timestamp)


def made_again(queues: StreamQueues, name: QueueName, offset: int, anchor: StreamAnchor | None) -> bool:
    """Whether a queue is another one than that of which messages before an offset were read.

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
    """Log offset of a record before which all that the query wants was read; None if that is not known.

    Raises:
        StoreAccessError: a file may not be read.
    """
    if anchor is None:  # nothing was read yet, and nothing left out
        return queues.log.min_offset
    if anchor.store_timestamp == NO_TIME or is_other_log(queues, anchor):
        return None
    return max(anchor.log_offset, queues.log.min_offset)


def is_other_log(queues: StreamQueues, anchor: StreamAnchor | None) -> bool:
    """Whether the last record that was read is not in the log any more. Of what has expired nothing is known.

    Raises:
        StoreAccessError: a file may not be read.
    """
    if anchor is None or anchor.store_timestamp == NO_TIME or anchor.log_offset < queues.log.min_offset:
        return False
    if anchor.log_offset >= queues.end:
        return True
    record = queues.record(anchor.log_offset)
    return record is None or record.store_timestamp != anchor.store_timestamp
