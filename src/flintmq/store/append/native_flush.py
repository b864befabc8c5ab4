"""Answers the questions of the native flusher that need Python.

The thread (kernels/flusher.py) syncs without the GIL and calls these methods with it, rarely. If it asked for the GIL
after the end of the interpreter, the process would crash. So the threads of stores that nobody closed are ended before,
and puts that come later flush themselves.
"""

from __future__ import annotations

import atexit
import os
from typing import TYPE_CHECKING

from flintmq.kernels.flusher import Flusher, native
from flintmq.storage.filesystem import Effects
from flintmq.store.append.disk_failure import reason_of
from flintmq.store.append.stats import LIMITS_MS

if TYPE_CHECKING:
    from flintmq.store.append.flush import FlushService

_running: set[FlushService] = set()  # those with a native thread; changed by single calls, so it needs no lock
_is_exiting = False


def may_be_native(flush: FlushService) -> bool:
    """Return whether a native thread may flush.

    It may if puts wait for the real disk, there is no transient pool, and the interpreter is not about to end.
    """
    real = flush.sync and flush.commits is None and type(flush.effects) is Effects
    return real and native() and not _is_exiting


def end_all() -> None:
    """Flush and end the native threads of all stores, before the interpreter ends."""
    global _is_exiting
    _is_exiting = True
    for flush in list(_running):
        flush.stop()


atexit.register(end_all)
os.register_at_fork(after_in_child=_running.clear)  # a child has none of these threads


class NativeFlush:
    """The owner of one native flusher.

    Args:
        flush: the service it works for.

    Thread: `start` once; the others are called by the flusher's thread.
    """

    def __init__(self, flush: FlushService) -> None:
        self._flush = flush
        interval = flush.config.flush_interval_commit_log / 1000
        self.flusher = Flusher(flush.files, self, flush.after_flush, flush.timeout_s, interval, LIMITS_MS)
        if flush.lock is not None:
            self.flusher.guard(os.fsencode(flush.lock.path), *flush.lock.identity)

    def start(self) -> None:
        """Start the thread. Whoever waits learns of a failure after all other listeners.

        Raises:
            RuntimeError: no thread can be started.
        """
        # Before the thread runs, and after all other listeners: who is answered FAILED must find a store that refuses
        # puts, and an `abort` that says so to the next start (kernels/flusher.py, C5).
        self._flush.failure.on_set(self.flusher.poison)
        if self._flush.failure:  # set before anybody listened
            self.flusher.poison()
        # Before the thread runs: an interpreter that ends meanwhile must find it here, or the process crashes.
        _running.add(self._flush)
        self.flusher.start()

    def stop(self) -> None:
        """Sync what was published, answer all who wait, and end the thread."""
        self.flusher.stop()
        _running.discard(self._flush)

    def log_files(self) -> None:
        """Name the files that are not wholly on disk."""
        files = self._flush.files
        for file in files.files:
            if file.start + file.size > files.flushed_where:
                self.flusher.sync_file(file, file.fd, os.fsencode(file.path))

    def failed(self, error: BaseException) -> None:
        """Note that a sync failed, or something in this class."""
        what = "the commit log could not be flushed" if isinstance(error, OSError) else "the flush service failed"
        self._flush.failure.set(f"{what} ({reason_of(error)})")

    def is_ours(self) -> bool:
        """Return whether this process still owns the store."""
        return self._flush.ours()

    def look(self) -> None:
        """Publish records that nobody published: the put was interrupted after it stored them."""
        # The time before the end: a put in between must not make the time too young.
        time = self._flush.commit_log.last_time
        end = self._flush.commit_log.end
        if end > self._flush.files.flushed_where and not self._flush.failure:
            self.flusher.publish(end, time)
