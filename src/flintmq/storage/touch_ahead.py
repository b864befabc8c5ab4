"""Make the pages of a mapped file present ahead of its reader, on a thread of its own.

A fifth of what a pass over a file in the page cache takes is entering its pages into the process's tables, sixteen a
page fault, and nothing is fetched from memory meanwhile. Faults of another thread are taken beside the reader. Where
the pages are not in the page cache, the thread reads ahead.
"""

from __future__ import annotations

import mmap
import threading

from flintmq.kernels import _select, walk

LEAST = 32 << 20  # bytes: less is not worth a thread
STEP = 4 << 20  # looks after so many bytes whether it should stop
AROUND = 1 << 16  # bytes that Linux enters at one page fault; where it enters fewer, the reader takes the other faults


class TouchAhead:
    """Touches the pages of map[begin:end], from the first to the last, until it is stopped.

    Args:
        careful: what cannot be read is left to the reader, who asks in the same way; else touching it ends the process.

    For small ranges, and where kernels run uncompiled and would keep the GIL, it does nothing.

    Thread: `stop` belongs to the thread that made it.
    """

    def __init__(self, map_: mmap.mmap, begin: int, end: int, *, careful: bool = False) -> None:
        self._stopped, self._careful = False, careful
        self._thread: threading.Thread | None = None
        if end - begin >= LEAST and _select.compiled():
            self._thread = threading.Thread(
                target=self._touch, args=(map_, begin, end), name="flintmq-touch", daemon=True
            )
            self._thread.start()

    def _touch(self, map_: mmap.mmap, begin: int, end: int) -> None:
        for at in range(begin, end, STEP):
            if self._stopped:
                return
            if not self._careful:
                walk.touch(map_, at, min(at + STEP, end), AROUND)
            elif walk.present(map_, at, min(at + STEP, end)):  # its reader will meet the same, and tell
                return

    def stop(self) -> None:
        """Stop; afterwards the map may be closed."""
        self._stopped = True
        if self._thread is not None:
            self._thread.join()
