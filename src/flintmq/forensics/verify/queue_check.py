"""Compares a queue's units on disk with those that the log gives it, both ways.

`UnitCheck.expect` takes the units of one queue in log order while a cursor moves along the files: over whole runs of
equal bytes at once, and one unit at a time only where something differs. Every unit that the cursor passes is accounted
for: it is the one expected, it is harmless (pre-blank, expired, of a message in a damaged range), or it is a defect.
Units after the cursor at the end have no record: they are ghosts, left over from a truncation of the log.

If a unit and a record differ, the record's queue offset and the next units on both sides show which one is too many.
RocketMQ appends units after a hole, so whole ranges can be displaced by a few places. A topic that was deleted and
created again begins at offset 0 while the log still holds its old records. Both cases are followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flintmq.forensics.verify.context import Ground
from flintmq.forensics.verify.queue_files import UnitFiles
from flintmq.forensics.verify.queue_findings import QueueKind, UnitFindings
from flintmq.format import consume_queue_ext as ext
from flintmq.format.batch_queue import BATCH_UNIT, BATCH_UNIT_SIZE
from flintmq.format.consume_queue import POINTER, UNIT
from flintmq.store.consumequeue.reader import ExtQueue
from flintmq.store.layout.queue_name import QueueName

FIRST_RUN, LONGEST_RUN = 64, 8192  # units compared at once
LOOK_AHEAD = 512  # expected units searched for the one found
LOOK_AHEAD_ON_DISK = 256  # units of batch and light queues searched for the one expected
_KEY: Final = POINTER.size  # a unit is recognized by offset and size of its record


class UnitCheck:
    """One queue under comparison.

    `log_end`: queue offset after the last message in the log; set by the caller.
    """

    __slots__ = (
        "_end", "_explained_to", "_last_address", "cursor", "extension", "files", "findings", "kind", "log_end",
        "matched", "name",
    )  # fmt: skip

    def __init__(
        self, name: QueueName, files: UnitFiles, kind: QueueKind, ground: Ground, extension: ExtQueue | None = None
    ) -> None:
        self.name, self.files, self.kind, self.extension = name, files, kind, extension
        self.findings = UnitFindings(name, files, kind, ground)
        self.cursor = files.first  # number of the next unit on disk
        self.matched = self.log_end = self._end = 0  # matched: units that agree with their record
        self._explained_to = 0  # units before this number are explained; the cursor may go back, this does not
        self._last_address = -(1 << 63) - 1

    @property
    def end(self) -> int:
        """Queue offset after the last message, by the log or by the files, whichever has more."""
        return max(self.log_end, self._end, self.cursor if self.kind.indexed and self.files.spans else 0)

    def begin_at(self, offset: int) -> None:
        """Compare from a log offset on: files that are entirely before it are left out."""
        self.files.leave_out(offset)
        self.cursor = self.files.first

    # -- units from the log ---------------------------------------------------------------------------------------

    def expect(self, first: int, units: bytes, times: Sequence[int]) -> None:
        """Take a run of units that the log gives this queue, after those taken before.

        Args:
            first: queue offset of the first one; the others follow without holes. Unused in a batch queue.
            times: store time in ms of each one's record.
        """
        count = len(units) // self.kind.width
        assert len(units) == count * self.kind.width and len(times) == count
        if first > self.cursor and self.kind.placed:
            self._pass_doubled(first, units[:_KEY])
        i = 0
        while i < count:
            i = self._equal(first, units, i, count)
            if i == count:
                break
            cursor, done = self.cursor, self._resolve(first + i, units, i, count, times)
            # Otherwise this loop has no end. The cursor goes back only to a unit of this record, which is taken next.
            key = units[i * self.kind.width :][:_KEY]
            assert done > 0 or self.cursor > cursor or self.files.one(self.cursor)[:_KEY] == key
            i += done

    def _pass_doubled(self, q: int, key: bytes) -> None:
        """Pass over units before q that point to its record; salvage leaves them for lost ones."""
        begin = q
        while begin > self.cursor and self.files.one(begin)[:_KEY] == key:
            begin -= 1
        begin += self.files.one(begin)[:_KEY] != key
        if begin < q:
            self._explain(self.cursor, begin)
            self.findings.passed["units-doubled"] += q - begin
            self._explained_to, self.cursor = max(self._explained_to, q), q

    def _equal(self, first: int, units: bytes, i: int, count: int) -> int:
        """Pass over expected units that equal those at the cursor; return the first other one."""
        width, step = self.kind.width, FIRST_RUN
        while i < count:
            some = min(step, count - i)
            ours, theirs = units[i * width : (i + some) * width], self.files.read(self.cursor, some)
            assert len(ours) == len(theirs)  # `read` gives zeros where no file is
            same = some if ours == theirs else _same_prefix(ours, theirs, width)
            if same:
                self._met(first + i, same)
                i += same
            if same < some:
                return i
            step = min(step * 4, LONGEST_RUN)
        return i

    def _met(self, queue_offset: int, count: int) -> None:
        self.findings.met(self.cursor, count, self.cursor - queue_offset if self.kind.indexed else 0)
        self.matched += count
        self.cursor += count
        self._explained_to = max(self._explained_to, self.cursor)

    def _resolve(self, q: int, units: bytes, i: int, count: int, times: Sequence[int]) -> int:
        """Decide about expected unit i and the unit at the cursor, which differ.

        Returns:
            Number of expected units dealt with. After 0 the cursor has moved to where they can match.
        """
        width, indexed = self.kind.width, self.kind.indexed
        expected, found = units[i * width : (i + 1) * width], self.files.one(self.cursor)
        key = expected[:_KEY]
        if found[:_KEY] == key:  # of the same record: another field differs
            self._compare(expected, found, times[i])
            self._met(q, 1)
            return 1
        if indexed and q != self.cursor and self.files.one(q)[:_KEY] == key:
            # The record's unit is at its place, and only the cursor is not: units before it belong to no record, or the
            # topic was created again and its offsets start over.
            if q > self.cursor:
                self._explain(self.cursor, q)
            else:
                self.findings.begun_again(q)
            self.cursor = q
            return 0
        offset, size = POINTER.unpack_from(found)
        at_its_place = self.kind.placed and q == self.cursor  # so no other record can own the unit at the cursor
        if not any(found) or (not at_its_place and (offset < 0 or size <= 0)):
            # No unit is here. Where units have no fixed places the record's may come later.
            return 0 if self._look_ahead(key) else self._missing(q, 1, expected)
        if not at_its_place and self.findings.harmless(offset, size) is not None:  # it needs no record
            self._explain(self.cursor, self.cursor + 1)
            self.cursor += 1
            return 0
        ahead = _find(units, found[:_KEY], i + 1, min(count, i + LOOK_AHEAD), width)
        if ahead is not None:  # it is of a later record: those before that one have no units
            return self._missing(q, ahead - i, expected)
        if self._look_ahead(key):
            return 0
        if indexed and q != self.cursor:  # the unit at the cursor is still due for another queue offset
            return self._missing(q, 1, expected)
        if self.files.one(self.cursor + 1)[:_KEY] == key:  # one unit too many
            self._explain(self.cursor, self.cursor + 1)
            self.cursor += 1
            return 0
        self.findings.contradiction(self.cursor, expected, found)
        self.cursor += 1
        return 1

    def _missing(self, queue_offset: int, count: int, expected: bytes) -> int:
        self.findings.missing(queue_offset, count, POINTER.unpack_from(expected)[0])
        return count

    def _look_ahead(self, key: bytes) -> bool:
        """In batch and light queues, move to the unit with this key if it is not far ahead."""
        count = min(self.files.end - self.cursor - 1, LOOK_AHEAD_ON_DISK)
        if self.kind.placed or count <= 0:
            return False
        at = _find(self.files.read(self.cursor + 1, count), key, 0, count, self.kind.width)
        if at is None:
            return False
        self._explain(self.cursor, self.cursor + 1 + at)
        self.cursor += 1 + at
        return True

    def _explain(self, start: int, stop: int) -> None:
        """Explain every unit in [start, stop) that has no record and was not checked before."""
        start, self._explained_to = max(start, self._explained_to), max(stop, self._explained_to)
        for number, data in self.files.blocks(start, stop):
            for at in range(0, len(data), self.kind.width):
                offset, size = POINTER.unpack_from(data, at)
                if offset < 0 or size <= 0:
                    continue  # no unit here: its record is reported as missing one
                why = self.findings.harmless(offset, size)
                if why is not None:
                    self.findings.passed[why] += 1
                else:
                    self.findings.extra(number + at // self.kind.width, offset)

    # -- the other fields of a unit ------------------------------------------------------------------------------------

    def _compare(self, expected: bytes, found: bytes, time: int) -> None:
        if self.kind.width == BATCH_UNIT_SIZE:
            ours, theirs = BATCH_UNIT.unpack(expected), BATCH_UNIT.unpack(found)
            self.findings.wrong(self.cursor, str(tuple(ours)), str(tuple(theirs)))
            return
        code, other = UNIT.unpack(expected).tags_code, UNIT.unpack(found).tags_code
        if ext.is_address(other):
            self._compare_extension(code, other, time)
        elif self.kind.schedule and not self.kind.delays_known and other >= time and code > time:
            if code != other:
                self.findings.delivered_after(self.cursor, other - time)
        elif code != other:
            self.findings.wrong(self.cursor, f"tags code {code}", f"tags code {other}")

    def _compare_extension(self, code: int, address: int, time: int) -> None:
        unit = self.extension.unit(address) if self.extension is not None else None
        if unit is None:
            found = f"address {ext.position(address)} points to no record"
        elif address <= self._last_address:
            found = f"address {ext.position(address)} is not after that of the unit before"
        elif (unit.tags_code, unit.store_timestamp) != (code, time):
            found = f"tags code {unit.tags_code}, time {unit.store_timestamp}"
        else:
            self._last_address = address
            return
        self.findings.wrong(self.cursor, f"tags code {code}, time {time} in the extension", found, "ext-wrong")

    # -- the end ---------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Judge the rest of both sides, when the log has no more units for this queue."""
        self.stop()
        self._count_after()
        self.findings.report_passed()

    def stop(self) -> None:
        """Report what was held back at the end of a part; later units are not judged."""
        self.findings.finish(self.cursor, self.matched)

    def _count_after(self) -> None:
        """Count the units after the last one that the log gives."""
        width = self.kind.width
        for number, data in self.files.blocks(self.cursor, self.files.end):
            if not any(data):
                continue
            for at in range(0, len(data), width):
                offset, size = POINTER.unpack_from(data, at)
                if offset == 0 and size == 0:
                    continue
                self.findings.passed[self.findings.harmless(offset, size) or "units-ghost"] += 1
                if self.kind.indexed:
                    self._end = number + at // width + 1
                else:
                    unit = BATCH_UNIT.unpack(data, at)
                    self._end = max(self._end, unit.base_offset + unit.messages)


def _same_prefix(ours: bytes, theirs: bytes, width: int) -> int:
    """Return how many leading units two blocks of one length share; fewer than all."""
    assert len(ours) == len(theirs) and ours != theirs
    low, high = 0, len(ours) // width - 1
    while low < high:  # units before `low` are equal, some unit up to `high` is not
        middle = (low + high + 1) // 2
        if ours[low * width : middle * width] == theirs[low * width : middle * width]:
            low = middle
        else:
            high = middle - 1
    return low


def _find(units: bytes, key: bytes, start: int, stop: int, width: int) -> int | None:
    """Return the number of the first unit in [start, stop) that begins with `key`."""
    at = start * width - 1
    end = stop * width
    while True:
        at = units.find(key, at + 1, end)
        if at < 0:
            return None
        if at % width == 0:
            return at // width
