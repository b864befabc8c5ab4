"""Work that takes longer than a page may: in a thread of its own, with progress and a stop."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from flintmq.errors import FlintError, UsageError
from flintmq.ui.stores import OpenStore

T = TypeVar("T")
C = TypeVar("C", bound="BackgroundCheck[Any]")
AT_ONCE = 2
"""Checks that run at the same time."""
AGAIN_S = 2


class BackgroundCheck(ABC, Generic[T]):
    """One check of what was named.

    Args:
        stores: those whose logs are read.

    Attributes:
        marks: the stores as they were at its begin.
        found: the result; None: it runs, or ended with `error`.
        seconds: how long it took, or has taken so far.
    """

    def __init__(self, stores: Sequence[OpenStore]) -> None:
        self.marks = [(one, one.mark()) for one in stores]
        self.done = self.total = 0
        self.found: T | None = None
        self.error = ""
        self.stop, self.ended_ms = threading.Event(), 0
        self._begun, self._took = time.monotonic(), 0.0
        self._thread = threading.Thread(target=self._run, name="flintmq-ui-check", daemon=True)
        self._thread.start()

    @abstractmethod
    def work(self) -> T:
        """Do it; `note` takes its progress, and `stop` says that it shall end."""

    def _run(self) -> None:
        try:
            self.found = self.work()
        except Exception as error:  # of a thread: nobody but the page can say it
            self.error = str(error) if isinstance(error, FlintError | OSError) else f"internal error: {error!r}"
        finally:
            self._took, self.ended_ms = time.monotonic() - self._begun, round(1000 * time.time())

    def note(self, done: int, total: int) -> None:
        self.done, self.total = done, total

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    @property
    def seconds(self) -> float:
        return self._took or time.monotonic() - self._begun

    @property
    def percent(self) -> int:
        return round(100 * self.done / max(self.total, 1))

    @property
    def progress(self) -> dict[str, Any]:
        """The JSON of a check that has no result."""
        return {"kind": "progress", "running": self.running, "done": self.done, "total": self.total}

    def wait(self, seconds: float) -> None:
        self._thread.join(seconds)


def current(check: C | None) -> C | None:
    """Return a check if the stores that it reads are still there; else stop it."""
    if check is None or all(one.has(mark) for one, mark in check.marks):
        return check
    check.stop.set()
    return None


def acted(action: str, now: C | None, make: Callable[[], C], others: Iterable[BackgroundCheck[Any]]) -> C | None:
    """Begin or stop a check, and return the one that there is now.

    Raises UsageError: another action, or enough checks run.
    """
    if action not in ("start", "stop"):
        raise UsageError("action is start or stop")
    if action == "stop" and now is not None:
        now.stop.set()
    if action == "stop" or (now is not None and now.running):
        return now
    if sum(other.running for other in others) >= AT_ONCE:
        raise UsageError(f"{AT_ONCE} checks run; stop one, or wait")
    return make()
