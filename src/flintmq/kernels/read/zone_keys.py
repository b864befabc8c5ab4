# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Sums up zones of a log for zone maps, and finds the records that have a key, and texts.

A zone's topics, keys and unique keys are hashed and set as bits in blocks of a Bloom filter: a hash chooses one block
of 64 bytes and 6 bits of its first 480; the last four bytes are the block's CRC-32. So one read of 64 bytes answers
whether a zone may have a key, and a damaged block is not believed. Bytes: docs/internals/format/zone-map.md.
"""

import cython

if not cython.compiled:
    from flintmq.kernels._plain import (
        bytes_of,
        crc32_of,
        find_bytes,
        i64be,
        longs_of,
        put32be,
        room_of,
        same_bytes,
        seeded_hash,
    )
    from flintmq.kernels.read.record_parts import (
        NAMED_KEYS,
        NAMED_KEYS_END,
        NAMED_UNIQUE,
        NAMED_UNIQUE_END,
        SPAN_BORN,
        SPAN_END,
        SPAN_TOPIC,
        SPAN_TOPIC_END,
        locate,
        split,
    )

    # Columns of a zone's state; compiled they come from zone_keys.pxd.
    _USED, _FIRST_TIME, _LAST_TIME, _ODD, _RECORDS, _RECENT = range(6)

# Columns of a zone's state.
USED = 0  # hashes so far
FIRST_TIME = 1  # store time of its first record
LAST_TIME = 2  # store time of its last record
ODD = 3  # 1: store times decrease, or properties that only Python can split; such a zone is always read
RECORDS = 4
STATE = 5 + 256  # the rest: -1 - h of recent hashes h of topics, which need not be added again

_SEED = cython.declare(cython.ulonglong, 0x9E3779B97F4A7C15)  # part of the format, as are the next two
_TOPIC_SEED = cython.declare(cython.ulonglong, 0xC2B2AE3D27D4EB4F)
_SECRET = cython.declare(cython.ulonglong, 0xD6E8FEB86659FD93)
_POSITIVE = cython.declare(cython.ulonglong, 0x7FFFFFFFFFFFFFFF)
_SPACE = cython.declare(cython.uchar, 32)


def bit_of(h, number):
    """Return the position of one of the bits of a hash within its block."""
    a: cython.ulonglong = h & 0xFFFF
    b: cython.ulonglong = ((h >> 16) & 0xFFFF) | 1
    return (((a + number * b) & 0xFFFF) * 480) >> 16


def block_of(h, blocks):
    """Return the number of the block of a hash."""
    return ((h >> 32) * blocks) >> 31


def take(
    data: cython.const[cython.uchar][::1],
    positions: cython.longlong[::1],
    first: cython.longlong,
    end: cython.longlong,
    state: cython.longlong[::1],
    hashes: cython.longlong[::1],
):
    """Add records to a zone; return the index of the first that was not added.

    Args:
        data: bytes that hold the records.
        positions: position of each record in data; positions[first:end] are added.
        first, end: see positions.
        state: STATE numbers, columns above; zeros at the begin of a zone.
        hashes: receives hashes of topics and keys. The call ends early where a record's may not find room.

    Raises:
        ValueError: a position holds no record within data, or a number does not fit its array.
    """
    if first < 0 or end < first or end > len(positions) or len(state) < 261:
        raise ValueError("first and end must lie within positions, in this order")
    room: cython.longlong = len(hashes)
    limit: cython.longlong = len(data)
    if first == end or limit == 0 or room == 0:
        return first
    used: cython.longlong = state[0]
    if used < 0 or used > room:
        raise ValueError("the state does not fit the hashes")
    spans = cython.declare(cython.longlong[8])
    pairs = cython.declare(cython.longlong[96])
    named = cython.declare(cython.longlong[6])
    p, at, zone, to = bytes_of(data), longs_of(positions), longs_of(state), longs_of(hashes)
    lost: cython.bint = False
    h: cython.longlong
    i: cython.longlong
    with cython.nogil:
        while first < end:
            if locate(p, limit, at, first, 1, spans) == 0:
                lost = True
                break
            if room - used < 3 + (spans[SPAN_END] - spans[SPAN_TOPIC_END]) // 2:
                break
            time: cython.longlong = i64be(p, spans[SPAN_BORN] + 56)
            if zone[_RECORDS] == 0:
                zone[_FIRST_TIME] = time
            elif time < zone[_LAST_TIME]:
                zone[_ODD] = 1
            zone[_LAST_TIME] = time
            zone[_RECORDS] += 1
            h = seeded_hash(p, spans[SPAN_TOPIC], spans[SPAN_TOPIC_END] - spans[SPAN_TOPIC], 0, _TOPIC_SEED, _SECRET)
            if zone[_RECENT + (h & 255)] != -1 - h:
                zone[_RECENT + (h & 255)] = -1 - h
                to[used] = h
                used += 1
            if split(p, spans[SPAN_TOPIC_END] + 2, spans[SPAN_END], limit, pairs, named, 0) < 0:
                zone[_ODD] = 1
            if named[NAMED_UNIQUE_END] > named[NAMED_UNIQUE]:
                begin: cython.longlong = named[NAMED_UNIQUE]
                to[used] = seeded_hash(p, begin, named[NAMED_UNIQUE_END] - begin, 0, _SEED, _SECRET)
                used += 1
            begin = named[NAMED_KEYS]
            for i in range(named[NAMED_KEYS], named[NAMED_KEYS_END] + 1):
                if i == named[NAMED_KEYS_END] or p[i] == _SPACE:
                    if i > begin:
                        to[used] = seeded_hash(p, begin, i - begin, 0, _SEED, _SECRET)
                        used += 1
                    begin = i + 1
            first += 1
        zone[_USED] = used
    if lost:
        raise ValueError(f"no whole record at position {positions[first]} of the buffer")
    return first


def fill(hashes: cython.longlong[::1], count: cython.longlong, blocks: cython.uchar[::1]):
    """Set the bits of hashes in blocks that are zero, and write the checksum of each block.

    Args:
        hashes: hashes[:count] are used; none is negative.
        count: see hashes.
        blocks: whole blocks, at least one.

    Raises:
        ValueError: the numbers do not fit the arrays.
    """
    many: cython.longlong = len(blocks) // 64
    if count < 0 or count > len(hashes) or many == 0 or len(blocks) != 64 * many or many > 0x7FFFFFFF:
        raise ValueError("count must lie within hashes, and blocks be whole")
    i: cython.longlong
    k: cython.longlong
    to = room_of(blocks)
    with cython.nogil:
        for i in range(count):
            h: cython.ulonglong = cython.cast(cython.ulonglong, hashes[i]) & _POSITIVE
            base: cython.longlong = 64 * block_of(h, many)
            for k in range(6):
                bit: cython.longlong = bit_of(h, k)
                to[base + (bit >> 3)] = to[base + (bit >> 3)] | cython.cast(cython.uchar, 1 << (bit & 7))
        for i in range(many):
            put32be(to, 64 * i + 60, crc32_of(to, 64 * i, 60))


def may_have(block: cython.const[cython.uchar][::1], h: cython.longlong):
    """Return whether a zone may have a hash; False only if its block proves that it has not.

    Raises:
        ValueError: the block has not 64 bytes.
    """
    if len(block) != 64:
        raise ValueError("a block has 64 bytes")
    p = bytes_of(block)
    sum: cython.ulonglong = crc32_of(p, 0, 60)
    if (
        p[60] != ((sum >> 24) & 255)
        or p[61] != ((sum >> 16) & 255)
        or p[62] != ((sum >> 8) & 255)
        or p[63] != (sum & 255)
    ):
        return True
    k: cython.longlong
    for k in range(6):
        bit: cython.longlong = bit_of(h, k)
        if not p[bit >> 3] & (1 << (bit & 7)):
            return False
    return True


def key_hash(text: bytes, topic: cython.bint = False):
    """Return the hash of a key or unique key, or of a topic; below 2^63."""
    return seeded_hash(text, 0, len(text), 0, _TOPIC_SEED if topic else _SEED, _SECRET)


def hash_texts(
    data: cython.const[cython.uchar][::1], ends: cython.const[cython.int][::1], hashes: cython.longlong[::1]
):
    """Write the hash of each text, as `key_hash` returns it.

    Args:
        data: the texts, one after another; at least one byte.
        ends: where the first begins, and where each ends.
        hashes: receives as many hashes as there are texts.

    Raises:
        ValueError: a text is not within data, or the numbers do not fit.
    """
    limit: cython.longlong = len(data)
    count: cython.longlong = len(hashes)
    if len(ends) != count + 1 or limit == 0:
        raise ValueError("ends must be one longer than hashes, and data not be empty")
    i: cython.longlong
    at: cython.longlong = ends[0]
    p = bytes_of(data)
    lost: cython.bint = at < 0
    with cython.nogil:
        for i in range(count):
            end: cython.longlong = ends[i + 1]
            if lost or end < at or end > limit:
                lost = True
                break
            hashes[i] = seeded_hash(p, at, end - at, 0, _SEED, _SECRET)
            at = end
    if lost:
        raise ValueError("a text is not within data")


def block_number(h: cython.longlong, blocks: cython.longlong):
    """Return the number of the block, of `blocks`, of a hash.

    Raises:
        ValueError: the numbers are out of range.
    """
    if h < 0 or blocks < 1 or blocks > 0x7FFFFFFF:
        raise ValueError("a hash is not negative, and there are 1 to 2^31 - 1 blocks")
    return block_of(h, blocks)


def keyed(
    data: cython.const[cython.uchar][::1],
    positions: cython.longlong[::1],
    count: cython.longlong,
    key: cython.const[cython.uchar][::1],
):
    """Move the positions of records that may have a key to the front; return their number.

    Those are records whose unique key it is, that have it among their keys, or whose properties only Python can split.

    Args:
        data: bytes that hold the records.
        positions: positions[:count] are examined.
        count: see positions.
        key: UTF-8, not empty.

    Raises:
        ValueError: a position holds no record within data, the key is empty, or count does not fit.
    """
    limit: cython.longlong = len(data)
    size: cython.longlong = len(key)
    if count < 0 or count > len(positions) or size == 0:
        raise ValueError("count must lie within positions, and the key not be empty")
    if count == 0 or limit == 0:
        return 0
    spans = cython.declare(cython.longlong[8])
    pairs = cython.declare(cython.longlong[96])
    named = cython.declare(cython.longlong[6])
    p, at, wanted = bytes_of(data), longs_of(positions), bytes_of(key)
    kept: cython.longlong = 0
    read: cython.longlong = 0
    i: cython.longlong
    lost: cython.bint = False
    with cython.nogil:
        while read < count:
            if locate(p, limit, at, read, 1, spans) == 0:
                lost = True
                break
            has: cython.bint = split(p, spans[SPAN_TOPIC_END] + 2, spans[SPAN_END], limit, pairs, named, 0) < 0
            begin: cython.longlong = named[NAMED_UNIQUE]
            if named[NAMED_UNIQUE_END] - begin == size and same_bytes(p, begin, wanted, 0, size):
                has = True
            begin = named[NAMED_KEYS]
            if not has and named[NAMED_KEYS_END] - begin >= size:
                for i in range(begin, named[NAMED_KEYS_END] + 1):
                    if i == named[NAMED_KEYS_END] or p[i] == _SPACE:
                        if i - begin == size and same_bytes(p, begin, wanted, 0, size):
                            has = True
                            break
                        begin = i + 1
            if has:
                at[kept] = at[read]
                kept += 1
            read += 1
    if lost:
        raise ValueError(f"no whole record at position {positions[read]} of the buffer")
    return kept


def find(
    data: cython.const[cython.uchar][::1],
    at: cython.longlong,
    end: cython.longlong,
    text: cython.const[cython.uchar][::1],
):
    """Return the first position in data[at:end] where a text begins that ends there too, or -1.

    Raises:
        ValueError: at and end are not within data, or the text is empty.
    """
    if at < 0 or end < at or end > len(data) or len(text) == 0:
        raise ValueError("at and end must lie within data, and the text not be empty")
    if at == end:
        return -1
    return find_bytes(bytes_of(data), at, end, bytes_of(text), len(text))
