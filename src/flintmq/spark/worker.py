"""Prepares a Spark worker process."""

from __future__ import annotations

import gc

_frozen = False


def freeze_once() -> None:
    """Exclude the imported modules from garbage collection, once per worker process.

    A reused worker collects garbage after each task, over all modules: without this, that is most of the cost of a
    small task.
    """
    global _frozen
    if not _frozen:
        gc.collect()
        gc.freeze()
        _frozen = True
