"""Writes full commit log files from rows of messages before anybody reads them.

Used by bulk loads and to make stores for tests.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from flintmq.errors import UsageError
from flintmq.format.record import BLANK_SIZE, encode_blank
from flintmq.kernels.write import encode

BUFFER = 1 << 20


@dataclass(frozen=True, slots=True)
class LogRoom:
    """Room for records in a log file: a buffer of its bytes, and the rules for them."""

    out: bytearray | memoryview
    at: int  # position in the buffer at which the next record begins
    file_end: int  # position in the buffer of the end of the file; may be beyond the buffer
    base: int
    max_size: int = 4_259_840  # largest record in bytes
    flags: int = 0

    def fill(self, first: int, last: int, reserve: int, columns: Iterable[Any]) -> tuple[int, int, int]:
        """Run kernels/write/encode over rows first..last-1 of columns, with its result."""
        rules = self.max_size, self.flags
        return encode.append(self.out, self.at, self.file_end, self.base, first, last, reserve, *rules, *columns)


class WritableRows(Protocol):
    def append(self, room: LogRoom, first: int, last: int, reserve: int) -> tuple[int, int, int]:
        """Append rows [first, last), of which the first `reserve` bytes must go to one file.

        Returns:
            As kernels/write/encode.append: the first row that was not written, the position in the buffer after the
            last record, and the reason to stop.
        """


class LogWriter:
    """Appends to a commit log that begins with an empty file.

    Args:
        folders: directories of the log; a file that begins at offset o goes to number (o / file_size) mod their count
            of the sorted directories, as upstream does.
        sync: sync each finished file (but not its name).
    """

    def __init__(
        self, folders: Sequence[str], file_size: int, begin: int, max_size: int, flags: int, *, sync: bool = False
    ) -> None:
        self.folders, self.file_size, self.max_size, self.flags = sorted(folders), file_size, max_size, flags
        self.sync = sync
        self.buffer = bytearray(BUFFER)
        self.base = begin  # log offset of buffer[0]
        self.at = 0
        self.fd = -1
        for folder in self.folders:
            os.makedirs(folder, exist_ok=True)
        self._next_file(begin)

    @property
    def end(self) -> int:
        """Log offset after the last record."""
        return self.base + self.at

    def append(self, rows: WritableRows, first: int, last: int, reserve: int = 0) -> None:
        """Write rows [first, last); the first `reserve` bytes must go to one file."""
        while first < last:
            largest = min(self.max_size, self.file_size - BLANK_SIZE)
            room = LogRoom(self.buffer, self.at, self.file_end - self.base, self.base, largest, self.flags)
            row, self.at, status = rows.append(room, first, last, reserve)
            assert first <= row <= last and 0 <= self.at <= len(self.buffer)
            if status == encode.REFUSED or reserve > self.file_size - BLANK_SIZE:
                raise UsageError(
                    f"message {row} makes a record too large for a log file of {self.file_size} bytes; shorten its body"
                )
            if row > first:
                first, reserve = row, 0
            elif status == encode.ROOM and self.at == 0:
                self.buffer = bytearray(2 * len(self.buffer))
                continue
            if status == encode.ROLL:
                self._flush()
                self._next_file(self.file_end)
            elif status == encode.ROOM:
                self._flush()

    def spare(self) -> None:
        """Make the file after the last one, all zeros, as a running store has one."""
        os.close(self._create(self.file_end))

    def close(self, *, full: bool = False) -> None:
        """Write the rest; `full` ends the last file with a blank record.

        The log can then continue in the next file.
        """
        self._flush()
        if full:
            os.pwrite(self.fd, encode_blank(self.file_end - self.base), self.base - (self.file_end - self.file_size))
        self._close_file()

    def _flush(self) -> None:
        assert 0 <= self.at <= len(self.buffer) and self.base + self.at <= self.file_end  # none goes over a file's end
        view = memoryview(self.buffer)[: self.at]
        position = self.base - (self.file_end - self.file_size)
        while view:
            count = os.pwrite(self.fd, view, position)
            view, position = view[count:], position + count
        self.base += self.at
        self.at = 0

    def _next_file(self, offset: int) -> None:
        if self.fd >= 0:
            self._close_file()
        self.fd = self._create(offset)
        self.base, self.file_end = offset, offset + self.file_size

    def _close_file(self) -> None:
        if self.sync:
            os.fsync(self.fd)
        os.close(self.fd)
        self.fd = -1

    def _create(self, offset: int) -> int:
        folder = self.folders[offset // self.file_size % len(self.folders)]
        fd = os.open(os.path.join(folder, f"{offset:020d}"), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        os.ftruncate(fd, self.file_size)
        return fd
