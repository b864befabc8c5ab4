"""Reads queues from begin to end, and the outcomes of transactions."""

from __future__ import annotations

from collections.abc import Iterator

from flintmq.config.keys import I64_MAX
from flintmq.errors import MessageNotFoundError, UsageError
from flintmq.format.group_topics import OUTCOME_TOPIC
from flintmq.message import StoredMessage
from flintmq.store.append.half_message import ended_by
from flintmq.store.commitlog.report import Report
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.view import StoreView

AT_ONCE = 1000


def first_copy(view: StoreView, origin: str) -> StoredMessage | None:
    """Return the record that an offset message id names; None if the store has it not."""
    try:
        return view.get_by_offset_msg_id(origin) if origin else None
    except (MessageNotFoundError, UsageError):
        return None  # expired, another broker's, or a text that is no id


def queue_messages(
    view: StoreView, topic: str, queue_id: int, begin: int | None, report: Report, end: int | None = None
) -> Iterator[StoredMessage]:
    """Yield the messages of a queue, from an offset on and up to another, if they are given.

    A queue without files is found in the log. `report` also receives the damage before its first and after its last
    message that can be read.
    """
    view.read_log_of(topic)
    low, high = view.bounds(topic, queue_id)
    at, stop = low if begin is None else max(low, begin), high if end is None else min(high, end)
    while at < stop and (batch := view.read(topic, queue_id, at, min(AT_ONCE, stop - at), report=report)):
        yield from batch
        at = batch.next_offset
    report_outside(view, QueueName(topic, queue_id), begin or 0, I64_MAX if end is None else end, report)


def report_outside(view: StoreView, name: QueueName, begin: int, end: int, report: Report) -> None:
    """Report damage among offsets [begin, end) of a queue that its bounds leave out, once."""
    low, high = view.bounds(*name)
    found = Report()
    view._now.report_lost(name, begin, min(low, end), found)
    view._now.report_lost(name, max(high, begin), end, found)
    if (hidden := view._now.lost_outside(name)) is not None:
        found.damage(hidden)
    for lost in found.damages:
        if lost not in report.damages:
            report.damage(lost)


def outcomes(
    view: StoreView, since_ms: int | None, report: Report, log_end: int | None = None
) -> Iterator[tuple[int, list[int]]]:
    """Yield of each outcome its store time in ms, and the queue offsets that it names.

    `since_ms`: only of those that were stored at this time or later; `log_end`: before this log offset; None: of all.
    """
    begin = None if since_ms is None else view.offset_at_time(OUTCOME_TOPIC, 0, since_ms)
    if begin == view.bounds(OUTCOME_TOPIC, 0)[0]:
        begin = None  # those before it that cannot be read may be of this time
    for record in queue_messages(view, OUTCOME_TOPIC, 0, begin, report):
        if log_end is not None and record.physical_offset >= log_end:
            break
        yield record.store_timestamp, ended_by(record)


def bytes_for_queues(view: StoreView) -> int:
    """Return how many bytes of the log are read to find queues without files."""
    return view.max_physical_offset - view.min_physical_offset if view._now.without_files() else 0
