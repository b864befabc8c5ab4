"""Puts that an event loop awaits, by the native flusher and by the Python one: answered by group, in time, and only
when they are on disk."""

import asyncio
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flintmq.errors import UsageError
from flintmq.kernels.threads.flusher import native
from flintmq.message import Message, Outcome, PutMessageStatus, PutResult
from flintmq.store.message_store import MessageStore
from tests.support.engine import FIRST_LOG, check_derived, message, open_small
from tests.support.faults import Faulty, unclean

OK, LATE = PutMessageStatus.PUT_OK, PutMessageStatus.FLUSH_DISK_TIMEOUT


class Gate:
    """Holds the syncs of a store back, or breaks them."""

    def __init__(self, way: str) -> None:
        self.effects = Faulty() if way == "python" else None
        self.inner, self.outer = socket.socketpair()
        self._permits = threading.Semaphore(0)

    def open(self, root: Path, **keys: Any) -> MessageStore:
        """A store whose flusher goes this way."""
        sync: dict[str, Any] = {"mappedFileSizeCommitLog": 1 << 20, "flushDiskType": "SYNC_FLUSH"}
        store = open_small(root, self.effects, **(sync | keys))
        assert (store.flusher is None) == (self.effects is not None)
        return store

    def hold(self, store: MessageStore) -> None:
        """From now on each sync waits for `let`."""
        if self.effects is None:
            store._parts.flush.flusher.gate = self.inner.fileno()
        else:
            self.effects.before = self._hold

    def _hold(self, name: str, path: str) -> None:
        if name == "sync" and FIRST_LOG in path:
            assert self._permits.acquire(timeout=60)

    def let(self, count: int = 1) -> None:
        self.outer.send(b"x" * count)
        self._permits.release(count)


@pytest.fixture(
    params=["python", pytest.param("native", marks=pytest.mark.skipif(not native(), reason="kernels run uncompiled"))]
)
def gate(request: pytest.FixtureRequest) -> Iterator[Gate]:
    made = Gate(request.param)
    yield made
    made.let(1000)
    made.inner.close()
    made.outer.close()


def statuses(results: list[PutResult]) -> set[PutMessageStatus]:
    return {result.status for result in results}


async def put_all(store: MessageStore, count: int) -> list[PutResult]:
    return list(await asyncio.gather(*[store.put_async(message(n)) for n in range(count)]))


async def wait_for(put: Any) -> PutResult:
    return await put


def test_a_thousand_in_flight_are_stored_in_order_by_few_syncs(tmp_path: Path):
    effects = Faulty()
    store = MessageStore(tmp_path, flush_disk_type="SYNC_FLUSH", dev=True, effects=effects)
    before = effects.count("sync", "commitlog")
    results = asyncio.run(put_all(store, 1024))
    assert statuses(results) == {OK} and [r.queue_offset for r in results] == list(range(1024))
    assert store._parts.files.flushed_where >= results[-1].physical_offset + results[-1].size
    # Without a GIL the flush thread runs beside the puts, so its groups are as large as the disk is slow.
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    assert effects.count("sync", "commitlog") - before < (100 if has_gil else 1024)
    assert store.wait_dispatched(60)
    assert store.get("T", 0, 1023).messages[0].body[:6] == b"001023"
    store.close()


def test_roll_over_and_what_is_not_plain(tmp_path: Path, gate: Gate):
    with gate.open(tmp_path, mappedFileSizeCommitLog=4096) as store:

        async def main() -> list[PutResult]:
            puts = [store.put_async(message(n, topic=f"T{n % 7}")) for n in range(200)]
            puts.append(store.put_async(Message("a/b", b"")))
            puts.append(store.put_async(Message("T", b"x", wait=False)))
            puts.append(store.put_async(Message("T", bytes(3000))))
            return list(await asyncio.gather(*puts))

        results = asyncio.run(main())
        assert statuses(results[:200]) == {OK}
        assert results[200].status is PutMessageStatus.MESSAGE_ILLEGAL and statuses(results[201:]) == {OK}
    check_derived(tmp_path)


def test_nothing_is_answered_before_the_sync_that_covers_it(tmp_path: Path, gate: Gate):
    with gate.open(tmp_path) as store:
        store.put(message(0))
        gate.hold(store)

        async def main() -> None:
            early = [store.put_async(message(n)) for n in range(5)]
            await asyncio.sleep(0.1)
            late = [store.put_async(message(n)) for n in range(5)]
            await asyncio.sleep(0.1)
            assert not any(put.done() for put in early + late)
            gate.let()
            assert statuses(await asyncio.gather(*early)) == {OK}
            await asyncio.sleep(0.1)
            assert not any(put.done() for put in late)
            gate.let()
            assert statuses(await asyncio.gather(*late)) == {OK}

        asyncio.run(main())
        gate.let(100)


def test_each_is_late_by_its_own_time_and_the_loop_runs_on(tmp_path: Path, gate: Gate):
    with gate.open(tmp_path, syncFlushTimeout=300) as store:
        store.put(message(0))
        gate.hold(store)

        async def main() -> None:
            began = time.monotonic()
            first = store.put_async(message(1))
            await asyncio.sleep(0.1)
            second = store.put_async(message(2))
            assert (await first).status is LATE and not second.done()
            assert 0.3 <= time.monotonic() - began < 5
            assert (await second).status is LATE
            third = store.put_async(message(3))
            gate.let(100)
            assert (await third).status is OK

        asyncio.run(main())
        assert sum(store.stats().put_times.values()) == 4


def test_a_failed_sync_is_told_to_everybody(tmp_path: Path, gate: Gate):
    with unclean(), gate.open(tmp_path) as store:
        store.put(message(0))
        fd = store._parts.files.last.fd
        real = os.dup(fd)
        if gate.effects is None:
            os.dup2(gate.inner.fileno(), fd)  # a socket cannot be synced
        else:
            gate.effects.refuse("sync", FIRST_LOG)
        results = asyncio.run(put_all(store, 50))
        os.dup2(real, fd)
        os.close(real)
        # The thread of Python may be done before the last of them is put.
        assert results[0].status is LATE and (gate.effects is not None or statuses(results) == {LATE})
        assert {(r.status, r.outcome) for r in results} <= {
            (LATE, Outcome.UNKNOWN), (PutMessageStatus.SERVICE_NOT_AVAILABLE, Outcome.FAILED),
        }  # fmt: skip
        assert statuses(asyncio.run(put_all(store, 2))) == {PutMessageStatus.SERVICE_NOT_AVAILABLE}
    assert (tmp_path / "abort").exists()


def test_a_cancelled_wait_takes_nothing_back(tmp_path: Path, gate: Gate):
    with gate.open(tmp_path) as store:

        async def main() -> None:
            await store.put_async(message(0))
            gate.hold(store)
            task = asyncio.create_task(wait_for(store.put_async(message(1))))
            put = store.put_async(message(2))
            other = asyncio.create_task(wait_for(put))
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert put.cancel("enough") and put.cancelled() and put.done() and not put.cancel()
            with pytest.raises(asyncio.CancelledError, match="enough"):
                put.result()
            with pytest.raises(asyncio.CancelledError):
                await other
            gate.let(100)
            assert (await store.put_async(message(3))).queue_offset == 3

        asyncio.run(main())
        assert store.wait_dispatched(20) and len(store.get("T", 0, 0).messages) == 4


def test_a_loop_that_ended_harms_nobody(tmp_path: Path, gate: Gate):
    with gate.open(tmp_path) as store:
        store.put(message(0))
        gate.hold(store)

        async def main() -> None:
            store.put_async(message(1))
            await asyncio.sleep(0.05)
            store.put_async(message(2))

        asyncio.run(main())
        gate.let(100)
        assert store.put(message(3)).status is OK
        assert statuses(asyncio.run(put_all(store, 2))) == {OK}


def test_without_a_flush_to_wait_for_it_is_answered_at_once(tmp_path: Path):
    with open_small(tmp_path) as store:

        async def main() -> None:
            put = store.put_async(message(0))
            assert asyncio.isfuture(put) and put.done() and (await put).status is OK

        asyncio.run(main())
    with pytest.raises(UsageError, match="is closed"):
        store.put_async(message(1))


async def _bad(store: MessageStore) -> None:
    store.put_async(b"no message")  # type: ignore[arg-type]


def test_it_wants_a_running_loop(tmp_path: Path, gate: Gate):
    with gate.open(tmp_path) as store:
        asyncio.run(put_all(store, 1))
        end = store._parts.log.end
        with pytest.raises(RuntimeError, match="no running event loop"):
            store.put_async(message(0))
        assert store._parts.log.end == end, "nothing is stored"
        with pytest.raises(TypeError):
            asyncio.run(_bad(store))
