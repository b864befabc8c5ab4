"""Files of the log that are deleted between the listing and the reading of them."""

from pathlib import Path

import pytest

from flintmq.errors import StoreError
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.report import VANISHED, DamageKind, Report
from flintmq.store.commitlog.walk import DELETED, LogWalk
from flintmq.store.view import open_store
from tests.support.engine import log_files

SIZE = 131072


@pytest.mark.parametrize("access", ["pread", "map"])
@pytest.mark.parametrize("gone", [[1], [1, 2, 3], [3], [4, 5]])
def test_deleted_after_the_first_record(access: str, gone: list[int], golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store = golden("basic").copy(tmp_path)
    walk = LogWalk(LogFiles.discover([str(store / "commitlog")]), access=access)
    pieces = iter(walk)
    next(pieces)
    for number in gone:
        (store / "commitlog" / f"{number * SIZE:020}").unlink()
    for _ in pieces:
        pass
    assert [(lost.offset, lost.lost, lost.reason, lost.kind) for lost in walk.deleted] == [
        (number * SIZE, SIZE, DELETED, DamageKind.DELETED) for number in gone
    ]
    named = [note.path for note in walk.report.notes if note.code == VANISHED]
    assert named == [str(store / "commitlog" / f"{number * SIZE:020}") for number in gone]


@pytest.mark.parametrize(("gone", "lost"), [([0], 0), ([0, 1, 2], 0), ([1], 1), ([0, 2], 1), ([1, 2], 2)])
def test_deleted_before_the_first_record(gone: list[int], lost: int, golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store = golden("basic").copy(tmp_path)
    walk = LogWalk(LogFiles.discover([str(store / "commitlog")]), strict=False)
    for number in gone:
        (store / "commitlog" / f"{number * SIZE:020}").unlink()
    for _ in walk:
        pass
    assert len(walk.deleted) == lost, "the first files may have expired before the walk"
    assert walk.report.note_counts["vanished"] == len(gone)


def test_a_strict_iteration_fails_at_a_deleted_file(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store = golden("basic").copy(tmp_path)
    with open_store(store) as view:
        messages = view.messages()
        seen = [next(messages).physical_offset]
        log_files(store)[2].unlink()
        with pytest.raises(StoreError, match=r"0262144: the file was deleted while .* begin again, or read with"):
            seen.extend(message.physical_offset for message in messages)
        assert max(seen) < 2 * SIZE
        assert [message.physical_offset for message in view.follow(0, stop=_set())] == []


def test_a_lenient_iteration_reports_it(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store, report = golden("basic").copy(tmp_path), Report()
    with open_store(store) as view:
        messages = view.messages(strict=False, report=report)
        next(messages)
        log_files(store)[5].unlink()
        assert all(message.physical_offset < 5 * SIZE for message in messages)
    [lost] = report.damages
    assert (lost.offset, lost.lost) == (5 * SIZE, SIZE)


def test_files_that_expired_before_are_no_matter(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store, report = golden("basic").copy(tmp_path), Report()
    with open_store(store) as view:
        for file in log_files(store)[:3]:
            file.unlink()
        assert next(iter(view.messages(report=report))).physical_offset == 3 * SIZE
    assert not report.damage_count


def _set():  # type: ignore[no-untyped-def]
    import threading

    stop = threading.Event()
    stop.set()
    return stop
