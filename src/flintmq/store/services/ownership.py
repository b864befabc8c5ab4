"""Notice that the store is somebody else's: `lock` or a log file in use was removed or replaced.

Who removes `lock` lets another process make it anew and write; and what is written into a log file whose name is gone
nobody can open again. So this is asked before a log file is made, before a flush counts, and once in a while.
"""

from __future__ import annotations

from collections.abc import Callable

from flintmq.errors import StoreLockedError
from flintmq.storage.lock import StoreLock
from flintmq.storage.mapped_file_queue import MappedFileQueue
from flintmq.store.append.disk_failure import DiskFailure


class Ownership:
    """Whether this process may go on writing one store.

    Args:
        lock, files, failure: of the store.

    Thread: any, once the listeners are there.
    """

    def __init__(self, lock: StoreLock, files: MappedFileQueue, failure: DiskFailure) -> None:
        self._lock, self._files, self._failure = lock, files, failure
        self._listeners: list[Callable[[StoreLockedError], None]] = []

    def on_lost(self, listener: Callable[[StoreLockedError], None]) -> None:
        """Call this, with the reason, once the store is not ours any more. Before the threads start."""
        self._listeners.append(listener)

    def is_ours(self) -> bool:
        """Whether nobody else may write the store, and what is written can be found again. If not, nothing is written
        from now on."""
        if not self._lock.stands():
            reason = f"{self._lock.path} was removed or replaced, so that another process may write this store"
        elif (gone := self._files.gone()) is not None:
            reason = f"{gone} was removed or replaced while the store writes it"
        else:
            return True
        self._failure.set(reason)
        error = StoreLockedError(reason)
        for listener in self._listeners:
            listener(error)
        return False
