"""Gives memory for pieces of the log that batches may hold, again once no batch does.

New memory costs page faults, so the next pieces get that of batches which their consumer has dropped.
"""

from __future__ import annotations

import weakref

import pyarrow as pa

from flintmq.storage.mutex import Lock

MOST = 64 << 20  # bytes of memory that is watched; what is beyond goes back to Arrow by itself


class PieceMemory:
    """Memory for the pieces of one scan; call it with a number of bytes.

    Each call wraps the memory in an object of its own, which every view of these bytes keeps alive, so the memory is
    free when that object is gone.

    Thread: any.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._watched: list[tuple[pa.Buffer, weakref.ref[pa.Buffer]]] = []  # the oldest first
        self._bytes = 0

    def __call__(self, size: int) -> memoryview:
        """Return writable memory of this many bytes, with any content."""
        with self._lock:
            memory = self._free(size)
            if memory is None:
                memory = pa.allocate_buffer(size)
                self._bytes += size
            lent = pa.py_buffer(memoryview(memory)[:size])
            self._watched.append((memory, weakref.ref(lent)))
            self._let_go()
        return memoryview(lent).cast("B")

    def _let_go(self) -> None:
        """Watch the oldest memory no longer where it is more than MOST. The caller has the lock."""
        while self._bytes > MOST:
            self._bytes -= self._watched.pop(0)[0].size

    def _free(self, size: int) -> pa.Buffer | None:
        """Take memory of this size, or up to twice, that nothing refers to from the list."""
        for at, (memory, lent) in enumerate(self._watched):
            if size <= memory.size <= 2 * size and lent() is None:
                del self._watched[at]
                return memory
        return None
