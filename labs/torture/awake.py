"""A clock for loops that look at it often: time in which the process stood still does not count."""

from __future__ import annotations

import time


class Awake:
    """Seconds since it was made; of a step between two looks at most `step_s` count.

    A job that was stopped (SIGSTOP), or a machine that slept, has then neither run for longer nor hung.
    """

    def __init__(self, step_s: float) -> None:
        self.step_s, self._spent, self._before = step_s, 0.0, time.monotonic()

    def __call__(self) -> float:
        now = time.monotonic()
        self._spent, self._before = self._spent + min(now - self._before, self.step_s), now
        return self._spent
