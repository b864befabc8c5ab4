"""Measures the part of a put that may hold the put lock for long.

Storing a record holds the lock, and compiled the GIL too, for a time too short to measure. Only reserving room for it
may take long: a new file, or disk blocks. So only this part publishes its start, and all other puts pay nothing.
Upstream: beginTimeInLock, isOSPageCacheBusy.
"""

from __future__ import annotations

import logging

from flintmq.storage.files.filesystem import Effects

log = logging.getLogger("flintmq.commitlog")

SLOW_MS = 500  # a longer section is logged
NEVER_MS = 10_000_000  # upstream takes a longer time for a clock that was set


class SlowPart:
    """The slow section as a `with` block.

    Thread: the `with` block under the put lock; the rest any.
    """

    def __init__(self, effects: Effects, place: str) -> None:
        self.effects, self.place = effects, place
        self.since = 0.0  # monotonic seconds when it began; 0.0 outside it
        self.longest_ms = 0

    def busy(self, limit_ms: int) -> bool:
        """Return whether the section takes longer than this (osPageCacheBusyTimeOutMills)."""
        since = self.since
        return bool(since) and limit_ms < (self.effects.monotonic() - since) * 1000 < NEVER_MS

    def __enter__(self) -> None:
        self.since = self.effects.monotonic()

    def __exit__(self, *_: object) -> None:
        took = int((self.effects.monotonic() - self.since) * 1000)
        self.since = 0.0
        self.longest_ms = max(self.longest_ms, took)
        if took > SLOW_MS:
            text = "%s: a put held the put lock for %d ms while it waited for a file or disk blocks"
            log.warning(text, self.place, took)
