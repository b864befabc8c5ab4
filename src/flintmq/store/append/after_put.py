"""Services that work on records after a put, and are woken by it.

A store chooses one when it is opened (`store/assembly.py`, `_woken_by_puts`). The compiled put and PutService wake
the same one.
"""

from __future__ import annotations

from flintmq.kernels.write.fast_append import PutListener


class AfterPut(PutListener):
    """Works on records in a thread of its own.

    `needs_wake`: whether the putting thread must call `wake`.
    """

    def wake(self, size: int = 0) -> None:
        """Wake the thread after a put of `size` bytes, if many."""
        raise NotImplementedError


class DispatchAndFlush(AfterPut):
    """Wakes dispatch, and the flush service with each put (wakeFlushWhenPutMessage)."""

    def __init__(self, dispatch: AfterPut, flush: AfterPut) -> None:
        self.dispatch, self.flush = dispatch, flush
        self.needs_wake = True

    def wake(self, size: int = 0) -> None:
        if self.dispatch.needs_wake:
            self.dispatch.wake(size)
        self.flush.wake()
