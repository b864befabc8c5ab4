# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Walks a commit log: validates its records in order, and reports where and why they end.

No other code decides whether bytes are a record (docs/internals/format/commit-log.md). Header checks come first, the
checksum last, and no length is used before it is compared with the bytes at hand. Positions are relative to the buffer;
`base` is the log offset of the buffer's first byte, so that a record's own physical offset can be compared with its
position.

Deliberate differences from upstream's CommitLog.checkMessageAndReturnSize: the physical offset is compared, a V1 topic
length is read unsigned, negative body and properties lengths are refused, the appended CRC property is checked wherever
it is present.
"""

import cython

if not cython.compiled:
    from flintmq.kernels._plain import (
        bytes_of,
        crc32_at_level,
        crc32_of,
        crc_level,
        find_magic,
        i16be,
        i32be,
        i64be,
        prefetch_pass,
        present_bytes,
        u32be,
    )

# Why a walk stopped. REASONS holds the names in this order.
FULL = 0  # the array of positions is full
MORE = 1  # the record continues beyond the bytes at hand
END = 2  # the position asked for is reached
BLANK = 3  # an end-of-file record: go to the next file
ZERO = 4  # zeros: not written
MAGIC = 5  # neither record nor blank
SIZE = 6  # the size is out of bounds
LENGTHS = 7  # the parts do not add up to the size
OFFSET = 8  # the stored physical offset is not the position of the record
CRC = 9  # the body's checksum is wrong
CRC_PROPERTY = 10  # the whole record's checksum (property __CRC32#) is wrong
TIME = 11  # a good record, stored at an earlier time than the one before it
NOTHING = 12  # resync: no valid record up to here

REASONS = (
    "positions full",
    "more bytes needed",
    "end reached",
    "blank record",
    "zeros",
    "no record magic",
    "size out of bounds",
    "lengths do not add up to the size",
    "stored physical offset is another one",
    "body CRC is wrong",
    "record CRC (property __CRC32#) is wrong",
    "store time steps back",
    "nothing found",
)

CHECK_CRC = 1
CHECK_TIME = 2

_FULL = cython.declare(cython.int, 0)
_MORE = cython.declare(cython.int, 1)
_END = cython.declare(cython.int, 2)
_BLANK = cython.declare(cython.int, 3)
_ZERO = cython.declare(cython.int, 4)
_MAGIC = cython.declare(cython.int, 5)
_SIZE = cython.declare(cython.int, 6)
_LENGTHS = cython.declare(cython.int, 7)
_OFFSET = cython.declare(cython.int, 8)
_CRC = cython.declare(cython.int, 9)
_CRC_PROPERTY = cython.declare(cython.int, 10)
_TIME = cython.declare(cython.int, 11)
_NOTHING = cython.declare(cython.int, 12)

_V1 = cython.declare(cython.uint, 0xDAA320A7)
_V2 = cython.declare(cython.uint, 0xDAA320AB)
_BLANK_MAGIC = cython.declare(cython.uint, 0xCBD43194)
_LEAST = cython.declare(cython.longlong, 91)  # V1, two IPv4 hosts, everything else empty


def _crc_property_right(p, at, size):
    """Return whether the appended CRC property is right.

    It is ten decimal digits, the least significant first, over the record without its last 20 bytes.
    """
    value: cython.longlong = 0
    unit: cython.longlong = 1
    i: cython.int
    for i in range(10):
        digit: cython.int = p[at + size - 11 + i] - 48
        if digit < 0 or digit > 9:
            return False
        value += digit * unit
        unit *= 10
    return value == (crc32_of(p, at, size - 20) & 0x7FFFFFFF)


def _record(p, at, available, file_end, base, max_size, flags):
    """Return the size of the valid record at p[at], or minus the reason why there is none."""
    left: cython.longlong = available - at
    room: cython.longlong = file_end - at
    if room < 8:
        return -_SIZE
    if left < 8:
        return -_MORE
    size: cython.longlong = i32be(p, at)
    magic: cython.uint = u32be(p, at + 4)
    if magic == _BLANK_MAGIC:
        return -_BLANK
    if magic != _V1 and magic != _V2:
        return -_ZERO if magic == 0 and size == 0 else -_MAGIC
    if size < _LEAST or size > max_size or size > room:
        return -_SIZE
    # 112 bytes hold the header up to the body length, whatever the widths of the two hosts.
    if left < size and left < 112:
        return -_MORE
    if i64be(p, at + 28) != base + at:
        return -_OFFSET
    sys_flag: cython.int = i32be(p, at + 36)
    hosts: cython.longlong = 16 + (12 if sys_flag & 16 else 0) + (12 if sys_flag & 32 else 0)
    fixed: cython.longlong = 75 + hosts + (1 if magic == _V2 else 0)  # all but body, topic, properties
    if fixed > size:
        return -_LENGTHS
    body: cython.longlong = i32be(p, at + 68 + hosts)
    if body < 0 or body > size - fixed:
        return -_LENGTHS
    if left < size:
        return -_MORE
    at_topic: cython.longlong = at + 72 + hosts + body
    topic: cython.longlong = p[at_topic] if magic == _V1 else i16be(p, at_topic)
    if topic < 0 or topic > size - fixed - body:
        return -_LENGTHS
    at_props: cython.longlong = at_topic + (1 if magic == _V1 else 2) + topic
    props: cython.longlong = i16be(p, at_props)
    if props < 0 or fixed + body + topic + props != size:
        return -_LENGTHS
    if flags & 1:
        if body > 0 and (crc32_of(p, at + 72 + hosts, body) & 0x7FFFFFFF) != u32be(p, at + 8):
            return -_CRC
        if props >= 20 and p[at + size - 1] == 2 and p[at + size - 20] == 95 and p[at + size - 12] == 1:
            # "_" and 0x01 are where the appended property has them, so compare the whole name.
            if (
                p[at + size - 19] == 95
                and p[at + size - 18] == 67
                and p[at + size - 17] == 82
                and p[at + size - 16] == 67
                and p[at + size - 15] == 51
                and p[at + size - 14] == 50
                and p[at + size - 13] == 35
                and not _crc_property_right(p, at, size)
            ):
                return -_CRC_PROPERTY
    return size


def walk(
    buf: cython.const[cython.uchar][::1],
    at: cython.longlong,
    available: cython.longlong,
    file_end: cython.longlong,
    until: cython.longlong,
    base: cython.longlong,
    last_time: cython.longlong,
    max_size: cython.longlong,
    flags: cython.int,
    positions: cython.longlong[::1],
):
    """Validate records one after another from buf[at].

    Args:
        buf: bytes of one commit log file, from log offset `base` on.
        at: buffer position of the first record.
        available: how many bytes of buf are filled.
        file_end: buffer position of the end of the commit log file (may exceed the buffer).
        until: stop at the first record that starts here or later.
        base: log offset of buf[0].
        last_time: store time in ms of the record before, for CHECK_TIME.
        max_size: a record of more bytes is refused with SIZE.
        flags: CHECK_CRC, CHECK_TIME or both.
        positions: int64 array that receives the buffer position of each valid record.

    Returns:
        (count, at, reason, last_time): number of positions, the position where the walk stopped, why (FULL, MORE, END,
        BLANK, ZERO, MAGIC, SIZE, LENGTHS, OFFSET, CRC, CRC_PROPERTY, TIME), and the store time of the last valid
        record. On TIME the record at `at` is valid but not counted: call again with a lower last_time to take it.

    Raises:
        ValueError: available or at is not within the buffer.
    """
    if available < 0 or available > len(buf) or at < 0 or at > available:
        raise ValueError("at and available must lie within the buffer")
    if file_end < 0:  # the file has become shorter
        file_end = 0
    if at == available:
        return 0, at, (_END if at >= until else (_SIZE if file_end - at < 8 else _MORE)), last_time
    count: cython.Py_ssize_t = 0
    most: cython.Py_ssize_t = len(positions)
    reason: cython.int = _END
    p = bytes_of(buf)
    with cython.nogil:
        while at < until:
            if count == most:
                reason = _FULL
                break
            size: cython.longlong = _record(p, at, available, file_end, base, max_size, flags)
            if size < 0:
                reason = cython.cast(cython.int, -size)
                break
            time: cython.longlong = i64be(p, at + (68 if p[at + 39] & 16 else 56))
            if time < last_time and flags & 2:
                reason = _TIME
                break
            last_time = time
            positions[count] = at
            count += 1
            at += size
            prefetch_pass(p, at, size)
    return count, at, reason, last_time


def resync(
    buf: cython.const[cython.uchar][::1],
    at: cython.longlong,
    available: cython.longlong,
    file_end: cython.longlong,
    base: cython.longlong,
    max_size: cython.longlong,
):
    """Find the next valid record at buf[at] or later, by its magic, own offset and full check.

    Args:
        buf, at, available, file_end, base, max_size: as for walk.

    Returns:
        (position, reason): END and the record's position; MORE and the position of a header whose record continues
        beyond the bytes at hand; or NOTHING and the position from which to search further bytes.

    Raises:
        ValueError: available or at is not within the buffer.
    """
    if available < 0 or available > len(buf) or at < 0 or at > available:
        raise ValueError("at and available must lie within the buffer")
    if file_end < 0:  # the file has become shorter
        file_end = 0
    if available - at < 8:
        return at, _NOTHING
    reason: cython.int = _NOTHING
    p = bytes_of(buf)
    with cython.nogil:
        while True:
            found: cython.longlong = find_magic(p, at + 4, available)
            if found < 0:
                at = at if available - 7 < at else available - 7
                break
            at = found - 4
            if available - at < 8:
                break
            size: cython.longlong = _record(p, at, available, file_end, base, max_size, 1)
            if size > 0:
                reason = _END
                break
            if size == -_MORE:
                reason = _MORE
                break
            at += 1
    return at, reason


def touch(buf: cython.const[cython.uchar][::1], begin: cython.longlong, end: cython.longlong, step: cython.longlong):
    """Read one byte every `step` of buf[begin:end], to bring the pages of a map into memory.

    Returns the sum of the bytes.

    Raises:
        ValueError: begin and end are not within the buffer, or step is not positive.
    """
    if begin < 0 or end > len(buf) or step < 1:
        raise ValueError("begin and end must lie within the buffer")
    seen: cython.longlong = 0
    with cython.nogil:
        while begin < end:
            seen += buf[begin]
            begin += step
    return seen


def present(buf: cython.const[cython.uchar][::1], begin: cython.longlong, end: cython.longlong) -> int:
    """Bring the pages of buf[begin:end] into memory; buf is a map from its first byte on.

    Returns:
        0, or the error number: EFAULT if touching the bytes would kill the process (SIGBUS), EINVAL if this system
        cannot check it (Linux before 5.14, others, uncompiled).

    Raises:
        ValueError: begin and end do not lie within the buffer.
    """
    if begin < 0 or begin > end or end > len(buf):
        raise ValueError("begin and end must lie within the buffer")
    if begin == end:
        return 0
    with cython.nogil:
        failed: cython.int = present_bytes(bytes_of(buf), begin, end)
    return failed


def crc32(buf: cython.const[cython.uchar][::1], most: cython.int = 2):
    """Compute the CRC-32 of a buffer, as zlib.crc32, by the fastest method up to `most`.

    0 is tables, 1 carry-less multiply, 2 AVX-512.
    """
    if len(buf) == 0:
        return 0
    return crc32_at_level(bytes_of(buf), 0, len(buf), most)


def crc_kind() -> str:
    """Return the method of CRC: 'zlib', 'tables', 'carry-less multiply' or 'AVX-512'.

    'zlib' is used uncompiled; 'carry-less multiply' includes the CRC instructions of ARM.
    """
    return ("zlib", "tables", "carry-less multiply", "AVX-512")[crc_level() + 1]
