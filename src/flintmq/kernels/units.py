# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""From validated records to consume queue units and index keys: the two functions that make them.

`derive` reads each record once and gives its queue unit (store format 5, 6) and the hashes of its index keys (store
format 9). Dispatch, rebuild (local and on Spark) and verify all use it. What is rare it leaves to Python: it stops at
a record and says why (a queue it has not met, or a record that needs the slow way: batch queues, light queues, text
that is not UTF-8, a delay level that is no number).

Queues are known by number. The caller keeps the table: `names` holds topic bytes, `queues` eight int64 a queue
(0 where its topic begins in names, 1 bytes of the topic, 2 queue id, 3 hash, 4 Java hash of `topic#`, 5 kind),
`slots` is an open-addressed hash table of queue numbers (-1 empty, length a power of two).
"""

import cython

if not cython.compiled:
    from flintmq.kernels._plain import (
        find_either,
        first_non_ascii,
        hash_ascii,
        i16be,
        i32be,
        i64be,
        put32be,
        put64be,
        same_bytes,
        u32be,
    )

# Why derive stopped.
DONE = 0  # all records taken
NEW_QUEUE = 1  # the record's queue is not in the table
SPECIAL = 2  # the record needs the slow way
KEYS_FULL = 3  # the key arrays cannot take the record's keys

# Kinds of queues (column 5).
PLAIN = 0
SCHEDULE = 1  # SCHEDULE_TOPIC_XXXX: the tags code is a time of delivery
BATCH = 2  # BatchCQ: always the slow way

# Flags of derive.
INDEX = 1  # make index keys
TAG_KEYS = 2  # index tags too, as 5.4.0 does
LIGHT = 4  # stop at records that light queues (LMQ) take too

COLUMNS = 8  # int64 a queue in the table

_SCHEDULE = cython.declare(cython.longlong, 1)
_BATCH = cython.declare(cython.longlong, 2)
_NEW_QUEUE = cython.declare(cython.int, 1)
_SPECIAL = cython.declare(cython.int, 2)
_KEYS_FULL = cython.declare(cython.int, 3)
_UINT = cython.declare(cython.longlong, 0xFFFFFFFF)
_SIGN = cython.declare(cython.longlong, 0x80000000)
_WRAP = cython.declare(cython.longlong, 0x100000000)
_TAGS = cython.declare(cython.uint, 0x54414753)
_KEYS = cython.declare(cython.uint, 0x4B455953)
_UNIQ = cython.declare(cython.uint, 0x554E4951)
__KEY = cython.declare(cython.uint, 0x5F4B4559)
_DELA = cython.declare(cython.uint, 0x44454C41)
_INNER = cython.declare(cython.uint, 0x494E4E45)  # "INNE"


def hash_text(h, p, at, n):
    """Java's String.hashCode of UTF-8 text, continued from h: an unsigned 32-bit value, or -1 for malformed text."""
    end: cython.longlong = at + n
    i: cython.longlong = first_non_ascii(p, at, end)
    value: cython.uint = hash_ascii(h, p, at, i - at)
    c: cython.longlong
    more: cython.int
    least: cython.longlong
    while i < end:
        c = p[i]
        i += 1
        if c < 0x80:
            more = 0
            least = 0
        elif 0xC2 <= c <= 0xDF:
            more = 1
            least = 0x80
            c &= 0x1F
        elif 0xE0 <= c <= 0xEF:
            more = 2
            least = 0x800
            c &= 0x0F
        elif 0xF0 <= c <= 0xF4:
            more = 3
            least = 0x10000
            c &= 0x07
        else:
            return -1
        if i + more > end:
            return -1
        while more:
            if p[i] & 0xC0 != 0x80:
                return -1
            c = (c << 6) | (p[i] & 0x3F)
            i += 1
            more -= 1
        if c < least or c > 0x10FFFF or 0xD800 <= c <= 0xDFFF:
            return -1
        if c > 0xFFFF:  # two UTF-16 code units
            c -= 0x10000
            value = cython.cast(cython.uint, (value * 31 + 0xD800 + (c >> 10)) & _UINT)
            c = 0xDC00 + (c & 0x3FF)
        value = cython.cast(cython.uint, (value * 31 + c) & _UINT)
    return value


def find_queue(p, at_topic, topic, queue_id, slots, mask, queues, names):
    """Number of the queue in the table, or minus (free slot + 1)."""
    h: cython.longlong = slot_hash(p, at_topic, topic, queue_id)
    i: cython.longlong = h & mask
    q: cython.longlong
    while True:
        q = slots[i]
        if q < 0:
            return -i - 1
        if (
            queues[q * 8 + 3] == h
            and queues[q * 8 + 2] == queue_id
            and queues[q * 8 + 1] == topic
            and same_bytes(p, at_topic, names, queues[q * 8], topic)
        ):
            return q
        i = (i + 1) & mask


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def slot_hash(
    p: cython.pointer(cython.const[cython.uchar]),
    at_topic: cython.longlong,
    topic: cython.longlong,
    queue_id: cython.longlong,
) -> cython.longlong:
    """Where a queue stands in the slots."""
    h: cython.longlong = hash_ascii(0, p, at_topic, topic)
    h = ((h * 31 + queue_id) * 40503) & _UINT
    return h ^ (h >> 15)


def queue_hash(name: cython.const[cython.uchar][::1], queue_id: cython.longlong):
    """The hash (column 3) under which a queue stands in the slots."""
    if len(name) == 0:
        return slot_hash(cython.NULL if cython.compiled else b"", 0, 0, queue_id)
    return slot_hash(cython.address(name[0]) if cython.compiled else name, 0, len(name), queue_id)


def key_hash(h):
    """IndexFile.indexKeyHashMethod: the absolute value, 0 where that overflows."""
    if h < _SIGN:
        return h
    return 0 if h == _SIGN else _WRAP - h


def put_unit(to, at, physical_offset, size, tags_code):
    """The one place that makes a consume queue unit."""
    put64be(to, at, physical_offset)
    put32be(to, at + 8, size)
    put64be(to, at + 12, tags_code)


def unit(physical_offset: cython.longlong, size: cython.longlong, tags_code: cython.longlong) -> bytes:
    """One consume queue unit, 20 bytes."""
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
    """Queue units and index keys of the records positions[start:count].

    Args:
        buf, base, positions, count: records that kernels.walk has validated, all of them within buf.
        start: the first record to take.
        slots, queues, names: the table of known queues, see above.
        delays: ms of each delay level, level 1 first.
        flags: INDEX, TAG_KEYS, LIGHT.
        unit_queue, unit_offset, unit_time, unit_bytes: take per unit its queue's number, its queue offset, the record's
            store time in ms, and the 20 bytes. Room for one unit a record.
        units: units already there.
        key_hashes, key_offsets, key_times: take per index key its hash, the record's log offset and store time in ms.
        keys: keys already there.

    Returns:
        (next, why, units, keys): the first record not taken and the reason (DONE, NEW_QUEUE, SPECIAL, KEYS_FULL).

    Raises:
        ValueError: an array is too small, or a position lies outside the buffer.
    """
    n: cython.longlong = len(buf)
    room: cython.longlong = len(key_hashes)
    if (
        count > len(positions)
        or units + count - start > len(unit_queue)
        or len(unit_offset) < len(unit_queue)
        or len(unit_time) < len(unit_queue)
        or len(unit_bytes) < 20 * len(unit_queue)
        or len(key_offsets) < room
        or len(key_times) < room
    ):
        raise ValueError("an output array is too small")
    if start >= count:
        return start, DONE, units, keys
    if n == 0 or len(slots) == 0 or len(queues) < 8 or len(names) == 0 or len(unit_bytes) == 0:
        raise ValueError("an empty buffer")
    mask: cython.longlong = len(slots) - 1
    levels: cython.longlong = len(delays)
    i: cython.longlong = start
    why: cython.int = 0
    # of the record
    at: cython.longlong
    size: cython.longlong
    hosts: cython.longlong
    sys_flag: cython.int
    at_topic: cython.longlong
    topic: cython.longlong
    end: cython.longlong
    time: cython.longlong
    queue_id: cython.longlong
    q: cython.longlong
    last_q: cython.longlong = -1
    # of its properties
    a: cython.longlong
    b: cython.longlong
    k: cython.longlong
    name: cython.uint
    tags_at: cython.longlong
    tags_n: cython.longlong
    keys_at: cython.longlong
    keys_n: cython.longlong
    uniq_at: cython.longlong
    uniq_n: cython.longlong
    delay_at: cython.longlong
    delay_n: cython.longlong
    light: cython.bint
    first_key: cython.longlong
    code: cython.longlong
    h: cython.longlong
    if cython.compiled:
        p: cython.pointer(cython.const[cython.uchar]) = cython.address(buf[0])
        sp: cython.pointer(cython.const[cython.int]) = cython.address(slots[0])
        qp: cython.pointer(cython.const[cython.longlong]) = cython.address(queues[0])
        np: cython.pointer(cython.const[cython.uchar]) = cython.address(names[0])
        up: cython.pointer(cython.uchar) = cython.address(unit_bytes[0])
    else:
        p, sp, qp, np, up = buf, slots, queues, names, unit_bytes
    with cython.nogil:
        while i < count:
            at = positions[i]
            # The walker has checked all this; checked again, a wrong position is an error and not a wild read.
            if at < 0 or n - at < 91:
                why = -1
                break
            size = i32be(p, at)
            sys_flag = i32be(p, at + 36)
            hosts = 16 + (12 if sys_flag & 16 else 0) + (12 if sys_flag & 32 else 0)
            if size < 75 + hosts or size > n - at:
                why = -1
                break
            k = i32be(p, at + 68 + hosts)
            if k < 0 or k > size - 75 - hosts:
                why = -1
                break
            at_topic = at + 72 + hosts + k
            if p[at + 7] == 0xA7:
                topic = p[at_topic]
                at_topic += 1
            else:
                topic = i16be(p, at_topic)
                at_topic += 2
            end = at + size
            if topic < 0 or at_topic + topic + 2 > end:
                why = -1
                break
            queue_id = i32be(p, at + 12)
            time = i64be(p, at + (68 if sys_flag & 16 else 56))

            # The queue: mostly that of the record before, or one that the table finds.
            q = last_q
            if (
                q < 0
                or qp[q * 8 + 2] != queue_id
                or qp[q * 8 + 1] != topic
                or not same_bytes(p, at_topic, np, qp[q * 8], topic)
            ):
                q = find_queue(p, at_topic, topic, queue_id, sp, mask, qp, np)
                if q < 0:
                    why = _NEW_QUEUE
                    break
                last_q = q
            if qp[q * 8 + 5] == _BATCH:
                why = _SPECIAL
                break

            # Properties, exactly as Java splits them (store format 4); of doubled names the last wins.
            tags_at = tags_n = keys_at = keys_n = uniq_at = uniq_n = delay_at = delay_n = 0
            light = False
            a = at_topic + topic + 2
            while end - a >= 3:
                k = find_either(p, a, end, 1, 2)
                b = find_either(p, k, end, 2, 2)
                if k > a and k < b - 1 and k - a >= 4:
                    name = u32be(p, a)
                    if k - a == 4:
                        if name == _TAGS:
                            tags_at = k + 1
                            tags_n = b - k - 1
                        elif name == _KEYS:
                            keys_at = k + 1
                            keys_n = b - k - 1
                    elif k - a == 8:
                        if name == _UNIQ and u32be(p, a + 4) == __KEY:
                            uniq_at = k + 1
                            uniq_n = b - k - 1
                    elif k - a == 5:
                        if name == _DELA and p[a + 4] == 89:
                            delay_at = k + 1
                            delay_n = b - k - 1
                    elif k - a == 20 and name == _INNER:
                        light = True
                a = b + 1
            if light and flags & 4:
                why = _SPECIAL
                break

            first_key = keys
            if flags & 1 and sys_flag & 12 != 12:
                if keys + 2 + (keys_n + 1) // 2 > room:
                    why = _KEYS_FULL
                    break
                if uniq_n:
                    h = hash_text(cython.cast(cython.uint, qp[q * 8 + 4]), p, uniq_at, uniq_n)
                    if h < 0:
                        keys = first_key
                        why = _SPECIAL
                        break
                    key_hashes[keys] = cython.cast(cython.int, key_hash(h))
                    keys += 1
                a = keys_at
                while a < keys_at + keys_n:
                    b = a
                    while b < keys_at + keys_n and p[b] != 32:
                        b += 1
                    if b > a:
                        h = hash_text(cython.cast(cython.uint, qp[q * 8 + 4]), p, a, b - a)
                        if h < 0:
                            break
                        key_hashes[keys] = cython.cast(cython.int, key_hash(h))
                        keys += 1
                    a = b + 1
                if a < keys_at + keys_n:
                    keys = first_key
                    why = _SPECIAL
                    break
                if flags & 2 and tags_n:
                    # "T#" before the tags: 84 * 31 + 35 behind two more steps of the hash.
                    h = cython.cast(cython.longlong, (qp[q * 8 + 4] * 961 + 84 * 31 + 35) & _UINT)
                    h = hash_text(cython.cast(cython.uint, h), p, tags_at, tags_n)
                    if h < 0:
                        keys = first_key
                        why = _SPECIAL
                        break
                    key_hashes[keys] = cython.cast(cython.int, key_hash(h))
                    keys += 1

            if sys_flag & 12 == 0 or sys_flag & 12 == 8:
                code = 0
                if delay_n and qp[q * 8 + 5] == _SCHEDULE:
                    h = 0  # the level
                    if delay_n > 9:
                        h = -1
                    for k in range(delay_at, delay_at + delay_n):
                        if h >= 0:
                            h = h * 10 + p[k] - 48 if 48 <= p[k] <= 57 else -1
                    if h < 0:
                        keys = first_key
                        why = _SPECIAL
                        break
                    if h > levels:
                        h = levels
                    if h > 0:
                        code = time + delays[h - 1]
                        tags_n = 0
                if tags_n:
                    h = hash_text(0, p, tags_at, tags_n)
                    if h < 0:
                        keys = first_key
                        why = _SPECIAL
                        break
                    code = h if h < _SIGN else h - _WRAP
                unit_queue[units] = cython.cast(cython.int, q)
                unit_offset[units] = i64be(p, at + 20)
                unit_time[units] = time
                put_unit(up, units * 20, base + at, size, code)
                units += 1
            for k in range(first_key, keys):
                key_offsets[k] = base + at
                key_times[k] = time
            i += 1
    if why < 0:
        raise ValueError(f"position {at} holds no validated record")
    return i, why, units, keys
