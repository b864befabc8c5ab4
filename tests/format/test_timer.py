"""The timer store: hand-written bytes, and Java's wheel and log against the records they point at."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintmq.errors import FormatError
from flintmq.format import timer
from flintmq.format.text import java_hash
from tests.compat.stores import Golden
from tests.support.golden_logs import queue_files

SLOT = (timer.WheelSlot(1700000000, 52, 104, 2), "000000006553f100 0000000000000034 0000000000000068 00000002 00000000")
UNIT = (
    timer.LogUnit(52, -1, 3, 1700000000000, 5000, 0x1000, 111, -2),
    "00000034 ffffffffffffffff 00000003 0000018bcfe56800 00001388 0000000000001000 0000006f fffffffe 0000000000000000",
)
END = (timer.TimerLogEnd(20), "00000014 0000000000000000 cbd43194")


def test_hand_written_bytes() -> None:
    for layout, (value, data) in ((timer.WHEEL_SLOT, SLOT), (timer.LOG_UNIT, UNIT), (timer.LOG_END, END)):
        assert layout.pack(value) == bytes.fromhex(data)
        assert layout.unpack(bytes.fromhex(data)) == value
    assert UNIT[0].slot_time == 1700000005000


def test_decode_log() -> None:
    unit, end = bytes.fromhex(UNIT[1]), bytes.fromhex(END[1])
    assert timer.decode_log(unit) == UNIT[0]
    assert timer.decode_log(end) == timer.decode_log(end + bytes(90)) == END[0]
    for data in (b"", bytes(64), unit[:51], end[:15], unit[:12] + b"\0\0\0\x10" + unit[16:], b"\0\0\0\x35" + unit[4:]):
        with pytest.raises(FormatError):
            timer.decode_log(data)


def test_decode_log_keeps_to_its_limits() -> None:
    """A unit at byte 3, a file end at byte 55, a unit's beginning at byte 71; nothing behind the limit is looked at."""
    unit = bytes.fromhex(UNIT[1])
    data = b"xyz" + unit + bytes.fromhex(END[1]) + unit[:51]
    for limit in (None, 55, 56, 999):
        assert timer.decode_log(data, 3, limit) == UNIT[0]
    for limit in (None, 71, 999):
        assert timer.decode_log(data, 55, limit) == END[0]
    for at, limit, reason in (
        (3, 54, "neither a timer log unit nor a file end: size 52"),
        (3, 18, "Timer log end needs 16 bytes, 15 are left"),
        (55, 70, "Timer log end needs 16 bytes, 15 are left"),
        (55, 55, "Timer log end needs 16 bytes, 0 are left"),
        (71, None, "neither a timer log unit nor a file end: size 52"),
    ):
        with pytest.raises(FormatError) as caught:
            timer.decode_log(data, at, limit)
        assert (caught.value.reason, caught.value.position) == (reason, at)


def test_what_is_a_unit_and_what_a_file_end() -> None:
    """Upstream: isMagicOK takes the four lowest bits in any combination; a file end has room for its own fields."""
    unit, end = bytes.fromhex(UNIT[1]), bytes.fromhex(END[1])
    for magic in range(16):
        assert timer.decode_log(unit[:12] + magic.to_bytes(4, "big") + unit[16:]).magic == magic
    for bits in ("00000010", "80000000", "ffffffff"):
        with pytest.raises(FormatError, match="position 0: neither .*: size 52$"):
            timer.decode_log(unit[:12] + bytes.fromhex(bits) + unit[16:])
    assert timer.decode_log(bytes.fromhex("00000010") + end[4:]) == timer.TimerLogEnd(16)
    with pytest.raises(FormatError, match="neither .*: size 15$"):
        timer.decode_log(bytes.fromhex("0000000f") + end[4:])


@given(st.binary(max_size=80), st.integers(-1, 81))
def test_random_log_bytes(data: bytes, at: int) -> None:
    try:
        found = timer.decode_log(data, at)
    except FormatError:
        return
    assert found.size in (52, int.from_bytes(data[at : at + 4], "big"))


def test_slot_position() -> None:
    assert timer.slot_position(0) == 0
    assert timer.slot_position(1_209_600_000) == 0
    assert timer.slot_position(1_209_599_999) == timer.WHEEL_SIZE - 32
    assert timer.slot_position(1500, 100) == 15 * 32


def test_check_file() -> None:
    check = timer.TimerCheck(1, 2, 3, 4, 5, 6, -1)
    raw = bytes.fromhex("".join(f"{n:016x}" for n in (1, 2, 3, 4, 5, 6)) + "f" * 16).ljust(4096, b"\0")
    assert timer.encode_check(check) == raw
    assert timer.decode_check(raw) == check
    with pytest.raises(FormatError, match="needs 56 bytes"):
        timer.decode_check(raw[:55])


def golden_units(store: Golden) -> dict[int, timer.LogUnit]:
    """Position -> unit, over all files of the timer log."""
    units = {}
    for start, data in queue_files(store.path / "timerlog").items():
        at = 0
        while isinstance(unit := _decode(data, at), timer.LogUnit):
            units[start + at] = unit
            at += unit.size
        assert unit is None or unit.size == len(data) - at
    return units


def _decode(data: bytes, at: int) -> timer.LogUnit | timer.TimerLogEnd | None:
    try:
        return timer.decode_log(data, at)
    except FormatError:
        return None


def test_golden_log(golden: Callable[[str], Golden]) -> None:
    """Each unit points at a record of the timer topic; its slot is the time that the record asks for."""
    store = golden("timer")
    rows = {row["physical_offset"]: row for row in store.rows}
    units = golden_units(store)
    assert len(units) == sum(row["topic"] == timer.TIMER_TOPIC for row in store.rows)
    for unit in units.values():
        row = rows[unit.physical_offset]
        assert (row["topic"], row["size"]) == (timer.TIMER_TOPIC, unit.record_size)
        assert unit.topic_hash == java_hash(row["properties"]["REAL_TOPIC"])
        if not unit.magic & timer.UNIT_ROLLED:
            assert unit.slot_time == int(row["properties"]["TIMER_OUT_MS"])
        assert unit.magic in (timer.UNIT_ALWAYS, timer.UNIT_ALWAYS | timer.UNIT_ROLLED)


def test_golden_wheel(golden: Callable[[str], Golden]) -> None:
    """Every unit is reached from the slot of its time, newest first, and the counts are right."""
    store = golden("timer")
    units = golden_units(store)
    reached = set()
    with (store.path / "timerwheel").open("rb") as file:
        for time in {unit.slot_time for unit in units.values()}:
            file.seek(timer.slot_position(time))
            slot = timer.WHEEL_SLOT.unpack(file.read(32))
            assert slot.moment == time // 1000 and slot.magic == 0
            chain = []
            position = slot.last_position
            while position != timer.NONE:
                assert units[position].slot_time == time
                chain.append(position)
                position = units[position].previous_position
            assert chain == sorted(chain, reverse=True)
            assert len(chain) == slot.messages and chain[-1] == slot.first_position
            reached.update(chain)
    assert (store.path / "timerwheel").stat().st_size == timer.WHEEL_SIZE
    assert reached == set(units)


def test_golden_check(golden: Callable[[str], Golden]) -> None:
    store = golden("timer")
    check = timer.decode_check((store.path / "config" / "timercheck").read_bytes())
    last = max(golden_units(store))
    assert (check.log_flushed_position, check.queue_offset) == (last + 52, 111)
