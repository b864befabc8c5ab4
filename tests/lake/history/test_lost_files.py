"""Tables one of whose data files is gone: readers are told which, and what to do; a diff counts its rows."""

from pathlib import Path

import pytest

from flintmq import Message, dataset, scan_arrow
from flintmq.cli import app
from flintmq.config.s3 import S3Options
from flintmq.errors import StoreAccessError
from flintmq.lake.export.export_once import export
from flintmq.lake.history.diff_table import compare_table
from flintmq.lake.table.table_rows import open_table
from tests.support.engine import put_messages

ADVICE = {
    "parquet": "put it back from a copy, or export anew into another directory",
    "delta": "put it back from a copy, or RESTORE a version without it and export again, or export anew into another "
    "directory",
    "iceberg": "put it back from a copy, or roll the table back to a snapshot without it and export again, or export "
    "anew into another directory",
}


@pytest.fixture
def lost(tmp_path: Path, to: str) -> Path:
    """The file of topic A in the second of two exports, removed: five rows of twenty."""
    store, out = tmp_path / "store", tmp_path / "out"
    seen: set[Path] = set()
    for first in (0, 10):
        put_messages(store, (Message("AB"[number % 2], b"%d" % number) for number in range(first, first + 10)))
        export(str(store), str(out), to=to, partition_by=["topic_name"])
        new = {path for path in out.rglob("*.parquet") if path.stat().st_size} - seen
        seen |= new
    (found,) = (path for path in new if rows_of(path) == ["10", "12", "14", "16", "18"])
    found.unlink()
    return found


def rows_of(path: Path) -> list[str]:
    import pyarrow.parquet as pq

    bodies: list[bytes] = pq.ParquetFile(path).read(["body"])["body"].to_pylist()
    return [body.decode() for body in bodies]


def test_who_reads_the_table_is_told_what_to_do(lost: Path, tmp_path: Path, to: str) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    said = f"{lost}: this file of the table {out} is missing, so rows are; {ADVICE[to]}"
    for _ in range(2):
        with pytest.raises(StoreAccessError) as caught:
            scan_arrow(store, history=out).read_all()
        assert str(caught.value) == said
        with pytest.raises(StoreAccessError) as caught:
            dataset(store, history=out).count_rows()
        assert str(caught.value) == said
    if to != "iceberg":  # whose sizes are in its metadata
        with pytest.raises(StoreAccessError, match="is missing, so rows are"):
            open_table(str(out), None, S3Options())[1].size(str(lost))


def test_a_comparison_counts_its_rows_as_missing(lost: Path, tmp_path: Path, to: str) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    found = compare_table(str(store), str(out))
    assert (found.messages, found.rows, found.strangers, found.lost_files) == (20, 15, 0, 1)
    assert {str(kind): count for kind, count in found.differences.counts.items()} == {"only-in-a": 5}
    assert not found.equal and found.exit_code == 1
    assert found.notes == [f"{lost}: this file of the table {out} is missing, so rows are; {ADVICE[to]}"]


def test_the_command_says_so(
    lost: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert app.run(["diff", "store", "out"]) == 1
    said = capsys.readouterr().out.splitlines()
    assert f"note     {lost}: this file of the table {tmp_path}/out is missing" in "\n".join(said)
    assert said[-1].startswith("result") and said[-1].endswith("; 1 missing files of the table")


def test_a_file_that_the_table_has_left_is_another_matter(tmp_path: Path) -> None:
    """A compaction and a vacuum beside the read: whoever reads again finds the rows."""
    from deltalake import DeltaTable

    store, out = tmp_path / "store", tmp_path / "out"
    for number in range(2):
        put_messages(store, [Message("A", b"%d" % number)])
        export(str(store), str(out), to="delta")
    _, version = open_table(str(out), None, S3Options())
    table = DeltaTable(str(out))
    table.optimize.compact()
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    assert (
        str(version.missing(version.files[0])) == f"{version.files[0]}: deleted while the table was read; read it again"
    )
    assert scan_arrow(store, history=out).read_all().num_rows == 2
