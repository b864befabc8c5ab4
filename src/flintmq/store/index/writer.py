"""Writes index files: items in log order, a new file when one is full.

A file is named after the store time of its first key, in local time, or one millisecond after the newest file's name.
RocketMQ names it by the clock at its creation; here a rebuild from the log alone must produce the same name. Page:
docs/internals/format/index.md. Upstream: IndexService.
"""

from __future__ import annotations

import mmap
import os
import sys
from array import array
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Protocol

from flintmq.format import index
from flintmq.format.index import Header
from flintmq.kernels.buffers import Numbers
from flintmq.kernels.write import index_insert as kernel
from flintmq.storage.files.filesystem import REAL, Effects

PREVIOUS = index.ITEM.offset("previous")  # position in an item of the number of the item before
PAGE = 4096
ITEMS_AT_ONCE = 1 << 20
WINDOW = 4 << 20  # disk blocks are reserved this far ahead of the items: a full disk is then an error and no SIGBUS


def file_name(store_time: int, taken: dict[str, int]) -> str:
    """Return the name of an index file by its first key's store time, after all other names.

    The order of names is the order of files. If the clock was set back, or an hour comes twice in autumn, the name
    follows the newest one.

    `taken`: names in use, in order (the values mean nothing); the new one is added.
    """
    store_time = min(max(store_time, 0), 253_000_000_000_000)  # the times that a 4-digit year can name
    name = datetime.fromtimestamp(store_time // 1000).strftime("%Y%m%d%H%M%S") + f"{store_time % 1000:03d}"
    newest = next(reversed(taken), "")
    # Readers and retention take the order of names for the order of the log.
    if name <= newest:
        name = _next_name(newest)
    taken[name] = 0
    return name


def _next_name(name: str) -> str:
    try:
        moment = datetime.strptime(name[:14], "%Y%m%d%H%M%S") + timedelta(milliseconds=int(name[14:]) + 1)
    except (ValueError, OverflowError):  # seventeen digits that are no time
        return f"{int(name) + 1:017d}"
    return f"{moment.year:04d}{moment:%m%d%H%M%S}{moment.microsecond // 1000:03d}"


def _swapped(numbers: array[int]) -> array[int]:
    """Convert from big-endian to this machine's order, or back, in place."""
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers


class IndexFileWriter:
    """One index file of full size, written through a map.

    `begin_offset`, `begin_time`: end of the file before, which a new header repeats until its first item; 0 if none.
    """

    def __init__(
        self, path: str, slots: int, items: int, begin_offset: int = 0, begin_time: int = 0, effects: Effects = REAL
    ) -> None:
        self.path, self.slots, self.items, self.effects = path, slots, items, effects
        self.size = index.file_size(slots, items)
        self.fd = effects.create(path, self.size)
        # Header and slots at once: a key may fall into any slot.
        self.reserved = min(index.file_size(slots, 0), self.size)
        try:
            effects.allocate(self.fd, 0, self.reserved)
            self.map: mmap.mmap = effects.map_write(self.fd, self.size)
        except OSError:
            effects.close(self.fd)
            effects.unlink(path)
            raise
        if begin_offset > 0 or begin_time > 0:
            header = Header(begin_time, begin_time, begin_offset, begin_offset, 0, 0)
            self.map[: index.HEADER.size] = index.HEADER.pack(header)
        self.count = 1

    @classmethod
    def open(cls, path: str, slots: int, items: int, effects: Effects = REAL) -> IndexFileWriter:
        file = cls.__new__(cls)
        file.path, file.slots, file.items, file.effects = path, slots, items, effects
        file.size = index.file_size(slots, items)
        file.fd = effects.open_write(path)
        file.reserved = 0
        try:
            # A kill between creation and growth leaves it short; what is missing is zeros.
            if effects.size_of(file.fd) < file.size:
                effects.truncate(file.fd, file.size)
            file.map = effects.map_write(file.fd, file.size)
            file.count = max(file.header().index_count, 1)
            file._reserve(index.item_position(min(file.count, items), slots))
        except OSError:
            effects.close(file.fd)
            raise
        return file

    def item(self, number: int) -> index.Item:
        at = index.item_position(number, self.slots)
        return index.ITEM.unpack(self.map[at : at + index.ITEM.size])

    def shorten(self, count: int) -> None:
        """Make `count` the next free item, after the items from there on were removed."""
        assert 1 <= count <= self.count  # only `insert` adds items
        header = self.header()
        begin = header.begin_timestamp, header.begin_physical_offset
        if count > 1:
            last, first = self.item(count - 1), self.item(1)
            used = self._first_items(count) if count < header.index_count else header.slots_used
            end = begin[0] + 1000 * last.seconds if count < header.index_count else header.end_timestamp
            self._write(Header(begin[0], end, first.physical_offset, last.physical_offset, used, count))
        else:
            self._write(Header(0, 0, 0, 0, 0, 0))
        self.count = count

    def _first_items(self, count: int) -> int:
        """Return how many items below `count` are the first of their slot.

        Works on slices of single bytes, because there may be twenty million items and recovery waits for it.
        """
        begin, end = index.item_position(1, self.slots) + PREVIOUS, index.item_position(count, self.slots)
        whole = 0
        for place in range(begin, begin + index.ITEM.size - PREVIOUS):
            whole |= int.from_bytes(self.map[place : end : index.ITEM.size], "little")
        return whole.to_bytes(count - 1, "little").count(0)

    def restore_header(self, header: Header) -> None:
        """Restore the file to its state with this header; only the items below the count are used.

        The slots are computed from the items: 2.7 s of CPU for ten million.
        """
        assert header.next_item <= self.items
        count, size = header.next_item, index.SLOT.size
        newest = array("i", bytes(size * self.slots))
        for first in range(1, count, ITEMS_AT_ONCE):
            begin = index.item_position(first, self.slots)
            end = index.item_position(min(first + ITEMS_AT_ONCE, count), self.slots)
            raw = bytearray((end - begin) // index.ITEM.size * size)
            for byte in range(size):
                raw[byte::size] = self.map[begin + byte : end : index.ITEM.size]
            hashes = _swapped(array("i", bytes(raw)))
            for number, key_hash in enumerate(hashes, first):
                newest[key_hash % self.slots] = number
        self._put(index.HEADER.size, _swapped(newest).tobytes())
        at = index.item_position(count, self.slots)
        while (data := self.effects.next_data(self.fd, at)) is not None and data < self.size:
            at = max(at, data)
            page = min(at + PAGE - at % PAGE, self.size)
            self._put(at, bytes(page - at))
            at = page
        # Last: the count makes the items count.
        self._write(header)
        self.count = count

    def _put(self, position: int, data: bytes) -> None:
        """Store bytes where they differ, page by page, so that a hole of zeros stays a hole."""
        for at in range(0, len(data), PAGE):
            piece = data[at : at + PAGE]
            place = slice(position + at, position + at + len(piece))
            if self.map[place] != piece:
                self.map[place] = piece

    def _write(self, header: Header) -> None:
        self.map[: index.HEADER.size] = index.HEADER.pack(header)

    @property
    def full(self) -> bool:
        return self.count >= self.items

    def insert(self, hashes: Numbers, offsets: Numbers, times: Numbers, start: int, end: int) -> int:
        """Append items for keys [start, end) while there is room; gives the first that is not in.

        Raises OSError: no space; `count` is the number of items by then.
        """
        while start < end and not self.full:
            last = min(end, start + self.items - self.count, start + WINDOW // index.ITEM.size)
            # Blocks first: a full disk is an error here, and would kill the process at the store into the map.
            self._reserve(index.item_position(self.count + last - start, self.slots))
            done = kernel.insert(self.map, self.slots, self.items, hashes, offsets, times, start, last)
            self.count += done - start
            start = done
        return start

    def _reserve(self, position: int) -> None:
        while self.reserved < min(position, self.size):
            step = min(WINDOW, self.size - self.reserved)
            self.effects.allocate(self.fd, self.reserved, step)
            self.reserved += step

    def header(self) -> Header:
        return index.HEADER.unpack(self.map[: index.HEADER.size])

    def check_invariants(self) -> None:
        """Assert that the header matches the items that are in the file.

        The header of a file that another program began is taken over, so its times and its number of slots in use are
        not checked.

        Thread: the writer's.
        """
        header, count = self.header(), self.count
        assert 1 <= count <= self.items, f"{self.path}: {count} is the next of {self.items} items"
        assert header.next_item == count, f"{self.path}: its header counts {header.next_item}, and {count} comes next"
        assert len(self.map) == self.size == index.file_size(self.slots, self.items)
        end = index.item_position(min(count, self.items) if count > 1 else 0, self.slots)  # item 0 is never used
        assert end <= self.reserved <= self.size, f"{self.path}: items up to {end}, disk blocks up to {self.reserved}"
        if count > 1:
            first, last = self.item(1), self.item(count - 1)
            begin_and_end = header.begin_physical_offset, header.end_physical_offset
            assert (first.physical_offset, last.physical_offset) == begin_and_end, f"{self.path}: {header}"
            assert 0 <= last.previous < count - 1, f"{self.path}: item {count - 1} leads to {last.previous}"
            place = index.slot_position(last.key_hash % self.slots)
            slot = index.SLOT.unpack(self.map[place : place + index.SLOT.size]).item
            assert slot == count - 1, f"{self.path}: the newest item, {count - 1}, is hidden by item {slot}"
        if count < self.items:
            assert self.item(count) == (0, 0, 0, 0), f"{self.path}: after the last item is {self.item(count)}"

    def close(self) -> None:
        """Unmap and close; the bytes stay in the page cache."""
        self.map.close()
        self.effects.close(self.fd)


class NewIndexFile(Protocol):
    """One new index file that takes items: an IndexFileWriter or an IndexFileBuilder."""

    fd: int
    path: str
    count: int

    @property
    def full(self) -> bool:
        """True if no further item fits."""

    def insert(self, hashes: Numbers, offsets: Numbers, times: Numbers, start: int, end: int) -> int:
        """Append items for keys [start, end) while there is room; gives the first that is not in."""

    def check_invariants(self) -> None:
        """Assert what always holds between two insertions."""

    def close(self) -> None:
        """Finish the file."""


class IndexWriter:
    """A directory of index files that takes keys in log order.

    Args:
        directory: their directory; it must exist before the first file is made.
        make: makes a new one, with the arguments of IndexFileWriter.
    """

    def __init__(
        self,
        directory: str,
        slots: int,
        items: int,
        effects: Effects = REAL,
        make: Callable[[str, int, int, int, int, Effects], NewIndexFile] = IndexFileWriter,
    ) -> None:
        self.directory, self.slots, self.items, self.effects = directory, slots, items, effects
        self.make = make
        self.names: dict[str, int] = {}
        self.full: list[str] = []  # files that are full and not synced yet
        self.current: NewIndexFile | None = None
        self.end_offset = self.end_time = 0
        self.done = 0  # number of keys of the last call that are in

    def insert(self, hashes: Numbers, offsets: Numbers, times: Numbers, count: int) -> None:
        """Append items for the first `count` keys, making files as they are needed.

        Raises OSError: no space; `done` is the number of keys that are in.
        """
        start = self.done = 0
        while start < count:
            if self.current is None or self.current.full:
                self.insert_file(times[start])
            assert self.current is not None
            before = self.current.count
            try:
                self.current.insert(hashes, offsets, times, start, count)
            finally:
                start = self.done = start + self.current.count - before
                if start:
                    self.end_offset, self.end_time = offsets[start - 1], times[start - 1]

    def take_over(self, paths: Iterable[str], unsynced: Iterable[str] = ()) -> None:
        """Continue a directory with these files, oldest first.

        `unsynced`: of those that are full and not known to be synced.
        """
        self.names = {os.path.basename(path): 0 for path in paths}
        self.full += unsynced

    def open_newest(self, path: str) -> IndexFileWriter:
        assert self.current is None  # another one would stay open and never be synced
        file = self.current = IndexFileWriter.open(path, self.slots, self.items, self.effects)
        return file

    def continue_with(self, file: NewIndexFile, end_offset: int, end_time: int) -> None:
        """Continue an existing file, whose last item is of the record at end_offset."""
        assert self.current in (None, file)  # another one would stay open and never be synced
        self.current, self.end_offset, self.end_time = file, end_offset, end_time

    def close_current(self) -> None:
        """Close the current file without a sync. Does nothing if there is none."""
        if self.current is not None:
            self.current.close()
            self.current = None

    def remove_current(self) -> None:
        """Close and remove the current file, which has no items."""
        assert self.current is not None and self.current.count == 1
        path = self.current.path
        self.close_current()
        self.effects.unlink(path)
        self.names.pop(os.path.basename(path), None)

    def insert_file(self, store_time: int) -> None:
        """Begin the next file, named by this time in ms.

        Raises OSError: it cannot be made; the one before stays the current one.
        """
        name = file_name(store_time, self.names)
        path = os.path.join(self.directory, name)
        try:
            made = self.make(path, self.slots, self.items, self.end_offset, self.end_time, self.effects)
        except OSError:
            del self.names[name]
            raise
        if self.current is not None:
            self.current.close()
            self.full.append(self.current.path)
        self.current = made

    def check_invariants(self) -> None:
        """Assert that files are in the order of their names and the newest one is written.

        Thread: the writer's.
        """
        names = list(self.names)
        assert names == sorted(set(names)), f"{self.directory}: names out of order, so that order of files is lost"
        file = self.current
        if file is None:
            return
        assert os.path.basename(file.path) == names[-1], f"{file.path} is written, and {names[-1]} is the newest"
        file.check_invariants()
        if isinstance(file, IndexFileWriter):
            ends = file.count == 1 or file.header().end_physical_offset == self.end_offset
            assert ends, f"{file.path}: its last item is not of the record at {self.end_offset}"

    def finish(self, last_offset: int, last_time: int) -> None:
        """Close after the log's last record, given by offset and store time; -1 for an empty log.

        RocketMQ makes a file as soon as a record comes, with or without keys: the first one, and one after a full one.
        """
        if last_offset >= 0 and (self.current is None or (self.current.full and last_offset > self.end_offset)):
            self.insert_file(last_time)
        if self.current is not None:
            self.current.close()
            self.current = None
