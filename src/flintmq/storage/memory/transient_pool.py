"""The transient pool: memory that takes new records before their files do.

With the pool a put stores into memory that is touched and used again and again, a ring (kernels/threads/ring.py), and
`CommitService` writes it to the file. So the put path meets neither page faults of the file nor its write-back. (With
buffers of a file's size a put is the first to touch every page of a buffer, and 5 GiB stay taken.) The price: records
that are not committed are lost if the process dies. Upstream: TransientStorePool, which has transientStorePoolSize
buffers of a log file's size; here they are the most that the ring may take.
"""

from __future__ import annotations

import errno
import logging
import mmap
import os
from collections.abc import Callable
from contextlib import suppress

from flintmq.kernels import _select
from flintmq.kernels.write.fast_append import AppendTarget
from flintmq.storage.files.filesystem import REAL, Effects
from flintmq.storage.threads.mutex import GuardedRing, Lock

log = logging.getLogger("flintmq.pool")

LARGEST = 32 << 20  # bytes of the ring: more does not make puts quicker, and less waits for single slow writes
SMALLEST = 16 << 10  # it is mapped as whole pages


def ring_size(count: int, file_size: int) -> int:
    """Return the size of the ring in place of so many buffers of a log file's size."""
    return 1 << (min(max(count * file_size, SMALLEST), LARGEST) - 1).bit_length()


class TransientStorePool:
    """The ring of one log, and its memory.

    `fast_fail`: fastFailIfNoBufferInStorePool: refuse a put that finds the ring full.

    `make_room`: writes the oldest piece to its file; called by a put that finds the ring full.

    Thread: any, if not said otherwise.
    """

    def __init__(
        self, count: int, file_size: int, effects: Effects = REAL, *, fast_fail: bool = False, place: str = ""
    ) -> None:
        self.count, self.effects, self.fast_fail, self.place = count, effects, fast_fail, place
        self.ring = GuardedRing(ring_size(count, file_size))
        self.view: memoryview | None = None  # its memory, mapped twice, once `open` was called; else None
        self.make_room: Callable[[], None] | None = None
        self._memory: mmap.mmap | None = None
        self._lock = Lock()
        self._native = _select.compiled() and not effects.watches
        self._refused = self._waited = False

    def open(self) -> memoryview | None:
        """Return the ring's memory; None if this system cannot map memory twice.

        The first call makes it.
        """
        with self._lock:
            if self.view is None and not self._refused:
                try:
                    self._memory = self.effects.map_ring(self.ring.size)
                except OSError as error:
                    self._refused = True
                    log.warning("%s: no transient pool: memory cannot be mapped twice (%s)", self.place, error.strerror)
                    return None
                self.view = memoryview(self._memory)
                self.ring.attach(self.view)
                self._prepare(self._memory)
            return self.view

    def part(self, index: int, count: int) -> memoryview:
        """Return a view of these bytes of the memory, which was opened.

        It is a part of no other view; MappedFile.view says why.
        """
        assert self._memory is not None
        return memoryview(self._memory)[index : index + count]

    def _prepare(self, memory: mmap.mmap) -> None:
        try:
            self.effects.populate(memory, 0, len(memory))
        except OSError as error:
            log.info("%s: the transient pool is not touched before its first use (%s)", self.place, error.strerror)
        try:
            self.effects.lock_memory(memory, on_fault=True)
        except OSError as error:
            log.warning(
                "%s: the transient pool is not locked in memory (%s) and may be swapped out; raise `ulimit -l`",
                self.place,
                error.strerror,
            )

    def available(self, end: int, file: AppendTarget | None) -> int:
        """Return how many of its buffers are free.

        The ring counts as all of them; the log ends at `end`, in `file`. A file that is not in the ring uses none.
        """
        in_ring = file is not None and file.in_ring
        used = min(max(end - self.ring.drained, 0), self.ring.size) if in_ring else 0
        return self.count - -(-used * self.count // self.ring.size)

    def reserve(self, file: AppendTarget, position: int) -> int:
        """Make room in the ring for every byte below this position of the last file.

        Thread: the one that holds the put lock.

        Returns:
            The position up to which there is room.
        """
        ring = self.ring
        while not ring.has_room(file.start + position):
            if self.fast_fail:
                raise OSError(errno.ENOBUFS, "the transient pool has no free buffer")
            if not self._waited:
                self._waited = True
                log.warning("%s: the transient pool is full: puts wait for the disk", self.place)
            assert self.make_room is not None
            self.make_room()
        return min(position + ring.size // 4, ring.room_end - file.start)

    def write(self, file: AppendTarget, fd: int, until: int, *, pieces: int = 0) -> None:
        """Write the file's bytes up to the file position `until`, or at most so many pieces.

        They go to `fd`, the file's own. The file must be the first that has bytes in the ring only.
        """
        if self._native and not pieces:
            self._check(self.ring.drain(file, fd, until))
            return
        while self._write_piece(file, fd, until):
            pieces -= 1
            if not pieces:
                return

    def _write_piece(self, file: AppendTarget, fd: int, until: int | None) -> bool:
        """Write the next piece, a whole one if `until` is None; return whether there was one.

        The steps are those of Ring.drain and Ring.follow.
        """
        ring = self.ring
        with ring.guard:
            self._check(ring.error)
            count = 0
            if file.in_ring and file.start <= ring.drained < file.start + file.size:
                count = ring.whole_piece(file) if until is None else ring.piece(file, until)
            if count:
                at = ring.drained - file.start
                # An interrupt here loses nothing: what was written and not noted is written again, the same bytes.
                try:
                    with self.part(file.place(at), count) as piece:
                        self.effects.pwrite(fd, piece, at)
                except OSError as error:
                    # With the ring's lock held: the next who takes it must find the failure, and write nothing after
                    # the gap.
                    if error.errno is not None:  # a signal handler's own, such as TimeoutError, has none
                        ring.fail(error.errno)
                    raise
                ring.wrote(file, count)
            return count > 0

    def follow(self, file: AppendTarget, fd: int, micros: int) -> None:
        """Write whole pieces while they come, for so long at most; uncompiled those that are there."""
        if self._native:
            self._check(self.ring.follow(file, fd, micros))
            return
        while self._write_piece(file, fd, None):
            pass

    def _check(self, error: int) -> None:
        if error:
            raise OSError(error, os.strerror(error))

    def close(self) -> None:
        """Free the memory. No file uses it any more."""
        with self._lock:
            # The address before the memory that it names.
            self.ring.detach()
            if self.view is not None and self._memory is not None:
                self.view.release()
                with suppress(BufferError):  # a traceback has a view of it yet: freed with that
                    self._memory.close()
                self.view = self._memory = None
