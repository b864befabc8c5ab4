"""How everything here is measured: interleaved rounds, medians, ratios within one run.

A *case* is something to run; a *line* compares cases. All cases of a line take turns within each round, and the round
begins with another one each time, so that what else happens on the machine hits all of them alike.
"""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class Unavailable(Exception):
    """A line cannot be measured here; the text says why."""


@dataclass(frozen=True)
class Sample:
    """Medians over the rounds: seconds of wall clock, and of processor (user and system, children included)."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Result:
    """One measured ratio.

    Attributes:
        id: such as "P9b.map.100B"; the part before the first dot is the line of the design.
        what: the comparison in words.
        ratio: as the bar is put.
        bar: what must hold; None: the figure is the result.
        at_most: the ratio must not exceed the bar; else it must reach it.
        moonshot: where it could go, None if nothing was said.
        bound: what bounds it.
        detail: figures behind it.
    """

    id: str
    what: str
    ratio: float
    bar: float | None = None
    at_most: bool = False
    moonshot: float | None = None
    bound: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def holds(self) -> bool | None:
        """Whether the bar holds; None if there is none."""
        if self.bar is None:
            return None
        return self.ratio <= self.bar if self.at_most else self.ratio >= self.bar


@dataclass
class Context:
    """What every line needs: where to put data, how much, how often."""

    scratch: Path
    mib: int  # of a log
    rounds: int
    quick: bool
    keep: bool = False
    oracle: Path | None = None
    wanted: tuple[str, ...] = ()
    beside: Path | None = None  # a built checkout of an earlier commit
    say: Callable[[str], None] = print
    stores: dict[str, Any] = field(default_factory=dict)
    shared: dict[str, Any] = field(default_factory=dict)  # what lines of one family share, such as a Spark session


def clock() -> tuple[float, float]:
    times = os.times()
    return time.perf_counter(), times.user + times.system + times.children_user + times.children_system


def once(case: Callable[[], Any]) -> Sample:
    """Run a case once."""
    gc.collect()
    wall, cpu = clock()
    case()
    after_wall, after_cpu = clock()
    return Sample(after_wall - wall, after_cpu - cpu)


def measure(
    context: Context,
    cases: Mapping[str, Callable[[], Any]],
    *,
    warm: bool = True,
    before: Callable[[], None] | None = None,
) -> dict[str, Sample]:
    """Medians of each case over interleaved rounds; `warm`: a round before the first that is not counted.

    `before` runs ahead of every single run and is not counted (to clear an output directory).
    """
    names = list(cases)
    found: dict[str, list[Sample]] = {name: [] for name in names}
    for number in range(-1 if warm else 0, context.rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            if before is not None:
                before()
            sample = once(cases[name])
            if number >= 0:
                found[name].append(sample)
    return {
        name: Sample(statistics.median(s.wall for s in samples), statistics.median(s.cpu for s in samples))
        for name, samples in found.items()
    }


def figures(samples: Mapping[str, Sample]) -> dict[str, float]:
    """Seconds of each case, for a result's detail."""
    return {name: round(sample.wall, 4) for name, sample in samples.items()}
