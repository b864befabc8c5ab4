"""New files: the name appears with the size; where that cannot be, the name comes first; no failure leaves a name."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flintmq.storage import new_file
from flintmq.storage.filesystem import REAL


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture(params=["guarded", "open to links"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A directory in which files are made, in a store that is guarded and in one that is not."""
    (tmp_path / "commitlog").mkdir()
    if request.param == "guarded":
        REAL.guard(str(tmp_path))
    yield tmp_path / "commitlog"
    REAL.unguard(str(tmp_path))


def failing(monkeypatch: pytest.MonkeyPatch, name: str, error: str, when: Any) -> list[int]:
    """Let a function of `os` fail where `when` says so of its arguments; return a list that grows with each failure."""
    real, struck = getattr(os, name), list[int]()

    def call(*of: Any, **more: Any) -> Any:
        if when(*of):
            struck.append(1)
            raise OSError(getattr(errno, error), os.strerror(getattr(errno, error)))
        return real(*of, **more)

    monkeypatch.setattr(os, name, call)
    return struck


def always(*_: Any) -> bool:
    return True


def unnamed(path: str, flags: int, *_: Any) -> bool:
    return flags & os.O_TMPFILE == os.O_TMPFILE


def test_whoever_lists_the_directory_meets_no_empty_file(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At no call on the way is there a name without the size: a kill there would leave it so."""
    try:
        os.close(os.open(place, os.O_RDWR | os.O_TMPFILE))
    except OSError as error:
        pytest.skip(f"the file system of {place} has no unnamed files: {error.strerror}")
    seen: list[list[int]] = []
    for name in ("open", "ftruncate", "link", "close"):
        real = getattr(os, name)

        def call(*of: Any, real: Any = real, **more: Any) -> Any:
            seen.append([path.stat().st_size for path in place.iterdir()])
            return real(*of, **more)

        monkeypatch.setattr(os, name, call)
    fd = REAL.create(str(place / "a"), 4096)
    assert [4096] in seen and [] in seen and all(sizes in ([], [4096]) for sizes in seen)
    monkeypatch.undo()
    assert os.fstat(fd).st_size == 4096 and os.readlink(f"/proc/self/fd/{fd}") == str(place / "a"), "not (deleted)"
    os.pwrite(fd, b"x", 4095)
    os.close(fd)
    assert (place / "a").read_bytes() == bytes(4095) + b"x" and (place / "a").stat().st_nlink == 1


@pytest.mark.parametrize("error", ["EOPNOTSUPP", "EISDIR", "ENOENT", "ELOOP", "ENOSYS", "EPERM", "EMFILE", "EIO"])
@pytest.mark.parametrize("name", ["open", "link"])
def test_a_system_without_unnamed_files_gets_the_name_first(
    place: Path, monkeypatch: pytest.MonkeyPatch, name: str, error: str
) -> None:
    before, struck = descriptors(), failing(monkeypatch, name, error, unnamed if name == "open" else always)
    fd = REAL.create(str(place / "a"), 4096)
    assert struck == [1] and os.fstat(fd).st_size == 4096 and REAL.is_named(fd, str(place / "a"))
    os.close(fd)
    assert descriptors() == before


def test_a_system_that_never_heard_of_them(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "O_TMPFILE")
    fd = REAL.create(str(place / "a"), 4096)
    assert os.fstat(fd).st_size == 4096
    os.close(fd)


def test_a_kernel_that_forgets_the_umask(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux before 6.0 does so for unnamed files where a file system has no access lists."""
    real = os.open

    def forgetful(path: str, flags: int, mode: int = 0o777, **more: Any) -> int:
        fd = real(path, flags, mode, **more)
        if unnamed(path, flags):
            os.fchmod(fd, mode)
        return fd

    monkeypatch.setattr(os, "open", forgetful)
    before = os.umask(0o027)
    try:
        os.close(REAL.create(str(place / "a"), 4096))
    finally:
        os.umask(before)
    assert (place / "a").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("name", ["open", "ftruncate"])
@pytest.mark.parametrize("error", ["ENOSPC", "EIO", "EMFILE", "EROFS"])
def test_no_failure_leaves_a_name_or_a_descriptor(
    place: Path, monkeypatch: pytest.MonkeyPatch, name: str, error: str
) -> None:
    before = descriptors()
    made = unnamed if name == "open" else always
    struck = failing(monkeypatch, name, error, lambda *of: made(*of) or (name == "open" and of[1] & os.O_CREAT))
    with pytest.raises(OSError) as told:
        REAL.create(str(place / "a"), 4096)
    monkeypatch.undo()
    assert told.value.errno == getattr(errno, error)
    assert struck == [1, 1] and os.listdir(place) == [] and descriptors() == before


@pytest.mark.parametrize("what", ["it cannot be opened", "it is gone", "another has it", "a link has it"])
def test_a_name_that_is_not_the_files_any_more(place: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """Whatever happens to the name, the descriptor is that of the new file, and the name stays as it is."""
    (place.parent / "other").write_bytes(b"of somebody else")
    before, link = descriptors(), os.link

    def linked(*of: Any, **more: Any) -> None:
        link(*of, **more)
        if what in ("it is gone", "a link has it"):
            (place / "a").unlink()
        if what == "another has it":
            os.replace(place.parent / "other", place / "a")
        elif what == "a link has it":
            (place / "a").symlink_to(place.parent / "other")

    monkeypatch.setattr(os, "link", linked)
    if what == "it cannot be opened":
        failing(monkeypatch, "open", "EMFILE", lambda path, *_: os.path.basename(path) == "a")
    fd = REAL.create(str(place / "a"), 4096)
    monkeypatch.undo()
    assert os.fstat(fd).st_size == 4096 and os.pread(fd, 5, 0) == bytes(5)
    assert REAL.is_named(fd, str(place / "a")) is (what == "it cannot be opened")
    assert what not in ("another has it", "a link has it") or (place / "a").read_bytes() == b"of somebody else"
    os.close(fd)
    assert descriptors() == before


@pytest.mark.parametrize("what", ["file", "link", "directory"])
def test_what_has_the_name_stays(place: Path, what: str) -> None:
    other = place / "a"
    if what == "file":
        other.write_bytes(b"mine")
    elif what == "link":
        other.symlink_to(place / "nothing")
    else:
        other.mkdir()
    before = descriptors()
    with pytest.raises(FileExistsError) as told:
        REAL.create(str(other), 4096)
    assert told.value.filename == str(other) and os.listdir(place) == ["a"] and descriptors() == before
    assert what != "file" or other.read_bytes() == b"mine"


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        REAL.create(str(tmp_path / "nowhere" / "a"), 4096)


def test_a_name_of_this_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    os.close(new_file.create("a", 10, None))
    assert (tmp_path / "a").stat().st_size == 10
