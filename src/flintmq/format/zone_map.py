"""A zone map, FlintMQ's own file: which parts of a log file cannot hold a wanted message.

Bytes and rules: docs/internals/format/zone-map.md. A header, its zones, and blocks of Bloom filters
(kernels/read/zone_keys.py). Upstream neither writes nor reads the file.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

from flintmq.errors import FormatError
from flintmq.format.layout import HEX, TIME, Buffer, Int, Layout

MAGIC: Final = int.from_bytes(b"FLNTZONE", "big")
VERSION: Final = 2
BLOCK: Final = 64  # bytes
BITS_OF_KEY: Final = 12
BITS_OF_BLOCK: Final = 480


class ZoneMapHeader(NamedTuple):
    magic: Annotated[int, Int("u64", "`FLNTZONE` in ASCII", HEX)]
    version: Annotated[int, Int("i32", "2")]
    zones: Annotated[int, Int("i32", "number of zones, which follow the header")]
    inode: Annotated[int, Int("u64", "inode of the log file")]
    stamp: Annotated[int, Int("i64", "ns, time of the last change of the log file; of its directory for the last file")]
    checksum: Annotated[int, Int("u32", "CRC-32 of the 32 bytes before it and of the zones", HEX)]


class Zone(NamedTuple):
    """A part of a log file from one record to another, all of whose records were validated."""

    begin: Annotated[int, Int("i64", "log offset of its first record")]
    end: Annotated[int, Int("i64", "log offset after its last record")]
    last: Annotated[int, Int("i64", "log offset of its last record")]
    ends: Annotated[int, Int("u32", "CRC-32 of parts of its first and its last record, see below", HEX)]
    records: Annotated[int, Int("i32", "number of records")]
    first_time: Annotated[int, Int("i64", "ms, store time of its first record", TIME)]
    last_time: Annotated[int, Int("i64", "ms, store time of its last record; none in between is less or greater", TIME)]
    blocks_at: Annotated[int, Int("i64", "position in this file of its first block")]
    blocks: Annotated[int, Int("i32", "number of its blocks")]


HEADER: Final = Layout("Zone map header", ZoneMapHeader)
ZONE: Final = Layout("Zone of a zone map", Zone)
HEAD_OF_RECORD: Final = 76
"""Bytes at the begin of a record that `ends` covers: checksum of the body, queue offset and store time are in them."""
TAIL_OF_ZONE: Final = 1024
"""Most bytes at the end of the last record that `ends` covers: its topic and properties are in them."""


def blocks_for(keys: int) -> int:
    return max(1, -(-keys * BITS_OF_KEY // BITS_OF_BLOCK))


def ends(first: Buffer, last: Buffer, tail: Buffer) -> int:
    """Return the field `ends` of a zone.

    Args:
        first, last: the first HEAD_OF_RECORD bytes of its first and its last record.
        tail: the last TAIL_OF_ZONE bytes of its last record, or all of it.
    """
    return zlib.crc32(tail, zlib.crc32(last, zlib.crc32(first)))


def encode(inode: int, stamp: int, zones: Sequence[Zone], blocks: Sequence[Buffer]) -> list[Buffer]:
    """Encode a zone map; return its parts in order.

    `zones`: sorted by begin, without overlap; blocks_at and blocks are set here.
    """
    at = HEADER.size + ZONE.size * len(zones)
    table = []
    for zone, own in zip(zones, blocks, strict=True):
        table.append(ZONE.pack(zone._replace(blocks_at=at, blocks=len(own) // BLOCK)))
        at += len(own)
    body = b"".join(table)
    head = HEADER.pack(ZoneMapHeader(MAGIC, VERSION, len(zones), inode, stamp, 0))[: HEADER.offset("checksum")]
    return [head + zlib.crc32(body, zlib.crc32(head)).to_bytes(4, "big") + body, *blocks]


def header_of(data: Buffer, size: int) -> ZoneMapHeader:
    """Return the header, whose number of zones is possible."""
    header = HEADER.unpack(data)
    if header.magic != MAGIC or header.version != VERSION:
        raise FormatError(f"not a zone map of version {VERSION}")
    if not 0 <= header.zones <= (size - HEADER.size) // ZONE.size:
        raise FormatError(f"{header.zones} zones do not fit {size} bytes", HEADER.offset("zones"))
    return header


def decode(data: Buffer, size: int) -> list[Zone]:
    header = header_of(data, size)
    count = header.zones
    body = data[HEADER.size : HEADER.size + count * ZONE.size]
    if zlib.crc32(body, zlib.crc32(data[: HEADER.offset("checksum")])) != header.checksum:
        raise FormatError("checksum of the zone map is wrong", HEADER.offset("checksum"))
    zones = [ZONE.unpack(body, number * ZONE.size) for number in range(count)]
    done = 0
    for zone in zones:
        if not done <= zone.begin <= zone.last < zone.end or zone.first_time > zone.last_time:
            raise FormatError(f"zone {zone.begin} to {zone.end} is not possible")
        if zone.blocks < 1 or zone.blocks_at < HEADER.size or zone.blocks_at + BLOCK * zone.blocks > size:
            raise FormatError(f"blocks of zone {zone.begin} lead out of the file")
        done = zone.end
    return zones
