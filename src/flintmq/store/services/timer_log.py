"""Writes the timer log and `config/timercheck`, from which RocketMQ goes on.

RocketMQ keeps what waits in three places: the timer log (a unit for each record of the timer's topic), the wheel (the
newest unit of each slot) and `timercheck` (how far both queue and time are done). The wheel follows from the log: a
start of RocketMQ enters the units again from one file before `log_flushed_position` on. So this store writes no wheel:
it says a position within the first file, which has a start enter all units, and removes a wheel that would be older
than the log.

Durability: the log first, then `timercheck`, which says that it is there. Units after what `timercheck` says are of
records that are taken once more; each record has one unit, since who takes it looks for one first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from flintmq.config.keys import StoreConfig
from flintmq.format import timer
from flintmq.format.timer import LogUnit, TimerCheck
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.files.whole_file import replace_file
from flintmq.store.layout import directories
from flintmq.store.layout.timer_files import CHECK, WHEEL, log_files, log_units, read_check
from flintmq.store.services.expire_derived import remove

_UNIT, _END = timer.LOG_UNIT.size, timer.LOG_END.size
_FURTHEST = 0x7FFFFFFF  # ms between the two times of a unit


class NewUnit(NamedTuple):
    """A unit to be written; see LogUnit for its numbers."""

    slot: int
    magic: int
    write_time: int
    physical_offset: int
    record_size: int
    topic_hash: int


class TimerLog:
    """The timer log of one store. Thread: one at a time.

    Attributes:
        end: position after the last unit.
    """

    def __init__(self, root: str, config: StoreConfig, effects: Effects) -> None:
        self.root, self.effects = root, effects
        self.folder = os.path.join(root, directories.TIMER_LOG)
        self.file_size, self.end = config.mapped_file_size_timer_log, 0
        self._newest: dict[int, int] = {}  # slot -> position of its newest unit
        self._last: dict[int, int] = {}  # start of a file -> log offset of the record of its last unit
        self._has_wheel = True  # or may have one

    def load(self, log_end: int) -> Iterator[LogUnit]:
        """Yield the units that are there, and cut what follows; the log ends at `log_end`."""
        self._newest.clear()
        self._last.clear()
        files = log_files(self.root, self.effects)
        if files:
            self.end, self.file_size = files[0].start, files[0].size
        for position, unit in log_units(files, log_end, self.effects):
            self.end = position + _UNIT
            self._newest[unit.slot_time] = position
            self._last[position - position % self.file_size] = unit.physical_offset
            yield unit
        self._cut()

    def check(self) -> TimerCheck:
        return read_check(self.root, self.effects)

    def _cut(self) -> None:
        """Zero what follows the last unit, lest it comes to count once units are written before it."""
        effects = self.effects
        for name in sorted(effects.listdir(self.folder)):
            path = os.path.join(self.folder, name)
            if not directories.OFFSET_NAME.fullmatch(name) or int(name) + self.file_size <= self.end:
                continue
            if int(name) > self.end:
                effects.unlink(path)
                self._drop_wheel()
                continue
            with effects.writing(path) as fd:
                at, size = self.end - int(name), effects.size_of(fd)
                if any(piece.strip(b"\0") for _, piece in effects.data_pieces(fd, at, size, 1 << 20)):
                    effects.truncate(fd, at)
                    effects.truncate(fd, size)
                    effects.sync(fd)
                    self._drop_wheel()

    def _drop_wheel(self) -> None:
        """Remove the wheel, whose slots would be older than the log."""
        for name in self.effects.listdir(self.root) if self._has_wheel else ():
            if WHEEL.fullmatch(name):
                self.effects.unlink(os.path.join(self.root, name))
        self._has_wheel = False

    def append(self, units: Sequence[NewUnit]) -> None:
        """Write units after the last one.

        Durability: on return. Raises OSError: none of them counts, and the next call writes them again.
        """
        end, newest, last = self.end, dict[int, int](), dict[int, int]()
        at = 0
        if units:
            self._drop_wheel()
            self.effects.make_folder(self.folder)
        while at < len(units):
            start = end - end % self.file_size
            room = start + self.file_size - end
            count = min(max(room - _END, 0) // _UNIT, len(units) - at)
            data = bytearray()
            for unit in units[at : at + count]:
                data += self._encoded(unit, newest.get(unit.slot, self._newest.get(unit.slot, timer.NONE)))
                newest[unit.slot] = end + len(data) - _UNIT
                last[start] = unit.physical_offset
            at += count
            if at < len(units):  # no further one fits
                data += timer.LOG_END.pack(timer.TimerLogEnd(room - len(data)))
            self._write(start, end - start, data)
            end = start + self.file_size if at < len(units) else end + len(data)
        self.end = end
        self._newest.update(newest)
        self._last.update(last)

    def _write(self, start: int, position: int, data: bytearray) -> None:
        path, effects = os.path.join(self.folder, f"{start:020d}"), self.effects
        is_new = effects.size(path) is None
        fd = effects.create(path, self.file_size) if is_new else effects.open_write(path)
        try:
            effects.pwrite(fd, data, position)
            effects.sync(fd)
        finally:
            effects.close(fd)
        if is_new:
            effects.sync_dir(self.folder)

    @staticmethod
    def _encoded(unit: NewUnit, previous: int) -> bytes:
        written = unit.write_time if abs(unit.slot - unit.write_time) <= _FURTHEST else unit.slot
        return timer.LOG_UNIT.pack(
            LogUnit(
                _UNIT,
                previous,
                unit.magic,
                written,
                unit.slot - written,
                unit.physical_offset,
                unit.record_size,
                unit.topic_hash,
            )
        )

    def note(self, read_time: int, queue_offset: int) -> None:
        """Write `timercheck`.

        All before this time is delivered, all records before this offset have a unit.

        Durability: on return. Raises OSError: the old file is untouched then.
        """
        before = self.check()
        check = TimerCheck(
            read_time,
            min(self.end, self.file_size),  # within the first file, so a start enters all units into a wheel
            queue_offset,
            queue_offset,
            before.state_version,
            self.effects.now_ms(),
            before.counter + 1,
        )
        folder = os.path.join(self.root, directories.CONFIG)
        self.effects.make_folder(folder)
        replace_file(os.path.join(folder, CHECK), timer.encode_check(check), self.effects)

    def forget(self, read_time: int, log_begin: int) -> None:
        """Forget slots before a time, and delete files of which all records are deleted.

        The last file stays.
        """
        self._newest = {slot: position for slot, position in self._newest.items() if slot >= read_time}
        for start in sorted(self._last)[:-1]:
            if self._last[start] >= log_begin:
                return
            remove(os.path.join(self.folder, f"{start:020d}"), f"its records were before {log_begin}", self.effects)
            del self._last[start]
