"""Index files: header, slots, items, chains, and keys of the records."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from flintmq.config.keys import from_settings
from flintmq.format import index
from tests.support.looks import look
from tests.support.makers import flip

SLOTS = 500


def first(store: Path) -> Path:
    return sorted((store / "index").iterdir())[0]


def test_items_are_keys_of_what_java_has_there(golden) -> None:  # type: ignore[no-untyped-def]
    """5.3.3 enters UNIQ_KEY, then each of KEYS, record after record."""
    store = golden("basic")
    keys: list[tuple[int, str]] = []
    for row in store.live[:100]:
        mine = [*filter(None, [row["msg_id"]]), *(key for key in (row["keys"] or "").split(" ") if key)]
        keys += [(row["physical_offset"], f"{row['topic']}#{key}") for key in mine]
    path = first(store.path)
    for number in (1, 2, 77, 150):
        seen = look(path, index.item_position(number, SLOTS) + 9)
        offset, key = keys[number - 1]
        assert seen.field("physical_offset").value == offset and f"key {key}, slot " in seen.field("key_hash").text
    listed = look(path, limit=20).named("item")
    assert [(line.value, key in line.text) for line, (_, key) in zip(listed, keys, strict=False)] == [
        (offset, True) for offset, _ in keys[:20]
    ]


def test_a_slot_with_its_chain(golden) -> None:  # type: ignore[no-untyped-def]
    path = first(golden("basic").path)
    with path.open("rb") as file:
        data = file.read()
    slot = 256
    number = index.SLOT.unpack(data, index.slot_position(slot)).item
    chain = []
    while number:
        item = index.ITEM.unpack(data, index.item_position(number, SLOTS))
        assert item.key_hash % SLOTS == slot
        chain.append(f"item {number} (hash {item.key_hash}, log offset {item.physical_offset})")
        number = item.previous
    seen = look(path, index.slot_position(slot) + 2)
    assert seen.found["chain"].removesuffix(", and so on") == " -> ".join(chain[:8])
    assert seen.field("item").text.startswith(f"{index.SLOT.unpack(data, index.slot_position(slot)).item}: item ")


@pytest.mark.parametrize(
    ("inside", "field", "what"),
    [(3, "key_hash", "no key of the record there has this hash"), (0, "key_hash", "not negative"),
     (11, "physical_offset", "there is no intact record"), (16, "previous", "not older")],
)  # fmt: skip
def test_a_flipped_item(inside: int, field: str, what: str, golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = first(golden("basic").copy(tmp_path))
    at = index.item_position(40, SLOTS)
    flip(path, at + inside, 0x80 if inside == 0 else 0x40)
    problems = {line.name: line.problem or "" for line in look(path, at).problems}
    assert what in problems[field], problems


def test_a_slot_beyond_the_newest_item(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = first(golden("basic").copy(tmp_path))
    flip(path, index.slot_position(3), 0x10)
    [line] = look(path, index.slot_position(3)).problems
    assert line.problem == "beyond the newest item, 1999; readers take it for none"


def test_an_index_that_cannot_be_divided(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    copy: Any = golden("basic").copy(tmp_path)
    path = first(copy)
    os.truncate(path, 30000)
    [line] = look(path).problems
    assert (line.name, line.offset) == ("slots and items", 40) and "give maxHashSlotNum and maxIndexNum" in str(
        line.problem
    )
    keys = from_settings(["maxHashSlotNum=500", "maxIndexNum=2000"])
    assert look(path, config=keys).named("slot")
    short = tmp_path / "20261120093620561"
    shutil.copy(path, short)
    os.truncate(short, 20)
    assert "begin_physical_offset needs 8 bytes, 4 are left" in str(look(short, kind="index").problems[-1].problem)
