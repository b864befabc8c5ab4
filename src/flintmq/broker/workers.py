"""Threads that read files for the loop, and do not delay the end of a process.

Those of the standard library are waited for when the interpreter ends: one that reads from a disk that hangs, or
searches a whole log for a key, would keep a broker from its end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class ReadingThreads(Executor):
    """Runs functions in a few threads. Thread: any."""

    def __init__(self, count: int, name: str) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads = [threading.Thread(target=self._work, name=f"{name}-{n}", daemon=True) for n in range(count)]
        for thread in self._threads:
            thread.start()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future = Future[T]()

        def job() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(fn(*args, **kwargs))
                except BaseException as error:
                    future.set_exception(error)

        self._jobs.put(job)
        return future

    def end(self, seconds: float) -> None:
        """Begin nothing more, and wait for the functions that run, no longer than this."""
        limit = time.monotonic() + seconds
        with suppress(Empty):
            while True:
                self._jobs.get_nowait()
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join(max(limit - time.monotonic(), 0))

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
