"""kernels/write/encode against logs that Apache RocketMQ wrote: their records, encoded again, give the same files."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.kernels.write import encode
from flintmq.store.commitlog.bulk_writer import LogRoom
from flintmq.testing.rows import Rows
from tests.compat.stores import Golden

BLANK = 0xCBD43194


def take_apart(log: bytes) -> tuple[Rows, list[tuple[int, int]]]:
    """The records of a log as rows, and (position, bytes left) of each blank record. Reads by struct alone."""
    rows, blanks, at = Rows(), [], 0
    while at + 8 <= len(log):
        size, magic = struct.unpack_from(">iI", log, at)
        if magic == BLANK:
            blanks.append((at, size))
            at += size
            continue
        if size == 0:
            break
        queue_id, flag, queue_offset, physical_offset, sys_flag, born_time = struct.unpack_from(">iiqqiq", log, at + 12)
        assert physical_offset == at
        born = 20 if sys_flag & 0x10 else 8
        store = 20 if sys_flag & 0x20 else 8
        p = at + 48 + born
        (store_time,) = struct.unpack_from(">q", log, p)
        reconsumed, prepared, body_size = struct.unpack_from(">iqi", log, p + 8 + store)
        body_at = p + 24 + store
        topic_at = body_at + body_size + (1 if magic == 0xDAA320A7 else 2)
        topic_size = int.from_bytes(log[body_at + body_size : topic_at], "big")
        rows.add(
            log[topic_at : topic_at + topic_size],
            queue_id,
            queue_offset,
            log[body_at : body_at + body_size],
            log[topic_at + topic_size + 2 : at + size],
            flag=flag,
            sys_flag=sys_flag,
            born_time=born_time,
            born_host=log[at + 48 : at + 48 + born],
            store_time=store_time,
            store_host=log[p + 8 : p + 8 + store],
            reconsumed=reconsumed,
            prepared_offset=prepared,
        )
        at += size
    return rows, blanks


def read_log(store: Path) -> tuple[bytes, int]:
    """The bytes of all commit log files, and the size of one."""
    files = sorted((store / "commitlog").iterdir())
    return b"".join(file.read_bytes() for file in files), files[0].stat().st_size


def write_again(rows: Rows, file_size: int, total: int, buffer_bytes: int) -> bytes:
    """The log that kernels/write/encode makes of the rows, through a buffer of this size."""
    log, out = bytearray(), bytearray(buffer_bytes)
    row, base, status = 0, 0, encode.ROOM
    while status != encode.DONE:
        row, at, status = rows.append(LogRoom(out, 0, file_size - base % file_size, base), row)
        assert status in (encode.DONE, encode.ROOM, encode.ROLL)
        assert at > 0, "no progress"
        log += out[:at]
        if status == encode.ROLL:
            log += bytes(-len(log) % file_size)
        base = len(log)
    return bytes(log).ljust(total, b"\0")


@pytest.mark.parametrize(
    "name", ["basic", "flags", "flags540", "lmq", "batch", "v540", "config", "timer", "v550", "config550"]
)
@pytest.mark.parametrize("buffer_bytes", [131_072, 1 << 20])
def test_records_of_java_come_out_the_same(golden: Callable[[str], Golden], name: str, buffer_bytes: int) -> None:
    log, file_size = read_log(golden(name).path)
    rows, blanks = take_apart(log)
    assert len(rows) == len(golden(name).rows)
    assert bool(blanks) == (len(log) > file_size)
    if name.startswith("flags"):  # the classic batches in it may not be parted; nothing here tells rows of a batch
        assert any(left == 8 for _, left in blanks)
    assert write_again(rows, file_size, len(log), buffer_bytes) == log
    assert list(rows.physical_offsets) == [row["physical_offset"] for row in golden(name).rows]


def test_checksum_property_of_java_comes_out_the_same(golden: Callable[[str], Golden]) -> None:
    log, file_size = read_log(golden("crc").path)
    rows, _ = take_apart(log)
    for row in range(len(rows)):
        properties = rows.properties[row]
        assert properties[-20:-11] == b"__CRC32#\x01"
        rows.properties.set(row, properties[:-20])
    out = bytearray(file_size)
    last, at, status = rows.append(LogRoom(out, 0, file_size, 0, flags=encode.CRC_PROPERTY))
    assert status in (encode.DONE, encode.ROLL)
    assert last > 100
    assert out[:at] == log[:at]


ONE = (
    "00000062 daa320a7 58932aac 00000003 00000007 0000000000000005 0000000000000010 00000000"  # size .. sysflag
    "0000000000000001 7f000001 00001f90 0000000000000002 0a000001 00002a9f"  # born, store
    "00000004 0000000000000009 00000002 6869"  # reconsumed, prepared, body "hi"
    "02 546f 0003 410142"  # topic "To", properties A 0x01 B
)
LOCAL, BROKER = bytes.fromhex("7f00000100001f90"), bytes.fromhex("0a00000100002a9f")


def one(topic: bytes = b"To", body: bytes = b"hi", properties: bytes = b"A\x01B", sys_flag: int = 0) -> Rows:
    rows = Rows()
    rows.add(
        topic,
        3,
        5,
        body,
        properties,
        flag=7,
        sys_flag=sys_flag,
        born_time=1,
        born_host=LOCAL,
        store_time=2,
        store_host=BROKER,
        reconsumed=4,
        prepared_offset=9,
    )
    return rows


def test_one_record_byte_for_byte() -> None:
    out, rows = bytearray(200), one()
    assert rows.append(LogRoom(out, 16, 200, 0)) == (1, 16 + 98, encode.DONE)
    assert out[16:114] == bytes.fromhex(ONE)
    assert out[:16] == bytes(16)
    assert out[114:] == bytes(86)
    assert list(rows.physical_offsets) == [16]
    assert rows.size(0) == 98


def test_the_last_eight_bytes_of_a_file_stay_free() -> None:
    out = bytearray(200)
    assert one().append(LogRoom(out, 0, 98 + 8, 0)) == (1, 98, encode.DONE)
    out = bytearray(200)
    assert one().append(LogRoom(out, 10, 10 + 98 + 7, 1000)) == (0, 18, encode.ROLL)
    assert out == bytes(10) + bytes.fromhex("00000069 cbd43194") + bytes(182)


def test_a_batch_rolls_over_as_a_whole() -> None:
    rows = one()
    out = bytearray(300)
    assert rows.append(LogRoom(out, 0, 300, 0), reserve=292) == (1, 98, encode.DONE)
    assert rows.append(LogRoom(out, 0, 300, 0), reserve=293) == (0, 8, encode.ROLL)
    assert rows.append(LogRoom(out, 0, 300, 0), reserve=2**63 - 1) == (0, 8, encode.ROLL)


def test_a_full_buffer_is_reported_before_anything_is_written() -> None:
    out = bytearray(97)
    assert one().append(LogRoom(out, 0, 1000, 0)) == (0, 0, encode.ROOM)
    # 7 bytes: the blank record does not fit either
    assert one().append(LogRoom(out, 90, 105, 0)) == (0, 90, encode.ROOM)
    assert out == bytes(97)
    assert one().append(LogRoom(bytearray(), 0, 1000, 0)) == (0, 0, encode.ROOM)


def test_v2_from_128_bytes_of_topic_on() -> None:
    out = bytearray(1000)
    one(topic=b"t" * 127).append(LogRoom(out, 0, 1000, 0))
    assert (out[4:8], out[90]) == (bytes.fromhex("daa320a7"), 127)
    size = 92 + 2 + 128 + 3
    assert one(topic=b"t" * 128).append(LogRoom(out, 0, 1000, 0)) == (1, size, encode.DONE)
    assert (out[:8], out[90:92]) == (struct.pack(">iI", size, 0xDAA320AB), b"\x00\x80")


def test_an_empty_body_has_no_crc() -> None:
    out = bytearray(200)
    assert one(body=b"", topic=b"", properties=b"").append(LogRoom(out, 0, 200, 0)) == (1, 91, encode.DONE)
    assert out[8:12] == bytes(4)


@pytest.mark.parametrize(
    ("properties", "flags", "status"),
    [
        (bytes(32767), 0, encode.DONE),
        (bytes(32768), 0, encode.REFUSED),
        (b"\x02" * 32747, encode.CRC_PROPERTY, encode.DONE),
        (b"\x01" * 32747, encode.CRC_PROPERTY, encode.REFUSED),  # needs a separator, too
        (b"\x02" * 32748, encode.CRC_PROPERTY, encode.REFUSED),
    ],
)
def test_properties_end_at_32767_bytes(properties: bytes, flags: int, status: int) -> None:
    out = bytearray(40_000)
    row, at, got = one(properties=properties).append(LogRoom(out, 0, 40_000, 0, flags=flags))
    assert (row, got, any(out)) == (int(got == encode.DONE), status, got == encode.DONE)


def test_what_makes_no_record_is_refused() -> None:
    out = bytearray(70_000)
    assert one().append(LogRoom(out, 0, 70_000, 0, max_size=98))[2] == encode.DONE
    assert one().append(LogRoom(out, 0, 70_000, 0, max_size=97))[2] == encode.REFUSED
    assert one(topic=b"t" * 32768).append(LogRoom(out, 0, 70_000, 0))[2] == encode.REFUSED
    # 20 bytes of host where 8 are left
    assert one(sys_flag=0x20).append(LogRoom(out, 0, 70_000, 0))[2] == encode.REFUSED
    for column in ("bodies", "topics", "properties"):
        for start, end in [(-1, 1), (2, 1), (0, 1000), (2**62, 2**62 + 1), (-(2**63), 2**63 - 1)]:
            rows = one()
            part = getattr(rows, column)
            part.starts[0], part.ends[0] = start, end
            assert rows.append(LogRoom(out, 0, 70_000, 0)) == (0, 0, encode.REFUSED), (column, start, end)
    for host in (-1, 9, 2**63 - 1):
        rows = one()
        rows.born_host_starts[0] = host
        assert rows.append(LogRoom(out, 0, 70_000, 0)) == (0, 0, encode.REFUSED)


def test_misuse_is_an_error() -> None:
    for at, file_end, first, last in [
        (-1, 100, 0, 1),
        (201, 400, 0, 1),
        (93, 100, 0, 1),
        (0, 200, 1, 0),
        (0, 200, 0, 2),
    ]:
        with pytest.raises(ValueError, match=r"must lie in|fewer rows"):
            one().append(LogRoom(bytearray(200), at, file_end, 0), first, last)
