"""Reads the newest records of a running store's own log directly from its maps.

The dispatcher uses it to follow the log: nothing is opened or copied, which would cost more than making the units of a
thousand records, and the arrays are reused. Odd bytes are left to `store/commitlog/walk.py`, which judges them.
"""

from __future__ import annotations

from collections.abc import Iterator

from flintmq.kernels.read import walk as kernel
from flintmq.storage.files.libc_memory import zeros
from flintmq.storage.memory.mapped_file_queue import MappedFileQueue
from flintmq.store.commitlog.files import LogFile, LogFiles
from flintmq.store.commitlog.walk import MAX_ROWS, Piece

PIECE_BYTES = 8 << 20


class LogTail:
    """Reads the files of a log that this process writes. Thread: one walk at a time."""

    def __init__(self, files: MappedFileQueue) -> None:
        self.files = files
        self.position = 0  # log offset after the last walk
        self._positions = zeros("q", MAX_ROWS)

    def pieces(self, begin: int, end: int) -> Iterator[Piece]:
        """Yield the records from log offset `begin` up to `end`, below which everything is written.

        `begin` must be the offset of a record. The walk ends early at a position without a record; checksums are not
        compared. A piece is valid until the next one is taken.
        """
        self.position = begin
        while self.position < end:
            file = self.files.find(self.position)
            if file is None or not file.hold():
                return
            view = file.view
            try:
                at, until = self.position - file.start, min(end - file.start, file.size)
                count, stop, reason, _ = kernel.walk(
                    view,
                    at,
                    until,
                    file.size,
                    min(until, at + PIECE_BYTES),
                    file.start,
                    0,
                    file.size,
                    0,
                    self._positions,
                )
                if count:
                    own = LogFile(file.path, file.start, file.size)
                    yield Piece(view, file.start, self._positions, count, stop, own)
                if count or reason == kernel.BLANK:
                    self.position = file.end_of_file if reason == kernel.BLANK else file.start + stop
            finally:
                view.release()  # who kept a piece of it has it no more, so the file can be unmapped
                file.release()
            if not count and reason != kernel.BLANK:
                return

    def listed(self) -> LogFiles:
        """Return the same files for a walk that judges."""
        files = tuple(LogFile(f.path, f.start, f.size) for f in self.files.files)
        return LogFiles(files, self.files.file_size, self.files.file_size, (), self.files.effects)
