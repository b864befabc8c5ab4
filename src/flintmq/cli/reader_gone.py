"""Notices that the reader of our output has gone, also while nothing is printed."""

from __future__ import annotations

import os
import select
import sys

from flintmq.errors import NotAStoreError
from flintmq.storage.threads.stop_event import StopEvent
from flintmq.store.layout.directories import LOG


class ReaderGone(StopEvent):
    """Set once the reader of our output has gone, noticed also while nothing is printed.

    `store`: what is followed; a store that is gone is an error, as nothing would come any more.
    """

    def __init__(self, store: str) -> None:
        super().__init__()
        self._there = [path for path in (store, os.path.join(store, LOG)) if os.path.isdir(path)]

    def wait(self, timeout: float | None = None) -> bool:
        if gone := [path for path in self._there if not os.path.isdir(path)]:
            raise NotAStoreError(f"{gone[0]}: it is not there any more; bring it back (is its disk mounted?)")
        try:
            watched = select.poll()
            watched.register(sys.stdout.fileno(), 0)  # errors and hang-ups are reported anyway
        except (OSError, ValueError, AttributeError):  # no real file, as in a test, or a system without poll
            return super().wait(timeout)
        if watched.poll(None if timeout is None else timeout * 1000):
            self.set()
        return self.is_set()
