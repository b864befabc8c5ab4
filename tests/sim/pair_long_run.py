"""Runs the crash explorer of pairs over many cases, resumes, makes the table."""

from __future__ import annotations

import gc
import json
from dataclasses import asdict
from typing import Any, Final

from tests.sim import pair_faults
from tests.sim.disk import MODELS
from tests.sim.long_run import SWEEP_EACH, silenced, total
from tests.sim.pair_explorer import PairExplorer
from tests.sim.pair_run import PairCase

BEGIN: Final = "<!-- crash-sim-pairs: begin -->"
END: Final = "<!-- crash-sim-pairs: end -->"


@silenced()
def explored(number: int) -> dict[str, Any]:
    """Explore one case of the long run; return its contribution to the sums."""
    model = MODELS[number % len(MODELS)]
    if number % SWEEP_EACH == SWEEP_EACH - 1:
        swept = pair_faults.sweep(PairCase.of(number, model))
        failed = [f"sweep of pair {number}, {model}: {failure}" for failure in swept.failures[:3]]
        return {"model": model, "counts": {}, "failed": failed, "runs": swept.runs, "after_faults": swept.states}
    explorer = PairExplorer(PairCase.of(number, model)).go()
    gc.collect(1)
    return {
        "model": model,
        "counts": dict(explorer.counts),
        "failed": [json.dumps(asdict(failure)) + "\n" + failure.replay for failure in explorer.failures[:3]],
        "torn": explorer.torn,
        "followed": explorer.followed,
        "others": explorer.others,
        "mastered": explorer.mastered,
        "resynced": explorer.resynced,
        "resyncs_stopped": explorer.stopped,
        "without": explorer.without,
        "refusals": explorer.refused.total(),
    }


def table(sums: dict[str, Any]) -> str:
    """Format the sums for a report."""
    kills = sum(depths.get("0", 0) for depths in sums["sums"].values())
    commits = ", ".join(f"{commit} ({cases:,} cases)" for commit, cases in sums["commits"].items())
    rows = [
        f"{total(sums):,} states of power cuts and {kills:,} of kills of the follower, of {sums['next']:,} cases: "
        f"{len(sums['failed'])} wrong, {len(sums['mended'])} led to a mend. {sums['followed']:,} were followed on to "
        f"the end, {sums['others']:,} had to refuse the master that there was by then, {sums['mastered']:,} were "
        "opened as a master. "
        f"{sums.get('resynced', 0):,} went on with --resync (looked at since November 26), of which "
        f"{sums.get('resyncs_stopped', 0):,} had been stopped amid it; {sums.get('without', 0):,} had no record in "
        "common with their master. "
        f"{sums['refusals']:,} refusals in the cases themselves. In {sums['torn']:,} states a record above what was on "
        f"disk had bytes that no checksum covers. {sums.get('runs', 0):,} runs with a call of the follower's disk that "
        f"failed, {sums.get('after_faults', 0):,} states after them, not among these. With the package of {commits}; "
        f"{sums['seconds'] / 60:,.0f} minutes.",
        "",
        "| model | kill -9 | power cut | recovery stopped, too |",
        "|---|---|---|---|",
    ]
    for model, depths in sorted(sums["sums"].items()):
        rows.append(f"| {model} | {' | '.join(f'{depths.get(str(depth), 0):,}' for depth in (0, 1, 2))} |")
    return "\n".join(rows)
