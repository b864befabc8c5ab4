"""Finds the first record above the durable mark that does not count.

It did not arrive whole, or is not the next one of its queue. The body's checksum covers neither
topic nor properties. A process that is killed during a put leaves the rest of the record as zeros, and so does a disk
that lost power before it wrote all sectors, because a log file begins as zeros and truncated bytes are zeroed. So a
record is torn if there is a zero byte in its topic or properties, which `put` refuses. More than this record can be
missing only if a sector of the file never arrived, and that sector is zero from its first byte on; then everything
after it is lost too. Before other records a zero anywhere else is damage.
"""

from __future__ import annotations

from flintmq.format.record import (
    INNER_BATCH,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_NONE,
)
from flintmq.format.record_view import OFFSETS_AT, PHYSICAL_OFFSET_END, PLACE, texts_at
from flintmq.kernels.read import fetch, group_units
from flintmq.store.commitlog.end_of_log import SECTOR
from flintmq.store.commitlog.walk import Piece
from flintmq.store.dispatch.dispatcher import Dispatcher, DispatchRules
from flintmq.store.layout.deleted_topics import NONE, Deletions

TORN = "its topic or properties were not written completely"
ODD = "a zero byte in its topic or properties"


class TornRecordSearch:
    """Checks the records of a walk in order, and finds the first bad one above the mark.

    Args:
        mark: log offset; records that begin below it were synced and are only counted.
        alone: only FlintMQ has written above the mark. It starts a queue again at 0 only where `deletions` says so;
            so a 0 instead of the next queue offset is a head that a power cut left incomplete.
        power_cut: the power failed. Then a 0 is such a head, too, if a sector ends in or after it, and all is zero up
            to there. A record of a queue that did start again would have to lie just so.
        comes_again: what is cut off comes again from a master. It came in pieces that ended anywhere, so that after a
            power cut any 0 may be such a head.
        deletions: of topics; their records before do not count, and were synced with all others there.
    """

    def __init__(
        self,
        mark: int,
        *,
        alone: bool,
        power_cut: bool = False,
        comes_again: bool = False,
        deletions: Deletions = NONE,
    ) -> None:
        self.mark = max(mark, *(one.offset for one in deletions.values()), 0)
        self.alone, self.power_cut, self.comes_again, self.deletions = alone, power_cut, comes_again, deletions
        self.next: dict[tuple[bytes, int], int] = {}
        self._units = Dispatcher(DispatchRules((), index=False, deletions=deletions))

    def first_bad(self, piece: Piece) -> tuple[int, str] | None:
        """Return (log offset, reason) of the piece's first bad record above the mark, or None."""
        if self._follows_on(piece):
            return None
        data = piece.data
        for at in piece.positions[: piece.count]:
            size, _, queue_id, queue_offset, flags = PLACE.unpack_from(data, at)
            topic, topic_end, rest = texts_at(data, at)
            name, properties = bytes(data[topic:topic_end]), bytes(data[rest : at + size])
            if name in self.deletions and piece.base + at < self.deletions[name].offset:
                continue
            torn = self.power_cut and (self.comes_again or _head_ends_in_zeros(data, at, piece))
            restarts = not self.alone and not torn
            wrong = self._count(name, queue_id, queue_offset, flags, restarts)
            if b"\0" in name or b"\0" in properties:
                wrong = TORN if _is_hole(data, topic, at + size, piece.base - piece.file.start) else ODD
            if wrong is not None and piece.base + at >= self.mark:
                return piece.base + at, wrong
        return None

    def _follows_on(self, piece: Piece) -> bool:
        """Return whether all records of a piece are whole and each is the next of its queue.

        Nearly every piece is like this. The kernel of dispatch reads the queue offsets. If anything is odd nothing is
        noted.
        """
        if fetch.whole(piece.data, piece.positions, piece.count) < piece.count:
            return False
        after: dict[tuple[bytes, int], int] = {}
        good = True
        for block in self._units.blocks(piece):  # to the end: else units would stay in the dispatcher
            for number, first, end in block.queues:
                place = self._units.queues.keys[number].topic, self._units.queues.keys[number].queue_id
                begin = block.offsets[first]
                good = good and begin == after.get(place, self.next.get(place, begin))
                good = good and group_units.run_length(block.offsets, first, end) == end - first
                after[place] = block.offsets[end - 1] + 1
        if good:
            self.next |= after
        return good

    def _count(self, topic: bytes, queue_id: int, queue_offset: int, flags: int, restarts: bool) -> str | None:
        """Note the record's queue offset; a text if it is not the next one.

        A 0 is, too, where a queue restarts.
        """
        if flags & TRANSACTION_MASK not in (TRANSACTION_NONE, TRANSACTION_COMMIT):
            return None
        place = topic, queue_id
        expected = self.next.pop(place, queue_offset)
        if not flags & INNER_BATCH:  # its offset goes on by a number in the properties
            self.next[place] = queue_offset + 1
        if queue_offset == expected or (queue_offset == 0 and restarts):
            return None
        return f"queue offset {queue_offset} where {expected} is the next"


def _head_ends_in_zeros(data: memoryview, at: int, piece: Piece) -> bool:
    """Return whether a sector ends in a record's offsets, with zeros from the queue offset on."""
    begin = at + OFFSETS_AT
    end = begin + -(piece.base - piece.file.start + begin) % SECTOR
    return begin < end < at + PHYSICAL_OFFSET_END and not any(data[begin:end])


def _is_hole(data: memoryview, topic: int, end: int, position: int) -> bool:
    """Return whether a sector that begins in a record's text is all zeros.

    The text is data[topic:end]; data[0] is at `position` of its file. A sector that begins before the text holds
    bytes of the record that were compared, so it has arrived.
    """
    first = topic + -(position + topic) % SECTOR
    return any(not any(data[begin : begin + SECTOR]) for begin in range(first, end, SECTOR))
