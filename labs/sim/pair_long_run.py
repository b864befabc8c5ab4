"""Runs the crash explorer of pairs over many cases, resumes, tells what was counted."""

from __future__ import annotations

import gc
import json
from dataclasses import asdict
from typing import Any, Final

from labs.sim.long_run import SWEEP_EACH, commits, silenced
from labs.torture import figures
from tests.sim import pair_faults
from tests.sim.disk import MODELS
from tests.sim.pair_explorer import PairExplorer
from tests.sim.pair_run import PairCase

NAME: Final = "crash-sim-pairs"


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


def series(sums: dict[str, Any]) -> figures.Series:
    """What the run has counted; resyncs since 26 November 2026.

    Told apart: after a power cut a record above what was on disk may differ in bytes that no checksum covers. Where it
    is the last one, comparing with the master refuses it as diverged, and `flintmq follow --resync` mends it.
    """
    told = {
        "cases": sums["next"], "wrong": len(sums["failed"]), "led to a mend": len(sums["mended"]),
        "followed to the end": sums["followed"], "had to refuse the master that there was by then": sums["others"],
        "opened as a master": sums["mastered"], "went on with --resync": sums.get("resynced", 0),
        "stopped amid it": sums.get("resyncs_stopped", 0),
        "no record in common with the master": sums.get("without", 0),
        "refusals in the cases themselves": sums["refusals"],
        "states with a record above what was on disk whose bytes no checksum covers": sums["torn"],
        "runs with a call that failed": sums.get("runs", 0), "states after them": sums.get("after_faults", 0),
        "minutes": round(sums["seconds"] / 60), "cases of a commit": sums["commits"],
    }  # fmt: skip
    rows = []
    for model, depths in sorted(sums["sums"].items()):
        numbers = [depths.get(str(depth), 0) for depth in (0, 1, 2, 3)]
        rows.append([model, *numbers[:3], sum(numbers[1:])])
    columns = ["model", "states after kill -9", "power cut", "recovery stopped, too", "states of power cuts"]
    return figures.Series(columns, rows, commits(NAME, sums), told)
