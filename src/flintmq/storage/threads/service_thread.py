"""A thread of a store that is started once and stopped once. Source: upstream ServiceThread."""

from __future__ import annotations

import threading
from collections.abc import Callable

from flintmq.kernels.threads.handoff import Signal


class ServiceThread:
    """Runs a loop in a thread of its own until it is stopped.

    `wake`: wakes the loop where it waits; None: it waits in `pause`.

    `stopping`: the loop should end. Also true for a service that never gets a thread (`stop` before `start`).
    """

    def __init__(self, name: str, run: Callable[[], None], wake: Callable[[], object] | None = None) -> None:
        self.name, self.stopping = name, False
        # No Event of `threading`: a signal handler that raises may leave its lock taken, and a stop waits for ever.
        self._signal = Signal()
        self._run, self._wake = run, wake or self._signal.set
        self._thread: threading.Thread | None = None

    @property
    def is_started(self) -> bool:
        return self._thread is not None

    @property
    def is_alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        assert self._thread is None, f"{self.name} would run twice, and each step is for one thread at a time"
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def pause(self, seconds: float) -> bool:
        """Sleep for so long, or until it should end; return whether it should. Thread: its own."""
        if not self.stopping:
            self._signal.wait(seconds)
        return self.stopping

    def ask_to_stop(self) -> None:
        """Make the loop end after the current step, without waiting for it."""
        self.stopping = True
        self._wake()

    def stop(self) -> None:
        """Make the loop end, and wait for it. May be called again, and without a thread."""
        self.ask_to_stop()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()
