"""A clock that a test moves forward, for a broker and its store."""

from __future__ import annotations

import asyncio
import time

from flintmq.storage.files.filesystem import Effects


class MovedClock(Effects):
    """The real disk, with a clock of its own.

    The store takes the time of day from it: delay levels, timers, how old transactions are. A loop that `lead` was
    given goes by it, too, so that popped messages come again. Other waits, of disks and threads, are real ones.

    Thread: any. `ahead_s`: how far it was moved.
    """

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None

    def now_ms(self) -> int:
        return super().now_ms() + round(self.ahead_s * 1000)

    def lead(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have a loop go by this clock."""
        self._loop = loop
        loop.time = lambda: time.monotonic() + self.ahead_s  # type: ignore[method-assign]

    def advance(self, seconds: float) -> None:
        self.ahead_s += seconds
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(lambda: None)  # it looks at its timers
