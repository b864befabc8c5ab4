"""Ext units: hand-written bytes, addresses, Java's files."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintmq.errors import FormatError
from flintmq.format import consume_queue as cq
from flintmq.format import consume_queue_ext as ext
from flintmq.format.text import java_hash
from tests.compat.stores import Golden
from tests.support.golden_logs import queue_files


@pytest.mark.parametrize(
    ("unit", "data"),
    [
        (ext.ExtUnit(2112, 1700000000000), "0014 0000000000000840 0000018bcfe56800 0000"),
        (ext.ExtUnit(-1, 1, b"\x05\x80"), "0016 ffffffffffffffff 0000000000000001 0002 0580"),
    ],
)
def test_hand_written_bytes(unit: ext.ExtUnit, data: str) -> None:
    assert ext.encode(unit) == bytes.fromhex(data)
    assert ext.decode(b"!" + bytes.fromhex(data), 1) == unit


def test_bits() -> None:
    unit = ext.ExtUnit(0, 0, b"\x05\x80")
    assert [k for k in range(40) if unit.bit(k)] == [0, 2, 15]


def test_where_units_end() -> None:
    assert ext.decode(ext.FILE_END) is ext.decode(bytes(64)) is ext.decode(b"\0") is ext.decode(b"") is None
    with pytest.raises(FormatError, match="size 24 is not in 20..22"):
        ext.decode(bytes.fromhex("0018") + bytes(20))
    with pytest.raises(FormatError, match="bitmap needs 9 bytes, 0 are left"):
        ext.decode(bytes.fromhex("0014") + bytes(16) + b"\0\x09" + bytes(20))
    with pytest.raises(FormatError, match="at most 32747"):
        ext.encode(ext.ExtUnit(0, 0, bytes(32748)))


def test_decode_keeps_to_its_limits() -> None:
    """A unit of 22 bytes at byte 3, the mark of a file's end at byte 25; nothing behind the limit is looked at."""
    unit = ext.ExtUnit(-1, 1, b"\x05\x80")
    data = b"xyz" + bytes.fromhex("0016 ffffffffffffffff 0000000000000001 0002 0580") + ext.FILE_END + b"\x7f"
    assert ext.decode(data, 3) == ext.decode(data, 3, 25) == ext.decode(data, 3, 999) == unit
    for at, limit in ((3, 4), (3, 3), (25, None), (25, 26), (27, None), (28, None), (40, None)):
        assert ext.decode(data, at, limit) is None
    for at, limit, reason in (
        (3, 24, "size 22 is not in 20..21"),
        (3, 5, "Consume queue ext unit needs 20 bytes, 2 are left"),
    ):
        with pytest.raises(FormatError) as caught:
            ext.decode(data, at, limit)
        assert (caught.value.reason, caught.value.position) == (reason, at)


def test_a_size_is_two_bytes_with_a_sign() -> None:
    """0 and less end the units, whatever follows; 1 is a size, and a wrong one."""
    for size in ("0000", "ffff", "8000", "ff80"):
        assert ext.decode(bytes.fromhex(size) + b"\x7f" * 40) is None
    with pytest.raises(FormatError, match=r"size 1 is not in 20\.\.32"):
        ext.decode(bytes.fromhex("0001") + bytes(30))
    assert [ext.size_at(bytes.fromhex(data)) for data in ("0014", "8000", "ffff00", "")] == [20, -32768, -1, 0]


def test_the_longest_bitmap() -> None:
    unit = ext.ExtUnit(7, 8, b"\xff" * 32747)
    data = ext.encode(unit)
    assert data[:2] == b"\x7f\xff" and data[18:20] == b"\x7f\xeb" and len(data) == 32767
    assert ext.decode(data) == unit
    assert [unit.bit(k) for k in (0, 8 * 32747 - 1, 8 * 32747)] == [True, True, False]


def test_only_an_address_has_a_position() -> None:
    with pytest.raises(AssertionError, match="^the tags field holds no address"):
        ext.position(0)


@given(st.integers(0, (1 << 62) - 1))
def test_addresses(position: int) -> None:
    assert ext.is_address(ext.address(position))
    assert ext.position(ext.address(position)) == position


def test_no_hash_and_no_time_is_an_address() -> None:
    assert ext.address(0) == -(1 << 63)
    assert ext.is_address(-2147483649)
    assert not any(map(ext.is_address, (-2147483648, -1, 0, 1700000000000)))


def test_golden_addresses_lead_to_their_records(golden: Callable[[str], Golden]) -> None:
    store = golden("cqext")
    rows = {row["physical_offset"]: row for row in store.rows}
    seen = 0
    for path in (store.path / "consumequeue").glob("*/*"):
        files = queue_files(store.path / "consumequeue_ext" / path.parent.name / path.name)
        size = len(files[0])
        for data in queue_files(path).values():
            for unit in filter(lambda unit: unit.is_written, cq.UNIT.iter(data)):
                position = ext.position(unit.tags_code)
                found = ext.decode(files[position - position % size], position % size)
                row = rows[unit.physical_offset]
                tags = java_hash(row["tags"]) if row["tags"] else 0
                assert found == ext.ExtUnit(tags, row["store_timestamp"], found.bitmap if found else b"")
                seen += 1
        walk_to_the_end(files, size)
    assert seen == len(rows)


def walk_to_the_end(files: dict[int, bytes], size: int) -> None:
    """Units stand back to back; every file but the last ends with the mark, and there had to be room for it."""
    for start, data in files.items():
        at = 0
        while (unit := ext.decode(data, at)) is not None:
            at += ext.EXT_UNIT.size_of(unit)
            assert ext.encode(unit) == data[at - ext.EXT_UNIT.size_of(unit) : at]
            assert at <= size - ext.FILE_END_ROOM
        assert data[at : at + 2] == (ext.FILE_END if start + size in files else b"\0\0")
