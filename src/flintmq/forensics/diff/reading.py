"""Reads two logs whole, for their comparison, in one process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from flintmq.forensics.diff.by_message import Block, BlockSum, MessageReader, block_of, sums_of
from flintmq.forensics.diff.ranges import Progress, ranges_that_differ
from flintmq.forensics.diff.records import messages
from flintmq.message import StoredMessage
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.commitlog.walk import LogWalk


class PartSummary(NamedTuple):
    """The count of messages in a part of a log, and the first and last store time in ms."""

    messages: int
    first_timestamp: int | None
    last_timestamp: int | None


class PairReader(MessageReader, Protocol):
    """Reads two logs, A (0) and B (1), up to where they ended when they were opened."""

    def ranges_that_differ(self, begin: int, end: int, progress: Progress | None) -> Iterable[tuple[int, int]]:
        """Return the ranges within [begin, end) in which the bytes differ, in order."""

    def summary(self, number: int, begin: int, end: int) -> PartSummary:
        """Return the summary of a log's part, which begins at a record or at a place without one."""


class OneProcess:
    """Reads both logs here, one after the other."""

    def __init__(self, a: Snapshot, b: Snapshot) -> None:
        self.stores = a, b

    def ranges_that_differ(self, begin: int, end: int, progress: Progress | None) -> Iterator[tuple[int, int]]:
        a, b = self.stores
        return ranges_that_differ(a.log, b.log, begin, end, progress)

    def summary(self, number: int, begin: int, end: int) -> PartSummary:
        store = self.stores[number]
        return summary_of(messages(LogWalk(store.log, begin=begin, end=end, strict=False)))

    def sums(self, number: int, report: Report, progress: Progress | None) -> dict[Block, BlockSum]:
        return sums_of(self._messages(number, report, progress))

    def messages_of(self, number: int, blocks: frozenset[Block]) -> list[StoredMessage]:
        return [one for one in self._messages(number, Report(), None) if block_of(one) in blocks]

    def _messages(self, number: int, report: Report, progress: Progress | None) -> Iterator[StoredMessage]:
        """Yield the messages of a log; progress is over both."""
        store, sizes = self.stores[number], [each.end - each.log.min_offset for each in self.stores]
        begin = store.log.min_offset

        def reached(offset: int) -> None:
            if progress is not None:
                progress(sum(sizes[:number]) + offset - begin, sum(sizes))

        return messages(LogWalk(store.log, store.facts, begin, strict=False, report=report), reached)


def summary_of(found: Iterable[StoredMessage]) -> PartSummary:
    count = 0
    first: int | None = None
    last: int | None = None
    for message in found:
        count, last = count + 1, message.store_timestamp
        first = last if first is None else first
    return PartSummary(count, first, last)
