"""Each call of a follower's disk fails, once and for good (short form)."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from flintmq.ha.follower_steps import FollowerSteps
from flintmq.store.append.raw_log import RawLog
from flintmq.store.recovery import truncate
from labs.sim import pair_long_run
from labs.sim.long_run import silenced
from tests.sim.disk import MODELS
from tests.sim.faults import Swept
from tests.sim.pair_faults import sweep
from tests.sim.pair_run import Op, PairCase

PUTS: list[Op] = [("put", 300, 0, 0), ("put", 5000, 0, 1), ("put", 40, 1, 0)]
OPS: list[Op] = [
    *PUTS, ("receive", 2), ("report",), *PUTS, ("line", 5000), ("receive", 8), ("report",), ("dispatch",),
    ("checkpoint",), *PUTS, ("receive", 12), ("report",), ("close",), *PUTS[:1], ("receive", 6), ("report",),
]  # fmt: skip
OF = ["src/flintmq/ha/", "src/flintmq/store/", "tests/sim/"]  # what a change of runs each day
ALL = os.environ.get("FLINTMQ_HOSTILE") == "all"
CASES = [(seed, model) for seed in (0, 1) for model in MODELS] if ALL else [(0, "ext4"), (1, "posix")]


def swept(seed: int, model: str, **more: bool) -> Swept:
    case = PairCase(seed, model, ("SYNC", "ASYNC")[seed], True, "first", bool(seed), bool(seed), OPS)
    with silenced():
        return sweep(case, **more)


@pytest.mark.turn(2, of=OF)
@pytest.mark.parametrize(("seed", "model"), CASES)
def test_no_call_that_fails_costs_what_was_reported(seed: int, model: str):
    found = swept(seed, model)
    assert found.failures == []
    assert found.runs > 300 and found.states > 3 * found.runs


def reports_what_was_not_synced(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(RawLog, "_check_disk", lambda self: None)
    patched.setattr(FollowerSteps, "_flush_below", lambda self, report: None)


def keeps_a_torn_tail(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(truncate, "_zero", lambda *asked: None)


@pytest.mark.turn(2, of=OF)
@pytest.mark.parametrize("fault", [reports_what_was_not_synced, keeps_a_torn_tail])
def test_a_wrong_follower_is_found(fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch):
    fault(monkeypatch)
    assert swept(0, "ext4").failures


def test_one_case_of_the_long_run_in_so_many_is_a_sweep(monkeypatch: pytest.MonkeyPatch):
    asked: list[PairCase] = []

    def swept(case: PairCase) -> Swept:
        asked.append(case)
        return Swept(3, 7, [(5, 28, True, "lost")])

    monkeypatch.setattr(pair_long_run.pair_faults, "sweep", swept)
    found = pair_long_run.explored(199)
    assert [case.seed for case in asked] == [199] and (found["runs"], found["after_faults"]) == (3, 7)
    assert found["failed"] == ["sweep of pair 199, posix: (5, 28, True, 'lost')"]
