"""`lock` is removed or replaced under a running store: RocketMQ would get in, so the store writes nothing any more."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.errors import StoreError
from flintmq.message import PutMessageStatus
from flintmq.store.message_store import MessageStore
from tests.support.engine import FILE_SIZE, message, open_small, put_all, put_dispatched, records
from tests.support.faults import close_unclean
from tests.support.threads import within

NOT_AVAILABLE = PutMessageStatus.SERVICE_NOT_AVAILABLE


def _replace(path: Path) -> None:
    path.with_name("new").write_bytes(b"lock")
    path.with_name("new").replace(path)


GONE: dict[str, Callable[[Path], object]] = {"removed": os.unlink, "replaced": _replace}


def by_a_flush(store: MessageStore) -> None:
    """A put that waits for the disk is not told that all is well."""
    assert store.put(message(10)).status is PutMessageStatus.FLUSH_DISK_TIMEOUT


def by_a_roll(store: MessageStore) -> None:
    """No log file is begun."""
    files = len(records(store.root))
    statuses = {store.put(message(10, size=FILE_SIZE // 2)).status for _ in range(4)}
    assert PutMessageStatus.CREATE_MAPPED_FILE_FAILED in statuses and NOT_AVAILABLE in statuses
    assert len(records(store.root)) <= files + 1


def by_the_second(store: MessageStore) -> None:
    """Without a put."""
    assert within(lambda: store._parts.failure)


def wait_until_files_are_made(store: MessageStore) -> None:
    """A file whose making began before the loss was noticed is finished: nothing could tell its bytes from ours."""
    allocation = store._parts.files.allocation
    assert allocation is not None
    assert within(lambda: all(request.done.is_open for request in list(allocation._table.values())))


@pytest.mark.parametrize("gone", GONE)
@pytest.mark.parametrize("noticed", [by_a_flush, by_a_roll, by_the_second])
def test_nothing_is_acknowledged_once_it_is_noticed(
    noticed: Callable[[MessageStore], None], gone: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sync = "SYNC_FLUSH" if noticed is by_a_flush else "ASYNC_FLUSH"
    store = open_small(tmp_path, flushDiskType=sync, flushIntervalCommitLog=60_000)
    put_dispatched(store, 5)
    GONE[gone](tmp_path / "lock")
    noticed(store)
    assert store.put(message(11)).status is NOT_AVAILABLE
    assert "removed or replaced" in store._parts.failure.reason
    with pytest.raises(StoreError, match="another process may write this store"):
        store.flush()
    wait_until_files_are_made(store)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != "abort"}
    (tmp_path / "commitlog" / "another's").write_bytes(b"")
    close_unclean(store)
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != "abort"}
    after.pop(tmp_path / "commitlog" / "another's")
    assert after == before, "closing wrote, or removed a file made ahead, which may be another's"
    assert (tmp_path / "abort").exists()
    assert sum("removed or replaced" in record.getMessage() for record in caplog.records) == 1, "one line"


def test_the_store_opens_again_and_has_what_was_acknowledged(tmp_path: Path) -> None:
    store = open_small(tmp_path)
    put_all(store, 30)
    (tmp_path / "lock").unlink()
    by_the_second(store)
    close_unclean(store)
    with open_small(tmp_path) as again:
        assert again.get("T", 0, 0).max_offset == 30 and again.put(message(30)).queue_offset == 30
