"""Touches the pages of a mapped file ahead of its reader, in a thread of its own.

Entering its pages into the process's page tables, sixteen at each page fault, takes a fifth of a pass over a file in
the page cache, and the reader waits meanwhile. Another thread takes these faults in parallel. For pages that are not in
the page cache it also reads ahead.

It stays near the reader: the last file of a log is mostly a hole, and each page of a hole that is touched takes memory
of the page cache, and time to make it zero.
"""

from __future__ import annotations

import mmap
import threading

from flintmq.kernels import _select, walk
from flintmq.kernels.handoff import Signal

LEAST = 32 << 20  # bytes: a smaller range is not worth a thread
STEP = 4 << 20  # bytes between checks whether to stop
AHEAD, LEFT = 32 << 20, 8 << 20  # bytes: how far it goes before the reader; it is woken where this much is left
IDLE_S = 60.0  # seconds that it sleeps at most; its reader wakes it
AROUND = 1 << 16  # bytes that Linux maps at one page fault; if it maps fewer, the reader takes the remaining faults


class TouchAhead:
    """Touches the pages of map[begin:end] in order, until it is stopped.

    Args:
        careful: stop at pages that cannot be read; the reader checks them the same way. Without it such a page kills
            the process.

    For small ranges, and if the kernels are not compiled and would keep the GIL, it does nothing.

    Thread: `follow` and `stop` belong to the thread that made it.
    """

    def __init__(self, map_: mmap.mmap, begin: int, end: int, *, careful: bool = False) -> None:
        self._stopped, self._careful = False, careful
        self._until = begin + AHEAD
        self._further = Signal()  # an Event's lock stays taken if a signal handler raises amid `set`
        self._thread: threading.Thread | None = None
        if end - begin >= LEAST and _select.compiled():
            self._thread = threading.Thread(
                target=self._touch, args=(map_, begin, end), name="flintmq-touch", daemon=True
            )
            self._thread.start()

    def _touch(self, map_: mmap.mmap, begin: int, end: int) -> None:
        for at in range(begin, end, STEP):
            while at >= self._until and not self._stopped:
                self._further.wait(IDLE_S)
            if self._stopped:
                return
            if not self._careful:
                walk.touch(map_, at, min(at + STEP, end), AROUND)
            elif walk.present(map_, at, min(at + STEP, end)):  # the reader will meet the same error and report it
                return

    def follow(self, position: int) -> None:
        """Go on, up to AHEAD bytes after this position of the reader."""
        if position + LEFT >= self._until:
            self._until = position + AHEAD
            self._further.set()

    def stop(self) -> None:
        """Stop; afterwards the map may be closed."""
        self._stopped = True
        self._further.set()
        if self._thread is not None:
            self._thread.join()
