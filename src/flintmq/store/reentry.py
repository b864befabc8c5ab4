"""Is this thread inside a call of this store already? A signal handler runs amid whatever the main thread does, and may
call the store again, whose locks that thread may hold: it would wait for itself for ever. So may finalizers of objects,
and who handles log lines.

The call stack tells, and costs those nothing who do not ask: frames of the engine, over them some of others.
"""

from __future__ import annotations

import os
import sys
import threading
from types import CodeType

from flintmq.errors import UsageError

MOST = 24  # frames of a handler that are looked at

_ENGINE = ("flintmq.store.", "flintmq.storage.")
_SIMULATED = "flintmq.testing."  # opens stores amid the calls of another, of which it looks at what a crash would leave
_lockless: set[CodeType] = set()
_main_thread = threading.main_thread().ident  # where Python runs signal handlers


def _is_main() -> None:
    """A fork's child has one thread, which is its main one."""
    global _main_thread
    _main_thread = threading.get_ident()


os.register_at_fork(after_in_child=_is_main)


def lockless(code: CodeType) -> None:
    """Functions of this code hold no lock while they call what their caller gave them."""
    _lockless.add(code)


def reentered(root: str) -> bool:
    """Whether the store at `root` was called, by code that is not FlintMQ's, out of a call of it that is not over.

    A frame is its store's whose `root` its `self` has; one without belongs to the next around it that has one, and to
    every store if there is none. No two stores share a lock that is not reentrant, so a call of another may go on.
    """
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("flintmq."):  # the call that asks
        if frame.f_globals["__name__"].startswith(_SIMULATED):
            return False
        frame = frame.f_back  # type: ignore[assignment]
    left, anyones = MOST, False
    while frame is not None and left:
        name = frame.f_globals.get("__name__", "")
        if name.startswith(_SIMULATED):
            return False
        if name.startswith(_ENGINE) and (anyones or frame.f_code not in _lockless):
            owner = getattr(frame.f_locals.get("self"), "root", None)
            if owner == root:
                return True
            left, anyones = MOST, owner is None
        left -= 1
        frame = frame.f_back  # type: ignore[assignment]
    return anyones


def in_handler(root: str) -> bool:
    """Whether a signal handler calls the store at `root` amid a call of it."""
    return threading.get_ident() == _main_thread and reentered(root)


def refuse_handler(root: str) -> None:
    """Check that no signal handler calls the store at `root` amid a call of it.

    Raises:
        UsageError: one does.
    """
    if in_handler(root):
        raise UsageError(
            f"{root}: called by a signal handler amid a call of this store; only `close` may be, so let the handler "
            "note what is to be done"
        )
