"""The long form of the crash explorer: cases one after the other, resumed where they were stopped, and their table."""

from __future__ import annotations

import json
import logging
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from flintmq.testing.crash_explorer import Explorer
from flintmq.testing.sim_disk import MODELS
from flintmq.testing.sim_faults import sweep
from flintmq.testing.sim_run import PAIRS, SHORT, Case

BEGIN, END = "<!-- crash-sim: begin -->", "<!-- crash-sim: end -->"
SWEEP_EACH = 40  # one case of so many has its calls failed instead of its machine stopped
AT_ONCE = 6  # cases between two notes of how far it is


def case_of(number: int) -> tuple[int, str]:
    """(seed, model) of a case of the long run: all models in turn, short cases and drawn ones."""
    rest, model = divmod(number, len(MODELS))
    half, drawn = divmod(rest, 2)
    # Short cases in an order that mixes them: the step has no divisor in common with their number.
    return (SHORT + 10_000 + half if drawn else half * 7919 % (PAIRS if half < PAIRS else SHORT)), MODELS[model]


@contextmanager
def silenced() -> Iterator[None]:
    """Without log lines: a store that is broken on purpose tells of it a thousand times. Ends as it began."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@silenced()
def explored(number: int) -> dict[str, Any]:
    """One case of the long run, as what it adds to the state."""
    seed, model = case_of(number)
    case = Case.of(seed, model)
    if number % SWEEP_EACH == SWEEP_EACH - 1:
        swept = sweep(case)
        failed = [f"sweep of seed {seed}, {model}: {failure}" for failure in swept.failures[:3]]
        found: dict[str, Any] = {"runs": swept.runs, "after_faults": swept.states}
    else:
        explorer = Explorer(case, 8).go()
        failed = [json.dumps(asdict(failure)) + "\n" + failure.replay for failure in explorer.failures[:3]]
        found = {"counts": dict(explorer.counts), "torn": explorer.torn}
    return {"model": model, "counts": {}, "torn": 0, "runs": 0, "after_faults": 0, "failed": failed} | found


def go_on(states: int, jobs: int, folder: Path) -> dict[str, Any]:
    """Explore until so many states were looked at, this time and before; gives the sums."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "state.json"
    empty = {"next": 0, "seconds": 0.0, "sums": {}, "torn": 0, "runs": 0, "after_faults": 0, "failed": []}
    sums: dict[str, Any] = json.loads(path.read_text()) if path.exists() else empty
    with ProcessPoolExecutor(jobs) as pool:
        while total(sums) < states:
            began = time.monotonic()
            for one in pool.map(explored, range(sums["next"], sums["next"] + AT_ONCE)):
                depths = Counter(sums["sums"].get(one["model"], {}))
                depths.update({str(depth): count for depth, count in one["counts"].items()})
                sums["sums"][one["model"]] = depths
                sums["torn"] += one["torn"]
                sums["runs"] += one["runs"]
                sums["after_faults"] += one["after_faults"]
                sums["failed"] += one["failed"]
            sums["next"] += AT_ONCE
            sums["seconds"] += time.monotonic() - began
            path.write_text(json.dumps(sums))
            rate = total(sums) / max(sums["seconds"], 1e-9)
            print(f"{total(sums):,} states, {rate:.0f}/s, {len(sums['failed'])} wrong", flush=True)
    return sums


def total(sums: dict[str, Any]) -> int:
    """States of all models and depths."""
    return sum(sum(depths.values()) for depths in sums["sums"].values())


def table(sums: dict[str, Any]) -> str:
    """The sums for a report."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    rows = [
        f"{sums['next']:,} cases; {sums['runs']:,} runs with a call that failed, {sums['after_faults']:,} states after "
        f"them; {len(sums['failed'])} wrong; {sums['torn']:,} records with a torn store time; the package of commit "
        f"{commit or '-'}:",
        "",
        "| model | stopped once | recovery stopped, too | and its recovery | all |",
        "|---|---|---|---|---|",
    ]
    for model, depths in sorted(sums["sums"].items()):
        numbers = [depths.get(str(depth), 0) for depth in (1, 2, 3)]
        rows.append(f"| {model} | {' | '.join(f'{n:,}' for n in (*numbers, sum(numbers)))} |")
    return "\n".join(rows)


def write(report: Path, sums: dict[str, Any]) -> None:
    """Put the table between its markers in a page."""
    before, rest = report.read_text().split(BEGIN)
    _, after = rest.split(END)
    report.write_text(f"{before}{BEGIN}\n{table(sums)}\n{END}{after}")
