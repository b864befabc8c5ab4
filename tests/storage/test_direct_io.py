"""The transient pool that writes past the page cache: whole blocks, refusals, and the newest bytes from the ring."""

from __future__ import annotations

import errno
import logging
import mmap
import os
from pathlib import Path

import pytest

from flintmq import Message, MessageStore, UsageError, open_store
from flintmq.forensics.verify.run import verify
from flintmq.kernels import ring as kernel
from flintmq.storage.allocation import AllocationService
from flintmq.storage.filesystem import REAL, Effects
from flintmq.storage.mapped_file import MappedFile
from flintmq.storage.mapped_file_queue import MappedFileQueue
from flintmq.storage.transient_pool import TransientStorePool
from tests.storage.test_transient_pool import SIZE, store
from tests.support.faults import Faulty

DATA = bytes(range(1, 251)) * 200
KERNEL_AND_PYTHON = pytest.mark.parametrize("effects", [REAL, Faulty()], ids=["kernel", "python"])
POOL = {"transientStorePoolEnable": "true", "transientStorePoolSize": "1", "mappedFileSizeCommitLog": str(16 * SIZE)}


class Recorded(Faulty):
    """The real disk; notes which writes were direct ones, and may refuse these."""

    def __init__(self, error: int = 0) -> None:
        super().__init__()
        self.error, self.direct = error, set[int]()
        self.done: list[tuple[bool, int, int]] = []

    def open_direct(self, fd: int) -> int:
        found = super().open_direct(fd)
        self.direct.add(found)
        return found

    def pwrite(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> None:
        self.done.append((fd in self.direct, position, len(data)))
        if fd in self.direct and self.error:
            raise OSError(self.error, os.strerror(self.error))
        super().pwrite(fd, data, position)


@pytest.fixture(autouse=True)
def _needs_direct_io(tmp_path: Path) -> None:
    probe = os.open(tmp_path / "probe", os.O_RDWR | os.O_CREAT)
    try:
        os.close(REAL.open_direct(probe))
    except OSError as error:
        pytest.skip(f"the file system of {tmp_path} has no direct writes ({error.strerror})")
    finally:
        os.close(probe)
        (tmp_path / "probe").unlink()


def direct_file(folder: Path, effects: Effects, size: int = 4 * SIZE) -> tuple[TransientStorePool, MappedFile]:
    pool = TransientStorePool(1, min(size, 4 * SIZE), effects, direct=True, place="log")
    file = MappedFile.create(str(folder / "0"), 0, size, effects)
    file.enter_ring(pool)
    pool.make_room = file.commit_piece
    return pool, file


def test_whole_blocks_are_written_directly_and_the_rest_through_the_page_cache(tmp_path: Path):
    """The block that a direct write begins with is repeated, so that it is whole."""
    effects = Recorded()
    pool, file = direct_file(tmp_path, effects)
    for end in (100, 5000, 8192, 8200, 20_000):
        store(file, DATA[file.wrote : end])
        file.commit(end)
        assert (tmp_path / "0").read_bytes()[: end + 1] == DATA[:end] + b"\0"
    assert effects.done == [
        (False, 0, 100),
        (True, 0, 4096), (False, 4096, 904),
        (True, 4096, 4096),
        (False, 8192, 8),
        (True, 8192, 8192), (False, 16_384, 3616),
    ]  # fmt: skip
    file.close()
    pool.close()


@KERNEL_AND_PYTHON
def test_the_file_is_what_was_put_whatever_is_committed_when(tmp_path: Path, effects: Effects):
    """Over the ring's end several times, with pieces, commits and followers in turn, up to the file's last byte."""
    pool, file = direct_file(tmp_path, effects, 12 * SIZE)
    assert pool.ring.size < file.size
    data = os.urandom(12 * SIZE)
    for number, end in enumerate((*range(1009, 12 * SIZE, 1009), 12 * SIZE)):
        store(file, data[file.wrote : end])
        if number % 3 == 0:
            file.commit(end)
        elif number % 7 == 0:
            file.follow(1000)
        elif number % 11 == 0:
            file.commit_piece()
        assert bytes(file.view[: file.committed]) == data[: file.committed]
    file.commit(file.size)
    assert (tmp_path / "0").read_bytes() == data and not file.in_ring and not pool.ring.direct_refused
    file.close()
    pool.close()


def test_a_file_system_that_refuses_a_direct_write_is_written_through_the_page_cache(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    effects = Recorded(errno.EINVAL)
    pool, file = direct_file(tmp_path, effects)
    for end in (5000, 20_000):
        store(file, DATA[file.wrote : end])
        file.commit(end)
    assert (tmp_path / "0").read_bytes()[:20_001] == DATA[:20_000] + b"\0"
    assert effects.done == [(True, 0, 4096), (False, 0, 5000), (False, 5000, 15_000)]
    assert [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING] == [
        "log: no direct writes (the file system refuses: Invalid argument); the log is written through the page cache"
    ]
    file.close()
    pool.close()


def test_the_kernel_falls_back_too(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """Memory that is not aligned: the file system then refuses with EINVAL."""
    pool, file = direct_file(tmp_path, REAL)
    if not pool._native:
        pytest.skip("the kernels are not compiled here (make compile)")
    memory = mmap.mmap(-1, 2 * pool.ring.size + 4096)
    view = memoryview(memory)[1:]
    pool.ring.attach(view)
    view[:5000] = DATA[:5000]
    file.wrote = 5000
    file.commit(5000)
    assert pool.ring.direct_refused and (tmp_path / "0").read_bytes()[:5001] == DATA[:5000] + b"\0"
    file.wrote = 5001
    file.commit(5001)
    assert [r.getMessage() for r in caplog.records if "no direct writes" in r.getMessage()] == [
        "log: no direct writes (the file system refuses: Invalid argument); the log is written through the page cache"
    ]
    file.close()
    pool.close()
    view.release()


@pytest.mark.parametrize("at", [0, 1], ids=["direct", "rest"])
def test_a_direct_write_that_fails_commits_nothing_and_is_never_tried_again(tmp_path: Path, at: int):
    effects = Recorded(errno.EIO)
    if at:
        effects.error = 0
        effects.refuse("pwrite", error=errno.EIO, after=1)
    pool, file = direct_file(tmp_path, effects)
    store(file, DATA[:5000])
    for _ in range(2):
        with pytest.raises(OSError) as refused:
            file.commit(5000)
        assert refused.value.errno == errno.EIO
    assert file.committed == 0 and len(effects.done) == at + 1
    file.close()
    pool.close()


def test_the_kernel_tells_that_a_direct_write_failed(tmp_path: Path):
    pool, file = direct_file(tmp_path, REAL)
    if not pool._native:
        pytest.skip("the kernels are not compiled here (make compile)")
    store(file, DATA[:5000])
    right, file._direct_fd = file._direct_fd, 1 << 20
    with pytest.raises(OSError) as refused:
        file.commit(5000)
    assert refused.value.errno == errno.EBADF == pool.ring.error and file.committed == 0
    file._direct_fd = right
    file.close()
    pool.close()


def test_a_file_system_without_direct_writes_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    class Without(Faulty):
        def open_direct(self, fd: int) -> int:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    pool, file = direct_file(tmp_path, Without())
    second = MappedFile.create(str(tmp_path / "1"), file.size, file.size, pool.effects)
    second.enter_ring(pool)
    store(file, DATA[:5000])
    file.commit(5000)
    assert (tmp_path / "0").read_bytes()[:5000] == DATA[:5000] and not pool.direct
    assert len([r for r in caplog.records if "no direct writes" in r.getMessage()]) == 1
    for each in (file, second):
        each.close()
    pool.close()


@pytest.mark.parametrize(("start", "size"), [(0, 10_000), (1536, 4 * SIZE)], ids=["size", "begin"])
def test_files_that_blocks_do_not_divide_are_not_written_directly_and_it_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, start: int, size: int
):
    """Their blocks are not those that the ring keeps: a log may begin at any offset."""
    pool = TransientStorePool(1, 4 * SIZE, REAL, direct=True, place="log")
    file = MappedFile.create(str(tmp_path / "0"), start, size)
    file.enter_ring(pool)
    assert file.in_ring and file._direct_fd == -1 and not pool.direct
    assert [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING] == [
        "log: no direct writes (blocks of 4096 bytes do not divide its files); the log is written through the page "
        "cache"
    ]
    file.close()
    pool.close()


def test_both_descriptors_are_closed(tmp_path: Path):
    before = os.listdir("/proc/self/fd")
    pool, file = direct_file(tmp_path, REAL)
    assert len(os.listdir("/proc/self/fd")) > len(before)
    file.close()
    pool.close()
    assert os.listdir("/proc/self/fd") == before


# -- the newest bytes, from the ring ----------------------------------------------------------------------------------


def test_a_copy_is_what_was_put_or_there_is_none(tmp_path: Path):
    """What newer records may have replaced already is not handed out."""
    pool, file = direct_file(tmp_path, REAL, 64 * SIZE)
    if not pool._copies:
        assert not pool.copy(bytearray(1), 0, file)
        file.close()
        pool.close()
        pytest.skip("nothing is copied from the ring without compiled kernels or without a GIL")
    data, size = os.urandom(64 * SIZE), pool.ring.size
    kept = 0
    for end in range(1000, 64 * SIZE, 1000):
        store(file, data[file.wrote : end])
        for begin in (0, end - size, end - size // 2, end - 1000):
            into = bytearray(1000)
            if begin >= 0 and pool.copy(into, begin, file):
                assert into == data[begin : begin + 1000] and begin + size >= file.reserved
                kept += 1
        assert pool.copy(bytearray(1000), end - 1000, file)
    assert kept > 500
    assert not pool.copy(bytearray(size + 1), 0, file)
    assert not pool.copy(bytearray(0), file.wrote, file)
    file.close()
    pool.close()
    assert not pool.copy(bytearray(1), 0, file)


def test_bytes_that_were_never_in_the_ring_are_not_copied_from_it(tmp_path: Path):
    """A file left the ring for a large append; the next one is in it again."""
    queue = MappedFileQueue([str(tmp_path)], 4 * SIZE)
    queue.pool = pool = TransientStorePool(1, SIZE, direct=True)
    queue.allocation = AllocationService(queue.make_file, 4 * SIZE, REAL, pool=pool)
    pool.make_room = queue.commit_piece
    first = queue.append_file(0)
    store(first, b"a" * 100)
    store(first, b"b" * (first.size - 100))
    assert not first.in_ring
    second = queue.append_file(first.size)
    store(second, b"c" * 100)
    queue.commit(first.size + 100)
    assert second.in_ring and pool.ring.size == SIZE
    assert queue.read(first.size - 100, 100) == b"b" * 100 and queue.read(first.size, 100) == b"c" * 100
    assert not queue.copy_newest(bytearray(100), first.size - 100)
    assert queue.copy_newest(bytearray(100), first.size) == pool._copies
    queue.close()


def test_a_copy_during_which_the_next_file_came_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Puts store by the new file's room then, and what the copy was checked with is the old one's."""
    queue = MappedFileQueue([str(tmp_path)], SIZE)
    queue.pool = pool = TransientStorePool(4, SIZE, direct=True)
    queue.append_file(0).enter_ring(pool)
    first = queue.last
    assert first is not None
    store(first, b"a" * SIZE)

    def copied_while_it_rolls(into: bytearray, offset: int, last: MappedFile) -> bool:
        queue.append_file(SIZE)
        return True

    monkeypatch.setattr(pool, "copy", copied_while_it_rolls)
    assert not queue.copy_newest(bytearray(1), 0)
    monkeypatch.setattr(pool, "copy", lambda into, offset, last: True)
    assert not queue.copy_newest(bytearray(1), 0), "the new file is not in the ring"
    queue.close()


def test_bounds_of_a_copy(tmp_path: Path):
    pool, file = direct_file(tmp_path, REAL)
    for into, offset in ((bytearray(pool.ring.size + 1), 0), (bytearray(1), -1)):
        with pytest.raises((ValueError, NotImplementedError)):
            pool.ring.copy(into, offset, file)
    file.close()
    pool.close()


def test_direct_end_is_the_last_end_of_a_block():
    ring = kernel.Ring(SIZE)
    cases = {(0, 4095): 0, (0, 4096): 4096, (100, 4095): 100, (100, 4097): 4096, (4096, 4100): 4096, (5000, 8192): 8192}
    assert {case: ring.direct_end(*case) for case in cases} == cases


# -- a whole store ----------------------------------------------------------------------------------------------------


def test_a_store_is_the_same_with_and_without_direct_writes(tmp_path: Path):
    """Everything is dispatched, can be got at any moment, and is there when it is opened again."""
    with MessageStore(tmp_path / "store", POOL, direct_io=True) as opened:
        for number in range(4000):
            opened.put(Message("T", b"%d" % number + bytes(number % 700), "A", keys=f"k{number}"))
            if number % 50 == 0:
                assert opened.wait_dispatched()
                found = opened.get("T", 0, number)
                assert [m.body for m in found.messages][:1] == [b"%d" % number + bytes(number % 700)]
        assert opened.wait_dispatched() and len(opened._parts.files.files) > 3
        assert opened._parts.files.pool is not None and opened._parts.files.pool.direct
    with open_store(tmp_path / "store") as view:
        assert [m.body for m in view.read("T", 0, 0, 4000)] == [
            b"%d" % number + bytes(number % 700) for number in range(4000)
        ]
    assert not verify(tmp_path / "store").defects


def test_direct_io_without_the_pool_is_refused(tmp_path: Path):
    with pytest.raises(UsageError, match="set transientStorePoolEnable too"):
        MessageStore(tmp_path / "store", direct_io=True)
    assert not (tmp_path / "store").exists()
