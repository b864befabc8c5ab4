"""Reads one record by its log offset and checks it in full, wherever the offset comes from."""

from __future__ import annotations

from array import array
from typing import Self

from flintmq.format.record_view import size_at
from flintmq.kernels.read import walk as kernel
from flintmq.message import StoredMessage, stored_message
from flintmq.store.commitlog.files import LogFile, LogFiles

FIRST_READ = 4096
FILES_LOOKED_AT = 8


def record_at(log: LogFiles, physical_offset: int, end: int | None = None) -> StoredMessage | None:
    """Read the valid record at this log offset, or return None.

    Magic, size, lengths, the record's own offset and its checksums are compared. The offset may come from anywhere: a
    queue unit, an index item, a message id.

    `end`: log offset after which no record counts; None for no bound. Thread: any.
    """
    with RecordReader(log) as records:
        return records.at(physical_offset, end)


def last_file_begun_by(log: LogFiles, time: int) -> LogFile | None:
    """Return the last file that was surely begun by a store time in ms, None without one.

    Where the clock was set back between the last of these files, the times after the step say nothing of those before.
    """
    found, later, sure = None, time, 0
    for file in reversed(log.files):
        first = record_at(log, file.start)
        if first is None or first.store_timestamp <= 0:
            continue
        if first.store_timestamp > later:
            found, sure = None, 0
        if first.store_timestamp <= time:
            found, sure, later = found or file, sure + 1, first.store_timestamp
        if sure > FILES_LOOKED_AT:
            break
    return found


class RecordReader:
    """Reads records as `record_at` does, in a `with` block; the last log file stays open.

    Thread: one.
    """

    def __init__(self, log: LogFiles) -> None:
        self.log = log
        self._file: LogFile | None = None
        self._fd, self._buffer = -1, bytearray()
        self._positions = array("q", [0])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file = None
        if self._fd >= 0:
            self.log.effects.close(self._fd)
            self._fd = -1

    def at(self, physical_offset: int, end: int | None = None) -> StoredMessage | None:
        data = self.bytes_at(physical_offset, end)
        return None if data is None else stored_message(data, 0)

    def bytes_at(self, physical_offset: int, end: int | None = None) -> bytes | None:
        log, file = self.log, self._file
        if file is None or not file.start <= physical_offset < file.start + file.size:
            file = log.find(physical_offset) if physical_offset >= 0 else None
        if file is None:
            return None
        at = physical_offset - file.start
        try:
            fd = self.descriptor(file)
        except FileNotFoundError:
            return None
        size = log.effects.size_of(fd)
        if size <= at:
            return None  # the file is shorter than it was
        data = log.effects.pread(fd, FIRST_READ, at)
        count, reason = self._check(data, size - at, physical_offset)
        if reason == kernel.MORE and not count and len(data) == FIRST_READ:
            # The kernel has bounded the size by the file and by the largest record.
            data = log.effects.pread(fd, size_at(data), at)
            count, _ = self._check(data, size - at, physical_offset)
        return data if count and (end is None or physical_offset + size_at(data) <= end) else None

    def file_bytes(self, file: LogFile, position: int, count: int) -> memoryview:
        """Read bytes of a file, fewer at its end, into memory that the next call takes again.

        Fresh memory for each would take longer than the reading. Raises FileNotFoundError, StoreAccessError.
        """
        if len(self._buffer) < count:
            self._buffer = bytearray(count)
        into = memoryview(self._buffer)[:count]
        return into[: self.log.effects.pread_into(self.descriptor(file), into, position)]

    def descriptor(self, file: LogFile) -> int:
        """Return the file, open. Raises FileNotFoundError, StoreAccessError."""
        if file is not self._file:
            self.__exit__()
            self._fd = self.log.effects.open_read(file.path)
            self._file = file
        return self._fd

    def _check(self, data: bytes, file_end: int, physical_offset: int) -> tuple[int, int]:
        return check_record(data, file_end, physical_offset, self.log.max_record, self._positions)


def check_record(
    data: bytes | memoryview, file_end: int, offset: int, max_record: int, positions: memoryview | array[int]
) -> tuple[int, int]:
    """Return (1 if data[0] begins a valid record, else 0; why the kernel stopped).

    `file_end`: bytes from data[0] to the end of its file. `positions`: room for one number.
    """
    checked = kernel.CHECK_CRC, positions
    count, _, reason, _ = kernel.walk(data, 0, len(data), file_end, 1, offset, 0, max_record, *checked)
    return count, reason
