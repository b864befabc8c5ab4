"""Buffers for new records, each as large as a log file.

With the pool a put stores into anonymous memory, and `CommitService` copies that to the file. So the put path meets
neither page faults of the file nor its write-back. The price: records that are not committed are lost if the process
dies. Upstream: TransientStorePool.
"""

from __future__ import annotations

import logging
import mmap
import threading
from collections import deque

from flintmq.storage.filesystem import REAL, Effects

log = logging.getLogger("flintmq.pool")

LOW = 0.4  # warn if a smaller share of the buffers is free


class PoolBuffer:
    """A buffer on loan.

    Attributes:
        view: its bytes; those of an earlier loan are still there.
    """

    def __init__(self, pool: TransientStorePool, memory: mmap.mmap) -> None:
        self.pool, self.memory = pool, memory
        self.view = memoryview(memory)

    def give_back(self) -> None:
        """Return the buffer to its pool; the file has all its bytes."""
        self.pool.give_back(self)


class TransientStorePool:
    """A fixed number of buffers, made when first borrowed and then reused.

    Args:
        count: transientStorePoolSize.
        size: bytes of a log file.
        effects: allocates the memory.

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
        """Number of buffers that can be borrowed."""
        return self.count - self._made + len(self._idle)

    def borrow(self) -> PoolBuffer | None:
        """Borrow a buffer; None if all are on loan.

        The buffer used last is lent first, because its pages are present.
        """
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
        """Free the memory of idle buffers."""
        with self._lock:
            while self._idle:
                buffer = self._idle.popleft()
                buffer.view.release()
                buffer.memory.close()
                self._made -= 1

    def _make(self) -> PoolBuffer:
        """Make a buffer. Its pages are taken, and if possible locked, when first touched."""
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
