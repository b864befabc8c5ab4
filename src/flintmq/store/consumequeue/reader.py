"""Reads consume queues on disk: plain, batch and light ones, and the extension queue.

A queue of files holds units of one size; unit n is at byte n * size of the whole sequence. In a plain queue n is the
queue offset; in a batch queue a unit names its first queue offset itself. Units are only hints: this module never reads
the log; the view does.

Three things make the end of a queue hard to find, and all are handled here:

*   zeros mark the end, but after a crash the last file can be all zeros, and a lost page leaves a hole;
*   units that RocketMQ writes before a queue's first one (pre-blank) look valid and point nowhere;
*   units of an expired part of the log remain until a whole file of them has expired.

Files may disappear, shrink or be odd (strange names, other lengths, sub-directories): a missing file has no units.
Pages: docs/internals/format/consume-queue.md, consume-queue-ext.md, batch-queue.md. Upstream: ConsumeQueue,
BatchConsumeQueue, ConsumeQueueExt.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Self, TypeAlias

from flintmq.errors import FormatError
from flintmq.format import consume_queue_ext as ext
from flintmq.format.batch_queue import BATCH_UNIT, BatchUnit
from flintmq.format.consume_queue import UNIT, UNIT_SIZE, Unit
from flintmq.format.layout import Layout
from flintmq.storage.files.filesystem import REAL, Effects
from flintmq.store.commitlog.files import file_start
from flintmq.store.layout import directories
from flintmq.store.layout.file_geometry import LARGEST_FILE
from flintmq.store.layout.queue_name import QueueName, is_path

AnyUnit: TypeAlias = Unit | BatchUnit

_READ_BYTES = 64 * 1024
LARGEST_EXT_UNIT = 0x8000  # bytes; the size field of a unit is an i16
_PAGE = 4096  # data and holes begin at multiples of this


FIRST_BYTES = 4096  # of a queue's only file, read with its listing: mostly the disk knows of no data after them
_HEADS = (2048, 1024, 512, 256)  # bytes that all units of a short queue are mostly in
_ZEROS = memoryview(bytes(_READ_BYTES))


def content_size(data: bytes) -> int:
    """Return the size of data without the zeros at its end.

    `rstrip` looks at one byte after the other, which for thousands of queues is much of a start.
    """
    for head in _HEADS:
        zeros = len(data) - head
        if 0 < zeros <= len(_ZEROS) and data.endswith(_ZEROS[:zeros]):
            data = data[:head]
    return len(data.rstrip(b"\0"))


class UnitFile(NamedTuple):
    path: str
    start: int  # byte of the queue at which it begins
    size: int


def list_files(folder: str, below: str, effects: Effects) -> list[UnitFile]:
    """List the files of a queue or of its extension, in order.

    Files with other names, empty ones and whatever is no regular file are left out.

    `below`: the directory of all queues of its kind; links in it are not followed.
    """
    return _in_order(effects.regular_files(folder, below), folder)


def _in_order(listed: list[tuple[str, int]], folder: str) -> list[UnitFile]:
    """Return the files that are named as a queue's are, of names with sizes in order."""
    found = []
    for name, size in listed:
        start = file_start(name)
        if start is not None and size:
            found.append(UnitFile(folder + os.sep + name, start, size))
    return found


class HeldFiles:
    """Files of one queue that stay open, for a `with` block.

    Each is opened once, when first read. The last bytes read are kept; others may change them meanwhile.

    Thread: one.
    """

    def __init__(self, below: str, effects: Effects) -> None:
        self._below, self._effects = below, effects
        self._open: dict[str, int] = {}
        self._last = "", 0, b""  # path, position and bytes of the last read
        self._known = "", b""  # path and bytes of a file that has only a hole after them

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def keep(self, file: UnitFile, data: bytes) -> None:
        """Take the first bytes of a file that has only a hole after them; they are not read again."""
        self._known = file.path, data

    def known(self, file: UnitFile) -> bytes | None:
        """Return the first bytes of a file that has only a hole after them, if `keep` has them."""
        path, data = self._known
        return data if path == file.path else None

    def descriptor(self, file: UnitFile) -> int:
        if file.path not in self._open:
            self._open[file.path] = self._effects.open_read(file.path, self._below)
        return self._open[file.path]

    def read(self, file: UnitFile, position: int, count: int) -> bytes:
        """Read bytes of a file; fewer if it shrank."""
        path, data = self._known
        if path == file.path and position < len(data):
            data = data[position : position + count]
            return data + bytes(count - len(data))  # the hole
        path, first, data = self._last
        if path == file.path and first <= position and position + count <= first + len(data):
            return data[position - first : position - first + count]
        data = self._effects.pread(self.descriptor(file), count, position)
        self._last = file.path, position, data
        return data

    def close(self) -> None:
        """Close all files; one that is read afterwards is opened again."""
        # Forget the numbers first: the system gives a closed one to the next file that anybody opens.
        held, self._open = self._open, {}
        for fd in held.values():
            self._effects.close(fd)


class UnitQueue:
    """The units of one queue, in the files that existed when they were listed.

    `plain_queue` and `batch_queue` list them.

    Thread: any, without `held`; the object is immutable.

    Args:
        held: reads the files; None: each read opens its file.
        known: all units up to the last written one, as they were when the files were listed; only of a queue of one
            file that begins with unit 0.
    """

    def __init__(
        self,
        layout: Layout[Any],
        folder: str,
        below: str,
        files: tuple[UnitFile, ...],
        effects: Effects,
        held: HeldFiles | None = None,
        known: bytes | None = None,
    ) -> None:
        self.layout, self.folder, self.files, self.known = layout, folder, files, known
        self._below, self._effects, self._held = below, effects, held
        self._starts = [file.start for file in files]

    @contextmanager
    def held(self) -> Iterator[UnitQueue]:
        """Return the same queue with open files, for one thread and the length of a `with` block.

        Units that are `known` are not read again.
        """
        with HeldFiles(self._below, self._effects) as files:
            if self.known is not None:
                files.keep(self.files[0], self.known)
            yield UnitQueue(self.layout, self.folder, self._below, self.files, self._effects, files, self.known)

    @property
    def is_batch(self) -> bool:
        return self.layout is BATCH_UNIT

    @property
    def first(self) -> int:
        """Number of the first unit that the files have room for; 0 without files."""
        return self.files[0].start // self.layout.size if self.files else 0

    def read(self, number: int, count: int) -> list[AnyUnit]:
        """Read up to `count` units from `number` on, of one file; fewer at its end."""
        return list(self.layout.iter(self.raw(number, count)))

    def raw(self, number: int, count: int) -> bytes:
        """Read the bytes of these units: whole ones, unless the file shrank."""
        width, file = self.layout.size, self.file_of(number)
        if file is None or count <= 0:
            return b""
        position = number * width - file.start
        most = min(count * width, file.size - position)
        return b"" if most <= 0 else self._bytes(file, position, most)

    def file_of(self, number: int) -> UnitFile | None:
        """Return the last file that begins at or before this unit; None if there is none.

        The file may end before the unit.
        """
        at = bisect_right(self._starts, number * self.layout.size) - 1
        return self.files[at] if at >= 0 else None

    def unit(self, number: int) -> AnyUnit | None:
        """Read one unit, written or not; None if there is no file."""
        data = self.raw(number, 1)
        return self.layout.unpack(data) if len(data) == self.layout.size else None

    def units(self, number: int, stop: int) -> Iterator[tuple[int, AnyUnit]]:
        """Yield (number, unit) of all units in [number, stop), zeros and pre-blank ones included."""
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

    def ends(self) -> tuple[AnyUnit, AnyUnit, int] | None:
        """Return the first and the last written unit, and the number after it.

        None if they are not known without a search: unless all of them are `known`, from unit 0 on.
        """
        known = self.known
        end, part = divmod(len(known), self.layout.size) if known is not None else (0, 0)
        if known is None or not end or part or len(known) > self.files[0].size:
            return None
        unpack = self.layout.unpack
        last = unpack(known, (end - 1) * self.layout.size)
        return (last if end == 1 else unpack(known)), last, end

    @staticmethod
    def points_to_record(unit: AnyUnit) -> bool:
        """Return whether a unit points to a record: it is written, and not pre-blank."""
        return unit.is_written and not (isinstance(unit, Unit) and unit.is_pre_blank)

    @staticmethod
    def span(number: int, unit: AnyUnit) -> tuple[int, int]:
        """Return the queue offsets [first, stop) of unit `number`."""
        if isinstance(unit, BatchUnit):
            return unit.base_offset, unit.base_offset + unit.messages
        return number, number + 1

    def number_of(self, offset: int) -> int:
        """Return the number of the unit of a queue offset, or of the next unit, or the end."""
        if not self.is_batch:
            return offset
        return self.bisect(lambda unit: self.points_to_record(unit) and self.span(0, unit)[1] <= offset, self.end())

    def end(self) -> int:
        """Return the number after the last written unit; `first` if there is none.

        All bytes after it are zeros. Files with nothing else are skipped; the last other file is searched from the end
        of its data. For a remote store, where each read is a request, bisection separates units from zeros; if there
        are bytes in the 64 KiB after the first zeros nevertheless, the whole file is searched. So a hole of more than
        64 KiB, which only a power cut leaves, hides what follows it there.
        """
        for file in reversed(self.files):
            last = self._last_written(file)
            if last is not None:
                return last + 1
        return self.first

    def _last_written(self, file: UnitFile) -> int | None:
        if not self._effects.remote:
            return self._last_unit_before(file, self._data_end(file))
        if file.size <= _READ_BYTES:  # one look costs no more than the first step of a bisection
            return self._last_unit_before(file, file.size)
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
            return self._last_unit_before(file, file.size)
        return first + low - 1 if low else None

    def _data_end(self, file: UnitFile) -> int:
        """Return a position after which a file has only a hole; its size if the disk knows of none."""
        if self._held is None:
            with self.held() as held:
                return held._data_end(file)
        known = self._held.known(file)
        if known is not None:
            return min(len(known), file.size)
        low, high, probe = 0, file.size, _PAGE
        with suppress(FileNotFoundError):
            fd = self._held.descriptor(file)
            while high - low > _PAGE:
                data = self._effects.next_data(fd, probe)
                low, high = (low, probe) if data is None else (max(probe, data), high)
                probe = min(16 * probe, (low + high) // 2) if high == file.size else (low + high) // 2
        return high

    def _last_unit_before(self, file: UnitFile, end: int) -> int | None:
        """Return the number of the last unit below `end` that is not zeros, searching backwards."""
        width: int = self.layout.size
        step = _READ_BYTES // width * width
        for position in range((end - 1) // step * step, -1, -step):
            size = content_size(self._whole(file, position, min(step, end - position + width)))
            if size:
                return (file.start + position + size - 1) // width
        return None

    def _is_written(self, number: int) -> bool:
        unit = self.unit(number)
        return unit is not None and unit.is_written

    def bisect(self, is_before: Callable[[AnyUnit], bool], stop: int) -> int:
        """Return the first number in [first, stop) whose unit is not `is_before`, or `stop`.

        The units must be in order; a missing unit counts as one before.
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
        """Return the number of the first unit in [first, stop) at or after `log_begin`, or `stop`.

        Units that point to records must be in order. A unit that does not (pre-blank, or zeros where a page did not
        reach the disk) is skipped: the next one that does decides.
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
        """Return the first unit in [number, stop) that points to a record, with its number.

        (stop, None) if there is none.
        """
        unit = self.unit(number) if number < stop else None
        if unit is not None and self.points_to_record(unit):  # mostly; reading on costs more
            return number, unit
        return next(((at, one) for at, one in self.units(number, stop) if self.points_to_record(one)), (stop, None))

    def _whole(self, file: UnitFile, position: int, count: int) -> bytes:
        data = self._bytes(file, position, min(count, file.size - position))
        return data[: len(data) - len(data) % self.layout.size]

    def _bytes(self, file: UnitFile, position: int, count: int) -> bytes:
        """Read bytes of a file; fewer, or none, if it shrank or disappeared."""
        try:
            if self._held is not None:
                return self._held.read(file, position, count)
            with self._effects.reading(file.path, self._below) as fd:
                return self._effects.pread(fd, count, position)
        except FileNotFoundError:
            return b""


def plain_queue(root: str, name: QueueName, effects: Effects = REAL, held: HeldFiles | None = None) -> UnitQueue:
    """List a queue of consumequeue/; `held`: see UnitQueue."""
    return _listed(os.path.join(root, directories.QUEUES), name, UNIT, effects, held)


def known_plain_queue(root: str, name: QueueName, effects: Effects = REAL) -> UnitQueue:
    """List a queue of consumequeue/.

    The units of a short queue are read with the listing, in one visit of its directory, and are `known`: for those who
    ask thousands of queues.
    """
    below = os.path.join(root, directories.QUEUES)
    folder = os.sep.join((below, name.topic, str(name.queue_id)))
    listed, data = effects.only_file(folder, below, FIRST_BYTES) if is_path(name.topic) else ([], None)
    files = _unit_files(_in_order(listed, folder), UNIT_SIZE)
    known = None
    if files and data is not None and not files[0].start:  # without the hole, which would be most of the memory
        known = data[: -(-content_size(data) // UNIT_SIZE) * UNIT_SIZE]
    return UnitQueue(UNIT, folder, below, files, effects, known=known)


def batch_queue(root: str, name: QueueName, effects: Effects = REAL, held: HeldFiles | None = None) -> UnitQueue:
    """List a queue of batchconsumequeue/; `held`: see UnitQueue."""
    return _listed(os.path.join(root, directories.BATCH_QUEUES), name, BATCH_UNIT, effects, held)


def _listed(below: str, name: QueueName, layout: Layout[Any], effects: Effects, held: HeldFiles | None) -> UnitQueue:
    folder = os.path.join(below, name.topic, str(name.queue_id))
    files = _unit_files(list_files(folder, below, effects), layout.size) if is_path(name.topic) else ()
    return UnitQueue(layout, folder, below, files, effects, held)


def _unit_files(files: list[UnitFile], width: int) -> tuple[UnitFile, ...]:
    """Return the files of a queue, in order, that have units of this width.

    Each is limited to whole units and to the start of the next file.
    """
    found = [
        file._replace(size=file.size - file.size % width)
        for file in files
        if file.start % width == 0 and width <= file.size <= LARGEST_FILE
    ]
    if len(found) < 2:
        return tuple(found)
    # `regular_files` sorts by name, and names have one length: so by start. The cut below and `file_of` rely on it.
    assert all(file.start < after.start for file, after in pairwise(found))
    ends = [file.start for file in found[1:]]
    cut = [file._replace(size=min(file.size, end - file.start)) for file, end in zip(found, ends, strict=False)]
    return (*cut, *found[-1:])


@dataclass(frozen=True)
class ExtQueue:
    """The extension of one queue, below consumequeue_ext/, with the units of tags fields."""

    files: tuple[UnitFile, ...]
    below: str
    effects: Effects = REAL

    @staticmethod
    def of(root: str, name: QueueName, effects: Effects = REAL) -> ExtQueue:
        """Open the extension of a queue; without files if it has none."""
        below = os.path.join(root, directories.EXT_QUEUES)
        folder = os.path.join(below, name.topic, str(name.queue_id))
        return ExtQueue(tuple(list_files(folder, below, effects) if is_path(name.topic) else ()), below, effects)

    def end_after(self, tags_code: int) -> int:
        """Return the position after the unit that a tags field points at.

        If there is no such unit, a unit without a bitmap is assumed.
        """
        found = self.unit(tags_code)
        return ext.position(tags_code) + ext.EXT_UNIT.min_size + (len(found.bitmap) if found is not None else 0)

    def unit(self, tags_code: int) -> ext.ExtUnit | None:
        """Read the unit that a tags field points at; None if there is none, or it is no address."""
        if not ext.is_address(tags_code):
            return None
        try:
            data = self.unit_bytes(ext.position(tags_code))
            return ext.decode(data) if data is not None else None
        except (FileNotFoundError, FormatError):
            return None

    def unit_bytes(self, position: int) -> bytes | None:
        """Read as many bytes at a position as a unit can have; None if no file has the place."""
        number = bisect_right(self.files, position, key=lambda file: file.start) - 1
        if number < 0 or position >= self.files[number].start + self.files[number].size:
            return None
        file = self.files[number]
        skipped = position - file.start
        with self.effects.reading(file.path, self.below) as fd:
            return self.effects.pread(fd, min(file.size - skipped, LARGEST_EXT_UNIT), skipped)
