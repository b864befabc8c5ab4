"""Keys that change what the store does: another value of the key, another result (all: tests/test_config_keys.py)."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq.store.message_store import MessageStore
from tests.store.engine import KEYS, message, open_small, put_all

POOL = {"transientStorePoolEnable": "true"}
FAR = {"commitIntervalCommitLog": 100_000, "commitCommitLogThoroughInterval": 100_000}


def within(what: Callable[[], bool], seconds: float) -> bool:
    """Whether it becomes true within so many seconds."""
    limit = time.monotonic() + seconds
    while not what():
        if time.monotonic() > limit:
            return False
        time.sleep(0.005)
    return True


@pytest.mark.parametrize(("pause_ms", "soon"), [(20, True), (100_000, False)])
def test_how_often_queues_are_flushed(tmp_path: Path, pause_ms: int, soon: bool):
    """flushIntervalConsumeQueue: the mark says how far queues are on disk."""
    with open_small(tmp_path, flushIntervalConsumeQueue=pause_ms, flushIntervalCommitLog=10) as store:
        put_all(store, 5)
        store.flush()
        # The default is 1 s.
        assert within(lambda: store._small.queued >= store._log.end, 5 if soon else 1.6) is soon


@pytest.mark.parametrize(("timed", "soon"), [("false", True), ("true", False)])
def test_a_commit_from_the_pool_wakes_the_flush(tmp_path: Path, timed: str, soon: bool):
    """flushCommitLogTimed: else the flush waits for its own time."""
    keys: dict[str, Any] = {"flushIntervalCommitLog": 100_000, "flushCommitLogLeastPages": 0}
    with open_small(tmp_path, **POOL, **FAR, **keys, flushCommitLogTimed=timed) as store:
        time.sleep(0.1)  # its first look is past
        put_all(store, 5)
        assert store._commits is not None and store._commits.commit_once()
        assert within(lambda: store._files.flushed_where == store._log.end, 5 if soon else 0.4) is soon


@pytest.mark.parametrize(
    ("keys", "soon"),
    [
        ({"wakeCommitWhenPutMessage": "false"}, False),
        ({"wakeCommitWhenPutMessage": "true", "commitCommitLogLeastPages": 1}, True),
        ({"wakeCommitWhenPutMessage": "true", "commitCommitLogLeastPages": 100}, False),
        ({"wakeCommitWhenPutMessage": "false", "commitIntervalCommitLog": 10, "commitCommitLogLeastPages": 1}, True),
        ({"wakeCommitWhenPutMessage": "false", "commitIntervalCommitLog": 10, "commitCommitLogLeastPages": 100}, False),
        (
            {
                "wakeCommitWhenPutMessage": "false",
                "commitIntervalCommitLog": 10,
                "commitCommitLogLeastPages": 100,
                "commitCommitLogThoroughInterval": 10,
            },
            True,
        ),
    ],
)
def test_when_the_pool_is_committed(tmp_path: Path, keys: dict[str, Any], soon: bool):
    sizes = KEYS | {"mappedFileSizeCommitLog": 1 << 20}
    with MessageStore(tmp_path, config=sizes | POOL | FAR | keys, dispatch="external") as store:
        time.sleep(0.1)  # its first look is past
        for number in range(30):
            store.put(message(number, size=1000))  # seven pages
        assert store._commits is not None
        assert within(lambda: store._commits.done[1] > 0, 5 if soon else 0.4) is soon  # type: ignore[union-attr]


@pytest.mark.parametrize("most", [2, 5])
def test_the_most_that_a_query_answers(tmp_path: Path, most: int):
    """maxMsgsNumBatch: the newest of them."""
    with open_small(tmp_path, maxMsgsNumBatch=most) as store:
        for number in range(8):
            store.put(message(1, queue_id=number % 2))
        assert store.wait_dispatched(10)
        assert len(store.query("T", "k1")) == most


@pytest.mark.parametrize(
    ("keys", "count"),
    [
        ({}, 8),
        ({"maxTransferCountOnMessageInDisk": 3}, 3),
        ({"maxTransferBytesOnMessageInDisk": 500}, 4),
        ({"maxTransferCountOnMessageInDisk": 3, "accessMessageInMemoryMaxRatio": 40}, 10),  # a file of units
    ],
)
def test_what_a_get_answers_of_messages_far_behind(tmp_path: Path, keys: dict[str, int], count: int):
    """With accessMessageInMemoryMaxRatio=0 every message is far behind."""
    with open_small(tmp_path, **{"accessMessageInMemoryMaxRatio": 0, **keys}) as store:
        sizes = {result.size for result in put_all(store, 20)}
        assert store.wait_dispatched(10)
        got = store.get("T", 0, 0, 20).messages
        assert len(got) == (500 // max(sizes) if "maxTransferBytesOnMessageInDisk" in keys else count)


@pytest.mark.parametrize(("units", "found"), [(8, False), (9, True)])
def test_how_far_a_get_with_a_filter_looks(tmp_path: Path, units: int, found: bool):
    """maxFilterMessageSize: bytes of queue units."""
    with open_small(tmp_path, maxFilterMessageSize=20 * units) as store:
        for number in range(8):
            store.put(message(3 * number))
        store.put(message(1))  # the ninth has another tag
        assert store.wait_dispatched(10)
        assert bool(store.get("T", 0, 0, 1, tags="t1").messages) is found
