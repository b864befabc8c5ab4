"""Builds one index file before anybody reads it: slots and newest items in memory.

The engine's `IndexFileWriter` works in a map, like its readers. A file that is only being built needs no map: its pages
need not be zeroed and faulted in before they are filled, its items are written to disk while later ones are made, and
the slots, which are accessed at random, are in large pages. The bytes are the same.
"""

from __future__ import annotations

from contextlib import suppress

from flintmq.format import index
from flintmq.format.index import Header
from flintmq.kernels.buffers import Numbers
from flintmq.kernels.write import index_insert as kernel
from flintmq.storage.files.filesystem import REAL, Effects

WINDOW_ITEMS = 1 << 16  # items written at once
SLOT_BLOCK = 1 << 18  # bytes: blocks of slots that were never used remain holes


class IndexFileBuilder:
    """One new index file of full size. Nothing is durable before the caller syncs it.

    `begin_offset`, `begin_time`: end of the file before, which a new header repeats until its first item; 0 if none.
    """

    def __init__(
        self, path: str, slots: int, items: int, begin_offset: int = 0, begin_time: int = 0, effects: Effects = REAL
    ) -> None:
        self.path, self.slots, self.items, self.effects = path, slots, items, effects
        self.fd = effects.create(path, index.file_size(slots, items))
        self.memory = effects.map_anonymous(index.file_size(slots, min(items, WINDOW_ITEMS)))
        with suppress(OSError):  # this system has no large pages
            effects.advise_huge(self.memory)
        if begin_offset > 0 or begin_time > 0:
            header = Header(begin_time, begin_time, begin_offset, begin_offset, 0, 0)
            self.memory[: index.HEADER.size] = index.HEADER.pack(header)
        self.count = 1
        self._first = 0  # first item of the window; item 0 is never used

    @property
    def full(self) -> bool:
        return self.count >= self.items

    def insert(self, hashes: Numbers, offsets: Numbers, times: Numbers, start: int, end: int) -> int:
        """Append items for keys [start, end) while there is room; return the first not inserted."""
        while start < end and not self.full:
            done = kernel.insert(self.memory, self.slots, self.items, hashes, offsets, times, start, end, self._first)
            self.count += done - start
            start = done
            if self.count - self._first >= WINDOW_ITEMS:
                self._write_items()
        return start

    def check_invariants(self) -> None:
        """Assert that the window holds the items that the file lacks, and has not overflowed.

        Thread: the builder's.
        """
        assert 1 <= self.count <= self.items, f"{self.path}: {self.count} is the next of {self.items} items"
        assert 0 <= self._first <= self.count, f"{self.path}: written up to {self._first}, made up to {self.count}"
        assert self.count - self._first <= WINDOW_ITEMS, f"{self.path}: {self.count - self._first} items in the window"
        header = index.HEADER.unpack(self.memory[: index.HEADER.size])
        assert header.next_item == self.count, f"{self.path}: its header counts {header.next_item}, not {self.count}"

    def _write_items(self) -> None:
        """Write the window's items and begin another window."""
        with memoryview(self.memory) as view:
            begin = index.item_position(0, self.slots)
            items = view[begin : begin + (self.count - self._first) * index.ITEM.size]
            position = index.item_position(self._first, self.slots)
            self.effects.pwrite(self.fd, items, position)
            self.effects.start_sync(self.fd, position, len(items))
            items.release()
        self._first = self.count

    def close(self) -> None:
        """Write the remaining items and the slots, and close."""
        if self.count > 1:
            self._write_items()
        end = index.item_position(0, self.slots)
        for at in range(0, end, SLOT_BLOCK):
            block = self.memory[at : min(at + SLOT_BLOCK, end)]
            if block != bytes(len(block)):
                self.effects.pwrite(self.fd, block, at)
        self.memory.close()
        self.effects.close(self.fd)
