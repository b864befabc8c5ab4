# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Reads the only file of a directory, for the start of a store with many queues."""

import cython

if not cython.compiled:
    from flintmq.kernels._plain import read_only_file as plain_read

    PyBytes_AS_STRING = PyBytes_FromStringAndSize = read_only_file = None

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
        return plain_read(parent, name, count)
    size: cython.longlong = 0
    got: cython.longlong = 0
    folder_name: cython.p_char = PyBytes_AS_STRING(name)
    # Nobody else has these bytes yet, so they may be written.
    found: bytes = PyBytes_FromStringAndSize(cython.NULL, _ROOM)
    data: bytes = PyBytes_FromStringAndSize(cython.NULL, count)
    found_p: cython.p_char = PyBytes_AS_STRING(found)
    data_p: cython.p_char = PyBytes_AS_STRING(data)
    with cython.nogil:
        length: cython.int = read_only_file(
            parent, folder_name, found_p, _ROOM, data_p, count, cython.address(size), cython.address(got)
        )
    if length == 0:
        return None
    return found[:length], size, data if got == count else data[:got]
