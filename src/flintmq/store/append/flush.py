"""Makes the log durable (upstream FlushRealTimeService, GroupCommitService).

One thread flushes. Under ASYNC_FLUSH it does so every 500 ms if four pages wait, and everything every 10 s. Under
SYNC_FLUSH puts hand in requests and wait (`group_commit`); one flush answers all puts that were appended before it
began. With the transient pool only committed records can be flushed, so a put that waits for a flush has the rest
committed first. Under SYNC_FLUSH on the real disk, and without the pool, the thread is a native one
(kernels/flusher.py): the same rules, without the GIL.

The first fsync that fails stops all puts for good: puts that wait get FLUSH_DISK_TIMEOUT, each later put gets
SERVICE_NOT_AVAILABLE, and no fsync is tried again. After that the page cache may show bytes that are not on disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from flintmq.config.keys import StoreConfig
from flintmq.kernels.flusher import DURABLE, STOPPED, Flusher
from flintmq.kernels.handoff import INTERRUPTED, Latch, Signal
from flintmq.kernels.loop_puts import LoopPuts
from flintmq.message import PutMessageStatus, PutResult
from flintmq.storage.filesystem import Effects
from flintmq.storage.lock import StoreLock
from flintmq.storage.mapped_file_queue import MappedFileQueue
from flintmq.storage.mutex import Lock
from flintmq.storage.service_thread import ServiceThread
from flintmq.store.append.after_put import AfterPut
from flintmq.store.append.commit_log import CommitLog
from flintmq.store.append.disk_failure import DiskFailure
from flintmq.store.append.group_commit import Waiters
from flintmq.store.append.native_flush import NativeFlush, may_be_native
from flintmq.store.append.pool_commit import CommitService
from flintmq.store.append.stats import WaitTimes

log = logging.getLogger("flintmq.flush")

PAGE = 4096


def unflushed(result: PutResult) -> PutResult:
    """Return the result of a put that is stored and not known to be on disk."""
    return result.with_status(PutMessageStatus.FLUSH_DISK_TIMEOUT)


class FlushService(AfterPut):
    """Flushes one commit log.

    Args:
        files: of the log.
        commit_log: the log, for its end.
        config: intervals, pages, flushDiskType.
        failure: of the store.
        effects: the clock.
        commits: commits the transient pool; None: there is none.
        ours: returns whether this process still owns the store; called before a flush counts.
        lock: the store's; None: nobody can take the store over.

    Attributes:
        needs_wake: always true; under SYNC_FLUSH a put that does not wait requests a flush soon.
        waiters: puts that wait for a flush.
        timeout_s: maximum wait (syncFlushTimeout).
        times: histogram of waits in the Python thread's groups.
        after_flush: woken after a flush if it needs it; None: nobody is. Set before `start`.
        flushed_time: store time in ms of the last record that a flush covered; 0: there was none.
        loops: puts of event loops that the native thread answers. The list is replaced, never changed.
        loops_lock: held by whoever replaces it.
        flusher: the native thread, which the log's end is published to; None: a Python thread flushes.
    """

    def __init__(
        self,
        files: MappedFileQueue,
        commit_log: CommitLog,
        config: StoreConfig,
        failure: DiskFailure,
        effects: Effects,
        *,
        commits: CommitService | None = None,
        ours: Callable[[], bool] = lambda: True,
        lock: StoreLock | None = None,
    ) -> None:
        self.files, self.commit_log, self.config, self.ours, self.lock = files, commit_log, config, ours, lock
        self.failure, self.effects, self.commits = failure, effects, commits
        self.after_flush: AfterPut | None = None
        self.flusher: Flusher | None = None
        self._native: NativeFlush | None = None
        self.loops: list[LoopPuts] = []
        self.loops_lock = Lock()
        self._flushed_time = 0
        self.sync = config.flush_disk_type == "SYNC_FLUSH"
        self.needs_wake = True
        self._step = Lock()  # one flush at a time
        self.waiters = Waiters()
        self.times = WaitTimes()
        self.timeout_s = config.sync_flush_timeout / 1000
        self._wake = Signal()
        self._service = ServiceThread("flintmq-flush", self._run, self._wake.set)
        self._last_thorough = effects.monotonic()

    @property
    def flushed_time(self) -> int:
        """Store time in ms of the last record that a flush covered; 0: there was none."""
        return self._flushed_time or (self.flusher.time if self.flusher is not None else 0)

    def all_times(self) -> WaitTimes:
        """Return the histogram of all waits."""
        if self.flusher is None:
            return self.times
        return WaitTimes([own + native for own, native in zip(self.times.counts, self.flusher.waits(), strict=True)])

    # -- steps ------------------------------------------------------------------------------------------------------

    def flush_once(self, least_pages: int = 0) -> bool:
        """Flush if enough pages wait, a full file ends, or with 0 anything; return whether it did.

        Thread: any; one at a time. Durability: everything put before the call, on return of True.
        """
        if self.flusher is not None and not self.flusher.has_ended:
            return self._flush_natively(self.flusher)
        # Before the target is read: only what the files have can be synced.
        if self.commits is not None and least_pages == 0:
            self.commits.commit_once()
        with self._step:
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
            self._flushed_time = time
        # Without the lock, for `wake` waits a moment for a dispatch that lags far. After `flushed_where` has moved:
        # dispatch sets its flag before it looks there (kernels/flusher.py, R9).
        if self.after_flush is not None and self.after_flush.needs_wake:
            self.after_flush.wake()
        return True

    def _sync(self, target: int) -> bool:
        """Flush the log's files up to a log offset; return False if the disk refuses."""
        files = self.files
        what = "the commit log could not be flushed"
        return self.failure.attempt(lambda: files.flush(target), what, lambda: files.sync_error)

    def _flush_natively(self, flusher: Flusher) -> bool:
        """Have the native thread flush everything; return whether it did."""
        time = self.commit_log.last_time  # before the end, as above
        target = self.commit_log.end
        if self.failure or target <= self.files.flushed_where:
            return False
        status = flusher.flush(target, time)
        return self.flush_once() if status == STOPPED else status == DURABLE

    def commit_group(self) -> bool:
        """Flush for the requests so far and answer them; return False if there are none."""
        latches = self._flush_group()
        for latch in latches or ():
            latch.open()
        return latches is not None

    def _flush_group(self) -> list[Latch] | None:
        """Flush for the requests so far; return the latches to open, or None without requests."""
        group = self.waiters.take()
        if not group:
            return None
        try:
            self.flush_once()
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
        """Wait until the log is durable up to `end`; return False after a failure or timeout."""
        if self.files.flushed_where >= end and not self.failure:
            return True
        if self.flusher is not None:
            time = self.commit_log.last_time
            status = self.flusher.wait(end, self.commit_log.end, time)
            if status != STOPPED:
                return status == DURABLE
        began = self.effects.monotonic()
        request = self.waiters.add(end)
        if self._service.stopping:  # the thread may have looked for the last time
            self.commit_group()
        left = self.timeout_s
        while self._wake.set_and_wait(request.latch, left) == INTERRUPTED:
            left = began + self.timeout_s - self.effects.monotonic()
        self.times.add(self.effects.monotonic() - began)
        if request.latch.is_open:
            return request.flushed
        return self.files.flushed_where >= end and not self.failure  # a sync covered it that had begun before

    def requested(self) -> None:
        """Request a flush for a put that has begun to wait."""
        self._wake.set()
        if self._service.stopping:  # the thread may have looked for the last time
            self.commit_group()

    # -- thread -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread.

        Raises:
            RuntimeError: no thread can be started.
        """
        if not may_be_native(self):
            self._service.start()
            return
        self._native = NativeFlush(self)
        self.flusher = self._native.flusher  # first: whoever interrupts this and stops finds the thread
        self._native.start()

    def serve_itself(self) -> None:
        """Work without a thread: each put that waits flushes itself."""
        self._service.stop()

    def stop(self) -> None:
        """Stop the thread after a last flush of everything."""
        # The native thread first: it answers all who wait, and whoever comes later finds that it has ended.
        if self._native is not None:
            time = self.commit_log.last_time
            self._native.flusher.publish(self.commit_log.end, time)
            self._native.stop()
        self._service.stop()
        self.commit_group()
        self.flush_once()

    def wake(self, size: int = 0) -> None:
        """Ask for a flush soon."""
        if self.flusher is not None:
            time = self.commit_log.last_time
            self.flusher.publish(self.commit_log.end, time)
        else:
            self._wake.set()

    def _step_once(self) -> list[Latch] | None:
        """Flush as far as due; return latches to open before the next wait."""
        if self.sync:
            latches = self._flush_group()
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
