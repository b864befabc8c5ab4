"""The store's lock: POSIX record lock on byte 0 of `lock`, as RocketMQ holds it.

A POSIX lock vanishes when any descriptor of its file is closed in the process that holds it. So the process keeps a
table of the lock files it owns, and a question about one of these is answered from the table, without opening it.
"""

from __future__ import annotations

import fcntl
import os
import struct

_owned: set[tuple[int, int]] = set()  # (device, inode) of lock files held by this process

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
