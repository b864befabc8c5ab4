"""Creates a file so that its name appears with its whole size.

A file that gets its name first and its size then may be met empty: by another process, or by the next start after a
kill in between, and is then taken for a damaged log by whoever reads along. Where the file system has unnamed files
(O_TMPFILE), the name comes last. Elsewhere it comes first, as in RocketMQ, and recovery takes an empty last file for
none.
"""

from __future__ import annotations

import os
from contextlib import suppress

_FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
_MODE = 0o666  # as the umask allows


def create(path: str, size: int, folder: int | None) -> int:
    """Create a sparse file of zeros, open for reading and writing.

    Args:
        path: of the file; a name in `folder`, if that is given.
        size: bytes.
        folder: descriptor of its directory.

    Raises:
        FileExistsError: there is one by this name.
        OSError: it cannot be made; no file remains.
    """
    if size and hasattr(os, "O_TMPFILE"):
        with suppress(OSError):  # whatever the reason is, below it shows again, of the call that people know
            return _named_last(path, size, folder)
    fd = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, _MODE, dir_fd=folder)
    try:
        os.ftruncate(fd, size)
    except OSError:
        os.close(fd)
        os.unlink(path, dir_fd=folder)
        raise
    return fd


def _named_last(path: str, size: int, folder: int | None) -> int:
    """Create the file without a name, and name it when it is whole.

    Raises:
        OSError: it cannot be made so; it has no name.
    """
    fd = os.open(os.path.dirname(path) or ".", os.O_RDWR | os.O_CLOEXEC | os.O_TMPFILE, _MODE, dir_fd=folder)
    try:
        if os.fstat(fd).st_mode & _MODE == _MODE:  # Linux before 6.0 may forget the umask here
            raise PermissionError(path)
        os.ftruncate(fd, size)
        # Some directory must be given, else Python calls link(2), which does not follow /proc's link to the file.
        os.link(f"/proc/self/fd/{fd}", path, src_dir_fd=fd, dst_dir_fd=folder, follow_symlinks=True)
    except OSError:
        os.close(fd)
        raise
    return _by_name(fd, path, folder)


def _by_name(fd: int, path: str, folder: int | None) -> int:
    """Return the file opened by its name: lsof would call that of the first descriptor deleted.

    Where that fails, or another program gave the name to another file, it is the first descriptor.
    """
    try:
        named = os.open(path, _FLAGS, dir_fd=folder)
    except OSError:
        return fd
    fd, spare = (named, fd) if os.path.sameopenfile(fd, named) else (fd, named)
    with suppress(OSError):  # nothing was written by it
        os.close(spare)
    return fd
