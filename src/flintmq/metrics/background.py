"""Calls a function in a thread of its own, so that its caller can give up waiting.

A call into a file system that no longer answers cannot be ended. So it is left to its thread, and not started again
before it has returned.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from flintmq.errors import UnfinishedError
from flintmq.storage.threads.mutex import Lock

T = TypeVar("T")


class _Running(Generic[T]):
    """One call, and what became of it."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.answer: T | None = None
        self.error: Exception | None = None


class BackgroundCall(Generic[T]):
    """Runs a function in the background, one call at a time. Thread: any."""

    def __init__(self, function: Callable[[], T], name: str) -> None:
        self._function, self._name = function, name
        self._lock = Lock()
        self._running: _Running[T] | None = None

    def start(self) -> Callable[[float], T]:
        """Start a call, unless one runs; return a function that waits for it up to a moment of time.monotonic().

        That function raises the errors of the call, and UnfinishedError if it has not returned by then.
        """
        with self._lock:
            running = self._running
            if running is None or running.done.is_set():
                self._running = running = _Running()
                # A daemon: a file system that hangs must not keep the process from ending.
                threading.Thread(target=self._run, args=(running,), name=self._name, daemon=True).start()
        return lambda deadline: self._wait(running, deadline)

    def _run(self, running: _Running[T]) -> None:
        try:
            running.answer = self._function()
        except Exception as error:  # raised again where it is waited for
            running.error = error
        finally:
            running.done.set()

    def _wait(self, running: _Running[T], deadline: float) -> T:
        if not running.done.wait(max(0.0, deadline - time.monotonic())):
            raise UnfinishedError("no answer in time; does its disk hang?")
        if running.error is not None:
            raise running.error
        return running.answer  # type: ignore[return-value]  # set before `done`
