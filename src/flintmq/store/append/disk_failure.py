"""Records the first failed fsync of a store, for all code that writes to it.

After a failed fsync the page cache may hold bytes that never reach the disk, so no put is accepted any more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

log = logging.getLogger("flintmq.flush")


def reason_of(error: BaseException) -> str:
    """Return a short text for an error."""
    return (isinstance(error, OSError) and error.strerror) or f"{type(error).__name__}: {error}".rstrip(": ")


@dataclass
class DiskFailure:
    """Set once, by the first failed fsync or commit of the store, and never reset.

    Attributes:
        reason: the cause; empty until it is set.
    """

    reason: str = ""
    _listeners: list[Callable[[], None]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.reason)

    def on_set(self, listener: Callable[[], None]) -> None:
        """Register a listener for `set`, called after earlier ones; before the threads start."""
        self._listeners.append(listener)

    def set(self, reason: str) -> None:
        """Refuse all puts from now on."""
        if not self.reason:
            self.reason = reason
            for listener in self._listeners:
                listener()
            log.error("%s; the store refuses puts from now on: restart it, which recovers the messages on disk", reason)
