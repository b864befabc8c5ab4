"""The raw places of a queue: gaps, overlaps, holes, strange files."""

import os
from pathlib import Path

import pytest

from flintmq.errors import StoreAccessError
from flintmq.forensics.verify.findings import Findings
from flintmq.forensics.verify.queue_files import Disk, UnitFiles, UnitSpan
from flintmq.storage.files.filesystem import REAL

WIDTH = 20


def unit(number: int) -> bytes:
    return bytes([number % 250 + 1]) * WIDTH


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kind" / "T" / "0").mkdir(parents=True)
    return tmp_path / "kind" / "T" / "0"


def units(folder: Path, first: int, count: int = 5, name: str = "") -> Path:
    path = folder / (name or f"{first * WIDTH:020}")
    path.write_bytes(b"".join(unit(first + n) for n in range(count)))
    return path


def open_files(folder: Path, size: int = 100, counted: bool = False) -> tuple[UnitFiles, Findings]:
    found = Findings()
    return UnitFiles(str(folder), str(folder.parents[1]), WIDTH, size, counted, Disk(REAL), found), found


def test_files_form_one_sequence(folder: Path):
    units(folder, 10), units(folder, 15)
    files, found = open_files(folder)
    assert (files.first, files.end, found.defect_count) == (10, 20, 0)
    assert files.read(12, 6) == b"".join(map(unit, range(12, 18)))
    assert files.one(19) == unit(19)
    assert files.place(16) == (str(folder / f"{300:020}"), 20)


def test_places_without_a_file_are_zeros(folder: Path):
    units(folder, 10), units(folder, 20)
    files, found = open_files(folder)
    assert found.defect_counts == {"queue-gap": 1}
    assert files.read(8, 4) == bytes(40) + unit(10) + unit(11)
    assert files.read(14, 7) == unit(14) + bytes(100) + unit(20)
    assert files.read(24, 3) == unit(24) + bytes(40)
    assert files.one(-5) == files.one(10**15) == bytes(20)
    assert files.place(17) == (str(folder), None)


def test_missing_directory(tmp_path: Path):
    files, found = open_files(tmp_path / "kind" / "T" / "0")
    assert (files.spans, files.first, files.end, found.defect_count) == ((), 0, 0, 0)
    assert files.read(0, 2) == bytes(40)


def test_wrong_sizes_and_names(folder: Path):
    units(folder, 0)
    units(folder, 5, 4)  # a file cut short
    units(folder, 10)
    (folder / "notes.txt").write_text("hello")
    units(folder, 0, name=f"{207:020}")  # no multiple of a unit
    (folder / f"{300:020}").mkdir()
    files, found = open_files(folder)
    assert found.defect_counts == {
        "queue-file-size": 1, "queue-gap": 1, "queue-file-unreadable": 1, "stray-file": 1,
    }  # fmt: skip
    assert files.spans[1] == UnitSpan(5, 9, str(folder / f"{100:020}"))


def test_an_empty_last_file_is_a_note(folder: Path):
    units(folder, 0)
    (folder / f"{100:020}").touch()
    files, found = open_files(folder)
    assert (found.defect_count, found.note_counts, files.end) == (0, {"empty-file": 1}, 5)


def test_overlapping_files_do_not_count_twice(folder: Path):
    units(folder, 0, 5), units(folder, 3, 5)
    files, found = open_files(folder)
    assert found.defect_counts == {"queue-gap": 1}
    assert [(span.first, span.stop) for span in files.spans] == [(0, 3), (3, 8)]
    assert files.read(0, 8) == b"".join(map(unit, range(8)))


def test_counted_units_ignore_names(folder: Path):
    (folder / f"{0:020}").write_bytes(unit(0) + unit(1) + b"rest")
    (folder / f"{44:020}").write_bytes(unit(2) + unit(3) + b"rest")
    files, found = open_files(folder, 44, counted=True)
    assert (files.end, found.defect_count) == (4, 0)
    assert files.read(0, 4) == b"".join(map(unit, range(4)))


def test_blocks_step_over_holes(folder: Path):
    path = folder / f"{0:020}"
    with path.open("wb") as file:
        file.write(unit(0))
        file.seek(4_000_000 - WIDTH)
        file.write(unit(7))
    files, _ = open_files(folder, 4_000_000)
    blocks = list(files.blocks(0, files.end))
    assert blocks[0][1][:WIDTH] == unit(0)
    assert blocks[-1][1][-WIDTH:] == unit(7)
    assert [number for number, data in blocks if any(data)] == [blocks[0][0], blocks[-1][0]]
    assert list(files.blocks(5, 5)) == []


def test_an_unreadable_file_is_told_once(folder: Path):
    path = units(folder, 0)
    files, found = open_files(folder)
    path.unlink()
    os.mkfifo(path)
    assert files.read(0, 5) == bytes(100)
    assert files.read(1, 2) == bytes(40)
    assert list(files.blocks(0, 5)) == [(0, b"")]
    assert found.defect_counts == {"queue-file-unreadable": 1}


def test_a_vanished_file_is_zeros(folder: Path):
    path = units(folder, 0)
    files, found = open_files(folder)
    path.unlink()
    assert files.read(0, 5) == bytes(100)
    assert found.defect_count == 0


def test_the_disk_keeps_few_descriptors(tmp_path: Path):
    disk = Disk(REAL, limit=3)
    paths = [tmp_path / str(number) for number in range(6)]
    for number, path in enumerate(paths):
        path.write_bytes(bytes([number]) * 10)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(3):
        for number, path in enumerate(paths):
            assert disk.pread(str(path), str(tmp_path), 4, 8) == bytes([number]) * 2
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before + 3
    disk.close()
    (tmp_path / "link").symlink_to(paths[0])
    with pytest.raises(StoreAccessError):
        disk.pread(str(tmp_path / "link"), str(tmp_path), 1, 0)
    assert disk.pread(str(tmp_path / "none"), str(tmp_path), 1, 0) == b""
    assert disk.next_data(str(tmp_path / "none"), str(tmp_path), 0) is None
