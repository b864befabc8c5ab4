"""Log files that are deleted between the planning of a read and the read: what is missing is told, whoever reads."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import flintmq
from flintmq.arrow.schema import SPARK_SCHEMA, narrow
from flintmq.cli import app
from flintmq.errors import StoreError, UsageError
from flintmq.lake.export.workers import Progress, Threads
from flintmq.lake.read.options import ReadOptions
from flintmq.lake.read.scan import ScanPlan, plan_scan, scan_range
from flintmq.lake.read.splits import LogRange, equal_ranges
from flintmq.lake.table.table_rows import open_table
from flintmq.store.commitlog.report import Report
from flintmq.testing import write_store
from tests.support.exporting import Export

OFFSETS = narrow(["physical_offset"], SPARK_SCHEMA)
PLACES = narrow(["physical_offset", "queue_offset"], SPARK_SCHEMA)
FILE = 1 << 16
GONE = [(0,), (0, 1, 2), (3,), (2, 4), (1, 2, 3, 4)]
"""Numbers of files that are deleted: the first ones as retention does, others as only `rm` does."""


@pytest.fixture(params=["one task", "many tasks"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if request.param == "many tasks":  # whose cuts are within files
        monkeypatch.setattr("flintmq.lake.read.splits.SPLIT_BYTES_LEAST", FILE // 3)
    write_store(tmp_path / "store", 1000, commit_log_file_size=FILE)
    assert len(list((tmp_path / "store" / "commitlog").iterdir())) >= 6
    return tmp_path / "store"


class Deleting(Threads):
    """Deletes log files when the tasks are planned, and before they run."""

    def __init__(self, store: Path, gone: Sequence[int]) -> None:
        super().__init__(2)
        self._store, self._gone = store, gone

    def run(
        self, function: Callable[[Any], dict[str, Any]], items: Sequence[Any], progress: Progress | None = None
    ) -> list[dict[str, Any]]:
        delete(self._store, self._gone)
        return super().run(function, items, progress)


def delete(store: Path, gone: Sequence[int]) -> list[Path]:
    files = [store / "commitlog" / f"{number * FILE:020d}" for number in gone]
    for file in files:
        file.unlink(missing_ok=True)
    return files


def offsets(store: Path) -> list[int]:
    found: list[int] = flintmq.scan_arrow(store, columns=["physical_offset"]).read_all()[0].to_pylist()
    return found


def left(found: Sequence[int], gone: Sequence[int]) -> list[int]:
    return [offset for offset in found if offset // FILE not in gone]


@pytest.mark.parametrize("gone", GONE)
def test_an_export_names_what_it_lost(make: Export, store: Path, tmp_path: Path, gone: tuple[int, ...]) -> None:
    before = offsets(store)
    done = make(store, tmp_path / "out", workers=Deleting(store, gone), fail_on_data_loss=False)
    table = open_table(str(tmp_path / "out"))[1].rows(PLACES, 0, None)
    assert sorted(table["physical_offset"].to_pylist()) == left(before, gone) and done.rows == table.num_rows
    assert done.damages >= len(gone) and done.notes["vanished"] >= len(gone)
    missing = set(before) - set(left(before, gone))
    assert done.lost_bytes >= max(missing) - min(missing) - FILE * (max(gone) - min(gone) + 1 - len(gone))
    assert done.lost_bytes <= FILE * len(gone)
    named = " ".join(done.note_texts["vanished"])
    assert any(f"{number * FILE:020d} was deleted while the log was read" in named for number in gone)


@pytest.mark.parametrize("gone", GONE)
def test_an_export_that_may_lose_nothing_fails(
    make: Export, store: Path, tmp_path: Path, gone: tuple[int, ...]
) -> None:
    with pytest.raises(StoreError, match=r"deleted while the log was read|not in the log"):
        make(store, tmp_path / "out", workers=Deleting(store, gone))
    assert not list((tmp_path / "out").glob("export=*"))


def test_the_next_export_goes_on(make: Export, store: Path, tmp_path: Path) -> None:
    make(store, tmp_path / "out", workers=Deleting(store, (0, 1)), fail_on_data_loss=False)
    assert make(store, tmp_path / "out", fail_on_data_loss=False).rows == 0


@pytest.mark.usefixtures("no_grace")
def test_a_log_whose_last_file_is_gone_is_not_taken_for_an_old_one(make: Export, store: Path, tmp_path: Path) -> None:
    """No retention deletes it. What is put there next would lie before the end that the export noted.

    One that follows looks again before it ends.
    """
    last = max(offsets(store)) // FILE
    with pytest.raises((UsageError, StoreError), match="the log ends at offset [0-9]+, before"):
        make(store, tmp_path / "out", workers=Deleting(store, (last,)), fail_on_data_loss=False)
        make(store, tmp_path / "out", fail_on_data_loss=False)
    assert list((tmp_path / "out").glob("export=*")), "what was read is there"


@pytest.mark.parametrize("follow", [[], ["--follow", "--once"]])
@pytest.mark.parametrize("lenient", [True, False])
def test_exit_codes(
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    follow: list[str],
    lenient: bool,
) -> None:
    monkeypatch.setattr("flintmq.lake.export.workers.Threads", lambda _: Deleting(store, (0, 1)))
    words = ["export", str(store), "--out", str(tmp_path / "out"), *follow, "--json"]
    assert app.run([*words, *(["--skip-damage"] if lenient else [])]) == (1 if lenient else 3)
    if lenient:
        answer = json.loads(capsys.readouterr().out)
        assert answer["damages"] >= 2 and f"{0:020d}" in " ".join(answer["note_texts"]["vanished"])


@pytest.mark.parametrize("splits", [1, 4, 23])
@pytest.mark.parametrize("gone", GONE)
@pytest.mark.parametrize("early", [True, False])
def test_ranges_tell_what_they_lost(store: Path, splits: int, gone: tuple[int, ...], early: bool) -> None:
    """Also where cuts are within a file that is gone: no range is accused of a cut within a record."""
    before = offsets(store)
    plan = plan_scan(ReadOptions(str(store), fail_on_data_loss=False), Report())
    if early:
        delete(store, gone)
    parts = equal_ranges(plan.log, plan.begin, plan.end, splits)
    delete(store, gone)
    found, report = read(plan, parts)
    assert found == left(before, gone)
    assert report.lost_bytes == sum(min(plan.end, (number + 1) * FILE) - number * FILE for number in gone)


def read(plan: ScanPlan, parts: Sequence[LogRange]) -> tuple[list[int], Report]:
    found: list[int] = []
    report = Report()
    for part in parts:
        own = Report()
        found += (at for batch in scan_range(plan, part, OFFSETS, own) for at in batch.column(0).to_pylist())
        report.add(own)
    return found, report


@pytest.mark.parametrize("strict", [True, False])
def test_a_cut_that_moved_because_its_file_is_gone(store: Path, strict: bool) -> None:
    """Tasks make the cuts of a remote log; the first one did so while the file was there, and the second after."""
    before = offsets(store)
    plan = plan_scan(ReadOptions(str(store), fail_on_data_loss=strict), Report())
    middle = 2 * FILE + FILE // 2
    one, other = LogRange(plan.begin, middle, wanted=True), LogRange(middle, plan.end, wanted=True)
    first, none = read(plan, [one])
    assert not none.damage_count
    delete(store, (2,))
    if strict:
        with pytest.raises(StoreError, match="was deleted while the log was read"):
            read(plan, [other])
        return
    second, report = read(plan, [other])
    assert first + second == [at for at in before if at in set(first) or at >= 3 * FILE]
    assert (report.damage_count, report.lost_bytes) == (1, 3 * FILE - middle)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("gone", GONE)
def test_scan_arrow_tells_it(store: Path, threads: int, gone: tuple[int, ...]) -> None:
    before, report = offsets(store), Report()
    lenient = flintmq.scan_arrow(store, columns=["physical_offset"], strict=False, report=report, threads=threads)
    strict = flintmq.scan_arrow(store, columns=["physical_offset"], threads=threads)
    files = delete(store, gone)
    assert lenient.read_all()[0].to_pylist() == left(before, gone)
    assert [damage.file for damage in report.damages] == [str(file) for file in files]
    assert report.lost_bytes == FILE * len(gone)
    with pytest.raises(StoreError, match="was deleted while the log was read; its messages are lost"):
        strict.read_all()
