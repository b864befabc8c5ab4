"""Below the root of a store that is written no symbolic link is followed but its direct sub-directories."""

import errno
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flintmq.errors import FlintError
from flintmq.storage.files import filesystem
from flintmq.storage.files.filesystem import REAL, NotOpened


def snapshot(root: Path) -> dict[str, tuple[int, bytes]]:
    """Every name below a directory, with its kind and content."""
    found = {}
    for path in sorted(root.rglob("*")):
        mode = path.lstat().st_mode
        found[str(path.relative_to(root))] = mode, path.read_bytes() if stat.S_ISREG(mode) else b""
    return found


@pytest.mark.parametrize("deep", ["T", "T/0"])
def test_each_call_that_changes_a_disk_stays_below_what_it_is_given(deep: str, tmp_path: Path) -> None:
    root, victim = tmp_path / "store", tmp_path / "victim"
    (victim / "0").mkdir(parents=True)
    for folder in (victim, victim / "0"):
        (folder / "file").write_bytes(b"precious")
    (root / "consumequeue" / deep).parent.mkdir(parents=True)
    (root / "consumequeue" / deep).symlink_to(victim)
    (root / "index").mkdir()
    (root / "index" / "mine").write_bytes(b"mine")
    REAL.guard(str(root))
    inside, mine = str(root / "consumequeue/T/0"), str(root / "index/mine")
    calls: dict[str, Callable[[], object]] = {
        "open_write": lambda: REAL.open_write(f"{inside}/file"),
        "create": lambda: REAL.create(f"{inside}/new", 10),
        "unlink": lambda: REAL.unlink(f"{inside}/file"),
        "mkdirs": lambda: REAL.mkdirs(f"{inside}/new/newer"),
        "make_folder": lambda: REAL.make_folder(f"{inside}/new/newer"),
        "sync_dir": lambda: REAL.sync_dir(inside),
        "rename to": lambda: REAL.rename(mine, f"{inside}/file"),
        "rename from": lambda: REAL.rename(f"{inside}/file", mine),
        "open_read": lambda: REAL.open_read(f"{inside}/file"),
    }
    before = snapshot(tmp_path)
    for name, call in calls.items():
        with pytest.raises(FlintError, match=r"symbolic link|Not a directory"):
            call()
            pytest.fail(f"{name} followed the link")
        assert snapshot(tmp_path) == before, name
    assert REAL.listdir(inside) == []


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("entered", ["consumequeue", "consumequeue/T", "consumequeue/T/0"])
def test_an_entered_directory_is_the_one_that_was_entered(entered: str, tmp_path: Path) -> None:
    """Whatever takes its place afterwards, a link included; below it links are followed as little as ever."""
    root, victim, away = tmp_path / "store", tmp_path / "victim", tmp_path / "away"
    inside = root / "consumequeue/T/0"
    for folder in (inside, victim / "T/0", victim / "0"):
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(b"precious")
    (victim / "file").write_bytes(b"precious")
    below, before = str(root / "consumequeue"), descriptors()
    path = str(inside / "file")
    with REAL.entered(str(root / entered), below), REAL.entered(str(root / entered), below):
        assert REAL.listdir(str(inside), below) == ["file"]
        (root / entered).rename(away)
        (root / entered).symlink_to(victim)
        fd = REAL.open_read(path, below)
        moved = away / Path(path).relative_to(root / entered)
        assert (moved.stat().st_ino, moved.stat().st_dev) == (os.fstat(fd).st_ino, os.fstat(fd).st_dev)
        REAL.close(fd)
        moved.unlink()
        moved.symlink_to(victim / "file")
        with pytest.raises(FlintError, match="symbolic link"):
            REAL.open_read(path, below)
    if entered != "consumequeue":  # which may be a link
        with pytest.raises(FlintError, match="symbolic link|Not a directory"):
            REAL.open_read(path, below)
    assert descriptors() == before


def test_an_entered_directory_is_no_other_one_and_only_this_thread_s(tmp_path: Path) -> None:
    below = tmp_path / "consumequeue"
    for name in "ab":
        (below / name).mkdir(parents=True)
        (below / name / f"file {name}").touch()
    with REAL.entered(str(below / "a"), str(below)), ThreadPoolExecutor(1) as other:
        (below / "a").rename(tmp_path / "away")
        assert REAL.listdir(str(below / "a"), str(below)) == ["file a"]
        assert REAL.listdir(str(below / "b"), str(below)) == ["file b"]
        assert other.submit(REAL.listdir, str(below / "a"), str(below)).result() == []
        assert other.submit(REAL.listdir, str(below / "b"), str(below)).result() == ["file b"]


def test_a_directory_that_cannot_be_entered_is_told_of_by_each_call(tmp_path: Path) -> None:
    victim, below = tmp_path / "victim", tmp_path / "store"
    victim.mkdir()
    below.mkdir()
    (victim / "file").write_bytes(b"precious")
    (below / "T").symlink_to(victim)
    with REAL.entered(str(below / "T"), str(below)), REAL.entered(str(below / "none"), str(below)):
        assert REAL.listdir(str(below / "T"), str(below)) == REAL.listdir(str(below / "none"), str(below)) == []
        with pytest.raises(FlintError, match="symbolic link|Not a directory"):
            REAL.open_read(str(below / "T/file"), str(below))
        with pytest.raises(FileNotFoundError):
            REAL.open_read(str(below / "none/file"), str(below))
    (below / "kept").mkdir()
    (below / "kept/file").write_bytes(b"x")
    with pytest.raises(KeyError), REAL.entered(str(below / "kept"), str(below)):
        raise KeyError
    (below / "kept").rename(below / "gone")
    assert REAL.listdir(str(below / "kept"), str(below)) == [], "it is not kept behind the block, an error or not"


def test_a_guard_lasts_until_each_who_asked_for_it_is_done(tmp_path: Path) -> None:
    root, victim = tmp_path / "store", tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_bytes(b"precious")
    (root / "index").mkdir(parents=True)
    (root / "index" / "deep").symlink_to(victim)
    path = str(root / "index" / "deep" / "file")
    REAL.guard(str(root))
    REAL.guard(str(root))
    REAL.guard(str(tmp_path / "st"))  # a name that the other begins with
    for _ in range(2):
        with pytest.raises(FlintError) as refused:
            REAL.open_write(path)
        assert str(refused.value) == (
            f"{path}: it, or a directory on the way to it, is a symbolic link or of the wrong kind; FlintMQ writes "
            "only to what a store holds itself: put the data there, or name the place by a storePath key"
        )
        REAL.unguard(str(root))
    REAL.unguard(str(root))
    REAL.close(REAL.open_write(path))


def test_guarded_paths_are_made_moved_and_removed_as_others(tmp_path: Path) -> None:
    root = tmp_path / "store"
    REAL.guard(str(root))
    folder = str(root / "consumequeue" / "T" / "0")
    REAL.make_folder(folder)
    REAL.mkdirs(folder)
    REAL.close(REAL.create(f"{folder}/a", 100))
    with pytest.raises(FileExistsError):
        REAL.create(f"{folder}/a", 100)
    with pytest.raises(FileNotFoundError) as gone:
        REAL.open_write(f"{folder}/b")
    assert gone.value.filename == f"{folder}/b", "the whole path is told"
    REAL.rename(f"{folder}/a", f"{folder}/b")
    REAL.rename(f"{folder}/b", str(root / "b"))
    REAL.rename(str(root / "b"), f"{folder}/b")
    REAL.sync_dir(folder)
    assert REAL.listdir(folder) == ["b"] and REAL.size(f"{folder}/b") == 100
    REAL.unlink(f"{folder}/b")
    assert REAL.listdir(folder) == []


def test_a_guarded_file_is_written_where_it_is_and_may_be_read_as_the_umask_allows(tmp_path: Path) -> None:
    root, folder = tmp_path / "store", tmp_path / "store" / "timer" / "a" / "b" / "c"
    REAL.guard(str(root))
    REAL.mkdirs(str(folder))
    before = os.umask(0)
    try:
        REAL.close(REAL.create(str(folder / "file"), 4))
    finally:
        os.umask(before)
    assert (folder / "file").stat().st_mode & 0o777 == 0o666
    fd = REAL.open_write(str(folder / "file"))
    REAL.pwrite(fd, b"data", 0)
    REAL.close(fd)
    assert (folder / "file").read_bytes() == b"data"


def test_a_direct_sub_directory_may_be_a_link(tmp_path: Path) -> None:
    """An operator puts the index on another disk; below the link none is followed."""
    root, disk = tmp_path / "store", tmp_path / "disk"
    disk.mkdir()
    root.mkdir()
    (root / "index").symlink_to(disk)
    (disk / "deep").symlink_to(tmp_path)
    REAL.guard(str(root))
    REAL.close(REAL.create(str(root / "index" / "file"), 4))
    REAL.close(REAL.open_write(str(root / "index" / "file")))
    REAL.sync_dir(str(root / "index"))
    assert REAL.listdir(str(root / "index")) == ["deep", "file"] and (disk / "file").stat().st_size == 4
    with pytest.raises(FlintError, match="symbolic link"):
        REAL.create(str(root / "index" / "deep" / "file"), 4)


@pytest.mark.parametrize("guarded", [True, False])
@pytest.mark.parametrize(("number", "passes"), [(errno.EMFILE, True), (errno.ENOMEM, True), (errno.EIO, False)])
def test_a_lack_of_descriptors_or_memory_may_pass(
    guarded: bool, number: int, passes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "store" / "consumequeue" / "T"
    folder.mkdir(parents=True)
    (folder / "file").write_bytes(b"data")
    if guarded:
        REAL.guard(str(tmp_path / "store"))

    def refuse(path: str, *_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number), path)

    for call, path in ((REAL.open_write, folder / "file"), (REAL.sync_dir, folder)):
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", refuse)
            patch.setattr(filesystem, "of_system", lambda error: True)  # `refuse` has a frame of its own
            with pytest.raises(OSError) as refused:
                call(str(path))
        error = refused.value
        assert isinstance(error, NotOpened) is passes
        assert (error.errno, error.strerror, error.filename) == (number, os.strerror(number), str(path))
