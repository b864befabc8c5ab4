"""Puts that an event loop awaits, answered by the native flusher: in one callback, in order, in each task's context."""

import asyncio
import contextlib
import contextvars
import gc
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flintmq.errors import UsageError
from flintmq.kernels.threads.flusher import native
from flintmq.message import PutMessageStatus, PutResult
from flintmq.store.message_store import MessageStore
from tests.store.append.test_async_puts import LATE, OK, Gate, put_all, statuses, wait_for
from tests.support.engine import message
from tests.support.faults import close_unclean
from tests.support.threads import at_once

pytestmark = pytest.mark.skipif(not native(), reason="kernels run uncompiled, or this system has no futex")


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate("native")
    yield made
    made.let(1000)
    made.inner.close()
    made.outer.close()


def open_sync(root: Path, **keys: Any) -> MessageStore:
    return Gate("native").open(root, **keys)


def test_a_turn_s_puts_are_one_group(tmp_path: Path):
    with open_sync(tmp_path) as store:
        asyncio.run(put_all(store, 2))
        before = store._parts.flush.flusher.syncs
        results = asyncio.run(put_all(store, 1000))
        assert statuses(results) == {OK} and [r.queue_offset for r in results] == list(range(2, 1002))
        assert store._parts.files.flushed_where == results[-1].physical_offset + results[-1].size
        assert store._parts.flush.flusher.syncs == before + 1
        assert store.wait_dispatched(20)


def test_what_asyncio_does_with_a_future(tmp_path: Path, gate: Gate):
    with open_sync(tmp_path) as store:

        async def main() -> None:
            await store.put_async(message(0))
            gate.hold(store)
            put = store.put_async(message(1))
            assert asyncio.isfuture(put) and not put.done() and not put.cancelled()
            with pytest.raises(asyncio.InvalidStateError):
                put.result()
            with pytest.raises(asyncio.InvalidStateError):
                put.exception()
            assert "pending" in repr(put) and asyncio.ensure_future(put) is put
            calls: list[str] = []
            put.add_done_callback(lambda one: calls.append("a"))
            put.add_done_callback(again := lambda one: calls.append("b"))
            put.add_done_callback(again)
            put.add_done_callback(lambda one: calls.append("c"))
            assert put.remove_done_callback(again) == 2
            waits = [asyncio.create_task(wait_for(put)) for _ in range(3)]
            slow = asyncio.wait_for(asyncio.shield(put), 0.05)
            with pytest.raises(asyncio.TimeoutError):
                await slow
            gate.let(100)
            done, pending = await asyncio.wait({put}, timeout=20)
            assert done == {put} and not pending and put.exception() is None
            assert statuses(await asyncio.gather(*waits)) == {OK} and put.result().status is OK
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert calls == ["a", "c"] and "PUT_OK" in repr(put)
            late: list[Any] = []
            put.add_done_callback(late.append)
            assert late == []
            await asyncio.sleep(0)
            assert late == [put] and not put.cancel()
            assert (await asyncio.wait_for(store.put_async(message(2)), 20)).status is OK
            assert (await put).status is OK, "again"

        asyncio.run(main())


def test_a_put_that_is_handed_in_after_the_flusher_ended_is_answered(tmp_path: Path):
    """Its wish comes too late to be seen, and the last event was taken before: nobody else would wake the loop."""
    with open_sync(tmp_path, syncFlushTimeout=120_000) as store:

        async def main() -> None:
            await store.put_async(message(0))
            put = store.put_async(message(1))
            store._parts.flush.stop()
            store._parts.flush.loops[0].complete()
            done, _ = await asyncio.wait({put}, timeout=20)
            assert done == {put} and put.result().status is OK

        asyncio.run(main())


@pytest.mark.parametrize("what", ["gather", "gather and return errors", "one put", "one put and return errors"])
def test_a_gather_that_is_cancelled_ends(what: str, tmp_path: Path, gate: Gate):
    with open_sync(tmp_path) as store:

        async def main() -> None:
            await store.put_async(message(0))
            gate.hold(store)
            puts = [store.put_async(message(n)) for n in range(3)]
            both = asyncio.gather(*puts, return_exceptions=what.endswith("errors"))
            await asyncio.sleep(0.05)
            assert (both if what.startswith("gather") else puts[0]).cancel("enough")
            gate.let(100)
            done, _ = await asyncio.wait({both}, timeout=20)
            assert done
            if what == "one put and return errors":
                cancelled, *rest = both.result()
                assert isinstance(cancelled, asyncio.CancelledError) and cancelled.args == ("enough",)
                assert statuses(rest) == {OK}
            else:
                with pytest.raises(asyncio.CancelledError, match="enough"):
                    both.result()

        asyncio.run(main())


def test_a_task_that_another_cancels_while_both_are_stepped(tmp_path: Path):
    with open_sync(tmp_path) as store:

        async def main() -> None:
            await store.put_async(message(0))
            tasks: list[asyncio.Task[Any]] = []

            async def first() -> None:
                await store.put_async(message(1))
                tasks[1].cancel()  # its put is answered, and it has not run yet

            tasks[:] = [asyncio.create_task(first()), asyncio.create_task(_await_put(store))]
            found = await asyncio.gather(*tasks, return_exceptions=True)
            assert found[0] is None and isinstance(found[1], asyncio.CancelledError)

        asyncio.run(main())


def test_each_task_runs_in_its_own_context(tmp_path: Path):
    name: contextvars.ContextVar[int] = contextvars.ContextVar("name", default=-1)
    with open_sync(tmp_path) as store:

        async def work(number: int) -> None:
            name.set(number)
            for _ in range(5):
                await store.put_async(message(number))
                assert name.get() == number and asyncio.current_task() is not None

        async def main() -> None:
            shared = contextvars.copy_context()
            tasks = [asyncio.create_task(work(n)) for n in range(50)]
            await asyncio.gather(*tasks)
            assert name.get() == -1
            await asyncio.create_task(wait_for(store.put_async(message(1))), context=shared)

        asyncio.run(main())


def test_an_error_in_one_task_or_callback_harms_no_other(tmp_path: Path):
    with open_sync(tmp_path) as store:
        told: list[dict[str, Any]] = []

        async def fails() -> None:
            await store.put_async(message(0))
            raise ValueError("mine")

        def broken(put: Any) -> None:
            raise ZeroDivisionError

        async def main() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda loop, what: told.append(what))
            put = store.put_async(message(1))
            put.add_done_callback(broken)
            tasks = [asyncio.create_task(fails()), asyncio.create_task(wait_for(store.put_async(message(2))))]
            found = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(found[0], ValueError) and found[1].status is OK
            assert put.done()

        asyncio.run(main())
        assert [type(what["exception"]) for what in told] == [ZeroDivisionError]


def test_an_interrupt_in_one_task_leaves_the_others_to_the_next_turn(tmp_path: Path):
    with open_sync(tmp_path) as store:
        loop = asyncio.new_event_loop()

        async def interrupted() -> None:
            await store.put_async(message(0))
            raise KeyboardInterrupt

        async def main() -> list[Any]:
            return [asyncio.create_task(interrupted()), *[asyncio.create_task(_await_put(store)) for _ in range(5)]]

        first, *others = loop.run_until_complete(main())
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(asyncio.wait(others, timeout=20))
        loop.run_until_complete(asyncio.wait(others, timeout=20))
        assert statuses([other.result() for other in others]) == {OK}
        with pytest.raises(KeyboardInterrupt):
            first.result()
        loop.close()


def test_an_interrupt_in_the_handler_of_errors_leaves_the_others_to_the_next_turn(tmp_path: Path):
    with open_sync(tmp_path) as store:
        loop = asyncio.new_event_loop()

        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        def broken(put: Any) -> None:
            raise ZeroDivisionError

        async def main() -> list[Any]:
            loop.set_exception_handler(interrupt)
            store.put_async(message(0)).add_done_callback(broken)
            return [asyncio.create_task(_await_put(store)) for _ in range(5)]

        with contextlib.closing(loop):
            others = loop.run_until_complete(main())
            with pytest.raises(KeyboardInterrupt):
                loop.run_until_complete(asyncio.wait(others, timeout=20))
            loop.run_until_complete(asyncio.wait(others, timeout=20))
            assert statuses([other.result() for other in others]) == {OK}


def test_no_signal_comes_between_the_end_of_a_wait_and_its_answer(tmp_path: Path, gate: Gate):
    """A handler that raises may run wherever Python code of this package does."""
    store = open_sync(tmp_path)
    store.put(message(0))
    gate.hold(store)
    loop, fd = asyncio.new_event_loop(), store._parts.files.last.fd
    real, before = os.dup(fd), sys.gettrace()

    def interrupt(frame: Any, event: str, arg: object) -> None:
        if frame.f_globals.get("__name__", "").startswith("flintmq."):
            raise KeyboardInterrupt

    async def begin() -> list[Any]:
        tasks = [asyncio.create_task(_await_put(store)) for _ in range(3)]
        await asyncio.sleep(0.05)
        return tasks

    tasks = loop.run_until_complete(begin())
    os.dup2(gate.inner.fileno(), fd)  # a socket cannot be synced
    gate.let(100)
    sys.settrace(interrupt)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            loop.run_until_complete(asyncio.wait(tasks, timeout=20))
    finally:
        sys.settrace(before)
    loop.run_until_complete(asyncio.wait(tasks, timeout=5))
    os.dup2(real, fd)
    os.close(real)
    assert all(task.done() for task in tasks) and statuses([task.result() for task in tasks]) == {LATE}
    loop.close()
    close_unclean(store)


async def _await_put(store: MessageStore) -> PutResult:
    return await store.put_async(message(1))


def test_loops_of_several_threads_at_once(tmp_path: Path):
    with open_sync(tmp_path) as store:
        found: list[set[PutMessageStatus]] = []

        async def work() -> None:
            for _ in range(10):
                assert statuses(await put_all(store, 20)) == {OK}
            found.append({OK})

        plain = lambda: found.append({store.put(message(n)).status for n in range(100)})  # noqa: E731
        at_once(*[lambda: asyncio.run(work())] * 4, plain)
        assert found == [{OK}] * 5
        assert store.wait_dispatched(20) and store.get("T", 0, 0).max_offset == 900


def events() -> int:
    """Event descriptors of this process."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found += os.readlink(f"/proc/self/fd/{name}") == "anon_inode:[eventfd]"
    return found


def test_many_loops_one_after_the_other_leave_nothing_open(tmp_path: Path):
    gc.collect()
    before = events()
    with open_sync(tmp_path) as store:
        for _ in range(50):
            asyncio.run(put_all(store, 3))
        gc.collect()
        assert events() <= before + 1 and len(store._parts.flush.loops) == 1
    del store
    gc.collect()
    assert events() == before


def test_a_store_closed_while_its_puts_are_awaited(tmp_path: Path, gate: Gate):
    store = open_sync(tmp_path)

    async def main() -> None:
        await store.put_async(message(0))
        gate.hold(store)
        handed_in = [store.put_async(message(n)) for n in range(1, 4)]
        await asyncio.sleep(0.05)
        this_turn = [store.put_async(message(n)) for n in range(4, 7)]
        gate.let(100)
        store.close()
        assert statuses(await asyncio.gather(*handed_in, *this_turn)) == {OK}
        with pytest.raises(UsageError, match="is closed"):
            store.put_async(message(9))
        await asyncio.sleep(0.01)
        loop = asyncio.get_running_loop()
        assert not store._parts.flush.loops or store._parts.flush.loops[0].loop is loop
        with MessageStore(tmp_path, flush_disk_type="SYNC_FLUSH") as again:  # the same loop, another store
            assert (await again.put_async(message(7))).status is OK

    asyncio.run(main())
    assert not (tmp_path / "abort").exists()


class NoReaders(asyncio.SelectorEventLoop):
    """A loop that watches no descriptors of others, as Windows' proactor."""

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> Any:
        if not threading.current_thread().name.startswith("Main") or (len(args) == 0 and self.is_running()):
            raise NotImplementedError
        return super().add_reader(fd, callback, *args)


def test_a_loop_that_watches_no_descriptors(tmp_path: Path):
    with open_sync(tmp_path) as store:
        loop = NoReaders()
        try:
            for _ in range(3):
                assert statuses(loop.run_until_complete(put_all(store, 20))) == {OK}
            assert store._parts.flush.loops == []
        finally:
            loop.close()


def test_a_future_of_another_loop_is_refused_by_asyncio(tmp_path: Path, gate: Gate):
    with open_sync(tmp_path) as store:
        store.put(message(0))
        gate.hold(store)
        kept: list[Any] = []

        async def put() -> None:
            kept.append(store.put_async(message(1)))

        asyncio.run(put())
        with pytest.raises(RuntimeError, match="attached to a different loop"):
            asyncio.run(wait_for(kept[0]))
        gate.let(100)


def test_without_a_loop_a_closed_store_says_so_and_a_forked_child_s_too(tmp_path: Path):
    store = open_sync(tmp_path)
    asyncio.run(put_all(store, 2))
    if (child := os.fork()) == 0:
        try:
            with pytest.raises(UsageError, match="the process that forked this one"):
                store.put_async(message(9))
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    store.close()
    with pytest.raises(UsageError, match="is closed"):
        store.put_async(message(9))


def test_only_the_stepping_thread_is_taken_for_the_loop_s(tmp_path: Path):
    """While a loop steps the tasks of its puts, the store does not ask asyncio which loop runs here."""
    with open_sync(tmp_path) as store:
        found: list[Any] = []

        def elsewhere() -> None:
            with pytest.raises(RuntimeError, match="no running event loop"):
                store.put_async(message(1))
            found.append(asyncio.run(put_all(store, 3)))

        async def main() -> None:
            await store.put_async(message(0))  # what follows is called by the answer
            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()

        asyncio.run(main())
        assert statuses(found[0]) == {OK}


def test_a_step_that_ends_the_loop_leaves_it_not_running(tmp_path: Path):
    with open_sync(tmp_path) as store:

        async def main() -> None:
            await store.put_async(message(0))
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            asyncio.run(main())
        with pytest.raises(RuntimeError, match="no running event loop"):
            store.put_async(message(1))


def test_callbacks_of_each_kind_are_called(tmp_path: Path):
    """A task's own step may get another future; whatever else waits gets the put's."""
    with open_sync(tmp_path) as store:
        seen: list[Any] = []

        async def main() -> PutResult:
            first = store.put_async(message(0))
            first.add_done_callback(seen.append)  # a function in C that is no task's step
            assert await asyncio.wait_for(first, 20) is first.result()
            second = store.put_async(message(1))
            second.add_done_callback(lambda future: seen.append(future))
            result = await second  # the task's step is the second callback of it
            assert seen == [first, second]
            with pytest.raises(StopIteration) as stop:  # as an await does it
                next(second.__await__())
            assert stop.value.value is result
            return await store.put_async(message(2))  # and its only one

        assert asyncio.run(main()).queue_offset == 2
