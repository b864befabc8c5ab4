"""A log whose end is missing: a read that skips damage says so, whatever reads; a strict one is refused."""

from pathlib import Path

import pytest

import flintmq
from flintmq.errors import CorruptStoreError
from flintmq.lake.history.diff_table import compare_table
from flintmq.lake.read.members import plan_members
from flintmq.lake.read.options import ReadOptions
from flintmq.lake.stats.run import stats
from flintmq.store.commitlog.report import Report
from flintmq.testing import write_store
from tests.support.exporting import once, whole

FILE = 1 << 16


@pytest.fixture
def cut(tmp_path: Path) -> Path:
    """A store that was stopped cleanly, and then lost the last files of its log."""
    root = tmp_path / "store"
    write_store(root, 2000, commit_log_file_size=FILE)
    files = sorted((root / "commitlog").iterdir())
    for file in files[-3:]:
        file.unlink()
    return root


def test_each_read_says_it(cut: Path, tmp_path: Path) -> None:
    with pytest.raises(CorruptStoreError):
        whole(cut, tmp_path / "strict")
    done = whole(cut, tmp_path / "table", fail_on_data_loss=False)
    followed = once(cut, tmp_path / "followed", fail_on_data_loss=False)
    assert 0 < done.rows < 2000 and done.exit_code == followed.exit_code == 1
    counted = stats(str(cut), fail_on_data_loss=False)
    report = Report()
    flintmq.scan_arrow(cut, history=tmp_path / "table", strict=False, report=report).read_all()
    texts = [done.note_texts["lost"], counted.note_texts["lost"], report.texts()["lost"]]
    compared = compare_table(str(cut), str(tmp_path / "table")).notes
    assert texts == [compared] * 3 and len(compared) == 1
    assert str(cut / "commitlog") in compared[0] and "run `" not in compared[0]


def test_who_may_not_skip_it_is_refused_and_who_writes_knows(cut: Path) -> None:
    with pytest.raises(CorruptStoreError):
        plan_members(ReadOptions(path=str(cut)), Report())
    live = cut.with_name("live")
    with flintmq.MessageStore(live) as store:
        store.put(flintmq.Message("T", b"x"))
        report = Report()
        plan_members(ReadOptions(path=str(live), fail_on_data_loss=False), report)
        assert not report.notes
