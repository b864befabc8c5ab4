# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Hands work to a thread and waits for its answer, releasing the GIL before any wake-up.

A thread woken while the waker holds the GIL sleeps again until the GIL is free: two wake-ups where one is needed. For a
put that waits for its fsync that was a third of the time besides the fsync (experiments/2026-11-20-group-commit.md).
"""

import cython

if not cython.compiled:
    import threading

OPENED = 1
LATE = 0
INTERRUPTED = -1


@cython.cclass
class _Held:
    """A lock that is held from the beginning until it is released once."""

    def __cinit__(self):
        if cython.compiled:
            self._lock = PyThread_allocate_lock()
            if self._lock == cython.NULL:
                raise MemoryError("no lock")
            PyThread_acquire_lock(self._lock, 0)

    def __dealloc__(self):
        if cython.compiled:
            if self._lock != cython.NULL:
                PyThread_free_lock(self._lock)

    def _hold(self) -> None:
        """Acquire the lock at first, as __cinit__ does when compiled."""
        if not cython.compiled:
            self._lock = threading.Lock()
            self._lock.acquire()


@cython.final
@cython.cclass
class Latch(_Held):
    """A latch that is closed at first and opened once.

    Thread: any.
    """

    def __init__(self) -> None:
        self.is_open = False
        self._hold()

    def open(self) -> None:
        """Release the thread that waits, or will wait."""
        if cython.compiled:
            if not exchange_flag(cython.address(self.is_open), True):
                PyThread_release_lock(self._lock)
        elif not self.is_open:
            self.is_open = True
            self._lock.release()


@cython.final
@cython.cclass
class Signal(_Held):
    """Wakes a thread that works in steps; a signal set during a step is not lost.

    Many threads set it, one waits. Upstream: ServiceThread. Thread: `set` and `set_and_wait` any; `wait` one.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._hold()

    def set(self) -> None:
        """Make the next `wait`, or the current one, return at once."""
        if cython.compiled:
            if not exchange_flag(cython.address(self._is_set), True):
                PyThread_release_lock(self._lock)
        elif not self._is_set:
            self._is_set = True
            self._lock.release()

    def set_and_wait(self, latch: Latch, seconds: float) -> int:
        """Set the signal, then wait until the latch is open.

        Returns:
            OPENED; LATE after `seconds`; INTERRUPTED if a signal of the system came, which Python handles before its
            next step: call again with the remaining time.
        """
        if not cython.compiled:
            self.set()
            return OPENED if latch._lock.acquire(timeout=max(seconds, 0)) else LATE
        ring: cython.bint = not exchange_flag(cython.address(self._is_set), True)
        micros: cython.longlong = cython.cast(cython.longlong, max(seconds, 0) * 1e6)
        with cython.nogil:
            if ring:
                PyThread_release_lock(self._lock)
            status: cython.int = PyThread_acquire_lock_timed(latch._lock, micros, 1)
        if status == 2:
            return INTERRUPTED
        return OPENED if status == 1 else LATE

    def wait(self, seconds: float, latches: list | None = None) -> None:
        """Open these latches, then wait until the signal is set, or for `seconds`, and unset it.

        Raises:
            TypeError: an element of the list is no latch; none was opened.
        """
        if not cython.compiled:
            for latch in latches or ():
                latch.open()
            if self._lock.acquire(timeout=max(seconds, 0)):
                self._is_set = False
            return
        count: cython.Py_ssize_t = 0 if latches is None else len(latches)
        i: cython.Py_ssize_t
        n: cython.Py_ssize_t = 0
        micros: cython.longlong = cython.cast(cython.longlong, max(seconds, 0) * 1e6)
        one: Latch
        for i in range(count):
            one = latches[i]
            if one is None:
                raise TypeError("None is no latch")
        locks: cython.pointer(PyThread_type_lock) = cython.cast(
            cython.pointer(PyThread_type_lock), malloc((count + 1) * cython.sizeof(PyThread_type_lock))
        )
        if locks == cython.NULL:
            raise MemoryError("no room for the latches")
        for i in range(count):
            one = latches[i]
            if not exchange_flag(cython.address(one.is_open), True):
                locks[n] = one._lock
                n += 1
        with cython.nogil:
            for i in range(n):
                PyThread_release_lock(locks[i])
            status: cython.int = PyThread_acquire_lock_timed(self._lock, micros, 0)
        free(locks)
        if status == 1:
            # A thread that found the signal still set did not release the lock. It had handed over its work before, and
            # the caller looks for work after this line, so no work is missed.
            exchange_flag(cython.address(self._is_set), False)
