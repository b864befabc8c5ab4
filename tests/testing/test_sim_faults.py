"""Every call of a case fails, once and for good (T5, T6, T7, short form)."""

from __future__ import annotations

import os

import pytest

from flintmq.testing.sim_disk import MODELS
from flintmq.testing.sim_faults import sweep
from flintmq.testing.sim_run import Case

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
