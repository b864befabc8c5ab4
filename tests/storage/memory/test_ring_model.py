"""The ring under every order of put, drain, roll, close and a failing write: real code, small numbers.

What runs is `TransientStorePool`, `MappedFile`, `MappedFileQueue` and `CommitService` as they are. Only the disk is
memory, locks are the explorer's, and pieces are small. The loops of the compiled form
(Ring.drain, Ring.follow) take the same steps in the same order as `TransientStorePool._write_piece`.
"""

from __future__ import annotations

import errno
import mmap
from collections.abc import Callable, Hashable
from types import SimpleNamespace
from typing import Any, Self

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.kernels.threads import ring as kernel
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.memory.mapped_file import MappedFile
from flintmq.storage.memory.mapped_file_queue import MappedFileQueue
from flintmq.storage.memory.transient_pool import TransientStorePool
from flintmq.store.append.disk_failure import DiskFailure
from flintmq.store.append.pool_commit import FOLLOW_US, CommitService
from tests.support.interleavings import ModelLock, Scene, Schedule, explore

FILE, RING = 24_576, 16_384
SIZES = (7_000, 9_000, 8_000, 5_000)  # the third goes over the ring's end, the fourth into a second file


class Memory(Effects):
    """Files in memory; a write says what it would do, and one of them may fail."""

    def __init__(self, scene: RingScene) -> None:
        self.scene, self.files, self.writes = scene, dict[int, mmap.mmap](), 0

    def create(self, path: str, size: int) -> int:
        fd = 1000 + len(self.files)
        self.files[fd] = mmap.mmap(-1, size)
        return fd

    def map_write(self, fd: int, size: int) -> mmap.mmap:
        return self.files[fd]

    def pwrite(self, fd: int, data: Any, position: int) -> None:
        scene = self.scene
        scene.schedule.point()
        self.writes += 1
        start = next(file.start for file in scene.queue.files if file.fd == fd)
        begin = start + position
        if bytes(data) != scene.log[begin : begin + len(data)]:
            scene.wrong = f"other bytes than were put, at {begin}"
        if self.writes == scene.fails_at:
            scene.schedule.point()
            raise OSError(errno.EIO, "Input/output error")
        self.files[fd][position : position + len(data)] = data
        scene.schedule.point()

    def allocate(self, fd: int, position: int, count: int) -> None: ...
    def make_folder(self, path: str) -> None: ...
    def sync(self, fd: int) -> None: ...
    def sync_dir(self, path: str) -> None: ...
    def close(self, fd: int) -> None: ...
    def populate(self, map_: Any, position: int, count: int) -> None: ...
    def lock_memory(self, map_: Any, *, on_fault: bool = False) -> None: ...
    def size(self, path: str) -> None: ...


class WatchedRing:
    """A ring whose lock is the explorer's, and which stops where a position is read without the lock."""

    def __init__(self, ring: kernel.Ring, schedule: Schedule) -> None:
        self._ring, self._schedule, self._lock = ring, schedule, ModelLock(schedule)
        self.stays_taken = False

    def __getattr__(self, name: str) -> Any:
        if name in ("committed", "room_end"):
            self._schedule.point()
        return getattr(self._ring, name)

    def has_room(self, end: int) -> bool:
        self._schedule.point()
        return self._ring.has_room(end)

    def begin(self, offset: int) -> None:
        with self._lock:
            self._ring.begin(offset)

    @property
    def guard(self) -> Self:
        return self

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        if not self.stays_taken:
            self._lock.release()


class RingScene(Scene):
    """A log of two files, into which SIZES are put."""

    def __init__(self, actors: str, fails_at: int, fast_fail: bool = False) -> None:
        self.schedule, self.fails_at = Schedule(), fails_at
        self.log, self.wrong = b"", ""
        self.ends = {0}
        self.effects = Memory(self)
        self.queue = MappedFileQueue(["/log"], FILE, self.effects)
        self.pool = TransientStorePool(1, FILE, self.effects, fast_fail=fast_fail)
        self.pool._waited = True
        self.pool.ring = WatchedRing(kernel.Ring(RING, 8192), self.schedule)  # type: ignore[assignment]
        self.queue.pool = self.pool
        self.queue.make_file = self._made  # type: ignore[method-assign, assignment]
        self.end = self.put = self.refused = 0
        self.failure = DiskFailure()
        self.commits = CommitService(
            self.queue,
            SimpleNamespace(end=0, last_time=0, appender=SimpleNamespace(forked=False)),  # type: ignore[arg-type]
            StoreConfig(),
            self.failure,
            self.effects,
        )
        self.commits._step = ModelLock(self.schedule)  # type: ignore[assignment]
        self.commits.commit_log = self  # type: ignore[assignment]
        self.last_time, self.closed, self.put_lock = 0, False, ModelLock(self.schedule)
        runs: dict[str, Callable[[], None]] = {"p": self._puts, "c": self._commits, "f": self._flush, "x": self._close}
        for name in actors:
            self.schedule.add(runs[name])

    def _made(self, start: int, window: int | None = None) -> MappedFile:
        file = MappedFile.create(f"/log/{start:020d}", start, FILE, self.effects)
        file.enter_ring(self.pool)
        return file

    def _puts(self) -> None:
        for number, size in enumerate(SIZES):
            with self.put_lock:
                if self.closed or self.failure:
                    self.refused += 1
                    continue
                try:
                    self._put(bytes([number + 1]) * size)
                    self.put += 1
                except OSError:
                    self.refused += 1

    def _put(self, record: bytes) -> None:
        """What the commit log does."""
        file = self.queue.last
        if file is not None and file.wrote + len(record) + 8 > file.size:
            self._reserve(file, min(file.wrote + len(record), file.size))
            with file.room(file.wrote) as room:
                room[:8] = b"filler!!"
            self.log += b"filler!!"
            file.end_here(file.wrote + 8)
            self.schedule.point()
            self.log += bytes(file.size - file.wrote - 8)
            file.wrote = file.size
            self.end = file.start + file.size
            self.ends.add(self.end)
            file = None
        file = file or self.queue.append_file(self.end)
        self._reserve(file, file.wrote + len(record))
        with file.room(file.wrote) as room:
            room[: len(record) // 2] = record[: len(record) // 2]
            self.schedule.point()
            room[len(record) // 2 : len(record)] = record[len(record) // 2 :]
        self.log += record
        self.ends.add(self.end + len(record))
        file.wrote += len(record)
        self.schedule.point()
        self.end += len(record)

    def _reserve(self, file: MappedFile, position: int) -> None:
        if position > file.reserved:
            file.reserve(position)

    def _commits(self) -> None:
        for _ in range(2):
            self.commits.commit_once()
            if not self.failure:
                self.commits._write(lambda: self.queue.follow(FOLLOW_US))

    def _flush(self) -> None:
        """A flush has everything committed that was put before it."""
        end = self.end
        self.schedule.point()
        self.commits.commit_once()
        assert self.failure or self.commits.done[1] >= end

    def _close(self) -> None:
        with self.put_lock:
            self.closed = True
        self.commits.stop()
        assert self.failure or self.commits.done[1] == self.end

    def shared(self) -> Hashable:
        ring, pool = self.pool.ring, self.pool
        positions = tuple((file.wrote, file.pool is None, file.filler) for file in self.queue.files)
        locks = ring._lock.taken, self.commits._step.taken, self.put_lock.taken  # type: ignore[attr-defined]
        inner = ring._ring  # type: ignore[attr-defined]
        return (positions, locks, inner.drained, inner.committed, inner.error, self.effects.writes if self.fails_at
                else 0, self.end, self.put, self.refused, self.closed, bool(self.failure), self.commits.done, pool.view
                is None, len(self.log))  # fmt: skip

    def check(self) -> None:
        assert not self.wrong, self.wrong
        ring = self.pool.ring._ring  # type: ignore[attr-defined]
        assert ring.committed in self.ends, f"committed {ring.committed} is within a record"
        assert ring.committed <= ring.drained <= len(self.log)
        files = b"".join(bytes(self.effects.files[file.fd]) for file in self.queue.files)
        assert files[: ring.drained] == self.log[: ring.drained], "drained, and not in the file"

    def finish(self) -> None:
        assert self.put + self.refused == len(SIZES)
        if not self.failure:
            self.commits.commit_once()
        self.check()
        if not self.failure:
            assert self.pool.ring._ring.committed == self.end == len(self.log)  # type: ignore[attr-defined]
            assert self.closed or not self.refused or self.pool.fast_fail
        else:
            assert self.effects.writes == self.fails_at, "a write that failed was tried again"

    def close(self) -> None:
        self.queue.close()


@pytest.mark.turn(3, of=["src/flintmq/kernels/", "src/flintmq/storage/memory/"])
@pytest.mark.parametrize(
    ("actors", "fails_at"),
    [*(("p", n) for n in range(4)), *(("px", n) for n in range(4)), ("pc", 0), ("pc", 2), ("pf", 0), ("pf", 2),
     ("pcx", 0), ("pcx", 1)],
)  # fmt: skip
def test_no_order_of_events_hangs_or_loses_a_byte(actors: str, fails_at: int):
    states, ends = explore(lambda: RingScene(actors, fails_at))
    assert ends and states > len(SIZES) * len(actors)


def test_puts_that_must_not_wait_are_refused_and_nothing_else_changes():
    states, ends = explore(lambda: RingScene("pc", 0, fast_fail=True))
    assert ends > 1 and states > 10


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (lambda scene: setattr(scene.pool, "make_room", lambda: None), "no end can be reached"),
        (lambda scene: setattr(scene.pool.ring, "has_room", lambda end: True), "other bytes than were put"),
        (lambda scene: setattr(scene.pool.ring, "stays_taken", True), "wait for each other"),
    ],
    ids=["who finds no room only waits", "room is not asked for", "the lock is kept"],
)
def test_the_explorer_finds_what_is_wrong(broken: Callable[[RingScene], None], told: str):
    def scene() -> RingScene:
        made = RingScene("pc", 0)
        broken(made)
        return made

    with pytest.raises(AssertionError, match=told):
        explore(scene)
