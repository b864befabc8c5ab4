# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Fetches messages by queue offset, many at once: from queue units to valid records.

Units are only hints. A record is returned only if it is valid (kernels/read/walk) and has the queue and queue offset of
the unit's position. The object of a record does not copy it but pins its buffer, and copies it when the whole record is
asked for.
"""

import cython

if not cython.compiled:
    from flintmq.kernels._plain import any_below, bytes_of, i32be, i64be, longs_of, prefetch_lines, same_bytes, u16be
    from flintmq.kernels.read.record_parts import SPAN_END, SPAN_RECORD, SPAN_TOPIC, SPAN_TOPIC_END, locate
    from flintmq.kernels.read.walk import _record

UNIT = 20  # bytes of a plain queue's unit
_AHEAD = cython.declare(cython.longlong, 8)  # units: prefetch distance of record headers


def _copy(p, at, n):
    """Copy bytes of a buffer."""
    if cython.compiled:
        return cython.cast(cython.p_char, p)[at : at + n]
    return bytes(p[at : at + n])


@cython.final
@cython.cclass
class Pin:
    """Holds a buffer, so that it can be neither unmapped nor resized."""

    def __init__(self, data: cython.const[cython.uchar][::1]) -> None:
        self.data = data


@cython.cclass
class RecordBytes:
    """One validated record; a derived class decodes it and has `fields`."""

    def __init__(self, raw: bytes) -> None:
        """Wrap the bytes of a record."""
        self._raw = raw
        self._size = len(raw)
        self._p = cython.cast(cython.pointer(cython.const[cython.uchar]), raw) if cython.compiled else raw
        self._fields = None
        self._properties = None

    @property
    def raw(self) -> bytes:
        """Bytes of the whole record."""
        with cython.critical_section(self):  # without a GIL, another thread may ask for it or for `body`
            if self._raw is None:
                self._raw = _copy(self._p, 0, self._size)
                if cython.compiled:
                    self._p = cython.cast(cython.pointer(cython.const[cython.uchar]), self._raw)
                else:
                    self._p = self._raw
                self._pin = None
            return self._raw

    @property
    def size(self) -> int:
        """Size of the record in bytes."""
        return self._size

    @property
    def body(self) -> bytes:
        """Body of the record; if the bytes have none in its place, that of `fields`."""
        at: cython.longlong = self._size
        with cython.critical_section(self):
            if self._size >= 91:
                at = 88 + (12 if self._p[39] & 16 else 0) + (12 if self._p[39] & 32 else 0)
            if self._size >= 91 and at <= self._size:
                n: cython.longlong = i32be(self._p, at - 4)
                if 0 <= n <= self._size - at:
                    return _copy(self._p, at, n)
        return self.fields.body

    # These numbers have one place in both versions of a record; to decode all of it for one takes 20 times as long.

    def _number(self, at, is_long):
        """Return the number at a position of a record that has all fields."""
        with cython.critical_section(self):
            return i64be(self._p, at) if is_long else i32be(self._p, at)

    @property
    def queue_id(self) -> int:
        """Queue of the topic."""
        return self._number(12, False) if self._size >= 91 else self.fields.queue_id

    @property
    def queue_offset(self) -> int:
        """Index in the queue; 0 for prepared and rolled-back transaction records."""
        return self._number(20, True) if self._size >= 91 else self.fields.queue_offset

    @property
    def sys_flag(self) -> int:
        """Bits: compressed, transaction, IPv6, inner batch (docs/internals/format/commit-log.md)."""
        return self._number(36, False) if self._size >= 91 else self.fields.sys_flag


def run(
    units: cython.const[cython.uchar][::1],
    first: cython.longlong,
    count: cython.longlong,
    low: cython.longlong,
    high: cython.longlong,
):
    """Return how many units, from number `first` on, point into the log range [low, high).

    Returns:
        (n, size): number of units before the first that does not, and the bytes of their records.

    Raises:
        ValueError: the buffer has no such units.
    """
    if first < 0 or count < 0 or first > len(units) // 20 - count:
        raise ValueError("the buffer has no such units")
    i: cython.longlong = 0
    total: cython.longlong = 0
    if count == 0:
        return 0, 0
    p = bytes_of(units)
    with cython.nogil:
        while i < count:
            at: cython.longlong = i64be(p, 20 * (first + i))
            size: cython.longlong = i32be(p, 20 * (first + i) + 8)
            if size <= 0 or at < low or at > high - size:
                break
            total += size
            i += 1
    return i, total


def _is_at_queue_offset(p, at, size, topic, topic_size, queue_id, queue_offset):
    """Return whether the valid record at p[at] has this queue and queue offset."""
    if i32be(p, at + 12) != queue_id or i64be(p, at + 20) != queue_offset or p[at + 39] & 4:
        return False  # bit 4: prepared and rolled-back records are in no queue
    both: cython.longlong = at + 88 + (12 if p[at + 39] & 16 else 0) + (12 if p[at + 39] & 32 else 0)
    end: cython.longlong = both + i32be(p, both - 4)
    if p[at + 7] == 0xA7:
        return p[end] == topic_size and same_bytes(p, end + 1, topic, 0, topic_size)
    return u16be(p, end) == topic_size and same_bytes(p, end + 2, topic, 0, topic_size)


def check(
    units: cython.const[cython.uchar][::1],
    first: cython.longlong,
    count: cython.longlong,
    data: cython.const[cython.uchar][::1],
    base: cython.longlong,
    file_end: cython.longlong,
    max_size: cython.longlong,
    topic: cython.const[cython.uchar][::1],
    queue_id: cython.int,
    queue_offset: cython.longlong,
    positions: cython.longlong[::1],
):
    """Validate the records that units point to.

    Args:
        units, first, count: units of a plain queue, `count` of them from number `first` of the buffer on.
        data, base: bytes of one commit log file, and the log offset of data[0].
        file_end: position in data of the end of that file.
        max_size: a record of more bytes is refused.
        topic, queue_id, queue_offset: queue and queue offset of the first unit's record; the next one has the next
            queue offset.
        positions: receives the position in data of each record.

    Returns:
        (n, inside): number of units before the first that does not point to a valid record of its place; and whether
        the record of that one begins within data.

    Raises:
        ValueError: the buffer has no such units, or positions has no room for them.
    """
    if first < 0 or count < 0 or first > len(units) // 20 - count or count > len(positions):
        raise ValueError("units and positions must have room for count")
    i: cython.longlong = 0
    inside: cython.bint = True
    available: cython.longlong = len(data)
    topic_size: cython.longlong = len(topic)
    if count == 0 or available == 0 or topic_size == 0:
        return 0, False
    u, p, t = bytes_of(units), bytes_of(data), bytes_of(topic)
    with cython.nogil:
        while i < count:
            later: cython.longlong = 20 * (first + (i + _AHEAD if i + _AHEAD < count else i))
            ahead: cython.longlong = i64be(u, later) - base
            if 0 <= ahead < available:
                prefetch_lines(p, ahead, i32be(u, later + 8))
            at: cython.longlong = i64be(u, 20 * (first + i)) - base
            inside = 0 <= at < available
            if not inside:
                break
            size: cython.longlong = _record(p, at, available, file_end, base, max_size, 1)
            if size < 0 or size != i32be(u, 20 * (first + i) + 8):
                break
            if not _is_at_queue_offset(p, at, size, t, topic_size, queue_id, queue_offset + i):
                break
            positions[i] = at
            i += 1
    return i, inside


def whole(data: cython.const[cython.uchar][::1], positions: cython.longlong[::1], count: cython.longlong):
    """Return how many of the records at positions[:count] come before the first odd one.

    Odd is an inner batch, or a record with a zero byte in its topic or properties.

    Raises:
        ValueError: positions has fewer entries than count, or one of them is not the position of a validated record.
    """
    if count < 0 or count > len(positions):
        raise ValueError("positions has fewer entries than count")
    if count == 0 or len(data) == 0:
        return 0
    i: cython.longlong = 0
    n: cython.longlong = len(data)
    good: cython.bint = True
    spans = cython.declare(cython.longlong[8])
    p, at = bytes_of(data), longs_of(positions)
    with cython.nogil:
        while i < count:
            good = locate(p, n, at, i, 1, spans) == 1
            if not good or p[spans[SPAN_RECORD] + 39] & 0x80:
                break
            if any_below(p, spans[SPAN_TOPIC], spans[SPAN_TOPIC_END] - spans[SPAN_TOPIC], 1) or any_below(
                p, spans[SPAN_TOPIC_END] + 2, spans[SPAN_END] - spans[SPAN_TOPIC_END] - 2, 1
            ):
                break
            i += 1
    if not good:
        raise ValueError(f"position {positions[i]} holds no validated record")
    return i


def take(
    cls, data: cython.const[cython.uchar][::1], positions: cython.const[cython.longlong][::1], count: cython.longlong
):
    """Make objects of validated records.

    Args:
        cls: RecordBytes, or a class that derives from it and has no __init__ that matters.
        data: bytes that hold the records. They must not change as long as an object lives.
        positions, count: positions of the records.

    Raises:
        ValueError: a position at which data holds no whole record.
    """
    if count < 0 or count > len(positions):
        raise ValueError("positions has fewer entries than count")
    found = []
    if count == 0:
        return found
    i: cython.longlong
    if len(data) < 91:
        raise ValueError("no record begins at a position")
    pin: Pin = Pin(data)
    one: RecordBytes
    p = bytes_of(data)
    for i in range(count):
        at: cython.longlong = positions[i]
        if at < 0 or at > len(data) - 91:
            raise ValueError("no record begins at a position")
        size: cython.longlong = i32be(p, at)
        if size < 91 or size > len(data) - at:
            raise ValueError("a record goes on beyond the buffer")
        one = cls.__new__(cls)
        one._pin = pin
        one._p = p + at if cython.compiled else memoryview(p)[at : at + size]
        one._size = size
        if not cython.compiled:
            one._raw = one._fields = one._properties = None
        found.append(one)
    return found
