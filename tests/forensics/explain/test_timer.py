import os
from pathlib import Path

from flintmq.format import timer
from tests.support.looks import look
from tests.support.makers import flip

LOG = "00000000000000000000"


def test_units_stand_for_timer_messages(golden) -> None:  # type: ignore[no-untyped-def]
    store = golden("timer")
    rows = [row for row in store.live if row["topic"] == timer.TIMER_TOPIC]
    path = store.path / "timerlog" / LOG
    seen = look(path, limit=1000)
    assert [line.value for line in seen.named("unit")] == [row["physical_offset"] for row in rows[:99]]
    assert not seen.problems and seen.found["holds"] == "99 units"
    one = look(path, 52 * 7 + 30)
    row = rows[7]
    assert one.field("record_size").value == row["size"]
    assert one.field("topic_hash").text.endswith(f"is that of {row['properties']['REAL_TOPIC']}")
    assert f"--at {row['physical_offset']}" in one.explained.steps[0]


def test_a_flipped_unit_and_its_neighbours(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = golden("timer").copy(tmp_path) / "timerlog" / LOG
    flip(path, 52 * 4 + 39)
    assert [line.name for line in look(path, 52 * 4).problems] == ["record_size"]
    flip(path, 52 * 4 + 3)
    [line] = [line for line in look(path, 52 * 4).problems if line.name == "size"]
    assert "a size other than 52" in (line.problem or "")
    assert look(path).problems[0].offset == 52 * 4


def test_slots_of_the_wheel(golden) -> None:  # type: ignore[no-untyped-def]
    path = golden("timer").path / "timerwheel"
    slots = look(path, limit=100).named("slot")
    assert len(slots) == 8
    for line in slots:
        assert isinstance(line.value, int) and line.offset == timer.slot_position(line.value * 1000)
    seen = look(path, slots[1].offset + 5)
    assert "Z" in seen.field("moment").text and not seen.problems


def test_a_wheel_slot_in_a_strange_place_and_a_short_wheel(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "timerwheel"
    path.write_bytes(bytes(32) + timer.WHEEL_SLOT.pack(timer.WheelSlot(5, 0, 0, 1)) + bytes(7))
    moved, rest = look(path).problems
    assert moved.problem == "such a moment belongs into slot 5" and rest.name == "rest"
    assert "brokers refuse it" in look(path).found["size"]
    os.truncate(path, 64)
    assert len(look(path).problems) == 1
