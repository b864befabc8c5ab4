"""The files of a log that is being written, in order. Source: upstream MappedFileQueue, MultiPathMappedFileQueue."""

from __future__ import annotations

import os
from bisect import bisect_right

from flintmq.storage.effects import REAL, Effects
from flintmq.storage.mapped_file import MappedFile


class MappedFileQueue:
    """Contiguous files of one size.

    Args:
        directories: where new files go; a file that begins at offset o to number (o / file_size) mod their count of
            the sorted ones, as upstream does.
        file_size: bytes of each.
        effects: the disk.

    Attributes:
        files: open files, oldest first. Replaced, never changed, so readers may use the list they have.
        flushed_where: log offset below which everything is on disk.

    Thread: `find` any; files are added by the one that holds the put lock.
    """

    def __init__(self, directories: list[str], file_size: int, effects: Effects = REAL) -> None:
        self.directories, self.file_size, self.effects = sorted(directories), file_size, effects
        self.files: tuple[MappedFile, ...] = ()
        self.flushed_where = 0
        self._making = ""  # the file that is being made; still set after an interrupt

    def load(self, paths: list[tuple[str, int]], end: int) -> None:
        """Open existing files; everything below log offset `end` is written and on disk, everything behind is zeros.

        Args:
            paths: (path, start) of each, contiguous.
            end: log offset.

        Raises:
            OSError: one cannot be opened.
        """
        self.files = tuple(
            MappedFile.open(path, start, self.file_size, min(max(end - start, 0), self.file_size), self.effects)
            for path, start in paths
        )
        self.flushed_where = end

    @property
    def min_offset(self) -> int:
        """Log offset of the first byte that is there."""
        return self.files[0].start if self.files else 0

    @property
    def last(self) -> MappedFile | None:
        """The newest file."""
        return self.files[-1] if self.files else None

    def append_file(self, start: int) -> MappedFile:
        """Make the next file, which begins at this log offset.

        Raises:
            OSError: no space, no permission.

        Durability: the file exists after power loss, before a record is put into it.
        """
        directory = self.directories[start // self.file_size % len(self.directories)]
        self.effects.mkdirs(directory)
        path = os.path.join(directory, f"{start:020d}")
        if self._making == path and self.effects.size(path) is not None:
            self.effects.unlink(path)
        self._making = path
        file = MappedFile.create(path, start, self.file_size, self.effects)
        self.files = (*self.files, file)
        self._making = ""
        return file

    def find(self, offset: int) -> MappedFile | None:
        """The file that holds a log offset, or None."""
        files = self.files
        number = bisect_right(files, offset, key=lambda f: f.start) - 1
        return files[number] if number >= 0 and offset < files[number].start + self.file_size else None

    def drop_first(self) -> MappedFile:
        """Take the oldest file out, so that nobody finds it any more. It stays mapped while somebody holds it.

        Thread: the one that holds the put lock.
        """
        first, *rest = self.files
        self.files = tuple(rest)
        first.close()
        return first

    def read(self, offset: int, size: int) -> bytes | None:
        """Bytes of the log, copied; None where they are not all written or not there any more."""
        file = self.find(offset)
        if file is None or not file.hold():
            return None
        try:
            at = offset - file.start
            return bytes(file.buffer[at : at + size]) if at + size <= file.wrote else None
        finally:
            file.release()

    def flush(self, target: int) -> None:
        """Make everything below log offset `target` durable, oldest file first.

        Raises:
            OSError: the disk refused; flushed_where tells how far it is certain.

        Thread: one at a time.
        """
        for file in self.files:
            if file.start + self.file_size <= self.flushed_where:
                continue
            if file.start >= target:
                break
            file.flush(min(target - file.start, self.file_size))
            self.flushed_where = min(target, file.start + self.file_size)

    def close(self) -> None:
        """Close every file."""
        files, self.files = self.files, ()
        for file in files:
            file.close()
