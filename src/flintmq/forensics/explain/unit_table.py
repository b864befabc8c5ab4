"""Explains files of equal units: queues, timer wheels, slots and items of an index.

An overview gives the first units a line each and counts the rest in runs of one sort. For a position, the unit there is
explained field by field, and its neighbours get a line each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from flintmq.forensics.explain.lines import Line
from flintmq.forensics.explain.source import FileLook

BLOCK: Final = 1 << 16
MOST_RUNS: Final = 20  # lines about runs; later runs share one line
ZEROS: Final = "zeros"
UNITS: Final = "units"
SEVERAL: Final = "several"


class Units(Protocol):
    """Explains the units of one kind of file.

    Attributes:
        noun: `unit`, `slot`; plural: `units`, `slots`.
        width: bytes.
        first: number of the first one.
        plain: there are only the sorts ZEROS and UNITS.
    """

    noun: str
    plural: str
    width: int
    first: int
    plain: bool

    def sort(self, data: bytes) -> str:
        """Classify a unit: ZEROS, UNITS, or another sort, which also names its runs."""

    def meaning(self, sort: str) -> str:
        """Return the meaning of a run of this sort."""

    def line(self, number: int, data: bytes, position: int) -> Line:
        """Return one unit in a line."""

    def fields(self, number: int, data: bytes, position: int) -> Iterator[Line]:
        """Yield one unit field by field; findings besides the lines go to the look."""


class Plain:
    """Base of units that are either used or zeros."""

    plain = True

    def sort(self, data: bytes) -> str:
        """Classify a unit as UNITS or ZEROS."""
        return UNITS if any(data) else ZEROS


class UnitTable:
    """The units in [begin, end) of the file.

    Attributes:
        counts: sort -> number of units, after the overview.
    """

    def __init__(self, look: FileLook, units: Units, begin: int, end: int, most_runs: int = MOST_RUNS) -> None:
        self.look, self.units, self.begin, self.end, self.most_runs = look, units, begin, end, most_runs
        self.stop = begin + (end - begin) // units.width * units.width
        self.counts: dict[str, int] = {}
        self._shown = 0  # units that got a line of their own

    def overview(self) -> Iterator[Line]:
        """Yield lines for every byte: the first units, and runs of the rest."""
        runs = 0
        run: tuple[int, str, int] | None = None  # begin, sort, units
        for position, count, sort, data in self._sorted():
            self.counts[sort] = self.counts.get(sort, 0) + count
            if sort != ZEROS and self._shown < self.look.limit:
                if run is not None:
                    yield self._run(*run)
                    runs, run = runs + 1, None
                self._shown += 1
                yield self.units.line(self._number(position), data, position)
            elif run is not None and (run[1] == sort or runs >= self.most_runs):
                run = run[0], sort if run[1] == sort else SEVERAL, run[2] + count
            else:
                if run is not None:
                    yield self._run(*run)
                    runs += 1
                run = position, sort, count
        if run is not None:
            yield self._run(*run)
        yield from self.rest()

    def at(self, position: int) -> Iterator[Line]:
        """Yield the fields of the unit at `position`, its neighbours, and a line for the rest."""
        if position >= self.stop:
            yield from self._uncounted(self.begin, self.stop)
            yield from self.rest()
            return
        width = self.units.width
        here = position - (position - self.begin) % width
        before = max(here - width, self.begin)
        yield from self._uncounted(self.begin, before)
        if before < here:
            yield self._one(before)
        yield from self.units.fields(self._number(here), self.look.source.read(width, here), here)
        after = min(here + width * (1 + self.look.limit), self.stop)
        for next_ in range(here + width, after, width):
            yield self._one(next_)
        yield from self._uncounted(after, self.stop)
        yield from self.rest()

    def _number(self, position: int) -> int:
        return self.units.first + (position - self.begin) // self.units.width

    def _one(self, position: int) -> Line:
        data = self.look.source.read(self.units.width, position)
        if self.units.sort(data) == ZEROS:
            return self._run(position, ZEROS, 1)
        return self.units.line(self._number(position), data, position)

    def _run(self, begin: int, sort: str, count: int) -> Line:
        end = begin + count * self.units.width
        number = self._number(begin)
        noun = self.units.noun if count == 1 else self.units.plural
        numbers = f"{number}" if count == 1 else f"{number} to {number + count - 1}"
        name, meaning = (
            (sort, self.units.meaning(sort)) if sort != SEVERAL else (self.units.plural, "used and unused ones")
        )
        if sort == UNITS:
            name = self.units.plural
        return self.look.range(begin, end, name, count, f"{count} {noun}: {numbers}", meaning)

    def _uncounted(self, begin: int, end: int) -> Iterator[Line]:
        if begin < end:
            count = (end - begin) // self.units.width
            yield self.look.range(
                begin,
                end,
                self.units.plural,
                count,
                f"{count} {self.units.noun if count == 1 else self.units.plural}",
                "not looked at",
            )

    def rest(self) -> Iterator[Line]:
        """Yield a line for the bytes at the end that are too short for a unit."""
        if self.stop < self.end:
            yield self.look.range(
                self.stop, self.end, "rest", None, f"{self.end - self.stop} bytes",
                f"too short for a {self.units.noun}", f"the file does not end with a whole {self.units.noun}",
            )  # fmt: skip

    def _sorted(self) -> Iterator[tuple[int, int, str, bytes]]:
        """Yield (position, units, sort, bytes of the unit), with zeros as one entry."""
        width, source, position = self.units.width, self.look.source, self.begin
        size = BLOCK // width * width
        while position < self.stop:
            data_at = source.zeros_until(position, self.stop)
            zeros = (data_at - position) // width
            if zeros:
                yield position, zeros, ZEROS, b""
                position += zeros * width
                continue
            block = source.read(min(size, self.stop - position), position)
            if self.units.plain and self._shown >= self.look.limit and bytes(width) not in block:
                yield position, len(block) // width, UNITS, b""  # none of them can be zeros
                position += len(block)
                continue
            for at in range(0, len(block), width):
                unit = block[at : at + width]
                sort = self.units.sort(unit)
                yield position + at, 1, sort, unit
            position += len(block)
