"""Bring records from the transient pool's buffers into the log's files. Source: upstream CommitRealTimeService; store
behaviour 5.

Committing is not flushing: afterwards the kernel has the records, and readers and the dispatcher may see them. Before,
only this process has them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from flintmq.config.keys import StoreConfig
from flintmq.kernels.fast_append import PutListener
from flintmq.kernels.handoff import Signal
from flintmq.storage.filesystem import Effects
from flintmq.storage.mapped_file_queue import MappedFileQueue
from flintmq.store.append.commit_log import CommitLog
from flintmq.store.append.disk_failure import DiskFailure, reason_of

PAGE = 4096
LINGER_S = 0.001  # how often it looks by itself while puts come, so that they need not wake it
LINGERS = 20  # so many times with too little to commit, then it sleeps


class CommitService(PutListener):
    """Commits one log.

    Args:
        files: of the log.
        commit_log: tells how far it is put.
        config: intervals and pages.
        failure: of the store; a write that fails sets it.
        effects: the clock.

    Attributes:
        needs_wake: it sleeps, and wants to be told of a put (wakeCommitWhenPutMessage).
        done: (store time in ms of the last record, log offset behind it) of what is committed; always read together.
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
        self._least = config.commit_commit_log_least_pages
        self._step = threading.Lock()
        self._wake = Signal()
        self._stop = self.needs_wake = False
        self._last_thorough = effects.monotonic()
        self._thread: threading.Thread | None = None

    def on_committed(self, listener: Callable[[], None]) -> None:
        """Call this after each commit. Before `start`."""
        self._listeners.append(listener)

    def commit_once(self, least_pages: int = 0) -> bool:
        """Commit if so many pages wait, or the rest of a full file, or with 0 anything at all; True if something
        was committed.

        Thread: any; one at a time. Durability: the kernel has everything put before the call, on return of True.
        """
        with self._step:
            time = self.commit_log.last_time  # before the end, so that it is never too young
            target = self.commit_log.end
            waiting = target // PAGE - self.done[1] // PAGE
            if self.failure or target <= self.done[1]:
                return False
            if waiting < least_pages and not self.files.rolled_since(self.done[1], target):
                return False
            try:
                self.files.commit(target)
            except Exception as error:  # of any kind: what the file has of it is not known
                self.failure.set(f"the transient pool could not be written to the commit log ({reason_of(error)})")
                return False
            self.done = time, target
        for listener in self._listeners:
            listener()
        return True

    def wake(self) -> None:
        """Something was put."""
        self._wake.set()

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="flintmq-commit", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread after a last commit of everything."""
        self._stop = True
        self._wake.set()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()
        self.commit_once()

    def _run(self) -> None:
        interval = self.config.commit_interval_commit_log / 1000
        thorough = self.config.commit_commit_log_thorough_interval / 1000
        looks, wakes = 0, self.config.wake_commit_when_put_message
        while not self._stop:
            now = self.effects.monotonic()
            everything = now - self._last_thorough >= thorough
            if everything:
                self._last_thorough = now
            try:
                looks = 0 if self.commit_once(0 if everything else self._least) else looks + 1
            except Exception as error:  # a thread that is gone would leave what is put in this process's memory
                self.failure.set(f"the commit service failed ({reason_of(error)})")
            if looks < LINGERS and wakes:
                self._wake.wait(LINGER_S)
                continue
            self.needs_wake = wakes
            self._wake.wait(interval)
            self.needs_wake = False
