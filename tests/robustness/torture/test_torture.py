"""The runner of the long forms, on runs that take no time."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from labs.torture import __main__ as main
from labs.torture import awake, report
from labs.torture.runs import RUNS, Run
from tests.support.own_time import own_time


def run(tmp_path: Path, *runs: Run, seconds: float = 60) -> tuple[int, report.State]:
    state = report.State(tmp_path, runs={})
    return main.torture(list(runs), state, tmp_path, seconds), state


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ends`, which ends with the code, or by the signal, that it is told."""
    text = "import os, sys\ncode = int(sys.argv[1])\nos.kill(os.getpid(), -code) if code < 0 else sys.exit(code)\n"
    (tmp_path / "ends.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def test_parts_are_done_one_after_the_other_and_counted(tmp_path: Path):
    several = Run("several", f'timeit -n 1 -r 1 \'open("{tmp_path}/{{n}}", "w")\'', parts=3)
    code, state = run(tmp_path, several)
    assert code == main.THROUGH and sorted(p.name for p in tmp_path.glob("[0-9]")) == ["0", "1", "2"]
    assert state["runs"]["several"]["done"] == 3
    (tmp_path / "0").unlink()
    code, _ = run(tmp_path, several)
    assert code == main.THROUGH and not (tmp_path / "0").exists(), "what is through is not run again"


@pytest.mark.parametrize(("ends", "code", "said"), [
    (1, main.WRONG, "**WRONG**"), (4, main.THROUGH, "left out, not possible here"),
    (-9, main.WRONG, "**WRONG**"),
])  # fmt: skip
def test_what_a_run_ends_with_is_told(tmp_path: Path, ends: int, code: int, said: str):
    bad, good = Run("bad", f"ends {ends}"), Run("good", "ends 0")
    got, state = run(tmp_path, bad, good)
    assert got == code and said in main.told(bad, state["runs"]["bad"])
    assert state["runs"]["good"]["code"] == 0, "the others have their turn"


def test_no_time_begins_nothing_and_goes_on_later(tmp_path: Path):
    code, state = run(tmp_path, Run("later", "ends 0"), seconds=0)
    assert code == main.GOES_ON and state["runs"]["later"]["done"] == 0
    assert run(tmp_path, Run("later", "ends 0"))[0] == main.THROUGH


def test_lines_stand_between_their_marks(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- torture: begin -->\nold\n<!-- torture: end -->\nb\n")
    report.write(page, "torture", ["new", "lines"])
    assert page.read_text() == "a\n<!-- torture: begin -->\nnew\nlines\n<!-- torture: end -->\nb\n"
    with pytest.raises(AssertionError, match="has no"):
        report.write(page, "other", [])


def test_each_run_is_counted(tmp_path: Path):
    state = report.State(tmp_path, runs={})
    state["runs"]["soak"] = {"done": 1, "seconds": 61.7, "code": 0, "commit": "commit 1, 1 May 2026"}
    state["runs"]["fuzz"] = {"done": 3, "seconds": 9.0, "code": 1, "commit": "commit 2, 2 May 2026"}
    found = main.series(state)
    rows = {row[0]: row[1:] for row in found.rows}
    assert rows.keys() == {run.name for run in RUNS} and found.done == ["commit 1, 1 May 2026", "commit 2, 2 May 2026"]
    assert rows["soak"] == [1, 1, 1, 62, "nothing wrong", 0, "commit 1, 1 May 2026"]
    assert rows["fuzz"] == [1, 3, 420, 9, "**WRONG**", 1, "commit 2, 2 May 2026"]
    assert rows["salvage"] == [1, 0, 10, 0, "not begun", 0, "-"]


def test_every_declared_run_is_there():
    """Each module can be found, and its help says whether it goes on."""
    assert len({run.name for run in RUNS}) == len(RUNS)
    for run in RUNS:
        module = run.words.split()[0]
        assert importlib.util.find_spec(module) is not None, module
        if run.resumes:
            asked = [sys.executable, "-m", module, "--help"]
            words = subprocess.run(asked, capture_output=True, check=True, text=True).stdout.split()
            assert run.parts == 1 and "--seconds" in words and "--state" in words, module


def test_time_in_which_the_process_stood_still_does_not_count(monkeypatch: pytest.MonkeyPatch):
    looks = iter((100.0, 100.2, 700.0, 700.5))
    own_time(monkeypatch, awake, monotonic=lambda: next(looks))
    clock = awake.Awake(1)
    assert [round(clock(), 6) for _ in range(3)] == [0.2, 1.2, 1.7]


def test_columns_of_zeros_are_named_after_the_table():
    assert report.table(["run", "done", "lost", "wrong"], [["a", 1200, 0, 0], ["b", 0, 0, 0]]) == [
        "| run | done |",
        "|---|---|",
        "| a | 1,200 |",
        "| b | 0 |",
        "",
        "0 in every row: lost, wrong.",
    ]
    assert report.table(["run", "lost"], [["a", 0], ["b", 1]]) == [
        "| run | lost |",
        "|---|---|",
        "| a | 0 |",
        "| b | 1 |",
    ]
