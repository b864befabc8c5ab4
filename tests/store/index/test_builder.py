"""Index files that are only made: the same bytes as those that the engine writes through a map."""

import random
from array import array
from pathlib import Path

import pytest

from flintmq.format import index
from flintmq.store.index import builder
from flintmq.store.index.builder import IndexFileBuilder
from flintmq.store.index.writer import IndexFileWriter, IndexWriter


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder, "WINDOW_ITEMS", 7)
    monkeypatch.setattr(builder, "SLOT_BLOCK", 64)


@pytest.mark.parametrize("keys", [0, 1, 6, 7, 13, 39, 40, 100])
def test_the_files_are_those_of_the_map(tmp_path: Path, keys: int) -> None:
    chance = random.Random(keys)
    hashes = array("i", (chance.randrange(1 << 31) for _ in range(keys)))
    offsets = array("q", (300 * n for n in range(keys)))
    times = array("q", (1_700_000_000_000 + 400 * n for n in range(keys)))
    for name, make in (("map", IndexFileWriter), ("made", IndexFileBuilder)):
        (tmp_path / name).mkdir()
        writer = IndexWriter(str(tmp_path / name), 50, 40, make=make)
        for first in range(0, keys, 9):
            end = min(first + 9, keys)
            writer.insert(hashes[first:end], offsets[first:end], times[first:end], end - first)
            writer.check_invariants()
        writer.finish(300 * keys, 1_700_000_000_000 + 400 * keys)
    files = sorted((tmp_path / "map").iterdir())
    assert [file.name for file in sorted((tmp_path / "made").iterdir())] == [file.name for file in files]
    assert len(files) == keys // 39 + 1  # behind a full file comes one more, for a record without keys
    for file in files:
        assert (tmp_path / "made" / file.name).read_bytes() == file.read_bytes()


def test_slots_that_were_never_used_stay_a_hole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder, "SLOT_BLOCK", 1 << 16)
    path = tmp_path / "20260101000000000"
    file = IndexFileBuilder(str(path), 1 << 20, 100)
    file.insert(array("i", [5]), array("q", [9]), array("q", [1000]), 0, 1)
    file.close()
    assert path.stat().st_size == index.file_size(1 << 20, 100)
    assert path.stat().st_blocks * 512 < 1 << 20  # of 4 MiB
    assert index.HEADER.unpack(path.read_bytes()) == index.Header(1000, 1000, 9, 9, 1, 2)


@pytest.mark.parametrize(
    ("name", "value"), [("count", 0), ("count", 102), ("_first", -1), ("_first", 4), ("items", 1), ("count", 3)]
)
def test_the_invariants_notice_a_broken_builder(tmp_path: Path, name: str, value: int) -> None:
    file = IndexFileBuilder(str(tmp_path / "20260101000000000"), 16, 100)
    file.insert(array("i", [5]), array("q", [9]), array("q", [1000]), 0, 1)
    file.check_invariants()
    setattr(file, name, value)
    with pytest.raises(AssertionError):
        file.check_invariants()


def test_the_invariants_notice_a_window_that_overflows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = IndexFileBuilder(str(tmp_path / "20260101000000000"), 16, 100)
    file.insert(array("i", [5] * 5), array("q", [9] * 5), array("q", [1000] * 5), 0, 5)
    monkeypatch.setattr(builder, "WINDOW_ITEMS", 5)
    with pytest.raises(AssertionError, match="in the window"):
        file.check_invariants()
