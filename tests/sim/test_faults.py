"""Every call of a case fails, once and for good (T5, T6, T7, short form)."""

from __future__ import annotations

import os

import pytest

from tests.sim.disk import MODELS, SimDisk
from tests.sim.faults import sweep
from tests.sim.run import Case, SimRun

OPS = [("put", "plain", 300, 0, 0), ("put", "plain", 9000, 0, 1), ("dispatch",), ("checkpoint",),
       ("put", "many", 3000, 0, 0), ("clean",)]  # fmt: skip
ALL = os.environ.get("FLINTMQ_HOSTILE") == "all"
CASES = [(seed, model) for seed in (0, 1) for model in MODELS] if ALL else [(0, "ext4"), (1, "posix")]


@pytest.mark.parametrize(("seed", "model"), CASES)
def test_no_call_that_fails_costs_what_was_acknowledged(seed: int, model: str):
    keys = Case.of(seed, model).keys | {"flushDiskType": ("SYNC_FLUSH", "ASYNC_FLUSH")[seed]}
    found = sweep(Case(seed, model, keys, OPS))
    assert found.failures == []
    assert found.runs > 100 and found.states > 3 * found.runs


def test_what_a_poisoned_store_was_given_is_not_promised_by_its_close():
    """The pool could not be written, the store was closed, and nobody could open it again."""
    keys = Case.of(0, "ext4").keys | {"flushDiskType": "ASYNC_FLUSH", "transientStorePoolEnable": True}
    run = SimRun(Case(0, "ext4", keys, [*OPS[:1], ("commit",), ("flush",), ("close",), *OPS[:1]]), SimDisk(0, "ext4"))
    run.disk.at_call = lambda name, path: run.disk.plan.update({run.disk.calls + 1: 28}) if name == "wrote" else None
    run.go()
    answer, book = run.book.answers["1-0-0"], run.now(power=False)
    assert (answer["outcome"], answer["committed"], book.safe["1"]) == ("ok", 0, 0)
