"""The long run: it goes on where it was stopped, and writes its table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flintmq.testing import sim_long
from flintmq.testing.sim_disk import MODELS


def test_it_goes_on_and_writes_its_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sim_long, "AT_ONCE", 2)
    first = sim_long.go_on(1, 1, tmp_path)
    assert first["next"] == 2 and sim_long.total(first) > 0 and first["failed"] == []
    assert json.loads((tmp_path / "state.json").read_text())["next"] == 2
    again = sim_long.go_on(1, 1, tmp_path)
    assert again["next"] == 2, "there are enough"
    report = tmp_path / "report.md"
    report.write_text(f"before\n{sim_long.BEGIN}\nan earlier table\n{sim_long.END}\nafter\n")
    sim_long.write(report, again)
    text = report.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "earlier" not in text and "| posix |" in text


def test_cases_of_the_long_run_are_different():
    cases = [sim_long.case_of(n) for n in range(3000)]
    assert len(set(cases)) == 3000 and {model for _, model in cases} == set(MODELS)
