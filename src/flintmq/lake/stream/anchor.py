"""Adds the last record that was read, as an anchor, to a stream's offset.

Queue offsets alone do not distinguish a queue from a later one of the same name. The log offset does: every record that
was read is at or before it, so a queue whose last read record is after it was deleted and created again, however many
messages it has got since. And if another record is at that log offset, the log was truncated, or belongs to another
store. A query that does not begin at the first messages has the last record of the log then, without its store time:
messages before it may come yet. Offsets of FlintMQ 0.1 have less (no size and checksum, no such record, or no anchor at
all); what they have is compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from flintmq.errors import StoreError, UnsupportedFormatError, UsageError
from flintmq.lake.read.offsets import MARKS
from flintmq.storage.files.versioned_json import made_by
from flintmq.store.commitlog.anchor import NO_TIME, KnownLog, LogAnchor, anchor_at, why_lost
from flintmq.version import OURS

if TYPE_CHECKING:
    from flintmq.lake.stream.admission import Span
    from flintmq.lake.stream.queues import StreamQueues
    from flintmq.store.layout.queue_name import QueueName

FORMAT = 2  # 1, of FlintMQ 0.1, had @log_offset and @store_timestamp alone


def marks(anchor: LogAnchor) -> dict[str, Any]:
    record = (anchor.physical_offset, anchor.store_timestamp, anchor.size, anchor.body_crc)
    return dict(zip(MARKS, (FORMAT, OURS, *record), strict=True))


def anchor_in(offset: Mapping[str, Any]) -> LogAnchor | None:
    of, writer, *names = MARKS
    there = offset.get(of, 1)
    unknown = next((key for key in offset if key[:1] == "@" and "/" not in key and key not in MARKS), None)
    if unknown is not None or (type(there) is int and there > FORMAT):
        what = f"{of} {there}" if unknown is None else f"the key {unknown[:40]!a}"
        raise UnsupportedFormatError(
            f"the query's checkpoint: {what} is not known here: {made_by(offset.get(writer), unknown is None)}"
        )
    if not any(mark in offset for mark in names):
        return None
    found = [offset.get(mark, 0 if mark in ("@size", "@body_crc") and there == 1 else None) for mark in names]
    if any(type(number) is not int for number in found):
        raise UsageError(f"the query's checkpoint: {' and '.join(names)} are not numbers; begin with a new checkpoint")
    place, time, size, crc = found
    return LogAnchor(place, size, time, crc)


def begin_anchor(queues: StreamQueues, offsets: Mapping[QueueName, int]) -> LogAnchor | None:
    """Return the anchor of a query that begins at these offsets, if messages are before them.

    It is the log's last record, and no later than the log's end.
    """
    if not any(offset > queues.bounds[name][0] for name, offset in offsets.items()):
        return None
    last = queues.last
    found = None if last is None else anchor_at(queues.log, last, queues.end)
    if found is None:
        return LogAnchor(queues.end - 1, 0, NO_TIME, 0)
    return LogAnchor(found.physical_offset, found.size, NO_TIME, found.body_crc)


def next_anchor(queues: StreamQueues, spans: Mapping[QueueName, Span], before: LogAnchor | None) -> LogAnchor | None:
    last = -1
    for name in queues.in_order(spans):
        place = queues.place(name, spans[name][1] - 1)
        last = last if place is None else max(last, place)
    if last < 0 or (before is not None and last <= before.physical_offset):
        return before
    return anchor_at(queues.log, last, queues.end) or LogAnchor(last, 0, NO_TIME, 0)


def made_again(queues: StreamQueues, name: QueueName, offset: int, anchor: LogAnchor | None) -> bool:
    """Return whether a queue is not the one whose messages before an offset were read."""
    if anchor is None or offset <= 0 or queues.ends.get(name, 0) <= anchor.physical_offset:
        return False
    low, high = queues.bounds[name]
    at = min(offset, high) - 1
    place = queues.place(name, at) if at >= low else None
    if place is None or place <= anchor.physical_offset:
        return False
    message = queues.message(name, at)
    return message is not None and message.physical_offset > anchor.physical_offset


def walked_to(queues: StreamQueues, anchor: LogAnchor | None) -> int | None:
    """Return the log offset of a record before which the query has read everything.

    The result is None if that is not known.
    """
    if anchor is None:  # nothing was read yet, and nothing left out
        return queues.log.min_offset
    if anchor.store_timestamp == NO_TIME:
        return None
    return max(anchor.physical_offset, queues.log.min_offset)


def refuse_other_log(queues: StreamQueues, anchor: LogAnchor | None) -> None:
    """Raise StoreError if the log is not the one that was read.

    Also without failOnDataLoss: that option is for messages that are gone. Offsets say nothing of another log, so its
    first messages would be taken for read ones.
    """
    why = "" if anchor is None else why_lost(KnownLog(queues.log, queues.end), anchor)
    if why and not queues.log.effects.is_dir(queues.root):
        why = "the store is not there any more; bring it back (is its disk mounted?), or start again"
    elif why:
        why += "; bring the log that was read back, or begin anew: with a new checkpoint, an export with a new --out"
    if why:
        raise StoreError(f"{queues.root}: {why}")
