"""The part of a put in which the put lock may be held for long. Source: upstream beginTimeInLock, isOSPageCacheBusy.

Storing a record holds the lock, and compiled the GIL too, for less than anybody could look. What may take long is to
get room for it: a file, or disk blocks. So only that publishes when it began, and every other put pays nothing.
"""

from __future__ import annotations

import logging
from types import TracebackType

from flintmq.storage.filesystem import Effects

log = logging.getLogger("flintmq.commitlog")

SLOW_MS = 500  # from here on it is worth a log line
NEVER_MS = 10_000_000  # upstream takes more for a clock that was set


class SlowPart:
    """A `with` block around it.

    Attributes:
        since: monotonic seconds when it began; 0.0 while nobody is in it.
        longest_ms: the longest so far.

    Thread: the `with` block under the put lock; the rest any.
    """

    def __init__(self, effects: Effects) -> None:
        self.effects = effects
        self.since = 0.0
        self.longest_ms = 0

    def busy(self, limit_ms: int) -> bool:
        """Whether somebody is in it for longer than this (osPageCacheBusyTimeOutMills)."""
        since = self.since
        return bool(since) and limit_ms < (self.effects.monotonic() - since) * 1000 < NEVER_MS

    def __enter__(self) -> None:
        """It begins."""
        self.since = self.effects.monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """It ends."""
        took = int((self.effects.monotonic() - self.since) * 1000)
        self.since = 0.0
        self.longest_ms = max(self.longest_ms, took)
        if took > SLOW_MS:
            log.warning("a put held the put lock for %d ms while it waited for room", took)
