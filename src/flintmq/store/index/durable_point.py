"""The durable point of the key index, as `flintmq.mark` records it.

The index itself shows its progress only where records have keys: it ends at the last item. If keys are rare or absent,
everything after it would have to be read after an unclean stop. So the mark holds a log offset below which every key is
in the index, and the header of the newest index file at that moment. That file is synced first, unless it got no item
since. While keys arrive all the time, it is synced only after a log file's worth of log, because a sync writes the
pages of all slots in use.

A stale mark never hides a key: it counts only if the file that it names still has the items that it names. RocketMQ
either removes such a file after an unclean stop (upstream defect D2), or only appends to it.
"""

from __future__ import annotations

import logging
import os
from typing import NamedTuple

from flintmq.config.keys import StoreConfig
from flintmq.errors import ConfigError, CorruptStoreError
from flintmq.format import index
from flintmq.format.flintmq_mark import Indexed
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.files.whole_file import sync_file
from flintmq.store.index.reader import IndexFileReader
from flintmq.store.index.writer import IndexFileWriter
from flintmq.store.layout.small_files import fsync_and_drop_cache

log = logging.getLogger("flintmq.index")

SYNC_BYTES = 256 << 20  # of log, or one log file if that is less: after this much an index with new items is synced


class DispatchPoint(NamedTuple):
    """Progress of dispatch at one moment."""

    position: int  # log offset below which everything is dispatched
    path: str | None = None  # of the newest index file; None if there is none, or if the index may lack keys
    header: bytes = b""


class IndexMark:
    def __init__(self, folder: str, config: StoreConfig, effects: Effects) -> None:
        self.folder, self.effects = folder, effects
        self.indexed: Indexed | None = None
        self._every = min(config.mapped_file_size_commit_log, SYNC_BYTES)

    def prove(self, indexed: Indexed | None, found: list[IndexFileReader]) -> None:
        """Take over the content of the mark on disk if the files confirm it."""
        self.indexed = None
        # A file of that name may have been made anew: only its items show that it is the one that was synced.
        for file in found:
            if indexed is not None and os.path.basename(file.path) == _name(indexed) and _has(file, indexed.header):
                self.indexed = indexed

    def names(self, path: str, count: int) -> bool:
        """Return whether the mark counts items of this file from this number on."""
        indexed = self.indexed
        return indexed is not None and os.path.basename(path) == _name(indexed) and indexed.header.next_item > count

    def clear(self) -> None:
        """Note nothing: the file that it named is removed."""
        self.indexed = None

    def lower(self, header: index.Header, log_end: int) -> None:
        """Lower the mark after items of its file were removed; the remaining items are on disk.

        `header` is the file's header now.
        """
        if self.indexed is not None:
            self.indexed = self.indexed._replace(offset=min(self.indexed.offset, log_end), header=header)

    def settle(self, reached: DispatchPoint, flushed: int, *, closing: bool = False) -> None:
        """Sync the index up to a point if it is due, and record the point in the mark.

        Args:
            flushed: log offset below which the log is on disk. No mark goes beyond it: after a power cut that shortens
                the log, other records may be written there.
        """
        if reached.path is None:
            return
        name, header = int(os.path.basename(reached.path)), index.HEADER.unpack(reached.header)
        position, before = min(reached.position, flushed), self.indexed
        if before is None or (before.name, before.header) != (name, header):
            due = before is None or closing or position - before.offset >= self._every
            if not due or self.effects.size(reached.path) is None:  # the file has expired
                return
            # Later items may be synced, too. The header is that of `reached`, taken before, so that the mark counts
            # none of them.
            sync_file(reached.path, self.effects)
            self.effects.sync_dir(self.folder)
        assert before is None or name >= before.name  # an older file cannot be the newest one
        self.indexed = Indexed(position, name, header)


def _has(file: IndexFileReader, wanted: index.Header) -> bool:
    """Return whether a file still holds the items that it had with this header."""
    if wanted.next_item == 1:
        return True
    try:
        with file.open() as opened:
            header, item = opened.header(), opened.item(wanted.next_item - 1)
    except (ConfigError, CorruptStoreError):  # its division is not known, or it is too short
        return False
    same = header.next_item >= wanted.next_item and header.begin_timestamp == wanted.begin_timestamp
    same = same and header.begin_physical_offset == wanted.begin_physical_offset
    return same and item.physical_offset == wanted.end_physical_offset


def restore_to_mark(file: IndexFileReader, indexed: Indexed) -> bool:
    """Restore an index file after a power cut to its state in the mark; False: it is unchanged.

    Its items below the count were synced. Slots, header and later bytes may be of any later moment, each sector by
    itself. Durability: on return.
    """
    if os.path.basename(file.path) != _name(indexed):
        return False
    effects = file.effects
    try:
        with file.open() as opened:
            shape = opened.shape
    except ConfigError:
        return False
    if indexed.header.next_item > shape.items:
        return False
    # Read from the disk: after a power cut each sector may be of another moment than the pages that are cached.
    fsync_and_drop_cache(file.path, 0, file.size, effects)
    writer = IndexFileWriter.open(file.path, shape.slots, shape.items, effects)
    try:
        count = indexed.header.next_item
        if count > 1 and writer.item(count - 1).physical_offset != indexed.header.end_physical_offset:
            return False
        # On disk before the index goes on: the next power cut finds the mark, and a file of that state or a later one.
        writer.restore_header(indexed.header)
        effects.sync(writer.fd)
    finally:
        writer.close()
    log.info("%s: restored to the %d items of its last sync", file.path, count - 1)
    return True


def _name(indexed: Indexed) -> str:
    return f"{indexed.name:017d}"
