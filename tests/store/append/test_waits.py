"""Whoever waits is told when the store is closed, when its disk refuses, and when dispatch stands still for good."""

import asyncio
import errno
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq.errors import UsageError
from flintmq.message import Message, PutMessageStatus
from flintmq.storage.files.filesystem import Effects
from flintmq.store.message_store import MessageStore
from tests.support.engine import message, open_small, put_dispatched
from tests.support.faults import close_unclean

LONG_S = 25.0  # how long each of them would wait
SOON_S = 15.0  # from here on nobody woke it; the machine may be slow
CLOSED = "UsageError"
LATE = PutMessageStatus.FLUSH_DISK_TIMEOUT.name


class Stuck(Effects):
    """A disk whose syncs of the log hang until they are let go on, and then fail if they are to."""

    def __init__(self) -> None:
        self.go_on, self.inside, self.fails, self.armed = threading.Event(), threading.Event(), False, False

    def sync(self, fd: int) -> None:
        if self.armed and threading.current_thread().name != "MainThread":
            self.inside.set()
            self.go_on.wait(60)
            if self.fails:
                raise OSError(errno.EIO, "Input/output error")
        super().sync(fd)


async def _async(store: MessageStore) -> Any:
    return await store.put_async(message(7))


def _iterate(store: MessageStore) -> Any:
    return list(store.consumer("g", "none", idle_ms=None))


Wait = Callable[[MessageStore], Any]
MS = int(LONG_S * 1000)
# What waits, and what each end of the waiting tells it. None: it does not wait for what ends there.
WAITS: dict[str, tuple[Wait, dict[str, str | None]]] = {
    "get": (lambda s: s.get("none", 0, 0, wait_ms=MS), {"closed": CLOSED, "poisoned": None, "halted": None}),
    "get_batch": (
        lambda s: s.get_batch("none", 0, 0, wait_ms=MS),
        {"closed": CLOSED, "poisoned": None, "halted": None},
    ),
    "poll": (
        lambda s: s.consumer("g", "none").poll(1, MS),
        {"closed": CLOSED, "poisoned": None, "halted": None},
    ),
    "iterate": (_iterate, {"closed": "[]", "poisoned": None, "halted": None}),
    "wait_dispatched": (
        lambda s: s.wait_dispatched(LONG_S),
        {"closed": "True", "poisoned": "False", "halted": "False"},
    ),
    "put": (lambda s: s.put(message(7)).status.name, {"closed": "PUT_OK", "poisoned": LATE, "halted": "PUT_OK"}),
    "put_many": (
        lambda s: s.put_many([message(7)])[0].status.name,
        {"closed": "PUT_OK", "poisoned": LATE, "halted": "PUT_OK"},
    ),
    "put_async": (
        lambda s: asyncio.run(_async(s)).status.name,
        {"closed": "PUT_OK", "poisoned": LATE, "halted": "PUT_OK"},
    ),
    "flush": (lambda s: s.flush(), {"closed": "None", "poisoned": "StoreError", "halted": "None"}),
}


@pytest.mark.parametrize("end", ["closed", "poisoned", "halted"])
def test_each_wait_ends(end: str, tmp_path: Path) -> None:
    """All of them wait at once, for a record that waits for a sync."""
    disk = Stuck()
    disk.fails = end == "poisoned"
    store = open_small(tmp_path, disk, flushDiskType="SYNC_FLUSH", syncFlushTimeout=60_000)
    put_dispatched(store, 3)
    found: dict[str, str] = {}
    took: dict[str, float] = {}
    disk.armed = True

    def wait(name: str) -> None:
        try:
            found[name] = str(WAITS[name][0](store))
        except Exception as error:
            found[name] = type(error).__name__
        took[name] = time.monotonic()

    waits = [name for name, (_, ends) in WAITS.items() if ends[end] is not None]
    threads = [threading.Thread(target=wait, args=(name,), daemon=True) for name in ("put", *(set(waits) - {"put"}))]
    threads[0].start()
    assert disk.inside.wait(30), "the flush hangs"
    for thread in threads[1:]:
        thread.start()
    time.sleep(0.5)
    assert not found, "each of them waits"
    began = time.monotonic()
    if end == "halted":
        store._parts.dispatch._halt(OSError(errno.EIO, "Input/output error"))
        disk.go_on.set()
    elif end == "poisoned":
        disk.go_on.set()
    else:
        closing = threading.Thread(target=store.close)
        closing.start()
        disk.go_on.set()
        closing.join(60)
    for thread in threads:
        thread.join(SOON_S)
    assert found == {name: WAITS[name][1][end] for name in waits}
    assert max(took.values()) - began < SOON_S
    (close_unclean if end == "poisoned" else MessageStore.close)(store)


def test_a_wait_for_dispatch_ends_when_the_thread_halts(tmp_path: Path) -> None:
    """By damage or a disk that refuses, found by the thread itself."""
    store = open_small(tmp_path)
    (tmp_path / "consumequeue").write_bytes(b"a file in the place of a directory")
    told: list[bool] = []
    with store._parts.dispatch._step:  # so that the wait begins before the failure
        store.put(Message("T", b"x"))
        thread = threading.Thread(target=lambda: told.append(store.wait_dispatched()), daemon=True)
        thread.start()
        time.sleep(0.2)
    thread.join(SOON_S)
    assert told == [False]
    store.close()


def test_who_begins_to_wait_after_the_close_does_not_wait(tmp_path: Path) -> None:
    """It was let in before, and took its time."""
    store = open_small(tmp_path)
    reader, queues, began = store._parts.reader, store._parts.queues, time.monotonic()
    find = queues.find

    def closed_meanwhile(*place: Any) -> Any:
        store.close()
        return find(*place)

    queues.find = closed_meanwhile  # type: ignore[method-assign]
    with pytest.raises(UsageError, match="is closed"):
        reader.get("T", 0, 0, 1, None, MS)
    assert time.monotonic() - began < SOON_S
