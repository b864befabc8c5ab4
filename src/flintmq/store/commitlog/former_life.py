"""Looks for proof, other than times, that records after a stop are of a former life.

A log that RocketMQ truncated keeps its old bytes after the new end, and new records are written over them. A stale tail
is the rest of them: valid records that are older than the last one before it. Records are older after the clock was set
back, too, and the checkpoint keeps its higher time until the clock has passed it. So times alone prove nothing, and
neither do units that point into the tail: both have them. Proof is found in the file of the stop alone (RocketMQ
removes later ones when it truncates, so records in a later file tell that the log went on):

*   a queue offset that does not go on: the tail's first record of a queue has one that a record before the stop has,
    too, or a lower one. 0 is none: there a queue begins again whose topic was deleted.

Where bytes that are no record come before the tail, RocketMQ itself ends the log at them, so nothing that it keeps is
at stake. There it is proof, too, if

*   the unit of the queue offset before leads to a place before the stop, where another record is by now;
*   or the bytes are not like the head of a record, and no queue lacks an offset between the records before and after
    them (then no record is lost there), or they end with the topic and properties of a record: they are the rest of one
    that was overwritten.

Little is read, because the clock of a log may step often: some records before the stop, and some of the tail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from flintmq.format.consume_queue import PRE_BLANK_SIZE
from flintmq.format.record import (
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_NONE,
)
from flintmq.format.record_view import (
    HEAD_SIZE,
    PHYSICAL_OFFSET_END,
    PLACE,
    magic_at,
    physical_offset_at,
    size_at,
    texts_at,
)
from flintmq.store.commitlog.files import LogFile, LogFiles
from flintmq.store.commitlog.queue_evidence import unit_at
from flintmq.store.commitlog.records import record_at
from flintmq.store.commitlog.resync import first_record, next_record

if TYPE_CHECKING:
    from flintmq.store.commitlog.walk import Piece

BEFORE_BYTES = 4 << 20  # of log before a stop
TAIL_RECORDS = 1024
LONGEST_TEXTS = 1 << 15  # bytes of topic and properties
MOST_UNITS = 64  # that are looked up
MOST_LOOKS = 256
"""Looks of one walk; a log whose clock steps back more often in its last file is judged no more."""

_Queue = tuple[bytes, int]


class FormerLife:
    """Looks for the proof at the stops of one walk."""

    def __init__(self, log: LogFiles, root: str) -> None:
        self.log, self.root = log, root
        self._looks = 0
        self._goes_on: dict[int, bool] = {}  # begin of a file -> records are in a later one

    def proof(self, p: int, tail: int, pieces: Callable[[int, int], Iterable[Piece]]) -> str:
        """Return the proof that the records from `tail` on are of a former life; empty without it.

        Args:
            p: log offset after the last record before the stop.
            tail: log offset of the first valid record at p or later.
        """
        file = self.log.find(p)
        if file is None or p == file.start or self.log.find(tail) is not file or self._looks >= MOST_LOOKS:
            return ""
        if file.start not in self._goes_on:
            self._goes_on[file.start] = self._is_followed(file)
        if self._goes_on[file.start]:
            return ""
        self._looks += 1
        first: dict[_Queue, int] = {}
        seen = 0
        for piece in pieces(tail, file.start + file.size):
            for queue, queue_offset in _places(piece):
                first.setdefault(queue, queue_offset)
            seen += piece.count
            if seen >= TAIL_RECORDS:
                break
        before: dict[_Queue, int] = {}
        for piece in pieces(first_record(self.log, max(file.start, p - BEFORE_BYTES)), p):
            before |= {queue: queue_offset for queue, queue_offset in _places(piece) if queue in first}
        for (topic, queue_id), queue_offset in first.items():
            last = before.get((topic, queue_id), -1)
            if 0 < queue_offset <= last:
                return f"queue {_text(topic)}/{queue_id} had offset {last} before it, and goes on at {queue_offset}"
        if tail == p:
            return ""
        if not self._is_head(file, p, tail):
            both = [(queue_offset, before[queue]) for queue, queue_offset in first.items() if queue in before]
            if both and all(queue_offset == last + 1 for queue_offset, last in both):
                return "no queue offset is missing, so no record is lost there"
            if self._is_end(file, p, tail, {topic for topic, _ in first}):
                return f"the bytes are the end of a record that ends at offset {tail} and began before them"
        return self._overwritten(file, p, first, before)

    def _is_followed(self, file: LogFile) -> bool:
        later = [other for other in self.log.files if other.start > file.start]
        if self.log.effects.remote:  # a gigabyte of zeros would be fetched; files begin with records
            return any(record_at(self.log, other.start) is not None for other in later)
        return bool(later) and next_record(self.log, later[0].start) is not None

    def _is_head(self, file: LogFile, p: int, tail: int) -> bool:
        """Return whether the bytes at p may be a record's that was damaged, or were never written."""
        with self.log.effects.reading(file.path) as fd:
            head = self.log.effects.pread(fd, PHYSICAL_OFFSET_END, p - file.start)
        known = magic_at(head) in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK) or size_at(head) == tail - p
        return known or physical_offset_at(head) == p or not any(head[:HEAD_SIZE])

    def _is_end(self, file: LogFile, p: int, tail: int, topics: set[bytes]) -> bool:
        """Return whether a record's topic and properties stand between p and the tail, up to it."""
        begin = max(p, tail - LONGEST_TEXTS)
        with self.log.effects.reading(file.path) as fd:
            data = self.log.effects.pread(fd, tail - begin, begin - file.start)
        for at in range(len(data) - 2):  # where the length of the properties may be
            if int.from_bytes(data[at : at + 2], "big") == len(data) - at - 2:
                ends = (len(topic).to_bytes(width, "big") + topic for topic in topics for width in (1, 2))
                if any(data.endswith(end, 0, at) for end in ends):
                    return True
        return False

    def _overwritten(self, file: LogFile, p: int, first: dict[_Queue, int], before: dict[_Queue, int]) -> str:
        """Look for a unit whose record another one has overwritten."""
        looks = 0
        for (topic, queue_id), queue_offset in first.items():
            if not self.root or looks == MOST_UNITS:
                break
            wanted = queue_offset - 1
            if wanted <= before.get((topic, queue_id), -1):
                continue
            looks += 1
            place, size = unit_at(self.root, topic, queue_id, wanted, self.log.effects)
            if not 0 < size < PRE_BLANK_SIZE or not file.start <= place < p:
                continue
            found = record_at(self.log, place)
            if found is None or (found.queue_id, found.queue_offset) != (queue_id, wanted):
                return (
                    f"the record of queue {_text(topic)}/{queue_id} at offset {wanted} was at {place}, where another is"
                )
        return ""


def _places(piece: Piece) -> Iterator[tuple[_Queue, int]]:
    data = piece.data
    for at in piece.positions[: piece.count]:
        _, _, queue_id, queue_offset, flags = PLACE.unpack_from(data, at)
        if flags & TRANSACTION_MASK in (TRANSACTION_NONE, TRANSACTION_COMMIT):
            topic, end, _ = texts_at(data, at)
            yield (bytes(data[topic:end]), queue_id), queue_offset


def _text(topic: bytes) -> str:
    return ascii(topic.decode("utf-8", "replace"))[1:-1]
