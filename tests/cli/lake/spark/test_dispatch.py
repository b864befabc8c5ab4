"""`flintmq spark dispatch`: what it passes on and what it prints, with the job replaced."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from flintmq.errors import StoreLockedError
from flintmq.spark.jobs.dispatch.job import Dispatched
from tests.cli.conftest import Run

DONE = Dispatched(0, 4096, 2, 10, 9, 20, 4, 1, 4096, {"hole": 2})


class Job:
    """Stands for Spark and the job."""

    def __init__(self) -> None:
        self.args: tuple[Any, ...] = ()
        self.named: dict[str, Any] = {}
        self.answer: Dispatched | Exception = DONE
        self.signal = 0

    def session(self, name: str, master: str | None = None) -> Job:
        return self

    def stop(self) -> None:
        pass

    def dispatch(self, *args: Any, **named: Any) -> Dispatched:
        self.args, self.named = args, named
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer.rounds:
            named["on_round"](self.answer)
        if self.signal:
            os.kill(os.getpid(), self.signal)
            assert named["stop"].wait(10)
        return self.answer


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    job = Job()
    monkeypatch.setattr("flintmq.spark.session", job.session)
    monkeypatch.setattr("flintmq.spark.jobs.dispatch.job.dispatch", job.dispatch)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield job
    for number, handler in before.items():
        signal.signal(number, handler)


def test_options_are_passed_on(run: Run, job: Job) -> None:
    words = ["--once", "--anew", "--interval", "3", "--peer", "5.4.0", "--access", "map", "--set", "maxIndexNum=400"]
    result = run("spark", "dispatch", "store", "--out", "dir", *words)
    assert result.code == 0
    assert result.out == (
        "records  10 in 4.0 KiB of log, offsets 0 to 4096\nqueues   4, 9 units added\nindex    1 files, 20 keys added\n"
        "note     hole (2x)\nresult   dir\n"
    )
    assert "round 2: 9 units, up to log offset 4096" in result.err
    assert job.args[1:3] == ("store", "dir") and job.args[3].max_index_num == 400 and job.args[4] == "5.4.0"
    named = job.named
    assert (named["once"], named["anew"], named["interval_s"], named["access"]) == (True, True, 3.0, "map")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_for_the_end(run: Run, job: Job, number: int) -> None:
    job.signal = number
    assert run("spark", "dispatch", "store", "--out", "dir").code == 0
    assert isinstance(job.named["stop"], threading.Event) and not job.named["once"]


def test_nothing_new_and_json(run: Run, job: Job) -> None:
    job.answer = Dispatched(500, 500)
    result = run("spark", "dispatch", "store", "--out", "dir", "--once")
    assert result.out == "nothing new up to log offset 500\nresult   dir\n"
    job.answer = DONE
    told = json.loads(run("spark", "dispatch", "store", "--out", "dir", "--json").out)
    assert (told["rounds"], told["units"], told["notes"]) == (2, 9, {"hole": 2})


def test_errors_are_one_line(run: Run, job: Job) -> None:
    job.answer = StoreLockedError("dir: process 7 on host dispatches into it")
    result = run("spark", "dispatch", "store", "--out", "dir")
    assert result.code == 6 and "process 7" in result.err and result.err.count("\n") == 1
    assert run("spark", "dispatch", "store").code == 2
    assert run("spark", "dispatch", "store", "--out", "dir", "--interval", "-1").code == 2
