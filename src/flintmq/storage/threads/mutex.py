"""Locks that an interrupted `with` statement does not leave taken.

Entering: up to Python 3.13 no signal handler runs between the end of a lock's `__enter__` and the block of the `with`.
Python 3.14 looks for signals there, because it enters by an ordinary call: a handler that raises (Ctrl-C) leaves the
lock taken, and the next thread waits for ever. So from 3.14 on `__enter__` is a function of Python's, after whose end
Python does not look, and releases what it took if a handler raises inside it.

Leaving: `__exit__` stays C's, so no handler runs before it releases. But from Python 3.13 on a handler that raises may
leave a block without it: where a condition at the end of a loop jumps back to its begin, Python looks for signals
before it jumps, and the compiler leaves that jump out of the exception table (3.12 does, too, but looks afterwards). No
lock can mend this. So the block of a `with` that takes one holds no such loop: no `while`, no `for` that ends in an
`if`, no comprehension with an `if`, no `any(... for ...)`. They stand in functions that the block calls.
tests/storage/threads/test_lock_loops.py finds those that do not.
"""

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Callable

from flintmq.kernels.threads.ring import Ring

if sys.version_info >= (3, 14):

    class ReentrantLock(_thread.RLock):
        """A lock that its owner may take again. Thread: any."""

        def __enter__(self) -> bool:
            """Take the lock; it is not taken if a signal handler raises."""
            held = self._recursion_count()
            try:
                return self.acquire()
            except BaseException:
                if self._recursion_count() > held:
                    self.release()
                raise

    class Lock(ReentrantLock):
        """A lock that its owner must not take again. Thread: any."""

        def __enter__(self) -> bool:
            """Take the lock; it is not taken if a signal handler raises."""
            assert self._recursion_count() == 0, "this thread has the lock already"
            try:
                return self.acquire()
            except BaseException:
                if self._recursion_count():
                    self.release()
                raise

    class GuardedRing(Ring):
        """A ring whose lock no interrupt leaves taken. Uncompiled it is an ordinary Ring."""

        def __enter__(self) -> None:
            """Take the ring's lock; it is not taken if a signal handler raises."""
            try:
                Ring.__enter__(self)  # raises nothing itself, so an exception comes from a handler, after it
            except BaseException:
                Ring.__exit__(self)
                raise

else:
    ReentrantLock = _thread.RLock
    Lock = threading.Lock
    GuardedRing = Ring


class Taken(Exception):
    """A lock is not free."""


class AtOnce:
    """Takes a lock for the block of a `with`, or raises `Taken` instead of waiting for it.

    `__exit__` is the lock's own, for the sake of interrupts.

    Thread: one that does not have the lock.
    """

    def __init__(self, lock: ReentrantLock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        """Take the lock; it is not taken if a signal handler raises."""
        try:
            if not self._lock.acquire(blocking=False):
                raise Taken
        except BaseException:
            if self._lock._is_owned():  # type: ignore[attr-defined, unused-ignore]  # typeshed does not know it
                self._lock.release()
            raise

    @property
    def __exit__(self) -> Callable[..., None]:
        return self._lock.__exit__


class Condition(ReentrantLock):  # type: ignore[misc, unused-ignore]  # typeshed calls RLock final; it is not
    """A lock on which threads wait for a change.

    `threading.Condition` enters and leaves its lock by functions of Python's, so on every version a handler that raises
    may leave it taken. Here both are the lock's own.

    Thread: any.
    """

    def __init__(self) -> None:
        self._waiting = threading.Condition(self)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for a change; return whether there was one. The caller has the lock."""
        return self._waiting.wait(timeout)

    def wait_for(self, is_over: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until `is_over` returns true; return what it returned last. The caller has the lock."""
        return self._waiting.wait_for(is_over, timeout)

    def notify_all(self) -> None:
        """Wake all who wait. The caller has the lock."""
        self._waiting.notify_all()
