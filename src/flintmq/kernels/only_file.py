# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Reads the only file of a directory, for the start of a store with many queues."""

import cython

if not cython.compiled:
    import errno
    import os
    import stat

_ROOM = cython.declare(cython.int, 256)  # bytes of a name and its end: no file system has longer ones


def only_file(parent: cython.int, name: bytes, count: cython.longlong):
    """Read the first bytes of the only file of a directory. No symbolic link is followed.

    Args:
        parent: descriptor of the directory's parent.
        name: of the directory.
        count: number of bytes to read.

    Returns:
        (name, size, data) of the file; `data` is shorter than `count` if the file is. None if there is no entry, or
        several, or one that is no regular file; if the disk knows of data after these bytes, or cannot tell; and after
        every error.

    Raises:
        ValueError: `count` is not positive, or the name has a zero byte.
    """
    if count <= 0 or b"\0" in name:
        raise ValueError("read a byte or more, of a directory with a name")
    if not cython.compiled:
        return _only_file(parent, name, count)
    found_name: cython.char[256]
    size: cython.longlong = 0
    got: cython.longlong = 0
    found: cython.int
    folder_name: cython.p_char = PyBytes_AS_STRING(name)
    data: bytes = PyBytes_FromStringAndSize(cython.NULL, count)  # nobody else has it yet, so it may be written
    to: cython.p_char = PyBytes_AS_STRING(data)
    with cython.nogil:
        found = read_only_file(
            parent, folder_name, found_name, _ROOM, to, count, cython.address(size), cython.address(got)
        )
    if not found:
        return None
    return cython.cast(bytes, found_name), size, data if got == count else data[:got]


def _only_file(parent, name, count):
    """Do the same by Python's own calls."""
    if not hasattr(os, "SEEK_DATA"):
        return None
    folder = fd = -1
    try:
        folder = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
        names = os.listdir(folder)
        if len(names) != 1:
            return None
        fd = os.open(names[0], os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW, dir_fd=folder)
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return None
        try:
            os.lseek(fd, count, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return os.fsencode(names[0]), status.st_size, os.pread(fd, count, 0)
        return None
    except OSError:
        return None
    finally:
        for one in (fd, folder):
            if one >= 0:
                os.close(one)
