"""The log of the open store, as its listener sends it to followers."""

from __future__ import annotations

from collections.abc import Callable

from flintmq.storage.mapped_file_queue import MappedFileQueue
from flintmq.store.listening import LogPart


class OwnLog:
    """The log that this process writes.

    Thread: any.

    Args:
        readable: returns the log offset below which the files have all bytes, and no crash of this process takes one.
        durable_only: nothing is sent before it is on disk.
    """

    def __init__(self, files: MappedFileQueue, readable: Callable[[], int], *, durable_only: bool) -> None:
        self._files, self._readable, self._durable_only = files, readable, durable_only
        self.file_size = files.file_size

    def begin(self) -> int:
        """Return the log offset of the first file; of the next one if there is none."""
        files, end = self._files.files, self._readable()
        return files[0].start if files else end - end % self.file_size

    def end(self) -> int:
        """Return the log offset below which the log may be sent."""
        end = self._readable()
        return min(end, self._files.flushed_where) if self._durable_only else end

    def open(self, offset: int) -> LogPart | None:
        """Return the file with this log offset, held until its release.

        None: retention has removed it.
        """
        file = self._files.find(offset)
        if file is None or not file.hold():
            return None
        return LogPart(file.fd, file.start, file.size, file.release)
