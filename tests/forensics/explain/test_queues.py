"""Units of queues, where they lead, and whether what stands there agrees."""

import struct
from pathlib import Path
from typing import Any

import pytest

from flintmq.format import consume_queue_ext
from tests.support.looks import look
from tests.support.makers import flip, patch

LOG = "00000000000000000000"


def queue(store: Path, topic: str = "Orders", queue_id: int = 0) -> Path:
    return store / "consumequeue" / topic / str(queue_id) / LOG


def test_units_lead_to_what_java_has_there(golden) -> None:  # type: ignore[no-untyped-def]
    store = golden("basic")
    rows = [row for row in store.live if (row["topic"], row["queue_id"]) == ("Orders", 0)]
    seen = look(queue(store.path), limit=1000)
    assert [line.value for line in seen.named("unit")] == [row["physical_offset"] for row in rows[:100]]
    for number in (0, 42, 99):
        one = look(queue(store.path), number * 20 + 13)
        assert one.field("physical_offset").value == rows[number]["physical_offset"]
        assert f"Orders/0/{number}" in one.field("physical_offset").text
        assert one.field("size").text == f"{rows[number]['size']}: is the record's size"
        assert one.explained.steps[-1] == f"flintmq get {store.path} Orders 0 {number}"


@pytest.mark.parametrize(
    ("position", "field", "what"),
    [
        (3 * 20 + 7, "physical_offset", "there is no intact record: "),
        (3 * 20 + 11, "size", "where the record's size is "),
        (3 * 20 + 19, "tags_code", "where "),
    ],
)
def test_a_flipped_unit(position: int, field: str, what: str, golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = queue(golden("basic").copy(tmp_path))
    flip(path, position)
    [line] = look(path, 3 * 20).problems
    assert line.name == field and what in (line.problem or "")
    [one] = look(path).problems
    assert one.offset == 60


def test_a_unit_of_another_queue_or_place(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    copy = golden("basic").copy(tmp_path)
    path, other = queue(copy), queue(copy, "Orders", 1)
    unit, moved = other.read_bytes()[:20], path.read_bytes()[100:120]
    patch(path, 0, unit)
    patch(path, 20, moved)
    assert look(path, 0).problems[0].problem == "the record is none of queue Orders/0"
    assert look(path, 20).problems[1].problem == "the record has queue offset 5, the unit is at 1"


def test_zeros_pre_filled_odd_and_a_rest(tmp_path: Path) -> None:
    """No log lies beside: where units lead is not known, and no problem."""
    path = queue(tmp_path)
    path.parent.mkdir(parents=True)
    pre = struct.pack(">qiq", 0, 0x7FFFFFFF, 0)
    path.write_bytes(pre * 3 + struct.pack(">qiq", 100, 200, 0) + struct.pack(">qiq", -1, 5, 0) + bytes(40) + b"abc")
    seen = look(path)
    assert [(line.name, line.length) for line in seen.lines] == [
        ("unit", 20), ("unit", 20), ("unit", 20), ("unit", 20), ("unit", 20), ("zeros", 40), ("rest", 3)
    ]  # fmt: skip
    assert [line.offset for line in seen.problems] == [80, 120 + 20]
    assert "there is no log beside this file" in seen.lines[3].text
    counted = look(path, limit=0)
    assert [(line.name, line.value) for line in counted.lines[:4]] == [
        ("pre-filled", 3), ("units", 1), ("odd", 1), ("zeros", 2)
    ]  # fmt: skip
    assert "points to no record" in look(path, 5).field("size").text
    assert look(path, 142).lines[-1].name == "rest"


def test_tags_codes_of_delayed_messages_are_times(golden) -> None:  # type: ignore[no-untyped-def]
    store = golden("delay")
    [folder] = sorted((store.path / "consumequeue" / "SCHEDULE_TOPIC_XXXX").iterdir())[:1]
    assert "is the time of delivery" in look(folder / LOG, 12).field("tags_code").text


def test_units_with_an_extension(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    copy = golden("cqext").copy(tmp_path)
    path = queue(copy, "Ext")
    text = look(path, 20).field("tags_code").text
    assert "address 20 in the extension, whose unit has tags code" in text and "is the hash of tags" in text
    ext = copy / "consumequeue_ext" / "Ext" / "0" / LOG
    patch(ext, 22, b"\xff")
    assert "in the extension" in look(path, 20).field("tags_code").text and look(path, 20).problems


def test_files_of_the_extension(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    ext = golden("cqext").copy(tmp_path) / "consumequeue_ext" / "Ext" / "0" / LOG
    total = look(ext, limit=10**6)
    units = total.named("unit")
    assert len(units) == 51 and total.field("file end").value == -1
    assert [look(ext, limit=n).field("units").value for n in (0, 10, 50)] == [51, 41, 1]
    middle = look(ext, units[25].offset + 3)
    assert middle.field("store_timestamp").offset == units[25].offset + 10
    assert str(consume_queue_ext.address(units[25].offset)) in middle.field("size").text
    assert [line.unit for line in middle.named("unit")] == ["unit 24", "unit 26", "unit 27"]
    patch(ext, units[30].offset + 18, b"\x7f")  # the bitmap's length contradicts the size
    broken = look(ext)
    assert broken.problems[0].offset == units[30].offset and broken.found["holds"].startswith("30 units")


def test_batch_queues(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store = golden("batch")
    path = store.path / "batchconsumequeue" / "BatchTopic" / "0" / LOG
    rows: list[dict[str, Any]] = [r for r in store.live if (r["topic"], r["queue_id"]) == ("BatchTopic", 0)]
    assert [line.value for line in look(path, limit=1000).named("unit")] == [r["physical_offset"] for r in rows[:50]]
    base = 0
    for number, row in enumerate(rows[:5]):
        seen = look(path, number * 46 + 40)
        assert (seen.field("base_offset").value, seen.problems) == (base, [])
        base += int(row["properties"].get("INNER_NUM", 1))
    copy = store.copy(tmp_path) / "batchconsumequeue" / "BatchTopic" / "0" / LOG
    flip(copy, 46 + 37, 4)
    [line] = look(copy, 46).problems
    assert line.name == "messages" and "where the record's is" in (line.problem or "")
    patch(copy, 0, struct.pack(">qiqqqhii", -1, 0, 0, 0, 0, 0, -1, 0))
    assert look(copy).problems[0].problem == "no unit has such values"
    assert not look(copy, kind="compactioncq", limit=0).problems
