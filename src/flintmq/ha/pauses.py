"""The waits of a follower between two attempts, which a stop ends."""

from __future__ import annotations

import random
import threading
from typing import Final

from flintmq.storage.threads.stop_event import StopEvent

FIRST_S: Final = 0.2
LONGEST_S: Final = 5.0
"""Between two attempts the wait doubles from the first to the longest."""


class Pauses:
    """Waits longer after each attempt in vain.

    `stopping`: set when the follower is to stop; it ends a wait, and all that come.

    Thread: one; `stopping` may be set by any.
    """

    def __init__(self) -> None:
        self.stopping: threading.Event = StopEvent()
        self._taken = 0

    def next_s(self) -> float:
        longest = min(LONGEST_S, FIRST_S * 2.0 ** min(self._taken, 10))
        self._taken += 1
        return longest * random.uniform(0.75, 1.0)

    def take(self) -> None:
        self.stopping.wait(self.next_s())

    def reset(self) -> None:
        self._taken = 0
