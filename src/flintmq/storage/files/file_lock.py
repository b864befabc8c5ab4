"""Keeps others, of this process too, from a file that is replaced as a whole."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

from flintmq.errors import StoreAccessError, UsageError


class FileLock:
    """The right to write a file, until `release`.

    A second writer would overwrite what the first one keeps. It is a lock (flock) on a file beside it, because the file
    itself is replaced each time.

    Raises (when it is made):
        UsageError: another `owner` has it, or its directory is not there.
        StoreAccessError: the directory cannot be written.
    """

    def __init__(self, file: str, owner: str) -> None:
        self._path = f"{file}.lock"
        if not os.path.isdir(os.path.dirname(file)):
            raise UsageError(f"{file}: its directory is not there; make it first")
        try:
            self._fd: int | None = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        except OSError as error:
            raise StoreAccessError(f"{self._path}: {error.strerror}; name a file that can be written") from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_taken = os.fstat(self._fd).st_nlink == 0  # its owner has just removed it, and ends
        except BlockingIOError:
            is_taken = True
        if is_taken:
            os.close(self._fd)
            raise UsageError(f"{file}: another {owner} keeps its offsets there; name another file")

    @property
    def held(self) -> bool:
        return self._fd is not None

    def release(self) -> None:
        """Let others have the file. May be called again."""
        fd, self._fd = self._fd, None
        if fd is not None:
            with suppress(OSError):
                os.unlink(self._path)
            os.close(fd)
