"""Zone maps: hand-written bytes, every prefix, every flipped bit of the table."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintmq.errors import FormatError
from flintmq.format import zone_map
from flintmq.format.zone_map import Zone

ONE = Zone(0x100, 0x300, 0x200, 0xAABBCCDD, 2, 1700000000000, 1700000000001, 0, 0)
TWO = Zone(0x300, 0x380, 0x300, 0x11223344, 1, 5, 5, 0, 0)
TABLE = bytes.fromhex(
    "0000000000000100 0000000000000300 0000000000000200 aabbccdd 00000002"
    "0000018bcfe56800 0000018bcfe56801 000000000000009c 00000001"
    "0000000000000300 0000000000000380 0000000000000300 11223344 00000001"
    "0000000000000005 0000000000000005 00000000000000dc 00000002"
)
HEAD = bytes.fromhex("464c4e545a4f4e45 00000002 00000002 1122334455667788 fffffffffffffffe")
RAW = HEAD + zlib.crc32(HEAD + TABLE).to_bytes(4, "big") + TABLE + bytes(64) + b"\x01" * 128


def encoded(*zones: Zone) -> bytes:
    return b"".join(zone_map.encode(7, 9, zones, [b"\1" * 64 for _ in zones]))


def test_hand_written_bytes() -> None:
    assert b"".join(zone_map.encode(0x1122334455667788, -2, [ONE, TWO], [bytes(64), b"\x01" * 128])) == RAW
    assert zone_map.decode(RAW, len(RAW)) == [
        ONE._replace(blocks_at=0x9C, blocks=1),
        TWO._replace(blocks_at=0xDC, blocks=2),
    ]
    assert zone_map.decode(encoded(), zone_map.HEADER.size) == []


def test_blocks_for_keys() -> None:
    assert [zone_map.blocks_for(keys) for keys in (0, 1, 40, 41, 4000)] == [1, 1, 1, 2, 100]


def test_every_prefix_and_every_bit_of_header_and_table() -> None:
    table_end = len(RAW) - 192
    for length in range(table_end):
        with pytest.raises(FormatError):
            zone_map.decode(RAW[:length], length)
    for position in range(table_end):
        for bit in range(8):
            damaged = bytearray(RAW)
            damaged[position] ^= 1 << bit
            with pytest.raises(FormatError):
                zone_map.decode(bytes(damaged), len(RAW))


@pytest.mark.parametrize(
    "zone",
    [
        ONE._replace(begin=-1),
        ONE._replace(last=0x99),
        ONE._replace(end=0x200),
        ONE._replace(first_time=1800000000000),
    ],
)
def test_zones_that_are_not_possible(zone: Zone) -> None:
    raw = encoded(zone)
    with pytest.raises(FormatError, match="not possible"):
        zone_map.decode(raw, len(raw))


def test_zones_that_overlap() -> None:
    raw = encoded(ONE, TWO._replace(begin=0x2FF, last=0x300))
    with pytest.raises(FormatError, match="not possible"):
        zone_map.decode(raw, len(raw))


def test_blocks_within_the_file() -> None:
    raw = encoded(ONE)
    with pytest.raises(FormatError, match="lead out"):
        zone_map.decode(raw, len(raw) - 1)


@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        zone_map.decode(data, len(data))
    except FormatError:
        pass
