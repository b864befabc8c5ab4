"""Names the records of a range in which the bytes of two logs differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from flintmq.forensics.diff.differences import Difference, Differences, Kind, altered, moved, only
from flintmq.format.record_view import size_at
from flintmq.message import StoredMessage
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.report import Damage, Report
from flintmq.store.commitlog.resync import first_record
from flintmq.store.commitlog.walk import LogWalk

STEP = 64 << 10  # first step back in search of the record that a range begins in

Place = tuple[str, int, int]


class Side(NamedTuple):
    """The content of one log in a range.

    Attributes:
        records: by log offset.
        damages: places without records.
    """

    records: dict[int, StoredMessage]
    damages: list[Damage]


class RecordsOfRanges:
    """Adds the records of ranges to the differences, each once.

    Args:
        a, b: the logs.
        found: receives what differs.
    """

    def __init__(self, a: LogFiles, b: LogFiles, found: Differences) -> None:
        self.a, self.b, self.found = a, b, found
        self._done_a = self._done_b = 0  # log offsets up to which records were compared

    def add(self, begin: int, end: int) -> None:
        """Compare the records that have a byte in [begin, end).

        Raises:
            StoreAccessError: a file may not be read.
            OSError: the disk fails.
        """
        first = max(self._done_a, record_before(self.a, begin)), max(self._done_b, record_before(self.b, begin))
        one, other = side(self.a, first[0], end), side(self.b, first[1], end)
        self._done_a, self._done_b = (after(log, start, end) for log, start in ((one, first[0]), (other, first[1])))
        for difference in compared(one.records, other.records):
            self.found.add(difference)
        for damage in one.damages:
            self._damage(Kind.DAMAGED_A, damage, other.records)
        for damage in other.damages:
            self._damage(Kind.DAMAGED_B, damage, one.records)

    def _damage(self, kind: Kind, damage: Damage, opposite: dict[int, StoredMessage]) -> None:
        """Add bytes without records, if the other side has a record there."""
        hit = next((at for at in sorted(opposite) if damage.offset <= at < damage.offset + damage.lost), None)
        if hit is not None:
            a, b = (damage.offset, hit) if kind is Kind.DAMAGED_A else (hit, damage.offset)
            time = opposite[hit].store_timestamp
            self.found.add(Difference(kind, None, None, None, a, b, time, (), damage.lost))


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


def side(log: LogFiles, begin: int, end: int) -> Side:
    """Read the records of a log that start in [begin, end)."""
    report = Report()
    records: dict[int, StoredMessage] = {}
    if begin < end:
        for piece in LogWalk(log, begin=begin, end=end, strict=False, report=report):
            for at in piece.positions[: piece.count]:
                records[piece.base + at] = StoredMessage(bytes(piece.data[at : at + size_at(piece.data, at)]))
    return Side(records, report.damages)


def after(one: Side, begin: int, end: int) -> int:
    """Return the log offset after the last record of a side."""
    last = max(one.records, default=None)
    return max(begin, end) if last is None else max(end, last + one.records[last].size)


def place_of(message: StoredMessage) -> Place:
    """Return the place of a message in its queue."""
    return message.topic, message.queue_id, message.queue_offset


def content_of(message: StoredMessage) -> tuple[object, ...]:
    """Return what a producer gave: equal for the same message at another place."""
    return message.topic, message.msg_id, message.body, message.fields.properties, message.born_timestamp, message.flag


def compared(a: dict[int, StoredMessage], b: dict[int, StoredMessage]) -> Iterator[Difference]:
    """Yield what differs between two sets of records, in the order of their log offsets.

    Two records are the same message, in this order: of the same content at the same log offset; of the same content; at
    the same place of a queue.
    """
    left = {at: one for at, one in a.items() if at not in b or b[at].raw != one.raw}
    right = {at: one for at, one in b.items() if at not in a or a[at].raw != one.raw}
    pairs: list[tuple[StoredMessage, StoredMessage]] = []
    for key in (lambda one: (one.physical_offset, content_of(one)), content_of, place_of):
        where = defaultdict(list)
        for at, one in right.items():
            where[key(one)].append(at)
        for at, one in list(left.items()):
            if there := where.get(key(one)):
                pairs.append((left.pop(at), right.pop(there.pop(0))))
    found = [of_pair(one, other) for one, other in pairs]
    found += [only(one, Kind.ONLY_A) for one in left.values()]
    found += [only(one, Kind.ONLY_B) for one in right.values()]
    yield from sorted(found, key=lambda one: one.a_offset if one.a_offset is not None else one.b_offset or 0)


def of_pair(a: StoredMessage, b: StoredMessage) -> Difference:
    """Return the difference of two records that are the same message."""
    return moved(a, b) if content_of(a) == content_of(b) and a.physical_offset != b.physical_offset else altered(a, b)
