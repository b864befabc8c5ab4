"""Summarises streams of values in bounded memory; summaries can be merged.

Each has `add` (values of one batch) and `merge` (the same kind from another task, which was pickled). The exact parts
of the results do not depend on the order in which summaries are merged.

    Top         the most frequent names with their sums: exact until there are too many names, then within `missed`
    Repeats     how many values there are, and how many occur more than once: exact until there are too many, then an
                even sample by hash (all tasks keep the same values), with standard errors
    Histogram   quantiles of whole numbers within 1/32; their least, largest and count exactly
    Series      sums over time in buckets that widen as the span of time grows; exact, but names that are too many are
                counted together
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import add
from typing import Any

import numpy as np
import numpy.typing as npt

from flintmq.config.text import DAY_MS

Numbers = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
FOLDS: dict[str, Callable[[int, int], int]] = {"+": add, "<": min, ">": max}


def _folded(folds: Sequence[Callable[[int, int], int]], known: list[int] | None, row: Sequence[int]) -> list[int]:
    """Return a row combined with what is known of its name."""
    return [*row] if known is None else [fold(one, other) for fold, one, other in zip(folds, known, row, strict=True)]


class Top:
    """Names with rows of numbers; at most `most` names, those whose first number is largest.

    Up to twice as many are held. `folds`: how each number of a row is combined with another: "+" sum, "<" least, ">"
    largest.

    `missed`: a name's count exceeds its row by this at most; a name that is not in `rows` has this count at most.
    """

    def __init__(self, most: int, folds: str) -> None:
        self.most, self.folds = most, [FOLDS[fold] for fold in folds]
        self.rows: dict[str, list[int]] = {}
        self.missed = 0

    def add(self, name: str, row: Sequence[int]) -> None:
        self.rows[name] = _folded(self.folds, self.rows.get(name), row)
        if len(self.rows) > 2 * self.most:
            self.prune()

    def prune(self) -> None:
        """Drop the names with the least counts, down to `most`."""
        if len(self.rows) > self.most:
            names = self.ordered()
            self.missed += self.rows[names[self.most]][0]
            self.rows = {name: self.rows[name] for name in names[: self.most]}

    def ordered(self) -> list[str]:
        """Return the names by count, largest first; equal ones by name."""
        return sorted(self.rows, key=lambda name: (-self.rows[name][0], name))

    def merge(self, other: Top) -> None:
        self.missed += other.missed
        for name, row in other.rows.items():
            self.rows[name] = _folded(self.folds, self.rows.get(name), row)
        if len(self.rows) > 2 * self.most:
            self.prune()

    def __getstate__(self) -> dict[str, Any]:
        """At most `most` names leave a task."""
        self.prune()
        return vars(self)


class Repeats:
    """Counts how often values occur, by their 64-bit hashes.

    Only hashes whose first `level` bits are zero are kept; the level rises when there are more than `most`. Each kept
    value is counted exactly, and represents 2^level values. `occurrences` are those of all values.
    """

    def __init__(self, most: int) -> None:
        self.most, self.level, self.occurrences = most, 0, 0
        self.hashes: Hashes = np.empty(0, np.uint64)  # in their order, each once
        self.counts: Numbers = np.empty(0, np.int64)

    def add(self, hashes: Hashes, counts: Numbers) -> None:
        """Count values, each given once by its hash."""
        self.occurrences += int(counts.sum())
        self._add(hashes, counts)

    def _add(self, hashes: Hashes, counts: Numbers) -> None:
        while True:
            kept = hashes <= self._last
            hashes, counts = hashes[kept], counts[kept]
            if len(hashes) <= self.most:
                break
            self._rise(self.level + 1)
        if not len(hashes):
            return
        hashes, counts = np.concatenate([self.hashes, hashes]), np.concatenate([self.counts, counts])
        order = np.argsort(hashes)
        hashes, counts = hashes[order], counts[order]
        begins = np.flatnonzero(np.concatenate([[True], hashes[1:] != hashes[:-1]]))
        self.hashes, self.counts = hashes[begins], np.add.reduceat(counts, begins)
        while len(self.hashes) > self.most:
            self._rise(self.level + 1)

    @property
    def _last(self) -> np.uint64:
        """Return the largest hash that is kept."""
        return np.uint64((1 << 64 - self.level) - 1)

    def _rise(self, level: int) -> None:
        self.level = max(level, self.level)
        kept = np.searchsorted(self.hashes, self._last, "right")
        self.hashes, self.counts = self.hashes[:kept], self.counts[:kept]

    def merge(self, other: Repeats) -> None:
        self.occurrences += other.occurrences
        self._rise(other.level)
        self._add(other.hashes, other.counts)

    def answer(self, largest: int = 1) -> dict[str, Any]:
        """Return `distinct` values, those `repeated`, and the `surplus` beyond the first of each.

        `exact` says whether they are exact; otherwise `distinct_error`, `repeated_error` and `error` (that of the
        surplus) are their standard errors.

        Args:
            largest: how often the most frequent value is known to occur. The sample may lack it, so its own errors
                would be too small: the surplus then comes from `occurrences` and the distinct values.
        """
        more = self.counts[self.counts > 1] - 1
        scale = 1 << self.level
        distinct, surplus = len(self.counts) * scale, int(more.sum()) * scale

        def error(squares: float) -> int:
            return round(math.sqrt(scale * (scale - 1) * squares))

        unseen = max(1, largest - 1) ** 2  # also where the sample has none that repeats
        squares = float(np.square(more.astype(np.float64)).sum()) + unseen
        errors = error(len(self.counts)), error(len(more) or 1), error(squares)
        if errors[0] < errors[2]:
            surplus, errors = max(0, self.occurrences - distinct), (errors[0], errors[1], errors[0])
        return {
            "distinct": distinct,
            "repeated": len(more) * scale,
            "surplus": surplus,
            "exact": self.level == 0,
            "error": errors[2],
            "distinct_error": errors[0],
            "repeated_error": errors[1],
        }


STEPS = 32  # of a histogram, from one power of two to the next
SMALL = 1 << 15


class Histogram:
    """Counts of non-negative whole numbers in cells with 1/32 of their width; below 32 exact."""

    def __init__(self) -> None:
        self.cells: Counter[int] = Counter()
        self.least: int | None = None
        self.largest: int | None = None
        self.sum = 0

    def add(self, values: Numbers) -> None:
        """Count values; negative ones must be counted elsewhere."""
        if not len(values):
            return
        self._ends(int(values.min()), int(values.max()))
        assert self.least is not None and self.least >= 0  # a negative one has no cell
        high, low = (int(half.sum()) for half in (values >> 32, values & 0xFFFFFFFF))  # neither sum leaves 64 bits
        self.sum += (high << 32) + low
        if values.max() < SMALL:  # of such values fewer differ than there are: cells of those are quicker
            among = np.bincount(values)
            values = np.flatnonzero(among)
            counts = np.bincount(cell_of(values), among[values]).astype(np.int64)  # of floats: exact below 2**53
        else:
            counts = np.bincount(cell_of(values))
        cells = np.flatnonzero(counts)
        self.cells.update(dict(zip(cells.tolist(), counts[cells].tolist(), strict=True)))

    def _ends(self, least: int, largest: int) -> None:
        self.least = least if self.least is None else min(least, self.least)
        self.largest = largest if self.largest is None else max(largest, self.largest)

    def merge(self, other: Histogram) -> None:
        if other.least is not None and other.largest is not None:
            self._ends(other.least, other.largest)
        self.sum += other.sum
        self.cells.update(other.cells)

    @property
    def count(self) -> int:
        return sum(self.cells.values())

    def quantile(self, part: float) -> int | None:
        """Return the value that this part of all does not exceed, at most 1/32 too large.

        The result is None without values.
        """
        wanted, seen = part * self.count, 0
        for cell in sorted(self.cells):
            seen += self.cells[cell]
            if seen >= wanted:
                return min(cell_begin(cell + 1) - 1, self.largest or 0)
        return self.largest

    def answer(self) -> dict[str, Any]:
        """Return count, mean, least, quantiles, largest; each None without values.

        `quantile_error`: the part of itself by which a quantile may be too large; none is too small.
        """
        quantiles = {f"p{name}": self.quantile(part) for name, part in (("50", 0.5), ("90", 0.9), ("99", 0.99))}
        mean = round(self.sum / self.count, 3) if self.cells else None
        ends = {"least": self.least, **quantiles, "largest": self.largest}
        return {"count": self.count, "mean": mean, **ends, "quantile_error": 1 / STEPS}


def cell_of(values: Numbers) -> Numbers:
    bits = np.maximum(np.frexp(values.astype(np.float64))[1], 6).astype(np.int64)
    shift = bits - 6  # leaves 32 to 63 for values of 32 and more
    # A float rounds large values up to the next power of two: they belong at the end of the one below.
    over = (values >> shift) < STEPS
    shift = np.where(over & (shift > 0), shift - 1, shift)
    return (values >> shift) + STEPS * shift


def cell_begin(cell: int) -> int:
    if cell < 2 * STEPS:
        return cell
    shift = cell // STEPS - 1
    return (cell - STEPS * shift) << shift


# ms; each divides the next, so that buckets can be joined.
WIDTHS = [
    *(1, 5, 10, 50, 100, 500, 1000, 5000, 10_000, 30_000),
    *(minutes * 60_000 for minutes in (1, 5, 10, 30, 60, 360, 1440)),
    *(days * DAY_MS for days in (5, 10, 50, 100, 500, 1000, 5000, 10_000, 100_000, 1_000_000)),
]


assert all(wide % narrow == 0 for narrow, wide in pairwise(WIDTHS))


class Series:
    """Rows of numbers by time and name, in buckets of one width out of WIDTHS.

    Args:
        most: cells that are held: above, the buckets become wider.
        names: number of names with separate cells; later names are counted under "".

    Attributes:
        cells: (bucket, name) -> numbers; a bucket is a time in ms divided by the width. A name in it is there with all
            its numbers: one that a merged part counted under "" is counted so for all.
        full: names that are not in `cells` may be under "".
    """

    def __init__(self, most: int, names: int, folds: str) -> None:
        self.most, self.most_names = most, names
        self.folds = [FOLDS[fold] for fold in folds]
        self.step = 0
        self.cells: dict[tuple[int, str], list[int]] = {}
        self.names: set[str] = {""}
        self.full = False

    @property
    def width(self) -> int:
        """Width of a bucket in ms."""
        return WIDTHS[self.step]

    def add(self, bucket: int, name: str, row: Sequence[int]) -> None:
        if name not in self.names:
            self.full = self.full or len(self.names) > self.most_names
            name = "" if self.full else name
            self.names.add(name)
        key = bucket, name
        self.cells[key] = _folded(self.folds, self.cells.get(key), row)

    def settle(self) -> None:
        """Widen the buckets until there are not too many cells."""
        while len(self.cells) > self.most and self.step < len(WIDTHS) - 1:
            self.widen(self.step + 1)

    def widen(self, step: int) -> None:
        if step > self.step:
            factor = WIDTHS[step] // self.width
            before, self.cells, self.step = self.cells, {}, step
            for (bucket, name), row in before.items():
                self.add(bucket // factor, name, row)

    def merge(self, other: Series) -> None:
        self.widen(other.step)
        factor = self.width // other.width
        for (bucket, name), row in other.cells.items():
            self.add(bucket // factor, name, row)
        if other.full:
            before, self.cells, self.full = self.cells, {}, True
            self.names &= other.names
            for (bucket, name), row in before.items():
                self.add(bucket, name, row)
        self.settle()
