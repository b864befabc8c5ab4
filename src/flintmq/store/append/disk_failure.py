"""Records the first failed fsync of a store, for all code that writes to it.

After a failed fsync the page cache may hold bytes that never reach the disk, so no put is accepted any more.

An exception says nothing of the disk: a signal handler, or another thread (PyThreadState_SetAsyncExc), may raise any in
the middle of a flush, and one may take the place of the disk's. So the step that meets a refusal notes its errno before
other code can run (LogWatermark.sync, Ring.error), and `attempt` asks for that note alone.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field

log = logging.getLogger("flintmq.flush")


def reason_of(error: BaseException) -> str:
    return (isinstance(error, OSError) and error.strerror) or f"{type(error).__name__}: {error}".rstrip(": ")


@dataclass
class DiskFailure:
    """Set once, by the first failed fsync or commit of the store, and never reset."""

    reason: str = ""  # the cause; empty until it is set
    root: str = ""
    _listeners: list[Callable[[], None]] = field(default_factory=list)
    _is_told: bool = False

    def __bool__(self) -> bool:
        return bool(self.reason)

    def on_set(self, listener: Callable[[], None]) -> None:
        """Register a listener for `set`, called after earlier ones; before the threads start."""
        self._listeners.append(listener)

    def set(self, reason: str) -> None:
        """Refuse all puts from now on."""
        # The first one stays: what fails later is mostly its consequence. It is set before anybody hears of it, so that
        # each listener finds the store failed.
        self.reason = self.reason or reason
        self.tell()

    def tell(self) -> bool:
        """Tell listeners of a failure that they do not know; return whether there is one."""
        if self.reason and not self._is_told:  # or an exception of other code cut an earlier call short
            for listener in self._listeners:
                listener()
            # After the last listener: if one raises, the next call begins anew.
            self._is_told = True
            text = "%s: %s; the store refuses puts from now on: restart it, which recovers the messages on disk"
            log.error(text, self.root, self.reason)
        return bool(self.reason)

    def attempt(self, step: Callable[[], None], what: str, noted: Callable[[], int]) -> bool:
        """Call a step of the disk unless the disk refused before; return whether it was done.

        `noted`: returns the errno of a refusal, which the step notes when it meets one; 0: none.

        Raises BaseException: other code raised it amid the step, so the step may not be done, and can be called again.
        """
        try:
            if not noted():
                step()
        except OSError:
            if not noted():
                raise
        finally:
            if error := noted():
                self.set(f"{what} ({os.strerror(error)})")
        return not error
