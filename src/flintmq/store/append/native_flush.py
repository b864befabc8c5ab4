"""Flushes on a native thread, and answers its questions that need Python.

The thread (kernels/threads/flusher.py) syncs without the GIL and asks with it, rarely. If it asked for the GIL after
the end of the interpreter, the process would crash. So the threads of stores that nobody closed are ended before, and
puts that come later flush themselves.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from flintmq.kernels.threads.flusher import DURABLE, STOPPED, Flusher, native
from flintmq.kernels.threads.loop_puts import LoopPuts
from flintmq.message import PutMessageStatus, PutResult
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.files.lock import StoreLock
from flintmq.storage.threads.mutex import Lock
from flintmq.store.append.after_put import AfterPut
from flintmq.store.append.disk_failure import reason_of
from flintmq.store.append.flush import PythonFlush
from flintmq.store.append.pool_commit import CommitService
from flintmq.store.append.stats import LIMITS_MS, WaitTimes

if TYPE_CHECKING:  # only for who puts from an event loop
    import asyncio

_running: set[NativeFlush] = set()  # those whose thread may run; changed by single calls, so it needs no lock
_is_exiting = False


def native_if_possible(itself: PythonFlush, lock: StoreLock | None = None) -> PythonFlush | NativeFlush:
    """Return a native flusher in place of a Python one, which nobody has started, or that one.

    It may be native if puts wait for the real disk, there is no transient pool, and the interpreter is not about to
    end.

    `lock`: the store's; None: nobody can take the store over.
    """
    real = itself.sync and itself.commits is None and type(itself.effects) is Effects
    return NativeFlush(itself, lock) if real and native() and not _is_exiting else itself


def end_all() -> None:
    """Flush and end the native threads of all stores, before the interpreter ends."""
    global _is_exiting
    _is_exiting = True
    for flush in list(_running):
        flush.stop()


atexit.register(end_all)
os.register_at_fork(after_in_child=_running.clear)  # a child has none of these threads


class NativeFlush(AfterPut):
    """Flushes on a native thread.

    Args:
        itself: flushes once the thread has ended, in the thread of whoever waits.
        lock: the store's; None: nobody can take the store over.
    """

    commits: CommitService | None = None

    def __init__(self, itself: PythonFlush, lock: StoreLock | None) -> None:
        self._itself, self._files, self._log, self._failure = itself, itself.files, itself.commit_log, itself.failure
        self.needs_wake = self.sync = True
        self.loops: Sequence[LoopPuts] = []
        self._loops_lock = Lock()  # held by whoever replaces them
        interval = itself.config.flush_interval_commit_log / 1000
        self._thread = Flusher(itself.files, self, itself.after_flush, itself.timeout_s, interval, LIMITS_MS)
        self.flusher: Flusher | None = self._thread
        self._thread.in_caller = itself.in_caller
        if lock is not None:
            self._thread.guard(os.fsencode(lock.path), *lock.identity)

    @property
    def flushed_time(self) -> int:
        return self._itself.flushed_time or self._thread.time

    def all_times(self) -> WaitTimes:
        own = self._itself.times.counts
        return WaitTimes([one + native for one, native in zip(own, self._thread.waits(), strict=True)])

    def flush_once(self) -> bool:
        if self._thread.has_ended:
            return self._itself.flush_once()
        time = self._log.last_time  # before the end: a put in between must not make the time too young
        target = self._log.end
        if self._failure or target <= self._files.flushed_where:
            return False
        status = self._thread.flush(target, time)
        return self._itself.flush_once() if status == STOPPED else status == DURABLE

    def wait_flushed(self, end: int) -> bool:
        time = self._log.last_time
        status = self._thread.wait(end, self._log.end, time)
        return self._itself.wait_flushed(end) if status == STOPPED else status == DURABLE

    def future(self, end: int, result: PutResult, loop: asyncio.AbstractEventLoop) -> asyncio.Future[PutResult]:
        if self._thread.has_ended:
            return self._itself.future(end, result, loop)
        puts = self._loop_puts(loop)
        if puts is not None:
            return cast("asyncio.Future[PutResult]", puts.add(result))
        future, first = self._itself.waiters.add_async(end, result, loop)
        if first:  # a thread waits for its groups
            loop.run_in_executor(None, self._itself.commit_group, self.flush_once)
        return future

    def _loop_puts(self, loop: asyncio.AbstractEventLoop) -> LoopPuts | None:
        """Return the puts of this loop, or None if it watches no descriptors, or none is left."""
        from asyncio import _get_running_loop

        for puts in self.loops:
            if puts.loop is loop:
                return puts
        late = PutMessageStatus.FLUSH_DISK_TIMEOUT
        try:
            puts = LoopPuts(self._thread, loop, _get_running_loop, late, self._itself.timeout_s)
        except (NotImplementedError, OSError):
            return None
        with self._loops_lock:  # else two threads with a loop each could each forget the other's
            self.loops = [*(one for one in self.loops if not one.loop.is_closed()), puts]
        return puts

    def start(self) -> None:
        # Before the thread runs, and after all other listeners: who is answered FAILED must find a store that refuses
        # puts, and an `abort` that says so to the next start (kernels/threads/flusher.py, C5).
        self._failure.on_set(self._thread.poison)
        if self._failure:  # set before anybody listened
            self._thread.poison()
        # Before the thread runs: an interpreter that ends meanwhile must find it here, or the process crashes.
        _running.add(self)
        self._thread.start()

    def stop(self) -> None:
        # The native thread first: it answers all who wait, and whoever comes later finds that it has ended.
        self.wake()
        self._thread.stop()
        _running.discard(self)
        self._itself.stop()

    def wake(self, size: int = 0) -> None:
        time = self._log.last_time  # before the end, as above
        self._thread.publish(self._log.end, time)

    # -- called by the native thread, with the GIL ------------------------------------------------------------------

    def log_files(self) -> None:
        """Name the files that are not wholly on disk."""
        for file in self._files.files:
            if file.start + file.size > self._files.flushed_where:
                self._thread.sync_file(file, file.fd, os.fsencode(file.path))

    def failed(self, error: BaseException) -> None:
        """Note that a sync failed, or something in this class."""
        what = "the commit log could not be flushed" if isinstance(error, OSError) else "the flush service failed"
        self._failure.set(f"{what} ({reason_of(error)})")

    def is_ours(self) -> bool:
        return self._itself.ours()

    def look(self) -> None:
        """Publish records that nobody published: the put was interrupted after it stored them."""
        if self._log.end > self._files.flushed_where and not self._failure:
            self.wake()
