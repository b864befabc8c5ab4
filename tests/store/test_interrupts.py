"""A signal handler raises at any place of a call where Python looks for signals.

That is no failure of the disk, leaves no lock taken, loses nothing that was acknowledged, and hides no failure that the
disk did have.
"""

import errno
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import flintmq
from flintmq.errors import StoreError
from flintmq.message import PutMessageStatus
from flintmq.storage.files.filesystem import Effects
from flintmq.store.layout.config_reader import read_config
from flintmq.store.message_store import MessageStore
from tests.store.append.test_flush import Setup
from tests.support.engine import FIRST_LOG, KEYS, message, open_small, records
from tests.support.faults import Faulty
from tests.support.interrupts import interrupted_at

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a generator drops some

SYNC, POOL = {"flushDiskType": "SYNC_FLUSH"}, {"transientStorePoolEnable": True, "transientStorePoolSize": 4}
PACKAGE = Path(flintmq.__file__).parent
WHERE = tuple(str(path) for room in ("storage", "store") for path in (PACKAGE / room).rglob("*.py"))


class Timeout(Exception):
    """The time limit of a job."""


class Missing(FileNotFoundError):
    """What a handler meets that opens a file of its own."""

    def __init__(self, text: str) -> None:
        super().__init__(errno.ENOENT, text)


ERRORS: list[type[BaseException]] = [Timeout, TimeoutError, KeyboardInterrupt, Missing]


PARTS = 4  # of the places in a save of a table: each takes the disk some syncs
of_tables = pytest.mark.turn(
    PARTS,
    of=("src/flintmq/store/services/housekeeping.py", "src/flintmq/store/layout/config_writer.py",
        "src/flintmq/storage/files/whole_file.py", "tests/store/test_interrupts.py"),
)  # fmt: skip


def every(
    call: Callable[[], object], errors: Sequence[type[BaseException]] = ERRORS, stride: int = 1, first: int = 0
) -> Iterator[int]:
    """Make a call again and again, and let a handler raise at one place after the other; yields after each."""
    at = first
    while interrupted_at(at, call, WHERE, errors[at // stride % len(errors)]):
        yield at
        at += stride
    assert at >= 3 * stride, "the call is not seen"


class Interrupted:
    """A store without threads, whose calls a test interrupts; `acked`: messages whose put was PUT_OK, by number."""

    def __init__(self, root: Path, effects: Effects, **keys: Any) -> None:
        self.store = MessageStore(root, KEYS | keys, effects=effects, services=False, unique_keys=False)
        self.root, self.acked, self.count = root, set[int](), 0

    def put(self, size: int = 20) -> None:
        self.count += 1
        number = self.count
        if self.store.put(message(number, size=size)).status is PutMessageStatus.PUT_OK:
            self.acked.add(number)

    def create(self) -> None:
        self.store.create_topic(f"new{self.count % 5}", 2)

    def commit(self) -> None:
        self.store.commit_offset("g", "T", 0, 0)
        self.store._parts.housekeeping.save_now()

    def check(self) -> None:
        """Nothing failed, and another thread can do all of it."""
        failed: list[BaseException] = []

        def work() -> None:
            try:
                self.put()
                self.store.flush()
                self.store.wait_dispatched(0)
                self.store._parts.retention.clean_once()
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(30)
        assert not thread.is_alive(), "a lock is left taken"
        assert not failed and not self.store._parts.failure, (failed, self.store._parts.failure.reason)

    def close(self) -> None:
        """All that was acknowledged is there, once."""
        self.store.close()
        found = [int(one.body[:6]) for one in records(self.root)]
        assert len(set(found)) == len(found) and self.acked <= set(found)


CALLS: dict[str, tuple[Callable[[Interrupted], object], dict[str, Any]]] = {
    "a put of 2 KiB": (lambda one: one.put(2500), {}),  # begins a file each time
    "a put of 2 KiB into the pool": (lambda one: one.put(2500), POOL),
    "a sync put": (Interrupted.put, SYNC),
    "flush": (lambda one: one.store.flush(), {}),
    "flush of the pool": (lambda one: one.store.flush(), POOL),
    "a commit of the pool": (lambda one: one.store._parts.commits.commit_once(), POOL),  # type: ignore[union-attr]
}
TABLES = {"create_topic": Interrupted.create, "a commit of offsets": Interrupted.commit}


@pytest.mark.parametrize("kind", [Faulty, Effects])
@pytest.mark.parametrize("call", CALLS)
def test_a_handler_s_exception_is_no_failure_of_the_disk(call: str, kind: type[Effects], tmp_path: Path) -> None:
    what, keys = CALLS[call]
    no_failure_of_the_disk(what, Interrupted(tmp_path, kind(), **keys))


@of_tables
@pytest.mark.parametrize("part", range(PARTS))  # first, so that it is the fastest: each day one of each call
@pytest.mark.parametrize("kind", [Faulty, Effects])
@pytest.mark.parametrize("call", TABLES)
def test_nor_of_a_table(call: str, kind: type[Effects], part: int, tmp_path: Path) -> None:
    no_failure_of_the_disk(TABLES[call], Interrupted(tmp_path, kind()), stride=7 * PARTS, first=7 * part)


def no_failure_of_the_disk(what: Callable[[Interrupted], object], one: Interrupted, **places: int) -> None:
    one.put()
    what(one)
    one.put()
    # Only the real disk tells an error of its own from one with a number that a handler raises.
    for _ in every(lambda: what(one), ERRORS if type(one.store.effects) is Effects else ERRORS[:3], **places):
        one.check()
        one.put()
    one.close()


@pytest.mark.parametrize("pool", [{}, POOL], ids=["map", "pool"])
def test_a_failed_sync_is_noted_whatever_comes_after_it(pool: dict[str, Any], tmp_path: Path) -> None:
    """The disk refuses one sync, or write, and would do the next: that must never be asked for."""
    call = "pwrite" if pool else "sync"
    reached, nth, met = True, -1, 0
    while reached:
        nth, disk = nth + 1, Faulty()
        one = Interrupted(tmp_path / str(nth), disk, **pool)
        one.put()
        disk.refuse(call, FIRST_LOG, times=1)
        try:
            reached = interrupted_at(nth, one.store.flush, WHERE, Timeout)
        except StoreError:
            reached = False
        if not disk.refused:
            one.store._parts.opened.close()
            continue
        met += 1
        before = disk.count("sync", FIRST_LOG)
        with pytest.raises(StoreError, match="Input/output error"):
            one.store.flush()
        assert disk.count("sync", FIRST_LOG) == before, "it was asked for again"
        assert one.store.put(message(9)).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
        assert one.store._parts.log.appender.closed, "who listens was not told"
        one.store._parts.opened.close()
    assert met > 3


def test_a_sync_of_the_real_disk_notes_its_error(tmp_path: Path) -> None:
    """The device /dev/full has no sync, and the note outlives a disk that would sync again."""
    for nth in range(40):
        setup = Setup(tmp_path / str(nth))
        setup.files.effects = Effects()
        setup.put()
        file = setup.files.files[0]
        real, full = os.dup(file.fd), os.open("/dev/full", os.O_RDWR)
        os.dup2(full, file.fd)
        interrupted_at(nth, setup.flush.flush_once, WHERE, Timeout)
        noted = setup.files.sync_error
        os.dup2(real, file.fd)
        done = setup.flush.flush_once()
        assert noted in (0, errno.EINVAL)
        assert (done, bool(setup.failure)) == ((True, False) if not noted else (False, True))
        os.close(real)
        os.close(full)
        setup.files.close()


@of_tables
@pytest.mark.parametrize("part", range(PARTS))
def test_a_change_of_a_table_is_written_whatever_interrupts_a_save(part: int, tmp_path: Path) -> None:
    one = Interrupted(tmp_path, Faulty())
    one.put()
    one.commit()

    def change() -> None:
        one.count += 1
        one.store.commit_offset("g", "T", 0, one.count)

    change()
    for _ in every(one.store._parts.housekeeping.save_now, stride=3 * PARTS, first=3 * part):
        one.store._parts.housekeeping.save_once()
        assert read_config(str(tmp_path)).consumer_offsets["T", "g"] == {0: one.count}
        change()
    one.close()


def test_a_close_that_is_interrupted_ends_in_spite_of_it(tmp_path: Path) -> None:
    """What it began goes on in another thread, and the next `close` waits for it."""
    reached, nth = True, -1
    while reached:
        nth += 1
        root = tmp_path / str(nth)
        store = open_small(root, **(SYNC if nth % 2 else {}))
        store.put(message(0))
        reached = interrupted_at(nth, store.close, WHERE, ERRORS[nth % len(ERRORS)])
        store.close()
        assert not (root / "abort").exists(), "not stopped cleanly"
        with open_small(root) as again:
            assert [one.body for one in again] == [message(0).body]
    assert nth > 5


def test_a_thread_that_is_ended_takes_nothing_with_it(tmp_path: Path) -> None:
    """PyThreadState_SetAsyncExc, into threads that put, flush and commit: no message that was acknowledged is lost."""
    store = open_small(tmp_path, **POOL)
    acked: set[int] = set()
    numbers = iter(range(1 << 30))

    class Ended(Exception):
        pass

    def work() -> None:
        try:
            with store.consumer(threading.current_thread().name, "T") as consumer:
                while True:
                    number = next(numbers)
                    if store.put(message(number)).status is PutMessageStatus.PUT_OK:
                        acked.add(number)
                    store.flush()
                    consumer.poll(1)
                    consumer.commit()
        except Ended:
            pass

    import ctypes

    for _ in range(40):
        thread = threading.Thread(target=work)
        thread.start()
        for _ in range(2000):
            thread.join(0.005)
            if not thread.is_alive():
                break
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(Ended))
        assert not thread.is_alive(), "it waits for ever"
    assert not store._parts.failure
    store.close()
    assert acked and acked <= {int(one.body[:6]) for one in records(tmp_path)}
