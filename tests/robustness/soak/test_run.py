"""The soak in short; FLINTMQ_SOAK_SECONDS for longer."""

import os
from pathlib import Path

import pytest

from labs.soak import run
from labs.soak.processes import READERS

SECONDS = float(os.environ.get("FLINTMQ_SOAK_SECONDS", "15"))


@pytest.mark.turn(2, of=["src/flintmq/store/", "src/flintmq/storage/"])
def test_soak(tmp_path: Path) -> None:
    found = run.Soak(tmp_path / "soak", 5, longest=SECONDS / 5).run(SECONDS)
    assert found.wrong == []
    assert found.acknowledged > 100 and found.kills + found.stops >= 2 and set(found.counts) == set(READERS)


def test_what_grows_is_told() -> None:
    flat = [run.Sample(float(at), "walk", 9000, 5, 60, 1) for at in range(0, 100, 5)]
    assert run.grown(flat, 100) == []
    leaks = [run.Sample(s.at, s.who, s.memory_kib, 5 + int(s.at), s.maps, s.threads) for s in flat]
    assert run.grown(leaks, 100) == ["walk: descriptors grew from 40 to 100"]
