"""A directory beside its place."""

import errno
import os
from pathlib import Path

import pytest

from flintmq.errors import StoreAccessError, UsageError
from flintmq.storage.files.filesystem import REAL
from flintmq.storage.files.staging import bring_in, staging_for, sweep


def test_one_at_a_time_and_nothing_stays(tmp_path: Path) -> None:
    into = str(tmp_path / "new")
    with staging_for(into, "work") as staging:
        Path(staging, "store").mkdir()
        Path(staging, "store", "x").write_text("y")
        with pytest.raises(UsageError, match="another work"), staging_for(into, "work"):
            pass
        bring_in(staging, into)
    assert os.listdir(tmp_path) == ["new"] and (tmp_path / "new" / "x").read_text() == "y"


def test_leftovers_are_swept(tmp_path: Path) -> None:
    (tmp_path / ".new.flintmq-work" / "store").mkdir(parents=True)
    sweep(str(tmp_path / "new"), "work")
    assert os.listdir(tmp_path) == []


def test_what_came_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    with staging_for(str(tmp_path / "new"), "work") as staging:
        Path(staging, "store").mkdir()
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / "mine").touch()
        with pytest.raises(UsageError, match="meanwhile"):
            bring_in(staging, str(tmp_path / "new"))


def test_a_place_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreAccessError), staging_for(str(tmp_path / "file" / "new"), "work"):
        pass


@pytest.mark.parametrize("there", [False, True])
def test_a_disk_that_refuses_the_rename_is_no_other_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    """Nothing stands at the place, or an empty directory."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "refused")

    monkeypatch.setattr(os, "rename", refuse)
    if there:
        (tmp_path / "new").mkdir()
    with pytest.raises(OSError) as caught, staging_for(str(tmp_path / "new"), "work") as staging:
        Path(staging, "store").mkdir()
        bring_in(staging, str(tmp_path / "new"))
    assert caught.value.errno == errno.EIO


def test_names_are_durable_before_the_rename_and_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every directory of the store first, then the one that holds its new name, which may be the current one."""
    synced: list[str] = []
    monkeypatch.setattr(type(REAL), "sync_dir", lambda _, path: synced.append(path))
    monkeypatch.chdir(tmp_path)
    for into, parent in ((str(tmp_path / "one"), str(tmp_path)), ("two", ".")):
        with staging_for(into, "work") as staging:
            Path(staging, "store", "config").mkdir(parents=True)
            bring_in(staging, into)
            root = os.path.join(staging, "store")
        assert synced == [root, os.path.join(root, "config"), parent]
        synced.clear()


def test_a_leftover_that_cannot_be_removed_does_not_stop_the_work(tmp_path: Path) -> None:
    left = tmp_path / ".new.flintmq-work" / "not a directory"
    left.parent.mkdir()
    left.touch()
    with staging_for(str(tmp_path / "new"), "work") as staging:
        assert os.listdir(staging) == ["not a directory"]
        left.unlink()
    assert os.listdir(tmp_path) == []
