"""Calls that are waited for up to a moment, and left alone after it."""

import threading
import time

import pytest

from flintmq.errors import NotAStoreError, UnfinishedError
from flintmq.metrics.background import BackgroundCall


def soon() -> float:
    return time.monotonic() + 10


def test_the_answer_and_the_error_come_back() -> None:
    answers = iter([1, NotAStoreError("gone"), 3])

    def ask() -> int:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    call = BackgroundCall(ask, "t")
    assert call.start()(soon()) == 1
    with pytest.raises(NotAStoreError, match="gone"):
        call.start()(soon())
    assert call.start()(soon()) == 3


def test_a_call_that_hangs_is_given_up_and_not_started_twice() -> None:
    go, calls = threading.Event(), []

    def hang() -> int:
        calls.append(threading.current_thread())
        assert go.wait(30)
        return len(calls)

    call = BackgroundCall(hang, "t")
    begin = time.monotonic()
    for _ in range(3):
        with pytest.raises(UnfinishedError, match="no answer"):
            call.start()(time.monotonic() + 0.05)
    assert time.monotonic() - begin < 5 and len(calls) == 1
    assert calls[0].daemon, "it must not keep the process from ending"
    waits = [call.start(), call.start()]
    go.set()
    assert [wait(soon()) for wait in waits] == [1, 1] and len(calls) == 1
    assert call.start()(soon()) == 2, "the next call is a new one"
    for thread in calls:
        thread.join(10)
