"""Compares two stores: master and slave, before and after a move, a store and its copy.

The log is what is compared; queues and index follow from it, and `verify` checks them. Where both logs have the same
records at the same offsets, as with a slave or a copy, their bytes are compared. Otherwise, as after a replay, their
messages are, by topic, queue and queue offset.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from flintmq.config.keys import StoreConfig
from flintmq.config.text import check_choice
from flintmq.errors import UsageError
from flintmq.forensics.diff.by_message import compare_messages
from flintmq.forensics.diff.differences import Differences
from flintmq.forensics.diff.ranges import Progress
from flintmq.forensics.diff.reading import OneProcess, PairReader
from flintmq.forensics.diff.records import RecordsOfRanges
from flintmq.store.commitlog.records import record_at
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.resync import next_record
from flintmq.store.commitlog.snapshot import Snapshot

WAYS = ("auto", "offset", "message")
PROBES = 32  # records that are looked at to see whether offsets are the same


@dataclass(frozen=True)
class DiffSide:
    """One of two stores that were compared."""

    path: str
    log_begin: int  # log_begin, log_end: log offsets
    log_end: int
    ending: str  # what is at the end, as `verify` names it
    live: bool
    damage: int  # places without records; where bytes were compared, those at its ends and files that are missing


@dataclass(frozen=True)
class OneSided:
    """A part of the log that only one side has: before the other begins, or after it ends.

    `first_timestamp`, `last_timestamp`: store times in ms of the first and the last; None without messages.
    """

    side: str  # "a" or "b"
    where: str  # "begin" or "end"
    begin: int  # begin, end: log offsets
    end: int
    messages: int  # in it
    first_timestamp: int | None
    last_timestamp: int | None
    growing: bool = False  # the other side is in use, and may get them yet


@dataclass
class Comparison:
    """The result of a comparison.

    Attributes:
        a, b: the stores.
        way: "offset" or "message".
        begin, end: log offsets between which bytes were compared; by message 0.
        messages: of each side, by message; None by offset.
        differences: what differs.
        one_sided: parts of the log of one side alone, by offset.
        notes: for the user.
    """

    a: DiffSide
    b: DiffSide
    way: str
    begin: int
    end: int
    messages: tuple[int, int] | None
    differences: Differences
    one_sided: list[OneSided] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """True if nothing differs; what a store in use may get yet is no difference.

        Where a log is damaged nothing was compared, so nothing is known to be equal.
        """
        whole = not self.a.damage and not self.b.damage
        return whole and not self.differences.run_count and all(part.growing for part in self.one_sided)

    @property
    def exit_code(self) -> int:
        """0 if the stores are equal, else 1."""
        return 0 if self.equal else 1

    def as_dict(self) -> dict[str, Any]:
        """Return all but the differences themselves, for JSON."""
        found = self.differences
        return {
            "a": vars(self.a), "b": vars(self.b), "way": self.way, "begin": self.begin, "end": self.end,
            "messages": self.messages, "one_sided": [vars(part) for part in self.one_sided],
            "differences": sum(found.counts.values()), "counts": {str(kind): n for kind, n in found.counts.items()},
            "runs": found.run_count, "first_store_timestamp": found.first_timestamp, "equal": self.equal,
            "notes": self.notes,
        }  # fmt: skip


def compare(
    a: str,
    b: str,
    config: StoreConfig | None = None,
    by: str = "auto",
    progress: Progress | None = None,
    reader: Callable[[Snapshot, Snapshot], PairReader] = OneProcess,
) -> Comparison:
    """Compare two stores.

    Args:
        a, b: the stores' directories, or URLs.
        config: RocketMQ's keys, for both.
        by: "offset": records at the same log offsets; "message": by topic, queue and queue offset; "auto": by offset if
            the logs have a record in common, else by message.
        progress: called with bytes done and in all.
        reader: makes what reads both logs whole; what differs is read here again, and named.

    Raises:
        UsageError: both are one store, or another way.
        NotAStoreError, UnsupportedFormatError, StoreAccessError: one is no store, or may not be read.
        OSError: the disk fails.
    """
    check_choice("by", by, WAYS)
    one, other = open_both(a, b, config)
    reports = Report(), Report()
    for store, report in ((one, reports[0]), (other, reports[1])):
        store.find_end(report)
    begin, end = max(one.log.min_offset, other.log.min_offset), min(one.end, other.end)
    found, pair = Differences(), reader(one, other)
    way = by if by != "auto" else "offset" if _in_common(one, other, begin, end) else "message"
    counts, one_sided = None, []
    if way == "offset":
        records = RecordsOfRanges(one.log, other.log, found)
        for first, last in pair.ranges_that_differ(begin, end, progress):
            records.add(first, last)
        records.finish()
        one_sided = [*_alone(0, one, other, pair, begin, end), *_alone(1, other, one, pair, begin, end)]
    else:
        begin = end = 0
        reports = Report(), Report()  # their walks come to the ends again
        counts = compare_messages(pair, found, reports, progress)
    notes = [note.text for report in reports for note in report.notes]
    sides = [
        DiffSide(path, store.log.min_offset, store.end, store.log_end.verdict.name.lower(), store.facts.live,
                 report.damage_count + (len(store.log.gaps()) if way == "offset" else 0))
        for path, store, report in ((a, one, reports[0]), (b, other, reports[1]))
    ]  # fmt: skip
    return Comparison(sides[0], sides[1], way, begin, end, counts, found, one_sided, notes)


def open_both(a: str, b: str, config: StoreConfig | None = None) -> tuple[Snapshot, Snapshot]:
    one, other = Snapshot.open(a, config), Snapshot.open(b, config)
    if not one.effects.remote and not other.effects.remote and os.path.samefile(one.root, other.root):
        raise UsageError(f"{a} and {b} are one store; give two")
    return one, other


def _in_common(a: Snapshot, b: Snapshot, begin: int, end: int) -> bool:
    """Return whether one of the first records from an offset on is the same in both logs."""
    at = next_record(a.log, begin, end)
    for _ in range(PROBES):
        if at is None or at >= end:
            break
        one, other = record_at(a.log, at), record_at(b.log, at)
        if one is not None and other is not None and one.raw == other.raw:
            return True
        at = None if one is None else next_record(a.log, at + one.size, end)
    # Without a byte in common, one log may still continue the other; an empty one is the begin of any.
    return begin >= end and (a.end == b.log.min_offset or b.end == a.log.min_offset or not a.end or not b.end)


def _alone(number: int, store: Snapshot, other: Snapshot, pair: PairReader, begin: int, end: int) -> Iterator[OneSided]:
    """Yield the parts of a log before and after what both have."""
    for where, first, last in (("begin", store.log.min_offset, min(begin, store.end)), ("end", end, store.end)):
        if first < last:
            part = pair.summary(number, first, last)
            growing = where == "end" and other.facts.live
            yield OneSided("ab"[number], where, first, last, *part, growing)
