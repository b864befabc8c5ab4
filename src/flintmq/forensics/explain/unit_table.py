"""Explains files of equal units: queues, timer wheels, slots and items of an index.

A kind of unit is a subclass of UnitTable: its layout, a table of its sorts, and its remarks. An overview gives the
first units a line each and counts the rest in runs of one sort. For a position, the unit there is explained field by
field, and its neighbours get a line each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from flintmq.forensics.explain.lines import Line, Remark, field_lines
from flintmq.forensics.explain.source import FileLook
from flintmq.format.layout import Layout
from flintmq.message import StoredMessage

BLOCK: Final = 1 << 16
MOST_RUNS: Final = 20  # lines about runs; later runs share one line
ZEROS: Final = "zeros"
UNITS: Final = "units"
ODD: Final = "odd"
SEVERAL: Final = "several"

T = TypeVar("T", bound=tuple[Any, ...])


class Sort(NamedTuple):
    meaning: str
    remarks: Mapping[str, Remark] = {}
    problem: str | None = None  # the error in a unit, where its line says less than the remarks
    whole: bool = False  # one is a single line, not fields
    name: str = ""  # of its line; empty: the noun


UNWRITTEN: Final = Sort("nothing was written here", whole=True)


class PlacedUnit(NamedTuple, Generic[T]):
    number: int
    position: int
    data: bytes
    sort: str
    fields: T


class UnitTable(Generic[T]):
    """The units in [begin, end) of the file. `most_runs`: lines about runs."""

    layout: Layout[T]
    sorts: ClassVar[Mapping[str, Sort]]  # sort -> what is said of such units
    noun = "unit"
    most_runs = MOST_RUNS

    def __init__(self, look: FileLook, begin: int, end: int, first: int = 0) -> None:
        self.look, self.begin, self.end, self.first, self.width = look, begin, end, first, self.layout.size
        self.stop = begin + (end - begin) // self.width * self.width
        self.counts: dict[str, int] = {}  # sort -> number of units, after the overview
        self._shown = 0  # units that got a line of their own

    # -- what a kind of unit says of itself ----------------------------------------------------------------------------

    def sort(self, data: bytes) -> str:
        """Classify a unit that is not all zeros: UNITS, or another sort, which also names its runs."""
        return UNITS

    def remarks(self, unit: PlacedUnit[T]) -> Mapping[str, Remark]:
        return self.sorts[unit.sort].remarks

    def told(self, unit: PlacedUnit[T], remarks: Mapping[str, Remark]) -> tuple[int | None, str, str]:
        """Return value, text and meaning of a unit in one line."""
        raise NotImplementedError

    def report(self, unit: PlacedUnit[T]) -> None:
        """Give the look findings and steps, besides the fields of a unit."""

    # -- lines ---------------------------------------------------------------------------------------------------------

    def lines(self) -> Iterator[Line]:
        return self.overview() if self.look.at is None else self.at(self.look.at)

    def overview(self) -> Iterator[Line]:
        """Yield lines for every byte: the first units, and runs of the rest."""
        runs = 0
        run: tuple[int, str, int] | None = None  # begin, sort, units
        for position, count, sort, data in self._sorted():
            self.counts[sort] = self.counts.get(sort, 0) + count
            own = sort != ZEROS and self._shown < self.look.limit
            if not own and run is not None and (run[1] == sort or runs >= self.most_runs):
                run = run[0], sort if run[1] == sort else SEVERAL, run[2] + count
                continue
            if run is not None:
                yield self._run(*run)
                runs += 1
            run = None if own else (position, sort, count)
            if own:
                self._shown += 1
                yield self._line(position, data)
        if run is not None:
            yield self._run(*run)
        yield from self.rest()

    def at(self, position: int) -> Iterator[Line]:
        """Yield the fields of the unit at `position`, its neighbours, and a line for the rest."""
        if position >= self.stop:
            yield from self._unseen(self.begin, self.stop)
            yield from self.rest()
            return
        here = position - (position - self.begin) % self.width
        before = max(here - self.width, self.begin)
        after = min(here + self.width * (1 + self.look.limit), self.stop)
        yield from self._unseen(self.begin, before)
        for begin in range(before, after, self.width):
            data = self.look.source.read(self.width, begin)
            if begin == here:
                yield from self._fields(here, data)
            else:
                yield self._run(begin, ZEROS, 1) if self._sort(data) == ZEROS else self._line(begin, data)
        yield from self._unseen(after, self.stop)
        yield from self.rest()

    def rest(self) -> Iterator[Line]:
        """Yield a line for the bytes at the end that are too short for a unit."""
        meaning, problem = f"too short for a {self.noun}", f"the file does not end with a whole {self.noun}"
        yield from self.look.bytes(self.stop, self.end, "rest", meaning, problem, counted=False)

    def unit(self, position: int, data: bytes) -> PlacedUnit[T]:
        return PlacedUnit(self._number(position), position, data, self._sort(data), self.layout.unpack(data))

    def _line(self, position: int, data: bytes) -> Line:
        unit = self.unit(position, data)
        sort, remarks = self.sorts[unit.sort], self.remarks(unit)
        problem = sort.problem or next((remark.problem for remark in remarks.values() if remark.problem), None)
        name = f"{self.noun} {unit.number}"
        return Line(position, self.width, name, sort.name or self.noun, *self.told(unit, remarks), problem, data)

    def _fields(self, position: int, data: bytes) -> Iterator[Line]:
        unit, name = self.unit(position, data), f"{self.noun} {self._number(position)}"
        sort = self.sorts[unit.sort]
        if sort.whole:
            yield Line(position, self.width, name, unit.sort, 0, unit.sort, sort.meaning, None, data)
            return
        yield from field_lines(self.layout, data, position, name, self.remarks(unit))
        self.report(unit)

    def _sort(self, data: bytes) -> str:
        return self.sort(data) if any(data) else ZEROS

    def _number(self, position: int) -> int:
        return self.first + (position - self.begin) // self.width

    def _counted(self, count: int) -> str:
        return f"{count} {self.noun}{'' if count == 1 else 's'}"

    def _run(self, begin: int, sort: str, count: int) -> Line:
        number = self._number(begin)
        numbers = f"{number}" if count == 1 else f"{number} to {number + count - 1}"
        name = f"{self.noun}s" if sort in (UNITS, SEVERAL) else sort
        meaning = "used and unused ones" if sort == SEVERAL else self.sorts[sort].meaning
        text = f"{self._counted(count)}: {numbers}"
        return self.look.range(begin, begin + count * self.width, name, count, text, meaning)

    def _unseen(self, begin: int, end: int) -> Iterator[Line]:
        count = (end - begin) // self.width
        yield from self.look.several(begin, end, f"{self.noun}s", count, self.noun, "not looked at")

    def _sorted(self) -> Iterator[tuple[int, int, str, bytes]]:
        """Yield (position, units, sort, bytes of the unit), with zeros as one entry."""
        width, source, position = self.width, self.look.source, self.begin
        size = BLOCK // width * width
        while position < self.stop:
            zeros = (source.zeros_until(position, self.stop) - position) // width
            if zeros:
                yield position, zeros, ZEROS, b""
                position += zeros * width
                continue
            block = source.read(min(size, self.stop - position), position)
            if len(self.sorts) == 2 and self._shown >= self.look.limit and bytes(width) not in block:
                yield position, len(block) // width, UNITS, b""  # none of them can be zeros
            else:
                for at in range(0, len(block), width):
                    unit = block[at : at + width]
                    yield position + at, 1, self._sort(unit), unit
            position += len(block)


class Pointers(UnitTable[T]):
    """Units that point to records; the first remark is on the record there."""

    def against(self, fields: T, message: StoredMessage) -> dict[str, Remark]:
        raise NotImplementedError

    def misplaced(self, unit: PlacedUnit[T], message: StoredMessage) -> str | None:
        """Return why the record cannot be that of the unit; None if it can."""
        raise NotImplementedError

    def remarks(self, unit: PlacedUnit[T]) -> Mapping[str, Remark]:
        if unit.sort != UNITS:
            return super().remarks(unit)
        found = self.look.around.record(_offset(unit.fields))
        if found.message is None:
            return {"physical_offset": found.remark}
        there = Remark(found.text, self.misplaced(unit, found.message))
        return {"physical_offset": there, **self.against(unit.fields, found.message)}


def _offset(fields: Any) -> int:
    return int(fields.physical_offset)
