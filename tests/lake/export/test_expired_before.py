"""Messages that expired before any export had them: a lenient read tells of them, a strict one is refused."""

from pathlib import Path

import pytest

import flintmq
from flintmq.cli import app
from flintmq.errors import StoreError
from flintmq.lake.export.export import Exported
from flintmq.store.commitlog.report import Report
from flintmq.testing import write_store
from tests.support.engine import put_messages
from tests.support.exporting import Export, once, whole

FILE = 1 << 16


@pytest.fixture
def gap(tmp_path: Path) -> tuple[Path, Path, int, int]:
    """A store and its table, and the log offsets between which nobody has messages."""
    return expired(tmp_path / "store", tmp_path / "table", whole)


@pytest.fixture
def followed(tmp_path: Path) -> tuple[Path, Path]:
    """The same of a table that a streaming export made."""
    return expired(tmp_path / "store", tmp_path / "table", once)[:2]


def expired(store: Path, table: Path, export: Export) -> tuple[Path, Path, int, int]:
    write_store(store, 600, commit_log_file_size=FILE)
    end = int(export(store, table).end)
    put_messages(store, (flintmq.Message("Late", b"%d" % n) for n in range(1000)), {"mappedFileSizeCommitLog": FILE})
    files = sorted((store / "commitlog").iterdir())
    for file in files[:-1]:  # as retention does
        file.unlink()
    return store, table, end, int(files[-1].name)


def test_an_export_tells_of_them(gap: tuple[Path, Path, int, int]) -> None:
    store, table, end, begin = gap
    assert end < begin
    with pytest.raises(StoreError, match=f"begins at offset {begin}, the last export ended at {end}"):
        whole(store, table)
    done: Exported = whole(store, table, fail_on_data_loss=False)
    assert done.rows > 0 and done.notes["lost"] == 1
    assert f"{store}: the log begins at offset {begin}, the last export ended at {end}" in done.note_texts["lost"][0]
    again: Exported = whole(store, table, fail_on_data_loss=False)
    assert (again.rows, again.notes) == (0, {})


def test_history_and_now_tell_of_them(gap: tuple[Path, Path, int, int]) -> None:
    store, table, end, begin = gap
    with pytest.raises(StoreError, match="have expired"):
        flintmq.scan_arrow(store, history=table).read_all()
    report = Report()
    rows = flintmq.scan_arrow(store, history=table, strict=False, report=report).read_all()
    offsets = rows["physical_offset"].to_pylist()
    assert not [at for at in offsets if end <= at < begin] and max(offsets) > begin
    assert [(note.code, str(end) in note.text and str(begin) in note.text) for note in report.notes] == [("lost", True)]


def test_the_command_line_ends_with_1(gap: tuple[Path, Path, int, int], capfd: pytest.CaptureFixture[str]) -> None:
    store, table, end, begin = gap
    question = ["sql", str(store), "select count(*) from messages", "--history", str(table), "--skip-damage"]
    assert app.run(question) == 1
    assert f"the log begins at offset {begin}, the last export ended at {end}" in capfd.readouterr().err
    words = ["export", str(store), "--out", str(table), "--skip-damage"]
    assert app.run(words) == 1 and "note     lost: " in capfd.readouterr().out
    assert app.run(words) == 0


def test_a_followed_one_ends_with_1(followed: tuple[Path, Path], capfd: pytest.CaptureFixture[str]) -> None:
    store, table = followed
    words = ["export", str(store), "--out", str(table), "--follow", "--once"]
    assert app.run(words) == 3 and "have expired and were not read" in capfd.readouterr().err
    assert app.run([*words, "--skip-damage"]) == 1
    shown = capfd.readouterr()
    assert "have expired and were not read" in shown.err and "note     lost: " in shown.out
    assert app.run([*words, "--skip-damage"]) == 0
    assert app.run(words) == 0


def test_history_and_now_of_a_followed_one(followed: tuple[Path, Path], capfd: pytest.CaptureFixture[str]) -> None:
    store, table = followed
    with pytest.raises(StoreError, match="have expired"):
        flintmq.scan_arrow(store, history=table).read_all()
    report = Report()
    flintmq.scan_arrow(store, history=table, strict=False, report=report).read_all()
    assert [note.code for note in report.notes] == ["lost"]
    words = ["sql", str(store), "select count(*) from messages", "--history", str(table)]
    assert app.run([*words, "--skip-damage"]) == 1
    assert "have expired and were not read" in capfd.readouterr().err


def test_a_followed_broker_among_several(tmp_path: Path) -> None:
    """What one of them lost is told once, and with the broker's store."""
    data, table = tmp_path / "data", tmp_path / "table"
    pattern = f"{data}/{{broker}}/store"
    write_store(data / "b" / "store", 50)
    expired(data / "a" / "store", table, lambda _store, out: once(pattern, out))
    with pytest.raises(StoreError, match="have expired"):
        once(pattern, table)
    done = once(pattern, table, fail_on_data_loss=False)
    assert done.exit_code == 1 and done.notes["lost"] == 1
    assert str(data / "a" / "store") in done.note_texts["lost"][0]
    assert once(pattern, table, fail_on_data_loss=False).exit_code == 0
