"""Parts of a verification: together they find what one run finds, wherever it is cut and whatever is damaged."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq.config import StoreConfig
from flintmq.errors import UnfinishedError, UsageError
from flintmq.forensics import verify as module
from flintmq.forensics import verify_part
from flintmq.forensics.verify import Verification, verify
from flintmq.forensics.verify_part import Part
from tests.compat.stores import Golden
from tests.forensics.makers import config_of, flip, tiny

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
def test_parts_of_damaged_stores_find_what_one_run_finds(
    golden: Callable[[str], Golden], tmp_path: Path, name: str
):
    chance, store = random.Random(name), golden(name)
    config = config_of(store)
    for number in range(6):
        root = store.copy(tmp_path / str(number))
        what = [damage(root, chance) for _ in range(chance.choice([1, 1, 3]))]
        whole = verify(root, config)
        ends = some_ends(chance, whole)
        assert told(in_parts(root, config, tmp_path / "state", ends)) == told(whole), (what, ends)
