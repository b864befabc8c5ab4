"""Detects that this thread is already inside a call of the same store.

A signal handler runs in the middle of any code of the main thread, and may call the store again. If that thread holds a
lock of the store, it would wait for itself for ever. The same holds for finalizers of objects and for log handlers. The
call stack shows it, and costs nothing to calls that do not check: frames of the engine, with frames of other code above
them.
"""

from __future__ import annotations

import os
import sys
import threading
from types import CodeType

from flintmq.errors import UsageError
from flintmq.kernels.call_stack import engine_around

MOST = 24  # frames of a handler that are examined

_ENGINE = ("flintmq.store.", "flintmq.storage.")
_lockless: set[CodeType] = set()
_simulating: tuple[str, ...] = ()
_main_thread = threading.main_thread().ident  # where Python runs signal handlers


def _is_main() -> None:
    """Note the main thread of a forked child, its only thread."""
    global _main_thread
    _main_thread = threading.get_ident()


os.register_at_fork(after_in_child=_is_main)


def main_thread() -> int:
    """Return the identity of the thread in which Python runs signal handlers."""
    assert _main_thread is not None  # threading has started
    return _main_thread


def lockless(code: CodeType) -> None:
    """Note that functions of this code hold no lock while they call their caller's functions."""
    _lockless.add(code)


def simulates(package: str) -> None:
    """Note a package that opens stores inside calls of another one, to examine a crash."""
    global _simulating
    _simulating += (f"{package}.",)


def reentered(root: str) -> bool:
    """Return whether foreign code called the store at `root` inside a call of it.

    A frame belongs to the store whose `root` its `self` has. A frame without one belongs to the next outer frame that
    has one, and to every store if there is none. No two stores share a lock that is not reentrant, so a call of another
    may go on.
    """
    if not engine_around(MOST):  # so it is nearly always, and this takes a quarter of the time
        return False
    frame = sys._getframe(1)
    # First the frames of the call that asks.
    while frame is not None and frame.f_globals.get("__name__", "").startswith("flintmq."):
        frame = frame.f_back  # type: ignore[assignment]
    left, anyones = MOST, False
    while frame is not None and left:
        name = frame.f_globals.get("__name__", "")
        if name.startswith("flintmq."):  # one comparison for the many frames of other code
            if name.startswith(_ENGINE) and (anyones or frame.f_code not in _lockless):
                owner = getattr(frame.f_locals.get("self"), "root", None)
                if owner == root:
                    return True
                left, anyones = MOST, owner is None
        elif name.startswith(_simulating):
            return False
        left -= 1
        frame = frame.f_back  # type: ignore[assignment]
    return anyones


def in_handler(root: str) -> bool:
    """Return whether a signal handler calls the store at `root` during a call of it."""
    return threading.get_ident() == _main_thread and reentered(root)


def refuse_handler(root: str) -> None:
    """Check that no signal handler calls the store at `root` during a call of it."""
    if in_handler(root):
        raise UsageError(
            f"{root}: called by a signal handler during another call of this store, where only `close` is allowed; let "
            "the handler note what is to be done"
        )
