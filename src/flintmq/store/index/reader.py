"""Reads the key index: files that map the hash of a key to log offsets.

An index is a hint: it compares only hashes, it is not truncated with the log, and after an unclean start RocketMQ
leaves parts of the log out of it. A caller reads each record again and walks the part of the log that no file covers
(`log_range_of`).

A chain of items goes from the newest to the oldest, so its numbers strictly decrease. A chain that does not is damaged:
its walk ends with an error, and the file's part of the log must be walked instead. Page:
docs/internals/format/index.md. Upstream: IndexService, IndexFile.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from flintmq.config.keys import StoreConfig
from flintmq.errors import CorruptStoreError
from flintmq.format import index
from flintmq.format.layout import Layout
from flintmq.storage.files.filesystem import REAL, Effects
from flintmq.store.layout.file_geometry import IndexGeometry, index_files, index_geometry, index_header

T = TypeVar("T", bound=tuple[Any, ...])

_ITEMS_AT_ONCE = 3276  # 64 KiB of items


@dataclass(frozen=True, slots=True)
class IndexFileReader:
    """One index file by name. Its content is not cached: a running broker keeps writing it."""

    path: str  # path of the file; its name is the local time of its creation
    size: int
    config: StoreConfig
    effects: Effects = REAL

    @contextmanager
    def open(self) -> Iterator[OpenIndex]:
        with self.effects.reading(self.path) as fd:
            size = self.effects.size_of(fd)
            shape = index_geometry(self.path, size, self.config, fd, self.effects)
            yield OpenIndex(self.path, fd, shape, self.effects)

    def header(self) -> index.Header | None:
        return index_header(self.path, self.effects)


def discover(root: str, config: StoreConfig, effects: Effects = REAL) -> list[IndexFileReader]:
    """List the index files of a store, oldest first; files with other names are left out."""
    return [IndexFileReader(file.path, file.size, config, effects) for file in index_files(root, effects)]


class OpenIndex:
    """An open index file. Every read goes to the file, so that a growing one is read up to date."""

    def __init__(self, path: str, fd: int, shape: IndexGeometry, effects: Effects = REAL) -> None:
        self.path, self.shape = path, shape
        self._fd, self._effects = fd, effects

    def header(self) -> index.Header:
        return self._read(index.HEADER, 0)

    def slot(self, number: int) -> int:
        """Read the number of the newest item of a slot; 0 or less means none."""
        return self._read(index.SLOT, index.slot_position(number)).item

    def item(self, number: int) -> index.Item:
        return self._read(index.ITEM, index.item_position(number, self.shape.slots))

    def items(self, first: int = 1, stop: int | None = None) -> Iterator[tuple[int, index.Item]]:
        """Yield (number, item) in order, up to the count or `stop`; 64 KiB are held at a time."""
        stop = min(self.header().next_item if stop is None else stop, self.shape.items)
        while first < stop:
            count = min(stop - first, _ITEMS_AT_ONCE)
            raw = self._effects.pread(self._fd, count * index.ITEM.size, index.item_position(first, self.shape.slots))
            for item in index.ITEM.iter(raw):
                yield first, item
                first += 1
            if len(raw) < count * index.ITEM.size:
                return

    def newest(self) -> Iterator[tuple[int, index.Item]]:
        """Yield (number, item) of all items, the newest first; 64 KiB are held at a time."""
        stop = min(self.header().next_item, self.shape.items)
        while stop > 1:
            first = max(stop - _ITEMS_AT_ONCE, 1)
            yield from reversed(list(self.items(first, stop)))
            stop = first

    def chain(self, key_hash: int) -> Iterator[tuple[int, index.Item]]:
        """Yield (number, item) of the slot of this hash, newest first, other hashes included.

        Raises CorruptStoreError: an item does not point to an older one or belongs to another slot, or a number is
        beyond the count.
        """
        slot = key_hash % self.shape.slots
        number = self.slot(slot)
        # Read the count after the slot: a writer sets the slot first and the count last.
        newest = min(self.header().next_item, self.shape.items - 1)
        if number > newest:
            raise self._broken(index.slot_position(slot), f"slot leads to item {number}, the newest is {newest}")
        while number > 0:
            item, place = self.item(number), index.item_position(number, self.shape.slots)
            if item.key_hash % self.shape.slots != slot:
                raise self._broken(place, f"item {number} has the hash {item.key_hash}, which is not of slot {slot}")
            yield number, item
            if item.previous >= number:
                place += index.ITEM.offset("previous")
                raise self._broken(place, f"item {number} leads to item {item.previous}, which is not older")
            number = item.previous

    def find(self, key_hash: int) -> Iterator[int]:
        """Yield physical offsets under this hash, newest first; other keys may have the same hash."""
        for _, item in self.chain(key_hash):
            if item.key_hash == key_hash and item.physical_offset >= 0:
                yield item.physical_offset

    def _read(self, layout: Layout[T], position: int) -> T:
        raw = self._effects.pread(self._fd, layout.size, position)
        if len(raw) < layout.size:
            raise self._broken(position, "the file ends here")
        return layout.unpack(raw)

    def _broken(self, position: int, reason: str) -> CorruptStoreError:
        return CorruptStoreError(self.path, position, reason, "rebuild the index")


def log_range_of(file: IndexFileReader) -> tuple[int, int] | None:
    """Return log offsets of the first and the last record with an item here, or None.

    The last one may have more keys, in the next file or nowhere. The header is used as far as possible: it may name
    offsets beyond a log that was truncated.
    """
    header = file.header()
    if header is None or header.next_item <= 1 or header.begin_physical_offset < 0:
        return None
    if header.end_physical_offset < header.begin_physical_offset:
        return None
    return header.begin_physical_offset, header.end_physical_offset
