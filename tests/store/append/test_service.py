"""What a put wakes, waits for and counts."""

from pathlib import Path

import pytest

from flintmq.kernels.threads.flusher import native
from flintmq.message import PutMessageStatus
from flintmq.store.append.after_put import AfterPut, DispatchAndFlush
from tests.support.engine import message, open_small

OK = PutMessageStatus.PUT_OK
FLUSH = "NativeFlush" if native() else "PythonFlush"


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
