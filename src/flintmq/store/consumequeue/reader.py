"""Consume queues as they lie on disk: plain, batch and light ones, and the extension queue (store format 6, 7, 8).

Source: upstream ConsumeQueue, BatchConsumeQueue, ConsumeQueueExt. A queue of files holds units of one size; unit n
stands at byte n * size of the whole sequence. In a plain queue n is the queue offset; in a batch queue a unit says
itself where it begins. Units are hints: nothing here looks at the log, the view does.

Three things make the ends of a queue less than obvious, and all are handled here:

*   zeros mark the end, but after a crash the last file can be all zeros, and a lost page leaves a hole;
*   units that RocketMQ puts in front of a queue's first one (pre-blank) look valid and point nowhere;
*   units of an expired part of the log stay until a whole file of them has expired.

Files may vanish, shrink or be odd (strange names, other lengths, sub-directories): what is not there has no units.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from flintmq.errors import FormatError
from flintmq.format import consume_queue_ext as ext
from flintmq.format.batch_queue import BATCH_UNIT, BatchUnit
from flintmq.format.consume_queue import UNIT, Unit
from flintmq.format.layout import Layout
from flintmq.storage.filesystem import REAL, Effects
from flintmq.store.commitlog.files import file_start
from flintmq.store.layout import directories
from flintmq.store.layout.queue_name import QueueName, is_path

AnyUnit: TypeAlias = Unit | BatchUnit

_READ_BYTES = 64 * 1024
_PAGE = 4096  # data and holes begin at pages
_ZERO_BYTES = 1 << 20


class UnitFile(NamedTuple):
    """One file of a queue.

    Attributes:
        path: where it is.
        start: byte of the queue that its first byte is.
        size: bytes that hold units.
    """

    path: str
    start: int
    size: int


def zero_behind(files: Iterable[UnitFile], end: int, effects: Effects = REAL, zeros: int | None = None) -> None:
    """Nothing may stand behind a queue's last unit: whole files go, the rest of the last one is zeroed (D4, D12).

    Args:
        files: of one queue.
        end: byte of the queue behind the last unit.
        zeros: byte of the queue from which on there are zeros, as far as files hold units; None: nobody looked.

    Raises:
        OSError: a file cannot be written.

    Durability: none.
    """
    for file in files:
        keep = min(max(end - file.start, 0), file.size)
        if keep == 0 and file.start > 0:
            effects.unlink(file.path)
        elif keep < file.size and (zeros is None or file.start + keep < zeros):
            _zero_rest(file, keep, effects)


def _zero_rest(file: UnitFile, position: int, effects: Effects) -> None:
    fd = effects.open_write(file.path)
    try:
        while (at := effects.next_data(fd, position)) is not None and at < file.size:
            rest = effects.pread(fd, min(file.size - at, _ZERO_BYTES), at)
            if rest.count(0) != len(rest):
                effects.pwrite(fd, bytes(len(rest)), at)
            if not rest:
                break
            position = at + len(rest)
    finally:
        effects.close(fd)


class UnitQueue:
    """The units of one queue, read from its files as they were when this was made.

    Args:
        root: of the store.
        kind: directories.QUEUES or directories.BATCH_QUEUES.
        name: topic and queue id.
        layout: UNIT or BATCH_UNIT.
        effects: the disk.

    Raises:
        StoreAccessError: (any method) the directory or a file may not be read.

    Thread: any; nothing is changed after it was made.
    """

    def __init__(self, root: str, kind: str, name: QueueName, layout: Layout[Any], effects: Effects = REAL) -> None:
        self.layout: Layout[Any] = layout
        self._effects = effects
        self._below = os.path.join(root, kind)
        self.folder = os.path.join(self._below, name.topic, str(name.queue_id))
        self.files = self._list() if is_path(name.topic) else ()
        self._starts = [file.start for file in self.files]
        self._held: dict[str, int] | None = None
        self._last = "", 0, b""  # path, position and bytes of what was read last while files are held

    @contextmanager
    def held(self) -> Iterator[UnitQueue]:
        """The same queue, for one thread and the length of a `with` block: it opens each file once, when it is first
        read, and keeps what it read last, which others may change meanwhile."""
        held = UnitQueue.__new__(UnitQueue)
        held.__dict__ |= self.__dict__
        held._held = {}
        try:
            yield held
        finally:
            for fd in held._held.values():
                self._effects.close(fd)

    def _list(self) -> tuple[UnitFile, ...]:
        """The files in order, each cut to whole units and to where the next one begins."""
        width = self.layout.size
        found = []
        for name in self._effects.listdir(self.folder, self._below):
            start = file_start(name)
            size = self._effects.size(os.path.join(self.folder, name)) if start is not None else None
            if (
                start is not None
                and size is not None
                and start % width == 0
                and width <= size <= directories.LARGEST_FILE
            ):
                found.append(UnitFile(os.path.join(self.folder, name), start, size - size % width))
        ends = [file.start for file in found[1:]]
        cut = [file._replace(size=min(file.size, end - file.start)) for file, end in zip(found, ends, strict=False)]
        return (*cut, *found[-1:])

    @property
    def is_batch(self) -> bool:
        """Whether its units are those of a batch queue."""
        return self.layout is BATCH_UNIT

    @property
    def first(self) -> int:
        """Number of the first unit that there is a place for; 0 without files."""
        return self.files[0].start // self.layout.size if self.files else 0

    def read(self, number: int, count: int) -> list[AnyUnit]:
        """Up to `count` units from `number` on, of one file; none where no file is, or where it ends."""
        return list(self.layout.iter(self.raw(number, count)))

    def raw(self, number: int, count: int) -> bytes:
        """The bytes of these units: whole ones, unless the file shrank."""
        width = self.layout.size
        at = bisect_right(self._starts, number * width) - 1
        if at < 0 or count <= 0:
            return b""
        file = self.files[at]
        position = number * width - file.start
        most = min(count * width, file.size - position)
        return b"" if most <= 0 else self._bytes(file, position, most)

    def unit(self, number: int) -> AnyUnit | None:
        """One unit, written or not; None where no file is."""
        data = self.raw(number, 1)
        return self.layout.unpack(data) if len(data) == self.layout.size else None

    def units(self, number: int, stop: int) -> Iterator[tuple[int, AnyUnit]]:
        """(number, unit) of all units in [number, stop) that files hold, zeros and pre-blank ones included."""
        per_read = _READ_BYTES // self.layout.size
        for file in self.files:
            first = file.start // self.layout.size
            number = max(number, first)
            end = min(stop, first + file.size // self.layout.size)
            while number < end:
                found = self.read(number, min(end - number, per_read))
                if not found:
                    break
                for unit in found:
                    yield number, unit
                    number += 1

    @staticmethod
    def points_to_record(unit: AnyUnit) -> bool:
        """Whether a unit leads anywhere: it is written, and not pre-blank."""
        return unit.is_written and not (isinstance(unit, Unit) and unit.is_pre_blank)

    @staticmethod
    def span(number: int, unit: AnyUnit) -> tuple[int, int]:
        """The queue offsets [first, stop) that unit `number` stands for."""
        if isinstance(unit, BatchUnit):
            return unit.base_offset, unit.base_offset + unit.messages
        return number, number + 1

    def number_of(self, offset: int) -> int:
        """Number of the unit that should stand for a queue offset; where none does, of the next one or the end."""
        if not self.is_batch:
            return offset
        return self.bisect(lambda unit: self.points_to_record(unit) and self.span(0, unit)[1] <= offset, self.end())

    def end(self) -> int:
        """Number behind the last written unit; `first` if none is: behind it files hold nothing but zeros.

        Files that hold nothing else are stepped over. The last one that does is looked through from the end of its
        data. From afar, where each look is a request, units and zeros are told apart by bisection; where something
        stands behind the first zeros after all, the whole file is looked through.
        """
        for file in reversed(self.files):
            last = self._last_written(file)
            if last is not None:
                return last + 1
        return self.first

    def _last_written(self, file: UnitFile) -> int | None:
        if not self._effects.remote:
            return self._from_behind(file, self._data_end(file))
        if file.size <= _READ_BYTES:  # one look costs no more than the first step of a bisection
            return self._from_behind(file, file.size)
        width: int = self.layout.size
        first, count = file.start // width, file.size // width
        if self._is_written(first + count - 1):
            return first + count - 1
        low, high = 0, count - 1
        while low < high:
            middle = (low + high) // 2
            if self._is_written(first + middle):
                low = middle + 1
            else:
                high = middle
        if any(self._whole(file, low * width, _READ_BYTES)):
            return self._from_behind(file, file.size)
        return first + low - 1 if low else None

    def _data_end(self, file: UnitFile) -> int:
        """A position in a file behind which it is known to hold a hole only; its size if the disk knows of none."""
        if self._held is None:
            with self.held() as held:
                return held._data_end(file)
        low, high, probe = 0, file.size, _PAGE
        with suppress(FileNotFoundError):
            fd = self._held_open(file, self._held)
            while high - low > _PAGE:
                data = self._effects.next_data(fd, probe)
                low, high = (low, probe) if data is None else (max(probe, data), high)
                probe = min(16 * probe, (low + high) // 2) if high == file.size else (low + high) // 2
        return high

    def _from_behind(self, file: UnitFile, end: int) -> int | None:
        """Number of the last unit of a file below the position `end` that is not zeros, found from there backwards."""
        width: int = self.layout.size
        step = _READ_BYTES // width * width
        for position in range((end - 1) // step * step, -1, -step):
            data = self._whole(file, position, min(step, end - position + width)).rstrip(b"\0")
            if data:
                return (file.start + position + len(data) - 1) // width
        return None

    def _is_written(self, number: int) -> bool:
        unit = self.unit(number)
        return unit is not None and unit.is_written

    def bisect(self, is_before: Callable[[AnyUnit], bool], stop: int) -> int:
        """First number in [first, stop) whose unit is not `is_before`, `stop` if all are.

        The units must be in order; a place without a unit counts as one before.
        """
        low, high = self.first, stop
        while low < high:
            middle = (low + high) // 2
            unit = self.unit(middle)
            if unit is None or is_before(unit):
                low = middle + 1
            else:
                high = middle
        return low

    def first_kept(self, log_begin: int, stop: int) -> int:
        """Number of the first unit in [first, stop) that leads to `log_begin` or behind it, `stop` if none does.

        Units that lead must be in order. One that leads nowhere (pre-blank, or zeros where a page did not reach the
        disk) says nothing of its place: the next one that leads decides.
        """
        low, high = self.first, stop
        at, unit = self._next_leading(low, stop)
        if unit is None or unit.physical_offset >= log_begin:  # mostly: retention took nothing of this queue
            return at
        while low < high:
            middle = (low + high) // 2
            at, unit = self._next_leading(middle, high)
            if unit is None or unit.physical_offset >= log_begin:
                high = middle
            else:
                low = at + 1
        return self._next_leading(low, stop)[0]

    def _next_leading(self, number: int, stop: int) -> tuple[int, AnyUnit | None]:
        """The first unit in [number, stop) that leads anywhere, with its number; (stop, None) if none does."""
        unit = self.unit(number) if number < stop else None
        if unit is not None and self.points_to_record(unit):  # mostly; reading on costs more
            return number, unit
        return next(((at, one) for at, one in self.units(number, stop) if self.points_to_record(one)), (stop, None))

    def _whole(self, file: UnitFile, position: int, count: int) -> bytes:
        """Bytes of whole units of a file, at most `count`."""
        data = self._bytes(file, position, min(count, file.size - position))
        return data[: len(data) - len(data) % self.layout.size]

    def _bytes(self, file: UnitFile, position: int, count: int) -> bytes:
        """Bytes of a file; fewer, or none, if it shrank or vanished."""
        path, first, data = self._last
        if path == file.path and first <= position and position + count <= first + len(data):
            return data[position - first : position - first + count]
        try:
            if self._held is None:
                with self._effects.reading(file.path, self._below) as fd:
                    return self._effects.pread(fd, count, position)
            data = self._effects.pread(self._held_open(file, self._held), count, position)
        except FileNotFoundError:
            return b""
        self._last = file.path, position, data
        return data

    def _held_open(self, file: UnitFile, held: dict[str, int]) -> int:
        """A descriptor of a file, opened once."""
        if file.path not in held:
            held[file.path] = self._effects.open_read(file.path, self._below)
        return held[file.path]


def plain_queue(root: str, name: QueueName, effects: Effects = REAL) -> UnitQueue:
    """A queue of consumequeue/."""
    return UnitQueue(root, directories.QUEUES, name, UNIT, effects)


def batch_queue(root: str, name: QueueName, effects: Effects = REAL) -> UnitQueue:
    """A queue of batchconsumequeue/."""
    return UnitQueue(root, directories.BATCH_QUEUES, name, BATCH_UNIT, effects)


@dataclass(frozen=True)
class ExtQueue:
    """The extension of one queue, below consumequeue_ext/: what the tags field of a unit points at.

    Attributes:
        files: its files in order.
    """

    files: tuple[UnitFile, ...]
    below: str
    effects: Effects = REAL

    @staticmethod
    def of(root: str, name: QueueName, effects: Effects = REAL) -> ExtQueue:
        """The extension of a queue; without files if it has none.

        Raises:
            StoreAccessError: the directory may not be listed.
        """
        below = os.path.join(root, directories.EXT_QUEUES)
        folder = os.path.join(below, name.topic, str(name.queue_id))
        found = []
        for file in effects.listdir(folder, below) if is_path(name.topic) else ():
            start = file_start(file)
            size = effects.size(os.path.join(folder, file)) if start is not None else None
            if start is not None and size:
                found.append(UnitFile(os.path.join(folder, file), start, size))
        return ExtQueue(tuple(found), below, effects)

    def end_behind(self, tags_code: int) -> int:
        """Position behind the unit that a tags field points at; behind a unit without a bitmap if there is none.

        Raises:
            StoreAccessError: the file may not be read.
        """
        found = self.unit(tags_code)
        return ext.position(tags_code) + ext.EXT_UNIT.min_size + (len(found.bitmap) if found is not None else 0)

    def unit(self, tags_code: int) -> ext.ExtUnit | None:
        """The unit that a tags field points at; None if there is none, or it is no address.

        Raises:
            StoreAccessError: the file may not be read.
        """
        if not ext.is_address(tags_code):
            return None
        position = ext.position(tags_code)
        at = bisect_right(self.files, position, key=lambda file: file.start) - 1
        if at < 0 or position >= self.files[at].start + self.files[at].size:
            return None
        file = self.files[at]
        at = position - file.start
        try:
            with self.effects.reading(file.path, self.below) as fd:
                return ext.decode(self.effects.pread(fd, min(file.size - at, 0x8000), at))
        except (FileNotFoundError, FormatError):
            return None
