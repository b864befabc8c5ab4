"""Index items against keys: both versions' habits, what RocketMQ leaves behind, and damage to every field."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq.forensics.verify.run import Verification, verify
from tests.compat.stores import Golden
from tests.support.makers import IndexMaker, Key, all_keys, config_of, flip, keys_of, patch

SLOTS, ITEMS = 500, 2000
ITEM_1 = 40 + 4 * SLOTS + 20


class Case:
    """A copy of the golden store v540 whose index the test makes."""

    def __init__(self, store: Golden, folder: Path) -> None:
        self.store, self.root = store, store.copy(folder)
        self.rows = store.rows

    def write(self, keys: list[Key], items: int = ITEMS) -> list[Path]:
        return IndexMaker(SLOTS, items).put(keys).write(self.root)

    def verify(self, items: int = ITEMS) -> Verification:
        return verify(self.root, config_of(self.store).with_keys({"maxIndexNum": items}))

    def is_sound(self, *notes: str, items: int = ITEMS) -> bool:
        found = self.verify(items)
        assert found.defects == []
        return set(found.note_counts) == {"not-checked", *notes}

    def defects(self, items: int = ITEMS) -> dict[str, int]:
        return self.verify(items).defect_counts


@pytest.fixture
def case(golden: Callable[[str], Golden], tmp_path: Path) -> Case:
    return Case(golden("v540"), tmp_path)


def test_the_maker_makes_what_java_made(golden: Callable[[str], Golden]):
    for name, tags in (("v540", True), ("basic", False), ("flags", False), ("timer", False)):
        made = IndexMaker(SLOTS, ITEMS).put(all_keys(golden(name).rows, tags))
        theirs = [path.read_bytes() for path in sorted((golden(name).path / "index").iterdir())]
        assert list(made.contents()) == theirs


@pytest.mark.parametrize("tags", [False, True], ids=["5.3.3", "5.4.0"])
@pytest.mark.parametrize("items", [2000, 300, 7])
def test_either_habit_over_files_of_any_size(case: Case, tags: bool, items: int):
    paths = case.write(all_keys(case.rows, tags), items)
    found = case.verify(items)
    assert (found.defects, set(found.note_counts)) == ([], {"not-checked"})
    assert (found.index_files, found.index_items) == (len(paths), len(all_keys(case.rows, tags)))


def test_both_habits_within_one_file(case: Case):
    rows = case.rows
    case.write(all_keys(rows[:100]) + all_keys(rows[100:250], True) + all_keys(rows[250:]))
    assert case.is_sound()
    case.write([key for n, row in enumerate(rows) for key in keys_of(row, n % 2 == 0)])
    assert case.is_sound()


def test_a_record_entered_twice(case: Case):
    rows = case.rows
    row = next(row for row in rows[200:] if len(keys_of(row, False)) > 2)
    at = rows.index(row)
    before, again, behind = all_keys(rows[:at]), keys_of(row, False), all_keys(rows[at + 1 :])
    case.write(before + again + again + behind)
    assert case.is_sound("index-doubled")
    case.write(before + again[:1] + again + behind)  # the first time only in part
    assert case.is_sound("index-doubled")
    with_tags = keys_of(row, True)
    case.write(all_keys(rows[:at], True) + with_tags + with_tags + all_keys(rows[at + 1 :], True))
    assert case.is_sound("index-doubled")
    case.write(before + again + behind + keys_of(rows[-1], False))  # the log's last record
    assert case.is_sound("index-doubled")


def test_a_stretch_between_files_is_a_note(case: Case):
    rows = case.rows
    maker = IndexMaker(SLOTS, ITEMS).put(all_keys(rows[:100])).new_file().put(all_keys(rows[200:]))
    maker.write(case.root)
    found = case.verify()
    assert (found.defects, set(found.note_counts)) == ([], {"not-checked", "index-uncovered"})
    first, last = all_keys(rows[100:200])[0][1], all_keys(rows[100:200])[-1][1]
    missing = len(all_keys(rows[100:200]))
    assert f"log offsets {first} to {last}: {missing} keys without an item" in [note.text for note in found.notes]


def test_stretches_before_the_first_file_and_behind_the_last_are_notes(case: Case):
    case.write(all_keys(case.rows[50:]))
    assert case.is_sound("index-uncovered")
    case.write(all_keys(case.rows[:400]))
    assert case.is_sound("index-uncovered")
    (case.root / "abort").touch()
    assert case.is_sound("index-pending", "abort")


def test_a_full_file_may_end_within_a_record_whose_rest_is_gone(case: Case):
    keys = all_keys(case.rows)
    split = next(n for n in range(300, 900) if keys[n][1] == keys[n - 1][1])  # within a record
    rest = [key for key in keys[split:] if key[1] > keys[split + 200][1]]
    maker = IndexMaker(SLOTS, split + 1).put(keys[:split]).new_file().put(rest)
    maker.write(case.root)
    assert case.is_sound("index-uncovered", items=split + 1)
    maker = IndexMaker(SLOTS, split + 1).put(keys[:split])
    maker.write(case.root)
    assert case.is_sound("index-uncovered", items=split + 1)
    # Not full, it has a hole at its end.
    IndexMaker(SLOTS, ITEMS).put(keys[:split]).write(case.root)
    assert case.defects() == {"index-missing": 1}
    (case.root / "abort").touch()
    assert case.is_sound("index-pending", "abort")


def test_holes_within_what_the_index_covers_are_defects(case: Case):
    keys = all_keys(case.rows)
    case.write(keys[:500] + keys[501:])
    assert case.defects() == {"index-missing": 1}
    case.write([key for key in keys if not 30_000 < key[1] < 40_000])
    found = case.defects()
    gone = {key[1] for key in keys if 30_000 < key[1] < 40_000}
    assert found == {"index-missing": len(gone)}


def test_items_of_nothing_are_defects(case: Case):
    keys = all_keys(case.rows)
    hash_, offset, time = keys[700]
    for extra in ((hash_, offset + 1, time), (12345, offset, time), (hash_, 10**9, time), (7, 0, time)):
        case.write([*keys[:700], extra, *keys[700:]])
        assert set(case.defects()) & {"index-extra", "index-wrong"}
    case.write(keys[:700] + [(0, 0, 0)] * 30 + keys[700:])
    assert "index-extra" in case.defects()


def test_items_behind_the_log_are_a_note(case: Case):
    keys = all_keys(case.rows)
    last = keys[-1][2]
    case.write(keys + [(5, 10**6, last), (6, 10**6 + 500, last)])
    assert case.is_sound("index-ghost")


def test_items_of_damaged_records_are_told_with_the_damage(case: Case):
    row = next(row for row in case.rows[200:] if keys_of(row, False) and row["body_length"])
    path = case.root / "commitlog" / f"{0:020}"
    flip(path, row["physical_offset"] + 88)
    case.write(all_keys(case.rows))
    found = case.verify()
    assert found.defect_counts == {"record-damaged": 1}
    assert set(found.note_counts) == {"not-checked", "units-lost", "index-lost"}


FIELDS = {"hash": 0, "offset": 4, "seconds": 12, "previous": 16}


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("number", [1, 2, 700, 1431])
def test_every_field_of_an_item_is_compared(case: Case, field: str, number: int):
    (path,) = case.write(all_keys(case.rows, True))
    width = 8 if field == "offset" else 4
    for at in range(width):
        flip(path, ITEM_1 + 20 * (number - 1) + FIELDS[field] + at, 0x10)
        free = field == "seconds" and number == 1  # the first one counts from a file that is not known
        assert bool(case.defects()) != free, at
        flip(path, ITEM_1 + 20 * (number - 1) + FIELDS[field] + at, 0x10)


@pytest.mark.parametrize("field", range(0, 40, 4))
def test_every_field_of_the_header_is_compared(case: Case, field: int):
    (path,) = case.write(all_keys(case.rows, True))
    for at in range(4):
        flip(path, field + at, 0x10)
        assert case.defects(), at
        flip(path, field + at, 0x10)


def test_the_seconds_of_a_new_file_count_from_the_one_before(case: Case):
    paths = case.write(all_keys(case.rows), 300)
    flip(paths[2], 40 + 4 * SLOTS + 20 + 15)
    assert case.defects(300) == {"index-wrong": 1}


def test_slots_must_lead_to_their_newest_items(case: Case):
    (path,) = case.write(all_keys(case.rows, True))
    data = path.read_bytes()
    used = next(slot for slot in range(SLOTS) if struct.unpack_from(">i", data, 40 + 4 * slot)[0] > 1)
    for value in (0, 1, -1, 1431, 10**6):
        patch(path, 40 + 4 * used, struct.pack(">i", value))
        assert case.defects() == {"index-slot": 1}
        patch(path, 40 + 4 * used, data[40 + 4 * used : 44 + 4 * used])


def test_a_slot_set_before_its_item_was_counted(case: Case):
    """The process was killed between two stores; the next start takes the slot as empty."""
    (case.root / "abort").touch()
    keys = all_keys(case.rows)
    whole = next(iter(IndexMaker(SLOTS, ITEMS).put(keys).contents()))
    (path,) = case.write(keys[:-1])
    patch(path, 40, whole[40 : 40 + 4 * SLOTS])
    patch(path, ITEM_1 + 20 * (len(keys) - 1), whole[ITEM_1 + 20 * (len(keys) - 1) :][:20])
    assert case.defects() == {}
    (case.root / "abort").unlink()
    assert set(case.defects()) == {"index-slot", "index-missing"}


@pytest.mark.parametrize("previous", [0, 1, 3, -1], ids=["broken", "another chain", "itself", "later"])
def test_chains_that_loop_or_climb_end(case: Case, previous: int):
    (path,) = case.write(all_keys(case.rows, True))
    for number in range(1, 1432):
        value = number - (previous - 3) if previous > 0 else 10**6 * -previous
        patch(path, ITEM_1 + 20 * (number - 1) + 16, struct.pack(">i", value))
    found = case.verify()
    assert found.exit_code == 1
    assert found.defect_counts["index-chain"] <= 1001  # after a thousand of them the file is given up
    assert "not-checked" in found.note_counts


def test_an_index_that_is_given_up_does_not_hide_the_next_file(case: Case):
    keys = all_keys(case.rows)
    paths = case.write(keys, 1050)
    assert len(paths) == 2
    patch(paths[0], ITEM_1, b"\x11" * 20 * 1049)
    found = case.verify(1050)
    assert found.defect_counts.keys() <= {"index-wrong", "index-extra", "index-chain", "index-missing", "index-header"}
    flip(paths[1], ITEM_1)
    assert case.verify(1050).defect_count > found.defect_count


def test_expired_items_must_still_be_chained(golden: Callable[[str], Golden], tmp_path: Path):
    store, root = golden("rolled"), golden("rolled").copy(tmp_path)
    first = min((root / "index").iterdir())
    for at in (0, 4, 12, 16):
        flip(first, 40 + 4 * 50 + 20 * 20 + at, 0x80)
        assert verify(root, config_of(store)).exit_code == 1, at
        flip(first, 40 + 4 * 50 + 20 * 20 + at, 0x80)


def test_keys_are_those_that_java_decodes(golden: Callable[[str], Golden]):
    """Odd property strings, text that is not ASCII, doubled keys: the slow way and the kernel see the same keys."""
    found: dict[str, Any] = {}
    for name in ("flags", "flags540", "config", "config540", "flags550", "config550"):
        verification = verify(golden(name).path, config_of(golden(name)))
        found[name] = verification.index_items
        assert verification.exit_code == 0
    expected = {name: len(all_keys(golden(name).rows, golden(name).peer != "5.3.3")) for name in found}
    assert found == expected
