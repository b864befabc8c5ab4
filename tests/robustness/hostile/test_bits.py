"""Bits of records flipped: a few. All of them: `labs/hostile/bits.py`."""

import random
import time
from collections import Counter
from pathlib import Path

import pytest

from labs.hostile import bits
from labs.torture import report
from tests.support.crashed import small_and_quick


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


def test_a_run_goes_on_with_the_next_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def run(folder: Path, seed: int, engine: int) -> bits.Tally:
        made.append(seed)
        return bits.Tally(80, 10, Counter({("clean", "refused"): 7}), ["bit 3"] if seed == 1 else [])

    monkeypatch.setattr(bits, "run", run)

    def state() -> report.State:
        return report.State(tmp_path / "state.json", stores={}, commits=["commit 1, 1 May 2026"])

    bits.go_on(state(), 2, time.monotonic() + 60)
    bits.go_on(state(), 3, time.monotonic() - 1)
    assert made == [0, 1], "the time was up"
    bits.go_on(state(), 3, time.monotonic() + 60)
    assert made == [0, 1, 2]
    found = bits.series(state())
    assert found.told == {"bits": 240, "records": 30, "stores": 3, "wrong": 1}
    assert found.done[0] == "commit 1, 1 May 2026" and len(found.done) == 2
    assert list(found.values("clean"))[:2] == [21, 0] and set(found.values("flushed")) == {0}


@pytest.mark.parametrize(
    ("seed", "place", "stop"), [(2, (8, 26, 0), "killed, no mark"), (3, (6, 27, 1), "flushed")]
)  # a queue's fourth of five records jumps ahead by 256, the first of three by 2
def test_a_record_whose_place_was_flipped_pushes_no_other_out(
    tmp_path: Path, seed: int, place: tuple[int, int, int], stop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both took others' places before (docs/internals/reliability.md, "bits")."""
    small_and_quick(monkeypatch.setattr)
    trial = bits.Trial(bits.make(tmp_path, seed), *place)
    trial.run(stop)
    assert trial.wrong == [] and trial.now is not None
    assert not [name for _, name in trial.outcomes if name == "taken"]
