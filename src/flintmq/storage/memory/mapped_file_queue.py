"""The files of a log that is being written, in order.

Upstream: MappedFileQueue, MultiPathMappedFileQueue.
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_right
from collections.abc import Iterable

from flintmq.config.keys import StoreConfig
from flintmq.kernels.threads.flusher import LogWatermark
from flintmq.storage.files.filesystem import REAL, Effects
from flintmq.storage.memory.allocation import AllocationService
from flintmq.storage.memory.mapped_file import MappedFile
from flintmq.storage.memory.transient_pool import TransientStorePool
from flintmq.storage.memory.warm_up import Ahead, WarmUp

log = logging.getLogger("flintmq.files")


class MappedFileQueue(LogWatermark):
    """Contiguous files of one size.

    Thread: `find` any; files are added by the thread that holds the put lock.

    Args:
        directories: directories for new files; a file that begins at offset o goes to number (o / file_size) mod their
            count of the sorted directories, as upstream does.
        random: no read-ahead in the maps, and small writes at each sync (Effects.advise_random).

    Attributes:
        files: open files, oldest first. The tuple is replaced, never changed, so readers may keep using the one they
            have.
        sync_error: errno of a sync by `flush` that failed; 0: none did.
        allocation: makes files in advance; None: they are made when they are needed.
        pool: takes the records of new files first; None: there is no transient pool.
    """

    def __init__(
        self, directories: list[str], file_size: int, effects: Effects = REAL, *, random: bool = False
    ) -> None:
        self.directories, self.file_size, self.effects = sorted(directories), file_size, effects
        self.files: tuple[MappedFile, ...] = ()
        self.flushed_where = self.sync_error = 0
        self.allocation: AllocationService | None = None
        self.pool: TransientStorePool | None = None
        self._random = random
        self._unused: dict[int, str] = {}  # start -> path, of empty files after the end that were there at `load`
        self._making: set[str] = set()  # begun and not yet in use; a file of such a name may be left of a failed try

    @staticmethod
    def of(directories: list[str], config: StoreConfig, effects: Effects = REAL) -> MappedFileQueue:
        """Build the queue of a commit log with the services that the configuration asks for."""
        size, sync = config.mapped_file_size_commit_log, config.flush_disk_type == "SYNC_FLUSH"
        queue = MappedFileQueue(directories, size, effects, random=sync or not config.data_read_ahead_enable)
        if config.transient_store_pool_enable and config.broker_role != "SLAVE":
            fast_fail = config.fast_fail_if_no_buffer_in_store_pool
            queue.pool = TransientStorePool(
                config.transient_store_pool_size, size, effects, fast_fail=fast_fail, place=queue.place
            )
            queue.pool.make_room = queue.commit_piece
        pages = config.flush_least_pages_when_warm_maped_file if sync else 0
        queue.allocation = AllocationService(
            queue.make_file,
            size,
            effects,
            warm=WarmUp(pages, effects) if config.warm_maped_file_enable else None,
            ahead=Ahead(effects, populate=not sync and queue.pool is None),
            pool=queue.pool,
            place=queue.place,
        )
        return queue

    def load(self, paths: list[tuple[str, int]], end: int, *, unused: Iterable[tuple[str, int]] = ()) -> None:
        """Open existing files: bytes below log offset `end` are on disk, those after it are zeros.

        `unused`: (path, start) of the empty files that follow, which are taken where new ones are needed.
        """
        assert not self.files, "a queue is loaded once"
        for path, start in paths:
            assert start == (self.files[-1].start + self.file_size if self.files else start), "recovery let a gap pass"
            wrote = min(max(end - start, 0), self.file_size)
            file = self._ready(MappedFile.open(path, start, self.file_size, wrote, self.effects))
            self.files = (*self.files, file)  # each at once, so that `close` knows it if the next one cannot be opened
        self._unused = {start: path for path, start in unused}
        self.flushed_where = end

    @property
    def place(self) -> str:
        """A directory of it, which names it in the log."""
        return self.directories[0]

    @property
    def min_offset(self) -> int:
        """Log offset of the first byte of the oldest file."""
        return self.files[0].start if self.files else 0

    @property
    def last(self) -> MappedFile | None:
        return self.files[-1] if self.files else None

    def append_file(self, start: int) -> MappedFile:
        """Add the next file, which begins at this log offset.

        Durability: the file exists after power loss, before a record is put into it. Raises OSError: no space, no
        permission, or not made in time; a later call may succeed.
        """
        assert self.last is None or start == self.last.start + self.file_size, (
            "a gap between files is damage to the next start"
        )
        # Only here, never in the allocation thread: a directory that disappears while the log is written must stay
        # away.
        if not self.files:
            self.effects.make_folder(os.path.dirname(self._path(start)))
        if self.allocation is None:
            file = self.make_file(start)
        else:
            self.allocation.used(start)  # an interrupt may have come between the last lines of an earlier call
            file = self.allocation.file_at(start)
            # Looked at before the first record is put: bytes of a file without a name are lost with the process.
            if not self.effects.is_named(file.fd, file.path):
                # A RocketMQ that is started beside a running store removes the file before it meets the lock.
                log.warning("%s was removed by another program and is created again", file.path)
                self._making.discard(file.path)
                self.allocation.used(start + self.file_size)
                file.close()
                file = self.make_file(start)
                if self.pool is not None:
                    file.enter_ring(self.pool)
            if self.last is not None:
                self.allocation.full(self.last)
        # Before the file can be found: its readers and flush ask the ring how much of it is committed.
        if file.pool is not None and (self.last is None or self.last.pool is None):
            file.pool.ring.begin(start)
        # One store, so that a reader finds all files or all but this one. An interrupt after it is mended by the next
        # call, which drops the request first.
        self.files = (*self.files, file)
        self._making.discard(file.path)
        if self.allocation is not None:
            self.allocation.used(start + self.file_size)
        return file

    def make_file(self, start: int, window: int | None = None) -> MappedFile:
        """Make the file that begins at this log offset, or take the unused one.

        It is as MappedFile.create says.

        Thread: one at a time.
        """
        path = self._unused.get(start) or self._path(start)
        there = self._unused.pop(start, None) is not None and self.effects.size(path) == self.file_size
        # Left by a try that an interrupt ended. It is nobody's: a file in use was taken out of `_making`.
        if path in self._making and self.effects.size(path) is not None:
            self.effects.unlink(path)
        self._making.add(path)
        return self._ready(MappedFile.create(path, start, self.file_size, self.effects, window=window, there=there))

    def _path(self, start: int) -> str:
        return os.path.join(self.directories[start // self.file_size % len(self.directories)], f"{start:020d}")

    def _ready(self, file: MappedFile) -> MappedFile:
        if self.allocation is not None:
            file.on_reserve(self.allocation.asked)
        if self._random:
            try:
                self.effects.advise_random(file.map)
            except OSError as error:
                log.info("%s: the kernel refuses advice on its pages (%s)", file.path, error.strerror)
        return file

    def gone(self) -> str | None:
        """Return the path of the file in use if it names another file by now, or none; else None.

        Thread: any.
        """
        last = self.last
        if last is None or not last.hold():
            return None
        try:
            return None if self.effects.is_named(last.fd, last.path) else last.path
        finally:
            last.release()

    def rolled_since(self, begin: int, end: int) -> bool:
        """Return whether a file is full between two log offsets (upstream isAbleToFlush)."""
        return begin // self.file_size < end // self.file_size

    def find(self, offset: int) -> MappedFile | None:
        files = self.files
        number = bisect_right(files, offset, key=lambda f: f.start) - 1
        return files[number] if number >= 0 and offset < files[number].start + self.file_size else None

    def drop_first(self) -> MappedFile:
        """Remove the oldest file from the list; it stays mapped while somebody holds it.

        Thread: the one that holds the put lock.
        """
        assert len(self.files) > 1, "the last file is the writer's"
        first, *rest = self.files
        # Out of the list before it is closed: who has an older list cannot hold the file any more, and takes it for
        # gone.
        self.files = tuple(rest)
        first.close()
        return first

    def read(self, offset: int, size: int) -> bytes | None:
        """Return a copy of bytes of the log; None if they are not all written or not kept any more.

        The last file is copied from its map, because its newest bytes are in memory. Older files are read by pread,
        which waits for the disk without the GIL and fetches no more than was asked for; a page fault would do neither.
        """
        file = self.find(offset)
        # Held before its positions are read: retention may close it at any moment.
        if file is None or not file.hold():
            return None
        try:
            at = offset - file.start
            if at + size > file.committed:
                return None
            return bytes(file.view[at : at + size]) if file is self.last else self.effects.pread(file.fd, size, at)
        finally:
            file.release()

    def flush(self, target: int) -> None:
        """Make everything below log offset `target` durable, oldest file first.

        Thread: one at a time. Raises OSError: the disk refused, which `sync_error` notes; bytes below flushed_where are
        certainly durable.
        """
        assert target >= self.flushed_where  # a smaller one would take back what was promised
        for file in self.files:
            if file.start + self.file_size <= self.flushed_where:
                continue
            if file.start >= target:
                break
            file.flush(min(target - file.start, self.file_size), self._sync)
            # File by file: if the next sync fails, this much is durable all the same.
            self.flushed_where = min(target, file.start + self.file_size)

    def _sync(self, fd: int) -> None:
        """Sync a file of the log, and note a refusal of the disk before other code can run."""
        if type(self.effects) is Effects:
            if error := self.sync(fd):
                raise OSError(error, os.strerror(error))
            return
        try:
            self.effects.sync(fd)
        except OSError as error:
            if error.errno is not None:  # a signal handler's own, such as TimeoutError, has none
                self.sync_error = error.errno
            raise

    def commit(self, target: int) -> None:
        """Write everything put below log offset `target` from the ring to the files.

        Thread: any. Durability: the kernel has it on return.
        """
        files = self._in_ring()
        for file in files:
            if file.start < target:
                file.commit(min(target - file.start, self.file_size))

    def commit_piece(self) -> None:
        """Write the oldest piece of the ring to its file, if there is any; see `commit`."""
        for file in self._in_ring()[:1]:
            file.commit_piece()

    def follow(self, micros: int) -> None:
        """Write whole pieces of the ring while they come, for so long at most."""
        for file in self._in_ring()[:1]:
            file.follow(micros)

    def _in_ring(self) -> list[MappedFile]:
        """Return the files in the ring, oldest first. They are the last ones."""
        found: list[MappedFile] = []
        for file in reversed(self.files):
            if file.pool is None:
                break
            found.insert(0, file)
        return found

    def start(self) -> None:
        if self.allocation is not None:
            self.allocation.start()

    def leave_spares(self) -> None:
        """Keep files made in advance at the end: another process may own them by now."""
        if self.allocation is not None:
            self.allocation.leave_spares()

    def check_invariants(self) -> None:
        """Assert that files are contiguous, only the last has room, and durable bytes were flushed.

        Thread: the one that holds the put lock, or any while no thread writes.
        """
        flushed, files = (
            self.flushed_where,
            self.files,
        )  # in this order: a flush in between only makes more of the files durable
        assert len({file.fd for file in files}) == len(files)
        full = True
        for number, file in enumerate(files):
            file.check_invariants()
            assert file.size == self.file_size and os.path.basename(file.path) == f"{file.start:020d}", file.path
            assert file.start == files[0].start + number * self.file_size, f"{file.path}: a gap before it"
            assert full or file.wrote == 0, f"{file.path}: written before the file that precedes it was full"
            assert file.flushed >= min(flushed - file.start, file.size), f"{file.path}: counted as durable and is not"
            full = file.wrote == file.size
        assert not files or flushed <= files[-1].start + self.file_size, "the durable end is after the last file"

    def close(self) -> None:
        """Close all files, and remove those made in advance and never used."""
        # Nobody finds a file from here on; who holds one keeps it mapped.
        files, self.files = self.files, ()
        self._remove_unused()
        if self.allocation is not None:
            if files:
                self.allocation.used(files[-1].start + self.file_size)
            self.allocation.stop()
        for file in files:
            file.close()
        if self.pool is not None:
            self.pool.close()

    def _remove_unused(self) -> None:
        """Remove the empty files that were there at `load` and are not in use, the last one first."""
        unused, self._unused = self._unused, {}
        if self.allocation is not None and self.allocation.leaves_spares:
            return
        for start in sorted(unused, reverse=True):
            try:
                self.effects.unlink(unused[start])
            except OSError as error:
                log.warning("%s was never used and cannot be removed (%s)", unused[start], error.strerror)
