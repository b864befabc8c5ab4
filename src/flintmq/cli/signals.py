"""What ends a command early: Ctrl-C, SIGTERM (systemd, `docker stop`, `timeout`) and SIGHUP (a terminal that closes).

All three are one to a command: KeyboardInterrupt in its main thread, so that everything is cleaned up by the same way.
Libraries in between may make another error of it, so it is remembered.
"""

from __future__ import annotations

import contextlib
import signal
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


@contextlib.contextmanager
def stopping() -> Iterator[Stopped]:
    """Within the block these signals raise KeyboardInterrupt; what is ignored (nohup) or has a handler stays so."""
    stopped = Stopped()
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                before[number] = signal.signal(number, stopped.take)
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
