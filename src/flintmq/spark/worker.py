"""Prepares a Spark worker process."""

from __future__ import annotations

import gc
import sys
import traceback
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flintmq.store.commitlog.report import Report

YOUNG = 10_000  # objects after which the collector looks at new ones; after Python's 700 it takes 12 % of `trace`
_frozen = False


def expect_hanging_up() -> None:
    """Keep PySpark's daemon, if this process is a fork of it, from printing broken pipes.

    Spark closes the pipe of a planning worker when it has its answer, and that of a task when it has enough rows
    (`show`, `limit`, `take`). The daemon prints the BrokenPipeError of its own last flush; none of ours comes to it.
    Spark's setting for another daemon is not asked for planning workers, and would break workers without FlintMQ.
    """
    daemon: Any = sys.modules["__main__"]
    if getattr(getattr(daemon, "__spec__", None), "name", None) == "pyspark.daemon":
        daemon.traceback = SimpleNamespace(**{**vars(traceback), "print_exc": _print_exception})
        daemon.print = _print


def _print_exception(*words: Any, **options: Any) -> None:
    if not isinstance(sys.exception(), BrokenPipeError):
        traceback.print_exc(*words, **options)


def _print(*words: Any, **options: Any) -> None:
    if not isinstance(sys.exception(), BrokenPipeError):
        print(*words, **options)


def freeze_once() -> None:
    """Exclude the imported modules from garbage collection, once per worker process.

    A reused worker collects garbage after each task, over all modules: without this, that is most of the cost of a
    small task. Collections also come less often: after YOUNG new objects.
    """
    global _frozen
    if not _frozen:
        gc.collect()
        gc.freeze()
        gc.set_threshold(YOUNG)
        _frozen = True


def damage_in(report: Report) -> Iterator[str]:
    if report.damage_count:
        first = report.damages[0]
        yield (
            f"skipped {report.damage_count} damaged places, {report.lost_bytes} bytes of the log; "
            f"the first: {first.file}, position {first.position}: {first.reason}"
        )
