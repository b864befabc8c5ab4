"""The ring that takes new records first: its memory, its size, and files that are in it."""

import errno
import logging
import mmap
import signal
from pathlib import Path

import pytest

from flintmq.kernels import _select
from flintmq.storage.files.filesystem import REAL, Effects
from flintmq.storage.memory.mapped_file import MappedFile
from flintmq.storage.memory.transient_pool import TransientStorePool, ring_size
from tests.support.faults import Faulty
from tests.support.threads import alarms, at_once

SIZE = 16384
REAL_AND_FAULTY = pytest.mark.parametrize("effects", [REAL, Faulty()], ids=["kernel", "python"])


def file_in_ring(folder: Path, pool: TransientStorePool, start: int = 0) -> MappedFile:
    file = MappedFile.create(str(folder / str(start)), start, SIZE, pool.effects)
    file.enter_ring(pool)
    assert file.pool is pool and file.in_ring
    return file


def store(file: MappedFile, data: bytes) -> None:
    """What the commit log does."""
    if file.wrote + len(data) > file.reserved:
        file.reserve(file.wrote + len(data))
    with file.room(file.wrote) as room:
        room[: len(data)] = data
    file.wrote += len(data)


@pytest.mark.parametrize(
    ("count", "file_size", "size"),
    [(5, 1 << 30, 32 << 20), (1, 1 << 30, 32 << 20), (1, SIZE, SIZE), (3, SIZE, 4 * SIZE), (1, 4096, SIZE),
     (2, 5000, SIZE), (1, 20_000, 32768), (1, SIZE + 1, 32768), (1, 33 << 20, 32 << 20), (31, 1 << 20, 32 << 20)],
)  # fmt: skip
def test_the_ring_takes_no_more_than_so_many_files_and_32_mib(count: int, file_size: int, size: int):
    """Rounded up to a power of two; never below 16 KiB."""
    assert ring_size(count, file_size) == size == TransientStorePool(count, file_size).ring.size


def test_memory_is_taken_when_the_first_file_comes(tmp_path: Path):
    effects = Faulty()
    pool = TransientStorePool(5, SIZE, effects)
    assert effects.count("lock_memory") == effects.count("populate") == 0 and pool.view is None
    first, second = file_in_ring(tmp_path, pool), file_in_ring(tmp_path, pool, SIZE)
    assert effects.count("lock_memory") == effects.count("populate") == 1
    for file in (first, second):
        file.close()
    pool.close()
    assert pool.view is None


def test_the_memory_is_there_twice():
    pool = TransientStorePool(1, SIZE)
    view = pool.open()
    assert view is not None and len(view) == 2 * SIZE
    view[SIZE - 2 : SIZE + 2] = b"over"
    assert bytes(view[:2]) == b"er" == bytes(view[SIZE : SIZE + 2]) and bytes(view[-2:]) == b"ov"
    pool.close()


def test_a_system_that_does_not_lock_is_told_and_is_good_enough(caplog: pytest.LogCaptureFixture):
    effects = Faulty()
    effects.refuse("lock_memory", error=errno.ENOMEM)
    effects.refuse("populate", error=errno.EINVAL)
    pool = TransientStorePool(5, SIZE, effects, place="log")
    assert pool.open() is not None and pool.open() is not None
    assert [r.getMessage() for r in caplog.records if "not locked" in r.getMessage()] == [
        "log: the transient pool is not locked in memory (Cannot allocate memory) and may be swapped out; "
        "raise `ulimit -l`"
    ]
    pool.close()


def test_a_system_that_maps_nothing_twice_has_no_pool(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    """The file is then written by its map, and nothing else changes."""

    def refuse(self: Effects, size: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(Effects, "map_ring", refuse)
    pool = TransientStorePool(5, SIZE, place="log")
    for start in (0, SIZE):
        file = MappedFile.create(str(tmp_path / str(start)), start, SIZE)
        file.enter_ring(pool)
        assert file.pool is None and not file.in_ring
        store(file, b"hello")
        assert file.committed == 5 and bytes(file.view[:5]) == b"hello"
        file.close()
    assert [r.getMessage() for r in caplog.records] == [
        "log: no transient pool: memory cannot be mapped twice (Function not implemented)"
    ]


@REAL_AND_FAULTY
def test_what_is_stored_is_in_the_file_only_after_a_commit(tmp_path: Path, effects: Effects):
    pool = TransientStorePool(1, SIZE, effects)
    file = file_in_ring(tmp_path, pool)
    store(file, b"hello world")
    assert (file.wrote, file.committed, file.flushed) == (11, 0, 0)
    assert (tmp_path / "0").read_bytes() == bytes(SIZE)
    file.commit(5)
    assert file.committed == 5 and (tmp_path / "0").read_bytes()[:11] == b"hello" + bytes(6)
    file.commit(11)
    file.commit(11)
    assert file.committed == 11 and bytes(file.view[:11]) == b"hello world"
    with pytest.raises(AssertionError):
        file.commit(12)
    with pytest.raises(AssertionError):
        file.flush(12)
    file.check_invariants()
    file.close()
    pool.close()


def test_a_refused_commit_commits_nothing_and_is_never_tried_again(tmp_path: Path):
    effects = Faulty()
    pool = TransientStorePool(1, SIZE, effects)
    file = file_in_ring(tmp_path, pool)
    store(file, b"hello")
    effects.refuse("pwrite", error=errno.ENOSPC, times=1)
    for _ in range(2):
        with pytest.raises(OSError) as refused:
            file.commit(5)
        assert refused.value.errno == errno.ENOSPC
    assert file.committed == 0 and effects.count("pwrite") == 1
    assert (tmp_path / "0").read_bytes() == bytes(SIZE)
    file.close()
    pool.close()


def test_a_write_that_fails_is_told_by_the_kernel_too(tmp_path: Path):
    """A descriptor that is not open for writing; the errno is that of the first failure from then on."""
    pool = TransientStorePool(1, SIZE)
    file = file_in_ring(tmp_path, pool)
    store(file, b"hello")
    right = file.fd
    file.fd = 1 << 20
    for fd in (1 << 20, right):
        file.fd = fd
        with pytest.raises(OSError) as refused:
            file.commit(5)
        assert (refused.value.errno, refused.value.strerror) == (errno.EBADF, "Bad file descriptor")
    assert file.committed == 0 and pool.ring.error == errno.EBADF and (tmp_path / "0").read_bytes() == bytes(SIZE)
    file.close()
    pool.close()


@REAL_AND_FAULTY
def test_a_file_goes_over_the_ring_s_end_and_the_next_one_follows(tmp_path: Path, effects: Effects):
    """The second file begins in the middle of the ring. What the first one has no record for stays zeros."""
    pool = TransientStorePool(1, 20_000, effects)
    assert pool.ring.size == 32768
    first = file_in_ring(tmp_path, pool)
    data = bytes(range(1, 251)) * 66
    store(first, data[:10_000])
    first.end_here(10_000)
    first.wrote = SIZE
    second = file_in_ring(tmp_path, pool, SIZE)
    store(second, data[:SIZE])
    third = file_in_ring(tmp_path, pool, 2 * SIZE)
    first.commit(SIZE)
    assert first.pool is None and not first.in_ring and first.committed == SIZE
    assert pool.ring.drained == SIZE and second.committed == 0
    store(third, b"new" * 2000)
    second.commit(SIZE)
    third.commit(6000)
    assert (tmp_path / "0").read_bytes() == data[:10_000] + bytes(SIZE - 10_000)
    assert (tmp_path / str(SIZE)).read_bytes() == data[:SIZE]
    assert (tmp_path / str(2 * SIZE)).read_bytes() == b"new" * 2000 + bytes(SIZE - 6000)
    for file in (first, second, third):
        file.check_invariants()
        file.close()
    pool.close()


@REAL_AND_FAULTY
def test_d3_room_is_what_the_files_have(tmp_path: Path, effects: Effects):
    """A put that finds no room writes the oldest piece itself, and as many as it needs."""
    pool = TransientStorePool(1, SIZE, effects)
    file = MappedFile.create(str(tmp_path / "0"), 0, 4 * SIZE, effects)
    file.enter_ring(pool)
    pool.make_room = file.commit_piece
    for number in range(16):
        file.reserve(min(file.wrote + 4000, file.size))
        assert file.reserved <= pool.ring.drained + SIZE
        file.check_invariants()
        store(file, bytes([number]) * 4000)
    assert file.committed >= 3 * 16_000
    file.commit(64_000)
    assert (tmp_path / "0").read_bytes() == b"".join(bytes([n]) * 4000 for n in range(16)) + bytes(4 * SIZE - 64_000)
    file.close()
    pool.close()


@REAL_AND_FAULTY
def test_a_file_that_is_allocated_still_asks_for_room_in_the_ring(tmp_path: Path, effects: Effects):
    """What a file has allocated, by warm-up above all, is no room in the ring."""
    pool = TransientStorePool(1, SIZE, effects)
    file = MappedFile.create(str(tmp_path / "0"), 0, 4 * SIZE, effects)
    file.allocate_all()
    file.enter_ring(pool)
    pool.make_room = file.commit_piece
    for number in range(16):
        store(file, bytes([number + 1]) * 4000)
    file.commit(64_000)
    assert (tmp_path / "0").read_bytes()[:64_000] == b"".join(bytes([n + 1]) * 4000 for n in range(16))
    file.close()
    pool.close()


def test_an_interrupt_amid_a_write_leaves_the_ring_usable(tmp_path: Path):
    """Ctrl-C is no failure of the disk; what may be written already is written again, the same bytes."""

    class Interrupted(Faulty):
        left = 2

        def pwrite(self, fd: int, data: memoryview, position: int) -> None:
            super().pwrite(fd, data, position)
            self.left -= 1
            if self.left >= 0:
                raise KeyboardInterrupt

    pool = TransientStorePool(1, SIZE, Interrupted())
    file = file_in_ring(tmp_path, pool)
    store(file, b"hello")
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            file.commit(5)
        assert pool.ring.error == 0 and file.committed == 0
    file.commit(5)
    assert file.committed == 5 and (tmp_path / "0").read_bytes()[:6] == b"hello\0"
    file.close()
    pool.close()


def test_a_handler_that_raises_leaves_no_lock_taken(tmp_path: Path):
    """A signal comes while the kernel writes, thousands of times: the next write is never waited for."""
    pool = TransientStorePool(1, SIZE, Faulty())
    file = file_in_ring(tmp_path, pool)

    def handler(*_: object) -> None:
        raise InterruptedError("a handler of the program's own")

    with alarms(handler):
        for number in range(3000):
            with pytest.raises(InterruptedError):
                signal.setitimer(signal.ITIMER_REAL, 0.00002 + number % 50 * 0.000002)
                while True:
                    with pool.ring.guard:
                        pass
    at_once(lambda: pool.ring.begin(0))
    file.close()
    pool.close()


@REAL_AND_FAULTY
def test_a_full_file_that_was_followed_leaves_the_ring(tmp_path: Path, effects: Effects):
    """Whole pieces had brought its end to the file before the commit that asks for it."""
    pool = TransientStorePool(2, SIZE, effects)
    file = file_in_ring(tmp_path, pool)
    store(file, bytes(range(1, 129)) * 128)
    pool.follow(file, file.fd, 1000)
    assert pool.ring.drained == SIZE == file.committed and file.in_ring
    file.commit(SIZE)
    assert not file.in_ring and file.pool is None and bytes(file.view) == bytes(range(1, 129)) * 128
    file.close()
    pool.close()


def test_a_full_ring_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    pool = TransientStorePool(1, SIZE, place="log")
    file = MappedFile.create(str(tmp_path / "0"), 0, 4 * SIZE)
    file.enter_ring(pool)
    pool.make_room = file.commit_piece
    for position in range(4000, 4 * SIZE, 4000):
        file.reserve(position)
        file.wrote = position
    assert [r.getMessage() for r in caplog.records] == ["log: the transient pool is full: puts wait for the disk"]
    file.close()
    pool.close()


@REAL_AND_FAULTY
def test_an_append_larger_than_the_ring_goes_to_the_map(tmp_path: Path, effects: Effects):
    pool = TransientStorePool(1, SIZE, effects)
    file = MappedFile.create(str(tmp_path / "0"), 0, 4 * SIZE, effects)
    file.enter_ring(pool)
    pool.make_room = file.commit_piece
    file.reserve(5)
    store(file, b"hello")
    file.reserve(5 + 2 * SIZE)
    assert file.pool is None and not file.in_ring and file.committed == 5
    store(file, b"x" * 2 * SIZE)
    assert file.committed == file.wrote == 5 + 2 * SIZE
    file.commit(file.wrote)
    assert (tmp_path / "0").read_bytes() == b"hello" + b"x" * 2 * SIZE + bytes(2 * SIZE - 5)
    file.check_invariants()
    file.close()
    pool.close()


def test_free_buffers_are_the_free_part_of_the_ring(tmp_path: Path):
    pool = TransientStorePool(4, SIZE)
    assert pool.available(9 * SIZE, None) == 4
    file = file_in_ring(tmp_path, pool)
    assert [pool.available(end, file) for end in (0, 1, SIZE, SIZE + 1, 4 * SIZE, 9 * SIZE)] == [4, 3, 3, 2, 0, 0]
    store(file, bytes(SIZE))
    assert pool.available(SIZE, file) == 3
    file.commit(SIZE)
    assert pool.available(SIZE, file) == 4, "a full file that was written leaves the ring"
    file.close()
    pool.close()


def test_a_file_enters_before_its_first_byte_and_once(tmp_path: Path):
    pool = TransientStorePool(2, SIZE)
    file = file_in_ring(tmp_path, pool)
    with pytest.raises(AssertionError):
        file.enter_ring(pool)
    other = MappedFile.create(str(tmp_path / "other"), SIZE, SIZE)
    other.wrote = 5
    with pytest.raises(AssertionError):
        other.enter_ring(pool)
    for one in (file, other):
        one.close()
    pool.close()


def test_pieces_end_at_whole_mebibytes(tmp_path: Path):
    """A write of whole MiB costs half as much a byte as one of 64 KiB."""
    effects = Faulty()
    calls: list[tuple[int, int]] = []
    pool = TransientStorePool(8, 1 << 20, effects)
    file = MappedFile.create(str(tmp_path / "0"), 0, 8 << 20, effects)
    file.enter_ring(pool)
    real = effects.pwrite
    effects.pwrite = lambda fd, data, at: (calls.append((at, len(data))), real(fd, data, at))  # type: ignore[method-assign, assignment, func-returns-value]
    file.reserve(3 << 20)
    file.wrote = 100
    file.commit(100)
    file.wrote = (2 << 20) + 5
    file.commit(file.wrote)
    mib = 1 << 20
    assert calls == [(0, 100), (100, mib - 100), (mib, mib), (2 * mib, 5)]
    file.close()
    pool.close()


@REAL_AND_FAULTY
def test_following_writes_whole_pieces_only(tmp_path: Path, effects: Effects):
    """The rest is written with the next commit, or it would be written in many small pieces."""
    pool = TransientStorePool(8, 1 << 20, effects)
    file = MappedFile.create(str(tmp_path / "0"), 0, 8 << 20, effects)
    file.enter_ring(pool)
    file.reserve(4 << 20)
    file.wrote = (2 << 20) + 5
    pool.follow(file, file.fd, 60_000_000)  # it ends a millisecond after the last whole piece
    assert pool.ring.drained == 2 << 20
    assert file.committed == 0, "the first two MiB may end within a record"
    file.commit(file.wrote)
    assert file.committed == file.wrote
    file.close()
    pool.close()


@pytest.mark.parametrize("size", [0, 12288, 8191, -8192])
def test_a_ring_of_a_wrong_size_is_refused(size: int):
    from flintmq.kernels.threads.ring import Ring

    with pytest.raises(ValueError, match="power of two"):
        Ring(size)


def test_memory_that_is_too_small_is_refused():
    from flintmq.kernels.threads.ring import Ring

    with pytest.raises(ValueError, match="not mapped twice"):
        Ring(SIZE).attach(memoryview(bytearray(2 * SIZE - 1)))


def test_memory_that_cannot_be_touched_ahead_is_told_to_who_asks(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "flintmq.pool")
    effects = Faulty()
    effects.refuse("populate", error=errno.EINVAL)
    pool = TransientStorePool(5, SIZE, effects, place="log")
    assert pool.make_room is None and pool.open() is not None
    assert [(r.levelno, r.getMessage()) for r in caplog.records] == [
        (logging.INFO, "log: the transient pool is not touched before its first use (Invalid argument)")
    ]
    pool.close()


def test_pages_are_locked_as_they_are_touched():
    """Where touching ahead is refused, locking all at once would touch them, too."""
    asked: list[bool] = []

    class Noted(Faulty):
        def lock_memory(self, map_: mmap.mmap, *, on_fault: bool = False) -> None:
            asked.append(on_fault)

    pool = TransientStorePool(5, SIZE, Noted())
    assert pool.open() is not None and asked == [True]
    pool.close()


def test_only_the_kernel_writes_on_the_real_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Uncompiled, and on a disk that watches its calls, each piece is a call of the disk."""
    written: list[int] = []
    real = Effects.pwrite

    def pwrite(self: Effects, fd: int, data: memoryview, position: int) -> None:
        written.append(len(data))
        real(self, fd, data, position)

    monkeypatch.setattr(Effects, "pwrite", pwrite)
    watched = Faulty()
    for effects in (REAL, watched):
        pool = TransientStorePool(1, SIZE, effects)
        file = MappedFile.create(str(tmp_path / type(effects).__name__), 0, SIZE, effects)
        file.enter_ring(pool)
        store(file, b"hello")
        file.commit(5)
        assert file.committed == 5
        file.close()
        pool.close()
    assert written == ([] if _select.compiled() else [5]) and watched.count("pwrite") == 1


@REAL_AND_FAULTY
def test_a_put_that_needs_room_writes_one_piece(tmp_path: Path, effects: Effects):
    """The rest is for CommitService: the put waits no longer than it must."""
    pool = TransientStorePool(8, 1 << 20, effects)
    file = MappedFile.create(str(tmp_path / "0"), 0, 8 << 20, effects)
    file.enter_ring(pool)
    file.reserve(3 << 20)
    file.wrote = 3 << 20
    for mib in (1, 2, 3):
        file.commit_piece()
        assert pool.ring.drained == mib << 20
    file.close()
    pool.close()


def test_free_buffers_count_from_what_was_written(tmp_path: Path):
    pool = TransientStorePool(4, SIZE)
    file = MappedFile.create(str(tmp_path / "0"), 0, 4 * SIZE)
    file.enter_ring(pool)
    file.reserve(2 * SIZE)
    file.wrote = 2 * SIZE
    assert pool.available(2 * SIZE, file) == 2
    file.commit(SIZE)
    assert pool.ring.drained == SIZE and pool.available(2 * SIZE, file) == 3
    file.close()
    pool.close()


def test_room_is_given_a_quarter_ahead_and_ends_with_the_ring(tmp_path: Path):
    """Positions are of the file; the ring's are of the log."""
    pool = TransientStorePool(1, SIZE, fast_fail=True)
    pool.ring.begin(SIZE)
    file = MappedFile.create(str(tmp_path / "0"), SIZE, 4 * SIZE)
    file.enter_ring(pool)
    assert [pool.reserve(file, position) for position in (0, 100, 16_000, SIZE)] == [4096, 4196, SIZE, SIZE]
    assert type(pool.reserve(file, 100)) is int
    with pytest.raises(OSError) as refused:
        pool.reserve(file, SIZE + 1)
    assert (refused.value.errno, refused.value.strerror) == (errno.ENOBUFS, "the transient pool has no free buffer")
    file.close()
    pool.close()


@REAL_AND_FAULTY
def test_a_file_is_written_after_those_before_it(tmp_path: Path, effects: Effects):
    """The ring has one position: what a later file asks for is not there yet."""
    pool = TransientStorePool(2, SIZE, effects)
    first, second = file_in_ring(tmp_path, pool), file_in_ring(tmp_path, pool, SIZE)
    store(first, bytes([1]) * SIZE)
    store(second, b"hello")
    pool.write(second, second.fd, 5)
    assert pool.ring.drained == 0 and not any((tmp_path / str(SIZE)).read_bytes())
    pool.write(first, first.fd, SIZE)
    pool.write(first, first.fd, SIZE)
    assert pool.ring.drained == SIZE and (tmp_path / "0").read_bytes() == bytes([1]) * SIZE
    second.commit(5)
    assert (tmp_path / str(SIZE)).read_bytes()[:6] == b"hello\0"
    for file in (first, second):
        file.close()
    pool.close()


@REAL_AND_FAULTY
def test_a_piece_of_one_byte_is_not_the_last(tmp_path: Path, effects: Effects):
    pool = TransientStorePool(8, 1 << 20, effects)
    file = MappedFile.create(str(tmp_path / "0"), 0, 8 << 20, effects)
    file.enter_ring(pool)
    file.reserve(2 << 20)
    for wrote in ((1 << 20) - 1, (1 << 20) + 5):
        file.wrote = wrote
        file.commit(wrote)
        assert file.committed == wrote
    file.close()
    pool.close()


@REAL_AND_FAULTY
def test_a_file_that_left_the_ring_is_not_written_from_it(tmp_path: Path, effects: Effects):
    pool = TransientStorePool(1, SIZE, effects)
    file = MappedFile.create(str(tmp_path / "0"), 0, 4 * SIZE, effects)
    file.enter_ring(pool)
    pool.make_room = file.commit_piece
    store(file, b"hello")
    file.leave_ring()
    store(file, b" world")
    pool.write(file, file.fd, 11)
    assert pool.ring.drained == 5 and (tmp_path / "0").read_bytes()[:12] == b"hello world\0"
    file.close()
    pool.close()
