"""Ends a command early at Ctrl-C, SIGTERM or SIGHUP, always by a KeyboardInterrupt.

SIGTERM comes from systemd, `docker stop` or `timeout`, SIGHUP from a terminal that closes. The exception is raised in
the main thread, so that cleaning up is the same for all three. Libraries may turn it into another error, so the signal
is remembered. Python drops the exception if it is raised inside a finalizer, for example of a stream that DuckDB
releases, and the command would continue. So every writer of output calls `check` first.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from flintmq.storage.threads.stop_event import StopEvent

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped:
    def __init__(self) -> None:
        self.number: int | None = None  # the first signal's number; None if none came
        self.waits = False  # the first signal raises nothing: the command asks whether it came

    @property
    def exit_code(self) -> int:
        """The exit code by shells' count: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
        return 128 + (self.number or signal.SIGINT)

    def take(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal.

        Raises KeyboardInterrupt: always, but at the first signal where that waits.
        """
        is_first, self.number = self.number is None, self.number or number
        if not (is_first and self.waits):
            raise KeyboardInterrupt


_now: list[Stopped] = []  # of the running commands, the innermost last


def check() -> None:
    """Check whether a signal came.

    Raises KeyboardInterrupt: one came, and its exception was dropped.
    """
    if _now and _now[-1].number is not None and not _now[-1].waits:
        raise KeyboardInterrupt


@contextlib.contextmanager
def waiting() -> Iterator[Callable[[], bool]]:
    """Let the first signal wait within the block, which gets a function that tells if one came.

    For a command that has something to say when it is stopped; it ends with the signal's exit code. The second signal
    raises KeyboardInterrupt.
    """
    stopped = _now[-1] if _now else Stopped()
    stopped.waits = True
    try:
        yield lambda: stopped.number is not None
    finally:
        stopped.waits = False


def stop_event() -> threading.Event:
    """Return an event that SIGINT and SIGTERM set from now on.

    For a job that finishes its round before it ends.
    """
    stop = StopEvent()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


@contextlib.contextmanager
def stopping() -> Iterator[Stopped]:
    """Make the signals raise KeyboardInterrupt within the block.

    A signal that is ignored (nohup) or has a handler keeps it.
    """
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
