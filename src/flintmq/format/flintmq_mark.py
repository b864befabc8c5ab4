"""The file `flintmq.mark` in a store's root: FlintMQ's own durable mark (docs/format/flintmq-mark.md).

Upstream neither writes nor reads it. It says exactly how far the log was synced, where the checkpoint only knows store
times. It is void when the checkpoint's physic time is neither of its two copies: another program has written the store
since. It is written before the checkpoint, so it has the time that the checkpoint has and the one that it will have.
"""

from __future__ import annotations

import zlib
from typing import Annotated, Final, NamedTuple

from flintmq.errors import FormatError
from flintmq.format.layout import HEX, TIME, Buffer, Int, Layout

FILE_NAME: Final = "flintmq.mark"
MAGIC: Final = int.from_bytes(b"FLNTMARK", "big")
VERSION: Final = 2


class Mark(NamedTuple):
    """The content of a mark file."""

    magic: Annotated[int, Int("u64", "`FLNTMARK` in ASCII", HEX)]
    version: Annotated[int, Int("i32", "2")]
    flushed_offset: Annotated[int, Int("i64", "log offset below which everything was synced")]
    physic_timestamp: Annotated[int, Int("i64", "ms, copy of the checkpoint's physic timestamp", TIME)]
    physic_before: Annotated[int, Int("i64", "ms, the checkpoint's physic timestamp before that", TIME)]
    checksum: Annotated[int, Int("u32", "CRC-32 of the bytes before it", HEX)]

    def holds(self, physic_timestamp: int) -> bool:
        """Whether the mark still says something beside a checkpoint with this physic timestamp."""
        return physic_timestamp in (self.physic_timestamp, self.physic_before)


MARK: Final = Layout("FlintMQ mark", Mark)


def encode(flushed_offset: int, physic_timestamp: int, physic_before: int | None = None) -> bytes:
    """The bytes of a mark file.

    Args:
        flushed_offset: log offset below which everything was synced.
        physic_timestamp: ms, as in the checkpoint that is written next.
        physic_before: ms, as in the checkpoint that is there; None if that is the same.

    Raises:
        FormatError: a number does not fit 64 bits.
    """
    before = physic_timestamp if physic_before is None else physic_before
    covered = MARK.pack(Mark(MAGIC, VERSION, flushed_offset, physic_timestamp, before, 0))[: MARK.offset("checksum")]
    return covered + zlib.crc32(covered).to_bytes(4, "big")


def decode(data: Buffer) -> Mark:
    """The mark in a file's bytes.

    Raises:
        FormatError: it is short, of another kind or version, or its checksum is wrong; then it says nothing.
    """
    mark = MARK.unpack(data)
    if len(data) != MARK.size:
        raise FormatError(f"a mark has {MARK.size} bytes, not {len(data)}")
    if mark.magic != MAGIC or mark.version != VERSION:
        raise FormatError(f"not a mark of version {VERSION}")
    if zlib.crc32(data[: MARK.offset("checksum")]) != mark.checksum:
        raise FormatError("checksum of the mark is wrong", MARK.offset("checksum"))
    return mark
