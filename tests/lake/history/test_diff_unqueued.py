"""Records without a queue: a plain export has them, a stream has not, and `diff` knows which one made the table."""

import json
import shutil
from pathlib import Path

import pytest

import flintmq
from flintmq.errors import UsageError
from flintmq.lake.history.diff_table import compare_table
from flintmq.testing import write_store
from tests.cli.conftest import Run, run
from tests.support.exporting import Export, once, whole

__all__ = ["run"]  # a fixture


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("unqueued") / "store"
    write_store(path, 3000, seed=3, kinds="all", topics=3, commit_log_file_size=1 << 20)
    return path


@pytest.fixture(scope="module")
def unqueued(store: Path) -> int:
    """How many there are, by the bits of RocketMQ's MessageSysFlag: prepared is 4, rolled back is 12."""
    with flintmq.open_store(store) as opened:
        count = sum(message.sys_flag & 12 in (4, 12) for message in opened.messages())
    assert count > 10
    return count


def test_a_table_of_a_stream(run: Run, store: Path, unqueued: int, tmp_path: Path) -> None:
    """They were called only-in-a."""
    once(str(store), tmp_path / "table")
    found = compare_table(str(store), str(tmp_path / "table"))
    assert (found.equal, found.unqueued, found.waiting) == (True, unqueued, 0)
    result = run("diff", store, tmp_path / "table")
    assert result.code == 0
    assert f"\nunqueued {unqueued} records of the log are in no queue (prepared, rolled back, or of" in result.out
    assert run("diff", store, tmp_path / "table", "--json").rows[-1]["unqueued"] == unqueued


def test_a_table_of_several_stores(store: Path, unqueued: int, tmp_path: Path) -> None:
    for broker in "ab":
        shutil.copytree(store, tmp_path / "data" / broker)
    stores = f"{tmp_path}/data/*"
    once(stores, tmp_path / "table")
    found = compare_table(stores, str(tmp_path / "table"))
    assert (found.equal, found.unqueued) == (True, 2 * unqueued)


def test_a_table_of_plain_exports_has_them(run: Run, store: Path, tmp_path: Path) -> None:
    whole(str(store), tmp_path / "table")
    found = compare_table(str(store), str(tmp_path / "table"))
    assert (found.equal, found.unqueued) == (True, 0)
    assert "unqueued" not in run("diff", store, tmp_path / "table").out


@pytest.mark.parametrize(("export", "lost"), [(once, False), (whole, True)])
def test_a_row_that_is_missing_is_named(store: Path, tmp_path: Path, export: Export, lost: bool) -> None:
    """A message of a queue always; one without a queue where a plain export made the table."""
    import pyarrow.parquet as pq

    export(str(store), tmp_path / "table")
    want = 0
    for path in (tmp_path / "table").rglob("*.parquet"):
        rows = pq.ParquetFile(path).read()
        flags = rows.column("sys_flag").to_pylist()
        keep = [number for number, flag in enumerate(flags) if number and not flag & 4]
        want += len(flags) - len(keep)
        pq.write_table(rows.take(keep), path)
    found = compare_table(str(store), str(tmp_path / "table"))
    assert {str(kind): count for kind, count in found.differences.counts.items()} == {"only-in-a": want}
    assert want > 0 and (found.unqueued == 0) == lost


@pytest.mark.parametrize(("first", "second"), [(once, whole), (whole, once)])
def test_no_table_is_of_both_kinds(store: Path, tmp_path: Path, first: Export, second: Export) -> None:
    """So one manifest tells of all exports."""
    first(str(store), tmp_path / "table")
    with pytest.raises(UsageError, match="has exports made with"):
        second(str(store), tmp_path / "table")
    (manifest,) = (tmp_path / "table").glob("export=*/_flintmq.json")
    assert json.loads(manifest.read_text())["choice"]["stream"] is (first is once)
