"""Names the records of a range in which the bytes of two logs differ."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from flintmq.forensics.diff.differences import Difference, Differences, Kind, altered, moved, only
from flintmq.message import StoredMessage, stored_message
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.report import Damage, Report
from flintmq.store.commitlog.resync import first_record
from flintmq.store.commitlog.walk import LogWalk

STEP = 64 << 10  # first step back in search of the record that a range begins in

Place = tuple[str, int, int]


class Side(NamedTuple):
    records: dict[int, StoredMessage]
    damages: list[Damage]


@dataclass
class RangePairs:
    pairs: list[tuple[StoredMessage, StoredMessage]]
    left: dict[int, StoredMessage]  # left, right: records without a partner, by log offset
    right: dict[int, StoredMessage]
    damages: list[Difference] = field(default_factory=list)

    def join(self, following: RangePairs) -> None:
        """Take partners out of the next range: a message may have moved over the border."""
        for key in (content_of, place_of):
            self.pairs += pairs_of(self.left, following.right, key)
            self.pairs += pairs_of(following.left, self.right, key)

    def differences(self) -> Iterator[Difference]:
        """Yield what differs, in the order of log offsets, and damage after it."""
        found = [of_pair(one, other) for one, other in self.pairs]
        found += [only(one, Kind.ONLY_A) for one in self.left.values()]
        found += [only(one, Kind.ONLY_B) for one in self.right.values()]
        yield from sorted(found, key=lambda one: one.a_offset if one.a_offset is not None else one.b_offset or 0)
        yield from self.damages


class RecordsOfRanges:
    """Adds the records of ranges to the differences, each once.

    A range waits for the next one, so that a message that moved from one to the other is named as such; `finish` adds
    the last one.
    """

    def __init__(self, a: LogFiles, b: LogFiles, found: Differences) -> None:
        self.a, self.b, self.found = a, b, found
        self._done_a = self._done_b = 0  # log offsets up to which records were compared
        self._waiting = RangePairs([], {}, {})

    def add(self, begin: int, end: int) -> None:
        """Compare the records that have a byte in [begin, end)."""
        first = max(self._done_a, record_before(self.a, begin)), max(self._done_b, record_before(self.b, begin))
        one, other = side(self.a, first[0], end), side(self.b, first[1], end)
        self._done_a, self._done_b = (after(log, start, end) for log, start in ((one, first[0]), (other, first[1])))
        range_pairs = compared(one.records, other.records)
        range_pairs.damages += [*damaged(Kind.DAMAGED_A, one.damages, other.records),
                                *damaged(Kind.DAMAGED_B, other.damages, one.records)]  # fmt: skip
        self._waiting.join(range_pairs)
        self.finish()
        self._waiting = range_pairs

    def finish(self) -> None:
        for difference in self._waiting.differences():
            self.found.add(difference)
        self._waiting = RangePairs([], {}, {})


def damaged(kind: Kind, damages: Iterable[Damage], opposite: dict[int, StoredMessage]) -> Iterator[Difference]:
    """Yield bytes without records, where the other side has a record."""
    places = sorted(opposite)
    for damage in damages:
        number = bisect_left(places, damage.offset)
        if number < len(places) and places[number] < damage.offset + damage.lost:
            hit = places[number]
            a, b = (damage.offset, hit) if kind is Kind.DAMAGED_A else (hit, damage.offset)
            yield Difference(kind, None, None, None, a, b, opposite[hit].store_timestamp, (), damage.lost)


def record_before(log: LogFiles, offset: int) -> int:
    """Return a log offset of a record at or before this one, or of the begin of its file."""
    file = log.find(offset)
    if file is None:
        return offset
    step = STEP
    while True:
        start = max(file.start, offset - step)
        found = first_record(log, start)
        if found <= offset or start == file.start:
            return min(found, offset)
        step *= 8


def messages(walk: LogWalk, reached: Callable[[int], None] | None = None) -> Iterator[StoredMessage]:
    """Yield the messages of a walk; `reached` is called with the log offset after each piece."""
    for piece in walk:
        for at in piece.positions[: piece.count]:
            yield stored_message(piece.data, at)
        if reached is not None:
            reached(piece.base + piece.end)


def side(log: LogFiles, begin: int, end: int) -> Side:
    report = Report()
    found = messages(LogWalk(log, begin=begin, end=end, strict=False, report=report)) if begin < end else ()
    return Side({one.physical_offset: one for one in found}, report.damages)


def after(one: Side, begin: int, end: int) -> int:
    last = max(one.records, default=None)
    return max(begin, end) if last is None else max(end, last + one.records[last].size)


def place_of(message: StoredMessage) -> Place:
    return message.topic, message.queue_id, message.queue_offset


def content_of(message: StoredMessage) -> tuple[object, ...]:
    """Return what a producer gave: equal for the same message at another place."""
    return message.topic, message.msg_id, message.body, message.fields.properties, message.born_timestamp, message.flag


def compared(a: dict[int, StoredMessage], b: dict[int, StoredMessage]) -> RangePairs:
    """Return what differs between two sets of records.

    Two records are the same message, in this order: of the same content at the same log offset; of the same content; at
    the same place of a queue.
    """
    left = {at: one for at, one in a.items() if at not in b or b[at].raw != one.raw}
    right = {at: one for at, one in b.items() if at not in a or a[at].raw != one.raw}
    found = RangePairs([], left, right)
    for key in (lambda one: (one.physical_offset, content_of(one)), content_of, place_of):
        found.pairs += pairs_of(left, right, key)
    return found


def pairs_of(
    left: dict[int, StoredMessage], right: dict[int, StoredMessage], key: Callable[[StoredMessage], object]
) -> list[tuple[StoredMessage, StoredMessage]]:
    """Take pairs of one key out of both sides, and return them."""
    where = defaultdict(list)
    for at, one in right.items():
        where[key(one)].append(at)
    return [(left.pop(at), right.pop(there.pop(0))) for at, one in list(left.items()) if (there := where.get(key(one)))]


def of_pair(a: StoredMessage, b: StoredMessage) -> Difference:
    return moved(a, b) if content_of(a) == content_of(b) and a.physical_offset != b.physical_offset else altered(a, b)
