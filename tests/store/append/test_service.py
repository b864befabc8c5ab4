"""What a put wakes, waits for and counts."""

import errno
from pathlib import Path

import pytest

from flintmq.kernels.threads.flusher import native
from flintmq.message import Message, PutMessageStatus
from flintmq.store.append.after_put import AfterPut, DispatchAndFlush
from tests.support.engine import FIRST_LOG, message, open_small
from tests.support.faults import Faulty, close_unclean

OK = PutMessageStatus.PUT_OK
FLUSH = "NativeFlush" if native() else "PythonFlush"


def test_many_messages_wait_for_one_sync(tmp_path: Path):
    effects = Faulty()
    with open_small(tmp_path, effects, flushDiskType="SYNC_FLUSH", mappedFileSizeCommitLog="1048576") as store:
        store.put(message(0))
        before = effects.count("sync", FIRST_LOG)
        results = store.put_many([message(n) for n in range(1, 50)])
        assert {r.status for r in results} == {OK} and [r.queue_offset for r in results] == list(range(1, 50))
        assert effects.count("sync", FIRST_LOG) == before + 1
        assert store._parts.files.flushed_where == results[-1].physical_offset + results[-1].size


def test_refused_ones_among_many_keep_their_place(tmp_path: Path):
    with open_small(tmp_path) as store:
        results = store.put_many([message(0), Message("a/b"), message(1)])
        assert [r.status for r in results] == [OK, PutMessageStatus.MESSAGE_ILLEGAL, OK]
        assert store.put_many([]) == []
        assert store.put_many([Message("a/b")])[0].status is PutMessageStatus.MESSAGE_ILLEGAL
        assert store.stats().puts_refused == {"MESSAGE_ILLEGAL": 2}


def test_all_of_many_are_unknown_after_a_failed_sync(tmp_path: Path):
    effects = Faulty()
    store = open_small(tmp_path, effects, flushDiskType="SYNC_FLUSH")
    store.put(message(0))
    effects.refuse("sync", FIRST_LOG, error=errno.EIO)
    results = store.put_many([message(1), message(2)])
    assert {r.status for r in results} == {PutMessageStatus.FLUSH_DISK_TIMEOUT}
    assert store.stats().puts_refused == {"FLUSH_DISK_TIMEOUT": 2}
    assert store.put(message(3)).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    close_unclean(store)


def test_a_slave_takes_nothing(tmp_path: Path):
    with open_small(tmp_path, brokerRole="SLAVE") as store:
        assert store.put(message(0)).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
        assert store.put_many([message(0)])[0].status is PutMessageStatus.SERVICE_NOT_AVAILABLE


@pytest.mark.parametrize("wakes", ["true", "false"])
def test_a_put_wakes_the_flusher_if_it_is_told_to(tmp_path: Path, wakes: str):
    keys = {"flushIntervalCommitLog": "100000", "flushCommitLogLeastPages": "0", "wakeFlushWhenPutMessage": wakes}
    with open_small(tmp_path, **keys) as store:
        woken: list[bool] = []
        store._parts.flush.wake = lambda: woken.append(True)  # type: ignore[method-assign]
        store.put(message(0))
        assert woken == ([True] if wakes == "true" else [])
        del store._parts.flush.wake  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("keys", "service"),
    [
        ({}, "DispatchService"),
        ({"flushDiskType": "SYNC_FLUSH"}, FLUSH),
        ({"flushDiskType": "SYNC_FLUSH", "wakeFlushWhenPutMessage": "true"}, FLUSH),
        ({"transientStorePoolEnable": "true", "flushDiskType": "ASYNC_FLUSH"}, "CommitService"),
        ({"transientStorePoolEnable": "true", "wakeFlushWhenPutMessage": "true"}, "CommitService"),
        ({"wakeFlushWhenPutMessage": "true"}, "DispatchAndFlush"),
    ],
    ids=str,
)
def test_both_ways_of_a_put_wake_the_same_service(tmp_path: Path, keys: dict[str, str], service: str):
    with open_small(tmp_path, **keys) as store:
        assert type(store.after_put).__name__ == service and store._parts.puts.after_put is store.after_put


class Woken(AfterPut):
    """Notes the sizes with which it is woken."""

    def __init__(self, needs_wake: bool) -> None:
        self.needs_wake, self.sizes = needs_wake, []

    def wake(self, size: int = 0) -> None:
        self.sizes.append(size)


@pytest.mark.parametrize("sleeps", [True, False])
def test_with_each_put_the_flusher_is_woken_and_dispatch_if_it_sleeps(sleeps: bool):
    dispatch, flush = Woken(sleeps), Woken(False)
    both = DispatchAndFlush(dispatch, flush)
    assert both.needs_wake
    both.wake(7)
    both.wake()
    assert (dispatch.sizes, flush.sizes) == ([7, 0] if sleeps else [], [0, 0])
