"""The log's directory, the store or a log file in use is deleted under a running store: noticed, and not made again."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.errors import LostLogError, StoreError
from flintmq.message import PutMessageStatus
from flintmq.store.append.flush import PythonFlush
from flintmq.store.message_store import MessageStore
from flintmq.store.services.checkpointer import Checkpointer
from tests.support.engine import FILE_SIZE, KEYS, message, open_small, put_all, put_dispatched
from tests.support.faults import close_unclean
from tests.support.threads import within

OK, NOT_AVAILABLE = PutMessageStatus.PUT_OK, PutMessageStatus.SERVICE_NOT_AVAILABLE


def _file(root: Path) -> None:
    next(path for path in sorted((root / "commitlog").iterdir())).unlink()


def _other_directory(root: Path) -> None:
    (root / "commitlog").rename(root / "away")
    (root / "commitlog").mkdir()


GONE: dict[str, Callable[[Path], object]] = {
    "the store": shutil.rmtree,
    "the log": lambda root: shutil.rmtree(root / "commitlog"),
    "another in the log's place": _other_directory,
    "the file in use": _file,
}


def by_the_second(store: MessageStore) -> None:
    assert within(lambda: store._parts.failure)


def by_puts(store: MessageStore) -> None:
    """At the next file at the latest, under SYNC_FLUSH with the first put."""
    for _ in range(8):
        store.put(message(1, size=FILE_SIZE // 2))


@pytest.mark.parametrize("noticed", [by_the_second, by_puts])
@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
@pytest.mark.parametrize("gone", GONE)
def test_it_is_noticed_and_nothing_is_made_again(
    tmp_path: Path, gone: str, flush: str, noticed: Callable[[MessageStore], None], caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "store"
    store = open_small(root, flushDiskType=flush, flushIntervalCommitLog=60_000)
    put_dispatched(store, 3)
    GONE[gone](root)
    there = (root / "commitlog").exists()
    if flush == "SYNC_FLUSH":
        assert store.put(message(3)).status is not OK, "not even the first one"
    noticed(store)
    assert store.put(message(4)).status is NOT_AVAILABLE
    with pytest.raises(StoreError, match="removed or replaced"):
        store.flush()
    close_unclean(store)  # puts are refused a moment before the thread that noticed has written its line
    assert sum("removed or replaced" in record.getMessage() for record in caplog.records) == 1, "one line"
    assert (root / "commitlog").exists() == there
    assert not there or not any(path.stat().st_size for path in (root / "commitlog").glob("0" * 20))
    if gone == "the log":
        with pytest.raises(LostLogError):
            open_small(root)


def test_the_last_bytes_of_a_full_file_are_flushed_at_the_next_look(tmp_path: Path) -> None:
    """However few pages wait (upstream isAbleToFlush); and so with the pool."""
    for pool in (False, True):
        store = MessageStore(
            tmp_path / str(pool),
            {"mappedFileSizeCommitLog": 4 * FILE_SIZE, "transientStorePoolEnable": pool, "transientStorePoolSize": 3},
            services=False,
        )
        end = store.put(message(0, size=3 * FILE_SIZE + 500)).physical_offset
        store.flush()
        flushed = store._parts.files.flushed_where
        assert end < flushed < 4 * FILE_SIZE
        rolled = store.put(message(1, size=FILE_SIZE)).physical_offset
        assert rolled == 4 * FILE_SIZE
        if pool:
            assert store._parts.commits is not None and store._parts.commits.commit_once(4)
        flush = store._parts.flush
        assert isinstance(flush, PythonFlush)
        assert flush.flush_once(4) and store._parts.files.flushed_where > rolled
        store.put(message(2, size=100))
        assert not flush.flush_once(4), "no file is full, and no four pages wait"
        store.close()


def test_a_checkpoint_that_found_no_space_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the next look, though nothing was flushed since."""

    monkeypatch.setitem(KEYS, "flushIntervalConsumeQueue", 10)
    tried: list[int] = []  # how far the log was flushed at each look that wanted to write
    real = Checkpointer.write

    def refused(self: Checkpointer, closing: bool = False) -> None:
        tried.append(self._files.flushed_where)
        if tried.count(tried[-1]) < 3 and not closing:
            raise OSError(28, "No space left on device")
        real(self, closing)

    monkeypatch.setattr(Checkpointer, "write", refused)
    with open_small(tmp_path, flushIntervalCommitLog=60_000) as store:
        put_all(store, 3)
        store.flush()
        end, limit = store._parts.files.flushed_where, time.monotonic() + 20
        while tried.count(end) < 3 and time.monotonic() < limit:
            time.sleep(0.01)
        time.sleep(0.1)
        assert not store._parts.failure and tried.count(end) == 3, "twice refused, once written, then nothing to do"
