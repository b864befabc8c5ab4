"""Decides whether a store may be called.

It must be open, in the process that opened it, and not inside another call of itself.
"""

from __future__ import annotations

from flintmq.errors import UsageError
from flintmq.storage.lock import StoreLock
from flintmq.store.reentry import refuse_handler


class OpenState:
    """The check at the beginning of every call of one store.

    Thread: any.

    Args:
        lock: its lock, held while it is open; a forked child does not hold it.

    Attributes:
        closing: whether `close` has begun; set before `closed`, even if another thread does the rest.
        closed: whether no further put can come.
    """

    def __init__(self, root: str, lock: StoreLock) -> None:
        self.root, self.lock = root, lock
        self.closing = self.closed = False

    def check(self) -> None:
        if self.closing or not self.lock.held:
            why = "is closed" if self.closing else "was opened by the process that forked this one"
            raise UsageError(f"{self.root}: this store {why}; open it again")
        refuse_handler(self.root)

    def begin_closing(self) -> None:
        """Refuse every later call; the rest of `close` is left to another thread."""
        self.closing = True

    def close(self) -> None:
        """Note that no further put can come."""
        self.closing = True
        self.closed = True

    def __str__(self) -> str:
        return "closed" if self.closed else "open" if self.lock.held else "of another process"
