# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Derives consume queue units and index keys from validated records.

`derive` reads each record once and makes its queue unit (docs/internals/format/consume-queue.md) and the hashes of its
index keys (docs/internals/format/index.md). Dispatch, rebuild (local and on Spark) and verify all use it. Rare cases
are left to Python: it stops at a record and returns the reason (a queue that is not in the table, or a record that
needs the slow way: batch queues, light queues, text that is not UTF-8, a delay level that is no number).

Queues are known by number. The caller keeps the table: `names` holds topic bytes, `queues` eight int64 for each queue
(the columns QUEUE_* of derive.pxd), `slots` is an open-addressed hash table of queue numbers (-1 empty, length a power
of two).
"""

import os

import cython

if not cython.compiled:
    from flintmq.kernels._plain import (
        bytes_of,
        const_ints_of,
        const_longs_of,
        find_either,
        first_non_ascii,
        hash_ascii,
        hash_if_ascii,
        i32be,
        i64be,
        ints_of,
        longs_of,
        prefetch_lines,
        put32be,
        put64be,
        room_of,
        same_bytes,
        seeded_hash,
        u32be,
    )
    from flintmq.kernels.read.property_shapes import forget, split_like
    from flintmq.kernels.read.record_parts import (
        NAMED_KEYS,
        NAMED_KEYS_END,
        NAMED_TAGS,
        NAMED_TAGS_END,
        NAMED_UNIQUE,
        NAMED_UNIQUE_END,
        SPAN_BORN,
        SPAN_END,
        SPAN_RECORD,
        SPAN_TOPIC,
        SPAN_TOPIC_END,
        locate,
    )

    # Columns of the table of queues; compiled they come from derive.pxd.
    QUEUE_NAME, QUEUE_NAME_SIZE, QUEUE_ID, QUEUE_HASH, QUEUE_KEY_PREFIX, QUEUE_KIND = range(6)

# Why derive stopped.
DONE = 0  # all records taken
NEW_QUEUE = 1  # the record's queue is not in the table
SPECIAL = 2  # the record needs the slow way
KEYS_FULL = 3  # the key arrays cannot take the record's keys

# Kinds of queues (column QUEUE_KIND).
PLAIN = 0
SCHEDULE = 1  # SCHEDULE_TOPIC_XXXX: the tags code is a time of delivery
BATCH = 2  # BatchCQ: always the slow way

# Flags of derive.
INDEX = 1  # make index keys
TAG_KEYS = 2  # index tags too, as 5.4.0 does
LMQ = 4  # stop at records that are also dispatched to light queues (LMQ)

COLUMNS = 8  # int64 of each queue in the table

_AHEAD = cython.declare(cython.longlong, 6)  # records: prefetch distance
_HEAD = cython.declare(cython.longlong, 128)  # bytes read at the beginning of a record
_TAIL = cython.declare(cython.longlong, 192)  # bytes read at its end, after the body: mostly topic and properties
_SCHEDULE = cython.declare(cython.longlong, 1)
_BATCH = cython.declare(cython.longlong, 2)
_NEW_QUEUE = cython.declare(cython.int, 1)
_SPECIAL = cython.declare(cython.int, 2)
_KEYS_FULL = cython.declare(cython.int, 3)
# Random for each process, so that no log can be made to crowd one slot.
_SEED = cython.declare(cython.ulonglong, int.from_bytes(os.urandom(8), "big"))
_SECRET = cython.declare(cython.ulonglong, int.from_bytes(os.urandom(8), "big") | 1)
_UINT = cython.declare(cython.longlong, 0xFFFFFFFF)
_SIGN = cython.declare(cython.longlong, 0x80000000)
_WRAP = cython.declare(cython.longlong, 0x100000000)
_DELA = cython.declare(cython.uint, 0x44454C41)
_INNER = cython.declare(cython.uint, 0x494E4E45)  # "INNE"


def hash_text(h, p, at, n):
    """Continue Java's String.hashCode from h over well-formed UTF-8; unsigned 32 bits."""
    value: cython.longlong = hash_if_ascii(cython.cast(cython.uint, h), p, at, n)
    if value >= 0:
        return value
    end: cython.longlong = at + n
    i: cython.longlong = first_non_ascii(p, at, end)
    value = hash_ascii(cython.cast(cython.uint, h), p, at, i - at)
    while i < end:
        c: cython.longlong = p[i]
        i += 1
        if c >= 0x80:
            more: cython.int = 1 if c < 0xE0 else (2 if c < 0xF0 else 3)
            c &= 0x3F >> more
            while more and i < end:
                c = (c << 6) | (p[i] & 0x3F)
                i += 1
                more -= 1
        if c > 0xFFFF:  # two UTF-16 code units
            c -= 0x10000
            value = (value * 31 + 0xD800 + (c >> 10)) & _UINT
            c = 0xDC00 + (c & 0x3FF)
        value = (value * 31 + c) & _UINT
    return value


def delay_of(p, pairs, first, count, move, levels):
    """Return the delay level in the property DELAY, at most `levels`.

    0 without the property, -1 if it is no plain number.
    """
    level: cython.longlong = 0
    i: cython.longlong
    for i in range(count):
        at: cython.longlong = pairs[first + 3 * i] + move
        if pairs[first + 3 * i + 1] + move - at != 5 or u32be(p, at) != _DELA or p[at + 4] != 89:
            continue
        level = 0
        at += 6
        end: cython.longlong = pairs[first + 3 * i + 2] + move
        if end - at > 9:
            return -1
        while at < end:
            if p[at] < 48 or p[at] > 57:
                return -1
            level = level * 10 + p[at] - 48
            at += 1
    return levels if level > levels else level


def names_lmq(p, pairs, first, count, move):
    """Return whether there may be a property of light queues.

    That is INNER_MULTI_DISPATCH: a name of 20 bytes that begins with INNE.
    """
    i: cython.longlong
    for i in range(first, first + 3 * count, 3):
        if pairs[i + 1] - pairs[i] == 20 and u32be(p, pairs[i] + move) == _INNER:
            return True
    return False


def put_keys(p, prefix, named, tag_keys, hashes, keys):
    """Write the hashes of a record's index keys from hashes[keys] on; return their new number.

    The keys are UNIQ_KEY, each of KEYS, and with `tag_keys` the tags.

    Args:
        prefix: Java hash of `topic#`.
        named: begin and end of the values of TAGS, KEYS and UNIQ_KEY.
        tag_keys: enter the tags too, as 5.4.0 does.
    """
    if named[NAMED_UNIQUE_END] > named[NAMED_UNIQUE]:
        hashes[keys] = cython.cast(
            cython.int,
            key_hash(hash_text(prefix, p, named[NAMED_UNIQUE], named[NAMED_UNIQUE_END] - named[NAMED_UNIQUE])),
        )
        keys += 1
    a: cython.longlong = named[NAMED_KEYS]
    while a < named[NAMED_KEYS_END]:
        b: cython.longlong = find_either(p, a, named[NAMED_KEYS_END], 32, 32)
        if b > a:
            hashes[keys] = cython.cast(cython.int, key_hash(hash_text(prefix, p, a, b - a)))
            keys += 1
        a = b + 1
    if tag_keys and named[NAMED_TAGS_END] > named[NAMED_TAGS]:
        # "T#" before the tags: two more steps of the hash.
        prefix = (prefix * 961 + 84 * 31 + 35) & _UINT
        hashes[keys] = cython.cast(
            cython.int, key_hash(hash_text(prefix, p, named[NAMED_TAGS], named[NAMED_TAGS_END] - named[NAMED_TAGS]))
        )
        keys += 1
    return keys


def find_queue(p, at_topic, topic, queue_id, slots, mask, queues, names):
    """Return the number of the queue in the table, or minus (free slot + 1)."""
    h: cython.longlong = seeded_hash(p, at_topic, topic, queue_id, _SEED, _SECRET)
    i: cython.longlong = h & mask
    while True:
        q: cython.longlong = slots[i]
        if q < 0:
            return -i - 1
        if (
            queues[q * 8 + QUEUE_HASH] == h
            and queues[q * 8 + QUEUE_ID] == queue_id
            and queues[q * 8 + QUEUE_NAME_SIZE] == topic
            and same_bytes(p, at_topic, names, queues[q * 8 + QUEUE_NAME], topic)
        ):
            return q
        i = (i + 1) & mask


def queue_hash(name: cython.const[cython.uchar][::1], queue_id: cython.longlong):
    """Return the hash (column QUEUE_HASH) of a queue."""
    return seeded_hash(bytes_of(name), 0, len(name), queue_id, _SEED, _SECRET)


def key_hash(h):
    """Return the absolute value of a hash, 0 if that overflows (IndexFile.indexKeyHashMethod)."""
    if h < _SIGN:
        return h
    return 0 if h == _SIGN else _WRAP - h


def put_unit(to, at, physical_offset, size, tags_code):
    """Write a consume queue unit; no other function makes one."""
    put64be(to, at, physical_offset)
    put32be(to, at + 8, size)
    put64be(to, at + 12, tags_code)


def unit(physical_offset: cython.longlong, size: cython.longlong, tags_code: cython.longlong) -> bytes:
    """Encode one consume queue unit, 20 bytes."""
    out = bytearray(20)
    view: cython.uchar[::1] = out
    put_unit(cython.address(view[0]) if cython.compiled else out, 0, physical_offset, size, tags_code)
    return bytes(out)


def derive(
    buf: cython.const[cython.uchar][::1],
    base: cython.longlong,
    positions: cython.longlong[::1],
    start: cython.longlong,
    count: cython.longlong,
    slots: cython.const[cython.int][::1],
    queues: cython.const[cython.longlong][::1],
    names: cython.const[cython.uchar][::1],
    delays: cython.const[cython.longlong][::1],
    flags: cython.int,
    unit_queue: cython.int[::1],
    unit_offset: cython.longlong[::1],
    unit_time: cython.longlong[::1],
    unit_bytes: cython.uchar[::1],
    units: cython.longlong,
    key_hashes: cython.int[::1],
    key_offsets: cython.longlong[::1],
    key_times: cython.longlong[::1],
    keys: cython.longlong,
):
    """Derive the queue units and index keys of the records positions[start:count].

    Args:
        buf, base, positions, count: records that kernels.read.walk has validated, all of them within buf.
        start: the first record to take.
        slots, queues, names: the table of known queues, described above.
        delays: ms of each delay level, level 1 first.
        flags: INDEX, TAG_KEYS, LMQ.
        unit_queue, unit_offset, unit_time, unit_bytes: receive for each unit the number of its queue, its queue offset,
            the record's store time in ms, and the 20 bytes. Room for one unit a record.
        units: number of units already there.
        key_hashes, key_offsets, key_times: receive for each index key its hash, the record's log offset and store time
            in ms.
        keys: number of keys already there.

    Returns:
        (next, why, units, keys): the first record not taken and the reason (DONE, NEW_QUEUE, SPECIAL, KEYS_FULL).

    Raises:
        ValueError: an array is too small, or a position is outside the buffer.
    """
    n: cython.longlong = len(buf)
    room: cython.longlong = len(key_hashes)
    if start < 0 or units < 0 or keys < 0:
        raise ValueError("start, units and keys must not be negative")
    if (
        count > len(positions)
        or keys > room
        or units > len(unit_queue)
        or count - start > len(unit_queue) - units
        or len(unit_offset) < len(unit_queue)
        or len(unit_time) < len(unit_queue)
        or len(unit_bytes) < 20 * len(unit_queue)
        or len(key_offsets) < room
        or len(key_times) < room
    ):
        raise ValueError("an output array is too small")
    if start >= count:
        return start, DONE, units, keys
    if min(n, len(slots), len(queues) // 8, len(names), len(unit_bytes), room) == 0:
        raise ValueError("an empty buffer")
    mask: cython.longlong = len(slots) - 1
    levels: cython.longlong = len(delays)
    i: cython.longlong = start
    why: cython.int = 0
    q: cython.longlong = -1
    pairs: cython.longlong
    spans = cython.declare(cython.longlong[8])
    first_pair: cython.longlong
    move: cython.longlong
    split_pairs = cython.declare(cython.longlong[864])
    named = cython.declare(cython.longlong[6])
    known = cython.declare(cython.longlong[128])
    recent = cython.declare(cython.longlong[64])
    near: cython.longlong
    p, at, sp, qp = bytes_of(buf), longs_of(positions), const_ints_of(slots), const_longs_of(queues)
    np, up, kp = bytes_of(names), room_of(unit_bytes), ints_of(key_hashes)
    for near in range(64):
        recent[near] = -1
    forget(known)
    with cython.nogil:
        while i < count:
            if i + _AHEAD < count:  # the head of a record to come, and the tail of the one before it
                k: cython.longlong = at[i + _AHEAD]
                if _TAIL <= k <= n - _HEAD:
                    prefetch_lines(p, k - _TAIL, _TAIL + _HEAD)
            if locate(p, n, at, i, 1, spans) == 0:
                why = -1
                break
            record: cython.longlong = spans[SPAN_RECORD]
            sys_flag: cython.int = i32be(p, record + 36)
            queue_id: cython.longlong = i32be(p, record + 12)
            time: cython.longlong = i64be(p, spans[SPAN_BORN] + 56)
            topic: cython.longlong = spans[SPAN_TOPIC_END] - spans[SPAN_TOPIC]

            # Most records belong to a queue that an earlier record of this call had; the table finds the others.
            near = (queue_id * 5 + topic + (p[spans[SPAN_TOPIC_END] - 1] if topic else 0)) & 63
            q = recent[near]
            if (
                q < 0
                or qp[q * 8 + QUEUE_ID] != queue_id
                or qp[q * 8 + QUEUE_NAME_SIZE] != topic
                or not same_bytes(p, spans[SPAN_TOPIC], np, qp[q * 8 + QUEUE_NAME], topic)
            ):
                q = find_queue(p, spans[SPAN_TOPIC], topic, queue_id, sp, mask, qp, np)
                if q < 0:
                    why = _NEW_QUEUE
                    break
                recent[near] = q
            pairs, first_pair, move = split_like(
                p, spans[SPAN_TOPIC_END] + 2, spans[SPAN_END], n, False, split_pairs, named, 0, known
            )
            if (
                qp[q * 8 + QUEUE_KIND] == _BATCH
                or pairs < 0
                or (flags & 4 and names_lmq(p, split_pairs, first_pair, pairs, move))
            ):
                why = _SPECIAL
                break
            code: cython.longlong = 0
            if qp[q * 8 + QUEUE_KIND] == _SCHEDULE:
                code = delay_of(p, split_pairs, first_pair, pairs, move, levels)
                if code < 0:
                    why = _SPECIAL
                    break
                if code > 0:
                    code = time + delays[code - 1]
            first_key: cython.longlong = keys
            if flags & 1 and sys_flag & 12 != 12:
                if keys + 2 + (named[NAMED_KEYS_END] - named[NAMED_KEYS] + 1) // 2 > room:
                    why = _KEYS_FULL
                    break
                keys = put_keys(p, qp[q * 8 + QUEUE_KEY_PREFIX], named, flags & 2, kp, keys)
                for k in range(first_key, keys):
                    key_offsets[k] = base + record
                    key_times[k] = time
            if sys_flag & 12 == 0 or sys_flag & 12 == 8:
                if code == 0 and named[NAMED_TAGS_END] > named[NAMED_TAGS]:
                    code = hash_text(0, p, named[NAMED_TAGS], named[NAMED_TAGS_END] - named[NAMED_TAGS])
                    if code >= _SIGN:
                        code -= _WRAP
                unit_queue[units] = cython.cast(cython.int, q)
                unit_offset[units] = i64be(p, record + 20)
                unit_time[units] = time
                put_unit(up, units * 20, base + record, spans[SPAN_END] - record, code)
                units += 1
            i += 1
    if why < 0:
        raise ValueError(f"position {positions[i]} holds no validated record")
    return i, why, units, keys
