"""Reads the units of a timer log, and compares it with the records of the timer's topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, takewhile
from typing import Final

from flintmq.config.keys import I64_MAX
from flintmq.format import properties
from flintmq.format.text import java_int
from flintmq.format.timer import TIMER_TOPIC, UNIT_DELETES, LogUnit, TimerCheck
from flintmq.message import StoredMessage
from flintmq.store.layout import timer_files
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.read.queue_lookup import QueueLookup

NOT_YET_MS: Final = 10_000  # so much later, at most, a due message is in its topic


def due_ms(record: StoredMessage) -> int:
    """Return when a record of the timer's topic is delivered, Unix time in ms."""
    return java_int(record.properties.get(properties.TIMER_OUT_MS, ""), 64) or 0


def timer_units(
    lookup: QueueLookup,
    check: TimerCheck,
    records: Callable[[int | None, int | None], Iterable[StoredMessage]],
    lost: Callable[[str], None],
) -> Iterator[LogUnit]:
    """Yield the units of the timer log; call `lost` where it, or the check, contradicts the log.

    RocketMQ makes no unit of a message that is due at once.

    `records`: returns those of the timer's queue from one offset to another; None: from its first, to its last.
    """
    snapshot = lookup.snapshot
    is_stopped, newest = not snapshot.facts.live, snapshot.record(snapshot.log_end.last or 0)
    newest_ms = newest.store_timestamp + NOT_YET_MS if newest else I64_MAX
    first = last = None
    delivered_later, is_older = 0, False
    files = timer_files.log_files(snapshot.root, snapshot.effects)
    for _, last in timer_files.log_units(files, snapshot.end, snapshot.effects):
        first = first or last
        if newest_ms < last.slot_time < check.last_read_time:
            delivered_later += -1 if last.magic & UNIT_DELETES else 1
        is_older = is_older or 0 < check.timestamp < last.write_time - NOT_YET_MS
        yield last
    low, high = (first.physical_offset, last.physical_offset) if first and last else (0, -1)
    before = takewhile(lambda one: one.physical_offset < low, records(None, None))
    after = records(held.queue_offset + 1 if (held := snapshot.record(high)) else 0, check.queue_offset)
    waits_ms = check.last_read_time + (0 if snapshot.facts.clean and is_stopped else NOT_YET_MS)
    if any(due_ms(one) >= waits_ms and not low <= one.physical_offset <= high for one in chain(before, after)):
        lost(f"{snapshot.root}/timerlog: it lacks messages that wait; run `flintmq verify`")
    is_ahead = is_stopped and (delivered_later > 0 or check.queue_offset > lookup.bounds(QueueName(TIMER_TOPIC, 0)).max)
    if is_older or is_ahead:
        what = (
            f"{snapshot.root}/config/{timer_files.CHECK}: it says {'more' if is_ahead else 'less'} than the logs have"
        )
        lost(f"{what}: is it another broker's? Which of these messages wait is not known; run `flintmq verify`")
