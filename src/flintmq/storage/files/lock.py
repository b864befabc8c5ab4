"""The store's lock: a write lock on byte 0 of `lock`, which RocketMQ takes too.

On Linux the lock belongs to the open file (an open file description lock, F_OFD_SETLK). It and Java's POSIX lock
exclude each other, and unlike a POSIX lock it is kept when other code in this process closes a descriptor of the same
file: a backup, `shutil.copytree`. On other systems it is a POSIX lock. Any such close drops that one, so the process
keeps a table of the lock files that it holds, and answers a question about one of these without opening it.

If somebody removes `lock`, RocketMQ can start, because it makes a new file. So the holder also locks the store's
directory (flock), which keeps other FlintMQ processes out, and checks from time to time whether `lock` is still its
file.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from contextlib import suppress

from flintmq.errors import StoreAccessError, StoreLockedError
from flintmq.storage.files.system_error import of_system
from flintmq.storage.threads.mutex import ReentrantLock

_held: set[StoreLock] = set()  # by this process
_table = ReentrantLock()  # a signal handler may open or close another store amid this

_FLOCK = "hhqqi" if struct.calcsize("P") == 8 else "hhlli"  # struct flock of Linux; macOS orders it otherwise
_OFD = getattr(fcntl, "F_OFD_SETLK", None) if os.uname().sysname == "Linux" and struct.calcsize("P") == 8 else None
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def holds(path: str) -> bool:
    """Return whether this process holds the lock file at this path. The file is not opened."""
    found = _identity(path)
    return found is not None and any(lock.held and lock.identity == found for lock in list(_held))


def is_live(root: str) -> bool:
    """Return whether some process holds the lock of the store at root.

    False if there is no lock file, if it may not be read, or if the system's answer is not understood.
    """
    path = os.path.join(root, "lock")
    if _identity(path) is None:
        return False
    if holds(path):
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

    Thread: any. A child made by fork does not hold it: `held` is False there. Raises OSError: the disk takes no byte;
    nothing is held then.
    """

    def __init__(self, root: str) -> None:
        self.path = os.path.join(root, "lock")
        self.fd = self._folder = -1
        self.pid = os.getpid()
        with _table:
            if holds(self.path):
                raise StoreLockedError(
                    f"{root}: this process has opened the store already; use that object, or close it (one that was "
                    "dropped without `close` keeps the store until the process ends)"
                )
            try:
                self._take(root)
                # Within the same block: a lock that cannot be signed is released again.
                self._sign()
            except BaseException:
                self._close()
                raise
            _held.add(self)

    def _take(self, root: str) -> None:
        other = StoreLockedError(f"{root}: another process writes this store; stop it first")
        try:
            self._folder = os.open(root, _FOLDER)
        except OSError as error:
            raise StoreAccessError(f"{root}: {error.strerror}; check the directory and its permissions") from error
        try:
            # The directory, too: `lock` itself may be removed, and a second process lock a new one of that name.
            fcntl.flock(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise other from None
        except OSError:  # not supported by this file system: `lock` alone must do
            pass
        try:
            self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            what = "is a symbolic link, which a store does not hold" if error.errno == errno.ELOOP else error.strerror
            raise StoreAccessError(f"{self.path}: {what}; check the file's kind and permissions") from error
        try:
            _lock_byte(self.fd)
        except (BlockingIOError, PermissionError):  # POSIX lets a system choose which
            raise other from None
        except OSError as error:
            raise StoreAccessError(
                f"{self.path}: cannot be locked ({error.strerror}), so two processes could write this store; "
                "keep it on a file system with locks"
            ) from error
        found = os.fstat(self.fd)
        self.identity = found.st_dev, found.st_ino

    def _sign(self) -> None:
        try:
            os.pwrite(self.fd, b"lock", 0)
        except OSError as error:  # of a full disk: by descriptor, so without its path
            error.filename = self.path
            raise

    @property
    def held(self) -> bool:
        """True in the process that took the lock, as long as it is held."""
        return self.fd >= 0 and self.pid == os.getpid()

    def is_in_place(self) -> bool:
        """Return whether `lock` is still the file that was locked, not removed or replaced.

        True if the system does not answer.
        """
        try:
            found = os.stat(self.path, follow_symlinks=False)
        except OSError as error:
            if not of_system(error):
                raise
            return error.errno not in (errno.ENOENT, errno.ENOTDIR)
        return (found.st_dev, found.st_ino) == self.identity

    def release(self) -> None:
        """Release the store to others. The file stays, as RocketMQ leaves it."""
        if self.held:
            with _table:
                # Out of the table first: once unlocked, the file may be another process's, and `holds` must not name
                # it.
                _held.discard(self)
                # A child between fork and exec has the open file too, so closing alone would not unlock.
                if _OFD is not None:
                    with suppress(OSError):  # where the file system knows no such lock
                        _lock_byte(self.fd, fcntl.F_UNLCK)
                        fcntl.flock(self._folder, fcntl.LOCK_UN)
                self._close()

    def _close(self) -> None:
        for fd in (self.fd, self._folder):
            if fd >= 0:
                os.close(fd)
        self.fd = self._folder = -1


def _lock_byte(fd: int, kind: int = fcntl.F_WRLCK) -> None:
    """Lock or unlock byte 0 of this open file; raise OSError if another process holds it."""
    if _OFD is not None:
        try:
            fcntl.fcntl(fd, _OFD, struct.pack(_FLOCK + "4x", kind, os.SEEK_SET, 0, 1, 0))
            return
        except OSError as error:
            if error.errno != errno.EINVAL:  # Linux before 3.15
                raise
    fcntl.lockf(fd, fcntl.LOCK_UN if kind == fcntl.F_UNLCK else fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)


def _forget() -> None:
    """Forget all locks in a forked child.

    The child closes the open files it inherited, or their locks would outlive the holder.
    """
    global _table
    _table = ReentrantLock()  # another thread may have had it at the fork
    for lock in _held:
        lock._close()
    _held.clear()


os.register_at_fork(after_in_child=_forget)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return found.st_dev, found.st_ino
