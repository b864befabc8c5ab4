"""How everything here is measured: interleaved rounds, medians, ratios within one run.

A *case* is something to run, that tells what it cost; a *line* compares cases. All cases of a line take turns within
each round, and the round begins with another one each time, so that what else happens on the machine hits all of them
alike.
"""

from __future__ import annotations

import gc
import resource
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Cost = Mapping[str, float]
Case = Callable[[], Cost]
TOLD = 0.1  # a spread above this part of the figure is told


class Unavailable(Exception):
    """A line cannot be measured here; the text says why."""


class Series:
    """A figure made of medians, and what each round alone would have given.

    Two figures are subtracted and divided as medians, and round by round beside: a ratio of medians knows its spread.
    """

    def __init__(self, rounds: Sequence[float], figure: float | None = None) -> None:
        self.rounds = rounds
        self.figure = statistics.median(rounds) if figure is None else figure

    def __sub__(self, other: Series) -> Series:
        pairs = zip(self.rounds, other.rounds, strict=True)
        return Series([one - less for one, less in pairs], self.figure - other.figure)

    def __truediv__(self, other: Series | float) -> Series:
        if not isinstance(other, Series):
            return Series([one / other for one in self.rounds], self.figure / other)
        pairs = zip(self.rounds, other.rounds, strict=True)
        return Series([one / by if by else 0.0 for one, by in pairs], self.figure / other.figure)

    @property
    def spread(self) -> tuple[float, float] | None:
        """The least and the greatest round, if they lie further apart than a tenth of the figure."""
        low, high = min(self.rounds), max(self.rounds)
        return (low, high) if high - low > TOLD * abs(self.figure) else None


@dataclass(frozen=True)
class Result:
    """What was found of a line: the figure as its bar is put, and the figures behind it."""

    ratio: Series
    detail: Mapping[str, Any] = field(default_factory=dict)


class Found:
    """What cases cost: `found["java cpu"]` is the case's name and one of the costs that it told."""

    def __init__(self, costs: Mapping[str, Sequence[Cost]]) -> None:
        self._series = {
            f"{name} {key}": Series([cost[key] for cost in rounds])
            for name, rounds in costs.items()
            for key in rounds[0]
        }

    def __getitem__(self, name: str) -> Series:
        return self._series[name]

    def best(self, *names: str) -> Series:
        """The case with the least cost: the peer at its best."""
        return min((self[name] for name in names), key=lambda one: one.figure)

    def result(self, ratio: Series, **more: Any) -> Result:
        """A result with the medians of all cases behind it."""
        return Result(ratio, {name: float(f"{one.figure:.4g}") for name, one in self._series.items()} | more)


@dataclass
class Context:
    """What every line needs: where to put data, how much, how often."""

    scratch: Path
    mib: int  # of a log
    rounds: int
    quick: bool
    oracle: Path | None = None
    say: Callable[[str], None] = print
    stores: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def folder(self, name: str) -> Iterator[Path]:
        """An empty folder that is removed afterwards."""
        path = self.scratch / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)


def used(who: int = resource.RUSAGE_SELF) -> float:
    """Processor seconds so far, of this process or of the children that ended."""
    found = resource.getrusage(who)
    return found.ru_utime + found.ru_stime


def timed(work: Callable[[], Any]) -> Case:
    """A case that costs seconds of wall clock, and of the processor (children included)."""

    def run() -> Cost:
        gc.collect()
        began, before = time.perf_counter(), used() + used(resource.RUSAGE_CHILDREN)
        work()
        after = used() + used(resource.RUSAGE_CHILDREN)
        return {"wall": time.perf_counter() - began, "cpu": after - before}

    return run


def measure(
    context: Context,
    cases: Mapping[str, Case],
    *,
    warm: bool = False,
    before: Callable[[], object] | None = None,
    rounds: int = 0,
) -> Found:
    """What each case costs over interleaved rounds; `warm`: a round before the first that is not counted.

    `before` runs ahead of every single run and is not counted (to clear an output directory). `rounds`: as many at
    least, if the run is not a quick one.
    """
    names = list(cases)
    found: dict[str, list[Cost]] = {name: [] for name in names}
    for number in range(-1 if warm else 0, context.rounds if context.quick else max(context.rounds, rounds)):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            if before is not None:
                before()
            cost = cases[name]()
            if number >= 0:
                found[name].append(cost)
    return Found(found)
