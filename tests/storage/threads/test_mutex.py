"""Locks that an interrupted `with` leaves free, and where they are used."""

import re
import signal
from pathlib import Path

import pytest

import flintmq
from flintmq.storage.threads.mutex import AtOnce, Condition, Lock, ReentrantLock, Taken
from tests.support.threads import alarms, at_once, beside

ENGINE = Path(flintmq.__file__).parent


class Alarm(Exception):
    """Raised by the handler of a signal."""


def raise_alarm(*_: object) -> None:
    raise Alarm


def is_free(lock) -> bool:
    """Whether another thread gets the lock; it gives it back."""
    got: list[bool] = []

    def work() -> None:
        got.append(lock.acquire(blocking=False))
        if got[0]:
            lock.release()

    at_once(work)
    return got[0]


@pytest.mark.parametrize("make", [Lock, ReentrantLock, Condition])
def test_a_handler_that_raises_leaves_the_lock_free(make):
    """The time of the signal changes from one turn to the next, so it falls between all steps of a `with`."""
    lock = make()
    with alarms(raise_alarm):
        for turn in range(1000):
            with pytest.raises(Alarm):
                signal.setitimer(signal.ITIMER_REAL, 0.0001 + turn % 50 * 0.000002)
                while True:
                    with lock:
                        pass
            assert is_free(lock), turn


def test_a_lock_taken_at_once_is_free_after_an_interrupt_at_any_place():
    lock = ReentrantLock()
    with alarms(raise_alarm):
        for turn in range(1000):
            with pytest.raises(Alarm):
                signal.setitimer(signal.ITIMER_REAL, 0.0001 + turn % 50 * 0.000002)
                while True:
                    with AtOnce(lock):
                        pass
            assert is_free(lock), turn


def test_a_lock_that_another_thread_has_is_not_waited_for():
    lock, told = ReentrantLock(), []

    def work() -> None:
        try:
            with AtOnce(lock):
                told.append("got")
        except Taken:
            told.append("taken")

    with AtOnce(lock):
        at_once(work)
    at_once(work)
    with pytest.raises(KeyError), AtOnce(lock):
        raise KeyError
    assert told == ["taken", "got"] and is_free(lock)


def test_threads_exclude_each_other():
    lock, inside, most = Lock(), 0, 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(2000):
            with lock:
                inside += 1
                most = max(most, inside)
                inside -= 1

    at_once(*[work] * 3)
    assert (inside, most) == (0, 1)


def test_a_reentrant_lock_is_free_after_the_outer_block():
    lock = ReentrantLock()
    with lock, lock:
        pass
    assert is_free(lock)


def test_the_engine_makes_its_locks_here():
    """A lock of the module threading would stay taken where a handler raises, from Python 3.14 on."""
    found = [
        str(path.relative_to(ENGINE))
        for room in ("storage", "store", "ha")
        for path in sorted((ENGINE / room).rglob("*.py"))
        if path.name != "mutex.py"
        and re.search(r"threading\.R?Lock\b|threading\.Condition\(\)|from threading import", path.read_text())
    ]
    assert found == []


def test_who_waits_for_a_change_is_woken():
    changed, seen = Condition(), list[bool]()

    def wait() -> None:
        with changed:
            seen.append(changed.wait_for(lambda: len(told) > 0, 10))

    told: list[int] = []
    with beside(*[wait] * 3), changed:
        told.append(1)
        changed.notify_all()
    assert seen == [True] * 3 and is_free(changed)
    with changed:
        assert not changed.wait(0.001) and not changed.wait_for(lambda: False, 0.001)


def test_a_handler_that_raises_amid_a_wait_leaves_the_lock_free():
    changed = Condition()
    with alarms(raise_alarm):
        for turn in range(50):
            with pytest.raises(Alarm):  # around the timer too: on a busy machine it ends before the wait begins
                signal.setitimer(signal.ITIMER_REAL, 0.001 + turn % 5 * 0.0001)
                with changed:
                    changed.wait(0.1)  # without a GIL it yields before it waits, and may miss a signal
            assert is_free(changed), turn
