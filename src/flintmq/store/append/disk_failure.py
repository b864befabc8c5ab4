"""The mark of a store whose disk refused once: shared by everything that writes to it (contract, line 3)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

log = logging.getLogger("flintmq.flush")


def reason_of(error: BaseException) -> str:
    """What an error says, in a few words."""
    return (isinstance(error, OSError) and error.strerror) or f"{type(error).__name__}: {error}".rstrip(": ")


@dataclass
class DiskFailure:
    """Set once, by the first failed sync or commit of the store; never taken back while the process lives.

    Attributes:
        reason: why; empty as long as it is not set.
    """

    reason: str = ""
    _listeners: list[Callable[[], None]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.reason)

    def on_set(self, listener: Callable[[], None]) -> None:
        """Call this once it is set, after those that were registered before. Before the threads start."""
        self._listeners.append(listener)

    def set(self, reason: str) -> None:
        """Refuse everything from now on."""
        if not self.reason:
            self.reason = reason
            for listener in self._listeners:
                listener()
            log.error("%s; the store takes no more puts, restart it to read what is on disk", reason)
