"""Buffers for records: a fixed number, taken lazily, used again; and files that have one."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from flintmq.storage.mapped_file import MappedFile
from flintmq.storage.transient_pool import TransientStorePool
from tests.support.faults import Faulty

SIZE = 16384


def file_with_buffer(folder: Path, pool: TransientStorePool, effects: Faulty) -> MappedFile:
    file = MappedFile.create(str(folder / "0"), 0, SIZE, effects)
    buffer = pool.borrow()
    assert buffer is not None
    file.borrow(buffer)
    return file


def store(file: MappedFile, data: bytes) -> None:
    """What the commit log does."""
    file.buffer[file.wrote : file.wrote + len(data)] = data
    file.wrote += len(data)


def test_there_are_so_many_buffers_and_no_more(caplog: pytest.LogCaptureFixture):
    pool = TransientStorePool(5, SIZE, Faulty())
    lent = [pool.borrow() for _ in range(5)]
    assert all(b is not None and len(b.view) == SIZE for b in lent) and len({id(b) for b in lent}) == 5
    assert pool.borrow() is None and pool.available == 0
    assert [r.getMessage()[:6] for r in caplog.records if "buffers" in r.getMessage()] == ["only 1", "only 0"]
    lent[3].give_back()
    assert pool.available == 1 and pool.borrow() is lent[3], "the one that was used last"


def test_memory_is_taken_when_it_is_wanted():
    effects = Faulty()
    pool = TransientStorePool(5, SIZE, effects)
    assert effects.count("lock_memory") == 0
    pool.borrow()
    assert effects.count("lock_memory") == 1 and pool.available == 4


def test_pages_are_locked_when_they_are_touched(monkeypatch: pytest.MonkeyPatch):
    """Not when the buffer is made: a log file's worth of memory would be taken at once."""
    asked: list[tuple[int, bool]] = []
    effects = Faulty()
    monkeypatch.setattr(
        effects, "lock_memory", lambda memory, *, on_fault=False: asked.append((len(memory), on_fault))
    )  # fmt: skip
    TransientStorePool(2, SIZE, effects).borrow()
    assert asked == [(SIZE, True)]


def test_a_system_that_does_not_lock_is_told_once_and_is_good_enough(caplog: pytest.LogCaptureFixture):
    effects = Faulty()
    effects.refuse("lock_memory", error=errno.ENOMEM)
    pool = TransientStorePool(5, SIZE, effects)
    assert pool.borrow() is not None and pool.borrow() is not None
    assert [r.getMessage() for r in caplog.records if "not locked" in r.getMessage()] == [
        "the transient pool is not locked in memory (Cannot allocate memory) and may be swapped out; raise `ulimit -l`"
    ]


def test_what_is_stored_is_in_the_file_only_after_a_commit(tmp_path: Path):
    effects = Faulty()
    pool = TransientStorePool(1, SIZE, effects)
    file = file_with_buffer(tmp_path, pool, effects)
    store(file, b"hello world")
    assert (file.wrote, file.committed, file.flushed) == (11, 0, 0)
    assert (tmp_path / "0").read_bytes() == bytes(SIZE)
    file.commit(5)
    assert file.committed == 5 and (tmp_path / "0").read_bytes()[:11] == b"hello" + bytes(6)
    file.commit(11)
    file.commit(11)
    assert file.committed == 11 and bytes(file.view[:11]) == b"hello world"
    assert effects.count("pwrite") == 2, "nothing new is no write"
    file.close()
    assert pool.available == 1


def test_a_refused_commit_commits_nothing(tmp_path: Path):
    effects = Faulty()
    pool = TransientStorePool(1, SIZE, effects)
    file = file_with_buffer(tmp_path, pool, effects)
    store(file, b"hello")
    effects.refuse("pwrite", times=1)
    with pytest.raises(OSError):
        file.commit(5)
    assert file.committed == 0
    file.close()


def test_a_full_file_gives_its_buffer_back_and_the_next_one_does_not_see_its_bytes(tmp_path: Path):
    effects = Faulty()
    pool = TransientStorePool(1, SIZE, effects)
    file = file_with_buffer(tmp_path, pool, effects)
    store(file, b"x" * SIZE)
    file.commit(SIZE)
    assert pool.available == 1 and file.committed == SIZE
    assert bytes(file.buffer[:3]) == b"xxx", "from the file now"
    (tmp_path / "next").mkdir()
    again = file_with_buffer(tmp_path / "next", pool, effects)
    store(again, b"new")
    again.end_here(3)
    again.wrote = SIZE
    again.commit(SIZE)
    assert (tmp_path / "next" / "0").read_bytes() == b"new" + bytes(SIZE - 3)
    file.close()
    again.close()


def test_close_frees_idle_buffers():
    pool = TransientStorePool(2, SIZE, Faulty())
    buffer = pool.borrow()
    assert buffer is not None
    buffer.give_back()
    pool.close()
    assert buffer.memory.closed and pool.available == 2


def test_a_buffer_that_comes_back_twice_would_be_lent_to_two_files():
    pool, other = TransientStorePool(2, SIZE, Faulty()), TransientStorePool(2, SIZE, Faulty())
    buffer = pool.borrow()
    assert buffer is not None
    with pytest.raises(AssertionError):
        other.give_back(buffer)
    buffer.give_back()
    with pytest.raises(AssertionError):
        buffer.give_back()
    assert pool.available == 2


def test_a_file_borrows_before_its_first_byte_and_once(tmp_path: Path):
    effects = Faulty()
    pool = TransientStorePool(2, SIZE, effects)
    file = file_with_buffer(tmp_path, pool, effects)
    buffer = pool.borrow()
    assert buffer is not None
    with pytest.raises(AssertionError):
        file.borrow(buffer)
    store(file, b"hello")
    with pytest.raises(AssertionError):
        file.commit(6)
    file.commit(5)
    file.check_invariants()
    with pytest.raises(AssertionError):
        file.flush(6)
    file.close()
