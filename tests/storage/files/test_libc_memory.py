"""What Python's mmap does not offer: populating, locking, advice; each refusal is an OSError."""

import contextlib
import ctypes
import errno
import mmap
import os
import platform
import resource
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from flintmq.storage.files import libc_memory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these calls are Linux's")
PAGE = mmap.PAGESIZE


def mapped(path: Path, pages: int) -> mmap.mmap:
    """A file of so many pages, all mapped."""
    path.write_bytes(b"")
    with path.open("r+b") as file:
        file.truncate(pages * PAGE)
        return mmap.mmap(file.fileno(), pages * PAGE)


def resident(map_: mmap.mmap) -> int:
    """KiB of this map that are present, from /proc."""
    export = ctypes.c_char.from_buffer(map_)
    address = ctypes.addressof(export)
    del export
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    for line in lines:
        if line.startswith(f"{address:x}-".rjust(13, "0")) or line.split("-")[0].lstrip("0") == f"{address:x}":
            return next(int(rest.split()[1]) for rest in lines if rest.startswith("Rss:"))
    raise AssertionError("the map is not there")


def test_populated_pages_are_present_and_hold_what_they_held(tmp_path: Path):
    map_ = mapped(tmp_path / "file", 64)
    map_[PAGE * 3] = 7
    libc_memory.advise(map_, 0, PAGE * 32, libc_memory.MADV_POPULATE_WRITE)
    assert resident(map_) >= 32 * PAGE // 1024
    assert map_[: PAGE * 3] == bytes(PAGE * 3) and map_[PAGE * 3] == 7
    map_.close()


def test_a_range_that_is_no_pages_of_the_map_is_refused(tmp_path: Path):
    map_ = mapped(tmp_path / "file", 2)
    for position, count in [(1, PAGE), (-PAGE, PAGE), (PAGE, 2 * PAGE), (0, -1)]:
        with pytest.raises(ValueError, match="not whole pages of a map"):
            libc_memory.advise(map_, position, count, libc_memory.MADV_WILLNEED)
    libc_memory.advise(map_, PAGE, 0, libc_memory.MADV_WILLNEED)
    map_.close()


def test_an_unknown_advice_is_an_error_and_the_map_can_still_be_closed(tmp_path: Path):
    map_ = mapped(tmp_path / "file", 2)
    with pytest.raises(OSError, match="Invalid argument"):
        libc_memory.advise(map_, 0, PAGE, 9999)
    map_.close()


def test_locking_is_undone_and_over_the_limit_an_error(tmp_path: Path):
    map_ = mapped(tmp_path / "file", 4)
    libc_memory.lock(map_)
    libc_memory.unlock(map_)
    libc_memory.lock(map_, on_fault=True)
    libc_memory.unlock(map_)
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, hard))
    try:
        libc_memory.lock(map_)
    except OSError:
        pass
    else:
        with Path("/proc/self/status").open() as status:
            can = int(next(line for line in status if line.startswith("CapEff:")).split()[1], 16)
        assert can & 1 << 14, "only who has CAP_IPC_LOCK may lock without a limit"
    finally:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (soft, hard))
    map_.close()


def test_the_disk_is_told_to_begin_or_the_refusal_is_an_error(tmp_path: Path):
    with (tmp_path / "file").open("wb") as file:
        file.write(bytes(3 * PAGE))
        file.flush()
        libc_memory.start_sync(file.fileno(), 0, 3 * PAGE)
    with pytest.raises(OSError, match="Bad file descriptor"):
        libc_memory.start_sync(-1, 0, PAGE)


def test_a_file_system_is_told_to_write_or_the_refusal_is_an_error(tmp_path: Path):
    with (tmp_path / "file").open("wb") as file:
        libc_memory.sync_file_system(file.fileno())
    with pytest.raises(OSError, match="Bad file descriptor"):
        libc_memory.sync_file_system(-1)


def test_other_systems_are_told_from_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What a libc or a system lacks is ENOSYS, which callers take for `no`."""
    map_ = mapped(tmp_path / "file", 1)

    class Bare:
        """A libc without any of the functions."""

    monkeypatch.setattr(libc_memory, "_libc", Bare)
    for call in (
        lambda: libc_memory.lock(map_),
        lambda: libc_memory.unlock(map_),
        lambda: libc_memory.advise(map_, 0, PAGE, 1),
        lambda: libc_memory.start_sync(0, 0, PAGE),
        lambda: libc_memory.sync_file_system(0),
    ):
        with pytest.raises(OSError) as caught:
            call()
        assert (caught.value.errno, caught.value.strerror) == (errno.ENOSYS, "Function not implemented")
    monkeypatch.undo()
    monkeypatch.setattr(libc_memory.sys, "platform", "darwin")
    libc_memory._libc.cache_clear()
    for call in (lambda: libc_memory.lock(map_), lambda: libc_memory.unlock(map_)):
        told = "mapped memory can be locked and populated on Linux only"
        with pytest.raises(OSError, match=rf"^\[Errno {errno.ENOSYS}\] {told}$"):
            call()
    libc_memory.advise(map_, 0, 0, 1)  # nothing to do
    map_.close()


class Recorder:
    """A libc that notes what it is asked, and answers what a test wants."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.error = 0

    def __getattr__(self, name: str) -> object:
        def function(*values: object) -> int:
            self.calls.append((name, *(getattr(value, "value", value) for value in values)))
            ctypes.set_errno(self.error)
            return -1 if self.error else 0

        return function


def test_what_the_system_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Functions and numbers as in Linux's man pages (mlock2: MLOCK_ONFAULT is 1; SYNC_FILE_RANGE_WRITE is 2)."""
    libc = Recorder()
    monkeypatch.setattr(libc_memory, "_libc", lambda: libc)
    map_ = mapped(tmp_path / "file", 3)
    start = ctypes.addressof(ctypes.c_char.from_buffer(map_))
    libc_memory.advise(map_, PAGE, 2 * PAGE, 4)
    libc_memory.advise(map_, 2 * PAGE, 1, 3)
    libc_memory.lock(map_)
    libc_memory.lock(map_, on_fault=True)
    libc_memory.unlock(map_)
    libc_memory.start_sync(5, 1 << 40, 1 << 33)
    libc_memory.sync_file_system(6)
    assert libc.calls == [
        ("madvise", start + PAGE, 2 * PAGE, 4),
        ("madvise", start + 2 * PAGE, 1, 3),
        ("mlock", start, 3 * PAGE),
        ("mlock2", start, 3 * PAGE, 1),
        ("munlock", start, 3 * PAGE),
        ("sync_file_range", 5, 1 << 40, 1 << 33, 2),
        ("syncfs", 6),
    ]
    libc.error = errno.ENOMEM
    for call in (
        lambda: libc_memory.lock(map_),
        lambda: libc_memory.start_sync(5, 0, 1),
        lambda: libc_memory.sync_file_system(5),
    ):
        with pytest.raises(OSError) as caught:
            call()
        assert (caught.value.errno, caught.value.strerror) == (errno.ENOMEM, "Cannot allocate memory")
    map_.close()


def test_what_is_wrong_with_a_range_is_told(tmp_path: Path):
    map_ = mapped(tmp_path / "file", 2)
    with pytest.raises(ValueError) as caught:
        libc_memory.advise(map_, PAGE, 2 * PAGE, 1)
    assert str(caught.value) == f"madvise: bytes {PAGE} to {3 * PAGE} are not whole pages of a map of {2 * PAGE}"
    with pytest.raises(ValueError, match="^madvise: bytes 1 to 2 are"):
        libc_memory.advise(map_, 1, 1, 1)
    libc_memory.advise(map_, 2 * PAGE, 0, 1)  # nothing, at the end
    map_.close()


@pytest.mark.parametrize(("kind", "width"), [("B", 1), ("i", 4), ("q", 8)])
def test_zeros_are_numbers_of_a_width(kind: str, width: int):
    found = libc_memory.zeros(kind, 10)
    assert (found.format, found.itemsize, len(found), found.readonly) == (kind, width, 10, False)
    assert found.tolist() == [0] * 10
    found[9] = 1
    assert len(libc_memory.zeros(kind, 1)) == len(libc_memory.zeros(kind, 0)) == 1, "a map of nothing cannot be"
    if os.fork() == 0:
        found[0] = 7
        os._exit(0)
    os.wait()
    assert found[0] == 0, "what a child stores is its own"


def test_several_zeros_share_a_map_and_no_page(monkeypatch: pytest.MonkeyPatch):
    asked, make = [], mmap.mmap

    def recorded(*rest: int, **more: int) -> mmap.mmap:
        asked.append((rest, more))
        return make(*rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(mmap, "mmap", recorded)
        found = libc_memory.zeros_of(("B", PAGE + 1), ("i", 3), ("q", PAGE))
    assert asked == [((-1, 11 * PAGE), {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS})]
    assert [(array.format, len(array)) for array in found] == [("B", PAGE + 1), ("i", 3), ("q", PAGE)]
    places = [ctypes.addressof(ctypes.c_char.from_buffer(array)) for array in found]
    assert [at - places[0] for at in places] == [0, 2 * PAGE, 3 * PAGE] and places[0] % PAGE == 0


def test_memory_that_is_mapped_twice():
    """The same bytes twice, one after the other, shared, for reading and writing; no descriptor is left."""
    size = 4 * PAGE
    with contextlib.closing(libc_memory.map_twice(size)) as memory:
        assert len(memory) == 2 * size and memory[:] == bytes(2 * size)
        memory[size - 2 : size + 2] = b"over"
        assert (memory[:2], memory[size : size + 2], memory[-2:]) == (b"er", b"er", b"ov")
        memory[size : size + 5] = b"again"
        assert memory[:5] == b"again"
        if os.path.exists("/proc/self/fd"):
            # Not all descriptors are compared: the collector may close those of an earlier test meanwhile.
            open_files = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
            assert open_files and not any("memfd:flintmq-pool" in name for name in open_files)
            maps = [
                line.split()
                for line in Path("/proc/self/maps").read_text().splitlines()
                if "memfd:flintmq-pool" in line
            ]
            assert [words[1] for words in maps] == ["rw-s", "rw-s"] and [words[2] for words in maps] == ["00000000"] * 2
    libc_memory.map_twice(PAGE).close()


@pytest.mark.parametrize("size", [PAGE - 1, PAGE + 1, PAGE + PAGE // 2])
def test_memory_of_no_whole_pages_is_not_mapped_twice(size: int):
    with pytest.raises(OSError) as refused:
        libc_memory.map_twice(size)
    assert (refused.value.errno, refused.value.strerror) == (errno.ENOSYS, os.strerror(errno.ENOSYS))


def test_a_system_without_files_in_memory_maps_nothing_twice(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(os, "memfd_create", raising=False)
    with pytest.raises(OSError) as refused:
        libc_memory.map_twice(PAGE)
    assert (refused.value.errno, refused.value.strerror) == (errno.ENOSYS, os.strerror(errno.ENOSYS))


def test_memory_that_the_system_does_not_give_is_an_error_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch):
    """The first or the second map is refused; what was reserved is unmapped and the file closed."""
    asked = []

    class Refusing:
        restype, argtypes = None, ()

        def __call__(self, at: int, size: int, *more: int) -> int:
            asked.append((at, size, *more[:2]))
            ctypes.set_errno(errno.ENOMEM)
            return at if len(asked) == 1 else -1

    monkeypatch.setattr(libc_memory, "_libc", lambda: SimpleNamespace(mmap=Refusing()))
    before = sorted(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else []
    with pytest.raises(OSError) as refused:
        libc_memory.map_twice(4 * PAGE)
    assert (refused.value.errno, refused.value.strerror) == (errno.ENOMEM, os.strerror(errno.ENOMEM))
    both = mmap.PROT_READ | mmap.PROT_WRITE, libc_memory.MAP_SHARED | libc_memory.MAP_FIXED
    assert [(size, *more) for _, size, *more in asked] == [(4 * PAGE, *both)] * 2
    assert asked[1][0] - asked[0][0] == 4 * PAGE
    assert not before or sorted(os.listdir("/proc/self/fd")) == before


def descriptors() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("size", [1, PAGE - 1, PAGE, 3 * PAGE + 5])
def test_a_map_of_a_file_shows_it_and_holds_no_descriptor(tmp_path: Path, size: int):
    path = tmp_path / "file"
    path.write_bytes(bytes(range(1, 251)) * 60)
    before = descriptors()
    fd = os.open(path, os.O_RDONLY)
    memory = libc_memory.map_file(fd, size)
    os.close(fd)
    assert descriptors() == before
    assert memory[:] == path.read_bytes()[:size] and len(memory) == size
    with memoryview(memory) as view:
        assert view.readonly and view.nbytes == size
    with open(path, "r+b") as file:  # it is the file, not a copy
        file.write(b"new")
    assert memory[: min(size, 3)] == b"new"[:size]
    assert str(path) in Path("/proc/self/maps").read_text()
    path.unlink()
    assert memory[size - 1] == (bytes(range(1, 251)) * 60)[size - 1] or size == 1
    memory.close()
    assert str(path) not in Path("/proc/self/maps").read_text(), "all of it is unmapped"


def test_a_map_longer_than_its_file_or_of_nothing_is_refused(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"short")
    with open(tmp_path / "file", "rb") as file:
        for size in (0, -1, 6, PAGE + 1):
            with pytest.raises(ValueError, match="map of|greater than file size"):
                libc_memory.map_file(file.fileno(), size)


def test_a_file_that_cannot_be_mapped_is_an_error_and_leaves_nothing(tmp_path: Path):
    """A descriptor opened for writing alone."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * PAGE)
    fd = os.open(path, os.O_WRONLY)
    maps = Path("/proc/self/maps").read_text().count("\n")
    try:
        for _ in range(50):
            with pytest.raises(OSError) as refused:
                libc_memory.map_file(fd, PAGE)
            assert refused.value.errno == errno.EACCES
    finally:
        os.close(fd)
    assert Path("/proc/self/maps").read_text().count("\n") < maps + 20


HOLES = """
import re, sys
from flintmq.storage.files import libc_memory
bytes(16 << 20)  # freed at once, which raises glibc's threshold
pieces = [(b"x" * (2 << 20), b"x" * 100_000) for _ in range(16)]
kept = [small for _, small in pieces]
del pieces
if sys.argv[1] == "returned":
    libc_memory.return_freed()
print(int(re.search(r"RssAnon:\\s+(\\d+)", open("/proc/self/status").read())[1]) >> 10)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another libc than glibc")
def test_freed_pieces_go_back_although_small_ones_stay_between_them():
    held, left = (
        int(subprocess.run([sys.executable, "-c", HOLES, word], check=True, capture_output=True, text=True).stdout)
        for word in ("held", "returned")
    )
    assert held - left > 24
