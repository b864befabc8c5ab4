"""Notes for other processes how far a follower is, in `flintmq.following`.

A note costs two calls of the system's clock at most times: it is written once a second while things change, and every
5 s in any case. A disk that refuses it does not end the follower; `flintmq metrics` then says that it is not connected.
"""

from __future__ import annotations

import logging
from typing import Final

from flintmq.errors import StoreAccessError
from flintmq.ha.follower_line import FollowerLine
from flintmq.storage.files.filesystem import Effects
from flintmq.store.layout import following
from flintmq.store.layout.following import Following

log = logging.getLogger("flintmq.ha")

SOONEST_S: Final = 1.0
"""Seconds between two notes."""
LATEST_S: Final = 5.0
"""Seconds after which a note is renewed though nothing has changed."""


class ProgressNotes:
    """Writes the notes of one follower. Thread: the follower's."""

    def __init__(self, root: str, effects: Effects) -> None:
        self._root, self._effects = root, effects
        self._heard_at, self._heard_ms, self._complete_ms = -1.0, 0, 0
        self._written: Following | None = None
        self._written_at = 0.0
        self._refused = False

    def take(
        self, line: FollowerLine | None, *, caught_up: bool, master_end: int | None = None, last: bool = False
    ) -> None:
        """Write a note, if it is time for one.

        Args:
            master_end: the end of the broker's log when it last said it; None: it does not.
            last: write it in any case: the follower ends, and is connected no more.
        """
        clock = self._effects.monotonic()
        before, age = self._written, clock - self._written_at
        if before is not None and age < SOONEST_S and not last:
            return
        at_ms = self._effects.now_ms()
        connected = line is not None and line.heard_any
        if line is not None and connected:
            if line.heard != self._heard_at:
                self._heard_at, self._heard_ms = line.heard, at_ms - int((clock - line.heard) * 1000)
            self._complete_ms = self._heard_ms if caught_up else self._complete_ms
        # A follower that ends is not connected, though its line is still open.
        connected, end = connected and not last, -1 if master_end is None else master_end
        note = Following(at_ms, connected, connected and caught_up, self._heard_ms, self._complete_ms, end)
        if before is not None and not last and age < LATEST_S and note[1:] == before[1:]:
            return
        try:
            following.write(self._root, note, self._effects)
            self._refused = False
        except (OSError, StoreAccessError) as error:
            if not self._refused:
                log.warning("%s: cannot be written, so flintmq metrics cannot see this follower: %s", self._root, error)
            self._refused = True
        self._written, self._written_at = note, clock
