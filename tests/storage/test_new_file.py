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

CANNOT = ["EOPNOTSUPP", "EISDIR", "EINVAL", "EPERM", "EACCES", "EXDEV"]


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


def failing(monkeypatch: pytest.MonkeyPatch, name: str, error: str, when: Any = lambda *_: True) -> list[int]:
    """Let a function of `os` fail where `when` says so of its arguments; return a list that grows with each failure."""
    real, struck = getattr(os, name), list[int]()

    def call(*of: Any, **more: Any) -> Any:
        if when(*of):
            struck.append(1)
            raise OSError(getattr(errno, error), os.strerror(getattr(errno, error)))
        return real(*of, **more)

    monkeypatch.setattr(os, name, call)
    return struck


def unnamed(path: str, flags: int, *_: Any) -> bool:
    return flags & os.O_TMPFILE == os.O_TMPFILE


def test_whoever_lists_the_directory_meets_no_empty_file(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At no call on the way is there a name without the size: a kill there would leave it so."""
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


@pytest.mark.parametrize("error", CANNOT)
@pytest.mark.parametrize("name", ["open", "link"])
def test_a_system_without_unnamed_files_gets_the_name_first(
    place: Path, monkeypatch: pytest.MonkeyPatch, name: str, error: str
) -> None:
    struck, before = failing(monkeypatch, name, error, unnamed if name == "open" else lambda *_: True), descriptors()
    fd = REAL.create(str(place / "a"), 4096)
    assert struck == [1] and os.fstat(fd).st_size == 4096 and REAL.is_named(fd, str(place / "a"))
    os.close(fd)
    assert descriptors() == before


def test_a_system_that_never_heard_of_them(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "O_TMPFILE")
    fd = REAL.create(str(place / "a"), 4096)
    assert os.fstat(fd).st_size == 4096
    os.close(fd)


@pytest.mark.parametrize("call", ["open an unnamed file", "ftruncate", "link", "open by its name"])
@pytest.mark.parametrize("error", ["ENOSPC", "EIO", "EMFILE", "EROFS"])
def test_no_failure_leaves_a_name_or_a_descriptor(
    place: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: str
) -> None:
    before = descriptors()
    when = {
        "open an unnamed file": unnamed,
        "open by its name": lambda path, flags, *_: os.path.basename(path) == "a",
    }.get(call, lambda *_: True)
    struck = failing(monkeypatch, call.split()[0], error, when)
    with pytest.raises(OSError) as told:
        REAL.create(str(place / "a"), 4096)
    monkeypatch.undo()
    assert (told.value.errno, told.value.filename) == (getattr(errno, error), str(place / "a")), "of the file, no other"
    assert struck == [1] and os.listdir(place) == [] and descriptors() == before


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
