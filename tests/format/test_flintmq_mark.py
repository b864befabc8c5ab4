"""The durable mark: hand-written bytes, every prefix, every flipped bit."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintmq.errors import FormatError
from flintmq.format import flintmq_mark as fm
from flintmq.format.index import Header

# The checksum is that of zlib over the 100 bytes before it.
RAW = bytes.fromhex(
    "464c4e544d41524b 00000003 0000000000001000 0000018bcfe56800 0000018bcfe567ff"
    "0000000000000800 0000000000000700 0047e0175892796b"
    "0000018bcfe56000 0000018bcfe56700 0000000000000010 00000000000006f0 00000005 00000007"
    "315ab7be"
)
INDEXED = fm.Indexed(0x700, 20231114221320555, Header(1699999997952, 1699999999744, 0x10, 0x6F0, 5, 7))


def test_hand_written_bytes() -> None:
    assert fm.encode(0x1000, 1700000000000, 1699999999999, 0x800, INDEXED) == RAW
    mark = fm.decode(RAW)
    assert (mark.flushed_offset, mark.physic_timestamp, mark.physic_before) == (0x1000, 1700000000000, 1699999999999)
    assert (mark.dispatched_offset, mark.indexed) == (0x800, INDEXED)


def test_nothing_is_known_of_queues_and_index_unless_it_is_said() -> None:
    mark = fm.decode(fm.encode(1, 2))
    assert (mark.dispatched_offset, mark.indexed_offset, mark.indexed) == (-1, -1, None)
    assert fm.decode(fm.encode(1, 2, indexed=INDEXED._replace(name=-5))).indexed is None
    assert fm.decode(fm.encode(1, 2, indexed=INDEXED._replace(name=1))).indexed == INDEXED._replace(name=1)


def test_it_holds_beside_either_checkpoint() -> None:
    mark = fm.decode(RAW)
    times = [1699999999998, 1699999999999, 1700000000000, 1700000000001, 0]
    assert [mark.holds(time) for time in times] == [False, True, True, False, False]
    assert fm.decode(fm.encode(1, 5)).holds(5) and not fm.decode(fm.encode(1, 5)).holds(0)


def test_every_prefix_and_more() -> None:
    raw = fm.encode(1, 2)
    for length in range(104):
        with pytest.raises(FormatError, match="needs 104 bytes"):
            fm.decode(raw[:length])
    with pytest.raises(FormatError, match="not 105"):
        fm.decode(raw + b"\0")


def test_every_flipped_bit() -> None:
    raw = bytearray(fm.encode(0x1000, 1700000000000))
    for bit in range(len(raw) * 8):
        raw[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FormatError) as caught:
            fm.decode(raw)
        head = bit < 12 * 8
        reason = "not a mark of version 3" if head else "checksum of the mark is wrong"
        assert (caught.value.reason, caught.value.position) == (reason, 0 if head else 100)
        raw[bit // 8] ^= 1 << bit % 8
    assert fm.decode(raw).flushed_offset == 0x1000


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-(1 << 63), (1 << 63) - 1))
def test_round_trip(offset: int, time: int) -> None:
    mark = fm.decode(fm.encode(offset, time))
    assert (mark.flushed_offset, mark.physic_timestamp) == (offset, time)


@given(st.binary(min_size=104, max_size=104))
def test_random_bytes(data: bytes) -> None:
    with pytest.raises(FormatError):
        fm.decode(data)


def test_numbers_that_do_not_fit() -> None:
    with pytest.raises(FormatError, match="does not fit i64"):
        fm.encode(1 << 63, 0)


@pytest.mark.parametrize(("at", "what"), [(0, "magic"), (8, "version")])
def test_another_kind_or_version_is_refused_though_its_checksum_is_right(at: int, what: str) -> None:
    raw = bytearray(fm.encode(1, 2))
    raw[at + 3] ^= 1
    raw[100:] = zlib.crc32(raw[:100]).to_bytes(4, "big")
    with pytest.raises(FormatError, match="not a mark of version 3"):
        fm.decode(raw)
