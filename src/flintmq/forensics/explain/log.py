"""Explains commit log files, compaction log files, and log pieces in quarantine.

The walk is that of every reader (`store/commitlog/walk.py`): it finds the intact records, and the ranges between them
are gaps. The reference checks in `format/record.py` classify a gap: a blank, zeros, or bytes that are no record.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from flintmq.forensics.explain import record_fields
from flintmq.forensics.explain.lines import Line, blame, field_lines
from flintmq.forensics.explain.source import FileLook
from flintmq.forensics.explain.store_context import describe
from flintmq.format import record
from flintmq.format.record_view import SIZE, size_at
from flintmq.message import StoredMessage
from flintmq.store.commitlog.end_of_log import StopFacts
from flintmq.store.commitlog.files import LARGEST_OFFSET, LogFile, LogFiles, largest_record
from flintmq.store.commitlog.walk import LogWalk

MOST_GAPS: Final = 20  # gaps that an overview lists one by one


@dataclass(frozen=True, slots=True)
class RecordRun:
    """A part of the file: records back to back, or (without `positions`) a gap."""

    begin: int
    end: int
    positions: Sequence[int] = ()

    def ends(self, number: int) -> int:
        """Return where the record of this number in the run ends."""
        return self.positions[number + 1] if number + 1 < len(self.positions) else self.end

    def single(self, number: int) -> RecordRun:
        """Return one record of the run, as a run."""
        return RecordRun(self.positions[number], self.ends(number), self.positions[number : number + 1])


class LogFileLines:
    """Makes the lines of one file.

    Attributes:
        start: log offset of its first byte.
    """

    def __init__(self, look: FileLook) -> None:
        self.look, self.source = look, look.source
        self.start = look.place.start or 0
        if self.start + self.source.size > LARGEST_OFFSET:
            self.start = 0
        config = look.config
        self.max_record = largest_record(config)
        self.records = self.gaps = self.damaged = 0
        self.first_damage: tuple[int, str] | None = None
        self.last: int | None = None

    def lines(self) -> Iterator[Line]:
        """Yield lines for every byte of the file."""
        if self.look.at is None:
            yield from self._overview()
        else:
            yield from self._at(self.look.at)

    # -- the walk ------------------------------------------------------------------------------------------------------

    def _runs(self) -> Iterator[RecordRun]:
        size, start = self.source.size, self.start
        file = LogFile(self.source.path, start, size)
        log = LogFiles((file,), size, self.max_record, (), self.source.effects)
        # As for a live store: a bad place is read twice before it counts as bad.
        walk = LogWalk(log, StopFacts(clean=False, live=True), start, start + size, strict=False)
        at = 0
        for piece in walk:
            base = piece.base - start
            positions = array("q", [base + position for position in piece.positions[: piece.count]])
            if positions[0] > at:
                yield RecordRun(at, positions[0])
            at = min(base + piece.end, size)
            yield RecordRun(positions[0], at, positions)
        if at < size:
            yield RecordRun(at, size)

    # -- an overview ---------------------------------------------------------------------------------------------------

    def _overview(self) -> Iterator[Line]:
        shown, waiting = 0, 0
        begin, end = 0, 0  # of the records that wait for a common line
        for run in self._runs():
            if self.gaps >= MOST_GAPS:
                break
            if not run.positions:
                if waiting:
                    yield self._records(begin, end, waiting)
                yield from self._gap(run)
                waiting, begin = 0, run.end
                continue
            self._count(run)
            own = min(max(self.look.limit - shown, 0), len(run.positions)) if not waiting else 0
            for number in range(own):
                yield self._one(run.positions[number], run.ends(number))
            shown += own
            begin = begin if waiting else run.ends(own - 1) if own else run.begin
            waiting, end = waiting + len(run.positions) - own, run.end
        if waiting:
            yield self._records(begin, end, waiting)
        if self.gaps >= MOST_GAPS:
            yield from self._unseen()
        self._facts()

    def _count(self, run: RecordRun) -> None:
        self.records += len(run.positions)
        self.last = run.positions[-1] if run.positions else self.last

    def _records(self, begin: int, end: int, count: int) -> Line:
        meaning = "records back to back, each right in itself"
        return self.look.range(begin, end, "records", count, f"{count} record{'s' if count > 1 else ''}", meaning)

    def _unseen(self) -> Iterator[Line]:
        begin, size = self._gap_end, self.source.size
        if begin < size:
            text = f"{size - begin} bytes; {MOST_GAPS} gaps are listed above"
            yield self.look.range(begin, size, "rest", size - begin, text, "not looked at")

    def _facts(self) -> None:
        look, path = self.look, self.source.path
        holds = f"{self.records} records" + (f", {self.damaged} places without one" if self.damaged else "")
        look.found.append(("holds", holds + (f" before the rest, from position {self._gap_end} on"
                                             if self.gaps >= MOST_GAPS else "")))  # fmt: skip
        if self.last is not None:
            message = self._message(self.last)
            look.found.append(("last", f"position {self.last}: {describe(message) if message else 'gone meanwhile'}"))
        if self.first_damage is not None:
            position, _ = self.first_damage
            look.step("explain", path, "--at", position)
            if look.place.root is not None:
                look.step("verify", look.place.root)
        elif self.last is not None:
            look.step("explain", path, "--at", self.last)

    # -- one place -----------------------------------------------------------------------------------------------------

    def _at(self, at: int) -> Iterator[Line]:
        runs, before = self._runs(), 0
        neighbour: RecordRun | None = None  # the one before: one record, or a gap
        here = next(runs)
        while here.end <= at:
            self._count(here)
            before += len(here.positions)
            neighbour = here.single(len(here.positions) - 1) if here.positions else here
            here = next(runs)
        number = max(bisect_right(here.positions, at) - 1, 0)
        if number:
            before, neighbour = before + number, here.single(number - 1)
        if here.positions:
            here, following = here.single(number), self._following(here, number + 1, runs)
        else:
            following = self._following(here, 0, runs)
        yield from self._in_front(before, neighbour)
        yield from self._focus(here, neighbour)
        end = here.end
        for unit in islice(following, self.look.limit):
            yield from self._unit(unit)
            end = unit.end
        if end < self.source.size:
            left = self.source.size - end
            yield self.look.range(end, end + left, "behind", None, f"{left} bytes", "not looked at")

    @staticmethod
    def _following(here: RecordRun, number: int, runs: Iterator[RecordRun]) -> Iterator[RecordRun]:
        """Yield single records and gaps after a record, walking only as far as they are taken."""
        yield from map(here.single, range(number, len(here.positions)))
        for run in runs:
            yield from map(run.single, range(len(run.positions))) if run.positions else [run]

    def _in_front(self, records: int, neighbour: RecordRun | None) -> Iterator[Line]:
        if neighbour is None:
            return
        records -= bool(neighbour.positions)
        if neighbour.begin:
            text = f"{records} record{'' if records == 1 else 's'}"
            yield self.look.range(
                0, neighbour.begin, "before", records, text, "earlier records, and gaps if there are any"
            )
        yield from self._unit(neighbour)

    def _unit(self, unit: RecordRun) -> Iterator[Line]:
        return iter([self._one(unit.begin, unit.end)]) if unit.positions else self._gap(unit)

    def _focus(self, here: RecordRun, neighbour: RecordRun | None) -> Iterator[Line]:
        if not here.positions:
            yield from self._gap(here, in_full=True)
            if self.damaged and self.look.place.root is not None:
                self.look.step("verify", self.look.place.root)
                self.look.step("salvage", self.look.place.root, "--in-place", "--dry-run")
            return
        data = self._data(here.begin, here.end)
        if data is None:
            yield from self._gap(here, in_full=True)
            return
        before = self._message(neighbour.begin) if neighbour is not None and neighbour.positions else None
        yield from record_fields.lines(self.look, self.start, here.begin, data, before)

    def _one(self, begin: int, end: int) -> Line:
        data, offset = self._data(begin, end), self.start + begin
        text = describe(StoredMessage(data)) if data is not None else "written over while it was read"
        return self.look.range(begin, end, "record", offset, text, f"log offset {offset}", unit=f"record at {begin}")

    def _data(self, begin: int, end: int) -> bytes | None:
        """Return the bytes of a record that the walk found; None if it was truncated meanwhile."""
        for _ in range(2):
            data = self.source.read(end - begin, begin)
            if not record_fields.why_not(data, self.start + begin, self.source.size - begin, self.max_record):
                return data
            self.source.forget()
        return None

    def _message(self, position: int) -> StoredMessage | None:
        size = size_at(self.source.read(SIZE.size, position))
        data = self.source.read(min(size, self.max_record), position)
        if record_fields.why_not(data, self.start + position, self.source.size - position, self.max_record):
            return None
        return StoredMessage(data)

    # -- gaps ----------------------------------------------------------------------------------------------------------

    _gap_end = 0

    def _gap(self, run: RecordRun, in_full: bool = False) -> Iterator[Line]:
        """Yield lines for a gap: a blank with its filler, zeros, or bytes that are no record."""
        begin, end = run.begin, run.end
        self.gaps, self._gap_end = self.gaps + 1, end
        head = self.source.read(record.BLANK_SIZE, begin)
        if len(head) == record.BLANK_SIZE and record.BLANK.unpack(head).magic == record.MAGIC_BLANK:
            yield from self._blank(begin, end)
            return
        zeros = self.source.zeros_until(begin, end)
        follows = end < self.source.size
        if zeros == end or zeros - begin >= record.BLANK_SIZE:
            problem = f"zeros, and records follow at position {end}: lost, or never written" if follows else None
            yield self._zeros(begin, zeros, problem if zeros == end else "zeros, and something follows")
            begin = zeros
        if begin < end:
            yield from self._no_record(begin, end, follows, in_full)

    def _zeros(self, begin: int, end: int, problem: str | None = None) -> Line:
        if problem:
            self._damage(begin, problem)
        text = f"{end - begin} bytes"
        return self.look.range(begin, end, "zeros", end - begin, text, "nothing was written here", problem)

    def _blank(self, begin: int, end: int) -> Iterator[Line]:
        """Yield lines for a blank record, which ends the file whatever comes after it."""
        head = self.source.read(record.BLANK_SIZE, begin)
        size = record.BLANK.unpack(head).size
        left = self.source.size - begin
        lines = list(field_lines(record.BLANK, head, begin, f"blank at {begin}"))
        if size != left:
            lines = blame(lines, begin, f"{size} where {left} bytes are left; readers do not trust it")
        yield from lines
        if begin + record.BLANK_SIZE < end:
            meaning = "bytes after a blank are arbitrary and never read"
            yield self.look.range(begin + record.BLANK_SIZE, end, "filler", None,
                                  f"{end - begin - record.BLANK_SIZE} bytes", meaning)  # fmt: skip

    def _no_record(self, begin: int, end: int, follows: bool, in_full: bool) -> Iterator[Line]:
        size = size_at(self.source.read(SIZE.size, begin))
        left = self.source.size - begin
        data = self.source.read(size if record.MIN_SIZE <= size <= self.max_record else record.BLANK_SIZE, begin)
        position, why = record_fields.first_wrong(data, self.start + begin, left, self.max_record)
        then = f"records go on at position {end}" if follows else "no intact record follows in this file"
        if follows and self._steps_back(end):
            then = f"older records follow from position {end} on: a stale tail if the store stopped cleanly"
        used = self.source.used_until(begin, end)
        if in_full:
            known = self.source.read(min(used - begin, self.max_record), begin)
            lines = record_fields.loose(self.look, self.start, begin, known)
            yield from blame(lines, begin + position, f"{why}; {then}")
            if begin + len(known) < used:
                yield self.look.range(
                    begin + len(known), used, "rest", None, f"{used - begin - len(known)} bytes", then
                )
        else:
            # If nothing follows, the log may end here; only verify can call it damage, for it knows the last stop.
            wrong = follows or begin == 0
            text = f"{used - begin} bytes" + ("" if wrong else f"; {why}")
            yield self.look.range(begin, used, "no record", None, f"{text}; {then}", "bytes of no intact record",
                                  why if wrong else None)  # fmt: skip
        self._damage(begin, why)
        if used < end:
            yield self.look.range(used, end, "zeros", end - used, f"{end - used} bytes", "zeros after it")

    def _steps_back(self, position: int) -> bool:
        """Return whether the record at a position is older than the last one before it."""
        before, after = None if self.last is None else self._message(self.last), self._message(position)
        return before is not None and after is not None and after.store_timestamp < before.store_timestamp

    def _damage(self, position: int, why: str) -> None:
        self.damaged += 1
        if self.first_damage is None:
            self.first_damage = position, why


def lines(look: FileLook) -> Iterator[Line]:
    """Yield lines for every byte of a log file."""
    return LogFileLines(look).lines()
