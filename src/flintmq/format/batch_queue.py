"""Units of a batch consume queue: 46 bytes that point at a record of one or more messages.

Bytes and rules: docs/internals/format/batch-queue.md. Topics of type BatchCQ have such queues, and so has the
compaction log.
Upstream: BatchConsumeQueue, SparseConsumeQueue, CompactionLog.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, NamedTuple

from flintmq.format.layout import TIME, Int, Layout
from flintmq.format.properties import INNER_BASE, INNER_NUM
from flintmq.format.text import java_int


class BatchUnit(NamedTuple):
    """One entry of a batch consume queue; `base_offset` is its queue offset, not its index."""

    physical_offset: Annotated[int, Int("i64", "where the record begins in the log")]
    size: Annotated[int, Int("i32", "bytes of the whole record")]
    tags_code: Annotated[int, Int("i64", "hash of the tags, as in a consume queue")]
    store_timestamp: Annotated[int, Int("i64", "ms, of the record", TIME)]
    base_offset: Annotated[int, Int("i64", "queue offset of the record's first message")]
    messages: Annotated[int, Int("i16", "messages in the record")]
    compacted_offset: Annotated[int, Int("i32", "always -1")] = -1
    reserved: Annotated[int, Int("i32", "0")] = 0

    @property
    def is_written(self) -> bool:
        """True if Java counts this unit."""
        return self.physical_offset >= 0 and self.size > 0 and self.base_offset >= 0 and self.messages > 0


BATCH_UNIT: Final = Layout("Batch consume queue unit", BatchUnit)
BATCH_UNIT_SIZE: Final = BATCH_UNIT.size
COMPACTION_END: Final = BatchUnit(-1, 0, 0, 0, 0, 0)  # closes a file of the compaction queue
assert BATCH_UNIT_SIZE == 46


def messages_of(properties: Mapping[str, str], queue_offset: int) -> tuple[int, int]:
    """Return (first queue offset, number of messages) of a record.

    They are INNER_BASE and INNER_NUM if both are present and numbers. Any other record is one message at its own queue
    offset.
    """
    base = java_int(properties.get(INNER_BASE, ""), 64)
    messages = java_int(properties.get(INNER_NUM, ""), 16)
    return (queue_offset, 1) if base is None or messages is None else (base, messages)
