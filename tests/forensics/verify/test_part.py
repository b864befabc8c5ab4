"""Parts of a verification: together they find what one run finds, wherever it is cut and whatever is damaged."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.errors import UnfinishedError, UsageError
from flintmq.forensics.verify import run as module
from flintmq.forensics.verify.part import Part
from flintmq.forensics.verify.run import Verification, verify
from tests.compat.stores import Golden
from tests.support.makers import config_of, flip

KINDS = ("commitlog", "consumequeue", "consumequeue_ext", "batchconsumequeue", "index", "checkpoint", "config")


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is looked at in blocks of 4 KiB, so that small stores have many places to stop at."""
    monkeypatch.setattr(module, "PIECE_BYTES", 4096)


def told(found: Verification) -> tuple[Any, ...]:
    """All that a verification tells, without the order of findings."""
    numbers = (found.clean, found.records, found.log_begin, found.log_end, found.ending, found.queues, found.units)
    counts = (found.index_files, found.index_items, found.defect_counts, found.note_counts)
    return numbers, counts, Counter(found.defects), Counter(found.notes)


def in_parts(root: Path, config: StoreConfig, state: Path, ends: list[int]) -> Verification:
    """Verify up to each of these log offsets, one run after the other, and at last to the end."""
    for end in ends:
        found = verify(root, config, part=Part(end=end, resume=state))
        if found.stopped is None:
            return found
        assert (found.stopped, found.part_end >= end, state.exists()) == ("end", True, True)
    found = verify(root, config, part=Part(resume=state))
    assert (found.stopped, state.exists()) == (None, False)
    return found


def some_ends(chance: random.Random, found: Verification, most: int = 5) -> list[int]:
    """Places to cut a log at."""
    span = range(found.log_begin + 1, max(found.log_end, found.log_begin + 2))
    return sorted(chance.choice(span) for _ in range(chance.randint(1, most)))


def test_parts_of_every_store_find_what_one_run_finds(golden_store: Golden, tmp_path: Path):
    chance, config = random.Random(golden_store.name), config_of(golden_store)
    whole = verify(golden_store.path, config)
    for _ in range(3):
        ends = some_ends(chance, whole)
        assert told(in_parts(golden_store.path, config, tmp_path / "state", ends)) == told(whole), ends


def damage(root: Path, chance: random.Random) -> str:
    """Change one place of a store; tells which."""
    files = [file for kind in KINDS for file in (root / kind, *(root / kind).rglob("*")) if file.is_file()]
    file = chance.choice([file for file in files if any(file.read_bytes())])
    data = bytearray(file.read_bytes())
    at = chance.choice([at for at, byte in enumerate(data) if byte])
    how = chance.choice(["flip", "zero", "copy", "cut", "gone"])
    if how == "flip":
        data[at] ^= 1 << chance.randrange(8)
    elif how == "zero":
        data[at : at + 200] = bytes(len(data[at : at + 200]))
    elif how == "copy":
        data[at : at + 400] = data[: len(data[at : at + 400])]
    elif how == "cut":
        data = data[:at]
    file.write_bytes(data)
    if how == "gone":
        file.unlink()
    return f"{how} {file} {at}"


@pytest.mark.parametrize("name", ["basic", "poison", "rolled", "cqext", "batch", "lmq", "delay", "crash"])
def test_parts_of_damaged_stores_find_what_one_run_finds(golden: Callable[[str], Golden], tmp_path: Path, name: str):
    chance, store = random.Random(name), golden(name)
    config = config_of(store)
    for number in range(6):
        root = store.copy(tmp_path / str(number))
        what = [damage(root, chance) for _ in range(chance.choice([1, 1, 3]))]
        whole = verify(root, config)
        ends = some_ends(chance, whole)
        assert told(in_parts(root, config, tmp_path / "state", ends)) == told(whole), (what, ends)


def test_a_part_without_a_state_judges_its_own_records(golden: Callable[[str], Golden], tmp_path: Path):
    """Of two damaged records and two damaged units, a part tells those that lie in it, and nothing else."""
    store, root = golden("basic"), golden("basic").copy(tmp_path)
    rows = [row for row in store.rows if row["body_length"] > 20]
    early, late = rows[200], rows[-200]
    for row in (early, late):
        file = root / "commitlog" / f"{row['physical_offset'] // 131_072 * 131_072:020}"
        flip(file, row["physical_offset"] % 131_072 + 92)
        other = rows[rows.index(row) + 5]
        queue = root / "consumequeue" / other["topic"] / str(other["queue_id"])
        size = min(file.stat().st_size for file in queue.iterdir())
        name, position = divmod(other["queue_offset"] * 20, size)
        flip(queue / f"{name * size:020}", position + 11)
    config, middle = config_of(store), rows[len(rows) // 2]["physical_offset"]
    whole = verify(root, config)
    first = verify(root, config, part=Part(end=middle))
    last = verify(root, config, part=Part(begin=first.part_end))
    assert whole.defect_counts == {"record-damaged": 2, "unit-wrong": 2}
    assert first.defect_counts == last.defect_counts == {"record-damaged": 1, "unit-wrong": 1}
    assert Counter(first.defects) + Counter(last.defects) == Counter(whole.defects)
    assert (first.records + last.records, last.part_begin) == (whole.records, first.part_end)
    assert {note.code for note in [*first.notes, *last.notes]} <= {"units-lost", "index-lost"}


def test_no_part_of_a_sound_store_has_a_defect(golden_store: Golden):
    config, chance = config_of(golden_store), random.Random(golden_store.name)
    whole = verify(golden_store.path, config)
    if whole.defect_count:  # `poison`: RocketMQ's own defects
        return
    for _ in range(3):
        begin = chance.randrange(whole.log_begin, max(whole.log_end - 2000, whole.log_begin + 1))
        end = chance.choice([None, begin + 5000])
        assert verify(golden_store.path, config, part=Part(begin=begin, end=end)).defects == [], (begin, end)


def test_the_time_is_kept_and_always_some_of_the_log_is_done(golden: Callable[[str], Golden], tmp_path: Path):
    store, config = golden("basic"), config_of(golden("basic"))
    part, seen = Part(max_seconds=1e-9, resume=tmp_path / "state"), [0]
    while (found := verify(store.path, config, part=part)).stopped == "time":
        assert found.exit_code == UnfinishedError.exit_code and found.ending == "unseen"
        assert found.part_end > seen[-1]
        seen.append(found.part_end)
    assert told(found) == told(verify(store.path, config))
    assert len(seen) > 100


def test_a_run_that_is_killed_goes_on_from_what_was_saved(
    golden: Callable[[str], Golden], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store, config, state = golden("batch"), config_of(golden("batch")), tmp_path / "state"
    monkeypatch.setattr(module, "SAVE_SECONDS", 0.0)

    def progress(done: int, total: int) -> None:
        if done > 20_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        verify(store.path, config, progress, part=Part(resume=state))
    assert state.exists()
    assert told(verify(store.path, config, part=Part(resume=state))) == told(verify(store.path, config))


def test_a_state_of_another_log_or_of_one_that_was_cut_is_refused(golden: Callable[[str], Golden], tmp_path: Path):
    store, config, state = golden("basic"), config_of(golden("basic")), tmp_path / "state"
    root = store.copy(tmp_path / "store")
    verify(root, config, part=Part(end=300_000, resume=state))
    saved = state.read_bytes()
    cut = root / "commitlog" / f"{262_144:020}"
    whole = cut.read_bytes()
    cut.write_bytes(whole[:20_000].ljust(len(whole), b"\0"))
    with pytest.raises(UsageError, match="this is another log, or it was truncated"):
        verify(root, config, part=Part(resume=state))
    cut.write_bytes(whole)
    with pytest.raises(UsageError, match="leave --from out"):
        verify(root, config, part=Part(begin=400_000, resume=state))
    shutil.rmtree(root / "index")
    with pytest.raises(UsageError, match="do not fit the store"):
        verify(root, config, part=Part(resume=state))
    assert state.read_bytes() == saved


@pytest.mark.parametrize("wrong", [{"begin": -1}, {"end": 0}, {"begin": 5, "end": 5}, {"max_seconds": 0}])
def test_numbers_that_cannot_be(wrong: dict[str, Any]):
    with pytest.raises(UsageError):
        Part(**wrong)


def test_a_begin_behind_the_log(golden: Callable[[str], Golden]):
    with pytest.raises(UsageError, match="there is no intact record there or later"):
        verify(golden("basic").path, part=Part(begin=10_000_000))
