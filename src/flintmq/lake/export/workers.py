"""Runs the tasks of an export: on threads of this process, or as Spark has them.

A task scans its part of a log and writes its own files; only counts and names come back. Kernels and Parquet's writer
work without the GIL, so threads use as many cores as there are.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any, Protocol, TypeVar

from flintmq.lake.read.splits import cores

Item = TypeVar("Item")
Progress = Callable[[int, int], None]
"""Called with tasks done and in all."""


class Workers(Protocol):
    """Runs tasks. `count`: how many run at the same time."""

    @property
    def count(self) -> int:
        """Number of tasks that run at the same time."""

    def run(
        self, function: Callable[[Item], dict[str, Any]], items: Sequence[Item], progress: Progress | None = None
    ) -> list[dict[str, Any]]:
        """Call function(item) for each item, and return the answers in the order of the items.

        Raises FlintError: one that a task raised; then tasks that had not begun are not begun.
        """


class Threads:
    """Runs tasks on threads of this process.

    `count`: how many at the same time; 0 for one a core.
    """

    def __init__(self, count: int = 0) -> None:
        self._count = count or cores()

    @property
    def count(self) -> int:
        return self._count

    def run(
        self, function: Callable[[Item], dict[str, Any]], items: Sequence[Item], progress: Progress | None = None
    ) -> list[dict[str, Any]]:
        """Call function(item) for each item; see Workers.

        A signal handler that raises, as Ctrl-C does, ends it as a failed task does: tasks that run come to their end,
        and what they wrote is never published.
        """
        pool = ThreadPoolExecutor(self._count, "flintmq-export")
        try:
            calls = [pool.submit(function, item) for item in items]
            left = set(calls)
            while left:
                over, left = wait(left, timeout=0.5, return_when=FIRST_EXCEPTION)
                if any(call.exception() is not None for call in over):
                    break
                if progress is not None:
                    progress(sum(call.done() for call in calls), len(calls))
        finally:
            pool.shutdown(cancel_futures=True)
        failed = [error for call in calls if not call.cancelled() and (error := call.exception()) is not None]
        if failed:
            raise failed[0]
        return [call.result() for call in calls]


def packed(value: object) -> str:
    """Pack an object into a text, for an answer or an item of a task."""
    return base64.b64encode(pickle.dumps(value)).decode("ascii")


def unpacked(text: str) -> Any:
    """Return what was packed.

    Whoever made the text can run code here: it is for processes of one job.
    """
    return pickle.loads(base64.b64decode(text))  # noqa: S301
