"""Threads beside a test, signals amid a call, and waits: each of them has an end."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

LONGEST_S = 60.0  # from here on it hangs; the machine may be slow


@contextmanager
def beside(*calls: Callable[[], object]) -> Iterator[None]:
    """Run calls while a block runs, each in a thread of its own; they must end soon after it.

    The first error of theirs is raised.
    """
    errors: list[BaseException] = []

    def run(call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    yield
    limit = time.monotonic() + LONGEST_S
    for thread in threads:
        thread.join(max(limit - time.monotonic(), 0))
    assert not any(thread.is_alive() for thread in threads), "it hangs"
    if errors:
        raise errors[0]


def at_once(*calls: Callable[[], object]) -> None:
    """Run calls in as many threads, and wait for all of them; the first error of theirs is raised."""
    with beside(*calls):
        pass


def within(what: Callable[[], object], seconds: float = LONGEST_S) -> bool:
    """Whether it becomes true within so many seconds."""
    limit = time.monotonic() + seconds
    while not what():
        if time.monotonic() > limit:
            return False
        time.sleep(0.002)
    return True


@contextmanager
def alarms(handler: Any, first_s: float = 0.0, interval_s: float = 0.0) -> Iterator[None]:
    """Have a handler of SIGALRM; it comes after so many seconds, and again and again if an interval is given."""
    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, first_s, interval_s)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
