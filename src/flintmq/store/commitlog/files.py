"""The files of a commit log: one byte sequence, split into files named by their start.

Several directories may hold the files; their union, sorted by name, is the log. Upstream: MappedFileQueue,
MultiPathMappedFileQueue.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from flintmq.config.keys import StoreConfig
from flintmq.storage.files.filesystem import REAL, Effects

PIECE = 1 << 20  # bytes read at once

NAME_DIGITS = 20
LARGEST_OFFSET = 2**63 - 1
MAX_RECORD = 64 * 1024 * 1024  # a larger record is refused unless a key allows it: it bounds the memory of a reader


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file: its path, the log offset of its first byte, and its size."""

    path: str
    start: int
    size: int


def file_start(name: str) -> int | None:
    """Return the offset in a file's name, or None for a name that no log file has."""
    if len(name) != NAME_DIGITS or not name.isascii() or not name.isdigit():
        return None
    start = int(name)
    return start if start <= LARGEST_OFFSET else None


def largest_record(config: StoreConfig) -> int:
    """Return the size of the largest record that readers accept.

    maxMessageSize can only raise it. RocketMQ asks for the key when it stores, so records of an earlier, higher value
    are sound.
    """
    return max(MAX_RECORD, config.max_record_size)


@dataclass(frozen=True)
class LogFiles:
    """The files of a log at the time of listing. Make a new object to see files come and go."""

    files: tuple[LogFile, ...]
    file_size: int  # bytes of one file: as given, else the most frequent size
    max_record: int  # size of the largest record that readers accept
    doubled: tuple[str, ...] = ()  # paths left out because another directory has a file of the same name
    effects: Effects = REAL
    directories: tuple[str, ...] = ()
    odd: tuple[LogFile, ...] = ()  # links and odd files with the name of a log file; sorted by start, sizes are 0

    @staticmethod
    def discover(
        directories: Sequence[str],
        file_size: int | None = None,
        max_record: int = MAX_RECORD,
        effects: Effects = REAL,
    ) -> LogFiles:
        """List the log files of these directories. A file that ends beyond 64 bits is none."""
        found: dict[int, LogFile] = {}
        doubled, odd = [], []
        for directory in directories:
            for name in effects.listdir(directory):
                start = file_start(name)
                path = os.path.join(directory, name)
                size = effects.size(path) if start is not None else None
                if start is not None and size is None and name in effects.listdir(directory):  # not deleted just now
                    odd.append(LogFile(path, start, 0))
                if start is None or size is None or start + size > LARGEST_OFFSET:
                    continue
                if start in found:
                    doubled.append(path)
                else:
                    found[start] = LogFile(path, start, size)
        files = tuple(found[start] for start in sorted(found))
        if file_size is None:
            sizes = Counter(f.size for f in files if f.size)
            file_size = max(sizes, key=lambda size: (sizes[size], size), default=0)  # of two, one may be cut short
        strange = tuple(sorted(odd, key=lambda file: file.start))
        return LogFiles(files, file_size, max_record, tuple(doubled), effects, tuple(directories), strange)

    @property
    def min_offset(self) -> int:
        """Log offset of the first byte; 0 without files."""
        return self.files[0].start if self.files else 0

    @property
    def limit(self) -> int:
        """Log offset after the last byte of the last file; 0 without files."""
        return self.files[-1].start + self.files[-1].size if self.files else 0

    def gaps(self) -> list[tuple[int, int]]:
        """Return log offsets [begin, end) of missing or short files that others follow."""
        found, reached = [], self.min_offset
        for file in self.files:
            if file.size and file.start > reached:
                found.append((reached, file.start))
            reached = max(reached, file.start + file.size)
        return found

    def path_at(self, offset: int) -> tuple[str, int]:
        """Return path and position of a log offset in its file, which need not be there."""
        number = max(0, bisect_right(self.files, offset, key=lambda f: f.start) - 1)
        file = self.files[number]
        number = (offset - file.start) // self.file_size if self.file_size else 0
        if number < 1:
            return file.path, offset - file.start
        start = file.start + number * self.file_size
        return self.path_of(start), offset - start

    def index_of(self, offset: int) -> int | None:
        number = bisect_right(self.files, offset, key=lambda f: f.start) - 1
        if number < 0 or offset >= self.files[number].start + self.files[number].size:
            return None
        return number

    def path_of(self, start: int) -> str:
        """Return the path for the file that begins at this offset (MultiPathMappedFileQueue)."""
        folders = sorted(self.directories) or [os.path.dirname(file.path) for file in self.files[-1:]] or [""]
        number = start // self.file_size if self.file_size else 0
        return os.path.join(folders[number % len(folders)], f"{start:0{NAME_DIGITS}d}")

    def came_since(self, offset: int) -> bool:
        """Return whether there is a file now that begins at this log offset or later.

        Another process may write the log.
        """
        return any(
            (start := file_start(name)) is not None
            and start >= offset
            and self.effects.size(os.path.join(directory, name))
            for directory in self.directories
            for name in self.effects.listdir(directory)
        )

    def find(self, offset: int) -> LogFile | None:
        number = self.index_of(offset)
        return None if number is None else self.files[number]


def has_data(file: LogFile, effects: Effects, position: int = 0) -> bool:
    """Return whether a log file holds any byte other than zero from a position on."""
    with effects.reading(file.path) as fd:
        return any(any(piece) for _, piece in effects.data_pieces(fd, position, file.size, PIECE))
