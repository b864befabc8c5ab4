"""Units of a consume queue: 20 bytes that point into the log.

Bytes and rules: docs/internals/format/consume-queue.md. Upstream: ConsumeQueue; the tags code is computed in
CommitLog.checkMessageAndReturnSize.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

from flintmq.format.layout import Buffer, Int, Layout
from flintmq.format.text import java_hash, java_int

SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
PRE_BLANK_SIZE: Final = 0x7FFFFFFF
EXT_ADDRESS_LIMIT: Final = -2147483649  # a tags field at or below this is an address in the ext queue


class Unit(NamedTuple):
    """One entry of a consume queue. Its index in the queue is its queue offset.

    That is (start of the file + position in the file) / 20.
    """

    physical_offset: Annotated[int, Int("i64", "where the record begins in the log")]
    size: Annotated[int, Int("i32", "bytes of the whole record")]
    tags_code: Annotated[int, Int("i64", "hash of the tags, time of delivery, or an ext address")]

    @property
    def is_written(self) -> bool:
        """True if Java counts this unit: offset not negative, size positive; pre-filled ones too."""
        return self.physical_offset >= 0 and self.size > 0

    @property
    def is_pre_blank(self) -> bool:
        """True for filler before the first real unit in a queue's first file; it points nowhere."""
        return self.size == PRE_BLANK_SIZE


UNIT: Final = Layout("Consume queue unit", Unit)
UNIT_SIZE: Final = UNIT.size
POINTER: Final = UNIT.numbers("physical_offset", "size")
"""Log offset and size of the record: units of every kind of queue begin with them."""
PRE_BLANK: Final = Unit(0, PRE_BLANK_SIZE, 0)
EXPIRED: Final = Unit(1, 1, 0)
"""In place of the unit of a queue's last message, whose record is below the log's begin and not known. Not PRE_BLANK,
since RocketMQ takes log offset plus size for how far the queue was dispatched, and would drop all records below 2 GiB;
not offset 0, for which it takes the log's first file, whichever that is."""
assert UNIT_SIZE == 20


def record_offset_at(units: Buffer, number: int = 0) -> int:
    return int(POINTER.unpack_from(units, UNIT_SIZE * number)[0])


def tags_code(tags: str | None, topic: str, store_timestamp: int, delay: str | None, delay_ms: Sequence[int]) -> int:
    """Compute the third field of a record's unit.

    It is the time of delivery for a record of the schedule topic with a delay level above 0, else Java's hash of the
    tags, 0 without any. A DELAY that is not a number, which no broker stores, counts as none. Times are in ms;
    `delay_ms` has that of each level, level 1 first (messageDelayLevel).
    """
    if topic == SCHEDULE_TOPIC and delay is not None:
        level = min(java_int(delay) or 0, len(delay_ms))
        if level > 0:
            return store_timestamp + delay_ms[level - 1]
    return java_hash(tags) if tags else 0
