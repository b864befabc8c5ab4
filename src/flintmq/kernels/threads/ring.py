# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""The newest bytes of a log, in memory until they are written to its files.

Byte `offset` of the log is at index `offset % size`. The memory is mapped twice, one after the other, so that a record
that goes over the end is contiguous. Who appends stores above `wrote` of the last file and then moves it; who writes
takes the bytes between `drained` and `wrote`, one piece at a time under the ring's lock. A byte may be stored only
where `has_room` says so: then the byte that was there is in its file.

Nobody waits for another thread's work. The lock is held for one write; whoever finds no room, or must have something in
the files, writes the next piece itself. So no order of events can hang; tests/storage/memory/test_ring_model.py
explores them.
"""

# Writer algorithm: who puts (fast_append.py, W1 to W7; here is what the ring adds)
#
# W1 Room. `drained` (which acquires) says what the files have; bytes may be stored below it + `size`. Where this is too
#    little, the put writes the next piece itself (R1 to R8), and looks again.
# W2 Move the file's `reserved` (storage/memory/mapped_file.py, `reserve`) as far as there is room, with the put lock.
#    The fast way stores below it and asks nobody.
# W3 Store the record at `offset % size`; it goes on in the second mapping, if it is longer than what is left there.
# W4 If the file is full: `filler`, then `_wrote`. Who sees a full file knows which of its bytes nobody stored.
# W5 Publish `_wrote`, which releases.
#
# Reader algorithm: who writes to the files; any thread, without the GIL
#
# R1 Take `_lock`: one piece at a time, and no file leaves the ring meanwhile (MappedFile._leave).
# R2 Is `_drained` in this file, and the file in the ring? If not, there is nothing to do here.
# R3 Read `_wrote`, which acquires; then take `filler` off if the file is full, and go no further than was asked.
# R4 Write the piece. A refusal is noted in `error` before `_lock` is free: nothing is written any more.
# R5 Publish `_drained`, which releases: the loads of R4 are over, so W1 may give the memory away.
# R6 Publish `_committed`: the highest end of a record that is known here and not above `_drained`. A piece ends
#    anywhere, and `_mark` keeps the end of a record until `_drained` has passed it.
# R7 A full file without its filler is drained to its end: the rest is zeros, which a new file has.
# R8 Release `_lock`.
#
# Readers of the store see no byte above `committed`, and read it from the file: nobody reads the ring but R4.
#
# Publish and observe are a release and an acquire on all processors, and need no GIL: R3 sees the bytes of W3, and W3
# comes after the loads of R4. All other fields change under `_lock`, or with the put lock while nobody drains.
#
# What a crash may show
#
# C1 A kill: what is not drained is lost, for it lies in memory of this process. These are whole records at the end, and
#    perhaps the begin of one in the file (R6: `committed` never covered it), which the next start cuts as a torn tail.
#    With default intervals that is 200 ms; a put that waits for the disk has everything committed first.
# C2 A kill amid R4: a part of the piece, from its begin on; as C1. If only the call is interrupted, the same bytes are
#    written again to the same place.
# C3 A power cut: what is drained is in the page cache. Only a sync makes it durable; any sector above the last one may
#    be missing (fast_append.py, C4).
# C4 A write is refused: part of the piece may be in the file. No more is written and no more put, for a later piece
#    after a gap would be damage. The store is started anew, from what the files have.

import cython

if not cython.compiled:
    import threading

    from flintmq.kernels.write.fast_append import AppendTarget

    PyThread_acquire_lock = PyThread_allocate_lock = PyThread_free_lock = PyThread_release_lock = None
    now_us = observe = publish = rest_us = write_all = None

PIECE = 1 << 20  # bytes of a file that are best written at once

_REST_US = cython.declare(cython.longlong, 200)
_LOOKS = cython.declare(cython.longlong, 5)


@cython.cclass
class Ring:
    """The positions of the ring, and its writer.

    Args:
        size: bytes, a power of two.
        piece_size: a write ends at a multiple of this, if there are so many bytes.

    Attributes:
        size: as given.
        drained: log offset below which the files have every byte.
        committed: the same, at the end of a record.
        error: errno of a write that failed; then nothing is written any more. 0: none.

    Thread: any, as the methods say.
    """

    def __cinit__(self, size, piece_size=0):
        if cython.compiled:
            self._lock = PyThread_allocate_lock()
            if self._lock == cython.NULL:
                raise MemoryError("no lock")

    def __dealloc__(self):
        if cython.compiled:
            if self._lock != cython.NULL:
                PyThread_free_lock(self._lock)

    def __init__(self, size: cython.longlong, piece_size: cython.longlong = PIECE) -> None:
        if size <= 0 or size & (size - 1):
            raise ValueError(f"a ring of {size} bytes: it is a power of two")
        if piece_size <= 0:
            raise ValueError("a piece has bytes")
        self.size, self._piece_size, self.error = size, piece_size, 0
        self._drained = self._committed = self._mark = 0
        if not cython.compiled:
            self._lock = threading.Lock()

    @property
    def drained(self) -> int:
        """Log offset below which the files have every byte."""
        if cython.compiled:
            return observe(cython.address(self._drained))
        return self._drained

    @property
    def committed(self) -> int:
        """Log offset of the end of a record, below which the files have every byte."""
        if cython.compiled:
            return observe(cython.address(self._committed))
        return self._committed

    def attach(self, memory: cython.uchar[::1]) -> None:
        """Take the address of the memory, mapped twice, which must not move until `detach`."""
        if len(memory) < 2 * self.size:
            raise ValueError("the memory is not mapped twice")
        if cython.compiled:
            self._p = cython.address(memory[0])

    def detach(self) -> None:
        """Forget the address: the memory is unmapped next."""
        if cython.compiled:
            self._p = cython.NULL

    @property
    def guard(self):
        """The lock of those who write, for a `with`.

        It is taken in C, so no signal handler of Python runs between that and the block, and none leaves it taken.
        """
        return self if cython.compiled else self._lock

    def __enter__(self):
        """Take the lock. Compiled only."""
        if not cython.compiled:
            raise NotImplementedError
        with cython.nogil:
            PyThread_acquire_lock(self._lock, 1)

    def __exit__(self, *_):
        """Release the lock."""
        if cython.compiled:
            PyThread_release_lock(self._lock)

    def begin(self, offset: cython.longlong) -> None:
        """Begin at a log offset: no byte below it is in the ring only.

        Thread: the one that holds the put lock; nothing is in the ring.
        """
        with self.guard:
            if offset > self._drained:
                self._mark = 0
                if cython.compiled:
                    publish(cython.address(self._drained), offset)
                    publish(cython.address(self._committed), offset)
                else:
                    self._drained = self._committed = offset

    def has_room(self, end: cython.longlong) -> bool:
        """Return whether every byte below the log offset `end` may be stored.

        Thread: the one that holds the put lock.
        """
        return end <= self.room_end

    @property
    def room_end(self) -> int:
        """Log offset below which bytes may be stored."""
        # W1
        return self.drained + self.size

    def piece(self, file: AppendTarget, until: cython.longlong) -> int:
        """Return how many bytes to write next; 0: none.

        They begin at `drained` and end at the file position `until` at most.

        Thread: the one that holds the lock; it writes them and then calls `wrote` or `fail`.
        """
        return self._piece(file, until)

    def whole_piece(self, file: AppendTarget) -> int:
        """Return how many bytes to write next if they are a whole piece, else 0.

        A whole piece ends at a multiple of the piece's size, or ends the file.

        Thread: the one that holds the lock; it writes them and then calls `wrote` or `fail`.
        """
        return self._whole_piece(file)

    def wrote(self, file: AppendTarget, count: cython.longlong) -> None:
        """Note that the next `count` bytes were written.

        Thread: the one that holds the lock.
        """
        self._wrote(file, count)

    def fail(self, error: cython.int) -> None:
        """Note that a write failed; nothing is written any more.

        Part of the bytes may be in the file.

        Thread: the one that holds the lock.
        """
        self.error = error

    def drain(self, file: AppendTarget, fd: cython.int, until: cython.longlong) -> int:
        """Write the file's bytes up to the file position `until`.

        Compiled only. Without the GIL.

        Args:
            file: whose bytes come next.
            fd: its descriptor.
            until: file position.

        Returns:
            0, or the errno of a write that failed.

        Thread: any.
        """
        error: cython.int = 0
        if not cython.compiled:
            raise NotImplementedError
        with cython.nogil:
            while True:
                # R1, R2. For each piece anew: a put that needs room must not wait for more than one write.
                PyThread_acquire_lock(self._lock, 1)
                count: cython.longlong = self._piece(file, until) if self._is_here(file) else 0
                error = self._write(file, fd, count)
                # R8
                PyThread_release_lock(self._lock)
                if count == 0 or error != 0:
                    break
        return error

    def follow(self, file: AppendTarget, fd: cython.int, micros: cython.longlong) -> int:
        """Write whole pieces of the file while they come, for `micros` at most.

        It ends early when no whole piece has come for a millisecond. Compiled only. Without the GIL. Arguments as for
        `drain`.

        Returns:
            As from `drain`.

        Thread: any.
        """
        error: cython.int = 0
        looks: cython.longlong = 0
        if not cython.compiled:
            raise NotImplementedError
        with cython.nogil:
            end: cython.longlong = now_us() + micros
            while looks < _LOOKS and now_us() < end:
                PyThread_acquire_lock(self._lock, 1)
                count: cython.longlong = 0
                if self._is_here(file):
                    count = self._whole_piece(file)
                else:
                    looks = _LOOKS
                error = self._write(file, fd, count)
                PyThread_release_lock(self._lock)
                if error != 0:
                    break
                looks = looks + 1 if count == 0 else 0
                if count == 0 and looks < _LOOKS:
                    rest_us(_REST_US)
        return error

    def _is_here(self, file):
        """Return whether this file's newest bytes are in the ring and the next to be written."""
        if cython.compiled:
            return file._mask > 0 and file.start <= self._drained < file.start + file.size
        return file.in_ring and file.start <= self._drained < file.start + file.size

    def _piece(self, file, until):
        at: cython.longlong = self._drained - file.start
        # R3
        if cython.compiled:
            stored: cython.longlong = observe(cython.address(file._wrote))
        else:
            stored = file._wrote
        if self.error != 0 or at < 0:
            return 0
        # For R6: both are ends of records, as the writer had published `stored`, and as `until` was the log's end once.
        self._note(file.start + (until if until < stored else stored))
        if stored == file.size:
            stored -= file.filler
        if until < stored:
            stored = until
        if at >= stored:
            return 0
        count: cython.longlong = self._piece_size - at % self._piece_size
        return count if count < stored - at else stored - at

    def _whole_piece(self, file):
        count: cython.longlong = self._piece(file, file.size)
        end: cython.longlong = self._drained - file.start + count
        return count if end % self._piece_size == 0 or end >= file.size - file.filler else 0

    def _wrote(self, file, count):
        end: cython.longlong = self._drained + count
        if cython.compiled:
            stored: cython.longlong = observe(cython.address(file._wrote))
        else:
            stored = file._wrote
        # R7
        if stored == file.size and end >= file.start + file.size - file.filler:
            end = file.start + file.size  # the rest is zeros, which a new file has
        # R5
        if cython.compiled:
            publish(cython.address(self._drained), end)
        else:
            self._drained = end
        self._note(file.start + stored)

    def _note(self, end):
        """Move `committed`, if it may be moved; `end` is the end of a record that is stored."""
        # R6
        committed: cython.longlong = self._committed
        if committed < self._mark <= self._drained:
            committed = self._mark
        if committed < end <= self._drained:
            committed = end
        if committed != self._committed:
            if cython.compiled:
                publish(cython.address(self._committed), committed)
            else:
                self._committed = committed
        if self._mark <= committed:
            self._mark = end

    def _write(self, file, fd, count):
        """Write the next piece; return 0 or the errno."""
        # R4: after a refusal never again, for what comes later would leave a gap.
        if self.error == 0 and count > 0:
            at: cython.longlong = self._drained - file.start
            self.error = write_all(fd, self._p + (self._drained & (self.size - 1)), count, at)
            if self.error == 0:
                self._wrote(file, count)
        return self.error
