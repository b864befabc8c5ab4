"""What Python's mmap does not offer: populating, locking, advice; each refusal is an OSError."""

from __future__ import annotations

import errno
import mmap
import resource
import sys
from pathlib import Path

import pytest

from flintmq.storage import memory

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
    import ctypes

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
    memory.advise(map_, 0, PAGE * 32, memory.MADV_POPULATE_WRITE)
    assert resident(map_) >= 32 * PAGE // 1024
    assert map_[: PAGE * 3] == bytes(PAGE * 3) and map_[PAGE * 3] == 7
    map_.close()


def test_a_range_that_is_no_pages_of_the_map_is_refused(tmp_path: Path):
    map_ = mapped(tmp_path / "file", 2)
    for position, count in [(1, PAGE), (-PAGE, PAGE), (PAGE, 2 * PAGE), (0, -1)]:
        with pytest.raises(ValueError, match="no pages of a map"):
            memory.advise(map_, position, count, memory.MADV_WILLNEED)
    memory.advise(map_, PAGE, 0, memory.MADV_WILLNEED)
    map_.close()


def test_an_unknown_advice_is_an_error_and_the_map_can_still_be_closed(tmp_path: Path):
    map_ = mapped(tmp_path / "file", 2)
    with pytest.raises(OSError, match="Invalid argument"):
        memory.advise(map_, 0, PAGE, 9999)
    map_.close()


def test_locking_is_undone_and_over_the_limit_an_error(tmp_path: Path):
    map_ = mapped(tmp_path / "file", 4)
    memory.lock(map_)
    memory.unlock(map_)
    memory.lock(map_, on_fault=True)
    memory.unlock(map_)
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, hard))
    try:
        memory.lock(map_)
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
        memory.start_sync(file.fileno(), 0, 3 * PAGE)
    with pytest.raises(OSError, match="Bad file descriptor"):
        memory.start_sync(-1, 0, PAGE)


def test_other_systems_are_told_from_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What a libc or a system lacks is ENOSYS, which callers take for `no`."""
    map_ = mapped(tmp_path / "file", 1)

    class Bare:
        """A libc without any of the functions."""

    monkeypatch.setattr(memory, "_libc", Bare)
    for call in (
        lambda: memory.lock(map_),
        lambda: memory.unlock(map_),
        lambda: memory.advise(map_, 0, PAGE, 1),
        lambda: memory.start_sync(0, 0, PAGE),
    ):
        with pytest.raises(OSError) as caught:
            call()
        assert caught.value.errno == errno.ENOSYS
    monkeypatch.undo()
    monkeypatch.setattr(memory.sys, "platform", "darwin")
    memory._libc.cache_clear()
    with pytest.raises(OSError, match="are Linux's"):
        memory.lock(map_)
    memory.advise(map_, 0, 0, 1)  # nothing to do
    map_.close()
