"""The only file of a directory, read in one call."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flintmq.kernels import only_file as kernel


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def sparse(path: Path, data: bytes, size: int) -> None:
    path.write_bytes(data)
    os.truncate(path, size)


@pytest.mark.parametrize("name", ["00000000000000000000", "n" * 255, "名" * 85, ".hidden", "..more", "..."])
def test_the_only_file_is_read(tmp_path: Path, parent: int, name: str):
    (tmp_path / "one").mkdir()
    sparse(tmp_path / "one" / name, b"head", 60_000)
    if os.lseek(fd := os.open(tmp_path / "one" / name, os.O_RDONLY), 0, os.SEEK_DATA) != 0:
        pytest.fail("data at 0 is not told")
    os.close(fd)
    assert kernel.only_file(parent, b"one", 4096) == (os.fsencode(name), 60_000, b"head" + bytes(4092))
    assert kernel.only_file(parent, b"one", 60_000) == (os.fsencode(name), 60_000, b"head" + bytes(59_996))


@pytest.mark.parametrize("size", [0, 1, 4095])
def test_a_short_file_gives_what_it_has(tmp_path: Path, parent: int, size: int):
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "a").write_bytes(b"x" * size)
    assert kernel.only_file(parent, b"one", 4096) == (b"a", size, b"x" * size)


def many(folder: Path) -> None:
    for number in range(300):  # more than one look of the kernel's at the directory
        (folder / f"{number:020d}").touch()


OTHERS: dict[str, Callable[[Path], object]] = {
    "none": lambda folder: None,
    "two": lambda folder: [(folder / name).touch() for name in "ab"],
    "many": many,
    "a directory": lambda folder: (folder / "a").mkdir(),
    "a link": lambda folder: (folder / "a").symlink_to("/etc/hostname"),
    "a fifo": lambda folder: os.mkfifo(folder / "a"),
    "data after": lambda folder: (folder / "a").write_bytes(b"x" * 9000),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_anything_else_is_none(tmp_path: Path, parent: int, kind: str):
    (tmp_path / "one").mkdir()
    OTHERS[kind](tmp_path / "one")
    before = os.listdir("/proc/self/fd")
    assert kernel.only_file(parent, b"one", 4096) is None
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize("name", [b"missing", b"file", b"link", b"", b"x" * 5000])
def test_a_directory_that_cannot_be_entered_is_none(tmp_path: Path, parent: int, name: bytes):
    (tmp_path / "file").touch()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a").touch()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    assert kernel.only_file(parent, name, 4096) is None
    assert kernel.only_file(-1, name, 4096) is None


@pytest.mark.parametrize(("name", "count"), [(b"one", 0), (b"one", -1), (b"o\0ne", 1)])
def test_wrong_arguments_are_refused(parent: int, name: bytes, count: int):
    with pytest.raises(ValueError, match="read a byte or more"):
        kernel.only_file(parent, name, count)
