"""Locks for dispatchers that write queues and index beside the engine that writes the log.

    ROOT/.flintmq-dispatch/lock        held (flock) by the dispatcher that writes queues and index below ROOT; names it
    ROOT/.flintmq-dispatch/external    held by an engine that was opened with dispatch="external", as long as it runs
    ROOT/.flintmq-dispatch/work/...    a round whose queues and index may not be on disk, also of a killed dispatcher

A dispatcher first takes its lock, then checks for an engine that dispatches itself; such an engine first takes the
store's lock, then checks for a dispatcher. So at least one of the two sees the other. RocketMQ knows neither file: a
dispatcher does not start while the store's lock is held and `external` is not.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from flintmq.errors import StoreLockedError, UsageError
from flintmq.storage.files.lock import is_live

FOLDER = ".flintmq-dispatch"
LOCK, EXTERNAL = "lock", "external"
_FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
TRIES, WAIT_S = 5, 0.05
SECOND_LOOK_S = 0.5  # an engine that starts takes the store's lock a moment before `external`


def _path(root: str, name: str) -> str:
    return os.path.join(root, FOLDER, name)


def _taken(fd: int, how: int) -> bool:
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def holder(root: str) -> str | None:
    """Return the process that dispatches into this directory, from the lock's file, or None.

    Raises OSError: the file may not be opened.
    """
    try:
        fd = os.open(_path(root, LOCK), _FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        if _taken(fd, fcntl.LOCK_SH):
            return None
        return os.pread(fd, 200, 0).decode("utf-8", "replace").strip() or "another process"
    finally:
        os.close(fd)


def was_dispatched(root: str) -> bool:
    """Return whether a dispatcher writes queues and index below this directory, or ever did."""
    return os.path.exists(_path(root, LOCK))


def work_folder(root: str) -> str:
    """Return the directory of the rounds' directories."""
    return _path(root, "work")


class DispatchLock:
    """The right to write queues and index below a directory, held until `release`.

    Raises StoreLockedError: another process has it; the text names it.
    """

    def __init__(self, root: str) -> None:
        os.makedirs(os.path.join(root, FOLDER), exist_ok=True)
        self.fd = os.open(_path(root, LOCK), _FLAGS | os.O_CREAT, 0o644)
        for _ in range(TRIES):  # `holder` may be looking
            if _taken(self.fd, fcntl.LOCK_EX):
                break
            time.sleep(WAIT_S)
        else:
            named = os.pread(self.fd, 200, 0).decode("utf-8", "replace").strip() or "another process"
            os.close(self.fd)
            raise StoreLockedError(f"{root}: {named} dispatches into it; stop that one, or give another directory")
        os.ftruncate(self.fd, 0)
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        os.pwrite(self.fd, f"process {os.getpid()} on {socket.gethostname()}, since {since},\n".encode(), 0)

    def release(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class ExternalClaim:
    """An engine's promise to leave queues and index of its store to others, until `release`.

    `root`: the store, whose lock the engine holds. Raises OSError: the file cannot be made.
    """

    def __init__(self, root: str) -> None:
        os.makedirs(os.path.join(root, FOLDER), exist_ok=True)
        self.fd = os.open(_path(root, EXTERNAL), _FLAGS | os.O_CREAT, 0o644)
        fcntl.flock(self.fd, fcntl.LOCK_SH)  # waits at most for a dispatcher that is checking

    def release(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def dispatches_itself(root: str) -> bool:
    """Return whether a process writes the store at root, queues and index included.

    That is a broker, or an engine that was not opened with dispatch="external".

    Raises OSError: a file may not be opened.
    """
    if not is_live(root) or _is_claimed(root):
        return False
    time.sleep(SECOND_LOOK_S)
    return is_live(root) and not _is_claimed(root)


@contextmanager
def at_rest(root: str) -> Iterator[bool]:
    """Yield whether no process writes the store; call it with the dispatcher's lock.

    That one keeps engines out that dispatch themselves, and one that does not waits for the end of the block.

    Raises OSError: a file may not be opened.
    """
    fd = os.open(_path(root, EXTERNAL), _FLAGS | os.O_CREAT, 0o644)
    try:
        yield _taken(fd, fcntl.LOCK_EX) and not is_live(root)
    finally:
        os.close(fd)


def _is_claimed(root: str) -> bool:
    try:
        fd = os.open(_path(root, EXTERNAL), _FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        return not _taken(fd, fcntl.LOCK_EX)
    finally:
        os.close(fd)


@contextmanager
def exclusive(path: str) -> Iterator[None]:
    """Wait until no other process works under this lock, then hold it for the block.

    `path`: a file made by the lock's owner, who removes it when nobody may work under it any more.

    Raises UsageError: the file is gone, or went during the wait: the work is not wanted any more.
    """
    gone = UsageError(f"{path}: the job that asked for this work is over; nothing to do")
    try:
        fd = os.open(path, _FLAGS)
    except FileNotFoundError:
        raise gone from None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        if os.fstat(fd).st_nlink == 0:
            raise gone
        yield
    finally:
        os.close(fd)


def retire(path: str, seconds: float) -> bool:
    """Remove a lock file of `exclusive` once it is free; return False if it never gets free.

    Waits for `seconds` at most.
    """
    end = time.monotonic() + seconds
    try:
        fd = os.open(path, _FLAGS)
    except FileNotFoundError:
        return True
    try:
        while not _taken(fd, fcntl.LOCK_EX):
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        os.unlink(path)
        return True
    finally:
        os.close(fd)
