"""Python twins of the functions in the C headers, for kernels that run uncompiled.

They have the same names and the same results, without the speed. In C the caller guarantees the bounds; here each
function asserts them, for all bytes that its C form reads or writes, also those beyond the `n` that count. So the tests
on uncompiled kernels find a call that would leave a buffer.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import time
import zlib
from typing import Any

_U16, _U32, _I16, _I32, _I64 = (struct.Struct(f).unpack_from for f in (">H", ">I", ">h", ">i", ">q"))


def _inside(p: Any, at: int, n: int) -> None:
    """Assert that p has n bytes from `at` on."""
    assert 0 <= at and 0 <= n and at + n <= len(p), f"{n} bytes at {at} of {len(p)}"


def bytes_of(buffer: Any) -> Any:
    """Return the buffer itself, where C has its address."""
    return buffer


room_of = longs_of = const_longs_of = ints_of = const_ints_of = bytes_of


def u16be(p: Any, at: int) -> int:
    _inside(p, at, 2)
    return int(_U16(p, at)[0])


def u32be(p: Any, at: int) -> int:
    _inside(p, at, 4)
    return int(_U32(p, at)[0])


def i16be(p: Any, at: int) -> int:
    _inside(p, at, 2)
    return int(_I16(p, at)[0])


def i32be(p: Any, at: int) -> int:
    _inside(p, at, 4)
    return int(_I32(p, at)[0])


def i64be(p: Any, at: int) -> int:
    _inside(p, at, 8)
    return int(_I64(p, at)[0])


def put16be(p: Any, at: int, x: int) -> None:
    _inside(p, at, 2)
    struct.pack_into(">H", p, at, x & 0xFFFF)


def put32be(p: Any, at: int, x: int) -> None:
    _inside(p, at, 4)
    struct.pack_into(">I", p, at, x & 0xFFFFFFFF)


def put64be(p: Any, at: int, x: int) -> None:
    _inside(p, at, 8)
    struct.pack_into(">Q", p, at, x & 0xFFFFFFFFFFFFFFFF)


def same_bytes(p: Any, at: int, q: Any, start: int, n: int) -> bool:
    _inside(p, at, n)
    _inside(q, start, n)
    return bytes(p[at : at + n]) == bytes(q[start : start + n])


def copy_bytes(to: Any, at: int, p: Any, start: int, n: int) -> None:
    _inside(to, at, n)
    _inside(p, start, n)
    to[at : at + n] = p[start : start + n]


def prefetch_lines(p: Any, at: int, n: int) -> None:
    """Nothing to do: a hint to the processor."""


def prefetch_pass(p: Any, at: int, n: int) -> None:
    """Nothing to do: a hint to the processor."""


def prefetch_write(p: Any, at: int) -> None:
    """Nothing to do: a hint to the processor."""


def all_ascii(p: Any, at: int, n: int) -> bool:
    _inside(p, at, n)
    return bytes(p[at : at + n]).isascii()


def first_non_ascii(p: Any, at: int, end: int) -> int:
    _inside(p, at, max(end - at, 0))
    text = bytes(p[at:end])
    if text.isascii():
        return end
    return at + next(i for i, byte in enumerate(text) if byte >= 0x80)


def odd_bytes(p: Any, at: int) -> int:
    _inside(p, at, 64)
    return sum(1 << i for i, byte in enumerate(bytes(p[at : at + 64])) if byte >= 0x80 or byte in (1, 2))


def same_shape(p: Any, at: int, other: int, n: int, known: Any, to: int) -> bool:
    _inside(p, at, n + -n % 64)
    _inside(p, other, n + -n % 64)
    fixed = sum((known[to + word] & 0xFFFFFFFFFFFFFFFF) << (64 * word) for word in range(4))
    for i in range(n):
        byte = p[at + i]
        if (fixed >> i) & 1:
            if byte != p[other + i]:
                return False
        elif byte >= 0x80 or byte in (1, 2):
            return False
    return True


def lowest_bit(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def copy_by_32(to: Any, at: int, p: Any, start: int, n: int) -> None:
    steps = max(n + -n % 32, 32)
    _inside(to, at, steps)
    _inside(p, start, steps)
    to[at : at + n] = p[start : start + n]


def put_hex8(to: Any, at: int, p: Any, start: int) -> None:
    _inside(p, start, 8)
    _inside(to, at, 16)
    to[at : at + 16] = bytes(p[start : start + 8]).hex().upper().encode()


def put_host4(to: Any, at: int, p: Any, start: int) -> int:
    _inside(p, start, 8)
    _inside(to, at, 24)
    text = f"{p[start]}.{p[start + 1]}.{p[start + 2]}.{p[start + 3]}:{u16be(p, start + 6)}".encode()
    to[at : at + len(text)] = text
    return at + len(text)


def put_view(ints: Any, to: int, p: Any, limit: int, at: int, n: int, base: int, buffer: int) -> None:
    _inside(p, at, n)
    assert limit <= len(p) and 0 <= to <= len(ints) - 4
    text = bytes(p[at : at + n])
    view = struct.pack("<i12s", n, text) if n <= 12 else struct.pack("<i4sii", n, text[:4], buffer, at - base)
    for k, number in enumerate(struct.unpack("<4i", view)):
        ints[to + k] = number


def slot_of(key: int, bits: int) -> int:
    return (key * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF) >> (64 - bits)


def text_key(p: Any, limit: int, at: int, n: int, seed: int, secret: int) -> int:
    return seeded_hash(p, at, n, 0, seed, secret)


def same_text(p: Any, limit: int, at: int, q: Any, to: int, n: int) -> bool:
    _inside(q, to, max(n, 12))
    return same_bytes(p, at, q, to, n)


def find_bytes(p: Any, at: int, end: int, text: Any, n: int) -> int:
    _inside(p, at, end - at)
    _inside(text, 0, n)
    found = bytes(p[at:end]).find(bytes(text[:n]))
    return at + found if found >= 0 else -1


def find_either(p: Any, at: int, end: int, a: int, b: int) -> int:
    """Return the first position in [at, end) of byte a or byte b, or end."""
    _inside(p, at, max(end - at, 0))
    text = bytes(p[at:end])
    hits = [i for i in (text.find(a), text.find(b)) if i >= 0]
    return at + min(hits) if hits else end


def find_magic(p: Any, at: int, end: int) -> int:
    _inside(p, at, max(end - at, 0))
    found = bytes(p[at:end]).find(b"\xda\xa3\x20")
    return found + at if found >= 0 else -1


def hash_ascii(h: int, p: Any, at: int, n: int) -> int:
    _inside(p, at, n)
    for byte in bytes(p[at : at + n]):
        h = h * 31 + byte & 0xFFFFFFFF
    return h


def hash_if_ascii(h: int, p: Any, at: int, n: int) -> int:
    return hash_ascii(h, p, at, n) if all_ascii(p, at, n) else -1


def _fold(a: int, b: int) -> int:
    return (a * b & 0xFFFFFFFFFFFFFFFF) ^ (a * b >> 64)


def seeded_hash(p: Any, at: int, n: int, more: int, seed: int, secret: int) -> int:
    _inside(p, at, n)
    h = seed + n & 0xFFFFFFFFFFFFFFFF
    data = bytes(p[at : at + n])
    for start in range(0, n, 8):
        word = int.from_bytes(data[start : start + 8].ljust(8, b"\0"), "big")
        h = _fold(h ^ word, secret) + seed & 0xFFFFFFFFFFFFFFFF
    return _fold(h ^ (more & 0xFFFFFFFFFFFFFFFF), secret) >> 1


def crc32_of(p: Any, at: int, n: int) -> int:
    _inside(p, at, n)
    return zlib.crc32(p[at : at + n])


def crc32_at_level(p: Any, at: int, n: int, most: int) -> int:
    _inside(p, at, n)
    return zlib.crc32(p[at : at + n])


def crc_level() -> int:
    """Return -1: zlib's checksum is used."""
    return -1


def present_bytes(p: Any, begin: int, end: int) -> int:
    """Report that this cannot be checked (EINVAL): Python has no such call."""
    return errno.EINVAL


def any_below(p: Any, at: int, n: int, limit: int) -> bool:
    _inside(p, at, n)
    return any(byte < limit for byte in bytes(p[at : at + n]))


def clock_ms() -> int:
    return time.time_ns() // 1_000_000


def read_only_file(parent: int, name: bytes, count: int) -> tuple[bytes, int, bytes] | None:
    """Read the only file of a directory, as only_file.h does."""
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
