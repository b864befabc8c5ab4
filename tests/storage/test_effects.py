"""The real disk's door: what is refused, and what files do that change under it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flintmq.errors import StoreAccessError
from flintmq.storage.effects import REAL
from tests.storage.faults import Faulty


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(StoreAccessError, match="symbolic link"):
        REAL.open_read(str(tmp_path / "link"))
    with pytest.raises(StoreAccessError, match="not a regular file"):
        REAL.open_read(str(tmp_path / "folder"))
    with pytest.raises(StoreAccessError, match="not a regular file"):
        REAL.open_read(str(tmp_path / "fifo"))  # and does not wait for a writer
    with pytest.raises(FileNotFoundError):
        REAL.open_read(str(tmp_path / "nothing"))
    with REAL.reading(str(tmp_path / "file")) as fd:
        assert REAL.pread(fd, 4, 3) == b"3456"
        assert REAL.pread(fd, 100, 8) == b"89"  # short at the end
        assert REAL.pread(fd, 4, 99) == b""
        assert REAL.size_of(fd) == 10
        with pytest.raises(OSError, match=r"Bad file descriptor|not permitted|Errno 9"):
            os.write(fd, b"x")


def test_names_and_sizes(tmp_path: Path) -> None:
    for name in "cab":
        (tmp_path / name).write_bytes(name.encode() * 3)
    (tmp_path / "folder").mkdir()
    assert REAL.listdir(str(tmp_path)) == ["a", "b", "c", "folder"]
    assert REAL.listdir(str(tmp_path / "nothing")) == []
    assert REAL.listdir(str(tmp_path / "a")) == []
    assert (REAL.size(str(tmp_path / "a")), REAL.size(str(tmp_path / "folder"))) == (3, None)
    assert REAL.size(str(tmp_path / "nothing")) is None
    assert REAL.read_file(str(tmp_path / "a"), 2) == b"aa"
    assert REAL.read_file(str(tmp_path / "nothing"), 2) is None


def test_holes_can_be_told_from_data(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with open(path, "wb") as file:
        file.truncate(1 << 20)
        file.seek(1 << 19)
        file.write(b"data")
    with REAL.reading(str(path)) as fd:
        first = REAL.next_data(fd, 0)
        assert first is not None and first <= 1 << 19
        assert REAL.next_data(fd, (1 << 19) + 2) == (1 << 19) + 2


def test_files_are_made_whole_and_never_over_another(tmp_path: Path) -> None:
    path = str(tmp_path / "new")
    fd = REAL.create(path, 5000)
    REAL.allocate(fd, 0, 4096)
    REAL.pwrite(fd, b"abc", 4998 - 1)
    REAL.sync(fd)
    with REAL.map_write(fd, 5000) as mapped:
        mapped[0:2] = b"hi"
    REAL.close(fd)
    assert Path(path).read_bytes() == b"hi" + bytes(4995) + b"abc"
    with pytest.raises(FileExistsError):
        REAL.create(path, 10)
    REAL.rename(path, path + "2")
    REAL.sync_dir(str(tmp_path))
    REAL.unlink(path + "2")
    assert REAL.listdir(str(tmp_path)) == []


def test_time_goes_on() -> None:
    before = REAL.monotonic()
    REAL.sleep(0.001)
    assert REAL.monotonic() - before >= 0.001
    assert REAL.now_ms() > 1_700_000_000_000


def test_a_folder_that_is_made_has_its_names_on_disk(tmp_path: Path):
    """Each directory that was missing is a name in the one above, which needs a sync."""
    effects = Faulty()
    (tmp_path / "a").mkdir()
    effects.make_folder(str(tmp_path / "a" / "b" / "c"))
    assert (tmp_path / "a" / "b" / "c").is_dir()
    assert [path for name, path in effects.calls if name == "sync_dir"] == [
        str(tmp_path / "a"),
        str(tmp_path / "a" / "b"),
    ]
    effects.calls.clear()
    effects.make_folder(str(tmp_path / "a" / "b" / "c"))
    assert effects.calls == [], "it was there"
