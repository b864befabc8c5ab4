"""The key index of a running store: continues the last file, removes items, adds files.

An insertion is undone exactly by its inverse, because an item holds the previous content of its slot. So when the log
is truncated, items are removed one by one, newest first, and nothing else is lost (upstream deletes whole files after
an unclean stop and loses the keys of older log files).

That needs every byte that was stored. A power cut may take any sector of a file that was not synced, and items have no
checksum; so after a power cut (or if it is not known) the files that were not synced are rebuilt. A file is synced when
it is full, as upstream does it, and the checkpoint's third time records that. `flintmq.mark` records earlier syncs
(`store/index/durable_point.py`). Page: docs/internals/format/index.md. Upstream: IndexService, IndexFile.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from typing import NamedTuple

from flintmq.config.keys import StoreConfig
from flintmq.errors import ConfigError, StoreAccessError
from flintmq.format import index
from flintmq.format.flintmq_mark import Indexed
from flintmq.format.index import ITEM, SLOT
from flintmq.kernels.buffers import Numbers
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.files.whole_file import sync_file
from flintmq.store.index import durable_point, reader
from flintmq.store.index.durable_point import DispatchPoint, IndexMark
from flintmq.store.index.reader import IndexFileReader
from flintmq.store.index.writer import IndexFileWriter, IndexWriter
from flintmq.store.layout import directories
from flintmq.store.layout.file_geometry import SizedFile, index_division, index_geometry, index_header
from flintmq.store.layout.small_files import StoreFiles

log = logging.getLogger("flintmq.index")


def known_whole(found: list[IndexFileReader], on_disk: int, indexed: Indexed | None) -> int:
    """Return how many index files, from the oldest on, are known to be on disk completely.

    Args:
        on_disk: store time in ms of the last item that is known to be on disk. A full file whose last item is older was
            synced. Strictly older: of files that end in the same millisecond the last may not be. Counting stops where
            times step back: after a clock was set back an unsynced file can look older too.
        indexed: the content of the mark; then times are not used. The files before the one that it names were synced
            first.
    """
    if indexed is not None:
        names = [int(os.path.basename(file.path)) for file in found]
        return names.index(indexed.name) if indexed.name in names else 0
    count, before = 0, 0
    for number, file in enumerate(found, 1):
        header = file.header()
        if header is None or not before <= header.begin_timestamp <= header.end_timestamp:
            break
        before = header.end_timestamp
        with suppress(ConfigError):  # the file is too short for any items
            items = index_geometry(file.path, file.size, file.config).items
            if header.index_count >= items and 0 < before < on_disk:
                count = number
    return count


def remove_unsynced(
    root: str, config: StoreConfig, effects: Effects, on_disk: int, indexed: Indexed | None = None
) -> int:
    """Undo what a power cut may have damaged in the index; its keys come again from the log.

    The file that the mark names is put back to its last sync; newer files are removed.

    Durability: on return.

    Returns:
        The number of files removed, newest first.
    """
    found = reader.discover(root, config, effects)
    kept = known_whole(found, on_disk, indexed)
    if indexed is not None and kept < len(found) and durable_point.restore_to_mark(found[kept], indexed):
        kept += 1
    # The newest first: after a kill amid this the rest is still the oldest files, without a gap.
    for file in reversed(found[kept:]):
        effects.unlink(file.path)
    if found[kept:]:
        effects.sync_dir(os.path.join(root, directories.INDEX))
    return len(found) - kept


def sync_all(root: str, effects: Effects) -> int:
    """Sync the index files that another process makes; return the time in ms of the last item.

    Returns:
        0 without an item, or if that process removes a file meanwhile, or lets nobody sync it.

    Durability: on return.
    """
    folder, last = os.path.join(root, directories.INDEX), 0
    try:
        for path in (os.path.join(folder, name) for name in effects.listdir(folder) if index.NAME.fullmatch(name)):
            header = index_header(path, effects)  # before the sync: of items that come meanwhile nothing is known
            sync_file(path, effects)
            last = max(last, header.end_timestamp if header is not None else 0)
    except (OSError, StoreAccessError):
        return 0
    return last


class RecoveredIndex(NamedTuple):
    end_offset: int  # log offset of the last record with an item; -1 if there is none
    known_to: int  # log offset below which the mark said that every key is in; 0 without a mark
    removed_from: int | None  # log offset of the first record whose items were removed; None if none were
    marked: bool  # the mark on disk says how far the index is complete
    had_files: bool  # there were files before. If not, a log without keys looks like an index that is lost.


class KeyIndex:
    """The index files of one running store.

    `end_offset`: log offset of the last record with an item; later records are not indexed yet.

    Thread: the dispatcher only.
    """

    def __init__(self, root: str, config: StoreConfig, effects: Effects) -> None:
        self.config, self.effects = config, effects
        self.folder = os.path.join(root, directories.INDEX)
        self.files = reader.discover(root, config, effects)
        self._had_files = bool(self.files)
        self.mark = IndexMark(self.folder, config, effects)
        self.complete = False  # whether all keys before those to be inserted are known to be in
        self._some: int | None = None  # number of keys that are in of the record at end_offset; None: all
        self._spoilt: set[str] = set()  # the newest files, if they are too short for the items that they count
        files = [SizedFile(file.path, file.size) for file in self.files]
        shape, spoilt = index_division(files, config, effects, refuse=True)
        self._spoilt.update(spoilt)
        self.writer = IndexWriter(self.folder, shape.slots, shape.items, effects)
        self.writer.take_over(file.path for file in self.files)

    def make_folder(self) -> None:
        """Make the directory if it is missing; call it before `recover`."""
        self.effects.mkdirs(self.folder)

    def recover(self, log_end: int, small: StoreFiles, log_begin: int = 0) -> RecoveredIndex:
        """Remove half-made items and those beyond the log's end, then continue the last file.

        Args:
            small: checkpoint and mark. Both are lowered on disk before an index file is changed that they call synced.
                Full files that are not known to be synced are left to `sync_full`.
            log_begin: that of its first record: keys of earlier records could not be entered again.
        """
        self.files = [file for file in self.files if self.effects.size(file.path) is not None]
        removed_from = self._remove_spoilt()
        on_disk = small.checkpoint.index_timestamp
        self.mark.prove(small.mark.indexed, self.files)
        if self.mark.indexed is None:
            small.retreat(small.mark.without_index())
        known_to = min(self.mark.indexed.offset, log_end) if self.mark.indexed is not None else 0
        whole = known_whole(self.files, on_disk, self.mark.indexed)
        self.writer.take_over([file.path for file in self.files], unsynced=[file.path for file in self.files[whole:-1]])
        self._remove_empty()
        while self.files and self.writer.current is None:
            removed = self._recover_newest(log_end, max(log_begin, known_to), on_disk, small)
            removed_from = removed_from if removed is None else removed
        return RecoveredIndex(
            self.end_offset, known_to, removed_from, marked=self.mark.indexed is not None, had_files=self._had_files
        )

    def _remove_spoilt(self) -> int | None:
        """Remove files that were truncated; their keys are entered again.

        Returns:
            Log offset of the first record whose keys must be entered again; None if no file was removed.
        """
        removed_from = None
        while self.files and self.files[-1].path in self._spoilt:
            path = self.files.pop().path
            log.warning("%s is too short for its items and is rebuilt", path)
            self.effects.unlink(path)
            header = self.files[-1].header() if self.files else None
            removed_from = header.end_physical_offset if header is not None else 0
        return removed_from

    def _remove_empty(self) -> None:
        """Remove files of no bytes: the process was killed while it made them."""
        for name in self.effects.listdir(self.folder):
            path = os.path.join(self.folder, name)
            if index.NAME.fullmatch(name) and self.effects.size(path) == 0:
                self.effects.unlink(path)

    def _recover_newest(self, log_end: int, unsure: int, on_disk: int, small: StoreFiles) -> int | None:
        """Remove items of the newest file; continue it, or remove it if no item is left.

        Return the log offset of the first record whose items were removed; None if none were. The first file is
        continued without items too: no record had a key yet. From log offset `unsure` on the last record may lack keys;
        `on_disk` is the store time in ms up to which the checkpoint calls index files synced.
        """
        path = self.files[-1].path
        writer = self.writer.open_newest(path)
        if (before := writer.header().end_timestamp) < on_disk:
            small.lower_index_time(before)
        low, newest = self._bounds(writer, unsure, log_end)
        named = self.mark.names(path, low)
        if named:  # first, or a power cut would leave a mark that counts items which are gone
            small.retreat(small.mark.without_index())
        removed_from = self._remove_items(writer, low, newest)
        if named:
            self.mark.lower(writer.header(), log_end)
        if low > 1:
            header = writer.header()
            self.writer.continue_with(writer, header.end_physical_offset, header.end_timestamp)
        elif len(self.files) == 1:
            self.writer.continue_with(writer, -1, 0)
        else:
            self.writer.remove_current()
            if named:
                self.mark.clear()
            self.files.pop()
        return removed_from

    @staticmethod
    def _bounds(writer: IndexFileWriter, unsure: int, log_end: int) -> tuple[int, int]:
        """Return the range [from, to) of items to remove.

        These are items after the count (the process was killed during an insertion), items of records at or after the
        log's end, and items of the last remaining record if it is not before `unsure` (its other keys may be missing).
        """
        count = max(writer.header().index_count, 1)
        newest = min(count, writer.items)
        while newest < writer.items and writer.item(newest).physical_offset > 0:
            newest += 1
        low = newest
        while low > 1 and (low > count or writer.item(low - 1).physical_offset >= log_end):
            low -= 1
        last = writer.item(low - 1).physical_offset if low > 1 else -1
        while last >= unsure and low > 1 and writer.item(low - 1).physical_offset == last:
            low -= 1
        return low, newest

    @staticmethod
    def _remove_items(writer: IndexFileWriter, low: int, newest: int) -> int | None:
        """Remove items [low, newest), the newest first; return the log offset of the first, or None."""
        assert 1 <= low <= newest <= writer.items
        slots, removed_from = writer.slots, None
        for number in range(newest - 1, low - 1, -1):
            item = writer.item(number)
            removed_from = item.physical_offset
            place = index.slot_position(item.key_hash % slots)
            slot = SLOT.unpack(writer.map[place : place + SLOT.size])
            if slot.item == number:  # otherwise the process was killed before the slot was set, and the slot is right
                writer.map[place : place + SLOT.size] = SLOT.pack(index.Slot(item.previous))
        # The count before the items: a kill in between leaves items after the count, which the next start removes. The
        # other way round the header would count zeros, which name no record.
        writer.shorten(low)
        # The newest first, so that a kill amid them leaves no gap: the next start goes on to the first that is zero.
        # Of the last perhaps only the hash was written.
        for number in range(min(newest, writer.items - 1), low - 1, -1):
            place = index.item_position(number, slots)
            writer.map[place : place + ITEM.size] = bytes(ITEM.size)
        return removed_from

    def confirm_complete(self) -> None:
        """Note that all keys before those to be inserted are in."""
        self.complete = True

    def reached(self, position: int) -> DispatchPoint:
        """Return the progress for `mark.settle`: everything below this log offset is in."""
        file = self.writer.current
        if not self.complete or not isinstance(file, IndexFileWriter):
            return DispatchPoint(position)
        return DispatchPoint(position, file.path, bytes(file.map[: index.HEADER.size]))

    @property
    def end_offset(self) -> int:
        """Log offset of the last record with an item; -1 if there is none."""
        return self.writer.end_offset if self.writer.current is not None else -1

    def insert(self, hashes: Numbers, offsets: Numbers, times: Numbers, keys: int) -> None:
        """Append items; keys of records at or before `end_offset` are in already and are skipped.

        Raises OSError: no space. The same keys may be passed again: those that are in are skipped.
        """
        first, end, some = 0, self.end_offset, 0
        while first < keys and offsets[first] <= end and (offsets[first] < end or some != self._some):
            some += offsets[first] == end
            first += 1
        try:
            if first == 0:
                self.writer.insert(hashes, offsets, times, keys)
            elif first < keys:
                self.writer.insert(hashes[first:keys], offsets[first:keys], times[first:keys], keys - first)
            self._some = None
        except BaseException:  # of any kind: the same keys may come again
            end = self.end_offset
            self._some = sum(offsets[k] == end for k in range(first + self.writer.done))
            raise

    def begin(self, store_time: int) -> None:
        """Make the first file, as RocketMQ does for the first record, with or without keys."""
        if self.writer.current is None:
            self.writer.insert_file(store_time)

    def sync_full(self) -> int:
        """Sync the files that became full; return the time in ms of the last item, 0 for none.

        Thread: any, one at a time. Raises OSError: the disk refused; a later call tries again.
        """
        last = 0
        while self.writer.full:
            path = self.writer.full[0]
            if self.effects.size(path) is not None:  # otherwise it has expired
                # Its time counts in the checkpoint only after the sync, and the path stays in `full` until then.
                sync_file(path, self.effects)
                header = index_header(path, self.effects)
                last = max(last, header.end_timestamp if header is not None else 0)
            del self.writer.full[0]
        if last:
            self.effects.sync_dir(self.folder)
        return last

    def flush(self) -> None:
        """Sync the current file and its directory."""
        if self.writer.current is not None:
            self.effects.sync(self.writer.current.fd)
            self.effects.sync_dir(self.folder)

    def check_invariants(self) -> None:
        """Assert what always holds of the files and the mark between two blocks, after recovery.

        Thread: the dispatcher's, or nobody dispatches.
        """
        self.writer.check_invariants()
        file, indexed = self.writer.current, self.mark.indexed
        if file is not None:
            assert self.end_offset == self.writer.end_offset
        if indexed is not None and file is not None:
            header, newest = indexed.header, int(os.path.basename(file.path))
            assert indexed.name <= newest, f"the mark names {indexed.name}, and {newest} is the newest file"
            assert indexed.name < newest or header.next_item <= file.count, "the mark counts items that there are not"

    def close(self) -> None:
        self.flush()
        self.close_without_flush()

    def close_without_flush(self) -> None:
        """Close without a flush, for a store that stops uncleanly. Does nothing after `close`."""
        self.writer.close_current()
