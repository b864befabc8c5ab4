"""Finds queues directly in the log, for the part that no consume queue covers.

A store may have only `commitlog/`, and one that is being written has records at its end that are not dispatched yet.
For such a part this keeps a coarse map: the log in segments of 4 MiB, and for each queue the segments with its records,
and the lowest and highest queue offset there. One message is found by walking one segment, and the map of a 10 GB log
takes a few megabytes (24 bytes for each pair of a segment and a queue in it).
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from flintmq.format.record import INNER_BATCH
from flintmq.format.record_view import QUEUE, size_at
from flintmq.format.text import java_decode, java_encode
from flintmq.message import StoredMessage, stored_message
from flintmq.store.commitlog.anchor import KnownLog, LogAnchor, anchor_at, why_lost
from flintmq.store.commitlog.files import LARGEST_OFFSET, LogFiles
from flintmq.store.commitlog.predicate import Predicate, Selector
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.walk import LogWalk, Piece
from flintmq.store.dispatch.dispatcher import Dispatcher, DispatchRules
from flintmq.store.dispatch.queue_positions import places
from flintmq.store.layout.deleted_topics import NONE, Deletions
from flintmq.store.layout.queue_name import QueueName

SEGMENT_BYTES = 4 << 20
AT_ONCE = 256  # queue offsets that one walk through a segment looks for

_INNER = re.compile(rb"INNER_(NUM|MULTI_DISPATCH)\x01")


class QueueRun(NamedTuple):
    """Log offsets [begin, end) of a segment, and a queue's offsets [low, high) in it."""

    begin: int
    end: int
    low: int
    high: int


class LogMap:
    """The queues of the records in [begin, end) of a log, extended at its end.

    Thread: any that holds the owner's lock.
    """

    def __init__(self, begin: int, rules: DispatchRules) -> None:
        self.begin = self.end = begin
        self._delay_ms, self._batch_topics = rules.delay_ms, set(rules.batch_topics)
        self.deletions = rules.deletions
        self.report = Report()
        self._last: LogAnchor | None = None  # the last record
        self._segments = array("q")  # log offset of each segment's first record
        self._queues: dict[QueueName, array[int]] = {}  # repeated: segment, lowest offset, end of offsets
        # Queue and segment of the last walk, its first offset, and the newest record of each offset.
        self._walked: tuple[tuple[QueueName, int], int, dict[int, StoredMessage]] | None = None

    def copy(self) -> LogMap:
        """Return a copy that can be extended independently."""
        twin = LogMap(self.begin, self._rules())
        twin.end, twin._last, twin._segments = self.end, self._last, self._segments[:]
        twin.report.add(self.report)
        twin._queues = {name: found[:] for name, found in self._queues.items()}
        return twin

    def is_of(self, log: LogFiles, end: int) -> bool:
        """Return whether this map is of a log that ends at `end`, not of one that it replaced."""
        return self.end <= end and (self._last is None or not why_lost(KnownLog(log, end), self._last))

    def is_batch(self, topic: str) -> bool:
        """Return whether a topic is of type BatchCQ, by the rules or by an inner batch in the log."""
        return java_encode(topic) in self._batch_topics

    def extend(self, log: LogFiles, end: int, topic: str | None = None) -> None:
        """Add the records between the map's end and `end`, skipping damage.

        `topic`: only its records; None for all.
        """
        dispatcher = self._dispatcher()
        selector = Selector(Predicate(topics=None if topic is None else frozenset([topic])))
        self._walked = last = None
        walk = LogWalk(log, begin=self.end, end=end, strict=False, report=self.report)
        for piece in walk if end > self.end else ():
            last = piece.base + piece.positions[piece.count - 1]
            if not self._segments or piece.base + piece.positions[0] - self._segments[-1] >= SEGMENT_BYTES:
                self._segments.append(piece.base + piece.positions[0])
            if self._meets_batches(piece):
                dispatcher = self._dispatcher()
            piece.count = selector.select(piece)
            for block in dispatcher.blocks(piece):
                for number, first, stop in block.queues:
                    offsets = block.offsets[first:stop]
                    low = min(offsets)
                    if low < 0:
                        low = min((offset for offset in offsets if offset >= 0), default=-1)
                    self._add(dispatcher, number, low, max(offsets) + 1)
                for number, unit in block.batch_units:
                    self._add(dispatcher, number, unit.base_offset, unit.base_offset + max(unit.messages, 1))
        assert not self._segments or self.begin <= self._segments[0] <= self._segments[-1] < max(end, self.end)
        for lost in walk.deleted:
            self.report.damage(lost)
        self.end = max(self.end, end)
        if last is not None:
            self._last = anchor_at(log, last, end)

    def _dispatcher(self) -> Dispatcher:
        return Dispatcher(self._rules())

    def _rules(self) -> DispatchRules:
        batch = frozenset(self._batch_topics)
        return DispatchRules(self._delay_ms, batch, light_queues=True, index=False, deletions=self.deletions)

    def _meets_batches(self, piece: Piece) -> bool:
        """Add the topics of inner batches to the batch topics; return whether any was new."""
        before = len(self._batch_topics)
        for at in records_with(_INNER, piece):
            message = stored_message(piece.data, at)
            if message.sys_flag & INNER_BATCH:
                self._batch_topics.add(message.fields.topic)
        return len(self._batch_topics) > before

    def _add(self, dispatcher: Dispatcher, number: int, low: int, high: int) -> None:
        if low < 0:
            return  # a hostile record: a negative offset is no position
        high = min(high, LARGEST_OFFSET)
        queue = dispatcher.queues.keys[number]
        name = QueueName(java_decode(queue.topic), queue.queue_id)
        found = self._queues.setdefault(name, array("q"))
        assert self._segments  # the segment of these records was begun before
        segment = len(self._segments) - 1
        if found and found[-3] == segment:
            found[-2], found[-1] = min(found[-2], low), max(found[-1], high)
        else:
            found.extend((segment, low, high))

    def names(self) -> Iterable[QueueName]:
        return self._queues.keys()

    def bounds(self, name: QueueName) -> tuple[int, int] | None:
        """Return (lowest queue offset, end of offsets) of a queue's records, or None without any."""
        found = self._queues.get(name)
        return (min(found[1::3]), max(found[2::3])) if found else None

    def runs(self, name: QueueName) -> list[QueueRun]:
        found, starts = self._queues.get(name, ()), self._segments
        return [
            QueueRun(starts[at], starts[at + 1] if at + 1 < len(starts) else self.end, low, high)
            for at, low, high in zip(found[0::3], found[1::3], found[2::3], strict=True)
        ]

    def find(self, log: LogFiles, name: QueueName, offset: int) -> StoredMessage | None:
        """Find the newest record at an offset of a queue, or None."""
        found = self._queues.get(name, ())
        for at in range(len(found) - 3, -1, -3):
            segment, low, high = found[at : at + 3]
            if low <= offset < high:
                message = self._in_segment(log, name, segment, offset)
                if message is not None:
                    return message
        return None

    def _in_segment(self, log: LogFiles, name: QueueName, segment: int, offset: int) -> StoredMessage | None:
        """Find the newest record at an offset in one segment, and keep those of the next ones."""
        walked = self._walked
        if walked is None or walked[0] != (name, segment) or not walked[1] <= offset < walked[1] + AT_ONCE:
            end, newest = offset + AT_ONCE, dict[int, StoredMessage]()
            stop = self._segments[segment + 1] if segment + 1 < len(self._segments) else self.end
            for message in _of_queue(log, name, self._segments[segment], stop, offset, end, self.deletions):
                for place in places(message):
                    if (place.topic, place.queue_id) == name:
                        its = range(max(place.offset, offset), min(place.offset + place.messages, end))
                        newest.update(dict.fromkeys(its, message))
            walked = self._walked = (name, segment), offset, newest
        return walked[2].get(offset)


def find_between(
    log: LogFiles, name: QueueName, offset: int, begin: int, end: int, deletions: Deletions = NONE
) -> StoredMessage | None:
    """Find the newest record in [begin, end) of a log at an offset of a queue, or None."""
    newest = None
    for message in _of_queue(log, name, begin, end, offset, offset + 1, deletions):
        newest = message if is_at_queue_offset(message, name, offset) else newest
    return newest


def find_from(
    log: LogFiles, name: QueueName, low: int, stop: int, begin: int, end: int, deletions: Deletions
) -> StoredMessage | None:
    """Find the record with the least queue offset in [low, stop) of a queue, or None.

    Records in [begin, end) of the log are searched; of several at one offset the newest counts.
    """
    least, found = stop, None
    for message in _of_queue(log, name, begin, end, low, stop, deletions):
        for place in places(message):
            first = max(place.offset, low)
            if (place.topic, place.queue_id) == name and first <= least and low < place.offset + place.messages:
                least, found = first, message
    return found if least < stop else None


def _of_queue(
    log: LogFiles, name: QueueName, begin: int, end: int, low: int, stop: int, deletions: Deletions
) -> Iterator[StoredMessage]:
    """Yield records in [begin, end) of a log that may be in [low, stop) of a queue.

    Those that were deleted with its topic are not.
    """
    topic = java_encode(name.topic)
    deleted = deletions.get(topic)
    # A topic with malformed bytes (U+FFFD) cannot be searched for by bytes.
    exact = java_decode(topic) == name.topic and "\ufffd" not in name.topic
    wanted = re.compile(re.escape(topic) if exact else b"")
    for piece in LogWalk(log, begin=begin, end=end, strict=False):
        for at in records_with(wanted, piece):
            queue_id, queue_offset = QUEUE.unpack_from(piece.data, at)
            plain = queue_id == name.queue_id and low <= queue_offset < stop
            if plain or _INNER.search(piece.data, at, at + size_at(piece.data, at)):
                message = stored_message(piece.data, at)
                if deleted is None or not deleted.covers(message.physical_offset, message.store_timestamp):
                    yield message


def is_at_queue_offset(message: StoredMessage, name: QueueName, offset: int) -> bool:
    return any(
        (place.topic, place.queue_id) == name and place.offset <= offset < place.offset + place.messages
        for place in places(message)
    )


def records_with(pattern: re.Pattern[bytes], piece: Piece) -> Iterator[int]:
    """Yield the positions of the records in piece.data that contain the pattern, each once."""
    positions = piece.positions[: piece.count]
    at = positions[0] if piece.count else piece.end
    while at < piece.end and (match := pattern.search(piece.data, at, piece.end)):
        record = positions[bisect_right(positions, match.start()) - 1]
        at = record + size_at(piece.data, record)
        if match.end() <= at:
            yield record
