"""The steps of recovery: which, and in which order, for every kind of stop."""

from __future__ import annotations

import itertools

import pytest

from flintmq.store.commitlog.end_of_log import StopFacts
from flintmq.store.layout.mark import DurableMark
from flintmq.store.recovery.apply import STEPS
from flintmq.store.recovery.plan import Situation, Step, plan

LETTERS = {
    "W": Step.WITHDRAW_DERIVED,
    "R": Step.REREAD_DERIVED,
    "F": Step.FORGET_KNOWN_ENDS,
    "M": Step.WRITE_MARK,
    "A": Step.MAKE_ABORT,
    "T": Step.TRUNCATE_LOG,
    "E": Step.MARK_LOG_END,
    "D": Step.RECOVER_DERIVED,
    "L": Step.LEAVE_DERIVED,
}

# (the stop, whether there is a mark) -> steps with a list of where queues ended, steps without
TABLE = {
    ("clean", True): ("ATD", "FATD"),
    ("clean", False): ("MATD", "FMATD"),
    ("killed", True): ("TAD", "FTAD"),
    ("killed", False): ("TAD", "FTAD"),
    ("power cut", True): ("RTAD", "RFTAD"),
    ("power cut", False): ("RTAD", "RFTAD"),
    ("RocketMQ killed", True): ("WRTEAD", "WRFTEAD"),
    ("RocketMQ killed", False): ("WRTAD", "WRFTAD"),
}
STOPS = {"clean": (True, True, True), "killed": (False, True, True), "power cut": (False, True, False),
         "RocketMQ killed": (False, False, False)}  # fmt: skip


def situation(clean: bool, ours: bool, lasted: bool, *, marked: bool, ends: bool, external: bool) -> Situation:
    return Situation(StopFacts(clean=clean, mark=DurableMark(4096 if marked else None)), ours, lasted, ends, external)


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize(("stop", "marked"), TABLE)
def test_each_stop_has_its_steps(stop: str, marked: bool, ends: bool, external: bool):
    wanted = TABLE[stop, marked][not ends].replace("D", "L" if external else "D")
    found = plan(situation(*STOPS[stop], marked=marked, ends=ends, external=external))
    assert found == tuple(LETTERS[letter] for letter in wanted)


@pytest.mark.parametrize("facts", list(itertools.product([False, True], repeat=6)), ids=str)
def test_what_holds_of_every_plan(facts: tuple[bool, ...]):
    clean, ours, lasted, marked, ends, external = facts
    steps = plan(situation(clean, ours, lasted, marked=marked, ends=ends, external=external))
    assert len(set(steps)) == len(steps), "none is taken twice"
    abort, cut = steps.index(Step.MAKE_ABORT), steps.index(Step.TRUNCATE_LOG)
    assert (abort < cut) is clean, "a kill in the cut is found as an unclean stop, and hides no power cut"
    for step in (Step.WITHDRAW_DERIVED, Step.REREAD_DERIVED, Step.WRITE_MARK, Step.MARK_LOG_END):
        assert step not in steps or steps.index(step) < abort, "what `abort` tells of the last stop is used first"
    assert steps[-1] is (Step.LEAVE_DERIVED if external else Step.RECOVER_DERIVED)
    assert {Step.LEAVE_DERIVED, Step.RECOVER_DERIVED} & set(steps[:-1]) == set()


def test_each_step_can_be_taken():
    assert set(STEPS) == set(Step) == set(LETTERS.values())
