"""Runs the crash explorer over many cases, resumes where it was stopped, tells what was counted."""

from __future__ import annotations

import gc
import json
import logging
import subprocess
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import flintmq
from labs.torture import figures, report
from tests.sim import disk
from tests.sim.disk import MODELS
from tests.sim.explorer import Explorer
from tests.sim.faults import sweep
from tests.sim.run import CONSUMING, IN_CALLER, PAIRS, SHORT, Case

NAME = "crash-sim"
SWEEP_EACH = 200  # one case in this many has its calls failed instead of its machine stopped
AHEAD = 64  # cases per process that are queued before the first is done: one may take minutes
KEEP_S = 5.0  # between two saves of the progress
PLAIN = ("again", "torn", "runs", "after_faults", "consuming")  # plain sums of the state


def case_of(number: int) -> tuple[int, str]:
    """Return (seed, model) of a case of the long run.

    Short cases and drawn ones take turns, each with one model only at first. One drawn case in four has consumers. If
    no sync fails, `journal` and `ext4` leave the same states: the same case with both would count them twice.
    """
    half, drawn = divmod(number, 2)
    if drawn:
        return (CONSUMING if half % 4 == 3 else SHORT + 10_000) + half, MODELS[half % len(MODELS)]
    # Short cases in a mixed order: the step and their number have no common divisor.
    times, at = divmod(half, SHORT)
    seed = at * 7919 % PAIRS if at < PAIRS else PAIRS + (at - PAIRS) * 7919 % (SHORT - PAIRS)
    return seed, MODELS[(at + times) % len(MODELS)]


@contextmanager
def silenced() -> Iterator[None]:
    """Disable log lines within the block: a store broken on purpose logs thousands of them."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


Job = Callable[[int], dict[str, Any]]


@silenced()
def explored(number: int, more: int = 0) -> dict[str, Any]:
    """Explore one case of the long run; return its contribution to the state.

    `more`: added to its seed.
    """
    seed, model = case_of(number)
    seed += more
    case = Case.of(seed, model)
    if number % SWEEP_EACH == SWEEP_EACH - 1:
        swept = sweep(case)
        failed = [f"sweep of seed {seed}, {model}: {failure}" for failure in swept.failures[:3]]
        found: dict[str, Any] = {"runs": swept.runs, "after_faults": swept.states}
    else:
        explorer = Explorer(case, 8).go()
        failed = [json.dumps(asdict(failure)) + "\n" + failure.replay for failure in explorer.failures[:3]]
        found = {"counts": dict(explorer.counts), "torn": explorer.torn, "again": explorer.again}
        found["consuming"] = int(case.is_consuming)
    gc.collect(1)  # the stores of the case, which outlived the explorer's collections
    return {"model": model, "counts": {}, **dict.fromkeys(PLAIN, 0), "failed": failed} | found


def explored_in_caller(number: int) -> dict[str, Any]:
    """Explore the case of this number as `explored` does, with puts that sync themselves."""
    return explored(number, IN_CALLER)


def _ready() -> None:
    """Prepare a process that explores: collect garbage rarely, which saves a fifth of the time."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def go_on(states: int, jobs: int, path: Path, explored: Job = explored) -> dict[str, Any]:
    """Explore until `states` states were compared, in all runs; return the sums, kept in `path`.

    Cases are added up in order. A case that was unfinished when the run was stopped is begun again.

    Args:
        states, jobs, path: how many, in how many processes, where the sums are.
        explored: explores the case of a number.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    empty = {"next": 0, "seconds": 0.0, "sums": {}, **dict.fromkeys(PLAIN, 0), "commits": {}}
    empty |= {
        "failed": [],
        "mended": [],
    }  # by hand from one to the other, when it is mended
    sums: dict[str, Any] = empty | (json.loads(path.read_text()) if path.exists() else {})
    commit, begun, before = commit_now(), sums["next"], sums["seconds"]
    began = kept = time.monotonic()
    with ProcessPoolExecutor(jobs, initializer=_ready) as pool:
        ahead: deque[Future[dict[str, Any]]] = deque()
        try:
            while total(sums) < states:
                while len(ahead) < AHEAD * jobs:
                    ahead.append(pool.submit(explored, begun))
                    begun += 1
                _add(sums, ahead.popleft().result(), commit)
                sums["seconds"] = round(before + time.monotonic() - began, 1)
                if time.monotonic() - kept > KEEP_S or total(sums) >= states:
                    kept = time.monotonic()
                    _keep(path, sums)
                    rate = total(sums) / max(sums["seconds"], 1e-9)
                    print(f"{total(sums):,} states, {rate:.0f}/s, {len(sums['failed'])} wrong", flush=True)
        finally:
            pool.shutdown(cancel_futures=True)
    return sums


def _add(sums: dict[str, Any], one: dict[str, Any], commit: str) -> None:
    """Add a case to the sums."""
    depths = Counter(sums["sums"].get(one["model"], {}))
    depths.update({str(depth): count for depth, count in one["counts"].items()})
    sums["sums"][one["model"]] = dict(depths)
    for name, number in one.items():
        if isinstance(number, int):
            sums[name] = sums.get(name, 0) + number
    sums["failed"] += one["failed"]
    sums["next"] += 1
    sums["commits"][commit] = sums["commits"].get(commit, 0) + 1


def _keep(path: Path, sums: dict[str, Any]) -> None:
    """Write the sums atomically: a stop leaves the old ones or the new ones."""
    new = path.with_name(path.name + ".new")
    new.write_text(json.dumps(sums, indent=1) + "\n")
    new.replace(path)


def commit_now() -> str:
    """Return the commit of the package and of the explorers, with + if they changed since; - if unknown."""
    here, explorers = Path(__file__).parent, Path(disk.__file__).parent

    def git(*words: str | Path) -> str:
        return subprocess.run(["git", *words], capture_output=True, text=True, cwd=here).stdout.strip()

    commit = git("rev-parse", "--short", "HEAD")
    changed = git("status", "--porcelain", "--", here, explorers, Path(flintmq.__file__).parent)
    return commit + ("+" if changed else "") or "-"


def total(sums: dict[str, Any]) -> int:
    """Count the different states of power cuts, of all models and depths."""
    return sum(count for depths in sums["sums"].values() for depth, count in depths.items() if depth != "0")


def commits(name: str, sums: dict[str, Any]) -> list[str]:
    """The commits of a long run, each with the day on which it was first reported."""
    known = {entry.partition(",")[0]: entry for one in figures.read(name) for entry in one.done}
    return [known.get(f"commit {commit}", f"commit {commit}, {report.today()}") for commit in sums["commits"]]


def series(sums: dict[str, Any]) -> figures.Series:
    """What the run has counted.

    Torn records are told apart: no checksum covers a record's header, so an unacknowledged record above the mark may
    have a torn store time, or queue id 0 where exactly its offset was due. `enabledAppendPropCRC` excludes that.
    """
    told = {
        "cases": sums["next"], "cases with consumers": sums["consuming"], "wrong": len(sums["failed"]),
        "led to a mend": len(sums["mended"]), "compared once more, as other answers had been given": sums["again"],
        "runs with a call that failed": sums["runs"], "states after them": sums["after_faults"],
        "records with a torn store time or queue id": sums["torn"], "minutes": round(sums["seconds"] / 60),
        "cases of a commit": sums["commits"],
    }  # fmt: skip
    rows = []
    for model, depths in sorted(sums["sums"].items()):
        numbers = [depths.get(str(depth), 0) for depth in (0, 1, 2, 3)]
        rows.append([model, *numbers, sum(numbers[1:])])
    columns = [
        "model",
        "states after kill -9",
        "power cut",
        "recovery stopped, too",
        "and its recovery",
        "states of power cuts",
    ]
    return figures.Series(columns, rows, commits(NAME, sums), told)
