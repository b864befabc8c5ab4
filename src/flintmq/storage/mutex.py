"""Locks that an interrupted `with` statement does not leave taken.

Up to Python 3.13 no signal handler runs between the end of a lock's `__enter__` and the block of the `with`. Python
3.14 looks for signals there, because it enters by an ordinary call: a handler that raises (Ctrl-C) leaves the lock
taken, and the next thread waits for ever. So from 3.14 on `__enter__` is a function of Python's, after whose end Python
does not look, and releases what it took if a handler raises inside it. `__exit__` stays C's: no handler runs before it
releases.
"""

from __future__ import annotations

import sys
import threading

from flintmq.kernels.ring import Ring

if sys.version_info >= (3, 14):
    import _thread

    class ReentrantLock(_thread.RLock):
        """A lock that its owner may take again.

        Thread: any.
        """

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
        """A lock that its owner must not take again.

        Thread: any.
        """

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
        """A ring whose lock no interrupt leaves taken.

        Uncompiled it is an ordinary Ring.
        """

        def __enter__(self) -> None:
            """Take the ring's lock; it is not taken if a signal handler raises."""
            try:
                Ring.__enter__(self)  # raises nothing itself, so an exception comes from a handler, after it
            except BaseException:
                Ring.__exit__(self)
                raise

else:
    ReentrantLock = threading.RLock
    Lock = threading.Lock
    GuardedRing = Ring
