"""One file of a log that is being written: mapped, allocated in windows ahead of the writer, with three positions.

`wrote` is behind the last byte stored into the map, `flushed` behind the last byte that is on disk. No byte outside an
allocated window is ever stored to, so a full disk is an error of `reserve` and not the death of the process. Source:
upstream DefaultMappedFile; reliability B4 to B8.
"""

from __future__ import annotations

import os
import threading

from flintmq.storage.effects import REAL, Effects

WINDOW = 64 << 20  # bytes of log that are allocated at once


class MappedFile:
    """A file of full size, open and mapped for writing.

    Attributes:
        path, start, size: where it is, the log offset of its first byte, its bytes.
        buffer: its bytes, writable.
        wrote, flushed: positions in the file; wrote is moved by the commit log only, flushed by `flush` only.

    Thread: `hold` and `release` any; the rest as said there.
    """

    def __init__(self, path: str, start: int, size: int, fd: int, effects: Effects = REAL) -> None:
        """Use `create` or `open`."""
        self.path, self.start, self.size, self.effects, self.fd = path, start, size, effects, fd
        self.map = effects.map_write(fd, size)
        self.buffer = memoryview(self.map)
        self.wrote = self.flushed = 0
        self.reserved = 0
        self._holders = 1
        self._lock = threading.Lock()

    @staticmethod
    def create(path: str, start: int, size: int, effects: Effects = REAL) -> MappedFile:
        """A new file of zeros; its size and its name are on disk, and its first window is allocated, before it returns.

        Raises:
            FileExistsError: there is one by this name.
            OSError: no space, no permission; no file is left behind.

        Durability: the file exists after power loss.
        """
        fd = effects.create(path, size)
        try:
            effects.allocate(fd, 0, min(WINDOW, size))
            effects.sync(fd)
            effects.sync_dir(os.path.dirname(path))
            file = MappedFile(path, start, size, fd, effects)
        except OSError:
            effects.close(fd)
            effects.unlink(path)
            raise
        file.reserved = min(WINDOW, size)
        return file

    @staticmethod
    def open(path: str, start: int, size: int, wrote: int, effects: Effects = REAL) -> MappedFile:
        """An existing file, of which the first `wrote` bytes are known to be on disk.

        Raises:
            OSError: it cannot be opened.
        """
        file = MappedFile(path, start, size, effects.open_write(path), effects)
        file.wrote = file.flushed = wrote
        file.reserved = wrote
        return file

    @property
    def end(self) -> int:
        """Log offset behind the last byte written."""
        return self.start + self.wrote

    def reserve(self, position: int) -> None:
        """Make sure that every byte below `position` may be stored to.

        Raises:
            OSError: no space.

        Thread: the one that holds the put lock.
        """
        while self.reserved < position:
            step = min(WINDOW, self.size - self.reserved)
            self.effects.allocate(self.fd, self.reserved, step)
            self.reserved += step

    def flush(self, target: int) -> None:
        """Make everything below the file position `target` durable. What was stored later may be, too.

        Raises:
            OSError: the disk refused. The caller must not try again: what the page cache holds may be lost (B1, B3).

        Thread: one at a time. Durability: on return.
        """
        if target > self.flushed:
            self.effects.sync(self.fd)
            self.flushed = target

    @property
    def is_held(self) -> bool:
        """Whether its owner or a reader still has it mapped."""
        return self._holders > 0

    def hold(self) -> bool:
        """Keep the file mapped until `release`; False if it is being closed."""
        with self._lock:
            if self._holders <= 0:
                return False
            self._holders += 1
            return True

    def release(self) -> None:
        """Give up a hold; the last one unmaps."""
        with self._lock:
            self._holders -= 1
            last = self._holders == 0
        if last:
            self.buffer.release()
            self.map.close()
            self.effects.close(self.fd)

    def close(self) -> None:
        """Give up the owner's hold. Readers that hold the file keep it mapped."""
        self.release()
