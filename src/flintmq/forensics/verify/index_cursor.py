"""Reads one index file as verify does: items in the order of creation, and their chains.

`heads` holds the newest item of each slot among the items passed so far. Each item must link to the head of its slot.
At the file's end the heads must equal the slots on disk, and the header must agree with the items.
"""

from __future__ import annotations

import os
import sys
from array import array
from collections.abc import Iterator

from flintmq.errors import StoreAccessError
from flintmq.forensics.verify.context import Ground
from flintmq.forensics.verify.queue_files import Disk
from flintmq.format import index
from flintmq.store.layout.file_geometry import IndexGeometry

WINDOW = 8192  # items read at once
SLOTS_AT_ONCE = 65536
MOST_DEFECTS = 1000  # in one file; the rest of it is not checked
_SIZE = index.ITEM.size
_NOTHING = bytes(_SIZE)


class IndexItems:
    """The items of one index file, and a cursor on them.

    `before`: the file before it, if there is one: the seconds of a new file's first item count from its end.

    Attributes:
        number: the item at the cursor; `stop` after the last one.
        begin: store time in ms from which seconds are counted.
        last_offset: log offset of the previous item, 0 at first.
    """

    def __init__(
        self,
        path: str,
        header: index.Header,
        shape: IndexGeometry,
        before: IndexItems | None,
        disk: Disk,
        ground: Ground,
    ) -> None:
        self.path, self.header, self.shape, self.before = path, header, shape, before
        self.disk, self.ground = disk, ground
        self.stop = min(header.next_item, shape.items)
        self.number, self.begin, self.last_offset = 1, header.begin_timestamp, 0
        self.first_offset: int | None = None
        self.last_time: int | None = None
        self.heads = array("i")
        self.gap = True  # the item of the previous key is unknown: seconds of the first item may count from anywhere
        self._window, self._first = memoryview(b""), 1
        self._defects = 0

    def open(self) -> None:
        """Prepare for the first item: allocate the heads, four bytes a slot."""
        assert self.number == 1  # later it would forget the chains so far
        self.heads = array("i", bytes(4 * self.shape.slots))
        if self.header.index_count > self.shape.items:
            at = index.HEADER.offset("index_count")
            self._defect("index-header", at, f"a count up to {self.shape.items}", f"{self.header.index_count}")

    # -- items -----------------------------------------------------------------------------------------------------

    def window(self) -> tuple[memoryview, int]:
        """Return the buffered bytes from the cursor on, and their number of items."""
        at = (self.number - self._first) * _SIZE
        if at >= len(self._window):
            self._first = self.number
            count = min(WINDOW, self.stop - self.number)
            self._window = memoryview(self._bytes(index.item_position(self.number, self.shape.slots), count * _SIZE))
            at = 0
        rest = self._window[at:]
        return rest, len(rest) // _SIZE

    def _bytes(self, position: int, count: int) -> bytes:
        try:
            data = self.disk.pread(self.path, os.path.dirname(self.path), count, position)
        except StoreAccessError as error:
            self._defect("index-file", position, "a file that can be read", str(error))
            data = b""
        return data.ljust(count, b"\0")

    @property
    def item(self) -> index.Item:
        return index.ITEM.unpack(self.window()[0])

    @property
    def offset(self) -> int:
        return self.item.physical_offset

    def peek(self, count: int) -> Iterator[index.Item]:
        """Yield up to `count` items after the one at the cursor, as far as they are buffered."""
        data, some = self.window()
        return index.ITEM.iter(data, _SIZE, min(some, count + 1) * _SIZE)

    def empty_run(self) -> int:
        """Count the items from the cursor on that are all zeros, as far as they are buffered."""
        data, count = self.window()
        if data[:_SIZE] != _NOTHING:
            return 0
        rest = bytes(data).lstrip(b"\0")
        return (len(data) - len(rest)) // _SIZE if rest else count

    # -- moving on -------------------------------------------------------------------------------------------------

    def met(self, count: int, offset: int, time: int | None) -> None:
        """Advance past `count` items that the kernel compared; the last is of the given record."""
        assert 0 < count <= self.stop - self.number  # the kernel was given no more items
        self.number += count
        self.last_offset, self.last_time = offset, time

    def pass_item(self, time: int | None, key_hash: int | None = None) -> None:
        """Pass the item at the cursor and check its seconds and its link.

        Args:
            time: store time in ms of its record; None if not known.
            key_hash: the hash it should have; None for the one it has.
        """
        item = self.item
        key = item.key_hash if key_hash is None else key_hash
        if self.number == 1:
            self._first_item(item, time)
        elif item.seconds < 0 or (time is not None and item.seconds != index.seconds(time, self.begin)):
            self._wrong_field("index-wrong", "seconds", index.seconds(time or 0, self.begin), item.seconds)
        if key >= 0:
            slot = key % self.shape.slots
            if item.previous != self.heads[slot]:
                self._wrong_field("index-chain", "previous", self.heads[slot], item.previous)
            self.heads[slot] = self.number
        self.last_offset, self.last_time = item.physical_offset, time
        self.number += 1

    def _first_item(self, item: index.Item, time: int | None) -> None:
        """Check the first item, which sets the header's begin and counts from the file before."""
        self.first_offset = item.physical_offset
        if time is None:
            return
        if time != self.header.begin_timestamp:
            self._defect("index-header", 0, f"begin timestamp {time}", f"{self.header.begin_timestamp}")
        self.begin = time
        if self.gap or self.before is None:
            if item.seconds < 0:
                self._wrong_field("index-wrong", "seconds", 0, item.seconds)
            return
        due = index.seconds(time, self.before.header.end_timestamp)
        if item.seconds != due:
            self._wrong_field("index-wrong", "seconds", due, item.seconds)

    def drop(self, count: int = 1) -> None:
        """Pass wrong items that were reported, without checking their links."""
        assert 0 < count <= self.stop - self.number
        for item in index.ITEM.iter(self.window()[0], 0, count * _SIZE):
            if item.key_hash >= 0 and item != (0, 0, 0, 0):
                self.heads[item.key_hash % self.shape.slots] = self.number
            if self.number == 1:
                self.first_offset = item.physical_offset
            self.number += 1
            self.last_time = None
        self.last_offset = max(self.last_offset, 0)

    def place(self) -> tuple[str, int]:
        return self.path, index.item_position(self.number, self.shape.slots)

    @property
    def is_full(self) -> bool:
        return self.stop >= self.shape.items

    @property
    def hopeless(self) -> bool:
        """Return whether so much is wrong that the rest is not checked."""
        return self._defects >= MOST_DEFECTS

    # -- findings --------------------------------------------------------------------------------------------------

    def _defect(self, code: str, position: int | None, expected: str, found: str) -> None:
        self._defects += 1
        self.ground.findings.defect(code, self.path, position, expected, found)

    def _wrong_field(self, code: str, field: str, expected: int, found: int) -> None:
        position = self.place()[1] + index.ITEM.offset(field)
        self._defect(code, position, f"{field} {expected} in item {self.number}", str(found))

    def wrong(self, code: str, expected: str, found: str) -> None:
        self._defect(code, self.place()[1], f"{expected} in item {self.number}", found)

    # -- the end ---------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Compare slots and header with the items, when all of them were passed."""
        assert self.hopeless or self.number >= self.stop  # else items that nobody looked at would count as checked
        if not self.hopeless:
            self._header()
            self._slots()
        self.heads, self._window = array("i"), memoryview(b"")

    def _header(self) -> None:
        header, writing = self.header, self.ground.live and not self.is_full
        if writing or self.stop <= 1:
            return
        used = self.shape.slots - self.heads.count(0)
        for field, due in (
            ("begin_physical_offset", self.first_offset),
            ("end_physical_offset", self.last_offset),
            ("end_timestamp", self.last_time),
            ("slots_used", used),
        ):
            found = getattr(header, field)
            if due is not None and found != due:
                self._defect("index-header", index.HEADER.offset(field), f"{field} {due}", str(found))

    def _slots(self) -> None:
        for first in range(0, self.shape.slots, SLOTS_AT_ONCE):
            count = min(SLOTS_AT_ONCE, self.shape.slots - first)
            found = array("i", self._bytes(index.slot_position(first), 4 * count))
            if sys.byteorder == "little":
                found.byteswap()
            due = self.heads[first : first + count]
            if found == due:
                continue
            for i in range(count):
                if found[i] != due[i] and not self._unfinished(found[i], due[i]):
                    slot = first + i
                    expected = f"item {due[i]} in slot {slot}"
                    self._defect("index-slot", index.slot_position(slot), expected, f"item {found[i]}")
                if self.hopeless:
                    return

    def _unfinished(self, found: int, due: int) -> bool:
        """Return whether an unclean stop or a present writer set the slot before the item count."""
        if (
            found < self.stop
            or found >= self.shape.items
            or not (self.ground.live or self.ground.replay_from is not None)
        ):
            return False
        item = index.ITEM.unpack(self._bytes(index.item_position(found, self.shape.slots), _SIZE))
        return self.ground.live or item.previous == due
