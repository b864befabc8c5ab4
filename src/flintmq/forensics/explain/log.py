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
from flintmq.forensics.explain.lines import Line, Remark, blame, field_lines
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
        return self.positions[number + 1] if number + 1 < len(self.positions) else self.end

    def single(self, number: int) -> RecordRun:
        """Return one record of the run, as a run; -1 is the last."""
        number %= len(self.positions)
        return RecordRun(self.positions[number], self.ends(number), self.positions[number : number + 1])


class LogFileLines:
    def __init__(self, look: FileLook) -> None:
        self.look, self.source = look, look.source
        self.start = look.place.start or 0  # log offset of its first byte
        if self.start + self.source.size > LARGEST_OFFSET:
            self.start = 0
        self.max_record = largest_record(look.config)
        self.records = self.gaps = self.damaged = self._gap_end = 0
        self.first_damage: int | None = None
        self.last: int | None = None

    def lines(self) -> Iterator[Line]:
        return self._overview() if self.look.at is None else self._at(self.look.at)

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
        shown = waiting = begin = end = 0  # records from `begin` to `end` wait for a common line
        for run in self._runs():
            if self.gaps >= MOST_GAPS:
                break
            if not run.positions:
                yield from self._records(begin, end, waiting)
                yield from self._gap(run)
                waiting = 0
                continue
            self._count(run)
            own = 0 if waiting else min(max(self.look.limit - shown, 0), len(run.positions))
            yield from map(self._one, map(run.single, range(own)))
            begin = begin if waiting else run.ends(own - 1) if own else run.begin
            shown, waiting, end = shown + own, waiting + len(run.positions) - own, run.end
        yield from self._records(begin, end, waiting)
        self._facts()
        if self.gaps >= MOST_GAPS:
            what = f"bytes; {MOST_GAPS} gaps are listed above"
            yield from self.look.bytes(self._gap_end, self.source.size, "rest", "not looked at", what=what)

    def _count(self, run: RecordRun) -> None:
        self.records += len(run.positions)
        self.last = run.positions[-1] if run.positions else self.last

    def _records(self, begin: int, end: int, count: int) -> Iterator[Line]:
        if count:
            meaning = "records back to back, each right in itself"
            yield from self.look.several(begin, end, "records", count, "record", meaning)

    def _facts(self) -> None:
        look = self.look
        holds = f"{self.records} records" + (f", {self.damaged} places without one" if self.damaged else "")
        holds += f" before the rest, from position {self._gap_end} on" if self.gaps >= MOST_GAPS else ""
        look.found.append(("holds", holds))
        if self.last is not None:
            message = self._message(self.last)
            look.found.append(("last", f"position {self.last}: {describe(message) if message else 'gone meanwhile'}"))
        step = self.last if self.first_damage is None else self.first_damage
        if step is not None:
            look.step("explain", self.source.path, "--at", step)
        if self.first_damage is not None and look.place.root is not None:
            look.step("verify", look.place.root)

    # -- one place -----------------------------------------------------------------------------------------------------

    def _at(self, at: int) -> Iterator[Line]:
        runs, before = self._runs(), 0
        neighbour: RecordRun | None = None  # the one before: one record, or a gap
        here = next(runs)
        while here.end <= at:
            self._count(here)
            before += len(here.positions)
            neighbour = here.single(-1) if here.positions else here
            here = next(runs)
        number = max(bisect_right(here.positions, at) - 1, 0)
        if number:
            before, neighbour = before + number, here.single(number - 1)
        following = self._following(here, number + 1, runs)
        here = here.single(number) if here.positions else here
        if neighbour is not None:
            before -= bool(neighbour.positions)
            meaning = "earlier records, and gaps if there are any"
            yield from self.look.several(0, neighbour.begin, "before", before, "record", meaning)
            yield from self._unit(neighbour)
        yield from self._focus(here, neighbour)
        end = here.end
        for unit in islice(following, self.look.limit):
            yield from self._unit(unit)
            end = unit.end
        yield from self.look.bytes(end, self.source.size, "behind", "not looked at", counted=False)

    @staticmethod
    def _following(here: RecordRun, number: int, runs: Iterator[RecordRun]) -> Iterator[RecordRun]:
        """Yield single records and gaps after a record, walking only as far as they are taken."""
        yield from map(here.single, range(number, len(here.positions)))
        for run in runs:
            yield from map(run.single, range(len(run.positions))) if run.positions else [run]

    def _unit(self, unit: RecordRun) -> Iterator[Line]:
        return iter([self._one(unit)]) if unit.positions else self._gap(unit)

    def _focus(self, here: RecordRun, neighbour: RecordRun | None) -> Iterator[Line]:
        data = self._data(here.begin, here.end) if here.positions else None
        if data is not None:
            before = self._message(neighbour.begin) if neighbour is not None and neighbour.positions else None
            yield from record_fields.lines(self.look, self.start, here.begin, data, before)
            return
        yield from self._gap(here, in_full=True)
        if self.damaged and not here.positions and self.look.place.root is not None:
            self.look.step("verify", self.look.place.root)
            self.look.step("salvage", self.look.place.root, "--in-place", "--dry-run")

    def _one(self, run: RecordRun) -> Line:
        data, begin = self._data(run.begin, run.end), run.begin
        text, offset = describe(StoredMessage(data)) if data else "written over while it was read", self.start + begin
        return self.look.range(
            begin, run.end, "record", offset, text, f"log offset {offset}", unit=f"record at {begin}"
        )

    def _data(self, begin: int, end: int) -> bytes | None:
        """Return the bytes of a record that the walk found; None if it was truncated meanwhile."""
        for _ in range(2):
            data = self.source.read(end - begin, begin)
            if not self._wrong(data, begin)[1]:
                return data
            self.source.forget()
        return None

    def _message(self, position: int) -> StoredMessage | None:
        size = size_at(self.source.read(SIZE.size, position))
        data = self._data(position, position + min(size, self.max_record))
        return None if data is None else StoredMessage(data)

    def _wrong(self, data: bytes, begin: int) -> tuple[int, str]:
        """Return (position in data, reason) of the first error in a record at `begin`, or (0, "")."""
        return record_fields.first_wrong(data, self.start + begin, self.source.size - begin, self.max_record)

    # -- gaps ----------------------------------------------------------------------------------------------------------

    def _gap(self, run: RecordRun, in_full: bool = False) -> Iterator[Line]:
        """Yield lines for a gap: a blank with its filler, zeros, or bytes that are no record."""
        begin, end = run.begin, run.end
        self.gaps, self._gap_end = self.gaps + 1, end
        head = self.source.read(record.BLANK_SIZE, begin)
        if len(head) == record.BLANK_SIZE and record.BLANK.unpack(head).magic == record.MAGIC_BLANK:
            yield from self._blank(begin, end, head)
            return
        zeros = self.source.zeros_until(begin, end)
        follows = end < self.source.size
        if zeros == end or zeros - begin >= record.BLANK_SIZE:
            problem = "zeros, and something follows" if zeros < end else None
            if zeros == end and follows:
                problem = f"zeros, and records follow at position {end}: lost, or never written"
            if problem:
                self._damage(begin)
            yield from self.look.bytes(begin, zeros, "zeros", "nothing was written here", problem)
            begin = zeros
        if begin < end:
            yield from self._no_record(begin, end, follows, in_full)

    def _blank(self, begin: int, end: int, head: bytes) -> Iterator[Line]:
        """Yield lines for a blank record, which ends the file whatever comes after it."""
        size, left = record.BLANK.unpack(head).size, self.source.size - begin
        wrong = f"{size} where {left} bytes are left; readers do not trust it" if size != left else None
        yield from field_lines(record.BLANK, head, begin, f"blank at {begin}", {"size": Remark("", wrong)})
        meaning = "bytes after a blank are arbitrary and never read"
        yield from self.look.bytes(begin + record.BLANK_SIZE, end, "filler", meaning, counted=False)

    def _no_record(self, begin: int, end: int, follows: bool, in_full: bool) -> Iterator[Line]:
        size = size_at(self.source.read(SIZE.size, begin))
        data = self.source.read(size if record.MIN_SIZE <= size <= self.max_record else record.BLANK_SIZE, begin)
        position, why = self._wrong(data, begin)
        then = f"records go on at position {end}" if follows else "no intact record follows in this file"
        if follows and self._steps_back(end):
            then = f"older records follow from position {end} on: a stale tail if the store stopped cleanly"
        used = self.source.used_until(begin, end)
        if in_full:
            known = self.source.read(min(used - begin, self.max_record), begin)
            lines = record_fields.loose(self.look, self.start, begin, known)
            yield from blame(lines, begin + position, f"{why}; {then}")
            yield from self.look.bytes(begin + len(known), used, "rest", then, counted=False)
        else:
            # If nothing follows, the log may end here; only verify can call it damage, for it knows the last stop.
            wrong = why if follows or begin == 0 else None
            text = f"{used - begin} bytes; {f'{why}; ' if wrong is None else ''}{then}"
            yield self.look.range(begin, used, "no record", None, text, "bytes of no intact record", wrong)
        self._damage(begin)
        yield from self.look.bytes(used, end, "zeros", "zeros after it")

    def _steps_back(self, position: int) -> bool:
        """Return whether the record at a position is older than the last one before it."""
        before, after = None if self.last is None else self._message(self.last), self._message(position)
        return before is not None and after is not None and after.store_timestamp < before.store_timestamp

    def _damage(self, position: int) -> None:
        self.damaged += 1
        self.first_damage = position if self.first_damage is None else self.first_damage


def lines(look: FileLook) -> Iterator[Line]:
    return LogFileLines(look).lines()
