"""Durability as a user of the store has it: what a failing or slow disk, and a signal, make of the answers."""

import errno
import os
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from flintmq.errors import StoreError
from flintmq.format import checkpoint
from flintmq.message import GetMessageStatus, Message, Outcome, PutMessageStatus
from tests.support.engine import FIRST_LOG, check_derived, message, open_small, put_all, put_dispatched, records
from tests.support.faults import Faulty, close_unclean
from tests.support.interrupts import interrupted_at
from tests.support.threads import at_once, within

OK = PutMessageStatus.PUT_OK


def test_a_sync_put_is_on_disk_before_it_is_answered(tmp_path: Path):
    effects = Faulty()
    with open_small(tmp_path, effects, flushDiskType="SYNC_FLUSH", mappedFileSizeCommitLog=1 << 20) as store:
        for n in range(50):
            before = effects.count("sync", FIRST_LOG)
            [result] = put_all(store, 1, first=n)
            assert store._parts.files.flushed_where >= result.physical_offset + result.size
            assert effects.count("sync", FIRST_LOG) > before


def test_d11_wait_false_does_not_wait_and_is_flushed_soon(tmp_path: Path):
    """D11: the flushed time moves though nobody waited."""
    effects = Faulty()
    with open_small(tmp_path, effects, flushDiskType="SYNC_FLUSH") as store:
        result = store.put(Message("T", b"x", wait=False))
        assert result.status is OK
        assert within(lambda: checkpoint_time(tmp_path) >= result.store_timestamp)
        assert checkpoint_time(tmp_path) == result.store_timestamp
        assert [m.properties for m in store] == [{"WAIT": "false"}]


def checkpoint_time(root: Path) -> int:
    path = root / "checkpoint"
    return checkpoint.decode(path.read_bytes()).physic_timestamp if path.exists() else 0


def test_d1_a_failed_flush_is_never_ok_and_ends_all_puts(tmp_path: Path):
    """Line 3: the failed one is unknown, all later ones fail, nothing is tried again, the stop counts as unclean."""
    effects = Faulty()
    store = open_small(tmp_path, effects, flushDiskType="SYNC_FLUSH")
    put_dispatched(store, 3)
    effects.refuse("sync", FIRST_LOG, error=errno.EIO, times=1)
    failed = store.put(message(3))
    assert (failed.status, failed.outcome) == (PutMessageStatus.FLUSH_DISK_TIMEOUT, Outcome.UNKNOWN)
    assert failed.physical_offset > 0, "stored, but who knows where"
    syncs = effects.count("sync", FIRST_LOG)
    for result in (store.put(message(4)), *store.put_many([message(5)]), store.put(Message("T", b"", wait=False))):
        assert (result.status, result.outcome) == (PutMessageStatus.SERVICE_NOT_AVAILABLE, Outcome.FAILED)
    with pytest.raises(StoreError, match="could not be flushed"):
        store.flush()
    assert [m.queue_offset for m in store.get("T", 0, 0).messages] == [0, 1, 2], "reading goes on"
    time.sleep(0.05)
    close_unclean(store)
    assert effects.count("sync", FIRST_LOG) == syncs, "no sync is tried again"
    assert (tmp_path / "abort").exists()
    with open_small(tmp_path) as again:
        assert len(list(again)) in (3, 4)
    assert not (tmp_path / "abort").exists()


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_d1_with_many_threads_waiting(tmp_path: Path, error: int):
    effects = Faulty()
    store = open_small(tmp_path, effects, flushDiskType="SYNC_FLUSH", mappedFileSizeCommitLog=1 << 20)
    told: list[tuple[PutMessageStatus, int]] = []

    def work(number: int) -> None:
        for n in range(30):
            result = store.put(message(n, queue_id=number))
            told.append((result.status, result.physical_offset))

    effects.refuse("sync", FIRST_LOG, error=error, after=20, times=1)
    at_once(*(partial(work, n) for n in range(4)))
    flushed = store._parts.files.flushed_where
    close_unclean(store)
    assert {status for status, _ in told} <= {
        OK, PutMessageStatus.FLUSH_DISK_TIMEOUT, PutMessageStatus.SERVICE_NOT_AVAILABLE,
    }  # fmt: skip
    assert any(status is PutMessageStatus.FLUSH_DISK_TIMEOUT for status, _ in told)
    assert all(place < flushed for status, place in told if status is OK)


def test_an_async_store_too_takes_no_puts_after_a_failed_flush(tmp_path: Path):
    effects = Faulty()
    store = open_small(tmp_path, effects, flushIntervalCommitLog=5, flushCommitLogThoroughInterval=5)
    put_all(store, 1)
    store.flush()
    effects.refuse("sync", FIRST_LOG, times=1)
    put_all(store, 1, first=1)
    assert within(lambda: store.put(message(2)).status is not OK)
    assert store.put(message(2)).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    close_unclean(store)
    assert (tmp_path / "abort").exists()


def test_the_last_flush_of_a_stop_may_fail(tmp_path: Path):
    effects = Faulty()
    store = open_small(tmp_path, effects, flushIntervalCommitLog=60_000)
    put_all(store, 1)
    effects.refuse("sync", FIRST_LOG)
    close_unclean(store)
    assert (tmp_path / "abort").exists(), "not flushed: not stopped cleanly"


@pytest.mark.parametrize("where", ["consumequeue", "index"])
def test_a_queue_or_index_that_cannot_be_flushed_is_not_called_flushed(tmp_path: Path, where: str):
    """Line 3 for derived data: after a failed sync no later checkpoint says that it is on disk."""
    effects = Faulty()
    store = open_small(tmp_path, effects)
    put_dispatched(store, 3)
    store.flush()
    effects.refuse("sync", f"/{where}/", times=1)  # the folder, which the name of the test is not
    assert within(lambda: effects.refused or where == "index")
    time.sleep(0.05)
    close_unclean(store)
    assert effects.refused
    times = checkpoint.decode((tmp_path / "checkpoint").read_bytes()) if (tmp_path / "checkpoint").exists() else None
    assert (tmp_path / "abort").exists() or times is None or times.logics_timestamp == 0
    open_small(tmp_path).close()
    check_derived(tmp_path)


def test_flush_makes_everything_durable(tmp_path: Path):
    effects = Faulty()
    with open_small(tmp_path, effects, flushIntervalCommitLog=60_000) as store:
        last = put_all(store, 100)[-1]
        store.flush()
        assert store._parts.files.flushed_where == last.physical_offset + last.size


def test_a_sync_put_that_times_out_is_unknown_and_the_store_goes_on(tmp_path: Path):
    """T15: a disk that takes its time is no failed one."""
    effects = Faulty()
    with open_small(tmp_path, effects, flushDiskType="SYNC_FLUSH", syncFlushTimeout=50) as store:
        put_all(store, 1)
        slow = threading.Event()
        effects.before = lambda name, path: slow.wait(5) if name == "sync" and FIRST_LOG in path else None
        result = store.put(message(1))
        assert (result.status, result.outcome) == (PutMessageStatus.FLUSH_DISK_TIMEOUT, Outcome.UNKNOWN)
        assert store.get("T", 0, 0).status is GetMessageStatus.FOUND, "readers keep running"
        slow.set()
        effects.before = None
        limit = time.monotonic() + 10
        while store.put(message(2)).status is not OK and time.monotonic() < limit:
            pass
        assert store.put(message(3)).status is OK
    assert len(records(tmp_path)) >= 4


def test_d34_a_slow_sync_makes_nobody_late_but_those_who_waited_for_it(tmp_path: Path):
    """Upstream waits for one request after the other; here one sync answers all that came during the slow one."""
    effects = Faulty()
    with open_small(tmp_path, effects, flushDiskType="SYNC_FLUSH", mappedFileSizeCommitLog=1 << 20) as store:
        put_all(store, 1)
        slow, began = threading.Event(), threading.Event()

        def hang(name: str, path: str) -> None:
            if name == "sync" and FIRST_LOG in path:
                began.set()
                slow.wait(10)

        effects.before = hang
        told: list[PutMessageStatus] = []
        threads = [threading.Thread(target=lambda n=n: told.append(store.put(message(n)).status)) for n in range(1, 9)]
        threads[0].start()
        began.wait(10)
        for thread in threads[1:]:
            thread.start()
        assert within(lambda: len(store._parts.flush.waiters) >= 7)
        before = effects.count("sync", FIRST_LOG)
        effects.before = None
        slow.set()
        for thread in threads:
            thread.join(10)
        assert told == [OK] * 8
        assert effects.count("sync", FIRST_LOG) <= before + 2, "the slow one itself, and one for all others"


def test_d30_consumers_see_nothing_that_is_not_flushed(tmp_path: Path):
    """Under SYNC_FLUSH dispatch is capped at the flushed position (D30)."""
    effects = Faulty()
    with open_small(tmp_path, effects, flushDiskType="SYNC_FLUSH", syncFlushTimeout=50) as store:
        put_dispatched(store, 1)
        slow = threading.Event()
        effects.before = lambda name, path: slow.wait(5) if name == "sync" and FIRST_LOG in path else None
        store.put(message(1))
        time.sleep(0.1)
        assert store.get("T", 0, 1).status is GetMessageStatus.OFFSET_OVERFLOW_ONE
        slow.set()
        effects.before = None
        assert store.wait_dispatched(60)
        assert store.get("T", 0, 1).status is GetMessageStatus.FOUND


def test_a_put_that_a_signal_broke_off_is_whole_or_not_there_when_the_store_closes(tmp_path: Path):
    """A record without its queue unit would be skipped for good by RocketMQ's next clean start (D6)."""
    step = 0
    while True:
        root = tmp_path / f"{step}"
        store = open_small(root, Faulty())
        put_all(store, 2)
        ended = interrupted_at(step, lambda store=store: store.put(message(2)))
        store.close()
        check_derived(root)
        assert len(records(root)) in (2, 3) and not (root / "abort").exists()
        if not ended:
            break
        step += 1
    assert step > 10


def test_what_nobody_waited_for_is_dispatched_by_the_close(tmp_path: Path) -> None:
    """The log is flushed before it is dispatched to its end: a clean stop without a unit hides its message (D6)."""

    class Slow(Faulty):
        def sync(self, fd: int) -> None:
            if FIRST_LOG in os.readlink(f"/proc/self/fd/{fd}"):
                time.sleep(0.5)
            super().sync(fd)

    store = open_small(tmp_path, Slow(), flushDiskType="SYNC_FLUSH")
    for number in range(3):
        assert store.put(Message("T", b"%d" % number, wait=False)).status is PutMessageStatus.PUT_OK
    store.close()
    assert not (tmp_path / "abort").exists() and len(records(tmp_path)) == 3
    check_derived(tmp_path)
