"""The file `flintmq.mark` in a store's root: FlintMQ's own durable mark (docs/format/flintmq-mark.md).

Upstream neither writes nor reads it. It says exactly how far the log was synced, where the checkpoint only knows store
times. It is void when its copy of the checkpoint's physic time differs: another program has written the store since.
"""

from __future__ import annotations

import zlib
from typing import Annotated, Final, NamedTuple

from flintmq.errors import FormatError
from flintmq.format.layout import Buffer, Int, Layout

FILE_NAME: Final = "flintmq.mark"
MAGIC: Final = int.from_bytes(b"FLNTMARK", "big")
VERSION: Final = 1


class Mark(NamedTuple):
    """The content of a mark file."""

    magic: Annotated[int, Int("u64", "`FLNTMARK` in ASCII")]
    version: Annotated[int, Int("i32", "1")]
    flushed_offset: Annotated[int, Int("i64", "log offset below which everything was synced")]
    physic_timestamp: Annotated[int, Int("i64", "ms, copy of the checkpoint's physic timestamp")]
    checksum: Annotated[int, Int("u32", "CRC-32 of the bytes before it")]


MARK: Final = Layout("FlintMQ mark", Mark)


def encode(flushed_offset: int, physic_timestamp: int) -> bytes:
    """The bytes of a mark file.

    Args:
        flushed_offset: log offset below which everything was synced.
        physic_timestamp: ms, as in the checkpoint that is written with it.

    Raises:
        FormatError: a number does not fit 64 bits.
    """
    covered = MARK.pack(Mark(MAGIC, VERSION, flushed_offset, physic_timestamp, 0))[: MARK.offset("checksum")]
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
