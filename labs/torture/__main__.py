"""`make torture`: the long forms of all tests of reliability, in turn. It goes on where it was stopped.

    python -m labs.torture [--seconds S] [--only NAME] [--list] [--state FILE] [--work DIR] [--report FILE]

Run it in the background, `nice`, for as long as you like: every run that is not through gets an equal part of the
time that is left, and the next call goes on. What a machine lacks (root, strace, Java) ends a run with 4: it is left
out, and the table says so. A run that finds something ends with 1; it stays in the table as `WRONG` until it is run
again, and this program ends with 1. The runs are declared in labs/torture/runs.py. What is done is
remembered in labs/torture/state, in the repository, so that another machine goes on; logs and the rest lie
in artifacts/torture.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from labs.torture import figures, report
from labs.torture.runs import RUNS, Run, environment

NAME = "torture"
STATE = Path("labs/torture/state/torture.json")
THROUGH, WRONG, GOES_ON, LACKING = 0, 1, 3, 4


def one(run: Run, known: dict[str, Any], folder: Path, seconds: float) -> None:
    """Give a run some time, and note what came of it."""
    until = time.monotonic() + seconds
    while known["done"] < run.parts:
        left = until - time.monotonic()
        if left <= 0:
            return
        began = time.monotonic()
        words = [sys.executable, "-m", *shlex.split(run.words.format(n=known["done"]))]
        if run.resumes:
            words += ["--seconds", str(int(max(left, 5)))]
            words += [] if run.tracked else ["--state", str(folder / run.name.replace(" ", "-"))]
        limit = left + 600 if run.resumes else run.limit_s
        with (folder / "log.txt").open("a") as log:
            print(f"===== {run.name}: {shlex.join(words)}", file=log, flush=True)
            try:
                code = subprocess.run(words, env=environment(run), stdout=log, stderr=log, timeout=limit).returncode
            except subprocess.TimeoutExpired:
                code = WRONG
        known["seconds"] += time.monotonic() - began
        known["commit"] = report.commit()
        known["code"] = code
        if code == THROUGH:
            known["done"] += 1
        else:
            return


def told(run: Run, known: dict[str, Any] | None) -> list[Any]:
    """Its row of the table."""
    if known is None:
        return [run.name, f"`{run.command(0)}`", f"0 of {run.parts}", 0, "not begun", "-"]
    words = {THROUGH: "nothing wrong", LACKING: "left out, not possible here", GOES_ON: "nothing wrong so far"}
    result = words.get(known["code"], "**WRONG**")
    return [run.name, f"`{run.command(0)}`", f"{known['done']} of {run.parts}", round(known["seconds"]), result,
            known["commit"]]  # fmt: skip


def series(state: report.State) -> figures.Series:
    """What was run; --list prints the commands."""
    rows = []
    for run in RUNS:
        known = state["runs"].get(run.name)
        name, _, _, seconds, result, last = told(run, known)
        wrong = int(known is not None and known["code"] not in (THROUGH, LACKING, GOES_ON))
        rows.append([name, 1, 0 if known is None else known["done"], run.parts, seconds, result, wrong, last])
    columns = ["run", "runs", "parts through", "parts in all", "seconds", "result", "wrong", "last with"]
    return figures.Series(columns, rows, sorted({row[-1] for row in rows if row[-1] != "-"}))


def torture(runs: list[Run], state: report.State, folder: Path, seconds: float) -> int:
    """Run what is not through; the exit code."""
    until = time.monotonic() + seconds
    waiting = [run for run in runs if state["runs"].get(run.name, {"done": 0})["done"] < run.parts]
    for number, run in enumerate(waiting):
        known = state["runs"].setdefault(run.name, {"done": 0, "seconds": 0.0, "code": GOES_ON, "commit": "-"})
        one(run, known, folder, (until - time.monotonic()) / (len(waiting) - number))
        state.save()
        print("  ".join(str(cell) for cell in told(run, known)), flush=True)
    codes = [state["runs"].get(run.name, {"code": GOES_ON})["code"] for run in runs]
    if any(code not in (THROUGH, LACKING, GOES_ON) for code in codes):
        return WRONG
    return GOES_ON if GOES_ON in codes or any(state["runs"][run.name]["done"] < run.parts and code == THROUGH
                                              for run, code in zip(runs, codes, strict=True)) else THROUGH  # fmt: skip


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=8 * 3600, help="stop after about so long (8 hours)")
    parser.add_argument("--only", choices=[run.name for run in RUNS], help="one run; begins it again if it was WRONG")
    parser.add_argument("--list", action="store_true", help="print the runs and end")
    parser.add_argument("--state", type=Path, default=STATE, help="what is done; remove it to begin again")
    parser.add_argument("--work", type=Path, default=Path("artifacts/torture"), help="logs, and what is not small")
    parser.add_argument("--report", type=Path, help="the page with the marks of the table")
    words = parser.parse_args()
    state = report.State(words.state, runs={})
    if words.list:
        print(*report.table(["run", "command", "parts through", "seconds", "result", "last with"],
                            [told(run, state["runs"].get(run.name)) for run in RUNS]), sep="\n")  # fmt: skip
        return 0
    runs = [run for run in RUNS if words.only in (None, run.name)]
    words.work.mkdir(parents=True, exist_ok=True)
    code = torture(runs, state, words.work, words.seconds)
    if words.report is not None:
        figures.record(words.report, NAME, series(state))
    print(f"details: {words.work}/log.txt")
    return code


if __name__ == "__main__":
    sys.exit(main())
