"""What a record above the durable mark must also be, beside its checksums: written as a whole, and the next of its queue.

The body's checksum covers neither topic nor properties. A disk that lost power may have written some sectors of a record
and not others; a lost one reads as zeros, because a log file begins as zeros and whatever is cut is zeroed. So a record
is torn if all of its topic's and properties' bytes between two sector boundaries are zeros (reliability B9).
"""

from __future__ import annotations

import struct

from flintmq.errors import CorruptStoreError
from flintmq.format.record import (
    BORN_HOST_V6,
    INNER_BATCH,
    MAGIC_V1,
    STORE_HOST_V6,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_NONE,
)
from flintmq.store.log import Piece
from flintmq.store.recovery import SECTOR

_HEAD = struct.Struct(">iI4xi4xq8xi")  # size, magic, queue id, queue offset, system flag


class Tail:
    """Looks at the records of a walk, in order, and finds the first that does not count above the mark.

    Args:
        mark: log offset; records that begin below it were synced and are only counted.
    """

    def __init__(self, mark: int) -> None:
        self.mark = mark
        self.next: dict[tuple[bytes, int], int] = {}

    def first_torn(self, piece: Piece) -> int | None:
        """Log offset of the piece's first torn record above the mark, or None.

        Raises:
            CorruptStoreError: a record above the mark is whole, but not the next of its queue.
        """
        data, in_file = piece.data, piece.base - piece.file.start
        for at in piece.positions[: piece.count]:
            size, magic, queue_id, queue_offset, flags = _HEAD.unpack_from(data, at)
            topic, topic_end = _topic(data, at, magic, flags)
            above = piece.base + at >= self.mark
            if above and _lost_sector(data, topic, topic_end, at + size, in_file):
                return piece.base + at
            wrong = self._count(bytes(data[topic:topic_end]), queue_id, queue_offset, flags)
            if above and wrong is not None:
                raise CorruptStoreError(
                    piece.file.path, in_file + at, wrong, "run `flintmq verify` for the whole picture"
                )
        return None

    def _count(self, topic: bytes, queue_id: int, queue_offset: int, flags: int) -> str | None:
        """Note the record's queue offset; a text if it is not the next one. Queues may be begun again at 0."""
        if flags & TRANSACTION_MASK not in (TRANSACTION_NONE, TRANSACTION_COMMIT):
            return None
        place = topic, queue_id
        expected = self.next.pop(place, queue_offset)
        if not flags & INNER_BATCH:  # its offset goes on by a number in the properties
            self.next[place] = queue_offset + 1
        return None if queue_offset in (expected, 0) else f"queue offset {queue_offset} where {expected} is the next"


def _topic(data: memoryview, at: int, magic: int, flags: int) -> tuple[int, int]:
    """Where the topic of the record at data[at] stands."""
    body = at + 84 + (12 if flags & BORN_HOST_V6 else 0) + (12 if flags & STORE_HOST_V6 else 0)
    begin = body + 4 + int.from_bytes(data[body : body + 4], "big")
    width = 1 if magic == MAGIC_V1 else 2
    begin += width
    return begin, begin + int.from_bytes(data[begin - width : begin], "big")


def _lost_sector(data: memoryview, topic: int, topic_end: int, end: int, in_file: int) -> bool:
    """Whether a sector's share of topic and properties is zeros; data[0] stands at `in_file` in the file."""
    if end - topic_end == 2:  # no properties: the two bytes of their length are zeros
        end = topic_end
    while topic < end:
        stop = min(end, topic + SECTOR - (in_file + topic) % SECTOR)
        if data[topic] == 0 and not any(data[topic:stop]):
            return True
        topic = stop
    return False
