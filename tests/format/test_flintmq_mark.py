"""The durable mark: hand-written bytes, every prefix, every flipped bit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintmq.errors import FormatError
from flintmq.format import flintmq_mark as fm

# The checksum is that of zlib over the 28 bytes before it.
RAW = bytes.fromhex("464c4e544d41524b 00000001 0000000000001000 0000018bcfe56800 bb97f4b3")


def test_hand_written_bytes() -> None:
    assert fm.encode(0x1000, 1700000000000) == RAW
    mark = fm.decode(RAW)
    assert (mark.flushed_offset, mark.physic_timestamp) == (0x1000, 1700000000000)


def test_every_prefix_and_more() -> None:
    raw = fm.encode(1, 2)
    for length in range(32):
        with pytest.raises(FormatError, match="needs 32 bytes"):
            fm.decode(raw[:length])
    with pytest.raises(FormatError, match="not 33"):
        fm.decode(raw + b"\0")


def test_every_flipped_bit() -> None:
    raw = bytearray(fm.encode(0x1000, 1700000000000))
    for bit in range(len(raw) * 8):
        raw[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FormatError):
            fm.decode(raw)
        raw[bit // 8] ^= 1 << bit % 8
    assert fm.decode(raw).flushed_offset == 0x1000


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-(1 << 63), (1 << 63) - 1))
def test_round_trip(offset: int, time: int) -> None:
    mark = fm.decode(fm.encode(offset, time))
    assert (mark.flushed_offset, mark.physic_timestamp) == (offset, time)


@given(st.binary(min_size=32, max_size=32))
def test_random_bytes(data: bytes) -> None:
    with pytest.raises(FormatError):
        fm.decode(data)


def test_numbers_that_do_not_fit() -> None:
    with pytest.raises(FormatError, match="does not fit i64"):
        fm.encode(1 << 63, 0)
