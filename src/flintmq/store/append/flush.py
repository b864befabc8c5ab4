"""Makes the log durable (upstream FlushRealTimeService, GroupCommitService).

One thread flushes. Under ASYNC_FLUSH it does so every 500 ms if four pages wait, and everything every 10 s. Under
SYNC_FLUSH puts hand in requests and wait (`group_commit`); one flush answers all puts that were appended before it
began. With the transient pool only committed records can be flushed, so a put that waits for a flush has the rest
committed first. Under SYNC_FLUSH on the real disk, and without the pool, the thread is a native one
(`native_flush`): the same rules, without the GIL.

With `in_caller` a put that waits flushes itself if nobody flushes, by the same step. It never waits for a step of
another: that may hang in a sync, and only who makes the sync is held by it.

The first fsync that fails stops all puts for good: puts that wait get FLUSH_DISK_TIMEOUT, each later put gets
SERVICE_NOT_AVAILABLE, and no fsync is tried again. After that the page cache may show bytes that are not on disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from flintmq.config.keys import StoreConfig
from flintmq.kernels.threads.flusher import Flusher
from flintmq.kernels.threads.handoff import INTERRUPTED, Latch, Signal
from flintmq.kernels.threads.loop_puts import LoopPuts
from flintmq.message import PutResult
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.memory.mapped_file_queue import MappedFileQueue
from flintmq.storage.threads.mutex import AtOnce, ReentrantLock, Taken
from flintmq.storage.threads.service_thread import ServiceThread
from flintmq.store.append.after_put import AfterPut
from flintmq.store.append.commit_log import CommitLog
from flintmq.store.append.disk_failure import DiskFailure
from flintmq.store.append.group_commit import Waiters
from flintmq.store.append.pool_commit import CommitService
from flintmq.store.append.stats import WaitTimes

if TYPE_CHECKING:  # only for who puts from an event loop
    import asyncio

log = logging.getLogger("flintmq.flush")

PAGE = 4096


class FlushService(Protocol):
    """Makes one commit log durable: PythonFlush, or NativeFlush where that can be.

    `loops`: puts of event loops that the native thread answers. The list is replaced, never changed.

    Thread: any, but for `start` and `stop`.
    """

    sync: bool  # puts wait for the disk (SYNC_FLUSH)
    commits: CommitService | None  # commits the transient pool; None: there is none
    flusher: Flusher | None  # the native thread, which compiled puts wait for; None: there is none
    loops: Sequence[LoopPuts]

    @property
    def flushed_time(self) -> int:
        """Store time in ms of the last record that a flush covered; 0: there was none."""

    def all_times(self) -> WaitTimes:
        """Return the histogram of all waits."""

    def wake(self, size: int = 0) -> None:
        """Ask for a flush soon."""

    def wait_flushed(self, end: int) -> bool:
        """Wait until the log is durable up to `end`; return False after a failure or timeout."""

    def future(self, end: int, result: PutResult, loop: asyncio.AbstractEventLoop) -> asyncio.Future[PutResult]:
        """Return the future of a put whose record ends at this offset: `result` once durable.

        Thread: the loop's.
        """

    def flush_once(self) -> bool:
        """Flush if anything waits; return whether it did.

        Durability: everything put before the call, on return of True.
        """

    def start(self) -> None:
        """Start the thread, after all who listen to the store's failure are registered."""

    def stop(self) -> None:
        """Flush everything and end the thread, if there is one.

        From then on a put that waits flushes itself.
        """


class PythonFlush(AfterPut):
    """Flushes on a Python thread, and in the thread of whoever waits while there is none.

    Args:
        commits: commits the transient pool; None: there is none.
        in_caller: a put that waits flushes itself if nobody flushes.
        ours: returns whether this process still owns the store; called before a flush counts.
        after_flush: woken after a flush if it needs it; None: nobody is.
    """

    flusher: Flusher | None = None
    loops: Sequence[LoopPuts] = ()

    def __init__(
        self,
        files: MappedFileQueue,
        commit_log: CommitLog,
        config: StoreConfig,
        failure: DiskFailure,
        effects: Effects,
        *,
        commits: CommitService | None = None,
        in_caller: bool = False,
        ours: Callable[[], bool] = lambda: True,
        after_flush: AfterPut | None = None,
    ) -> None:
        self.files, self.commit_log, self.config, self.ours = files, commit_log, config, ours
        self.failure, self.effects, self.commits, self.after_flush = failure, effects, commits, after_flush
        self.sync, self.in_caller = config.flush_disk_type == "SYNC_FLUSH", in_caller
        self.needs_wake = True  # always true; under SYNC_FLUSH a put that does not wait requests a flush soon
        self.flushed_time = 0
        self._step = ReentrantLock()  # one flush at a time; nobody takes it twice
        self.times = WaitTimes()  # histogram of waits in its groups
        self.timeout_s = config.sync_flush_timeout / 1000  # maximum wait (syncFlushTimeout)
        self.waiters = Waiters(self.timeout_s, self.times)  # puts that wait for a flush
        self._wake = Signal()
        self._service = ServiceThread("flintmq-flush", self._run, self._wake.set)
        self._last_thorough = effects.monotonic()

    def all_times(self) -> WaitTimes:
        return self.times

    # -- steps ------------------------------------------------------------------------------------------------------

    def flush_once(self, least_pages: int = 0) -> bool:
        """Flush if enough pages wait, a full file ends, or with 0 anything; return whether it did.

        Thread: any; one at a time. Durability: everything put before the call, on return of True.
        """
        # Before the target is read: only what the files have can be synced.
        if self.commits is not None and least_pages == 0:
            self.commits.commit_once()
        with self._step:
            done = self._flush(least_pages)
        # Without the lock, for `wake` waits a moment for a dispatch that lags far.
        if done:
            self._wake_next()
        return done

    def _lead(self) -> None:
        """Flush everything in the thread of a put that waits, unless somebody flushes."""
        try:
            with AtOnce(self._step):
                if self.commits is not None:  # with the lock: a commit may hang, too, and holds one put
                    self.commits.commit_once()
                done = self._flush(0)
        except Taken:
            return
        if done:
            self._wake_next()

    def _flush(self, least_pages: int) -> bool:
        """Flush as `flush_once` says, with the lock."""
        if self.commits is not None:
            time, target = self.commits.done
        else:
            time = self.commit_log.last_time  # before the end: a put in between must not make the time too young
            target = self.commit_log.end
        waiting = target // PAGE - self.files.flushed_where // PAGE
        if self.failure.tell() or target <= self.files.flushed_where:
            return False
        if waiting < least_pages and not self.files.rolled_since(self.files.flushed_where, target):
            return False
        # Asked after the sync, so that a loss amid it shows. It sets the failure, by which all who wait for this
        # flush are answered.
        if not self._sync(target) or not self.ours():
            return False
        assert self.files.flushed_where == target  # whoever waits for less is answered
        self.flushed_time = time
        return True

    def _wake_next(self) -> None:
        # After `flushed_where` has moved: dispatch sets its flag before it looks there (R9 of flusher.py).
        if self.after_flush is not None and self.after_flush.needs_wake:
            self.after_flush.wake()

    def _sync(self, target: int) -> bool:
        """Flush the log's files up to a log offset; return False if the disk refuses."""
        files = self.files
        what = "the commit log could not be flushed"
        return self.failure.attempt(lambda: files.flush(target), what, lambda: files.sync_error)

    def commit_group(self, flush: Callable[[], object] | None = None) -> None:
        """Flush for the requests so far, with `flush` if it is given, and answer them."""
        for latch in self._flush_group(flush or self.flush_once) or ():
            latch.open()

    def _flush_group(self, flush: Callable[[], object]) -> list[Latch] | None:
        """Flush for the requests so far; return the latches to open, or None without requests."""
        group = self.waiters.take()
        if not group:
            return None
        try:
            flush()
        except BaseException:  # of other code: those who wait must not wait for ever
            for latch in group.answer(self._durable):
                latch.open()
            raise
        return group.answer(self._durable)

    @property
    def _durable(self) -> int:
        """Log offset up to which the log is known to be on disk; -1 after a failure."""
        return -1 if self.failure else self.files.flushed_where

    # -- waiting ----------------------------------------------------------------------------------------------------

    def wait_flushed(self, end: int) -> bool:
        if self._has(end):
            return True
        began = self.effects.monotonic()
        if self.in_caller:
            self._lead()
            if self._has(end):
                self.times.add(self.effects.monotonic() - began)
                return True
        request = self.waiters.add(end)
        self._group_if_stopped()
        left = self.timeout_s
        while self._wake.set_and_wait(request.latch, left) == INTERRUPTED:
            left = began + self.timeout_s - self.effects.monotonic()
        self.times.add(self.effects.monotonic() - began)
        if request.latch.is_open:
            return request.flushed
        return self._has(end)  # a sync covered it that had begun before

    def _has(self, end: int) -> bool:
        """Return whether the log is known to be on disk up to `end`."""
        return self.files.flushed_where >= end and not self.failure

    def future(self, end: int, result: PutResult, loop: asyncio.AbstractEventLoop) -> asyncio.Future[PutResult]:
        future, first = self.waiters.add_async(end, result, loop)
        if first:
            self._wake.set()
            self._group_if_stopped()
        return future

    def _group_if_stopped(self) -> None:
        """Answer a request that was just added if the thread may have looked for the last time."""
        if self._service.stopping:
            self.commit_group()

    # -- thread -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._service.start()

    def stop(self) -> None:
        self._service.stop()
        self.commit_group()
        self.flush_once()

    def wake(self, size: int = 0) -> None:
        self._wake.set()

    def _step_once(self) -> list[Latch] | None:
        """Flush as far as due; return latches to open before the next wait."""
        if self.sync:
            latches = self._flush_group(self.flush_once)
            if latches is None:  # put with wait=False
                self.flush_once()
            return latches
        now = self.effects.monotonic()
        thorough = (now - self._last_thorough) * 1000 >= self.config.flush_commit_log_thorough_interval
        if thorough:
            self._last_thorough = now
        self.flush_once(0 if thorough else self.config.flush_commit_log_least_pages)
        return None

    def _run(self) -> None:
        interval = self.config.flush_interval_commit_log / 1000
        latches: list[Latch] | None = None
        while not self._service.stopping:
            self._wake.wait(interval, latches)
            latches = None
            try:
                latches = self._step_once()
            except Exception:  # no refusal of the disk; without the thread nothing would reach it
                log.exception("%s: a flush was cut short, and the next one goes on", self.files.place)
        for latch in latches or ():
            latch.open()
