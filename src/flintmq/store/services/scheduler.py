"""Calls the slow steps of a store at their intervals, in one thread.

The steps themselves know nothing of threads, so that a test or a simulator can call them in any order. Upstream:
StoreScheduledThread and similar services.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from flintmq.errors import FlintError
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.threads.service_thread import ServiceThread

log = logging.getLogger("flintmq.upkeep")


@dataclass(slots=True)
class Job:
    """A step and its schedule.

    `step`: the function; it returns True if there is more to do at once. An error is logged, and the step is called
    again later.
    """

    step: Callable[[], bool]
    interval: float
    due: float  # seconds of the monotonic clock of the next call


class Upkeep:
    """Calls jobs until `stop`. `name`: of the thread."""

    def __init__(self, name: str, effects: Effects, root: str) -> None:
        self.effects, self.root = effects, root
        self._jobs: list[Job] = []
        self._service = ServiceThread(name, self._run)

    def every(self, interval_ms: int, step: Callable[[], bool], first_ms: int | None = None) -> None:
        """Add a step, first called after an interval or after `first_ms`. Before `start` only."""
        assert not self._service.is_started and interval_ms > 0  # the thread counts on a list that stays
        wait = interval_ms if first_ms is None else first_ms
        self._jobs.append(Job(step, interval_ms / 1000, self.effects.monotonic() + wait / 1000))

    @property
    def is_started(self) -> bool:
        return self._service.is_started

    @property
    def stopping(self) -> bool:
        return self._service.stopping

    def run_once(self) -> float:
        """Call every job that is due; return the seconds until the next one is due.

        Thread: one at a time.
        """
        for job in self._jobs:
            if self.effects.monotonic() < job.due or self.stopping:
                continue
            more = False
            try:
                more = job.step()
            except (OSError, FlintError) as error:
                log.error("%s: %s failed and will be tried again (%s)", self.root, job.step.__qualname__, error)
            except Exception:  # of any kind: without the thread all steps would end silently
                log.exception("%s: %s failed and will be tried again", self.root, job.step.__qualname__)
            job.due = self.effects.monotonic() + (0 if more else job.interval)
        return max(0.0, min(job.due for job in self._jobs) - self.effects.monotonic())

    def start(self) -> None:
        self._service.start()

    def halt(self) -> None:
        """Make the thread end after the current step, without waiting for it."""
        self._service.ask_to_stop()

    def stop(self) -> None:
        """Stop the thread after the current step."""
        self._service.stop()

    def _run(self) -> None:
        while not self._service.pause(self.run_once()):
            pass
