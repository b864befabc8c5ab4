"""The long run: it goes on where it was stopped, and keeps what it counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labs.sim import long_run
from labs.torture import figures
from labs.torture.report import today
from tests.sim.disk import MODELS
from tests.sim.run import SHORT


def test_it_goes_on_and_keeps_what_it_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(long_run, "commit_now", lambda: "abc1234")
    monkeypatch.setattr(long_run, "AHEAD", 1)
    path = tmp_path / "state" / "crash-sim.json"
    first = long_run.go_on(1, 1, path)
    assert first["next"] > 0 and long_run.total(first) > 0 and first["failed"] == []
    assert json.loads(path.read_text()) == first and first["commits"] == {"abc1234": first["next"]}
    assert long_run.go_on(1, 1, path) == first, "there are enough"
    monkeypatch.setattr(long_run, "commit_now", lambda: "def5678")
    again = long_run.go_on(long_run.total(first) + 1, 1, path)
    assert again["next"] > first["next"] and set(again["commits"]) == {"abc1234", "def5678"}
    monkeypatch.setattr(figures, "LABS", tmp_path)
    counted = long_run.series(again)
    assert sum(counted.values("states of power cuts")) == long_run.total(again)
    assert counted.done == [f"commit {commit}, {today()}" for commit in ("abc1234", "def5678")]
    counted.done[0] = "commit abc1234, 1 May 2026"
    (tmp_path / "sim").mkdir()
    figures.save("crash-sim", [counted])
    assert long_run.series(again).done == counted.done, "a commit keeps the day on which it was first reported"


def test_what_kills_leave_is_not_among_the_states_of_power_cuts():
    assert long_run.total({"sums": {"ext4": {"0": 5, "1": 3, "2": 2, "3": 1}, "posix": {"0": 7, "1": 4}}}) == 10


def test_cases_of_the_long_run_are_different():
    cases = [long_run.case_of(n) for n in range(3000)]
    assert len({seed for seed, _ in cases}) == 3000 and {model for _, model in cases} == set(MODELS)


def test_the_long_run_meets_every_short_case_with_every_model():
    cases = [long_run.case_of(2 * n) for n in range(3 * SHORT)]
    assert len({seed for seed, _ in cases[:SHORT]}) == SHORT and len(set(cases)) == 3 * SHORT
