"""How far the key index came and is on disk, as `flintmq.mark` says it.

The index itself tells how far it came only where records have keys: it ends at the last item. Where keys are rare or
none, everything behind it would have to be read after an unclean stop. So the mark names a log offset below which every
key is in, and what the newest index file held then. The file is synced before, unless it got no item since: for keys
that come all the time once a log file's worth of log has come, because a sync writes the pages of all slots in use.

A mark that is stale never hides a key: it counts only where the file that it names still has the items that it names.
RocketMQ removes such a file after an unclean stop (D2), or changes nothing in it but what comes behind.
"""

from __future__ import annotations

import logging
import os
from typing import NamedTuple

from flintmq.config.keys import StoreConfig
from flintmq.errors import ConfigError, CorruptStoreError
from flintmq.format import index
from flintmq.format.flintmq_mark import Indexed
from flintmq.storage.filesystem import Effects
from flintmq.store.index.reader import IndexFileReader
from flintmq.store.index.writer import IndexFileWriter
from flintmq.store.layout.small_files import fsync_and_drop_cache

log = logging.getLogger("flintmq.index")

SYNC_BYTES = 256 << 20  # of log, or one file of it if that is less: then an index that has new items is synced


class DispatchPoint(NamedTuple):
    """Where dispatch stood at a moment.

    Attributes:
        position: log offset below which everything is dispatched.
        path: of the newest index file; None if there is none, or if the index may lack keys.
        header: its first 40 bytes.
    """

    position: int
    path: str | None = None
    header: bytes = b""


class IndexMark:
    """What the mark may say of the index of a running store.

    Args:
        folder: `index/`.
        config: of the store.
        effects: the disk.

    Attributes:
        indexed: what it says; None for nothing.
    """

    def __init__(self, folder: str, config: StoreConfig, effects: Effects) -> None:
        self.folder, self.effects = folder, effects
        self.indexed: Indexed | None = None
        self._every = min(config.mapped_file_size_commit_log, SYNC_BYTES)

    def prove(self, indexed: Indexed | None, found: list[IndexFileReader]) -> None:
        """Take over what an older mark says, if the files bear it out.

        Raises:
            OSError: a file cannot be read.
        """
        self.indexed = None
        for file in found:
            if indexed is not None and os.path.basename(file.path) == _name(indexed) and _has(file, indexed.header):
                self.indexed = indexed

    def names(self, path: str, count: int) -> bool:
        """Whether the mark counts items of this file from this number on."""
        said = self.indexed
        return said is not None and os.path.basename(path) == _name(said) and said.header.next_item > count

    def lower(self, header: index.Header, log_end: int) -> None:
        """Items of the file that it names were taken back; this is its header now. Those that are left are on disk."""
        if self.indexed is not None:
            self.indexed = self.indexed._replace(offset=min(self.indexed.offset, log_end), header=header)

    def settle(self, reached: DispatchPoint, flushed: int, *, closing: bool = False) -> None:
        """Make what was reached durable, if it is time to, and say so from now on.

        Args:
            reached: taken before anything else was done for the mark.
            flushed: log offset below which the log is on disk: no mark goes beyond it, so that a log that a power cut
                made shorter cannot hold other records below one.
            closing: it is time.

        Raises:
            OSError: the disk refused.
        """
        if reached.path is None:
            return
        name, header = int(os.path.basename(reached.path)), index.HEADER.unpack(reached.header)
        position, before = min(reached.position, flushed), self.indexed
        if before is None or (before.name, before.header) != (name, header):
            due = before is None or closing or position - before.offset >= self._every
            if not due or self.effects.size(reached.path) is None:  # it has expired
                return
            fd = self.effects.open_write(reached.path)
            try:
                self.effects.sync(fd)
            finally:
                self.effects.close(fd)
            self.effects.sync_dir(self.folder)
        assert before is None or name >= before.name  # an older file cannot be the newest one
        self.indexed = Indexed(position, name, header)


def _has(file: IndexFileReader, wanted: index.Header) -> bool:
    """Whether a file holds the items that it had when its header was this one."""
    if wanted.next_item == 1:
        return True
    try:
        with file.open() as opened:
            header, item = opened.header(), opened.item(wanted.next_item - 1)
    except (ConfigError, CorruptStoreError):  # it does not tell its division, or is too short
        return False
    same = header.next_item >= wanted.next_item and header.begin_timestamp == wanted.begin_timestamp
    same = same and header.begin_physical_offset == wanted.begin_physical_offset
    return same and item.physical_offset == wanted.end_physical_offset


def restore_to_mark(file: IndexFileReader, indexed: Indexed) -> bool:
    """After a power cut: make a file again what the mark says that it was, on disk.

    Its items below the count were synced; slots, header and what lies behind may be of any later moment, each sector
    for itself.

    Returns:
        Whether it could be done. If not, the file is as it was.

    Raises:
        OSError: the disk refused.

    Durability: on return.
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
    fsync_and_drop_cache(file.path, 0, file.size, effects)
    writer = IndexFileWriter.open(file.path, shape.slots, shape.items, effects)
    try:
        count = indexed.header.next_item
        if count > 1 and writer.item(count - 1).physical_offset != indexed.header.end_physical_offset:
            return False
        writer.restore_header(indexed.header)
        effects.sync(writer.fd)
    finally:
        writer.close()
    log.info("%s holds %d items again, as when it was synced last", file.path, count - 1)
    return True


def _name(indexed: Indexed) -> str:
    return f"{indexed.name:017d}"
