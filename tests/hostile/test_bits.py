"""Bits of records flipped: a few. All of them: `tests/hostile/bits.py`."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.hostile import bits
from tests.store.crashed import small_and_quick


@pytest.mark.parametrize("seed", [1, 4])
def test_t8_a_flipped_bit_costs_at_most_the_record_it_hits(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 4 has whole-record checksums."""
    small_and_quick(monkeypatch.setattr)
    tally = bits.run(tmp_path, seed, 20, random.Random(seed), 120)
    assert tally.wrong == []
    seen = {name for _, name in tally.outcomes}
    assert {"refused", "unread", "cut", "unseen"} <= seen and tally.flips == 120
