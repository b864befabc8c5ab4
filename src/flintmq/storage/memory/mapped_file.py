"""One file of a log that is being written: mapped, allocated in windows, with positions.

`wrote` is the end of the last byte put, `committed` the end of the bytes that the file has, `flushed` the end of the
bytes that are on disk. The first two differ only while the file is in the ring of the transient pool: records are
stored there, and `commit` writes them to the file. No byte outside an allocated window is ever stored to, so a full
disk is an error of `reserve` and does not kill the process. Upstream: DefaultMappedFile.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from flintmq.kernels.write.fast_append import AppendTarget
from flintmq.storage.files.filesystem import REAL, Effects
from flintmq.storage.memory.transient_pool import TransientStorePool
from flintmq.storage.threads.mutex import Lock

WINDOW = 64 << 20  # bytes of log that are allocated at once
ASK = 1 << 20  # a writer calls `reserve` again after this many bytes, which reports its position


class MappedFile(AppendTarget):
    """A file of full size, open and mapped for writing.

    Attributes:
        path, start, size: its path, the log offset of its first byte, its size in bytes.
        wrote, flushed: positions in the file; only the commit log moves wrote, only `flush` moves flushed.
        reserved: position up to which the writer may store; before it stores further it calls `reserve`.
        asked: called with the file and a position at each `reserve`; None at first.

    Thread: `hold`, `release` and `allocate` any; the others as they say.
    """

    def __init__(self, path: str, start: int, size: int, fd: int, effects: Effects = REAL) -> None:
        """Use `create` or `open`."""
        self.path, self.start, self.size, self.effects, self.fd = path, start, size, effects, fd
        assert start >= 0 < size
        self.map = effects.map_write(fd, size)
        self.wrote = self.flushed = self.filler = 0
        self.reserved = self.allocated = 0
        self.asked: Callable[[MappedFile, int], None] | None = None
        self._pool: TransientStorePool | None = None
        self.attach(self.view)
        self._holders = 1
        self._lock = Lock()
        self._grow = Lock()

    @staticmethod
    def create(
        path: str,
        start: int,
        size: int,
        effects: Effects = REAL,
        *,
        window: int | None = None,
        there: bool = False,
    ) -> MappedFile:
        """Create a file of zeros, durable by size and name, with its first window allocated.

        `window`: bytes to allocate now; 0 for a file made in advance, which is allocated when it is used.

        Durability: the file exists after power loss.
        """
        first = min(WINDOW if window is None else window, size)
        fd = effects.open_write(path) if there else effects.create(path, size)
        try:
            if first:
                effects.allocate(fd, 0, first)
            # Size and name are on disk before a record is in the file: a later sync is of its bytes alone.
            effects.sync(fd)
            effects.sync_dir(os.path.dirname(path))
            file = MappedFile(path, start, size, fd, effects)
        except OSError:
            effects.close(fd)
            effects.unlink(path)
            raise
        # Not `reserved`: the writer asks from the first byte on, else nobody could follow it through the first window.
        file.allocated = first
        return file

    @staticmethod
    def open(path: str, start: int, size: int, wrote: int, effects: Effects = REAL) -> MappedFile:
        """Open an existing file whose first `wrote` bytes are known to be on disk."""
        assert 0 <= wrote <= size
        fd = effects.open_write(path)
        try:
            file = MappedFile(path, start, size, fd, effects)
        except OSError:
            effects.close(fd)
            raise
        file.wrote = file.flushed = wrote
        # What follows may be holes: the writer asks for blocks before it stores there.
        file.reserved = file.allocated = wrote
        return file

    @property
    def end(self) -> int:
        """Log offset after the last byte put."""
        return self.start + self.wrote

    @property
    def view(self) -> memoryview:
        """Return a new view of its bytes as readers see them.

        Each use takes one of its own: free-threaded Python 3.14 miscounts views of one view that several threads make,
        and then releases it while it is in use, or never.
        """
        return memoryview(self.map)

    @property
    def committed(self) -> int:
        """Position after the last byte that the file has.

        A file that is not in the ring has everything that was put.
        """
        wrote, pool = self.wrote, self.pool  # in this order: a file leaves the ring with everything it has
        return wrote if pool is None else min(max(pool.ring.committed - self.start, 0), wrote)

    @property
    def end_of_file(self) -> int:
        """Log offset after the file's last byte."""
        return self.start + self.size

    def on_reserve(self, listener: Callable[[MappedFile, int], None]) -> None:
        self.asked = listener

    def allocate_all(self) -> None:
        """Allocate the whole file, so that every byte may be stored to."""
        while self.allocated < self.size:
            self.allocate(self.allocated + 1)
        self.reserved = self.allocated

    def reserve(self, position: int) -> None:
        """Allocate, and wait for the ring, until every byte below `position` may be stored to.

        Thread: the one that holds the put lock. Raises OSError: no space; in the ring: a write failed, or it is full
        and puts must not wait.
        """
        assert position <= self.size  # else this would never end
        while self.allocated < position:
            self.allocate(self.allocated + 1)
        pool, room = self.pool, position + ASK
        if pool is not None and position - self.wrote > pool.ring.size:
            self.leave_ring()
        elif pool is not None:
            room = pool.reserve(self, position)
        # Last: below it the fast way stores without asking anybody.
        self.reserved = min(self.allocated, room)
        if self.asked is not None:
            self.asked(self, position)

    def allocate(self, position: int) -> None:
        """Allocate the next window if `position` is inside it and it is not allocated yet."""
        # Also the thread that goes ahead of the writer allocates: two at once would each count the same window.
        with self._grow:
            if self.allocated < min(position, self.size):
                step = min(WINDOW, self.size - self.allocated)
                self.effects.allocate(self.fd, self.allocated, step)
                self.allocated += step

    # -- the transient pool -----------------------------------------------------------------------------------------

    @property
    def pool(self) -> TransientStorePool | None:
        """The transient pool whose ring takes the new records; None: they are stored to `view`."""
        return self._pool if self.in_ring else None

    def enter_ring(self, pool: TransientStorePool) -> None:
        """Store records into the pool's ring from now on.

        The file must be empty, and without a writer.
        """
        assert self.pool is None and self.wrote == 0, "the ring would hide the bytes of the file"
        view = pool.open()
        if view is not None:
            self._pool = pool
            self.reserved = 0  # what is allocated in the file has no room in the ring: each byte is asked for
            self.attach(view, pool.ring.size)  # last, in one step: from here on `pool` names it

    def room(self, at: int) -> memoryview:
        """Return the memory of the file's bytes from position `at` on, as far as it is contiguous.

        Thread: the one that holds the put lock. It releases the view before the file is closed.
        """
        pool = self.pool
        if pool is None:
            return self.view[at:]
        return pool.part(self.place(at), pool.ring.size)

    def commit(self, target: int) -> None:
        """Write bytes put below the file position `target` from the ring to the file.

        The files before it have everything. A file that is full then leaves the ring.

        Thread: any. Durability: the kernel has it on return.
        """
        pool = self.pool
        if pool is None:
            return
        assert target <= self.wrote, "the rest of the ring is an earlier record's"
        if target > self.committed:
            pool.write(self, self.fd, target)
            assert pool.ring.committed >= self.start + target
        self._leave_if_full()

    def commit_piece(self) -> None:
        """Write one piece, for a put that needs room; see `commit`."""
        pool = self.pool
        if pool is not None:
            pool.write(self, self.fd, self.size, pieces=1)
            self._leave_if_full()

    def follow(self, micros: int) -> None:
        """Write whole pieces of the ring while they come, for so long at most; see `commit`."""
        pool = self.pool
        if pool is not None:
            pool.follow(self, self.fd, micros)

    def _leave_if_full(self) -> None:
        pool = self.pool
        if pool is not None and pool.ring.drained >= self.start + self.size:
            self._leave(pool)

    def _leave(self, pool: TransientStorePool) -> None:
        """Store records to the map from now on. The file has everything."""
        with pool.ring.guard:  # nobody writes from the ring meanwhile
            self.attach(self.view)

    def leave_ring(self) -> None:
        """Commit everything and leave the ring, which is too small for the next append.

        Thread: the one that holds the put lock.
        """
        pool = self.pool
        if pool is not None:
            while pool.ring.drained < self.end:
                assert pool.make_room is not None
                pool.make_room()
            # Only now: the map lacks bytes that are in the ring alone.
            self._leave(pool)

    def end_here(self, position: int) -> None:
        """Note that the file is full next, and that its bytes after `position` are zeros."""
        self.filler = self.size - position

    # -- making durable, letting go ---------------------------------------------------------------------------------

    def flush(self, target: int, sync: Callable[[int], None] | None = None) -> None:
        """Sync everything below the file position `target`; later bytes may become durable too.

        `sync`: syncs a descriptor and notes a failure; None: nobody notes it.

        Thread: one at a time. Durability: on return.

        Raises:
            OSError: the disk refused. The caller must not try again: after a failed fsync the kernel may have dropped
                the pages, and a second fsync would succeed without them.
        """
        if target > self.flushed:
            assert target <= self.committed, "the file does not have yet what would be called durable"
            # In this order. Bytes stored meanwhile may be durable too, and are not counted.
            (sync or self.effects.sync)(self.fd)
            self.flushed = target

    @property
    def is_held(self) -> bool:
        """True while its owner or a reader keeps it mapped."""
        return self._holders > 0

    def hold(self) -> bool:
        """Keep the file mapped until `release`; return False if it is being closed."""
        with self._lock:
            if self._holders <= 0:
                return False
            self._holders += 1
            return True

    def release(self) -> None:
        """Drop a hold; the last one unmaps the file."""
        with self._lock:
            assert self._holders > 0, "released more often than held"
            self._holders -= 1
            last = self._holders == 0
        if last:
            # The address goes first: a fast get that found it reads mapped bytes (kernels/write/fast_append.py, R3).
            # All without the lock: nobody can hold the file any more, and unmapping a gigabyte takes long.
            self.detach()
            self.map.close()
            self.effects.close(self.fd)

    def check_invariants(self) -> None:
        """Assert the order of positions that holds between two calls.

        It is flushed <= committed <= wrote <= reserved <= allocated <= size. Only in a full file `wrote` may exceed
        `reserved`, because room is not reserved up to the end.

        Thread: the one that holds the put lock, or any while no thread writes. Other threads may flush, commit and
        allocate meanwhile, which only increases a position; so of two positions the lower one is read first.
        """
        flushed = self.flushed
        committed = self.committed
        wrote, reserved = self.wrote, self.reserved
        state = f"{self.path}: flushed {flushed}, committed {committed}, wrote {wrote}, reserved {reserved}"
        assert 0 <= flushed <= committed <= wrote <= self.size, state
        assert wrote <= reserved or wrote == self.size, state
        assert reserved <= self.allocated <= self.size, f"{state}, allocated {self.allocated}, size {self.size}"
        assert self._holders > 0, f"{self.path}: in use and unmapped"

    def close(self) -> None:
        """Drop the owner's hold. Readers that hold the file keep it mapped."""
        self.release()
