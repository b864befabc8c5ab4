"""Compare the units that the log gives a queue with the units on disk, both ways.

`UnitCheck.expect` takes the units of one queue in log order and a cursor moves along the files: whole runs of equal
bytes at once, one unit at a time only where something differs. Every unit that the cursor passes is accounted for: it
is the one expected, it is harmless (pre-blank, expired, of a message in a damaged stretch), or it is a defect. What is
behind the cursor at the end has no record: ghosts, left over from a cut of the log.

Where a unit and a record do not meet, the record's queue offset and what comes next on both sides tell which one is too
many. RocketMQ appends units after a hole, so whole stretches can be displaced by a few places; and a topic that is
deleted and made anew begins again at offset 0 while the log still holds its old records. Both are followed.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from flintmq.forensics.ground import Ground
from flintmq.forensics.unit_files import UnitFiles
from flintmq.format import consume_queue_ext as ext
from flintmq.format.batch_queue import BATCH_UNIT, BATCH_UNIT_SIZE
from flintmq.format.consume_queue import PRE_BLANK_SIZE, UNIT, UNIT_SIZE
from flintmq.store.queues import ExtQueue, QueueName

FIRST_RUN, LONGEST_RUN = 64, 8192  # units compared at once
LOOK_AHEAD = 512  # expected units that are searched for the one found
LOOK_BEHIND = 256  # units of a batch queue that are searched for the one expected
HELD = 100  # findings of a kind that are kept until the queue's end shows what they are
_POINTER: Final = struct.Struct(">qi")
_KEY = _POINTER.size  # position and size of the record: what a unit is recognised by
_TAGS: Final = struct.Struct(">q")


@dataclass(frozen=True, slots=True)
class QueueKind:
    """What kind of queue it is.

    Attributes:
        width: bytes of a unit.
        light: a light queue, whose units may be displaced.
        schedule: SCHEDULE_TOPIC_XXXX, whose tags codes are times of delivery.
        delays_known: messageDelayLevel was given, so another time of delivery is wrong.
    """

    width: int = UNIT_SIZE
    light: bool = False
    schedule: bool = False
    delays_known: bool = False

    @property
    def indexed(self) -> bool:
        """Whether a unit's number is its queue offset."""
        return self.width == UNIT_SIZE


@dataclass(slots=True)
class _Run:
    """Neighbouring units of one finding."""

    first: int = 0
    count: int = 0
    offset: int = 0  # log offset of the first one's record
    shift: int = 0


class UnitCheck:
    """One queue under comparison.

    Args:
        name: topic and queue id.
        files: what is on disk.
        kind: what kind of queue it is.
        ground: what it is judged by.
        extension: the queue's extension files, where units hold addresses.

    Attributes:
        cursor: number of the unit on disk that is looked at next.
        matched: units that stand for their record.
        log_end: queue offset behind the last message that the log gives; set by the caller.
    """

    __slots__ = (
        "_delays", "_displaced", "_end", "_extra", "_held", "_held_count", "_last_address", "_missing", "_passed",
        "cursor", "extension", "files", "ground", "kind", "log_end", "matched", "name",
    )  # fmt: skip

    def __init__(
        self, name: QueueName, files: UnitFiles, kind: QueueKind, ground: Ground, extension: ExtQueue | None = None
    ) -> None:
        self.name, self.files, self.kind, self.ground, self.extension = name, files, kind, ground, extension
        self.cursor = files.first
        self.matched = self.log_end = self._end = 0
        self._missing, self._displaced, self._extra = _Run(), _Run(), _Run()
        self._held: list[tuple[int, bytes, bytes]] = []
        self._held_count = 0
        self._passed: Counter[str] = Counter()
        self._delays: dict[int, tuple[int, int]] = {}  # ms -> (units, number of the first one)
        self._last_address = -(1 << 63) - 1

    @property
    def label(self) -> str:
        """The queue for people."""
        return f"{self.name.topic}/{self.name.queue_id}"

    @property
    def end(self) -> int:
        """Queue offset behind the last message, by the log or by the files, whichever has more."""
        return max(self.log_end, self._end, self.cursor if self.kind.indexed and self.files.spans else 0)

    # -- what the log gives ----------------------------------------------------------------------------------------

    def expect(self, first: int, units: bytes, times: Sequence[int]) -> None:
        """Take a run of units that the log gives this queue, behind those taken before.

        Args:
            first: queue offset of the first one; the others follow without holes. Without meaning in a batch queue.
            units: their bytes.
            times: store time in ms of each one's record.
        """
        width = self.kind.width
        count = len(units) // width
        i = 0
        while i < count:
            i = self._equal(first, units, i, count)
            if i < count:
                i += self._resolve(first + i, units, i, count, times)

    def _equal(self, first: int, units: bytes, i: int, count: int) -> int:
        """Pass over expected units that equal those at the cursor; gives the first one that does not."""
        width, step = self.kind.width, FIRST_RUN
        while i < count:
            some = min(step, count - i)
            ours, theirs = units[i * width : (i + some) * width], self.files.read(self.cursor, some)
            same = some if ours == theirs else _same_prefix(ours, theirs, width)
            if same:
                self._met(first + i, same)
                i += same
            if same < some:
                return i
            step = min(step * 4, LONGEST_RUN)
        return i

    def _met(self, queue_offset: int, count: int) -> None:
        """The next `count` units on disk are those of the records at this queue offset."""
        self._settle_extra()
        if self._missing.count:
            self._tell_gone(hole=True)
        shift = self.cursor - queue_offset if self.kind.indexed else 0
        if self._displaced.count and shift != self._displaced.shift:
            self._tell_displaced()
        if shift:
            if not self._displaced.count:
                self._displaced = _Run(self.cursor, 0, queue_offset, shift)
            self._displaced.count += count
        self.matched += count
        self.cursor += count

    def _resolve(self, q: int, units: bytes, i: int, count: int, times: Sequence[int]) -> int:
        """Expected unit i and the unit at the cursor differ: decide about one of them or both.

        Returns:
            How many expected units are dealt with. With 0 the cursor has moved to where they can meet.
        """
        width, indexed = self.kind.width, self.kind.indexed
        expected, found = units[i * width : (i + 1) * width], self.files.one(self.cursor)
        key = expected[:_KEY]
        if found[:_KEY] == key:
            self._compare(expected, found, times[i])
            self._met(q, 1)
            return 1
        if indexed and q != self.cursor and self.files.one(q)[:_KEY] == key:
            if q > self.cursor:
                self._account(self.cursor, q)
            else:
                self._begin_again(q)
            self.cursor = q
            return 0
        offset, size = _POINTER.unpack_from(found)
        at_its_place = indexed and q == self.cursor
        if not any(found) or (not at_its_place and (offset < 0 or size <= 0)):
            return self._nothing_there(q, key)
        if not at_its_place and self._harmless(offset, size) is not None:
            self._account(self.cursor, self.cursor + 1)
            self.cursor += 1
            return 0
        ahead = _find(units, found[:_KEY], i + 1, min(count, i + LOOK_AHEAD), width)
        if ahead is not None:
            self._miss(q, ahead - i, _POINTER.unpack_from(expected)[0])
            return ahead - i
        if indexed and not at_its_place:
            self._miss(q, 1, _POINTER.unpack_from(expected)[0])
            return 1
        if not indexed and self._look_behind(key):
            return 0
        self._contradict(expected, found)
        self.cursor += 1
        return 1

    def _nothing_there(self, q: int, key: bytes) -> int:
        """The cursor stands at a place that holds no unit."""
        if not self.kind.indexed and self._look_behind(key):
            return 0
        self._miss(q, 1, _POINTER.unpack_from(key)[0])
        return 1

    def _look_behind(self, key: bytes) -> bool:
        """In a batch queue, whose places tell nothing: go to the unit with this key if it is a little further on."""
        stop = min(self.files.end, self.cursor + 1 + LOOK_BEHIND)
        if self.cursor + 1 >= stop:
            return False
        at = _find(self.files.read(self.cursor + 1, stop - self.cursor - 1), key, 0, LOOK_BEHIND, self.kind.width)
        if at is None:
            return False
        self._account(self.cursor, self.cursor + 1 + at)
        self.cursor += 1 + at
        return True

    def _begin_again(self, q: int) -> None:
        """The log counts the queue's offsets from here again, and the files hold what came later."""
        self.ground.findings.note(
            "queue-restarted", f"queue {self.label} begins again at offset {q}", self.files.folder
        )
        self._held.clear()
        self._held_count = 0
        self._missing = _Run()

    # -- single units ----------------------------------------------------------------------------------------------

    def _harmless(self, offset: int, size: int) -> str | None:
        """The note that explains a unit without a record of this queue, None if nothing does."""
        if size == PRE_BLANK_SIZE:
            return "units-pre-blank"
        if 0 <= offset < self.ground.log_begin:
            return "units-expired"
        return "units-lost" if offset in self.ground.lost else None

    def _account(self, start: int, stop: int) -> None:
        """Explain every unit in [start, stop), for which there is no record."""
        for number, data in self.files.blocks(start, stop):
            for at in range(0, len(data), self.kind.width):
                offset, size = _POINTER.unpack_from(data, at)
                if offset < 0 or size <= 0:
                    self._settle_extra()  # a place without a unit: the record that misses it is told
                    continue
                why = self._harmless(offset, size)
                if why is not None:
                    self._passed[why] += 1
                    self._settle_extra()
                else:
                    self._add_extra(number + at // self.kind.width, offset)

    def _add_extra(self, number: int, offset: int) -> None:
        if self._extra.count and number != self._extra.first + self._extra.count:
            self._settle_extra()
        if not self._extra.count:
            self._extra = _Run(number, 0, offset)
        self._extra.count += 1

    def _settle_extra(self) -> None:
        run, self._extra = self._extra, _Run()
        if run.count:
            path, position = self.files.place(run.first)
            self.ground.findings.defect(
                "unit-extra",
                path,
                position,
                expected=f"a record of queue {self.label} for {_units(run.first, run.count)}",
                found=f"log offset {run.offset}, where none is",
            )

    def _compare(self, expected: bytes, found: bytes, time: int) -> None:
        """A unit stands for its record; compare what it says besides the record's place."""
        if self.kind.width == BATCH_UNIT_SIZE:
            self._wrong(str(tuple(BATCH_UNIT.unpack(expected))), str(tuple(BATCH_UNIT.unpack(found))))
            return
        code, theirs = UNIT.unpack(expected).tags_code, UNIT.unpack(found).tags_code
        if ext.is_address(theirs):
            self._compare_extension(code, theirs, time)
        elif self.kind.schedule and not self.kind.delays_known and theirs >= time and code > time:
            self._delivered_after(theirs - time)
        elif code != theirs:
            self._wrong(f"tags code {code}", f"tags code {theirs}")

    def _compare_extension(self, code: int, address: int, time: int) -> None:
        unit = self.extension.unit(address) if self.extension is not None else None
        path, position = self.files.place(self.cursor)
        expected = f"tags code {code}, time {time} in the extension of queue {self.label}, unit {self.cursor}"
        if unit is None:
            found = f"address {ext.position(address)} leads nowhere"
        elif address <= self._last_address:
            found = f"address {ext.position(address)} is not behind that of the unit before"
        elif (unit.tags_code, unit.store_timestamp) != (code, time):
            found = f"tags code {unit.tags_code}, time {unit.store_timestamp}"
        else:
            self._last_address = address
            return
        self.ground.findings.defect("ext-wrong", path, position, expected=expected, found=found)

    def _wrong(self, expected: str, found: str) -> None:
        path, position = self.files.place(self.cursor)
        self.ground.findings.defect(
            "unit-wrong", path, position, expected=f"{expected} (queue {self.label}, unit {self.cursor})", found=found
        )

    def _contradict(self, expected: bytes, found: bytes) -> None:
        """Another record's place stands where this one's is due. It may be a later one's: the topic was made anew."""
        if _POINTER.unpack_from(found)[0] <= _POINTER.unpack_from(expected)[0]:
            self._tell_contradiction(self.cursor, expected, found)
            return
        self._held_count += 1
        if len(self._held) < HELD:
            self._held.append((self.cursor, expected, found))

    def _tell_contradiction(self, number: int, expected: bytes, found: bytes) -> None:
        path, position = self.files.place(number)
        ours, theirs = _POINTER.unpack_from(expected), _POINTER.unpack_from(found)
        self.ground.findings.defect(
            "unit-wrong",
            path,
            position,
            expected=f"log offset {ours[0]}, size {ours[1]} (queue {self.label}, unit {number})",
            found=f"log offset {theirs[0]}, size {theirs[1]}",
        )

    # -- runs ------------------------------------------------------------------------------------------------------

    def _miss(self, queue_offset: int, count: int, offset: int) -> None:
        """Records without a unit. Whether that is a hole or only not dispatched yet shows when a later one has one."""
        if not self._missing.count:
            self._missing = _Run(queue_offset, 0, offset)
        self._missing.count += count

    def _tell_gone(self, hole: bool) -> None:
        run, self._missing = self._missing, _Run()
        if not hole and self.ground.is_pending(run.offset):
            self.ground.findings.note(
                "units-pending",
                f"queue {self.label}: {run.count} messages from log offset {run.offset} on wait for dispatch",
                self.files.folder,
            )
            return
        path, position = self.files.place(run.first if self.kind.indexed else self.cursor)
        what = _units(run.first, run.count) if self.kind.indexed else f"{run.count} units"
        self.ground.findings.defect(
            "unit-missing",
            path,
            position,
            expected=f"{what} of queue {self.label}, for records from log offset {run.offset} on",
            found="none for them",
        )

    def _tell_displaced(self) -> None:
        run, self._displaced = self._displaced, _Run()
        text = f"{_units(run.first, run.count)} of queue {self.label}"
        if self.kind.light:
            self.ground.findings.note(
                "lmq-displaced", f"{text} stand for queue offsets from {run.offset} on", self.files.folder
            )
            return
        path, position = self.files.place(run.first)
        self.ground.findings.defect(
            "unit-displaced",
            path,
            position,
            expected=f"{run.count} records of queue {self.label} at queue offsets from {run.first} on",
            found=f"their records say {run.offset} on",
        )

    # -- the end ---------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """The log gives this queue nothing more: judge what is left on both sides."""
        self._settle_extra()
        if self._missing.count:
            self._tell_gone(hole=False)
        if self._displaced.count:
            self._tell_displaced()
        for number, expected, found in self._held:
            self._tell_contradiction(number, expected, found)
        if self._held_count > len(self._held):
            self.ground.findings.defect(
                "unit-wrong", self.files.folder, None, expected="units of earlier records",
                found=f"{self._held_count - len(self._held)} further units of queue {self.label} point ahead",
            )  # fmt: skip
        self._tell_delays()
        self._count_behind()
        for code, count in self._passed.items():
            self.ground.findings.note(code, f"queue {self.label}: {count} units", self.files.folder)

    def _count_behind(self) -> None:
        """What stands behind the last unit that the log gives."""
        width = self.kind.width
        for number, data in self.files.blocks(self.cursor, self.files.end):
            if not any(data):
                continue
            for at in range(0, len(data), width):
                offset, size = _POINTER.unpack_from(data, at)
                if offset == 0 and size == 0:
                    continue
                self._passed[self._harmless(offset, size) or "units-ghost"] += 1
                if self.kind.indexed:
                    self._end = number + at // width + 1
                else:
                    unit = BATCH_UNIT.unpack(data, at)
                    self._end = max(self._end, unit.base_offset + unit.messages)

    def _delivered_after(self, delay: int) -> None:
        """A time of delivery that is not the level's: another table of levels, or damage."""
        if delay not in self._delays and len(self._delays) >= HELD:
            self._wrong("the time of delivery that the delay level gives", f"store time + {delay} ms")
            return
        count, first = self._delays.get(delay, (0, self.cursor))
        self._delays[delay] = (count + 1, first)

    def _tell_delays(self) -> None:
        """Times of delivery that another delay level table explains are a note, single ones are wrong."""
        for delay, (count, first) in self._delays.items():
            if count > max(1, self.matched // 2):
                self.ground.findings.note(
                    "delay-level",
                    f"queue {self.label}: {count} messages are due {delay} ms after they were stored",
                    self.files.folder,
                )
                continue
            path, position = self.files.place(first)
            self.ground.findings.defect(
                "unit-wrong",
                path,
                position,
                expected=f"the time of delivery that the delay level gives (queue {self.label}, unit {first})",
                found=f"store time + {delay} ms, {count} times",
            )


def _same_prefix(ours: bytes, theirs: bytes, width: int) -> int:
    """How many whole units two blocks of one length begin with in common; fewer than all."""
    low, high = 0, len(ours) // width - 1
    while low < high:  # units before `low` are equal, some unit up to `high` is not
        middle = (low + high + 1) // 2
        if ours[low * width : middle * width] == theirs[low * width : middle * width]:
            low = middle
        else:
            high = middle - 1
    return low


def _find(units: bytes, key: bytes, start: int, stop: int, width: int) -> int | None:
    """Number of the first unit in [start, stop) that begins with key."""
    at = start * width - 1
    end = stop * width
    while True:
        at = units.find(key, at + 1, end)
        if at < 0:
            return None
        if at % width == 0:
            return at // width


def _units(first: int, count: int) -> str:
    return f"unit {first}" if count == 1 else f"units {first} to {first + count - 1}"
