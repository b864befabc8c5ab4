"""The findings of one queue, gathered into runs before they are reported.

Neighbouring units with one fault are one finding. Some facts show only later: whether missing units are a hole or only
not dispatched yet, whether units that point ahead belong to a queue begun again, whether times of delivery follow
another table of levels.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from flintmq.forensics.verify.context import Ground
from flintmq.forensics.verify.queue_files import UnitFiles
from flintmq.format.consume_queue import POINTER, PRE_BLANK_SIZE, UNIT_SIZE
from flintmq.store.layout.queue_name import QueueName

MOST_KEPT = 100  # findings of a kind kept until the queue's end explains them


@dataclass(frozen=True, slots=True)
class QueueKind:
    width: int = UNIT_SIZE
    light: bool = False  # a light queue, whose units may be displaced
    schedule: bool = False  # SCHEDULE_TOPIC_XXXX, whose tags codes are times of delivery
    delays_known: bool = False  # messageDelayLevel was given, so another time of delivery is wrong

    @property
    def indexed(self) -> bool:
        """Return whether a unit's number is its queue offset."""
        return self.width == UNIT_SIZE

    @property
    def placed(self) -> bool:
        """Return whether a unit must be at the queue offset that its record carries."""
        return self.indexed and not self.light


@dataclass(slots=True)
class _UnitRun:
    first: int = 0
    count: int = 0
    offset: int = (
        0  # of the first unit: its record's log offset; for displaced units the queue offset that the record carries
    )
    shift: int = 0


class UnitFindings:
    __slots__ = ("_ahead", "_ahead_count", "_delays", "_displaced", "_extra", "_missing", "files", "ground", "kind",
                 "name", "passed")  # fmt: skip

    def __init__(self, name: QueueName, files: UnitFiles, kind: QueueKind, ground: Ground) -> None:
        self.name, self.files, self.kind, self.ground = name, files, kind, ground
        self.passed: Counter[str] = Counter()  # units that need no record: code of the note -> number
        self._missing, self._displaced, self._extra = _UnitRun(), _UnitRun(), _UnitRun()
        self._ahead: list[tuple[int, bytes, bytes]] = []  # units that point to a later record than the one due
        self._ahead_count = 0
        self._delays: dict[int, tuple[int, int]] = {}  # ms -> (units, number of the first one)

    @property
    def label(self) -> str:
        return f"{self.name.topic}/{self.name.queue_id}"

    def _defect(self, code: str, number: int, expected: str, found: str) -> None:
        path, position = self.files.place(number)
        self.ground.findings.defect(code, path, position, expected, found)

    def _note(self, code: str, text: str) -> None:
        self.ground.findings.note(code, f"queue {self.label}: {text}", self.files.folder)

    # -- during the comparison -----------------------------------------------------------------------------------------

    def harmless(self, offset: int, size: int) -> str | None:
        """Return the code of the note that explains a unit without a record, None if there is none."""
        if offset == 0 and size == PRE_BLANK_SIZE:
            return "units-pre-blank"
        if 0 <= offset < self.ground.log_begin:
            return "units-expired"
        return "units-lost" if offset in self.ground.lost else None

    def wrong(self, number: int, expected: str, found: str, code: str = "unit-wrong") -> None:
        """Report a unit of the right record with a wrong field."""
        self._defect(code, number, f"{expected} (queue {self.label}, unit {number})", found)

    def contradiction(self, number: int, expected: bytes, found: bytes) -> None:
        """Take a unit that points to another record than the one due.

        It may be a later one's, if the topic was created again.
        """
        if POINTER.unpack_from(found)[0] <= POINTER.unpack_from(expected)[0]:
            self._contradicts(number, expected, found)
            return
        self._ahead_count += 1
        if len(self._ahead) < MOST_KEPT:
            self._ahead.append((number, expected, found))

    def extra(self, number: int, offset: int) -> None:
        """Take a unit that points to a log offset where no record of this queue begins."""
        if self._extra.count and number != self._extra.first + self._extra.count:
            self.settle_extra()
        if not self._extra.count:
            self._extra = _UnitRun(number, 0, offset)
        self._extra.count += 1

    def missing(self, queue_offset: int, count: int, offset: int) -> None:
        """Take records without a unit, the first at this queue offset and log offset.

        The reason shows when a later record has a unit.
        """
        if not self._missing.count:
            self._missing = _UnitRun(queue_offset, 0, offset)
        self._missing.count += count

    def met(self, number: int, count: int, shift: int) -> None:
        """Take units that agree with their records, `shift` places after their queue offset."""
        self.settle_extra()
        if self._missing.count:
            self._report_missing(number, hole=True)
        if self._displaced.count and shift != self._displaced.shift:
            self._report_displaced()
        if shift:
            if not self._displaced.count:
                self._displaced = _UnitRun(number, 0, number - shift, shift)
            self._displaced.count += count

    def begun_again(self, queue_offset: int) -> None:
        """Note that the queue's offsets begin again here; the files hold the later units."""
        self._note("queue-restarted", f"begins again at offset {queue_offset}")
        self._ahead.clear()
        self._ahead_count = 0
        self._missing = _UnitRun()

    def delivered_after(self, number: int, delay: int) -> None:
        """Take a time of delivery that is not its level's: another table of levels, or damage."""
        if delay not in self._delays and len(self._delays) >= MOST_KEPT:
            self.wrong(number, "the time of delivery that the delay level gives", f"store time + {delay} ms")
            return
        count, first = self._delays.get(delay, (0, number))
        self._delays[delay] = (count + 1, first)

    def settle_extra(self) -> None:
        run, self._extra = self._extra, _UnitRun()
        if run.count:
            due = f"a record of queue {self.label} for {_units(run.first, run.count)}"
            self._defect("unit-extra", run.first, due, f"log offset {run.offset}, where none is")

    # -- at the end ------------------------------------------------------------------------------------------------

    def finish(self, cursor: int, matched: int) -> None:
        self.settle_extra()
        if self._missing.count:
            self._report_missing(cursor, hole=False)
        if self._displaced.count:
            self._report_displaced()
        for unit in self._ahead:
            self._contradicts(*unit)
        if self._ahead_count > len(self._ahead):
            further = f"{self._ahead_count - len(self._ahead)} further units point ahead"
            self._defect("unit-wrong", cursor, f"units of earlier records of queue {self.label}", further)
        self._report_delays(matched)

    def report_passed(self) -> None:
        for code, count in self.passed.items():
            self._note(code, f"{count} units")

    def _contradicts(self, number: int, expected: bytes, found: bytes) -> None:
        ours, theirs = POINTER.unpack_from(expected), POINTER.unpack_from(found)
        self.wrong(number, f"log offset {ours[0]}, size {ours[1]}", f"log offset {theirs[0]}, size {theirs[1]}")

    def _report_missing(self, cursor: int, hole: bool) -> None:
        run, self._missing = self._missing, _UnitRun()
        if not hole and self.ground.is_pending(run.offset):
            self._note("units-pending", f"{run.count} messages from log offset {run.offset} on wait for dispatch")
            return
        what = _units(run.first, run.count) if self.kind.indexed else f"{run.count} units"
        due = f"{what} of queue {self.label}, for records from log offset {run.offset} on"
        self._defect("unit-missing", run.first if self.kind.indexed else cursor, due, "none for them")

    def _report_displaced(self) -> None:
        run, self._displaced = self._displaced, _UnitRun()
        if self.kind.light:
            where = f"{_units(run.first, run.count)} are of queue offsets from {run.offset} on"
            self._note("lmq-displaced", where)
            return
        due = f"{run.count} records of queue {self.label} at queue offsets from {run.first} on"
        self._defect("unit-displaced", run.first, due, f"their records say {run.offset} on")

    def _report_delays(self, matched: int) -> None:
        """Report times of delivery that are not their level's.

        They are a note if another table of delay levels explains them; single ones are wrong.
        """
        for delay, (count, first) in self._delays.items():
            if count > max(1, matched // 2):
                self._note("delay-level", f"{count} messages are due {delay} ms after they were stored")
            else:
                due = "the time of delivery that the delay level gives"
                self.wrong(first, due, f"store time + {delay} ms, {count} times")


def _units(first: int, count: int) -> str:
    return f"unit {first}" if count == 1 else f"units {first} to {first + count - 1}"
