"""What could not be opened is not what could not be synced; and no thread of a store dies of a surprise."""

import errno
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq.errors import StoreAccessError
from flintmq.message import Message, PutMessageStatus
from flintmq.storage.files.filesystem import Effects, NotOpened
from flintmq.storage.memory.mapped_file import MappedFile
from flintmq.storage.memory.mapped_file_queue import MappedFileQueue
from flintmq.store.consumequeue import writer
from flintmq.store.consumequeue.writer import OpenFiles
from flintmq.store.message_store import MessageStore
from flintmq.store.services.dispatch_service import DispatchService
from flintmq.store.services.housekeeping import Housekeeping
from tests.support.engine import KEYS, expected_units, message, open_small, put_all, put_dispatched, records, units
from tests.support.faults import close_unclean
from tests.support.threads import within

OK, LATE = PutMessageStatus.PUT_OK, PutMessageStatus.FLUSH_DISK_TIMEOUT
PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class Scarce(Effects):
    """A disk that refuses to open anything for writing, or to open directories, while `refusing` is an errno."""

    refusing = 0

    def _refuse(self, path: str) -> None:
        if self.refusing:
            error = OSError(self.refusing, os.strerror(self.refusing), path)
            raise NotOpened(*error.args, path) if self.refusing in PASSING else error

    def open_write(self, path: str) -> int:
        self._refuse(path)
        return super().open_write(path)

    def sync_dir(self, path: str) -> None:
        self._refuse(path)
        super().sync_dir(path)


@pytest.mark.parametrize("number", [*PASSING, errno.EIO])
def test_housekeeping_that_can_open_nothing_tries_again(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KEYS, "flushIntervalConsumeQueue", 20)
    disk = Scarce()
    store = open_small(tmp_path, disk, flushIntervalCommitLog=10)
    store._parts.queues.files.most = 2  # so that most files that are dirty are closed
    for topic in range(6):
        store.put(message(0, f"T{topic}"))
    assert store.wait_dispatched(30)
    disk.refusing = number
    for topic in range(6):
        store.put(message(1, f"T{topic}"))
    limit = time.monotonic() + (3 if number != errno.EIO else 30)
    while not store._parts.failure and time.monotonic() < limit and number == errno.EIO:
        time.sleep(0.01)
    time.sleep(0.2)
    assert bool(store._parts.failure) is (number == errno.EIO), store._parts.failure.reason
    disk.refusing = 0
    assert (store.put(message(2, "T0")).status is OK) is (number != errno.EIO)
    store.flush() if number != errno.EIO else None
    (close_unclean if number == errno.EIO else MessageStore.close)(store)
    assert (tmp_path / "abort").exists() is (number == errno.EIO), "a clean stop where no sync failed"


class Counting(Effects):
    """Counts what is opened and remembers what is synced."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.synced: list[int] = []

    def open_write(self, path: str) -> int:
        self.opened.append(os.path.basename(path))
        return super().open_write(path)

    def sync(self, fd: int) -> None:
        self.synced.append(fd)
        super().sync(fd)


def test_what_is_open_is_synced_as_it_is(tmp_path: Path) -> None:
    disk = Counting()
    files = OpenFiles(disk, most=2)
    for name in "abc":
        files.write(str(tmp_path / name), 10, b"x", 0)
    assert disk.opened == ["a", "b", "c"], "each was tried and then made"
    kept = set(files.open.values())
    files.flush()
    assert disk.opened == ["a", "b", "c", "a"] and kept < set(disk.synced), (
        "only the one that was closed is opened again"
    )
    assert not files.dirty and not files.grown
    files.close()


def test_a_refused_open_leaves_the_rest_to_be_flushed(tmp_path: Path) -> None:
    disk = Scarce()
    files = OpenFiles(disk, most=1)
    for name in "abc":
        files.write(str(tmp_path / name), 10, b"x", 0)
    disk.refusing = errno.EMFILE
    with pytest.raises(NotOpened):
        files.flush()
    assert {os.path.basename(p) for p in files.dirty} == set("abc")
    disk.refusing = 0
    files.flush()
    assert not files.dirty and not files.grown
    files.close()


def test_who_syncs_a_file_keeps_it_open(tmp_path: Path) -> None:
    """Neither a writer that needs room nor who forgets the file closes the descriptor under the sync."""
    inside, go_on = threading.Event(), threading.Event()

    class Slow(Effects):
        def sync(self, fd: int) -> None:
            inside.set()
            assert go_on.wait(30)
            os.fstat(fd)
            super().sync(fd)

    files = OpenFiles(Slow(), most=2)
    path = str(tmp_path / "a")
    files.write(path, 10, b"x", 0)
    flushing = threading.Thread(target=files.flush)
    flushing.start()
    assert inside.wait(30)
    fd = files.open[path]
    for name in "bcde":
        files.write(str(tmp_path / name), 10, b"x", 0)
    assert files.open[path] == fd and len(files.open) == 2
    forgetting = threading.Thread(target=files.forget, args=(path,))
    forgetting.start()
    time.sleep(0.1)
    os.fstat(fd)
    go_on.set()
    flushing.join(30)
    forgetting.join(30)
    assert path not in files.open and not flushing.is_alive()
    with pytest.raises(OSError):
        os.fstat(fd)
    files.close()


def test_where_descriptors_are_scarce_fewer_files_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "FEWEST", 1)

    class Few(Effects):
        def create(self, path: str, size: int) -> int:
            if len(files.open) >= 4:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
            return super().create(path, size)

    files = OpenFiles(Few())
    for number in range(10):
        files.write(str(tmp_path / str(number)), 10, b"%d" % number, 0)
    assert [(tmp_path / str(n)).read_bytes()[:1] for n in range(10)] == [b"%d" % n for n in range(10)]
    files.flush()
    files.close()


def test_dispatch_waits_for_a_refused_open_of_a_reader_too(tmp_path: Path) -> None:
    """Whoever reads says it by an error of ours, made of the system's."""
    store = open_small(tmp_path)
    refused = StoreAccessError("Too many open files")
    refused.__cause__ = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    store._parts.dispatch._halt(refused)
    assert store._parts.dispatch.stopped_at is None and store._parts.dispatch.waits_for is refused.__cause__
    put_dispatched(store, 3)
    store.close()
    assert units(tmp_path) == expected_units(tmp_path)


def fail_once(owner: Any, name: str, error: BaseException, patch: pytest.MonkeyPatch, *, thread: str) -> list[str]:
    """The next call of a function in the thread of this name raises; the list tells who it was."""
    real, hit = getattr(owner, name), []

    def failing(*args: Any, **rest: Any) -> Any:
        if not hit and threading.current_thread().name == thread:
            hit.append(thread)
            raise error
        return real(*args, **rest)

    patch.setattr(owner, name, failing)
    return hit


def _flushes(store: MessageStore) -> None:
    assert store.put(message(5)).status is LATE, "not known to be on disk"
    assert store.put(message(6)).status is OK and not store._parts.failure, "the disk refused nothing"


def _puts(store: MessageStore) -> None:
    for number in range(200):  # until a file is made again
        if store.put(message(number, size=300)).status is OK and store._parts.files.last.start > 8192:  # type: ignore[union-attr]
            break
    assert store.put(message(5)).status is OK and not store._parts.failure


def _saves(store: MessageStore) -> None:
    store._parts.housekeeping.offsets.commit("g", "T", 0, 2)
    offsets = Path(store.root, "config", "consumerOffset.json")
    assert within(lambda: offsets.exists() and b"T@g" in offsets.read_bytes())
    assert b"T@g" in offsets.read_bytes()


def _marks(store: MessageStore) -> None:
    put_all(store, 2, first=5)
    store.flush()
    assert within(lambda: store._parts.small.mark.dispatched >= store._parts.log.end)
    assert store._parts.small.mark.dispatched == store._parts.log.end, "the next look wrote it"


def _halts(store: MessageStore) -> None:
    """Damage, or a mistake of ours, stops dispatch for good; memory may be there again in a second."""
    dispatch = store._parts.dispatch
    store.put(message(5))
    dispatched = store.wait_dispatched(30)
    assert dispatched is (dispatch.stopped_at is None), dispatch.stopped_at
    if dispatched:
        assert store.get("T", 0, 0).messages


POOL = {"flushDiskType": "SYNC_FLUSH", "transientStorePoolEnable": True, "transientStorePoolSize": 4}
SERVICES: dict[str, tuple[tuple[Any, str], str, dict[str, Any], Callable[[MessageStore], None]]] = {
    "flush": ((MappedFileQueue, "flush"), "flintmq-flush", POOL, _flushes),  # by a thread of Python
    "allocation": ((MappedFile, "create"), "flintmq-allocation", {}, _puts),
    "upkeep": ((Housekeeping, "_save"), "flintmq-upkeep", {"flushConsumerOffsetInterval": 20}, _saves),
    "housekeeping": ((OpenFiles, "flush"), "flintmq-checkpoint", {}, _marks),
    "dispatch": ((DispatchService, "_read"), "flintmq-dispatch", {}, _halts),
}


@pytest.mark.parametrize("error", [MemoryError(), ValueError("odd"), StoreAccessError("refused")], ids=repr)
@pytest.mark.parametrize("service", SERVICES)
def test_no_thread_ends_without_a_word(
    service: str, error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each says it and goes on: none of these errors is a refusal of the disk, which is noted where it is met."""
    monkeypatch.setitem(KEYS, "flushIntervalConsumeQueue", 20)
    place, thread, keys, judge = SERVICES[service]
    store = open_small(tmp_path, **keys)
    hit = fail_once(*place, error, monkeypatch, thread=thread)
    try:
        judge(store)
    finally:
        assert hit == [thread], "the failure was not met"
        assert thread in {one.name for one in threading.enumerate()}, "the thread is gone"
        assert any(
            type(error).__name__ in r.getMessage() + str(r.exc_info) or str(error) in r.getMessage()
            for r in caplog.records
        )
        (close_unclean if store._parts.failure else MessageStore.close)(store)


def test_a_pool_s_commit_that_fails_oddly_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_small(tmp_path, transientStorePoolEnable=True, transientStorePoolSize=4)
    hit = fail_once(MappedFileQueue, "commit", MemoryError(), monkeypatch, thread="flintmq-commit")
    store.put(Message("T", b"x" * 300))
    end = store._parts.log.end
    limit = time.monotonic() + 20
    while store._parts.commits.committed < end and time.monotonic() < limit:  # type: ignore[union-attr]
        time.sleep(0.01)
    assert hit and store._parts.commits.committed >= end and not store._parts.failure  # type: ignore[union-attr]
    store.close()
    assert len(records(tmp_path)) == 1
