"""What a Spark worker does once in its life."""

from __future__ import annotations

import gc

_frozen = False


def freeze_once() -> None:
    """Take what is imported out of the garbage collector's sight, once per worker process.

    A reused worker collects garbage after each task, over all modules: without this, that is most of what a small
    task costs.
    """
    global _frozen
    if not _frozen:
        gc.collect()
        gc.freeze()
        _frozen = True
