"""Creates a file so that its name appears with its whole size.

A file that gets its name first and its size then may be met empty: by another process, or by the next start after a
kill in between. Where the file system has unnamed files (O_TMPFILE), the name comes last. Elsewhere it comes first, as
in RocketMQ, and recovery takes an empty last file for none.
"""

from __future__ import annotations

import errno
import os

_FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
_MODE = 0o666  # as the umask allows
# What a file system answers that has no unnamed files, or a system without /proc, or one that forbids such links.
_CANNOT = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT, errno.EPERM, errno.EACCES, errno.EXDEV)


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
        try:
            return _named_last(path, size, folder)
        except OSError as error:
            if error.errno not in _CANNOT:
                raise OSError(error.errno, error.strerror, path) from error  # the system names its own two paths
    fd = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, _MODE, dir_fd=folder)
    try:
        os.ftruncate(fd, size)
    except OSError:
        os.close(fd)
        os.unlink(path, dir_fd=folder)
        raise
    return fd


def _named_last(path: str, size: int, folder: int | None) -> int:
    """Do what `create` says by a file that gets its name when it is whole."""
    unnamed = os.open(os.path.dirname(path) or ".", os.O_RDWR | os.O_CLOEXEC | os.O_TMPFILE, _MODE, dir_fd=folder)
    try:
        os.ftruncate(unnamed, size)
        # Some directory must be given, else Python calls link(2), which does not follow /proc's link to the file.
        os.link(f"/proc/self/fd/{unnamed}", path, src_dir_fd=unnamed, dst_dir_fd=folder, follow_symlinks=True)
        try:
            # Opened by its name: lsof calls the file of the first descriptor deleted.
            return os.open(path, _FLAGS, dir_fd=folder)
        except OSError:
            os.unlink(path, dir_fd=folder)
            raise
    finally:
        os.close(unnamed)
