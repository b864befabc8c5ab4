"""The walker against Java's decoding of the golden stores, against the slow reference, and against broken bytes."""

import errno
import mmap
import os
import random
import struct
import zlib
from array import array

import pytest

from flintmq.format import record
from flintmq.kernels.read import walk
from tests.compat.stores import Golden
from tests.support.small_logs import SIZE, make

BOTH = walk.CHECK_CRC | walk.CHECK_TIME


def walk_file(
    data: bytes, base: int = 0, last_time: int = 0, room: int = 10_000, flags: int = BOTH
) -> tuple[list[int], int, int, int]:
    """(positions, stop, reason, last time) of a walk over a whole file."""
    positions = array("q", bytes(8 * room))
    n = len(data)
    count, stop, reason, time = walk.walk(data, 0, n, n, n, base, last_time, 1 << 26, flags, positions)
    return list(positions[:count]), stop, reason, time


def test_golden_stores_hold_the_records_that_java_reads(golden_store: Golden) -> None:
    found: list[int] = []
    for file in sorted((golden_store.path / "commitlog").iterdir()):
        # A step of the times is the walk's to judge: in `stale-aligned` there is one, and RocketMQ reads on.
        positions, _, _, _ = walk_file(file.read_bytes(), int(file.name), flags=walk.CHECK_CRC)
        found += [int(file.name) + at for at in positions]
    expected = [row["physical_offset"] for row in golden_store.live]
    assert found[: len(expected)] == expected
    assert len(found) == len(expected) + golden_store.expect.get("beyond", 0)


@pytest.mark.parametrize("most", [0, 1, 2])
def test_every_form_of_the_crc_agrees_with_zlib(most: int) -> None:
    chance = random.Random(most)
    for n in [*range(300), 511, 512, 1000, 4096, 65_537]:
        data = chance.randbytes(n)
        assert walk.crc32(data, most) == zlib.crc32(data), n


def test_reasons_have_names() -> None:
    assert walk.REASONS[walk.NOTHING] == "nothing found"
    assert len(walk.REASONS) == walk.NOTHING + 1
    assert walk.crc_kind() in ("zlib", "tables", "carry-less multiply", "AVX-512")


# (what is changed in the second of two records, why the walk stops there)
BROKEN = {
    "size too large": (0, struct.pack(">i", 0x7FFFFFFF), walk.SIZE),
    "size negative": (0, struct.pack(">i", -5), walk.SIZE),
    "size below the least": (0, struct.pack(">i", 90), walk.SIZE),
    "size zero": (0, struct.pack(">i", 0), walk.SIZE),
    "magic": (4, b"\xda\xa3\x20\xa6", walk.MAGIC),
    "magic zero, size not": (4, bytes(4), walk.MAGIC),
    "size and magic zero": (0, bytes(8), walk.ZERO),
    "blank": (4, struct.pack(">I", record.MAGIC_BLANK), walk.BLANK),
    "physical offset": (28, struct.pack(">q", 7), walk.OFFSET),
    "body length negative": (84, struct.pack(">i", -1), walk.LENGTHS),
    "body length too large": (84, struct.pack(">i", SIZE), walk.LENGTHS),
    "body length one more": (84, struct.pack(">i", 5), walk.LENGTHS),
    "born host claims IPv6": (39, b"\x10", walk.LENGTHS),
    "topic length": (92, b"\xff", walk.LENGTHS),
    "properties length": (94, struct.pack(">h", 6), walk.LENGTHS),
    "properties length negative": (94, struct.pack(">h", -7), walk.LENGTHS),
    "body": (88, b"B", walk.CRC),
    "body crc": (8, bytes(4), walk.CRC),
    "body crc with its top bit": (8, struct.pack(">I", 0x80000000 | record.crc(b"body")), walk.CRC),
    "store time": (56, struct.pack(">q", 999), walk.TIME),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_field_stops_the_walk_there(what: str) -> None:
    at, bytes_, reason = BROKEN[what]
    second = bytearray(make(SIZE, 1001))
    second[at : at + len(bytes_)] = bytes_
    data = make(0, 1000) + bytes(second) + make(2 * SIZE, 1002) + bytes(64)
    assert walk_file(data) == ([0], SIZE, reason, 1000)


def test_every_flipped_byte_is_seen_or_in_a_field_that_nothing_protects() -> None:
    """What a record's own bytes protect: sizes, magic, offset, body; not the opaque numbers, hosts and text."""
    good = make(0, 1000) + make(SIZE, 1001)
    unprotected = {*range(12, 28), *range(36, 39), *range(40, 84), 93, *range(96, SIZE)}
    for at in range(SIZE):
        for bit in range(8):
            data = bytearray(good)
            data[at] ^= 1 << bit
            seen = len(walk_file(bytes(data) + bytes(16))[0]) < 2
            free = at in unprotected or (at == 39 and bit not in (4, 5))
            assert seen or free, f"byte {at}, bit {bit}"


def test_every_cut_of_a_buffer_asks_for_more_and_never_reads_beyond() -> None:
    data = make(0, 1000) + make(SIZE, 1001)
    positions = array("q", bytes(80))
    for available in range(len(data)):
        count, stop, reason, _ = walk.walk(data[:available], 0, available, 4096, 4096, 0, 0, 1 << 20, BOTH, positions)
        assert (count, stop, reason) == (available // SIZE, available // SIZE * SIZE, walk.MORE)


def test_the_walk_stops_when_the_positions_are_full_and_goes_on() -> None:
    data = b"".join(make(n * SIZE, 1000 + n) for n in range(5)) + bytes(8)
    positions = array("q", bytes(16))
    assert walk.walk(data, 0, len(data), len(data), len(data), 0, 0, 1 << 20, BOTH, positions)[:3] == (
        2,
        2 * SIZE,
        walk.FULL,
    )
    assert walk.walk(data, 2 * SIZE, len(data), len(data), 3 * SIZE, 0, 0, 1 << 20, BOTH, positions)[:3] == (
        1,
        3 * SIZE,
        walk.END,
    )


def test_the_appended_crc_is_compared_wherever_it_stands() -> None:
    plain = record.Record(body_crc=record.crc(b"b"), body=b"b", topic=b"T", properties=b"A\x011", store_timestamp=5)
    data = record.encode(record.append_crc_property(plain))
    assert walk_file(data + bytes(8))[:3] == ([0], len(data), walk.ZERO)
    for at in (12, 60, len(data) - 23, len(data) - 3):  # queue id, time, properties, a digit: all protected now
        broken = bytearray(data)
        broken[at] ^= 1
        assert walk_file(bytes(broken) + bytes(8))[:3] == ([], 0, walk.CRC_PROPERTY)


def test_arguments_outside_the_buffer_are_refused() -> None:
    positions = array("q", bytes(8))
    for at, available in ((-1, 4), (5, 4), (0, 9)):
        with pytest.raises(ValueError, match="within the buffer"):
            walk.walk(bytes(8), at, available, 8, 8, 0, 0, 100, BOTH, positions)
        with pytest.raises(ValueError, match="within the buffer"):
            walk.resync(bytes(8), at, available, 8, 0, 100)


def test_resync_finds_the_next_record_behind_anything() -> None:
    chance = random.Random(1)
    for _ in range(300):
        junk = bytearray(chance.randbytes(chance.randrange(200)))
        if len(junk) > 12 and chance.random() < 0.5:
            junk[4:8] = b"\xda\xa3\x20\xa7"  # a magic that points to no record
        data = bytes(junk) + make(len(junk), 1000) + bytes(20)
        assert walk.resync(data, 0, len(data), len(data), 0, 1 << 20) == (len(junk), walk.END)


def test_resync_does_not_believe_a_record_copied_from_another_place() -> None:
    data = bytes(30) + make(31, 1000) + bytes(50)
    at, reason = walk.resync(data, 0, len(data), len(data), 0, 1 << 20)
    assert (at, reason) == (len(data) - 7, walk.NOTHING)


def test_resync_asks_for_more_at_a_record_that_is_cut() -> None:
    data = bytes(16) + make(16, 1000)
    for available in range(24, len(data)):
        assert walk.resync(data, 0, available, 4096, 0, 1 << 20) == (16, walk.MORE)
    assert walk.resync(data, 0, len(data), 4096, 0, 1 << 20) == (16, walk.END)


def test_rubbish_of_any_kind_gives_a_reason_and_no_error() -> None:
    chance = random.Random(os.environ.get("FLINTMQ_SEED", "walk"))
    good = make(0, 1000) + make(SIZE, 1001)
    for _ in range(2000):
        data = bytearray(good)
        for _ in range(chance.randrange(1, 9)):
            data[chance.randrange(len(data))] = chance.choice((0, 1, 2, 127, 128, 255, chance.randrange(256)))
        at = chance.randrange(len(data))
        available = chance.randrange(at, len(data) + 1)
        positions = array("q", bytes(80))
        count, stop, reason, _ = walk.walk(
            bytes(data),
            at,
            available,
            len(data) + 50,
            4096,
            -at,
            0,
            chance.choice((100, 200, 1 << 30)),
            BOTH,
            positions,
        )
        assert at <= stop <= available and 0 <= count <= 2 and walk.REASONS[reason]
        assert all(at <= p < stop for p in positions[:count])


def test_what_is_present_lies_within_the_buffer() -> None:
    map_ = mmap.mmap(-1, 1 << 20)
    able = walk.present(map_, 0, 1)
    assert able in (0, errno.EINVAL), "there, or this system cannot tell"
    assert walk.present(map_, 70_000, 1 << 20) == able
    assert walk.present(map_, 10, 10) == 0
    for begin, end in ((-1, 5), (5, 4), (0, (1 << 20) + 1)):
        with pytest.raises(ValueError, match="within the buffer"):
            walk.present(map_, begin, end)


def test_touching_reads_one_byte_a_step() -> None:
    data = bytes(range(100))
    assert walk.touch(data, 10, 100, 30) == 10 + 40 + 70
    assert walk.touch(data, 10, 10, 1) == 0
    for begin, end, step in ((-1, 5, 1), (0, 101, 1), (0, 100, 0)):
        with pytest.raises(ValueError, match="within"):
            walk.touch(data, begin, end, step)
