"""The file `flintmq.mark` in a store's root, FlintMQ's own durable mark.

Bytes and rules: docs/internals/format/flintmq-mark.md. Upstream neither writes nor reads the file. It holds the exact
log offset below which the log was synced, where the checkpoint holds only store times. It is void if the checkpoint's
physic time is neither of its two copies: another program has written the store since. It is written before the
checkpoint, so it holds the time that the checkpoint has and the one that it will have.

It also holds how far queues and index are on disk. For the index that is a copy of the newest file's header: if that
file is gone or has other items, RocketMQ (or a person) has worked on the index, and the index part of the mark is void
(`store/index/durable_point.py`).
"""

from __future__ import annotations

import zlib
from typing import Annotated, Final, NamedTuple

from flintmq.errors import FormatError
from flintmq.format import index
from flintmq.format.layout import HEX, TIME, Buffer, Int, Layout

FILE_NAME: Final = "flintmq.mark"
MAGIC: Final = int.from_bytes(b"FLNTMARK", "big")
VERSION: Final = 3  # 2 had neither queues nor index; each version treats the other's mark as void


class Indexed(NamedTuple):
    offset: int  # log offset; all keys of records below it are on disk
    name: int  # name of the newest index file at that time, as a number
    header: index.Header  # header of that file at that time; its items below `header.next_item` are on disk


class Mark(NamedTuple):
    magic: Annotated[int, Int("u64", "`FLNTMARK` in ASCII", HEX)]
    version: Annotated[int, Int("i32", "3")]
    flushed_offset: Annotated[int, Int("i64", "log offset below which everything was synced")]
    physic_timestamp: Annotated[int, Int("i64", "ms, copy of the checkpoint's physic timestamp", TIME)]
    physic_before: Annotated[int, Int("i64", "ms, the checkpoint's physic timestamp before that", TIME)]
    dispatched_offset: Annotated[int, Int("i64", "log offset below which all queue units are on disk; -1: unknown")]
    indexed_offset: Annotated[int, Int("i64", "log offset below which all keys are in the index, on disk")]
    index_name: Annotated[int, Int("i64", "name of the newest index file then, as a number; 0: nothing is known")]
    begin_timestamp: Annotated[int, Int("i64", "from here on a copy of that file's header: ms, its first item", TIME)]
    end_timestamp: Annotated[int, Int("i64", "ms, its last item", TIME)]
    begin_physical_offset: Annotated[int, Int("i64", "log offset of the record of its first item")]
    end_physical_offset: Annotated[int, Int("i64", "log offset of the record of its last item")]
    slots_used: Annotated[int, Int("i32", "slots that hold an item")]
    index_count: Annotated[int, Int("i32", "number of its next item; those below it are on disk")]
    checksum: Annotated[int, Int("u32", "CRC-32 of the bytes before it", HEX)]

    def holds(self, physic_timestamp: int) -> bool:
        """Return whether the mark is valid beside a checkpoint with this physic timestamp."""
        return physic_timestamp in (self.physic_timestamp, self.physic_before)

    @property
    def indexed(self) -> Indexed | None:
        """Durable point of the index; None if it is not known."""
        header = index.Header(*self[8:14])
        return Indexed(self.indexed_offset, self.index_name, header) if self.index_name > 0 else None


MARK: Final = Layout("FlintMQ mark", Mark)
NO_HEADER: Final = index.Header(0, 0, 0, 0, 0, 0)


def encode(
    flushed_offset: int,
    physic_timestamp: int,
    physic_before: int | None = None,
    dispatched_offset: int = -1,
    indexed: Indexed | None = None,
) -> bytes:
    """Encode a mark file.

    Args:
        flushed_offset: log offset below which everything was synced.
        physic_timestamp: ms, as in the checkpoint that is written next.
        physic_before: ms, as in the checkpoint that is there; None if that is the same.
        dispatched_offset: log offset below which all queue units were synced; -1 if that is not known.
        indexed: the same of the index; None if that is not known.
    """
    before = physic_timestamp if physic_before is None else physic_before
    index_part = (-1, 0, *NO_HEADER) if indexed is None else (indexed.offset, indexed.name, *indexed.header)
    mark = Mark(MAGIC, VERSION, flushed_offset, physic_timestamp, before, dispatched_offset, *index_part, checksum=0)
    covered = MARK.pack(mark)[: MARK.offset("checksum")]
    return covered + zlib.crc32(covered).to_bytes(4, "big")


def decode(data: Buffer) -> Mark:
    """Decode a mark file.

    Raises FormatError: it is short, of another kind or version, or its checksum is wrong; such a mark counts as absent.
    """
    mark = MARK.unpack(data)
    if len(data) != MARK.size:
        raise FormatError(f"a mark has {MARK.size} bytes, not {len(data)}")
    if mark.magic != MAGIC or mark.version != VERSION:
        raise FormatError(f"not a mark of version {VERSION}")
    if zlib.crc32(data[: MARK.offset("checksum")]) != mark.checksum:
        raise FormatError("checksum of the mark is wrong", MARK.offset("checksum"))
    return mark
