"""kernels/threads/handoff: wake-ups are neither lost nor doubled, latches open once, system signals get through."""

import random
import signal as system
import threading
import time

import pytest

from flintmq.kernels.threads.handoff import INTERRUPTED, LATE, OPENED, Latch, Signal
from tests.support.threads import at_once, beside


def test_a_wake_up_during_work_is_not_lost_and_counts_once():
    signal = Signal()
    for _ in range(3):
        signal.set()
    began = time.monotonic()
    signal.wait(5)
    assert time.monotonic() - began < 4
    signal.wait(0.02)
    assert time.monotonic() - began >= 0.02, "it was unset"


def test_many_may_set_it_at_once():
    signal, woken = Signal(), 0
    stop = False

    def work() -> None:
        while not stop:
            signal.set()

    with beside(*[work] * 4):
        for _ in range(100):
            began = time.monotonic()
            signal.wait(5)
            woken += time.monotonic() - began < 4
        stop = True
    assert woken == 100


def test_a_latch_opens_once_and_late_is_told():
    signal, latch = Signal(), Latch()
    assert not latch.is_open
    assert signal.set_and_wait(latch, 0.01) == LATE
    assert signal.set_and_wait(latch, 0) == LATE
    assert signal.set_and_wait(latch, -1) == LATE
    latch.open()
    latch.open()
    assert latch.is_open
    assert signal.set_and_wait(latch, 5) == OPENED


def test_work_is_handed_over_and_answered_by_many_threads():
    """Each asks and waits; one thread answers whoever asked, opening latches while it waits for the next."""
    signal, asked, lock, stop, answered = Signal(), [], threading.Lock(), False, []

    def work() -> None:
        for _ in range(300):
            latch = Latch()
            with lock:
                asked.append(latch)
            answered.append(signal.set_and_wait(latch, 10))

    def answer() -> None:
        latches: list[Latch] = []
        while not stop:
            signal.wait(0.5, latches)
            with lock:
                latches = [asked.pop(0) for _ in range(len(asked))]  # others only append, without a GIL at any time
        for latch in latches:
            latch.open()

    with beside(answer):
        at_once(*[work] * 8)
        stop = True
        signal.set()
    assert answered == [OPENED] * 2400


def answering(signal: Signal, asked: list[Latch], stop: threading.Event) -> None:
    """Open the latches of whoever asked, as a flush does, until it is told to stop."""
    latches: list[Latch] = []
    while not stop.is_set():
        signal.wait(0.5, latches)
        latches = [asked.pop(0) for _ in range(len(asked))]  # others only append, without a GIL at any time
    for latch in latches:
        latch.open()


@pytest.mark.parametrize("interrupts", [False, True])
def test_who_gives_up_waiting_keeps_nobody_else_from_being_woken(interrupts: bool):
    """Those that come too late, and those that a signal takes away."""
    signal, asked, stop, said, late, wrong = Signal(), [], threading.Event(), [], [], []

    def work(number: int) -> None:
        chance = random.Random(number)
        for _ in range(400):
            latch, patient = Latch(), number % 2
            asked.append(latch)
            answer = signal.set_and_wait(latch, 20 if patient else chance.random() * 2e-4)
            (said if patient else late).append(answer)
            wrong.extend([latch] * (answer == OPENED and not latch.is_open))

    def interrupt(*_: object) -> None:
        raise TimeoutError

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    answerer = threading.Thread(target=answering, args=(signal, asked, stop))
    before = system.signal(system.SIGALRM, interrupt)
    try:
        for thread in [answerer, *threads]:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            if not interrupts:
                time.sleep(0.01)
                continue
            try:
                mine = Latch()
                asked.append(mine)
                system.setitimer(system.ITIMER_REAL, 1e-4)
                signal.set_and_wait(mine, 0.01)
                time.sleep(0.001)
            except TimeoutError:
                pass
    finally:
        system.setitimer(system.ITIMER_REAL, 0)
        system.signal(system.SIGALRM, before)
        stop.set()
        signal.set()
        answerer.join()
    assert said == [OPENED] * 1600 and not wrong
    assert set(late) <= {OPENED, LATE}


@pytest.mark.skipif(not hasattr(system, "setitimer"), reason="this system has no interval timers")
def test_a_signal_of_the_system_is_seen_to():
    seen = []
    before = system.signal(system.SIGALRM, lambda *_: seen.append(time.monotonic()))
    try:
        began = time.monotonic()
        system.setitimer(system.ITIMER_REAL, 0.05)
        said, left = INTERRUPTED, 1.0
        while said == INTERRUPTED and left > 0.5:
            said = Signal().set_and_wait(Latch(), left)
            left = began + 1.0 - time.monotonic()
            if seen:
                break
        assert seen and seen[0] - began < 0.9, "before the wait was over"
    finally:
        system.signal(system.SIGALRM, before)


@pytest.mark.parametrize("other", [None, object(), threading.Lock()])
def test_only_latches_are_opened(other: object):
    with pytest.raises((TypeError, AttributeError)):
        Signal().wait(0, [Latch(), other])  # type: ignore[list-item]
