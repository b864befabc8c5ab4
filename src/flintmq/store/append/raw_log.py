"""Appends the bytes of another store's log, as they come, to a store in role SLAVE.

The log is then a copy, byte for byte. Bytes are stored where the master has them; a record is published when all of it
is there and it counts, and readers, queues and index never see less than a record. What follows the last published
record is the beginning of the next one: it comes again after a lost connection, so it is zeroed then, and by recovery
after a kill. Upstream: DefaultMessageStore.appendToCommitLog, which checks nothing (it takes zeros, damage, and a body
that begins anywhere).
"""

# Writer algorithm: the follower, one thread
#
# W1 Refuse what is not the next byte: `offset` is `_received`, and the range ends in the same file.
# W2 Take the put lock and set `held` (CommitLog.locked). A slave takes no puts; retention and `close` have the same
#    lock.
# W3 The file and its blocks: it exists after a power cut before a byte is in it, and no store meets a full disk.
# W4 Copy the bytes to the master's place, above `wrote`, front to back, a page at a time: a kill comes mostly where a
#    page is missing, and what lies there then is a begin of the master's bytes, and zeros.
# W5 `_received`. Only this class reads it. An interrupt before it has the same bytes copied again.
# W6 Walk from `end` to `_received`, checksums compared: each record whole, each blank to the end of the file.
# W7 `_last_record`, the file's `wrote`, then `last_time` and `end` (fast_append.py, W5 and W6): the records count.
#    Bytes of a record that is not whole stay above.
# W8 Free the lock, then wake dispatch or flush. After that the follower may report `end` to the master, and with SYNC
#    only what `flush` made durable.
# W9 If the line is lost, or W6 found bytes that do not count: zero from `_received` down to `end`, back to front, then
#    `_received` = `end`. So at each moment there are bytes of the master, then zeros. The master sends them again.
#
# Reader algorithm
#
# R1 Readers of this process: as in fast_append.py (R1 to R3). They never see less than a record.
# R2 Readers of other processes have the files alone, and see W4 and W9 under way. They leave out a last record with a
#    zero byte in its texts (store/commitlog/arrivals.py), which its body's checksum does not cover.
#
# What a crash may show
#
# C1 A kill amid W4 or before W7: the begin of a transfer, whole records in it or not. The start keeps the whole ones
#    that count, and zeroes the rest without a copy in quarantine/: it comes again (truncate.py, `comes_again`).
# C2 A kill amid W9: the same, only shorter.
# C3 A power cut: above what is flushed any sector may be missing, also what W9 zeroed may be back. The log ends before
#    the first record that is not whole or not the next of its queue, and what follows is zeroed; damage above the mark
#    is no reason to refuse, for the master sends it again (find_end.py).
# C4 Then the copy is shorter than before. Without SYNC it may be shorter than what was reported; the next line begins
#    at its end, whatever was reported (ha/overlap.py compares the last record first).

from __future__ import annotations

from collections.abc import Callable, Iterator
from mmap import PAGESIZE

from flintmq.errors import DamagedStreamError, ReplicationError, StoreAccessError, StoreError, UsageError
from flintmq.format.record_view import size_at, store_times
from flintmq.kernels.read import walk as kernel
from flintmq.storage.files.libc_memory import zeros
from flintmq.storage.memory.mapped_file import MappedFile
from flintmq.store.append.after_put import AfterPut
from flintmq.store.append.commit_log import CommitLog
from flintmq.store.append.disk_failure import DiskFailure
from flintmq.store.append.flush import FlushService
from flintmq.store.commitlog.end_of_log import SECTOR
from flintmq.store.commitlog.own_log import LogTail
from flintmq.store.commitlog.walk import MAX_ROWS, LogWalk

ADVICE = "ask the master's operators to run `flintmq verify` there, or follow into a new directory"
CLOSED = "the store is closed"


class RawLog:
    """The log of a store in role SLAVE, for whoever copies a master's log into it.

    Args:
        after_put: woken after records count: dispatch, and under SYNC_FLUSH the flusher, which wakes dispatch.
        dispatched_from: called with the log offset at which an empty log begins, before anything is there.

    Thread: one at a time; readers, flush and dispatch run beside.
    """

    def __init__(
        self,
        log: CommitLog,
        flush: FlushService,
        *,
        after_put: AfterPut,
        dispatched_from: Callable[[int], None],
        next_offsets: Callable[[], dict[tuple[bytes, int], int]],
        failure: DiskFailure,
    ) -> None:
        self.next_offsets = next_offsets
        self._log, self._files, self._flush, self._after_put = log, log.files, flush, after_put
        self._dispatched_from, self._failure = dispatched_from, failure
        self._positions = zeros("q", MAX_ROWS)
        self._begin = self._files.min_offset if self._files.files else None
        self._received = log.end
        self._last_record: int | None = None
        self._searched = False

    @property
    def file_size(self) -> int:
        """Bytes of a file of the log (mappedFileSizeCommitLog)."""
        return self._files.file_size

    @property
    def begin(self) -> int | None:
        """Log offset of the first file's first byte; None for an empty log, until `begin_at`."""
        return self._files.min_offset if self._files.files else self._begin

    @property
    def end(self) -> int:
        """Log offset after the last whole record or blank; everything below it is visible."""
        return self._log.end

    @property
    def received(self) -> int:
        """Log offset after the last byte in the files; the next one to append. At least `end`."""
        return self._received

    @property
    def durable(self) -> int:
        """Log offset below which all bytes are on disk."""
        return self._files.flushed_where

    @property
    def last_time(self) -> int:
        """Store time in ms of the last whole record; 0 without one."""
        return self._log.last_time

    @property
    def last_record(self) -> int | None:
        """Log offset of the last whole record; None: there is none.

        The first call reads a file or two.
        """
        if self._last_record is None and not self._searched:
            self._last_record = self._find_last_record()
            self._searched = True
        if self._last_record is not None and self._last_record < (self.begin or 0):
            self._last_record = None  # retention deleted it, and all before it
        return self._last_record

    def read(self, offset: int, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            at = offset + len(found)
            step = min(size - len(found), self.file_size - at % self.file_size)
            part = self._files.read(at, step)
            if part is None:
                raise UsageError(f"the log has no bytes from offset {at} to {at + step}; it ends at {self.end}")
            found += part
        return bytes(found)

    def records(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield log offset and store time in ms of each record."""
        files = LogTail(self._files).listed()
        for piece in LogWalk(files, begin=begin, end=end, check_crc=False):
            times = store_times(piece.data, piece.positions, piece.count)
            yield from zip((piece.base + at for at in piece.positions[: piece.count]), times, strict=True)

    def begin_at(self, offset: int) -> None:
        if self._files.files:
            raise UsageError(f"the log begins at {self.begin} already")
        if offset < 0 or offset % self.file_size:
            raise ReplicationError(
                "geometry",
                f"the master's log begins at offset {offset}, where no file of {self.file_size} bytes begins; give the "
                "master's own size with --set mappedFileSizeCommitLog=BYTES",
            )
        self._dispatched_from(offset)  # first: dispatch must not look for a file at 0
        if not self._log.locked(lambda: self._set_begin(offset), False):
            raise UsageError(CLOSED)

    def append_raw(self, offset: int, data: bytes | bytearray | memoryview) -> int:
        """Store bytes of the master's log and publish the records that are whole now.

        Durability: the kernel has the bytes on return; `flush` makes the records durable.

        Args:
            offset: log offset of data[0]; must be `received`.
            data: bytes; they do not cross the end of a file.

        Raises:
            DamagedStreamError: the bytes at `end` are no record that counts; what was received after `end` is zeroed.
            ReplicationError: ("geometry") a file of the master ends where none ends here; likewise.
            StoreAccessError: a file could not be made, or has no space; nothing was stored.
        """
        size = len(data)
        # W1
        if offset != self._received:
            raise UsageError(f"offset {offset} was given, and {self._received} is the next")
        if size > self.file_size - offset % self.file_size:
            raise UsageError(f"{size} bytes from offset {offset} cross the end of a file of {self.file_size} bytes")
        self._check_disk()
        before = self.end
        # W2
        try:
            if not self._log.locked(lambda: self._store(data, size), False):
                raise UsageError(CLOSED)
        except ReplicationError:
            # W9, before the error is raised: the next line must not go on after these bytes.
            self.discard()
            raise
        # W8: without the lock, because `wake` waits a moment for a dispatch that lags far.
        if self.end > before and self._after_put.needs_wake:
            self._after_put.wake(self.end - before)
        return self.end

    def discard(self) -> None:
        """Zero what was received after `end`: the line is lost, and the master sends it again.

        Durability: none. A start zeroes what a power cut brings back.
        """
        if self._received > self.end:
            self._log.locked(self._zero_rest, False)

    def flush(self) -> None:
        """Make everything below `end` durable. Durability: on return."""
        end = self.end
        self._flush.flush_once()
        self._check_disk()
        if self.durable < end:
            raise StoreError(f"the log is not on disk up to offset {end}; restart the store")

    # -- with the put lock --------------------------------------------------------------------------------------------

    def _set_begin(self, offset: int) -> bool:
        self._log.appender.end = self._files.flushed_where = self._begin = self._received = offset
        return True

    def _store(self, data: bytes | bytearray | memoryview, size: int) -> bool:
        """Copy the bytes into the last file and publish what is whole."""
        if size:
            # W3
            file = self._file()
            at = self._received - file.start
            if at + size > file.reserved:
                self._reserve(file, at + size)
            with file.room(at) as room, memoryview(data) as given:
                # W4. Page by page: a copy may store its first bytes last, and a kill comes where a page is missing.
                begin, end = 0, min(size, PAGESIZE - at % PAGESIZE)
                while begin < size:
                    room[begin:end] = given[begin:end]
                    begin, end = end, min(size, end + PAGESIZE)
            self._log.effects.wrote(file.fd, at, size)
            # W5: after the bytes. Before them, an interrupt would leave a gap that nobody fills.
            self._received += size
        # W6, and W7 for what is whole. Also without new bytes: an interrupt may have come before it.
        self._publish()
        return True

    def _reserve(self, file: MappedFile, position: int) -> None:
        try:
            with self._log.slow:
                file.reserve(position)
        except OSError as error:
            raise StoreAccessError(f"{file.path}: no space for the log ({error.strerror}); make room") from error

    def _file(self) -> MappedFile:
        """Return the file of the next byte, a new one if the last is full."""
        last = self._files.last
        if last is not None and self._received < last.end_of_file:
            return last
        if not self._log.ours():
            raise StoreError("another process has taken the store over; stop one of them")
        try:
            with self._log.slow:
                return self._files.append_file(self._received)
        except OSError as error:
            name = f"{self._received:020d}"
            raise StoreAccessError(
                f"the log's file {name} cannot be made ({error.strerror}); make room, or remove what has its name"
            ) from error

    def _publish(self) -> None:
        file = self._files.last
        reason = kernel.FULL
        while file is not None and reason == kernel.FULL and self.end < min(self._received, file.end_of_file):
            at, until = self.end - file.start, self._received - file.start
            with file.view as view:
                count, stop, reason, _ = kernel.walk(
                    view, at, until, file.size, until, file.start, 0, file.size, kernel.CHECK_CRC, self._positions
                )
                if count:
                    last = self._positions[count - 1]
                    (time,) = store_times(view, self._positions[count - 1 : count], 1)
                    self._last_record = file.start + last
                    self._count(file, stop, time)
                if reason == kernel.BLANK and size_at(view, stop) != file.size - stop:
                    raise _odd_blank(file, stop, size_at(view, stop))
            if reason == kernel.BLANK and until == file.size:
                self._count(file, file.size, self.last_time)
            elif reason not in (kernel.FULL, kernel.MORE, kernel.END, kernel.BLANK):
                raise _damaged(file.start + stop, kernel.REASONS[reason])

    def _count(self, file: MappedFile, end: int, time: int) -> None:
        """Publish all bytes of a file below a position; the order is that of CommitLog.count_record."""
        assert file is self._files.last and end >= file.wrote
        # W7
        file.wrote = end
        self._log.appender.last_time, self._log.appender.end = time, file.start + end

    def _zero_rest(self) -> bool:
        """Zero the bytes after the last whole record, from the back to the front.

        Whoever looks meanwhile, or after a kill amid it, sees bytes of the master and then nothing but zeros.
        """
        file = self._files.last
        if file is not None:
            at, size = file.wrote, self._received - file.end
            with file.room(at) as room:
                # W9: in sectors from the back; one large copy would store its first bytes first.
                for begin in range((size - 1) // SECTOR * SECTOR, -1, -SECTOR):
                    count = min(SECTOR, size - begin)
                    room[begin : begin + count] = bytes(count)
                    self._log.effects.wrote(file.fd, at + begin, count)
        # Last: an interrupt before it has the rest zeroed again.
        self._received = self.end
        return True

    # -- the rest -----------------------------------------------------------------------------------------------------

    def _check_disk(self) -> None:
        if self._failure:
            raise StoreError(f"{self._failure.reason}; restart the follower, which reads from the disk")

    def _find_last_record(self) -> int | None:
        """Search the last file for its last record, then the ones before."""
        files = LogTail(self._files).listed()
        for file in reversed(files.files):
            last = None
            for piece in LogWalk(files, begin=file.start, end=min(self.end, file.start + file.size), check_crc=False):
                last = piece.base + piece.positions[piece.count - 1]
            if last is not None:
                return last
        return None


def _odd_blank(file: MappedFile, at: int, size: int) -> ReplicationError:
    """Return the error for a blank record at a position, which does not end the file."""
    end = file.start + at + size
    if size < 8 or end % SECTOR:
        return _damaged(file.start + at, "a blank record that does not end the file")
    return ReplicationError(
        "geometry",
        f"{file.path}: a file of the master's log ends at offset {end}, and none of {file.size} bytes does; follow "
        "into a new directory, with the master's size: --set mappedFileSizeCommitLog=BYTES",
    )


def _damaged(offset: int, reason: str) -> DamagedStreamError:
    text = f"the master's bytes at log offset {offset} are no record that counts ({reason}); {ADVICE}"
    return DamagedStreamError("damaged", text)
