"""Collects the differences of two stores, in runs of one kind in one queue.

What is kept is bounded whatever differs; the rest is counted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from flintmq.message import StoredMessage

RUNS_KEPT = 10_000
OPEN_RUNS = 1_000


class Kind(StrEnum):
    ALTERED = "altered"  # the same place of a queue, another content
    ONLY_A = "only-in-a"
    ONLY_B = "only-in-b"
    MOVED = "moved"  # the same content at another place of the queue
    TWICE_B = "twice-in-b"  # of a table: more rows than messages
    DAMAGED_A = "damaged-in-a"  # bytes without a record, where the other side has records
    DAMAGED_B = "damaged-in-b"


@dataclass(frozen=True)
class Difference:
    """One message, or one range of bytes, that differs.

    `topic`, `queue_id`, `queue_offset`: place of the message, of an altered or moved one that of A; None for bytes.
    """

    kind: Kind
    topic: str | None
    queue_id: int | None
    queue_offset: int | None
    a_offset: int | None  # a_offset, b_offset: log offsets; None where a side has none
    b_offset: int | None
    store_timestamp: int | None  # ms; of both sides the earlier one
    fields: tuple[str, ...] = ()  # of an altered message, the names of the columns that differ
    bytes: int = 0  # of damage, its length; of others the size of the record


@dataclass
class Run:
    """Differences of one kind in one queue whose queue offsets follow each other."""

    first: Difference
    last: Difference
    count: int = 1
    fields: set[str] = field(default_factory=set)

    def continues(self, one: Difference) -> bool:
        before = self.last.queue_offset
        return before is not None and one.queue_offset == before + 1

    def add(self, one: Difference) -> None:
        self.last, self.count = one, self.count + 1
        self.fields |= set(one.fields)

    def as_dict(self) -> dict[str, Any]:
        first, last = self.first, self.last
        return {
            "difference": str(first.kind), "count": self.count, "topic": first.topic, "queue_id": first.queue_id,
            "first_queue_offset": first.queue_offset, "last_queue_offset": last.queue_offset,
            "first_a_offset": first.a_offset, "first_b_offset": first.b_offset,
            "last_a_offset": last.a_offset, "last_b_offset": last.b_offset,
            "first_store_timestamp": first.store_timestamp, "last_store_timestamp": last.store_timestamp,
            "fields": sorted(self.fields), "bytes": first.bytes if self.count == 1 else None,
        }  # fmt: skip


class Differences:
    def __init__(self) -> None:
        self.runs: list[Run] = []  # in the order in which they began, RUNS_KEPT at most
        self.counts: Counter[Kind] = Counter()  # by kind, of all
        self.first_timestamp: int | None = None  # earliest store time of a message that differs, ms; None if none does
        self.run_count = 0  # number of all runs
        self._open: dict[tuple[Kind, str | None, int | None], Run] = {}

    def add(self, one: Difference) -> None:
        self.counts[one.kind] += 1
        if one.store_timestamp is not None:
            earlier = (time for time in (self.first_timestamp, one.store_timestamp) if time is not None)
            self.first_timestamp = min(earlier)
        key = one.kind, one.topic, one.queue_id
        run = self._open.get(key)
        if run is not None and run.continues(one):
            run.add(one)
            return
        self.run_count += 1
        run = Run(one, one, 1, set(one.fields))
        if len(self._open) >= OPEN_RUNS:
            self._open.clear()  # a later neighbour begins a run of its own
        self._open[key] = run
        if len(self.runs) < RUNS_KEPT:
            self.runs.append(run)


_COMPARED = (
    "topic", "queue_id", "queue_offset", "body", "properties", "born_timestamp", "born_host", "store_timestamp",
    "store_host", "size", "magic", "flag", "sys_flag", "reconsume_times", "prepared_transaction_offset", "body_crc",
)  # fmt: skip


def fields_that_differ(a: StoredMessage, b: StoredMessage) -> tuple[str, ...]:
    """Return the names of the columns in which two records differ; `raw` if it is none of them."""
    found = tuple(name for name in _COMPARED if getattr(a, name) != getattr(b, name))
    return found or ("raw",)


def altered(a: StoredMessage, b: StoredMessage) -> Difference:
    """Return the difference of two records at the same place of a queue."""
    return Difference(
        Kind.ALTERED, a.topic, a.queue_id, a.queue_offset, a.physical_offset, b.physical_offset,
        min(a.store_timestamp, b.store_timestamp), fields_that_differ(a, b), a.size,
    )  # fmt: skip


def moved(a: StoredMessage, b: StoredMessage) -> Difference:
    """Return the difference of two records of one content at different places."""
    return Difference(
        Kind.MOVED, a.topic, a.queue_id, a.queue_offset, a.physical_offset, b.physical_offset,
        min(a.store_timestamp, b.store_timestamp), ("queue_id", "queue_offset") if (
            (a.queue_id, a.queue_offset) != (b.queue_id, b.queue_offset)) else ("physical_offset",), a.size,
    )  # fmt: skip


def only(one: StoredMessage, kind: Kind) -> Difference:
    a, b = (one.physical_offset, None) if kind is Kind.ONLY_A else (None, one.physical_offset)
    return Difference(kind, one.topic, one.queue_id, one.queue_offset, a, b, one.store_timestamp, (), one.size)
