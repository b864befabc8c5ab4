"""Memory that must not be read past: bytes that end where a page without any access begins."""

import ctypes
import mmap

_libc = ctypes.CDLL(None, use_errno=True)


def guarded(data: bytes) -> memoryview:
    """A writable copy of data. Reading or writing a byte behind it kills the process."""
    size = -(-max(1, len(data)) // mmap.PAGESIZE) * mmap.PAGESIZE
    pages = mmap.mmap(-1, size + mmap.PAGESIZE)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    no_access = 0
    if _libc.mprotect(ctypes.c_void_p(begin + size), ctypes.c_size_t(mmap.PAGESIZE), no_access) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
    view = memoryview(pages)[size - len(data) : size]
    view[:] = data
    return view
