"""An event by which a signal handler, or anybody else, asks a loop to end.

The Event of `threading` keeps a lock for as long as it looks at its flag. A signal handler that sets it while the main
thread waits for it may come in just then, and waits for its own thread, for ever; and a handler that raises may leave
the lock taken. Here is no lock that two share.
"""

from __future__ import annotations

import _thread
import threading
import time
from typing import Final

LOOK_S: Final = 1.0
"""Seconds after which a wait looks for itself, in case a handler that raised has cut a `set` short."""


class StopEvent(threading.Event):
    """An event that may be set from a signal handler, whatever the thread is at. Thread: any."""

    def __init__(self) -> None:
        super().__init__()
        self._is_stopped = False
        self._waiting: list[_thread.LockType] = []  # taken; who takes one off the list releases it

    def is_set(self) -> bool:
        return self._is_stopped

    def set(self) -> None:
        self._is_stopped = True
        while self._waiting:
            try:
                waiting = self._waiting.pop()
            except IndexError:  # another thread, or a handler, has taken the last
                return
            waiting.release()

    def clear(self) -> None:
        self._is_stopped = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set; return whether it is. `timeout`: seconds; None: no limit."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self._is_stopped:
            left = LOOK_S if end is None else min(end - time.monotonic(), LOOK_S)
            if left <= 0:
                break
            self._sleep(left)
        return self._is_stopped

    def _sleep(self, seconds: float) -> None:
        """Sleep so long, or until it is set."""
        mine = _thread.allocate_lock()
        mine.acquire()
        try:
            self._waiting.append(mine)
            # It may have been set before the lock was on the list.
            if not self._is_stopped:
                mine.acquire(timeout=seconds)
        finally:
            if mine in self._waiting:
                self._forget(mine)

    def _forget(self, mine: _thread.LockType) -> None:
        try:
            self._waiting.remove(mine)
        except ValueError:
            pass  # `set` has taken it meanwhile
