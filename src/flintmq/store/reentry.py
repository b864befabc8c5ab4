"""Is this thread inside the engine already? A signal handler runs amid whatever the main thread does, and may call the
store again, whose locks that thread may hold: it would wait for itself for ever. So may finalizers of objects, and who
handles log lines.

The call stack tells, and costs those nothing who do not ask: frames of the engine, over them some of others.
"""

from __future__ import annotations

import sys
from types import CodeType

MOST = 24  # frames of a handler that are looked at

_ENGINE = ("flintmq.store.", "flintmq.storage.")
_SIMULATED = "flintmq.testing."  # opens stores amid the calls of another, of which it looks at what a crash would leave
_lockless: set[CodeType] = set()


def lockless(code: CodeType) -> None:
    """Functions of this code hold no lock while they call what their caller gave them."""
    _lockless.add(code)


def reentered() -> bool:
    """Whether the engine was called, by code that is not FlintMQ's, out of a call of the engine that is not over."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("flintmq."):  # the call that asks
        if frame.f_globals["__name__"].startswith(_SIMULATED):
            return False
        frame = frame.f_back  # type: ignore[assignment]
    for _ in range(MOST):
        if frame is None or frame.f_globals.get("__name__", "").startswith(_SIMULATED):
            return False
        if frame.f_globals.get("__name__", "").startswith(_ENGINE) and frame.f_code not in _lockless:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
