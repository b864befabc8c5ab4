# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Inserts items into an index file; no other function makes them.

Bytes: docs/internals/format/index.md. The slot table is far larger than the processor's caches, so the slots of the
next items are prefetched. Upstream: IndexFile.putKey.
"""

import cython

if not cython.compiled:
    from flintmq.kernels._plain import i32be, i64be, prefetch_write, put32be, put64be, room_of

_HEADER = cython.declare(cython.longlong, 40)
_MOST_SECONDS = cython.declare(cython.longlong, 0x7FFFFFFF)
_AHEAD = cython.declare(cython.longlong, 32)


def insert(
    buf: cython.uchar[::1],
    slots: cython.longlong,
    items: cython.longlong,
    key_hashes: cython.const[cython.int][::1],
    key_offsets: cython.const[cython.longlong][::1],
    key_times: cython.const[cython.longlong][::1],
    start: cython.longlong,
    end: cython.longlong,
    window: cython.longlong = -1,
):
    """Append items for the keys [start, end) until the file or the buffer is full.

    Args:
        buf: the whole index file, writable: header, slots, items. Or header, slots, and a window of the items.
        slots: number of hash slots (maxHashSlotNum).
        items: capacity in items (maxIndexNum); item 0 is never used.
        key_hashes, key_offsets, key_times: hash (not negative), log offset and store time in ms of each key.
        window: number of the first item in buf; -1 for the whole file.

    Returns:
        The index of the first key that is not inserted: end, or less when the file or the window is full.

    Raises:
        ValueError: the buffer is smaller than slots and items say, the next item is before the window, or the range
            is outside the arrays.
    """
    if slots < 1 or items < 1 or slots > 0x7FFFFFFF or items > 0x7FFFFFFF or len(buf) < 40 + 4 * slots:
        raise ValueError("the buffer is smaller than an index file of these slots and items")
    if 0 <= window <= 0x7FFFFFFF:
        items = min(items, window + (len(buf) - 40 - 4 * slots) // 20)
    elif window > 0 or len(buf) < 40 + 4 * slots + 20 * items:
        raise ValueError("the buffer is smaller than an index file of these slots and items")
    else:
        window = 0
    if start < 0 or end > len(key_hashes) or end > len(key_offsets) or end > len(key_times):
        raise ValueError("start and end must lie within the keys")
    p = room_of(buf)
    count: cython.longlong = i32be(p, 36)
    used: cython.longlong = i32be(p, 32)
    begin: cython.longlong = i64be(p, 0)
    i: cython.longlong = start
    ahead: cython.longlong = start
    coming = cython.declare(cython.longlong[32])  # positions of the slots of items i to ahead
    slot: cython.longlong
    if count < 1:
        count = 1
    if count < window:
        raise ValueError("the next item is before the window")
    with cython.nogil:
        while i < end and count < items:
            while ahead < end and ahead < i + _AHEAD:  # 32-bit division is the quicker one, and done once an item
                slot = cython.cast(cython.uint, key_hashes[ahead] & _MOST_SECONDS) % cython.cast(cython.uint, slots)
                coming[ahead & 31] = _HEADER + 4 * slot
                prefetch_write(p, coming[ahead & 31])
                ahead += 1
            slot = coming[i & 31]
            previous: cython.longlong = i32be(p, slot)
            if previous < 0 or previous > count:
                previous = 0
            seconds: cython.longlong = 0
            if begin > 0 and key_times[i] > begin:
                seconds = (key_times[i] - begin) // 1000
                if seconds > _MOST_SECONDS:
                    seconds = _MOST_SECONDS
            at: cython.longlong = _HEADER + 4 * slots + 20 * (count - window)
            put32be(p, at, key_hashes[i])
            put64be(p, at + 4, key_offsets[i])
            put32be(p, at + 12, seconds)
            put32be(p, at + 16, previous)
            put32be(p, slot, count)
            if count == 1:
                begin = key_times[i]
                put64be(p, 0, begin)
                put64be(p, 16, key_offsets[i])
            if previous == 0:
                used += 1
            count += 1
            i += 1
        if i > start:
            put64be(p, 8, key_times[i - 1])
            put64be(p, 24, key_offsets[i - 1])
            put32be(p, 32, used)
            put32be(p, 36, count)
    return i
