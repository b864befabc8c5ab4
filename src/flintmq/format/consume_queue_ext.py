"""Units of a consume queue's extension files, for what does not fit into 20 bytes.

Bytes and rules: docs/internals/format/consume-queue-ext.md.

With enableConsumeQueueExt the tags field of a consume queue unit holds the address of such a unit. Upstream:
ConsumeQueueExt, BitsArray.
"""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

from flintmq.errors import FormatError
from flintmq.format.consume_queue import EXT_ADDRESS_LIMIT
from flintmq.format.layout import TIME, Buffer, CountedBytes, Int, Layout, Total

FILE_END: Final = b"\xff\xff"  # an i16 of -1: the next unit begins the next file
FILE_END_ROOM: Final = 4  # bytes that a unit must leave free in its file
_ADDRESS_BASE: Final = -(1 << 63)


class ExtUnit(NamedTuple):
    """One unit. Its address is its position in the ext queue plus the least 64-bit number."""

    tags_code: Annotated[
        int,
        Total("size", "i16", "bytes of the unit, this field included; 0 or less ends the file"),
        Int("i64", "what the consume queue's tags field would hold"),
    ]
    store_timestamp: Annotated[int, Int("i64", "ms, of the record", TIME)]
    bitmap: Annotated[bytes, CountedBytes("bitmap_length", "m", ("i16",), "filter bits of the consumers")] = b""

    def bit(self, position: int) -> bool:
        """Return whether the bit at `position` is set; bits beyond the bitmap are not."""
        return position // 8 < len(self.bitmap) and bool(self.bitmap[position // 8] >> position % 8 & 1)


EXT_UNIT: Final = Layout("Consume queue ext unit", ExtUnit)
SIZE: Final = EXT_UNIT.numbers("size")
assert EXT_UNIT.min_size == 20


def is_address(tags_code: int) -> bool:
    """Return whether a tags field holds an address in the ext queue.

    Neither a hash nor a time can be that small.
    """
    return tags_code <= EXT_ADDRESS_LIMIT


def address(position: int) -> int:
    """Return the tags field that points at byte `position` of the ext queue."""
    return position + _ADDRESS_BASE


def position(tags_code: int) -> int:
    """Return the byte of the ext queue that a tags field points at; `is_address` must hold."""
    assert is_address(tags_code), "the tags field holds no address"
    return tags_code - _ADDRESS_BASE


def size_at(buf: Buffer, at: int = 0) -> int:
    """Return the size field at buf[at]; 0 or less, or no bytes, ends the units of the file."""
    return int.from_bytes(buf[at : at + SIZE.size], "big", signed=True)


def decode(buf: Buffer, at: int = 0, limit: int | None = None) -> ExtUnit | None:
    """Decode the unit at buf[at]; None where the file's units end.

    They end at a size of 0 or less, or where no unit fits any more.
    """
    end = len(buf) if limit is None else min(limit, len(buf))
    if end - at < SIZE.size or size_at(buf, at) <= 0:
        return None
    return EXT_UNIT.unpack(buf, at, end)


def encode(unit: ExtUnit) -> bytes:
    if EXT_UNIT.size_of(unit) > 0x7FFF:
        raise FormatError(f"a bitmap has at most {0x7FFF - EXT_UNIT.min_size} bytes, not {len(unit.bitmap)}")
    return EXT_UNIT.pack(unit)
