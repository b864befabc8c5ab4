"""The small files of a running store: `abort`, `checkpoint`, `flintmq.mark`. Written so that none is ever half there.

`abort` exists while the store runs; it holds the process and, where the system tells it, which boot of the machine and
which mounting of the file system this is (upstream: the process alone). The checkpoint is a page that RocketMQ maps and
writes in place; here it is replaced as a whole. `flintmq.mark` says exactly how far the log was flushed and is void
once RocketMQ has written.
"""

from __future__ import annotations

import mmap
import os
import threading

from flintmq.errors import FormatError
from flintmq.format import checkpoint, flintmq_mark
from flintmq.format.checkpoint import Checkpoint
from flintmq.format.flintmq_mark import Indexed
from flintmq.storage.filesystem import Effects
from flintmq.storage.whole_file import replace_file

BOOT = "/proc/sys/kernel/random/boot_id"


def page_cache_id(root: str, effects: Effects) -> str:
    """Which page cache holds what is stored now: the boot of the machine and the mounting of the file system.

    A file system that shut itself down after an error has lost it without a new boot. Empty where nobody tells.
    """
    try:
        boot = effects.read_proc(BOOT).strip()
    except OSError:
        return ""
    return f"{boot}/{effects.mounting(root)}".rstrip("/")


def page_cache_lasted(root: str, effects: Effects) -> bool:
    """Whether machine and file system have run on since the process that `abort` names: files hold all that was stored.

    False where nobody knows.
    """
    return _page_cache_of_abort(root, effects) == page_cache_id(root, effects) != ""


def power_was_cut(root: str, effects: Effects) -> bool:
    """Whether the machine was started, or the file system mounted, again since the process that `abort` names: then of
    what was not synced any byte may be missing.

    False where nobody knows.
    """
    before, now = _page_cache_of_abort(root, effects), page_cache_id(root, effects)
    return bool(before and now) and before != now


def written_by_flintmq(root: str, effects: Effects) -> bool:
    """Whether `abort` was written by FlintMQ, so that nobody else has worked on the store since.

    False where the system does not tell which boot it is.
    """
    return _page_cache_of_abort(root, effects) != ""


def _page_cache_of_abort(root: str, effects: Effects) -> str:
    words = (effects.read_file(os.path.join(root, "abort"), 4096) or b"").decode("ascii", "replace").split()
    return words[1] if len(words) == 2 else ""


def fsync_and_drop_cache(path: str, position: int, count: int, effects: Effects) -> None:
    """Make sure that what is read of a file from now on stands on the disk: after a sync that failed the page cache may
    show what never arrived, and tells nobody.

    Raises:
        OSError: the disk refused.
    """
    fd = effects.open_write(path)
    try:
        effects.sync(fd)
        effects.drop_cache(fd, position, count)
    finally:
        effects.close(fd)


class StoreFiles:
    """The small files of one store.

    Attributes:
        known: the checkpoint's numbers, as they were last written or read.
        queued: log offset below which all queue units are on disk, as the mark says it by now; -1 if it does not.
        marked, dispatched, indexed: while the store is recovered: what the mark says (`believe`). It says less before
            anything is undone that it names, or a power cut would leave that half done and believed.
    """

    def __init__(self, root: str, effects: Effects) -> None:
        self.root, self.effects = root, effects
        self._lock, self._closing = threading.Lock(), threading.Lock()
        self._abort: mmap.mmap | None = None  # once it is ours
        self.believe(None, -1, None)
        data = effects.read_file(os.path.join(root, "checkpoint"), checkpoint.FILE_SIZE)
        try:
            # 5.5.0 would believe its number at its next start, whatever happens to the queues here: 0 says nothing.
            self.known = checkpoint.decode(data or b"")._replace(logics_physical_offset=0)
        except FormatError:
            self.known = Checkpoint()

    def write(
        self, flushed_offset: int, known: Checkpoint, dispatched_offset: int = -1, indexed: Indexed | None = None
    ) -> None:
        """Write checkpoint and mark together.

        Args:
            flushed_offset: log offset below which everything is on disk.
            known: the checkpoint's numbers, of what is on disk.
            dispatched_offset: log offset below which all queue units are on disk; -1 if that is not known.
            indexed: the same of the index; None if that is not known.

        Raises:
            OSError: one of them could not be written.
        """
        with self._lock:
            # The mark first: it holds beside both checkpoints, so a kill between the two does not void it.
            before = self.known.physic_timestamp
            mark = flintmq_mark.encode(flushed_offset, known.physic_timestamp, before, dispatched_offset, indexed)
            replace_file(os.path.join(self.root, flintmq_mark.FILE_NAME), mark, self.effects)
            replace_file(os.path.join(self.root, "checkpoint"), checkpoint.encode(known), self.effects)
            self.known, self.queued = known, dispatched_offset

    def believe(self, mark: int | None, dispatched: int, indexed: Indexed | None) -> None:
        """What the mark that is there says, if it is valid, as far as its reader believes it; None, -1, None if not."""
        self.marked, self.dispatched, self.indexed = mark, dispatched, indexed
        self.queued = dispatched

    def lower_dispatched(self, position: int) -> None:
        """Say that units are on disk only below this log offset; to be called before one below is written again.

        Raises:
            OSError: it could not be written.

        Durability: on return.
        """
        if position < self.dispatched:
            self.dispatched = position
            self.write_believed()

    def forget_indexed(self) -> None:
        """Say nothing of the index any more; to be called before anything is changed that the mark says of it.

        Raises:
            OSError: it could not be written.

        Durability: on return.
        """
        if self.indexed is not None:
            self.indexed = None
            self.write_believed()

    def write_believed(self) -> None:
        """Write the mark again, with what is believed of it. Durability: on return."""
        if self.marked is not None:
            self.write(self.marked, self.known, self.dispatched, self.indexed)

    def lower_index_time(self, time: int) -> None:
        """Say that only index files up to this time are on disk; to be called before a younger one is changed.

        Raises:
            OSError: it could not be written.

        Durability: on return.
        """
        with self._lock:
            known = self.known._replace(index_timestamp=min(time, self.known.index_timestamp))
            replace_file(os.path.join(self.root, "checkpoint"), checkpoint.encode(known), self.effects)
            self.known = known

    def make_abort(self) -> None:
        """Say that the store runs. Durability: on return, before the first put."""
        path, boot = os.path.join(self.root, "abort"), page_cache_id(self.root, self.effects)
        text = f"{self.effects.process_id()}\n{boot}".strip().encode()
        replace_file(path, text, self.effects)
        self.close()
        if boot:
            fd = self.effects.open_write(path)
            try:
                self._abort = self.effects.map_write(fd, len(text))
            finally:
                self.effects.close(fd)

    def distrust_page_cache(self) -> None:
        """Say that what is stored now may not be on disk, though this machine runs on: a sync failed.

        The page cache shows it all the same, and a later sync may return as if nothing had been. So
        the next start is to ask the disk, as after a power cut: what names this page cache in `abort` loses its last
        byte. That is a store into a map, as a disk that just refused would refuse a write, too, and it need only be
        known as long as this page cache is: after a power cut there is another one anyway.

        Thread: any. Durability: none.
        """
        with self._closing:
            if self._abort is not None:
                self._abort[-1] = ord("?")

    def close(self) -> None:
        """Let go of `abort`, whatever stands in it."""
        with self._closing:
            if self._abort is not None:
                self._abort.close()
                self._abort = None

    def remove_abort(self) -> None:
        """Say that the store stopped cleanly. Call it after the last sync. Durability: on return."""
        path = os.path.join(self.root, "abort")
        if self.effects.size(path) is not None:
            self.effects.unlink(path)
            self.effects.sync_dir(self.root)
