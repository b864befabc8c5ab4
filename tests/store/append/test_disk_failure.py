"""The mark of a store whose disk refused."""

from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.errors import StoreError
from flintmq.message import PutMessageStatus
from flintmq.store.append.disk_failure import DiskFailure
from flintmq.store.consumer.consumer import Consumer
from flintmq.store.message_store import MessageStore
from tests.support.engine import message, open_small, put_dispatched
from tests.support.faults import close_unclean


def test_poison_keeps_its_first_reason_and_tells_it_once(caplog: pytest.LogCaptureFixture):
    failure = DiskFailure(root="store")
    assert not failure
    failure.set("first")
    failure.set("second")
    assert failure and failure.reason == "first"
    assert [r.getMessage()[:13] for r in caplog.records] == ["store: first;"]


CALLS: dict[str, Callable[[MessageStore, Consumer], object]] = {  # those whose result is to be on disk, now or soon
    "flush": lambda s, c: s.flush(),
    "create_topic": lambda s, c: s.create_topic("later", 4),
    "commit_offset": lambda s, c: s.commit_offset("g", "T", 0, 1),
    "commit": lambda s, c: c.commit(),
    "commit, not waiting": lambda s, c: c.commit({0: 1}, wait=False),
    "commit of what is committed": lambda s, c: c.commit({0: 0}, wait=False),
}


@pytest.mark.parametrize("call", CALLS)
def test_no_call_returns_as_if_done_once_the_disk_has_failed(call: str, tmp_path: Path) -> None:
    store = open_small(tmp_path)
    put_dispatched(store, 2)
    consumer = store.consumer("g", "T")
    consumer.poll()
    store._parts.failure.set("a sync failed")
    with pytest.raises(StoreError):
        CALLS[call](store, consumer)
    assert store.put(message(3)).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    close_unclean(store)
    assert not (tmp_path / "config" / "topics.json").exists()
