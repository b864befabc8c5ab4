"""Waking a thread that works in steps."""

from __future__ import annotations

import threading
import time

from flintmq.store.signal import Signal


def test_a_wake_up_during_work_is_not_lost_and_counts_once():
    signal = Signal()
    for _ in range(3):
        signal.set()
    began = time.monotonic()
    signal.wait(5)
    assert time.monotonic() - began < 1
    signal.wait(0.02)
    assert time.monotonic() - began >= 0.02, "it was unset"


def test_many_may_set_it_at_once():
    signal, wrong, woken = Signal(), [], 0
    stop = False

    def work() -> None:
        try:
            while not stop:
                signal.set()
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(2000):
        began = time.monotonic()
        signal.wait(5)
        woken += time.monotonic() - began < 4
    stop = True
    for thread in threads:
        thread.join()
    assert wrong == [] and woken == 2000
