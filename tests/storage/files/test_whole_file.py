"""A file as a whole: the old one or the new one, durable when the call returns."""

import errno
import os
from pathlib import Path

import pytest

from flintmq.storage.files import whole_file as module
from flintmq.storage.files.filesystem import REAL
from flintmq.storage.files.whole_file import new_file, replace_file, sync_file, sync_folder
from tests.support.faults import Faulty


def test_a_file_is_replaced_in_the_order_that_survives_power_loss(tmp_path: Path):
    effects, path = Faulty(), tmp_path / "file"
    path.write_bytes(b"old and longer")
    replace_file(str(path), b"new", effects)
    assert path.read_bytes() == b"new"
    new = f"{path}.flintmq-new"
    assert effects.calls == [
        ("create", new), ("pwrite", new), ("sync", new), ("rename", new), ("sync_dir", str(tmp_path)),
    ]  # fmt: skip
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("call", ["create", "pwrite", "sync", "rename"])
def test_a_refused_replacement_leaves_the_old_file_and_may_be_tried_again(tmp_path: Path, call: str):
    effects, path = Faulty(), tmp_path / "file"
    path.write_bytes(b"old")
    effects.refuse(call, times=1)
    with pytest.raises(OSError):
        replace_file(str(path), b"new", effects)
    assert path.read_bytes() == b"old"
    replace_file(str(path), b"new", effects)
    assert path.read_bytes() == b"new" and os.listdir(tmp_path) == ["file"]


def test_a_new_file_gets_its_name_when_it_is_whole_and_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Faulty()
    monkeypatch.setattr(module, "REAL", disk)
    target = tmp_path / "report.html"
    target.write_text("old")
    with new_file(str(target)) as part:
        Path(part).write_text("new")
        assert target.read_text() == "old" and disk.calls == []
    assert target.read_text() == "new" and os.listdir(tmp_path) == ["report.html"]
    assert [name for name, _ in disk.calls] == ["open_write", "sync", "sync_dir"]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_a_new_file_that_is_not_finished_is_removed(tmp_path: Path, error: BaseException) -> None:
    with pytest.raises(type(error)), new_file(str(tmp_path / "rows.csv")) as part:
        Path(part).write_text("half")
        raise error
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("linked", [False, True])
def test_a_new_file_writes_over_nobody_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linked: bool) -> None:
    """Somebody else has the very name, or guessed it and planted a link to a file of the user."""
    monkeypatch.setattr(module.os, "urandom", lambda count: bytes(count))
    precious, theirs = tmp_path / "precious", tmp_path / f"rows.csv.{'0' * 16}.part"
    precious.write_text("precious")
    if linked:
        theirs.symlink_to(precious)
    else:
        theirs.write_text("theirs")
    with pytest.raises(FileExistsError), new_file(str(tmp_path / "rows.csv")):
        pass
    assert precious.read_text() == "precious" and theirs.read_text() == ("precious" if linked else "theirs")
    assert not (tmp_path / "rows.csv").exists()


def test_what_somebody_else_wrote_is_made_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[str, str]] = []
    for name in ("fdatasync", "fsync"):
        monkeypatch.setattr(os, name, lambda fd, name=name: synced.append((name, os.readlink(f"/proc/self/fd/{fd}"))))
    (tmp_path / "file").touch()
    sync_file(str(tmp_path / "file"), REAL)
    sync_folder(tmp_path)
    assert synced == [("fdatasync", str(tmp_path / "file")), ("fsync", str(tmp_path))]
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with pytest.raises(OSError) as caught:
        sync_file(str(tmp_path / "link"), REAL)
    assert caught.value.errno == errno.ELOOP
