import errno
import threading

from flintmq.errors import UsageError
from flintmq.storage.files.filesystem import Effects
from flintmq.store.services.scheduler import Upkeep


class Clock(Effects):
    """A clock that a test moves."""

    now = 100.0

    def monotonic(self):
        return self.now


def test_steps_are_called_when_they_are_due():
    clock, calls = Clock(), []
    upkeep = Upkeep("test", clock, "store")
    upkeep.every(1000, lambda: calls.append("a") or False)
    upkeep.every(10_000, lambda: calls.append("b") or False, first_ms=500)
    assert upkeep.run_once() == 0.5 and calls == []
    clock.now += 0.5
    upkeep.run_once()
    clock.now += 0.5
    assert upkeep.run_once() == 1.0
    clock.now += 9.4
    upkeep.run_once()
    clock.now += 0.2
    upkeep.run_once()
    assert calls == ["b", "a", "a", "b"]


def test_more_to_do_means_at_once():
    clock, left = Clock(), [3]

    def step():
        left[0] -= 1
        return left[0] > 0

    upkeep = Upkeep("test", clock, "store")
    upkeep.every(1000, step, first_ms=0)
    assert [upkeep.run_once() for _ in range(3)] == [0, 0, 1.0] and left == [0]


def test_an_error_stops_nothing(caplog):
    clock, calls = Clock(), []

    def fails():
        calls.append(1)
        raise OSError(errno.ENOSPC, "no space") if len(calls) == 1 else UsageError("closed meanwhile")

    upkeep = Upkeep("test", clock, "store")
    upkeep.every(1000, fails, first_ms=0)
    upkeep.run_once()
    clock.now += 1
    upkeep.run_once()
    assert len(calls) == 2 and "no space" in caplog.text and "closed meanwhile" in caplog.text


def test_stop_ends_the_thread_between_two_steps():
    called = threading.Event()
    upkeep = Upkeep("test", Effects(), "store")
    upkeep.every(10, lambda: called.set() or False)
    upkeep.start()
    assert called.wait(5)
    upkeep.stop()
    assert upkeep.stopping and not upkeep._service.is_alive
