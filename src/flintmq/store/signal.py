"""Wake a thread that works in steps. Source: upstream ServiceThread: a wake-up during work is not lost."""

from __future__ import annotations

import threading


class Signal:
    """Set by many, waited for by one. A bare lock: a third of the cost of threading.Event where nobody waits.

    Thread: `set` any; `wait` one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        """Let the next `wait`, or the one that is under way, return at once."""
        if self._lock.locked():
            try:
                self._lock.release()
            except RuntimeError:  # somebody else did, this moment
                return

    def wait(self, seconds: float) -> None:
        """Return when it is set, or after so many seconds, and unset it."""
        self._lock.acquire(timeout=seconds)
