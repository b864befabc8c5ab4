# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Compares the items of an index file with the keys of the log, and checks its chains.

It is the reader's twin of `index_insert.py`: where that function makes an item, this one checks that the item is the
one that would be made. The heads of the chains, one for each slot, are simulated in `heads`, so that every link is
checked in one pass over the items and no chain is walked. Bytes: docs/internals/format/index.md.
"""

import cython

if not cython.compiled:
    from flintmq.kernels._plain import bytes_of, i32be, i64be, prefetch_write

_MOST_SECONDS = cython.declare(cython.longlong, 0x7FFFFFFF)
_AHEAD = cython.declare(cython.longlong, 32)


def match(
    buf: cython.const[cython.uchar][::1],
    count: cython.longlong,
    number: cython.longlong,
    begin: cython.longlong,
    heads: cython.int[::1],
    key_hashes: cython.const[cython.int][::1],
    key_offsets: cython.const[cython.longlong][::1],
    key_times: cython.const[cython.longlong][::1],
    start: cython.longlong,
    end: cython.longlong,
):
    """Return how many of the next items match the keys [start, end) one by one.

    Args:
        buf: items, 20 bytes each.
        count: items in buf.
        number: number of the first of them.
        begin: the file's begin timestamp in ms; its seconds count from there.
        heads: newest item of each slot, 0 for none; one entry for each hash slot. Updated for the items that match.
        key_hashes, key_offsets, key_times: hash, log offset and store time in ms of each key.

    Raises:
        ValueError: count or the range of keys is outside the arrays, or there are no slots.
    """
    slots: cython.longlong = len(heads)
    if slots < 1 or count < 0 or count > len(buf) // 20:
        raise ValueError("count must lie within the buffer, and slots be there")
    if start < 0 or end > len(key_hashes) or end > len(key_offsets) or end > len(key_times):
        raise ValueError("start and end must lie within the keys")
    if count == 0 or start >= end:
        return 0
    if end - start < count:
        count = end - start
    i: cython.longlong = 0
    ahead: cython.longlong = 0
    if cython.compiled:
        p: cython.pointer(cython.const[cython.uchar]) = cython.address(buf[0])
        hp: cython.pointer(cython.uchar) = cython.cast(cython.pointer(cython.uchar), cython.address(heads[0]))
    else:
        p, hp = buf, heads
    with cython.nogil:
        while i < count:
            while ahead < count and ahead < i + _AHEAD:
                prefetch_write(hp, 4 * ((key_hashes[start + ahead] & _MOST_SECONDS) % slots))
                ahead += 1
            seconds: cython.longlong = 0
            if begin > 0 and key_times[start + i] > begin:
                seconds = (key_times[start + i] - begin) // 1000
                if seconds > _MOST_SECONDS:
                    seconds = _MOST_SECONDS
            at: cython.longlong = 20 * i
            slot: cython.longlong = (key_hashes[start + i] & _MOST_SECONDS) % slots
            if (
                i32be(p, at) != key_hashes[start + i]
                or i64be(p, at + 4) != key_offsets[start + i]
                or i32be(p, at + 12) != seconds
                or i32be(p, at + 16) != heads[slot]
            ):
                break
            heads[slot] = cython.cast(cython.int, number + i)
            i += 1
    return i


def skip(
    buf: cython.const[cython.uchar][::1],
    count: cython.longlong,
    number: cython.longlong,
    heads: cython.int[::1],
    least: cython.longlong,
    until: cython.longlong,
):
    """Return how many of the next items are well chained, with log offsets in [least, until).

    Their log offsets must not decrease. Used for items whose records are gone, because their part of the log was
    deleted.

    Args:
        buf, count, number, heads: as for match.
        least: log offset of the item before, or 0.
        until: stop at the first item that points here or beyond.

    Raises:
        ValueError: count is outside the buffer, or there are no slots.
    """
    slots: cython.longlong = len(heads)
    if slots < 1 or count < 0 or count > len(buf) // 20:
        raise ValueError("count must lie within the buffer, and slots be there")
    if count == 0:
        return 0
    i: cython.longlong = 0
    p = bytes_of(buf)
    with cython.nogil:
        while i < count:
            at: cython.longlong = 20 * i
            key: cython.longlong = i32be(p, at)
            offset: cython.longlong = i64be(p, at + 4)
            if key < 0 or offset < least or offset >= until or i32be(p, at + 12) < 0:
                break
            if i32be(p, at + 16) != heads[key % slots]:
                break
            heads[key % slots] = cython.cast(cython.int, number + i)
            least = offset
            i += 1
    return i
