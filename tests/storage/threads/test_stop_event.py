"""Events that signal handlers set: no wait hangs, whatever the main thread was at."""

import subprocess
import sys
import threading
import time
from functools import partial

import pytest

from flintmq.storage.threads.stop_event import LOOK_S, StopEvent
from tests.support.threads import beside, within

STORM = """
import faulthandler, signal, sys, time
from {module} import {name} as Event
faulthandler.dump_traceback_later({seconds}, exit=True)
stop, taken = Event(), 0

def handler(*_):
    global taken
    taken += 1
    stop.set()

signal.signal(signal.SIGALRM, handler)
while taken < {signals}:
    stop.clear()
    before = taken
    signal.setitimer(signal.ITIMER_REAL, 5e-6 + taken % 97 * 1e-6)
    while taken == before:  # in and out of waits all the time
        stop.wait(1e-6)
print(taken)
"""


def storm(module: str, name: str, signals: int, seconds: int) -> subprocess.CompletedProcess[str]:
    source = STORM.format(module=module, name=name, signals=signals, seconds=seconds)
    return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=seconds + 30)


def test_a_handler_sets_it_while_its_own_thread_waits() -> None:
    # The Event of `threading` hangs here within ten seconds: its `set` waits for the lock of its own `wait`.
    done = storm("flintmq.storage.threads.stop_event", "StopEvent", 20_000, 60)
    assert done.stdout == "20000\n", done.stderr


def test_all_who_wait_are_woken_at_once() -> None:
    stop, woken = StopEvent(), []
    with beside(*[lambda: woken.append(stop.wait(30))] * 8):
        assert within(lambda: len(stop._waiting) >= 8)
        began = time.monotonic()
        stop.set()
        stop.set()
    assert woken == [True] * 8
    assert time.monotonic() - began < LOOK_S  # not by their own look
    assert stop._waiting == []


def test_a_set_that_a_handler_cut_short_is_noticed_by_the_next_look() -> None:
    stop, woken = StopEvent(), []
    thread = threading.Thread(target=lambda: woken.append(stop.wait()))
    thread.start()
    assert within(lambda: stop._waiting)
    stop._is_stopped = True  # where a handler that raises leaves `set` at the worst
    thread.join(10 * LOOK_S)
    assert woken == [True]


def test_it_ends_by_its_time() -> None:
    stop = StopEvent()
    began = time.monotonic()
    assert stop.wait(0) is False
    assert stop.wait(-1) is False
    assert stop.wait(0.05) is False
    assert time.monotonic() - began >= 0.05
    stop.set()
    assert stop.wait() is True
    assert stop.is_set()
    stop.clear()
    assert not stop.is_set()
    assert stop.wait(0.01) is False
    assert stop._waiting == []


@pytest.mark.parametrize("waits", [1, 7])
def test_sets_and_waits_of_threads_lose_no_wake_up(waits: int) -> None:
    for _ in range(300):
        stop = StopEvent()
        with beside(*(partial(stop.wait, 30) for _ in range(waits))):
            began = time.monotonic()
            stop.set()
        assert time.monotonic() - began < 5
