"""A service's thread: started once, woken to end, joined."""

import threading

import pytest

from flintmq.storage.threads.service_thread import ServiceThread


class Loop:
    """Counts its turns; sleeps until it is woken."""

    def __init__(self) -> None:
        self.turns, self.woken, self.begun = 0, threading.Event(), threading.Event()
        self.service = ServiceThread("flintmq-test", self.run, self.woken.set)

    def run(self) -> None:
        assert threading.current_thread().name == "flintmq-test" and threading.current_thread().daemon
        while not self.service.stopping:
            self.turns += 1
            self.begun.set()
            assert self.woken.wait(30)
            self.woken.clear()


def test_it_runs_until_it_is_stopped():
    loop = Loop()
    assert not loop.service.is_started and not loop.service.is_alive and not loop.service.stopping
    loop.service.start()
    assert loop.service.is_started and loop.service.is_alive
    assert loop.begun.wait(30)  # a stop before the first turn leaves none
    loop.service.stop()
    assert loop.service.is_started and not loop.service.is_alive and loop.service.stopping and loop.turns >= 1
    loop.service.stop()


def test_it_may_be_stopped_without_a_thread():
    loop = Loop()
    loop.service.stop()
    assert loop.service.stopping and not loop.service.is_started and loop.turns == 0


def test_asking_does_not_wait():
    loop = Loop()
    held = threading.Lock()
    service = ServiceThread("flintmq-test", held.acquire, lambda: None)
    held.acquire()
    service.start()
    service.ask_to_stop()
    assert service.is_alive and service.stopping
    held.release()
    service.stop()
    assert not service.is_alive and not loop.service.is_started


def test_it_is_started_once():
    loop = Loop()
    loop.service.start()
    with pytest.raises(AssertionError, match="flintmq-test would run twice"):
        loop.service.start()
    loop.service.stop()
