"""Make the log durable. Source: upstream FlushRealTimeService, GroupCommitService; store behaviour 7; reliability A.

One thread flushes. Under ASYNC_FLUSH it does so every 500 ms if four pages wait, and everything every 10 s. Under
SYNC_FLUSH puts hand in requests and wait: a list takes new requests while the flush for the other one runs, then the
two are swapped; one flush answers everybody who appended before it began.

The first sync that fails poisons the store (contract, line 3): everybody who waits gets FLUSH_DISK_TIMEOUT, every later
put SERVICE_NOT_AVAILABLE, and no sync is ever tried again. What the page cache shows from then on may not be on disk.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from flintmq.config import StoreConfig
from flintmq.storage.effects import Effects
from flintmq.storage.mapped_file_queue import MappedFileQueue
from flintmq.store.commit_log import CommitLog

log = logging.getLogger("flintmq.flush")

PAGE = 4096


@dataclass
class Poison:
    """Set once, by the first failed sync of the store; never taken back while the process lives."""

    reason: str = ""

    def __bool__(self) -> bool:
        return bool(self.reason)

    def set(self, reason: str) -> None:
        """Refuse everything from now on."""
        if not self.reason:
            self.reason = reason
            log.error("%s; the store takes no more puts, restart it to read what is on disk", reason)


@dataclass(slots=True)
class FlushRequest:
    """A put that waits until the log is durable up to `end`."""

    end: int
    done: threading.Event = field(default_factory=threading.Event)
    flushed: bool = False


class FlushService:
    """Flushes one commit log.

    Args:
        files: of the log.
        commit_log: tells how far it is written.
        config: intervals, pages, flushDiskType.
        poison: of the store.
        effects: the clock.
        flushed: called after each flush with the store time in ms of the last record it covers.
    """

    def __init__(
        self,
        files: MappedFileQueue,
        commit_log: CommitLog,
        config: StoreConfig,
        poison: Poison,
        effects: Effects,
        flushed: Callable[[int], None],
    ) -> None:
        self.files, self.commit_log, self.config = files, commit_log, config
        self.poison, self.effects, self.flushed = poison, effects, flushed
        self.sync = config.flush_disk_type == "SYNC_FLUSH"
        self._step = threading.Lock()  # one flush at a time
        self._lists = threading.Lock()
        self._taken: list[FlushRequest] = []
        self._wake = threading.Event()
        self._stop = False
        self._last_thorough = effects.monotonic()
        self._thread = threading.Thread(target=self._run, name="flintmq-flush", daemon=True)

    # -- steps ------------------------------------------------------------------------------------------------------

    def flush_once(self, least_pages: int = 0) -> bool:
        """Flush if at least so many pages wait, or anything at all with 0; True if something was flushed.

        Thread: any; one at a time. Durability: everything put before the call, on return of True.
        """
        with self._step:
            time = self.commit_log.last_time  # before the end: a put between the two must not make the time too young
            target = self.commit_log.end
            waiting = target // PAGE - self.files.flushed_where // PAGE
            if self.poison or target <= self.files.flushed_where or waiting < least_pages:
                return False
            try:
                self.files.flush(target)
            except OSError as error:
                self.poison.set(f"the commit log could not be flushed ({error.strerror})")
                return False
        self.flushed(time)
        return True

    def commit_group(self) -> None:
        """Flush for the requests handed in so far, and answer them."""
        with self._lists:
            requests, self._taken = self._taken, []
        if requests:
            self.flush_once()
        for request in requests:
            request.flushed = not self.poison and self.files.flushed_where >= request.end
            request.done.set()

    # -- waiting ----------------------------------------------------------------------------------------------------

    def wait_flushed(self, end: int) -> bool:
        """Wait until the log is durable up to `end`; False if the flush failed or took longer than syncFlushTimeout."""
        if self.files.flushed_where >= end and not self.poison:
            return True
        request = FlushRequest(end)
        with self._lists:
            self._taken.append(request)
        self._wake.set()
        if self._stop:  # the thread may have looked for the last time
            self.commit_group()
        request.done.wait(self.config.sync_flush_timeout / 1000)
        return request.flushed

    # -- thread -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread after a last flush of everything."""
        self._stop = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        self.commit_group()
        self.flush_once()

    def wake(self) -> None:
        """Ask for a flush soon."""
        self._wake.set()

    def _run(self) -> None:
        interval = self.config.flush_interval_commit_log / 1000
        while not self._stop:
            self._wake.wait(interval)
            self._wake.clear()
            if self.sync:
                self.commit_group()
            now = self.effects.monotonic()
            thorough = (now - self._last_thorough) * 1000 >= self.config.flush_commit_log_thorough_interval
            if thorough:
                self._last_thorough = now
            self.flush_once(0 if thorough or self.sync else self.config.flush_commit_log_least_pages)
