"""Buffers for new records, as large as a log file each. Source: upstream TransientStorePool.

With the pool a put stores into memory of its own, and `CommitService` brings that to the file. The put path then meets
neither page faults of the file nor its write-back. The price: what is not committed dies with the process.
"""

from __future__ import annotations

import logging
import mmap
import threading
from collections import deque

from flintmq.storage.filesystem import REAL, Effects

log = logging.getLogger("flintmq.pool")

LOW = 0.4  # a warning when less than this share is free


class PoolBuffer:
    """A buffer on loan.

    Attributes:
        view: its bytes; those of an earlier loan still stand there.
    """

    def __init__(self, pool: TransientStorePool, memory: mmap.mmap) -> None:
        self.pool, self.memory = pool, memory
        self.view = memoryview(memory)

    def give_back(self) -> None:
        """The file has everything."""
        self.pool.give_back(self)


class TransientStorePool:
    """A fixed number of buffers, made when they are first borrowed and reused from then on.

    Args:
        count: transientStorePoolSize.
        size: bytes of a log file.
        effects: gives the memory.

    Thread: any.
    """

    def __init__(self, count: int, size: int, effects: Effects = REAL) -> None:
        self.count, self.size, self.effects = count, size, effects
        self._lock = threading.Lock()
        self._idle: deque[PoolBuffer] = deque()
        self._made = 0
        self._warned = False

    @property
    def available(self) -> int:
        """Buffers that can be borrowed."""
        return self.count - self._made + len(self._idle)

    def borrow(self) -> PoolBuffer | None:
        """A buffer, the one that was used last if there is one, whose pages are there; None if all are on loan."""
        with self._lock:
            if self._idle:
                buffer = self._idle.popleft()
            elif self._made < self.count:
                buffer = self._make()
            else:
                return None
            assert 0 <= self.available < self.count
            free = self.available
        if free < self.count * LOW:
            log.warning("only %d of %d buffers of the transient pool are free", free, self.count)
        return buffer

    def give_back(self, buffer: PoolBuffer) -> None:
        """Take a buffer back."""
        with self._lock:
            assert buffer.pool is self and buffer not in self._idle, "two files would share it"
            self._idle.appendleft(buffer)

    def close(self) -> None:
        """Give the memory of idle buffers back to the system."""
        with self._lock:
            while self._idle:
                buffer = self._idle.popleft()
                buffer.view.release()
                buffer.memory.close()
                self._made -= 1

    def _make(self) -> PoolBuffer:
        """A new one. Its pages are taken when they are touched, and locked from then on if the system allows it."""
        memory = self.effects.map_anonymous(self.size)
        self._made += 1
        try:
            self.effects.lock_memory(memory, on_fault=True)
        except OSError as error:
            if not self._warned:
                self._warned = True
                log.warning(
                    "the transient pool is not locked in memory (%s) and may be swapped out; raise `ulimit -l`",
                    error.strerror,
                )
        return PoolBuffer(self, memory)
