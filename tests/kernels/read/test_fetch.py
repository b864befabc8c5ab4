"""kernels/read/fetch: from units to messages, on what Java wrote and on units that lie."""

import struct
from array import array
from collections.abc import Callable

import pytest

from flintmq.kernels.read import fetch
from flintmq.message import StoredMessage
from flintmq.store.commitlog.bulk_writer import LogRoom
from flintmq.testing.rows import Rows
from tests.compat.stores import Golden

MAX = 1 << 26


def unit(offset: int, size: int, tags: int = 0) -> bytes:
    return struct.pack(">qiq", offset, size, tags)


def log_of(count: int, topic: bytes = b"T", sys_flag: int = 0, base: int = 0) -> tuple[bytes, bytes, Rows]:
    """(log, units, rows) of some messages of one queue."""
    rows = Rows()
    host = bytes(20) if sys_flag & 0x10 else bytes(8)
    for number in range(count):
        rows.add(topic, 3, 100 + number, b"body %d" % number, sys_flag=sys_flag, born_host=host)
    out = bytearray(10_000)
    _, end, _ = rows.append(LogRoom(out, 0, 20_000, base))
    units = b"".join(unit(rows.physical_offsets[row], rows.size(row)) for row in range(count))
    return bytes(out[:end]), units, rows


def checked(log: bytes, units: bytes, count: int, topic: bytes = b"T", queue_id: int = 3, offset: int = 100) -> int:
    positions = array("q", bytes(8 * count))
    good, _ = fetch.check(units, 0, count, log, 0, 20_000, MAX, topic, queue_id, offset, positions)
    assert list(positions[:good]) == [struct.unpack_from(">q", units, 20 * i)[0] for i in range(good)]
    return good


@pytest.mark.parametrize("name", ["basic", "flags", "v540"])
def test_queues_of_java(golden: Callable[[str], Golden], name: str) -> None:
    store = golden(name)
    logs = {int(path.name): path.read_bytes() for path in (store.path / "commitlog").iterdir()}
    size = len(logs[0])
    seen = 0
    for folder in sorted((store.path / "consumequeue").glob("*/*")):
        units = b"".join(path.read_bytes() for path in sorted(folder.iterdir()))
        expected = [
            row
            for row in store.live
            if (row["topic"], str(row["queue_id"])) == (folder.parent.name, folder.name) and not row["sys_flag"] & 4
        ]
        count, total = fetch.run(units, 0, len(units) // 20, 0, len(logs) * size)
        assert (count, total) == (len(expected), sum(row["size"] for row in expected))
        found: list[StoredMessage] = []
        while len(found) < count:
            start = expected[len(found)]["physical_offset"] // size * size
            positions = array("q", bytes(8 * (count - len(found))))
            good, inside = fetch.check(
                units,
                len(found),
                count - len(found),
                logs[start],
                start,
                size,
                MAX,
                folder.parent.name.encode(),
                int(folder.name),
                len(found),
                positions,
            )
            assert good > 0
            assert inside == (len(found) + good == count)
            found += fetch.take(StoredMessage, logs[start], positions, good)
        assert [message.physical_offset for message in found] == [row["physical_offset"] for row in expected]
        assert [message.offset_msg_id for message in found] == [row["offset_msg_id"] for row in expected]
        assert [len(message.body) for message in found] == [row["body_length"] for row in expected]
        assert [message.size for message in found] == [row["size"] for row in expected]
        seen += count
    assert seen == sum(not row["sys_flag"] & 4 for row in store.live)


def test_run_stops_at_the_first_unit_that_leads_nowhere() -> None:
    good = unit(100, 91) + unit(191, 9)
    assert fetch.run(good, 0, 2, 100, 200) == (2, 100)
    assert fetch.run(good, 1, 1, 100, 200) == (1, 9)
    assert fetch.run(good, 0, 0, 100, 200) == (0, 0)
    assert fetch.run(b"", 0, 0, 0, 1) == (0, 0)
    for bad in (
        unit(0, 0),
        unit(0, 2**31 - 1),
        unit(99, 50),
        unit(191, 10),
        unit(-1, 50),
        unit(2**63 - 1, 1),
        unit(150, -5),
    ):
        assert fetch.run(good + bad, 0, 3, 100, 200) == (2, 100)
    for first, count in ((0, 3), (2, 1), (-1, 1), (0, -1)):
        with pytest.raises(ValueError, match="no such units"):
            fetch.run(good, first, count, 0, 1000)


@pytest.mark.parametrize("sys_flag", [0, 0x10])
@pytest.mark.parametrize("topic", [b"T", b"t" * 130])
def test_check_takes_records_at_their_place_only(topic: bytes, sys_flag: int) -> None:
    log, units, _ = log_of(4, topic, sys_flag)
    assert checked(log, units, 4, topic) == 4
    assert checked(log, units, 4, topic + b"x") == 0
    assert checked(log, units, 4, topic[:-1] + b"X") == 0
    assert checked(log, units, 4, topic, queue_id=4) == 0
    assert checked(log, units, 4, topic, offset=101) == 0
    assert checked(log, units, 4, b"") == 0


def test_prepared_and_rolled_back_records_stand_nowhere() -> None:
    for sys_flag, good in ((0, 2), (4, 0), (8, 2), (12, 0)):
        log, units, _ = log_of(2, sys_flag=sys_flag)
        assert checked(log, units, 2) == good


def test_check_stops_at_units_that_lie() -> None:
    log, units, rows = log_of(4)
    middle = rows.physical_offsets[2]
    for lie in (
        unit(middle + 1, rows.size(2)),
        unit(middle, rows.size(2) + 1),
        unit(rows.physical_offsets[1], rows.size(1)),
        unit(-1, 100),
        unit(2**62, 100),
        unit(len(log) - 3, 100),
    ):
        assert checked(log, units[:40] + lie + units[60:], 4) == 2


def test_check_stops_at_any_flipped_byte_of_a_body() -> None:
    log, units, rows = log_of(3)
    at = log.index(b"body 1")
    for i in range(6):
        damaged = bytearray(log)
        damaged[at + i] ^= 1
        assert checked(bytes(damaged), units, 3) == 1
    assert rows.size(0) > 0


def test_check_tells_units_of_another_file() -> None:
    log, units, _ = log_of(2)
    positions = array("q", bytes(16))
    far = units[:20] + unit(5000, 100)
    assert fetch.check(far, 0, 2, log, 0, 20_000, MAX, b"T", 3, 100, positions) == (1, False)
    assert fetch.check(far, 0, 2, b"", 0, 20_000, MAX, b"T", 3, 100, positions) == (0, False)
    assert fetch.check(units, 0, 2, log, 0, 20_000, 90, b"T", 3, 100, positions) == (0, True)
    with pytest.raises(ValueError, match="room"):
        fetch.check(units, 0, 3, log, 0, 20_000, MAX, b"T", 3, 100, positions)
    with pytest.raises(ValueError, match="room"):
        fetch.check(units, 0, 2, log, 0, 20_000, MAX, b"T", 3, 100, array("q", [0]))


def test_objects_pin_the_buffer_until_their_bytes_are_asked_for() -> None:
    log, _, rows = log_of(3)
    buffer = bytearray(log)
    found = fetch.take(StoredMessage, buffer, rows.physical_offsets, 3)
    assert [message.body for message in found] == [b"body 0", b"body 1", b"body 2"]
    with pytest.raises(BufferError):
        buffer.append(0)
    assert b"".join(message.raw for message in found) == log
    assert [message.body for message in found] == [b"body 0", b"body 1", b"body 2"]
    buffer.append(0)
    assert found == [StoredMessage(message.raw) for message in found]


def test_take_refuses_positions_without_a_record() -> None:
    log, _, rows = log_of(1)
    for position in (-1, 1, len(log), len(log) - 90, 2**63 - 1, -(2**63)):
        with pytest.raises(ValueError, match="no record begins|goes on beyond"):
            fetch.take(StoredMessage, log, array("q", [position]), 1)
    with pytest.raises(ValueError, match="fewer entries"):
        fetch.take(StoredMessage, log, rows.physical_offsets, 2)
    with pytest.raises(ValueError, match="no record begins"):
        fetch.take(StoredMessage, b"", array("q", [0]), 1)
    assert fetch.take(StoredMessage, b"", array("q"), 0) == []


@pytest.mark.parametrize("length", [-1, 2**31 - 1, 7])
def test_a_body_length_that_lies_is_not_followed(length: int) -> None:
    log, _, _ = log_of(1)
    raw = log[:84] + struct.pack(">i", length) + log[88:]
    if length == 7:  # one more than there is: it reaches into the topic's length, and no further
        assert StoredMessage(raw).body == b"body 0\x01"
        raw = raw[:94]
    with pytest.raises(ValueError, match="position"):
        _ = StoredMessage(raw).body
