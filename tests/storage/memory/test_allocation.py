"""Files ahead of the writer: made in order, waited for, told when they fail, removed when nobody used them."""

import errno
import logging
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.storage.memory.allocation import AllocationService
from flintmq.storage.memory.mapped_file import MappedFile
from flintmq.storage.memory.mapped_file_queue import MappedFileQueue
from tests.support.faults import Faulty
from tests.support.threads import alarms, within

SIZE = 16384


def queue_of(folder: Path, effects: Faulty | None = None, places: tuple[str, ...] = ("log",), **keys: Any):
    config = StoreConfig.from_keys({"mappedFileSizeCommitLog": SIZE} | keys)
    return MappedFileQueue.of([str(folder / place) for place in places], config, effects or Faulty())


def names(folder: Path) -> list[int]:
    """Numbers of the files that are there."""
    return sorted(int(path.name) // SIZE for path in folder.rglob("0*"))


def allocation(queue: MappedFileQueue) -> Any:
    service = queue.allocation
    assert service is not None
    return service


def test_the_file_that_is_wanted_is_made_first_and_the_one_behind_it_later(tmp_path: Path):
    queue = queue_of(tmp_path)
    assert queue.append_file(0).start == 0
    assert names(tmp_path) == [0], "without a thread, what is needed and no more"
    assert allocation(queue).step()
    assert names(tmp_path) == [0, 1] and not allocation(queue).step()
    assert queue.append_file(SIZE).start == SIZE
    while allocation(queue).step():
        pass
    assert names(tmp_path) == [0, 1, 2] and [f.start for f in queue.files] == [0, SIZE]
    queue.close()
    assert names(tmp_path) == [0, 1], "what nobody used is removed"


def test_a_file_made_ahead_takes_no_blocks_until_it_is_used(tmp_path: Path):
    queue = queue_of(tmp_path)
    queue.append_file(0)
    allocation(queue).step()
    assert (tmp_path / "log" / f"{SIZE:020d}").stat().st_blocks == 0
    file = queue.append_file(SIZE)
    assert file.reserved == 0
    file.reserve(10)
    assert (tmp_path / "log" / f"{SIZE:020d}").stat().st_blocks * 512 >= SIZE
    queue.close()


def test_the_thread_has_the_next_file_ready(tmp_path: Path):
    effects = Faulty()
    queue = queue_of(tmp_path, effects)
    queue.start()
    queue.append_file(0)
    assert within(lambda: names(tmp_path) == [0, 1])
    effects.before = lambda name, path: time.sleep(3) if name == "create" else None
    began = time.monotonic()
    assert queue.append_file(SIZE).start == SIZE
    assert time.monotonic() - began < 2, "it was there"
    effects.before = None
    queue.close()
    assert names(tmp_path) == [0, 1]


def test_a_file_that_takes_too_long_is_an_error_and_is_found_by_a_later_call(tmp_path: Path):
    effects, let_go = Faulty(), threading.Event()
    queue = queue_of(tmp_path, effects)
    allocation(queue).wait_s = 0.05
    queue.start()
    effects.before = lambda name, path: let_go.wait(5) if name == "create" else None
    with pytest.raises(OSError) as late:
        queue.append_file(0)
    assert (late.value.errno, late.value.strerror) == (errno.ETIMEDOUT, "not there after 0.05 s")
    allocation(queue).wait_s = 5
    let_go.set()
    assert queue.append_file(0).start == 0 and len(queue.files) == 1
    queue.close()


@pytest.mark.parametrize("call", ["create", "allocate", "sync", "sync_dir", "map_write"])
def test_a_failure_is_told_and_a_later_call_may_succeed(tmp_path: Path, call: str):
    effects = Faulty()
    queue = queue_of(tmp_path, effects)
    effects.mkdirs(str(tmp_path / "log"))
    queue.start()
    effects.refuse(call, error=errno.ENOSPC, times=1)
    with pytest.raises(OSError, match="space"):
        queue.append_file(0)
    assert queue.files == () and names(tmp_path) == []
    assert queue.append_file(0).start == 0
    queue.close()


def test_no_file_is_made_behind_one_that_failed(tmp_path: Path):
    """A crash would leave a gap, which recovery refuses."""
    effects = Faulty()
    queue = queue_of(tmp_path, effects, places=("a", "b"))
    effects.refuse("create", "/a/", error=errno.ENOSPC)
    with pytest.raises(OSError):
        queue.append_file(0)
    assert not allocation(queue).step() and names(tmp_path) == []
    queue.close()


def test_a_failure_ahead_is_nobodys_until_the_file_is_needed(tmp_path: Path):
    effects = Faulty()
    queue = queue_of(tmp_path, effects)
    queue.append_file(0)
    effects.refuse("create", error=errno.ENOSPC, times=1)
    assert allocation(queue).step() and names(tmp_path) == [0]
    assert queue.append_file(SIZE).start == SIZE
    queue.close()


def test_a_file_that_somebody_removed_is_made_again(tmp_path: Path):
    """RocketMQ started beside a running store deletes what it takes for leftovers, then finds the lock (B13)."""
    queue = queue_of(tmp_path)
    queue.append_file(0)
    allocation(queue).step()
    (tmp_path / "log" / f"{SIZE:020d}").unlink()
    file = queue.append_file(SIZE)
    file.reserve(5)
    file.view[:5] = b"hello"
    assert (tmp_path / "log" / f"{SIZE:020d}").read_bytes()[:5] == b"hello"
    queue.close()


def test_what_somebody_else_made_is_not_removed(tmp_path: Path):
    queue = queue_of(tmp_path)
    queue.append_file(0)
    allocation(queue).step()
    path = tmp_path / "log" / f"{SIZE:020d}"
    path.unlink()
    path.write_bytes(b"another's")
    queue.close()
    assert path.read_bytes() == b"another's"


def test_an_interrupt_between_the_steps_loses_no_file(tmp_path: Path):
    """The table keeps a file until the log has it."""
    queue = queue_of(tmp_path)
    service, used = allocation(queue), allocation(queue).used
    calls = 0

    def interrupted(below: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        used(below)

    service.used = interrupted
    with pytest.raises(KeyboardInterrupt):
        queue.append_file(0)
    assert [f.start for f in queue.files] == [0]
    service.used = used
    queue.append_file(SIZE)
    assert [f.start for f in queue.files] == [0, SIZE]
    queue.close()
    assert names(tmp_path) == [0, 1]


def test_an_interrupt_while_a_file_is_made_leaves_it_to_the_next_call(tmp_path: Path):
    effects = Faulty()
    queue = queue_of(tmp_path, effects)

    def interrupt(name: str, path: str) -> None:
        if name == "sync":
            effects.before = None
            raise KeyboardInterrupt

    effects.before = interrupt
    with pytest.raises(KeyboardInterrupt):
        queue.append_file(0)
    assert queue.append_file(0).start == 0
    queue.close()
    assert names(tmp_path) == [0]


def test_fast_fail_refuses_a_put_that_finds_the_ring_full(tmp_path: Path):
    keys = {"transientStorePoolEnable": "true", "transientStorePoolSize": "1", "fastFailIfNoBufferInStorePool": "true"}
    queue = queue_of(tmp_path, **keys)
    file = queue.append_file(0)
    assert queue.pool is not None and file.pool is queue.pool
    file.wrote = SIZE
    second = queue.append_file(SIZE)
    assert queue.pool.ring.size == SIZE
    with pytest.raises(OSError) as refused:
        second.reserve(1)
    assert (refused.value.errno, refused.value.strerror) == (errno.ENOBUFS, "the transient pool has no free buffer")
    queue.commit(SIZE)
    second.reserve(1)
    queue.close()
    assert names(tmp_path) == [0, 1]


def test_d3_without_fast_fail_a_put_that_finds_the_ring_full_writes_it(tmp_path: Path):
    """D3: upstream's goes to a file that nobody can read."""
    queue = queue_of(tmp_path, transientStorePoolEnable="true", transientStorePoolSize="1")
    first = queue.append_file(0)
    with first.room(0) as room:
        room[:SIZE] = b"x" * SIZE
    first.wrote = SIZE
    second = queue.append_file(SIZE)
    assert queue.read(0, 5) is None, "put, and not committed"
    second.reserve(SIZE // 2)
    with second.room(0) as room:
        room[:5] = b"hello"
    second.wrote = 5
    assert queue.read(SIZE - 5, 5) == b"xxxxx" and queue.read(SIZE, 5) is None
    queue.commit(SIZE + 5)
    assert second.committed == 5 and queue.read(SIZE, 5) == b"hello"
    queue.close()


def test_a_slave_has_no_pool(tmp_path: Path):
    assert queue_of(tmp_path, transientStorePoolEnable="true", brokerRole="SLAVE").pool is None


def test_warm_files_are_retired_when_they_are_full(tmp_path: Path):
    effects = Faulty()
    queue = queue_of(tmp_path, effects, warmMapedFileEnable="true")
    queue.append_file(0)
    assert effects.count("lock_memory") == 1
    while allocation(queue).step():
        pass
    queue.append_file(SIZE)
    while allocation(queue).step():
        pass
    assert effects.count("unlock_memory") == 1
    queue.close()


def test_a_warm_up_that_fails_leaves_no_file(tmp_path: Path):
    effects = Faulty()
    queue = queue_of(tmp_path, effects, warmMapedFileEnable="true", flushDiskType="SYNC_FLUSH")
    effects.mkdirs(str(tmp_path / "log"))
    effects.refuse("sync", after=1, times=1)
    with pytest.raises(OSError):
        queue.append_file(0)
    assert names(tmp_path) == []
    queue.close()


@pytest.mark.parametrize(("disk", "read_ahead", "count"), [
    ("SYNC_FLUSH", "true", 1), ("ASYNC_FLUSH", "true", 0), ("ASYNC_FLUSH", "false", 1),
])  # fmt: skip
def test_small_pages_where_syncs_are_frequent(tmp_path: Path, disk: str, read_ahead: str, count: int):
    effects = Faulty()
    queue = queue_of(tmp_path, effects, flushDiskType=disk, dataReadAheadEnable=read_ahead)
    queue.append_file(0)
    assert effects.count("advise_random") == count
    queue.close()


def test_full_files_are_let_go_by_who_warmed_them_or_at_the_stop(tmp_path: Path):
    queue = queue_of(tmp_path, warmMapedFileEnable=True)
    first = queue.append_file(0)
    second = queue.append_file(SIZE)
    assert first.hold() is True
    first.release()
    steps = 0
    while allocation(queue).step():
        steps += 1
    assert steps == 2, "the file ahead, and the full one"
    third = queue.append_file(2 * SIZE)  # nobody has taken the second one's turn when the queue ends
    queue.close()
    assert not any(file.is_held for file in (first, second, third)), "no hold is left"


def test_a_file_made_ahead_that_cannot_be_removed_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    effects = Faulty()
    queue = queue_of(tmp_path, effects)
    queue.append_file(0)
    allocation(queue).step()
    effects.refuse("unlink", error=errno.EROFS)
    queue.close()
    assert names(tmp_path) == [0, 1]
    (line,) = [r.getMessage() for r in caplog.records]
    assert line == f"{tmp_path}/log/{SIZE:020d} was made ahead and cannot be removed (Read-only file system)"


def test_files_that_nobody_used_stay_where_another_process_may_own_them(tmp_path: Path):
    queue = queue_of(tmp_path)
    queue.append_file(0)
    allocation(queue).step()
    queue.leave_spares()
    queue.close()
    assert names(tmp_path) == [0, 1]
    alone = MappedFileQueue([str(tmp_path / "other")], SIZE, Faulty())
    alone.leave_spares()
    alone.close()


class Clock(Faulty):
    """Making a file takes it a second and a half."""

    seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds

    def create(self, path: str, size: int) -> int:
        self.seconds += 1.5
        return super().create(path, size)


def service_of(folder: Path, effects: Faulty, **more: Any) -> AllocationService:

    def make(start: int, window: int | None) -> MappedFile:
        return MappedFile.create(str(folder / f"{start:020d}"), start, SIZE, effects, window=window)

    return AllocationService(make, SIZE, effects, place=str(folder), **more)


def test_failures_are_told_until_it_works_again_and_successes_with_their_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO, "flintmq.allocation")
    effects = Clock()
    service = service_of(tmp_path, effects)
    warning = f"{tmp_path}: the log file at offset {{}} cannot be made (No space left on device)"
    effects.refuse("sync", error=errno.ENOSPC, times=2)
    for _ in range(2):
        with pytest.raises(OSError):
            service.file_at(SIZE)
    service.file_at(SIZE)
    effects.refuse("sync", error=errno.ENOSPC, times=1)
    assert service.step() is True, "the one ahead was tried"
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
        ("WARNING", warning.format(SIZE)),
        ("INFO", f"made {tmp_path}/{SIZE:020d} in 1500 ms"),
        ("WARNING", warning.format(2 * SIZE)),
    ]
    service.stop()


def test_an_error_of_any_kind_is_the_writers_and_a_later_call_may_succeed(tmp_path: Path):
    def broken(*_: object) -> MappedFile:
        raise ValueError("no file")

    service: Any = service_of(tmp_path, Faulty(), wait_s=0.0)
    make, service.make = service.make, broken
    with pytest.raises(OSError) as failed:
        service.file_at(0)
    assert (failed.value.errno, failed.value.strerror) == (errno.EIO, "ValueError: no file")
    service.make = make
    assert service.file_at(0).start == 0
    service.make = broken
    assert service.step() is True, "the one ahead was tried"
    service.make = make
    assert service.file_at(SIZE).start == SIZE
    service.stop()


def test_it_waits_for_a_file_as_long_as_it_was_told(tmp_path: Path):
    effects, let_go = Faulty(), threading.Event()
    service = service_of(tmp_path, effects, wait_s=0.05)
    effects.before = lambda name, path: let_go.wait(2) if name == "create" else None
    service.start()
    with pytest.raises(OSError, match=r"not there after 0\.05 s"):
        service.file_at(0)
    let_go.set()
    service.stop()


def test_after_a_failure_every_file_can_be_asked_for_again(tmp_path: Path):
    effects = Faulty()
    service = service_of(tmp_path, effects, wait_s=0.0)
    effects.refuse("create", times=1)
    with pytest.raises(OSError):
        service.file_at(0)
    assert service.file_at(SIZE).start == SIZE, "the request behind the one that failed is not waited for"
    service.stop()


def test_a_file_is_asked_for_once_and_not_after_the_log_went_past_it(tmp_path: Path):
    effects = Faulty()
    service = service_of(tmp_path, effects)
    first = service.file_at(0)
    assert service.step() and names(tmp_path) == [0, 1]
    assert service.file_at(0) is first
    assert not service.step() and effects.count("create") == 2
    second = service.file_at(SIZE)  # asks for a third one, which is not made yet
    service.used(3 * SIZE)
    assert service.allocate_once() is False
    assert effects.count("create") == 2 and service.step() is False
    service.stop()
    assert names(tmp_path) == [0, 1], "what is used stays"
    first.close()
    second.close()


def test_files_that_nobody_used_go_from_the_last_one_on(tmp_path: Path):
    """A crash in between leaves no gap."""
    effects = Faulty()
    service = service_of(tmp_path, effects)
    service.file_at(0)
    service.file_at(SIZE)
    while service.step():
        pass
    service.stop()
    service.stop()
    assert [int(path[-20:]) // SIZE for name, path in effects.calls if name == "unlink"] == [2, 1, 0]


class Follower:
    """An Ahead that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[object, int]] = []
        self.worked = threading.Event()

    def asked(self, file: object, position: int) -> bool:
        self.told.append((file, position))
        return position > 100

    def ahead_once(self) -> bool:
        self.worked.set()
        return False


def test_the_thread_is_woken_when_the_writer_goes_on(tmp_path: Path):
    """It has a name that an operator finds it by, and does not keep a process from ending."""
    follower, file = Follower(), object()
    service: Any = service_of(tmp_path, Faulty(), ahead=follower)
    before = set(threading.enumerate())
    service.start()
    (thread,) = set(threading.enumerate()) - before
    assert (thread.name, thread.daemon) == ("flintmq-allocation", True)
    service.asked(file, 100)
    assert not follower.worked.wait(0.02), "nothing to do"
    service.asked(file, 101)
    assert follower.worked.wait(5) and follower.told == [(file, 100), (file, 101)]
    service.stop()
    assert not thread.is_alive()
    alone: Any = service_of(tmp_path, Faulty())
    alone.asked(file, 101)
    assert alone.step() is False, "nobody follows"


def test_the_thread_outlives_an_error_of_a_step_ahead(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    class Broken(Follower):
        def ahead_once(self) -> bool:
            super().ahead_once()
            raise ValueError("no pages")

    follower = Broken()
    service: Any = service_of(tmp_path, Faulty(), ahead=follower)
    service.start()
    for _ in range(2):
        service.asked(object(), 101)
        assert follower.worked.wait(5)
        follower.worked.clear()
    assert service.file_at(0).start == 0
    service.stop()
    told = {(r.levelname, r.getMessage(), str(r.exc_info and r.exc_info[1])) for r in caplog.records}
    assert told == {("ERROR", f"{tmp_path}: preparing log files ahead of the writer failed", "no pages")}


class Alarm(Exception):
    """Raised by the handler of a signal."""


def raise_alarm(*_: object) -> None:
    raise Alarm


def test_a_handler_that_raises_amid_a_wait_stops_no_later_call(tmp_path: Path):
    """The time of the signal changes from one turn to the next, so it falls between all steps of a call."""
    made: list[int] = []

    def make(start: int, window: int | None) -> Any:
        made.append(start)
        return SimpleNamespace(path=f"{start}")

    service = AllocationService(make, 4096, Faulty(), wait_s=5)
    service.start()
    start = 0
    try:
        with alarms(raise_alarm):
            for turn in range(3000):
                with pytest.raises(Alarm):
                    signal.setitimer(signal.ITIMER_REAL, 0.00002 + turn % 100 * 0.000002)
                    while True:
                        service.file_at(start)
                        start += 4096  # first, as the log takes a file before it says so
                        service.used(start)
                began = time.monotonic()
                assert service.file_at(start).path == f"{start}"
                assert time.monotonic() - began < 4, turn
    finally:
        with service._lock:
            service._table.clear()
        service.stop()
    assert made == list(range(0, made[-1] + 1, 4096)), "each file is made once, in order"
