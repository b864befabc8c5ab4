"""Parquet tables that lost the directory of an export, or have one twice: readers stop, and say which."""

import shutil
from itertools import islice
from pathlib import Path

import pytest

from flintmq import Message, dataset, scan_arrow
from flintmq.cli import app
from flintmq.errors import StoreAccessError
from flintmq.lake.files.table_format import absent_exports, exports_in
from flintmq.lake.history.diff_table import compare_table
from tests.support.engine import put_messages
from tests.support.exporting import Export, once

ADVICE = "put it back from a copy, or export anew into another directory"


@pytest.fixture
def table(tmp_path: Path, make: Export) -> Path:
    """A table of four exports of five messages each; two more are in the log."""
    store, out = tmp_path / "store", tmp_path / "out"
    for first in range(0, 20, 5):
        put(store, first, first + 5)
        assert make(store, out).number == first // 5 + 1
    put(store, 20, 22)
    return out


def put(store: Path, begin: int, end: int) -> None:
    put_messages(store, (Message("T", b"%d" % number) for number in range(begin, end)))


@pytest.mark.parametrize("number", [1, 2, 3])
def test_readers_name_the_first_that_is_missing(table: Path, tmp_path: Path, number: int) -> None:
    store, lost = tmp_path / "store", table / f"export={number}"
    assert scan_arrow(store, history=table).read_all().num_rows == 22
    shutil.rmtree(lost)
    said = f"{lost}: this directory of the table {table} is missing, so rows are; {ADVICE}"
    for strict in (True, False):
        with pytest.raises(StoreAccessError) as caught:
            scan_arrow(store, history=table, strict=strict).read_all()
        assert str(caught.value) == said
    with pytest.raises(StoreAccessError) as caught:
        dataset(store, history=table).count_rows()
    assert str(caught.value) == said


def test_the_newest_is_exported_again(table: Path, tmp_path: Path, make: Export) -> None:
    store = tmp_path / "store"
    shutil.rmtree(table / "export=4")
    assert scan_arrow(store, history=table).read_all().num_rows == 22
    done = make(store, table)
    assert (done.number, done.rows) == (4, 7)
    assert compare_table(str(store), str(table)).equal


def test_a_comparison_lists_its_messages(table: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    store, lost = tmp_path / "store", table / "export=2"
    shutil.rmtree(lost)
    found = compare_table(str(store), str(table))
    assert (found.messages, found.rows, found.lost_files, found.waiting) == (20, 15, 1, 2)
    assert {str(kind): count for kind, count in found.differences.counts.items()} == {"only-in-a": 5}
    assert found.notes == [f"{lost}: this directory of the table {table} is missing, so rows are; {ADVICE}"]
    assert not found.equal
    assert app.run(["diff", str(store), str(table)]) == 1
    assert "1 missing files of the table" in capfd.readouterr().out


@pytest.mark.parametrize("numbers", [[1], [2, 3]])
def test_the_next_export_notes_it(table: Path, tmp_path: Path, make: Export, numbers: list[int]) -> None:
    """Also where there is nothing new: a nightly export is to fail until somebody has looked."""
    store, out = tmp_path / "store", table
    for number in numbers:
        shutil.rmtree(out / f"export={number}")
    text = f"{out}/export={numbers[0]}: this directory of the table {out} is missing, so rows are; {ADVICE}"
    for rows in (2, 0):
        done = make(store, out)
        assert (done.rows, done.exit_code) == (rows, 1)
        assert (done.notes, done.note_texts) == ({"missing_exports": len(numbers)}, {"missing_exports": [text]})


def test_the_command_notes_it(table: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], make: Export) -> None:
    follow = ["--follow", "--once"] if make is once else []
    command = ["export", str(tmp_path / "store"), "--out", str(table), *follow]
    assert app.run(command) == 0
    for number in (2, 3):
        shutil.rmtree(table / f"export={number}")
    capfd.readouterr()
    assert app.run(command) == 1
    shown = capfd.readouterr().out
    assert f"note     missing-exports: {table}/export=2: this directory of the table" in shown
    assert "note     missing-exports: 2 in all" in shown


@pytest.mark.parametrize("to", ["delta", "iceberg"])
def test_formats_with_a_list_of_files_note_nothing(tmp_path: Path, make: Export, to: str) -> None:
    for first in (0, 5):
        put(tmp_path / "store", first, first + 5)
        done = make(tmp_path / "store", tmp_path / "out", to=to)
        assert (done.notes, done.exit_code) == ({}, 0)


def test_a_directory_and_a_file_are_counted_together(table: Path, tmp_path: Path) -> None:
    shutil.rmtree(table / "export=2")
    next((table / "export=3").rglob("*.parquet")).unlink()
    found = compare_table(str(tmp_path / "store"), str(table))
    assert (found.rows, found.lost_files) == (10, 2)
    assert "(and 1 others): this " in found.notes[0]


def test_each_directory_is_counted(table: Path, tmp_path: Path) -> None:
    for number in (1, 3):
        shutil.rmtree(table / f"export={number}")
    found = compare_table(str(tmp_path / "store"), str(table))
    assert (found.messages, found.rows, found.lost_files) == (20, 10, 2)
    assert {str(kind): count for kind, count in found.differences.counts.items()} == {"only-in-a": 10}
    assert found.notes == [
        f"{table / 'export=1'} (and 1 others): this directory of the table {table} is missing, so rows are; {ADVICE}"
    ]


def test_a_comparison_goes_on_without_so_many(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flintmq.lake.table.parquet_target.MOST_LOST", 1)
    monkeypatch.setattr("flintmq.lake.table.table_rows.MOST_LOST", 1)
    shutil.rmtree(table / "export=1")
    assert compare_table(str(tmp_path / "store"), str(table)).lost_files == 1
    shutil.rmtree(table / "export=3")
    with pytest.raises(StoreAccessError, match=f"{table}/export=3: this directory of the table"):
        compare_table(str(tmp_path / "store"), str(table))


def test_a_copy_of_an_export_is_no_other_export(table: Path, tmp_path: Path, make: Export) -> None:
    """Its rows would count twice, and the next export could not be published."""
    store, copy = tmp_path / "store", table / "export=5"
    shutil.copytree(table / "export=4", copy)
    said = f"{copy}: by its manifest a copy of export=4; rows would count twice: remove it, or give it the name"
    for read in (
        lambda: scan_arrow(store, history=table).read_all(),
        lambda: compare_table(str(store), str(table)),
        lambda: make(store, table),
    ):
        with pytest.raises(StoreAccessError) as caught:
            read()
        assert said in str(caught.value)
    shutil.rmtree(copy)
    assert make(store, table).rows == 2


@pytest.mark.parametrize(
    ("names", "numbers", "absent"),
    [
        ([], [], []),
        (["export=1", "_staging", "_flintmq.lock", "export=2"], [1, 2], []),
        (["export=7", "export=6", "export=4"], [4, 6, 7], [1, 2, 3, 5]),
        (["export=1", "export=999999999"], [1, 999999999], [2, 3, 4, 5]),
        (["export=1", "export=01", "export=1x", "export=-1"], [1], []),
    ],
)
def test_numbers(names: list[str], numbers: list[int], absent: list[int]) -> None:
    assert exports_in(names) == numbers
    assert list(islice(absent_exports(numbers), 4)) == absent
