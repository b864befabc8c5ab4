"""Puts that an event loop awaits: answered by group, in time, and only when they are on disk."""

import asyncio
import errno
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from flintmq.errors import UsageError
from flintmq.message import Message, Outcome, PutMessageStatus, PutResult
from flintmq.store.message_store import MessageStore
from tests.support.engine import FIRST_LOG, check_derived, message, open_small
from tests.support.faults import Faulty, unclean

OK = PutMessageStatus.PUT_OK
LATE = PutMessageStatus.FLUSH_DISK_TIMEOUT


def open_sync(root: Path, effects: Faulty | None = None, **keys: Any) -> MessageStore:
    return open_small(root, effects, flushDiskType="SYNC_FLUSH", **keys)


async def put_all(store: MessageStore, count: int, **rest: Any) -> list[PutResult]:
    return list(await asyncio.gather(*[store.put_async(message(n, **rest)) for n in range(count)]))


def test_a_thousand_in_flight_are_stored_in_order_by_few_syncs(tmp_path: Path):
    effects = Faulty()
    store = MessageStore(tmp_path, flush_disk_type="SYNC_FLUSH", dev=True, effects=effects)
    before = effects.count("sync", "commitlog")
    results = asyncio.run(put_all(store, 1024))
    assert {r.status for r in results} == {OK}
    assert [r.queue_offset for r in results] == list(range(1024))
    assert store._parts.files.flushed_where >= results[-1].physical_offset + results[-1].size
    # Without a GIL the flush thread runs beside the puts, so its groups are as large as the disk is slow.
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    assert effects.count("sync", "commitlog") - before < (100 if has_gil else 1024)
    assert store.wait_dispatched(10)
    assert store.get("T", 0, 1023).messages[0].body[:6] == b"001023"
    store.close()


def test_roll_over_and_refusals_on_the_way(tmp_path: Path):
    with open_sync(tmp_path) as store:

        async def main() -> list[PutResult]:
            puts = [store.put_async(message(n)) for n in range(100)]
            puts.append(store.put_async(Message("a/b", b"")))
            puts.append(store.put_async(Message("T", b"x", wait=False)))
            return list(await asyncio.gather(*puts))

        results = asyncio.run(main())
    assert [r.status for r in results[:100]] == [OK] * 100
    assert results[100].status is PutMessageStatus.MESSAGE_ILLEGAL and results[101].status is OK
    check_derived(tmp_path)


def test_nothing_is_answered_before_the_sync_that_covers_it(tmp_path: Path):
    effects, let_go = Faulty(), threading.Event()
    with open_sync(tmp_path, effects) as store:
        store.put(message(0))
        hold = lambda name, path: let_go.wait(5) if name == "sync" and FIRST_LOG in path else None  # noqa: E731

        async def main() -> None:
            effects.before = hold
            puts = [asyncio.ensure_future(store.put_async(message(n))) for n in range(1, 10)]
            await asyncio.sleep(0.1)
            assert not any(put.done() for put in puts)
            effects.before = None
            let_go.set()
            assert {r.status for r in await asyncio.gather(*puts)} == {OK}

        asyncio.run(main())


def test_a_failed_sync_is_told_to_everybody(tmp_path: Path):
    effects = Faulty()
    with unclean(), open_sync(tmp_path, effects) as store:
        store.put(message(0))
        effects.refuse("sync", FIRST_LOG, error=errno.EIO)
        results = asyncio.run(put_all(store, 20))
        assert {(r.status, r.outcome) for r in results} <= {
            (LATE, Outcome.UNKNOWN),
            (PutMessageStatus.SERVICE_NOT_AVAILABLE, Outcome.FAILED),
        }
        assert results[0].status is LATE
        assert asyncio.run(put_all(store, 1))[0].status is PutMessageStatus.SERVICE_NOT_AVAILABLE


def test_a_slow_sync_is_a_time_out_and_the_loop_runs_on(tmp_path: Path):
    effects, let_go = Faulty(), threading.Event()
    with open_sync(tmp_path, effects, syncFlushTimeout="200") as store:
        store.put(message(0))

        async def main() -> None:
            effects.before = lambda name, path: let_go.wait(5) if name == "sync" and FIRST_LOG in path else None
            began = time.monotonic()
            first = asyncio.ensure_future(store.put_async(message(1)))
            await asyncio.sleep(0.05)  # its flush has begun
            second = asyncio.ensure_future(store.put_async(message(2)))
            await asyncio.sleep(0.1)
            third = asyncio.ensure_future(store.put_async(message(3)))
            assert (await first).status is LATE and (await second).status is LATE
            assert 0.2 <= time.monotonic() - began < 2 and not third.done(), "each by its own time"
            effects.before = None
            let_go.set()
            assert (await third).status is OK

        asyncio.run(main())


def test_giving_up_waiting_takes_nothing_back(tmp_path: Path):
    with open_sync(tmp_path) as store:

        async def main() -> None:
            task = asyncio.ensure_future(store.put_async(message(0)))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await store.put_async(message(1))).queue_offset == 1

        asyncio.run(main())
        assert store.wait_dispatched(10) and len(store.get("T", 0, 0).messages) == 2


def test_a_loop_that_ended_harms_nobody(tmp_path: Path):
    effects, let_go = Faulty(), threading.Event()
    with open_sync(tmp_path, effects) as store:
        store.put(message(0))

        async def main() -> None:
            effects.before = lambda name, path: let_go.wait(5) if name == "sync" and FIRST_LOG in path else None
            store.put_async(message(1))
            await asyncio.sleep(0.05)

        asyncio.run(main())
        effects.before = None
        let_go.set()
        assert store.put(message(2)).status is OK


def test_without_a_flush_to_wait_for_it_is_answered_at_once(tmp_path: Path):
    with open_small(tmp_path) as store:

        async def main() -> None:
            put = store.put_async(message(0))
            assert asyncio.isfuture(put) and put.done() and (await put).status is OK

        asyncio.run(main())
    with pytest.raises(UsageError, match="is closed"):
        store.put_async(message(1))


def test_it_wants_a_running_loop(tmp_path: Path):
    with open_sync(tmp_path) as store, pytest.raises(RuntimeError, match="no running event loop"):
        store.put_async(message(0))
