"""Two lists of those who wait: who comes while a group is answered belongs to the next one."""

from flintmq.kernels.threads.handoff import OPENED, Signal
from flintmq.store.append.group_commit import Waiters
from flintmq.store.append.stats import WaitTimes
from tests.support.threads import at_once, beside


def test_a_group_is_who_waited_by_then():
    waiters = Waiters(5.0, WaitTimes())
    early = [waiters.add(end) for end in (10, 20, 30)]
    group = waiters.take()
    late = waiters.add(5)
    assert len(group) == 3 and len(waiters) == 1
    assert group.answer(20) == [r.latch for r in early]
    assert [r.flushed for r in early] == [True, True, False], "by where the record ends"
    assert waiters.take().answer(20) == [late.latch]
    assert late.flushed


def test_nobody_can_tell_after_a_failure():
    waiters = Waiters(5.0, WaitTimes())
    request = waiters.add(0)
    assert waiters.take().answer(-1) == [request.latch]
    assert not request.flushed


def test_an_empty_group_is_false():
    waiters = Waiters(5.0, WaitTimes())
    assert not waiters.take()
    waiters.add(1)
    assert waiters.take()


def test_nobody_is_forgotten_or_answered_twice():
    waiters, answered, stop = Waiters(5.0, WaitTimes()), [], False

    def work() -> None:
        for _ in range(300):
            request = waiters.add(1)
            assert Signal().set_and_wait(request.latch, 10) == OPENED
            answered.append(request.flushed)

    def answer() -> None:
        while not stop:
            for latch in waiters.take().answer(1):
                latch.open()

    with beside(answer):
        at_once(*[work] * 8)
        stop = True
    assert answered == [True] * 2400
