"""Writes records from the transient pool's ring to the log's files.

A commit is not a flush: after it the kernel has the records, and readers and the dispatcher may see them. Before it
only this process has them. While puts come quickly the thread writes without the GIL, one MiB after another. Nobody
needs the thread: whoever finds the ring full, or must have something committed, writes it. Upstream:
CommitRealTimeService.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable

from flintmq.config.keys import StoreConfig
from flintmq.kernels.threads.handoff import Signal
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.memory.mapped_file_queue import MappedFileQueue
from flintmq.storage.threads.mutex import Lock
from flintmq.storage.threads.service_thread import ServiceThread
from flintmq.store.append.after_put import AfterPut
from flintmq.store.append.commit_log import CommitLog
from flintmq.store.append.disk_failure import DiskFailure

log = logging.getLogger("flintmq.pool")

PAGE = 4096
LINGER_S = 0.001  # interval of checking while puts come, so that they need not wake it
LINGERS = 20  # checks with too little to commit before it sleeps
FOLLOW_US = 20_000  # longest stretch of writing whole pieces without the GIL


class CommitService(AfterPut):
    """Commits the ring of one log.

    `done`: (store time in ms of the last record, log offset after it) of the committed part; one tuple, so always read
    together.
    """

    def __init__(
        self,
        files: MappedFileQueue,
        commit_log: CommitLog,
        config: StoreConfig,
        failure: DiskFailure,
        effects: Effects,
    ) -> None:
        self.files, self.commit_log, self.config = files, commit_log, config
        self.failure, self.effects = failure, effects
        self._listeners: list[Callable[[], None]] = []
        self.done = commit_log.last_time, commit_log.end
        self._appender = commit_log.appender
        self._least = config.commit_commit_log_least_pages
        self._step = Lock()
        self._wake = Signal()
        self.needs_wake = False  # it sleeps, and a put must wake it (wakeCommitWhenPutMessage)
        self._service = ServiceThread("flintmq-commit", self._run, self._wake.set)
        self._last_thorough = effects.monotonic()
        if files.pool is not None:
            files.pool.make_room = self.make_room

    @property
    def committed(self) -> int:
        """Log offset after the last record that is committed; its time may not be known yet."""
        pool = self.files.pool
        return max(self.done[1], pool.ring.committed if pool is not None else 0)

    def on_committed(self, listener: Callable[[], None]) -> None:
        """Register a listener for each commit. Before `start`."""
        self._listeners.append(listener)

    def commit_once(self, least_pages: int = 0) -> bool:
        """Commit if enough pages wait, a full file ends, or with 0 anything; return whether it did.

        Thread: any; one at a time. Durability: the kernel has everything put before the call, on return of True.
        """
        with self._step:
            time = self.commit_log.last_time  # read before the end, so that it is never too young
            target = self.commit_log.end
            waiting = target // PAGE - self.done[1] // PAGE
            if self.failure or target <= self.done[1] or self._appender.forked:
                return False
            if waiting < least_pages and not self.files.rolled_since(self.done[1], target):
                return False
            if not self._write(lambda: self.files.commit(target)):
                return False
            # After the write, and as one tuple: a flush takes both, and calls what is below durable as of that time.
            self.done = time, target
        # Without the lock: a listener may wait, and others may commit meanwhile.
        for listener in self._listeners:
            listener()
        return True

    def make_room(self) -> None:
        """Write one piece for a put that finds the ring full.

        Raises OSError: the disk refused; the store takes no more puts. Or this is a forked child, whose files are those
        of its parent.
        """
        if self._appender.forked:
            raise OSError(errno.EPERM, "a forked child writes nothing into its parent's files")
        if not self._write(self.files.commit_piece):
            raise OSError(self._refusal(), os.strerror(self._refusal()))

    def _write(self, step: Callable[[], None]) -> bool:
        """Call a step that writes from the ring; return False if the disk refuses."""
        what = "the transient pool could not be written to the commit log"
        return self.failure.attempt(step, what, self._refusal)

    def _refusal(self) -> int:
        """Return the errno of a write that failed; 0: none did."""
        return self.files.pool.ring.error if self.files.pool is not None else 0

    def wake(self, size: int = 0) -> None:
        self._wake.set()

    def start(self) -> None:
        self._service.start()

    def stop(self) -> None:
        """Stop the thread after a last commit of everything."""
        self._service.stop()
        self.commit_once()

    def _run(self) -> None:
        interval = self.config.commit_interval_commit_log / 1000
        thorough = self.config.commit_commit_log_thorough_interval / 1000
        looks, wakes = 0, self.config.wake_commit_when_put_message
        while not self._service.stopping:
            now = self.effects.monotonic()
            everything = now - self._last_thorough >= thorough
            if everything:
                self._last_thorough = now
            try:
                looks = 0 if self.commit_once(0 if everything else self._least) else looks + 1
                if not looks and not self.failure:  # write whole pieces while puts come quickly
                    self._write(lambda: self.files.follow(FOLLOW_US))
            except Exception:  # no refusal of the disk; without the thread, records would stay in this process's memory
                log.exception("%s: a commit was cut short, and the next one goes on", self.files.place)
            if looks < LINGERS and wakes:
                self._wake.wait(LINGER_S)
                continue
            self.needs_wake = wakes
            self._wake.wait(interval)
            self.needs_wake = False
