"""Runs power cuts on a simulated disk, from the command line.

    python -m labs.sim.crash --states 20000 [--jobs 2] [--state-file FILE] [--report
        docs/internals/reliability.md]
    python -m labs.sim.crash --seed 81723 --model ext4 --cut 214 --state 9
    python -m labs.sim.crash --sync-in-caller --states 20000
    python -m labs.sim.crash --pairs --states 20000

The first form explores cases of all models, each cut at every call, and resumes where it was stopped. The second makes
one state again, as a failure printed it; without `--cut` it explores the whole case, with `--faults` it fails its
calls. `--sync-in-caller` explores the same cases with puts that sync themselves (their seeds are larger), `--pairs`
cases of a master and its follower.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from labs.sim import long_run, pair_long_run
from labs.torture import figures
from tests.sim import pair_faults
from tests.sim.disk import MODELS
from tests.sim.explorer import Explorer, shrunk
from tests.sim.faults import Swept, sweep
from tests.sim.pair_explorer import PairExplorer
from tests.sim.pair_run import PairCase
from tests.sim.run import Case

STATE = Path("artifacts/crash-sim.json")
IN_CALLER_STATE = Path("artifacts/crash-sim-in-caller.json")
PAIRS_STATE = Path("artifacts/crash-sim-pairs.json")


def parsed() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m labs.sim.crash", description="Power cuts on a simulated disk.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--states", type=int, help="explore cases until N states were compared")
    what.add_argument("--seed", type=int, help="one case")
    parser.add_argument("--pairs", action="store_true", help="cases of a master and its follower")
    parser.add_argument("--sync-in-caller", action="store_true", help="puts sync themselves (with --states)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (with --states)")
    parser.add_argument("--state-file", type=Path, help="keeps the progress of --states")
    parser.add_argument("--report", type=Path, help="the page with the marks of the sums (with --states)")
    parser.add_argument("--model", choices=MODELS, default="ext4", help="of the disk (with --seed)")
    parser.add_argument("--cut", type=int, help="only this call (with --seed)")
    parser.add_argument("--state", type=int, help="only this state there (with --cut)")
    parser.add_argument("--per-cut", type=int, default=8, help="at most N states at one call (with --seed)")
    parser.add_argument("--shrink", action="store_true", help="drop operations that are not needed to fail")
    parser.add_argument("--faults", action="store_true", help="fail every call instead of stopping there")
    return parser.parse_args()


@long_run.silenced()
def main() -> int:
    """Explore many cases, or one, or one state of one."""
    words = parsed()
    if words.pairs:
        return _pairs(words)
    if words.states is not None:
        path, explored = STATE, long_run.explored
        if words.sync_in_caller:
            path, explored = IN_CALLER_STATE, long_run.explored_in_caller
        sums = long_run.go_on(words.states, max(words.jobs, 1), words.state_file or path, explored)
        print(*figures.shown(long_run.NAME, long_run.series(sums)), *sums["failed"][:5], sep="\n")
        if words.report is not None:
            figures.record(words.report, long_run.NAME, long_run.series(sums))
        return 1 if sums["failed"] else 0
    case = Case.of(words.seed, words.model)
    if words.faults:
        return _swept(sweep(case))
    found = Explorer(case, words.per_cut, words.cut, words.state).go()
    print(f"trace {found.trace:08x}, {found.counts.total() + found.again} states, {len(found.failures)} wrong")
    for failure in found.failures[:5]:
        print(f"{failure.replay}\n  depth {failure.depth}: {failure.what}")
    if found.failures and words.shrink:
        print(*shrunk(case, words.per_cut).ops, sep="\n")
    return 1 if found.failures else 0


def _swept(swept: Swept) -> int:
    """Tell what failing calls did."""
    print(f"{swept.runs} runs, {swept.states} states, {len(swept.failures)} wrong", *swept.failures[:5], sep="\n")
    return 1 if swept.failures else 0


def _pairs(words: argparse.Namespace) -> int:
    """Explore many cases of a pair, or one, or one state of one."""
    if words.states is not None:
        path = words.state_file or PAIRS_STATE
        sums = long_run.go_on(words.states, max(words.jobs, 1), path, pair_long_run.explored)
        print(*figures.shown(pair_long_run.NAME, pair_long_run.series(sums)), *sums["failed"][:5], sep="\n")
        if words.report is not None:
            figures.record(words.report, pair_long_run.NAME, pair_long_run.series(sums))
        return 1 if sums["failed"] else 0
    if words.faults:
        return _swept(pair_faults.sweep(PairCase.of(words.seed, words.model)))
    found = PairExplorer(PairCase.of(words.seed, words.model), words.per_cut, words.cut, words.state).go()
    print(f"trace {found.trace:08x}, {found.counts.total()} states, {len(found.failures)} wrong")
    for failure in found.failures[:5]:
        print(f"{failure.replay}\n  depth {failure.depth}: {failure.what}")
    return 1 if found.failures else 0


if __name__ == "__main__":
    sys.exit(main())
