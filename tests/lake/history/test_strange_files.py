"""Parquet tables with a file that no export made, or another file than the one that an export wrote."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from flintmq import Message, dataset, scan_arrow
from flintmq.cli import app
from flintmq.errors import StoreAccessError, UsageError
from flintmq.lake.history.diff_table import compare_table
from flintmq.lake.table import parquet_target
from tests.support.engine import put_messages
from tests.support.exporting import Export


@pytest.fixture
def table(tmp_path: Path, make: Export) -> Path:
    """A table of two exports, each of 4 messages of A and 2 of B."""
    for _ in range(2):
        put(tmp_path / "store")
        assert make(tmp_path / "store", tmp_path / "out").rows == 6
    return tmp_path / "out"


def put(store: Path) -> None:
    put_messages(store, (Message("AAAABB"[number], b"%d" % number) for number in range(6)), dev=True)


def file_of(table: Path, number: int, topic: str) -> Path:
    (found,) = (table / f"export={number}" / f"topic_name={topic}").rglob("*.parquet")
    return found


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("name", ["copy.parquet", "part-0", "below/one.parquet"])
def test_a_file_that_no_export_made(table: Path, tmp_path: Path, make: Export, number: int, name: str) -> None:
    store, stray = tmp_path / "store", file_of(table, number, "A").parent / name
    stray.parent.mkdir(exist_ok=True)
    shutil.copy(file_of(table, number, "A"), stray)
    assert pq.read_table(table).num_rows == 16, "every reader counts its rows"
    put(store)
    with pytest.raises(UsageError) as caught:
        make(store, table)
    assert str(caught.value) == (
        f"{stray}: no export made this file, and readers of the table {table} count its rows; remove it, or give it a "
        "name that begins with _"
    )
    found = compare_table(str(store), str(table))
    assert (found.rows, found.stray_files, found.equal, found.exit_code) == (12, 1, False, 1)
    assert found.notes == [str(caught.value)]
    stray.rename(stray.with_name("_mine"))
    assert pq.read_table(table).num_rows == 12
    assert make(store, table).rows == 6
    assert compare_table(str(store), str(table)).exit_code == 0


def test_the_command_says_so(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in (1, 2):
        shutil.copy(file_of(table, number, "B"), table / f"export={number}" / "x.parquet")
    assert app.run(["diff", str(tmp_path / "store"), str(table)]) == 1
    said = capsys.readouterr().out.splitlines()
    assert f"note     {table}/export=1/x.parquet (and 1 others): no export made this file" in "\n".join(said)
    assert said[-1] == "result   2 files that no export made"


def test_of_a_long_history_an_export_looks_at_the_newest(
    table: Path, tmp_path: Path, make: Export, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_target, "MOST_LOOKED_AT", 1)
    store = tmp_path / "store"
    shutil.copy(file_of(table, 1, "B"), table / "export=1" / "x.parquet")
    assert make(store, table).rows == 0
    shutil.copy(file_of(table, 2, "B"), table / "export=2" / "x.parquet")
    with pytest.raises(UsageError, match="export=2/x.parquet: no export made this file"):
        make(store, table)
    assert compare_table(str(store), str(table)).stray_files == 2, "a comparison looks at all"


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize(("there", "other", "rows"), [("A", "B", 4), ("B", "A", 8)])
def test_a_file_that_was_replaced_by_another(
    table: Path, tmp_path: Path, number: int, there: str, other: str, rows: int
) -> None:
    """A bad restore: whoever reads history and now would count wrongly."""
    store = tmp_path / "store"
    shutil.copy(file_of(table, number, other), file_of(table, number, there))
    for read in (lambda: scan_arrow(store, history=table), lambda: dataset(store, history=table)):
        with pytest.raises(StoreAccessError) as caught:
            read()
        assert str(caught.value) == (
            f"{table}/export={number}: its files have {rows} rows, and its export wrote 6: a file was replaced or "
            "changed; put the files back from a copy, or export anew into another directory"
        )
    assert not compare_table(str(store), str(table)).equal


def test_a_file_that_was_written_anew_with_the_same_rows(table: Path, tmp_path: Path) -> None:
    path = file_of(table, 1, "A")
    before = path.stat().st_size
    pq.write_table(pq.ParquetFile(path).read(), path, compression="none")
    assert path.stat().st_size != before
    assert scan_arrow(tmp_path / "store", history=table).read_all().num_rows == 12
