"""Calls on mapped memory that Python's mmap lacks or makes with the GIL held.

They call libc by ctypes, which releases the GIL. Each raises OSError if the system refuses or does not know the call.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import itertools
import mmap
import os
import sys
from contextlib import suppress
from typing import Any, Literal

Kind = Literal["B", "i", "q"]

MAP_SHARED, MAP_FIXED = 1, 0x10
MADV_RANDOM = 1
MADV_WILLNEED = 3
MADV_HUGEPAGE = 14
MADV_POPULATE_WRITE = 23  # Linux 5.14
MLOCK_ONFAULT = 1
SYNC_FILE_RANGE_WRITE = 2


@functools.cache
def _libc() -> ctypes.CDLL:
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, "mapped memory can be locked and populated on Linux only")
    return ctypes.CDLL(None, use_errno=True)


def _function(name: str) -> Any:
    """Return a function of libc; ENOSYS where there is none of this name."""
    found = getattr(_libc(), name, None)
    if found is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    return found


def _refused() -> OSError:
    """Return the error of the call that failed last."""
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


def _call(name: str, memory: mmap.mmap, position: int, count: int, *rest: int) -> None:
    """Call a function of libc on a range of a map, which cannot be closed meanwhile."""
    if position % mmap.PAGESIZE or position < 0 or count < 0 or position + count > len(memory):
        raise ValueError(
            f"{name}: bytes {position} to {position + count} are not whole pages of a map of {len(memory)}"
        )
    if not count:
        return
    function = _function(name)
    export = ctypes.c_char.from_buffer(memory, position)
    failed = function(ctypes.c_void_p(ctypes.addressof(export)), ctypes.c_size_t(count), *rest) != 0
    del export  # the traceback of an error would hold it, and the map could not be closed
    if failed:
        raise _refused()


def zeros(kind: Kind, count: int) -> memoryview:
    """Allocate zeroed numbers whose memory costs nothing before it is touched.

    Opening a store, or walking one file, must not pay for the largest possible block.
    """
    return zeros_of((kind, count))[0]


def zeros_of(*wanted: tuple[Kind, int]) -> list[memoryview]:
    """Allocate several `zeros` in one map, each on pages of its own.

    Making a map costs more than using it.
    """
    sizes = [max(count, 1) * {"B": 1, "i": 4, "q": 8}[kind] for kind, count in wanted]
    places = [0, *itertools.accumulate(-(-size // mmap.PAGESIZE) * mmap.PAGESIZE for size in sizes)]
    whole = memoryview(mmap.mmap(-1, places[-1], flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    found = zip(wanted, sizes, places, strict=False)
    return [whole[at : at + size].cast(kind) for (kind, _), size, at in found]


def advise(memory: mmap.mmap, position: int, count: int, advice: int) -> None:
    """Call madvise. MADV_POPULATE_WRITE makes pages present and writable and changes no byte."""
    _call("madvise", memory, position, count, advice)


def lock(memory: mmap.mmap, *, on_fault: bool = False) -> None:
    """Lock a map in memory; with `on_fault` each page from its first touch on."""
    if on_fault:
        _call("mlock2", memory, 0, len(memory), MLOCK_ONFAULT)
    else:
        _call("mlock", memory, 0, len(memory))


def unlock(memory: mmap.mmap) -> None:
    _call("munlock", memory, 0, len(memory))


def return_freed() -> None:
    """Have glibc return memory of this process that is freed to the system.

    By itself it returns little once pieces of megabytes were freed: it cuts further ones out of its heap, and small
    ones settle between them. With a lot to return it keeps other threads from allocating for some ms for each 100 MB.
    Other systems are left as they are.
    """
    with suppress(OSError):
        _function("malloc_trim")(0)


class _PyBuffer(ctypes.Structure):
    """Python's Py_buffer, of which the address is used."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_void_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


def _address(memory: mmap.mmap) -> int:
    """Return where a map begins; ctypes itself tells this of writable ones only."""
    found = _PyBuffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(memory), ctypes.byref(found), 0)
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(found))
    assert found.buf is not None and found.buf % mmap.PAGESIZE == 0
    return int(found.buf)


def _map_over(address: int, size: int, protection: int, fd: int) -> None:
    """Map a file's first bytes where something of this process is mapped, which they replace."""
    function = _libc().mmap
    function.restype, function.argtypes = ctypes.c_void_p, [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64,
    ]  # fmt: skip
    if function(address, size, protection, MAP_SHARED | MAP_FIXED, fd, 0) != address:
        raise _refused()


def map_file(fd: int, size: int) -> mmap.mmap:
    """Map the first `size` bytes of a file for reading; the map holds no descriptor.

    Before Python 3.13 its mmap keeps a copy of the descriptor as long as the map, so a process could hold only as many
    files of a log as it may have descriptors. On Linux the file is then mapped over memory that an mmap owns.
    """
    if size <= 0:
        raise ValueError(f"a map of {size} bytes")
    if sys.version_info >= (3, 13):
        return mmap.mmap(fd, size, access=mmap.ACCESS_READ, trackfd=False)
    if sys.platform != "linux":
        return mmap.mmap(fd, size, access=mmap.ACCESS_READ)
    if size > os.fstat(fd).st_size:
        raise ValueError("mmap length is greater than file size")
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ)
    try:
        _map_over(_address(memory), size, mmap.PROT_READ, fd)
    except OSError:
        memory.close()
        raise
    return memory


def map_twice(size: int) -> mmap.mmap:
    """Map new zeroed memory of `size` bytes twice, one after the other."""
    if not hasattr(os, "memfd_create") or size % mmap.PAGESIZE:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    memory = mmap.mmap(-1, 2 * size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    fd = os.memfd_create("flintmq-pool", os.MFD_CLOEXEC)
    try:
        os.ftruncate(fd, size)
        export = ctypes.c_char.from_buffer(memory)
        address = ctypes.addressof(export)
        del export
        for at in (address, address + size):
            _map_over(at, size, mmap.PROT_READ | mmap.PROT_WRITE, fd)
    except OSError:
        memory.close()
        raise
    finally:
        os.close(fd)
    return memory


def start_sync(fd: int, position: int, count: int) -> None:
    """Start writing a range of a file to disk (sync_file_range).

    Promises nothing; the caller syncs the file later.
    """
    call = _function("sync_file_range")
    if call(fd, ctypes.c_int64(position), ctypes.c_int64(count), SYNC_FILE_RANGE_WRITE) != 0:
        raise _refused()


def sync_file_system(fd: int) -> None:
    """Write all that changed in the file system of an open file to disk (syncfs).

    Old kernels report no error of a file here; the caller syncs its files later.
    """
    if _function("syncfs")(fd) != 0:
        raise _refused()
