"""The small files of a running store: `abort`, `checkpoint`, `flintmq.mark`.

Each is replaced as a whole. `abort` exists while the store runs; it holds the process id and, if the system reveals
them, ids of the machine's boot and of the file system's mount (upstream: the process id alone). It stays after a clean
stop whose queues, which another process makes, lag the log (`LAGGING`): RocketMQ asks only whether the file is
there, and without it leaves records out of the queues and gives their queue offsets a second time (D6). The checkpoint
is a page that RocketMQ maps and writes in place; here it is replaced as a whole. `flintmq.mark` holds the exact log
offset up to which the log was flushed; it is void once RocketMQ has written the store.
"""

from __future__ import annotations

import mmap
import os
from typing import NamedTuple

from flintmq.errors import FormatError
from flintmq.format import checkpoint, flintmq_mark
from flintmq.format.checkpoint import Checkpoint
from flintmq.format.flintmq_mark import Indexed
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.files.whole_file import replace_file
from flintmq.storage.threads.mutex import Lock
from flintmq.store.layout.mark import UNKNOWN, DurableMark

BOOT = "/proc/sys/kernel/random/boot_id"
LAGGING = b"stopped cleanly, queues or index lag the log"


def page_cache_id(root: str, effects: Effects) -> str:
    """Return an id of the page cache that holds writes made now: boot and mount.

    A file system that shut itself down after an error has lost its page cache without a new boot. Empty if the system
    has no such ids.
    """
    try:
        boot = effects.read_proc(BOOT).strip()
    except OSError:
        return ""
    return f"{boot}/{effects.mounting(root)}".rstrip("/")


class Abort(NamedTuple):
    """Facts of the last stop that `abort` gives; False where nothing is known."""

    clean: bool  # it is not there, or says that only queues lag
    lagging: bool = False  # it says so: queues or index lack records of the log
    is_ours: bool = False  # FlintMQ wrote it, so no other program has worked on the store since
    page_cache_lasted: bool = False  # that of its process still exists, so files hold everything that was written
    power_cut: bool = False  # that one does not: booted or mounted again, so any byte not synced may be missing


def read_abort(root: str, effects: Effects) -> Abort:
    """Read `abort`.

    A start does so once: it writes the file anew, and must not take that for what the last stop left.

    Raises StoreAccessError: a link or a directory has the name. RocketMQ asks only whether the name is there, so the
    stop was no clean one.
    """
    text = effects.read_file(os.path.join(root, "abort"), 4096)
    if text is None:
        return Abort(clean=True)
    if text == LAGGING:  # RocketMQ, and an engine that starts, write another one
        return Abort(clean=True, lagging=True)
    words = text.decode("ascii", "replace").split()
    then = words[1] if len(words) == 2 else ""  # empty: RocketMQ wrote it, or the system has no id of a boot
    now = page_cache_id(root, effects) if then and not effects.remote else ""
    return Abort(False, False, then != "", then == now != "", now not in ("", then))


def fsync_and_drop_cache(path: str, position: int, count: int, effects: Effects) -> None:
    """Fsync the file and drop its cached pages, so that later reads come from the device.

    After a failed fsync the page cache may show bytes that never reached the device, without any error.
    """
    # Synced first: a page that is not on disk cannot be dropped, and would be read again from memory.
    with effects.writing(path) as fd:
        effects.sync(fd)
        effects.drop_cache(fd, position, count)


class StoreFiles:
    """The small files of one store.

    Attributes:
        checkpoint: its numbers, as last written or read.
        mark: what `flintmq.mark` says, as far as it is trusted. A number is lowered in the file before recovery undoes
            anything that it covers (`retreat`); otherwise a power cut could leave that undone and confirmed.
    """

    def __init__(self, root: str, effects: Effects) -> None:
        self.root, self.effects = root, effects
        self._lock, self._closing = Lock(), Lock()
        self._abort: mmap.mmap | None = None  # once this process has written it
        self.mark = UNKNOWN
        data = effects.read_file(os.path.join(root, "checkpoint"), checkpoint.FILE_SIZE)
        try:
            # 5.5.0 would trust this number at its next start, whatever happens to the queues here. 0 disables it.
            self.checkpoint = checkpoint.decode(data or b"")._replace(logics_physical_offset=0)
        except FormatError:
            self.checkpoint = Checkpoint()

    def write(
        self, flushed_offset: int, numbers: Checkpoint, dispatched_offset: int = -1, indexed: Indexed | None = None
    ) -> None:
        """Write checkpoint and mark together.

        Args:
            flushed_offset: log offset below which everything is on disk.
            dispatched_offset: log offset below which all queue units are on disk; -1 if that is not known.
        """
        with self._lock:
            # The mark comes first: it is valid beside the old and the new checkpoint, so a kill between the two files
            # does not void it.
            before = self.checkpoint.physic_timestamp
            mark = flintmq_mark.encode(flushed_offset, numbers.physic_timestamp, before, dispatched_offset, indexed)
            replace_file(os.path.join(self.root, flintmq_mark.FILE_NAME), mark, self.effects)
            replace_file(os.path.join(self.root, "checkpoint"), checkpoint.encode(numbers), self.effects)
            self.checkpoint, self.mark = numbers, DurableMark(flushed_offset, dispatched_offset, indexed)

    def trust(self, mark: DurableMark) -> None:
        """Take over what a start believes of the mark on disk; nothing is written."""
        self.mark = mark

    def distrust_all(self) -> None:
        """Believe neither the mark nor the checkpoint on disk any more; nothing is written."""
        self.checkpoint, self.mark = Checkpoint(), UNKNOWN

    def retreat(self, mark: DurableMark) -> None:
        """Lower what the mark says; call it before anything is changed that the mark covers.

        `mark`: `self.mark`, lowered by a method of DurableMark. Nothing is written if it is the same.

        Durability: on return.
        """
        if mark != self.mark:
            self.mark = mark
            self.write_mark()

    def write_mark(self) -> None:
        """Write the mark again with the current numbers, if the store has one.

        Durability: on return.
        """
        if self.mark.flushed is not None:
            self.write(self.mark.flushed, self.checkpoint, self.mark.dispatched, self.mark.indexed)

    def lower_index_time(self, time: int) -> None:
        """Lower the checkpoint's index time; call it before a younger index file is changed.

        Durability: on return.
        """
        with self._lock:
            numbers = self.checkpoint._replace(index_timestamp=min(time, self.checkpoint.index_timestamp))
            replace_file(os.path.join(self.root, "checkpoint"), checkpoint.encode(numbers), self.effects)
            self.checkpoint = numbers

    def make_abort(self) -> None:
        """Write `abort`: the store runs. Durability: on return, before the first put."""
        path, boot = os.path.join(self.root, "abort"), page_cache_id(self.root, self.effects)
        text = f"{self.effects.process_id()}\n{boot}".strip().encode()
        # The file before the map: the old map is of a file whose name is gone, and a store there would reach nobody.
        replace_file(path, text, self.effects)
        self.close()
        if boot:
            with self.effects.writing(path) as fd:
                self._abort = self.effects.map_write(fd, len(text))

    def distrust_page_cache(self) -> None:
        """Mark the page cache as untrusted after a failed fsync.

        The page cache still shows the bytes, and a later fsync may succeed without them. So the next start must read
        everything from the device, as after a power cut: the id of the page cache in `abort` loses its last byte. That
        is a store to a map, because a disk that just refused would refuse a write too. It need not be durable: after a
        power cut the id is another one anyway.

        Thread: any. Durability: none.
        """
        with self._closing:
            if self._abort is not None:
                self._abort[-1] = ord("?")

    def close(self) -> None:
        """Unmap `abort` and leave the file as it is."""
        with self._closing:
            if self._abort is not None:
                self._abort.close()
                self._abort = None

    def disown_queues(self, mark: DurableMark) -> None:
        """Have checkpoint and mark claim no queue unit; call it before another process cuts queues.

        `mark`: what a start would believe. Durability: on return. Raises OSError: it could not be written.
        """
        self.checkpoint, self.mark = self.checkpoint._replace(logics_timestamp=0), mark.of_log_alone()
        self.lower_index_time(self.checkpoint.index_timestamp)
        self.write_mark()

    def note_lag(self) -> None:
        """Write `abort`: the stop was clean, and queues or index lag. Call it after the last fsync.

        Durability: on return.
        """
        replace_file(os.path.join(self.root, "abort"), LAGGING, self.effects)

    def remove_abort(self) -> None:
        """Remove `abort`: the store stopped cleanly. Call it after the last fsync.

        Durability: on return.
        """
        path = os.path.join(self.root, "abort")
        if self.effects.size(path) is not None:
            self.effects.unlink(path)
            self.effects.sync_dir(self.root)
