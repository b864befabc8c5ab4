"""Makes the log durable (upstream FlushRealTimeService, GroupCommitService).

One thread flushes. Under ASYNC_FLUSH it does so every 500 ms if four pages wait, and everything every 10 s. Under
SYNC_FLUSH puts hand in requests and wait (`group_commit`); one flush answers all puts that were appended before it
began. With the transient pool only committed records can be flushed, so a put that waits for a flush has the rest
committed first.

The first fsync that fails stops all puts for good: puts that wait get FLUSH_DISK_TIMEOUT, each later put gets
SERVICE_NOT_AVAILABLE, and no fsync is tried again. After that the page cache may show bytes that are not on disk.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from flintmq.config.keys import StoreConfig
from flintmq.kernels.handoff import INTERRUPTED, Latch, Signal
from flintmq.message import PutMessageStatus, PutResult
from flintmq.storage.filesystem import Effects
from flintmq.storage.mapped_file_queue import MappedFileQueue
from flintmq.storage.service_thread import ServiceThread
from flintmq.store.append.commit_log import CommitLog
from flintmq.store.append.disk_failure import DiskFailure, reason_of
from flintmq.store.append.follower import Follower
from flintmq.store.append.group_commit import Waiters
from flintmq.store.append.pool_commit import CommitService
from flintmq.store.append.stats import WaitTimes

PAGE = 4096


def unflushed(result: PutResult) -> PutResult:
    """Return the result of a put that is stored and not known to be on disk."""
    return result.with_status(PutMessageStatus.FLUSH_DISK_TIMEOUT)


class FlushService(Follower):
    """Flushes one commit log.

    Args:
        files: of the log.
        commit_log: the log, for its end.
        config: intervals, pages, flushDiskType.
        failure: of the store.
        effects: the clock.
        commits: commits the transient pool; None: there is none.
        ours: returns whether this process still owns the store; called before a flush counts.

    Attributes:
        needs_wake: always true; under SYNC_FLUSH a put that does not wait requests a flush soon.
        waiters: puts that wait for a flush.
        timeout_s: maximum wait (syncFlushTimeout).
        times: histogram of waits.
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
    ) -> None:
        self.files, self.commit_log, self.config, self.ours = files, commit_log, config, ours
        self.failure, self.effects, self.commits = failure, effects, commits
        self._listeners: list[Callable[[int], None]] = []
        self.sync = config.flush_disk_type == "SYNC_FLUSH"
        self.needs_wake = True
        self._step = threading.Lock()  # one flush at a time
        self.waiters = Waiters()
        self.times = WaitTimes()
        self.timeout_s = config.sync_flush_timeout / 1000
        self._wake = Signal()
        self._service = ServiceThread("flintmq-flush", self._run, self._wake.set)
        self._last_thorough = effects.monotonic()

    def on_flushed(self, listener: Callable[[int], None]) -> None:
        """Register a listener for each flush, which gets the last store time. Before `start`."""
        self._listeners.append(listener)

    # -- steps ------------------------------------------------------------------------------------------------------

    def flush_once(self, least_pages: int = 0) -> bool:
        """Flush if enough pages wait, a full file ends, or with 0 anything; return whether it did.

        Thread: any; one at a time. Durability: everything put before the call, on return of True.
        """
        if self.commits is not None and least_pages == 0:
            self.commits.commit_once()
        with self._step:
            if self.commits is not None:
                time, target = self.commits.done
            else:
                time = self.commit_log.last_time  # before the end: a put in between must not make the time too young
                target = self.commit_log.end
            waiting = target // PAGE - self.files.flushed_where // PAGE
            if self.failure or target <= self.files.flushed_where:
                return False
            if waiting < least_pages and not self.files.rolled_since(self.files.flushed_where, target):
                return False
            try:
                self.files.flush(target)
            except Exception as error:  # of any kind: the result of the fsync is not known
                self.failure.set(f"the commit log could not be flushed ({reason_of(error)})")
                return False
            if not self.ours():
                return False
            assert self.files.flushed_where == target  # whoever waits for less is answered
        for listener in self._listeners:
            listener(time)
        return True

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
        self.flush_once()
        return group.answer(-1 if self.failure else self.files.flushed_where)

    # -- waiting ----------------------------------------------------------------------------------------------------

    def wait_flushed(self, end: int) -> bool:
        """Wait until the log is durable up to `end`; return False after a failure or timeout."""
        if self.files.flushed_where >= end and not self.failure:
            return True
        began = self.effects.monotonic()
        request = self.waiters.add(end)
        if self._service.stopping:  # the thread may have looked for the last time
            self.commit_group()
        left = self.timeout_s
        while self._wake.set_and_wait(request.latch, left) == INTERRUPTED:
            left = began + self.timeout_s - self.effects.monotonic()
        self.times.add(self.effects.monotonic() - began)
        return request.latch.is_open and request.flushed

    def requested(self) -> None:
        """Request a flush for a put that has begun to wait."""
        self._wake.set()
        if self._service.stopping:  # the thread may have looked for the last time
            self.commit_group()

    # -- thread -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread."""
        self._service.start()

    def serve_itself(self) -> None:
        """Work without a thread: each put that waits flushes itself."""
        self._service.stop()

    def stop(self) -> None:
        """Stop the thread after a last flush of everything."""
        self._service.stop()
        self.commit_group()
        self.flush_once()

    def wake(self, size: int = 0) -> None:
        """Ask for a flush soon."""
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
            except Exception as error:  # without the thread all puts would wait, and nothing would reach the disk
                self.failure.set(f"the flush service failed ({reason_of(error)})")
        for latch in latches or ():
            latch.open()
