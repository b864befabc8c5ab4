"""Notices that another process took over the store.

If `lock` is removed, another process can make it again and write; and bytes written to a log file whose name is gone
cannot be opened again. So this is checked before a log file is made, before a flush counts, and at intervals.
"""

from __future__ import annotations

from collections.abc import Callable

from flintmq.errors import StoreLockedError
from flintmq.storage.files.lock import StoreLock
from flintmq.storage.memory.mapped_file_queue import MappedFileQueue
from flintmq.store.append.disk_failure import DiskFailure


class Ownership:
    """The right of this process to write one store.

    Thread: any, once the listeners are registered.
    """

    def __init__(self, lock: StoreLock, files: MappedFileQueue, failure: DiskFailure) -> None:
        self._lock, self._files, self._failure = lock, files, failure
        self._listeners: list[Callable[[StoreLockedError], None]] = []

    def on_lost(self, listener: Callable[[StoreLockedError], None]) -> None:
        """Register a listener for the loss of the store. Before the threads start."""
        self._listeners.append(listener)

    def is_ours(self) -> bool:
        """Return whether no other process may write the store, and its log file still has its name.

        If not, nothing is written from now on.
        """
        if not self._lock.is_in_place():
            reason = f"{self._lock.path} was removed or replaced, so that another process may write this store"
        elif (gone := self._files.gone()) is not None:
            reason = f"{gone} was removed or replaced while the store writes it"
        else:
            return True
        # Puts first: from here on none is accepted, whatever the listeners take to end.
        self._failure.set(reason)
        error = StoreLockedError(reason)
        for listener in self._listeners:
            listener(error)
        return False
