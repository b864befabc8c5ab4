"""Checks the timer store: units of the timer log, and slots of the wheel (store format 12).

Units are checked in one pass. Each must link to an earlier unit of the same slot, and point to a record of the log. The
wheel is compared with the units: newest unit, first unit and count of each slot in use. Slots are not cleared after
delivery, and log files are deleted in time, so many slots may point to units that are gone; that is no defect. After an
unclean stop the wheel may lag the log, and is not compared.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Callable, Iterator

from flintmq.config.keys import StoreConfig
from flintmq.errors import FormatError, StoreAccessError
from flintmq.forensics.verify.context import Ground
from flintmq.forensics.verify.queue_files import Disk, check_sequence
from flintmq.format import timer
from flintmq.format.record import MAGIC_V1, MAGIC_V2
from flintmq.format.record_view import PHYSICAL_OFFSET_END, magic_at, physical_offset_at, size_at
from flintmq.store.commitlog.files import LogFiles, file_start
from flintmq.store.layout.directories import CONFIG, TIMER_LOG
from flintmq.store.layout.file_geometry import common_size

_UNIT = timer.LOG_UNIT.size
_BLOCK = 20_000 * _UNIT
_SLOTS_AT_ONCE = 32_768
_SNAPSHOT = re.compile(r"timerwheel\.([0-9]{1,19})")


class TimerStoreCheck:
    """The timer store under comparison: `timerlog/`, `timerwheel` and `config/timercheck`."""

    def __init__(self, root: str, config: StoreConfig, disk: Disk, ground: Ground, log: LogFiles, log_end: int) -> None:
        self.root, self.precision = root, config.timer_precision_ms
        self.disk, self.ground, self.findings = disk, ground, ground.findings
        self.log, self.log_end = log, log_end
        self.folder = os.path.join(root, TIMER_LOG)
        self.files: list[tuple[int, int, str]] = []  # start, size, path
        self.clean = ground.replay_from is None and not ground.live

    def run(self, end_of: Callable[[str, int], int | None]) -> None:
        """Check everything. `end_of` returns the queue offset after a queue's last message."""
        check = self._timercheck(end_of)
        self._list()
        if self.files or self.disk.effects.size(os.path.join(self.root, "timerwheel")) is not None:
            wheel = _Wheel(self)
            for position, unit in self._units(check.log_flushed_position):
                self._unit(position, unit)
                wheel.take(position, unit)
            if self.clean:
                wheel.compare()
            if not self.files and check.log_flushed_position > 0:
                expected = f"a timer log up to {check.log_flushed_position}"
                self.findings.defect("timer-log", self.folder, None, expected, "no files")

    def _timercheck(self, end_of: Callable[[str, int], int | None]) -> timer.TimerCheck:
        path = os.path.join(self.root, CONFIG, "timercheck")
        try:
            data = self.disk.effects.read_file(path, timer.TIMER_CHECK_SIZE + 1)
            if data is None:
                return timer.TimerCheck()
            check = timer.decode_check(data)
            if len(data) != timer.TIMER_CHECK_SIZE or min(check) < 0:
                raise FormatError(f"{len(data)} bytes, least number {min(check)}")
        except (FormatError, StoreAccessError) as error:
            expected = f"7 numbers that are not negative in {timer.TIMER_CHECK_SIZE} bytes"
            self.findings.defect("config-bad", path, None, expected, str(error))
            return timer.TimerCheck()
        end = end_of(timer.TIMER_TOPIC, 0) or 0
        if check.queue_offset > end:
            at = timer.TIMER_CHECK.offset("queue_offset")
            expected = f"an offset of {timer.TIMER_TOPIC} up to {end}"
            self.findings.defect("offset-ahead", path, at, expected, str(check.queue_offset))
        return check

    # -- the log ---------------------------------------------------------------------------------------------------

    def _list(self) -> None:
        effects = self.disk.effects
        for name in effects.listdir(self.folder):
            path = os.path.join(self.folder, name)
            start, size = file_start(name), effects.size(path)
            if start is None or size is None:
                self.findings.note("unknown-file", f"{path} is not a timer log file", path)
            else:
                self.files.append((start, size, path))
        due = common_size((size for _, size, _ in self.files), 0)
        check_sequence(self.files, due, self.findings, "timer-log", "timer-log")

    def _units(self, flushed: int) -> Iterator[tuple[int, timer.LogUnit]]:
        for start, size, path in self.files:
            at = 0
            while at < size:
                data = self._bytes(path, min(_BLOCK, size - at), at)
                step = 0
                while True:
                    try:
                        unit = timer.decode_log(data, step)
                    except FormatError as error:
                        if len(data) - step < _UNIT and len(data) == min(_BLOCK, size - at) and at + len(data) < size:
                            break  # the block is used up
                        if start + at + step < flushed:
                            found = f"{error.reason}; the log is flushed up to {flushed}"
                            self.findings.defect("timer-log", path, at + step, "a unit", found)
                        return
                    if isinstance(unit, timer.TimerLogEnd):
                        at = size
                        break
                    yield start + at + step, unit
                    step += _UNIT
                at += step

    def _bytes(self, path: str, count: int, position: int) -> bytes:
        try:
            return self.disk.pread(path, os.path.dirname(path), count, position)
        except StoreAccessError as error:
            self.findings.defect("timer-log", path, position, "a file that can be read", str(error))
            return b""

    def _place(self, position: int) -> tuple[str, int | None]:
        for start, size, path in reversed(self.files):
            if start <= position < start + size:
                return path, position - start
        return self.folder, None

    def _unit(self, position: int, unit: timer.LogUnit) -> None:
        path, at = self._place(position)

        def wrong(expected: str, found: str) -> None:
            self.findings.defect("timer-log", path, at, expected, found)

        if not unit.magic & timer.UNIT_ALWAYS:
            wrong("magic with bit 1", str(unit.magic))
        if unit.write_time % self.precision or unit.slot_time % self.precision:
            wrong(f"times that are multiples of {self.precision} ms", f"{unit.write_time} and {unit.slot_time}")
        before = unit.previous_position
        if before != timer.NONE and self.files[0][0] <= before:
            linked = self._unit_at(before) if before < position else None
            if linked is None or linked.slot_time != unit.slot_time:
                wrong("a link to an earlier unit of the same slot", f"position {before}")
        elif before < timer.NONE:
            wrong("a link to an earlier unit", f"position {before}")
        self._record(unit, wrong)

    def _unit_at(self, position: int) -> timer.LogUnit | None:
        path, at = self._place(position)
        if at is None:
            return None
        try:
            unit = timer.decode_log(self._bytes(path, _UNIT, at))
        except FormatError:
            return None
        return unit if isinstance(unit, timer.LogUnit) else None

    def _record(self, unit: timer.LogUnit, wrong: Callable[[str, str], None]) -> None:
        """Check that a unit points to a record, unless that part of the log is gone or damaged."""
        offset = unit.physical_offset
        if 0 <= offset < self.ground.log_begin or offset in self.ground.lost:
            return
        if offset >= self.log_end and not self.clean:
            return
        file = self.log.find(offset) if 0 <= offset < self.log_end else None
        head = self._bytes(file.path, PHYSICAL_OFFSET_END, offset - file.start) if file is not None else b""
        right = physical_offset_at(head) == offset and size_at(head) == unit.record_size
        if not right or magic_at(head) not in (MAGIC_V1, MAGIC_V2):
            wrong(f"a record of {unit.record_size} bytes at log offset {offset}", "none there")


class _Wheel:
    """The slots on disk, and the slots computed from the log's units."""

    def __init__(self, check: TimerStoreCheck) -> None:
        self.check, self.path = check, _wheel_path(check)
        self.used = False
        self.moments = self.first = self.last = self.counts = array("q")
        size = check.disk.effects.size(self.path)
        if size != timer.WHEEL_SIZE:
            if size is not None:
                check.findings.defect("timer-wheel", self.path, None, f"{timer.WHEEL_SIZE} bytes", f"{size} bytes")
            return
        if check.files and check.clean:
            self.used = True
            none = array("q", [timer.NONE])
            self.moments, self.first, self.last = (none * timer.WHEEL_SLOTS for _ in range(3))
            self.counts = array("q", bytes(8 * timer.WHEEL_SLOTS))
            for number, slot in self._slots():
                self.moments[number] = slot.moment

    def _slots(self) -> Iterator[tuple[int, timer.WheelSlot]]:
        """Yield (number, slot) of every slot that is not zeros."""
        width = timer.WHEEL_SLOT.size
        empty = bytes(width)
        first = 0
        while first < timer.WHEEL_SLOTS:
            data_at = self.check.disk.next_data(self.path, self.check.root, first * width)
            if data_at is None:
                return
            first = max(first, data_at // width)
            count = min(_SLOTS_AT_ONCE, timer.WHEEL_SLOTS - first)
            data = self.check._bytes(self.path, count * width, first * width)
            if data.strip(b"\0"):
                for at in range(0, len(data) // width * width, width):
                    if data[at : at + width] != empty:
                        yield first + at // width, timer.WHEEL_SLOT.unpack(data, at)
            first += max(count, 1)

    def take(self, position: int, unit: timer.LogUnit) -> None:
        """Enter a unit in its slot, if the wheel still holds that moment."""
        if not self.used:
            return
        moment = unit.slot_time // self.check.precision
        number = moment % timer.WHEEL_SLOTS
        if self.moments[number] == moment:
            if self.first[number] == timer.NONE:
                self.first[number] = position
            self.last[number] = position
            self.counts[number] += -1 if unit.magic & timer.UNIT_DELETES else 1

    def compare(self) -> None:
        if not self.used:
            return
        begin = self.check.files[0][0]
        for number, slot in self._slots():
            if slot.last_position < begin or slot.first_position < begin:
                continue  # delivered, and its part of the timer log was deleted
            due = (self.first[number], self.last[number], self.counts[number])
            found = (slot.first_position, slot.last_position, slot.messages)
            if found != due or slot.moment % timer.WHEEL_SLOTS != number:
                texts = "first {}, last {}, count {}", "first {}, last {}, count {}, moment {}"
                expected, seen = texts[0].format(*due), texts[1].format(*found, slot.moment)
                at = number * timer.WHEEL_SLOT.size
                self.check.findings.defect("timer-wheel", self.path, at, expected, seen)


def _wheel_path(check: TimerStoreCheck) -> str:
    """Return the wheel's file: the newest snapshot if there are any (5.4.0), else the plain one."""
    numbers = (_SNAPSHOT.fullmatch(name) for name in check.disk.effects.listdir(check.root))
    newest = max((int(number[1]) for number in numbers if number), default=None)
    return os.path.join(check.root, "timerwheel" if newest is None else f"timerwheel.{newest}")
