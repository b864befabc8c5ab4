"""T10 and T14: the first of the lives that `python -m labs.torture.seeds` tries thousands of."""

from pathlib import Path

import pytest

from labs.torture.seeded import clock_steps, stale_tail


@pytest.mark.turn(2, of=["src/flintmq/store/recovery/"])
@pytest.mark.parametrize("block", range(0, 200, 50))
def test_t10_cut_append_of_equal_size_crash_recover(tmp_path: Path, block: int):
    for seed in range(block, block + 50):
        stale_tail(tmp_path / str(seed), seed)


@pytest.mark.parametrize("seed", range(20))
def test_t14_a_clock_that_steps_costs_nothing(tmp_path: Path, seed: int):
    clock_steps(tmp_path, seed)
