"""What ends a command early: Ctrl-C, SIGTERM (systemd, `docker stop`, `timeout`) and SIGHUP (a terminal that closes).

All three are one to a command: KeyboardInterrupt in its main thread, so that everything is cleaned up by the same way.
Libraries in between may make another error of it, so it is remembered. Python drops it where it comes amid a finalizer,
as of a stream that DuckDB lets go, and would go on: that is not told, and whoever writes an answer asks `check` first.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped:
    """Whether a signal came.

    Attributes:
        number: the first one's; None while there is none.
    """

    def __init__(self) -> None:
        self.number: int | None = None

    @property
    def exit_code(self) -> int:
        """As shells count it: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
        return 128 + (self.number or signal.SIGINT)

    def take(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal.

        Raises:
            KeyboardInterrupt: always.
        """
        self.number = self.number or number
        raise KeyboardInterrupt


_now: list[Stopped] = []  # of the command that runs


def check() -> None:
    """Look whether a signal came.

    Raises:
        KeyboardInterrupt: one did, and was dropped on its way.
    """
    if _now and _now[-1].number is not None:
        raise KeyboardInterrupt


@contextlib.contextmanager
def stopping() -> Iterator[Stopped]:
    """Within the block these signals raise KeyboardInterrupt; what is ignored (nohup) or has a handler stays so."""
    stopped, hook = Stopped(), sys.unraisablehook

    def dropped(what: sys.UnraisableHookArgs) -> None:
        if stopped.number is None or what.exc_type is not KeyboardInterrupt:
            hook(what)

    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                before[number] = signal.signal(number, stopped.take)
    _now.append(stopped)
    sys.unraisablehook = dropped
    try:
        yield stopped
    finally:
        sys.unraisablehook = hook
        _now.pop()
        for number, handler in before.items():
            signal.signal(number, handler)
