"""Whether a store may be called: it is open, in the process that opened it, and not amid a call of itself."""

from __future__ import annotations

import threading

from flintmq.errors import UsageError
from flintmq.storage.lock import StoreLock
from flintmq.store.reentry import refuse_handler


class OpenState:
    """What every call of one store asks first.

    Args:
        root: of the store.
        lock: its lock, held while it is open; a child made by fork does not hold it.

    Attributes:
        closing: whether `close` has begun; set before `closed`, also where another thread is to do the rest.
        closed: set once no put comes any more.

    Thread: any.
    """

    def __init__(self, root: str, lock: StoreLock) -> None:
        self.root, self.lock = root, lock
        self.closing = False
        self.closed = threading.Event()

    def check(self) -> None:
        """Check that the store may be called.

        Raises:
            UsageError: it is closed, was opened by the process that forked this one, or a signal handler calls it amid
                another call.
        """
        if self.closing or not self.lock.held:
            why = "is closed" if self.closing else "was opened by the process that forked this one"
            raise UsageError(f"{self.root}: this store {why}; open it again")
        refuse_handler(self.root)

    def __str__(self) -> str:
        """In a word or two."""
        return "closed" if self.closed.is_set() else "open" if self.lock.held else "of another process"
