"""The store's lock: POSIX record lock on byte 0 of `lock`, as RocketMQ holds it, so that each excludes the other.

A POSIX lock vanishes when any descriptor of its file is closed in the process that holds it. So the process keeps a
table of the lock files it owns, and a question about one of these is answered from the table, without opening it.
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading

from flintmq.errors import StoreLockedError

_owned: dict[tuple[int, int], int] = {}  # (device, inode) of lock files held by this process -> its process id
_table = threading.Lock()

_FLOCK = "hhqqi" if struct.calcsize("P") == 8 else "hhlli"  # struct flock of Linux; macOS orders it otherwise


def is_live(root: str) -> bool:
    """Whether some process holds the lock of the store at root.

    False when there is no lock file, when it may not be read, or on systems whose answer cannot be understood.
    """
    path = os.path.join(root, "lock")
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    if (found.st_dev, found.st_ino) in _owned:
        return True
    if os.uname().sysname != "Linux":
        return False
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        question = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        answer = fcntl.fcntl(fd, fcntl.F_GETLK, question)
        return bool(struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK)
    except OSError:
        return False
    finally:
        os.close(fd)


class StoreLock:
    """The lock of one store, held until `release`. Take it before anything of the store is read.

    Raises:
        StoreLockedError: another process, or another store object of this one, holds it.

    Thread: any. A child made by fork does not hold it: `held` is False there.
    """

    def __init__(self, root: str) -> None:
        path = os.path.join(root, "lock")
        with _table:
            found = _identity(path)
            if found in _owned and _owned[found] == os.getpid():
                raise StoreLockedError(f"{root}: this process has the store open already; use that one, or close it")
            self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
            try:
                fcntl.lockf(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
            except OSError:
                os.close(self.fd)
                raise StoreLockedError(f"{root}: another process writes this store; stop it first") from None
            self.identity = _identity(path) or (0, 0)
            _owned[self.identity] = self.pid = os.getpid()
        os.pwrite(self.fd, b"lock", 0)

    @property
    def held(self) -> bool:
        """Whether this process is the one that took it."""
        return self.fd >= 0 and self.pid == os.getpid()

    def release(self) -> None:
        """Let others have the store. The file stays, as RocketMQ leaves it."""
        if self.held:
            with _table:
                _owned.pop(self.identity, None)
                os.close(self.fd)
                self.fd = -1


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return found.st_dev, found.st_ino
