# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Locates the parts of validated records, for all kernels that read them.

The records have been walked, so their lengths add up; they are bounded once more here, because positions that do not
belong to the buffer must not lead outside it. Bytes: docs/internals/format/commit-log.md and properties.md.
"""

import cython

if not cython.compiled:  # compiled these constants come from record_parts.pxd
    SPAN_RECORD, SPAN_BORN, SPAN_BOTH, SPAN_BODY, SPAN_BODY_END, SPAN_TOPIC, SPAN_TOPIC_END, SPAN_END = range(8)
    NAMED_TAGS, NAMED_TAGS_END, NAMED_KEYS, NAMED_KEYS_END, NAMED_UNIQUE, NAMED_UNIQUE_END = range(6)

    from flintmq.kernels._plain import bytes_of, i16be, i32be, longs_of, lowest_bit, odd_bytes, same_bytes, u32be

MOST_PAIRS = 32  # a property string with more pairs is left to Python


def locate(p, limit, positions, first, n, spans):
    """Locate the parts of n records; return n, or the index of the first that is no record.

    Eight numbers for each record go to `spans`, the columns SPAN_* of record_parts.pxd. A record that goes beyond the
    buffer is none. The properties begin 2 bytes after the topic.
    """
    i: cython.longlong
    for i in range(n):
        at: cython.longlong = positions[first + i]
        if at < 0 or limit - at < 91:
            return i
        size: cython.longlong = i32be(p, at)
        if size < 91 or size > limit - at or p[at + 4] != 0xDA or p[at + 5] != 0xA3 or p[at + 6] != 0x20:
            return i
        wide: cython.longlong = 1 if p[at + 7] == 0xAB else 0
        if wide == 0 and p[at + 7] != 0xA7:
            return i
        born: cython.longlong = at + (12 if p[at + 39] & 16 else 0)
        both: cython.longlong = born + (12 if p[at + 39] & 32 else 0)
        room: cython.longlong = size - 91 - (both - at) - wide
        if room < 0:
            return i
        body: cython.longlong = i32be(p, both + 84)
        if body < 0 or body > room:
            return i
        topic_at: cython.longlong = both + 88 + body
        topic: cython.longlong = i16be(p, topic_at) if wide else p[topic_at]
        if topic < 0 or topic > room - body:
            return i
        topic_at += 1 + wide
        if i16be(p, topic_at + topic) != room - body - topic:
            return i
        spans[8 * i + SPAN_RECORD] = at
        spans[8 * i + SPAN_BORN] = born
        spans[8 * i + SPAN_BOTH] = both
        spans[8 * i + SPAN_BODY] = both + 88
        spans[8 * i + SPAN_BODY_END] = both + 88 + body
        spans[8 * i + SPAN_TOPIC] = topic_at
        spans[8 * i + SPAN_TOPIC_END] = topic_at + topic
        spans[8 * i + SPAN_END] = at + size
    return n


def is_utf8(p, at, end):
    """Return whether p[at:end] is well-formed UTF-8.

    Unicode, table 3-7: no surrogates, no forms longer than needed.
    """
    while at < end:
        lead: cython.int = p[at]
        if lead < 0x80:
            at += 1
            continue
        if lead < 0xC2 or lead > 0xF4:
            return False
        more: cython.int = 1 if lead < 0xE0 else (2 if lead < 0xF0 else 3)
        if end - at <= more:
            return False
        low: cython.int = 0xA0 if lead == 0xE0 else (0x90 if lead == 0xF0 else 0x80)
        high: cython.int = 0x9F if lead == 0xED else (0x8F if lead == 0xF4 else 0xBF)
        if p[at + 1] < low or p[at + 1] > high:
            return False
        i: cython.int
        for i in range(2, more + 1):
            if p[at + i] & 0xC0 != 0x80:
                return False
        at += more + 1
    return True


def close_pair(p, name, middle, stop, pairs, count, named, to):
    """Store the part p[name:stop], with its 01 at `middle`, as a pair, unless Java drops it.

    Returns the new number of pairs, or -1 if there is no room for it.
    """
    if middle <= name or middle >= stop - 1:
        return count
    if count == 32:
        return -1
    pairs[3 * count] = name
    pairs[3 * count + 1] = middle
    pairs[3 * count + 2] = stop
    key: cython.longlong = -1
    if middle - name == 4:
        if u32be(p, name) == 0x54414753:  # TAGS
            key = NAMED_TAGS
        elif u32be(p, name) == 0x4B455953:  # KEYS
            key = NAMED_KEYS
    elif middle - name == 8 and u32be(p, name) == 0x554E4951 and u32be(p, name + 4) == 0x5F4B4559:
        key = NAMED_UNIQUE
    if key >= 0:
        named[to + key] = middle + 1
        named[to + key + 1] = stop
    return count + 1


def split(p, at, end, limit, pairs, named, to):
    """Split a property string as Java does.

    Three numbers for each pair: begin and end of its name, end of its value. Begin and end of the values of TAGS, KEYS
    and UNIQ_KEY go to named[to:to + 6]; if a name occurs twice, the last one counts; both are 0 if there is none.

    Returns the number of pairs, or -1 (and nothing named): not UTF-8, or more than 32.
    """
    count: cython.longlong = 0
    name: cython.longlong = at
    middle: cython.longlong = -1
    start: cython.longlong
    ascii: cython.bint = True
    one: cython.ulonglong = 1
    k: cython.longlong
    for k in range(6):
        named[to + k] = 0
    for start in range(at, end, 64):
        if limit - start >= 64:
            marks: cython.ulonglong = odd_bytes(p, start)
        else:  # near the end of the buffer
            marks = 0
            for k in range(limit - start):
                if p[start + k] >= 0x80 or p[start + k] == 1 or p[start + k] == 2:
                    marks |= one << k
        if end - start < 64:
            marks &= (one << (end - start)) - 1
        while marks:
            spot: cython.longlong = start + lowest_bit(marks)
            marks &= marks - 1
            if p[spot] == 1:
                if middle < 0:
                    middle = spot
            elif p[spot] == 2:
                count = close_pair(p, name, middle, spot, pairs, count, named, to)
                if count < 0:
                    break
                name = spot + 1
                middle = -1
            else:
                ascii = False
        if count < 0:
            break
    if count >= 0:
        count = close_pair(p, name, middle, end, pairs, count, named, to)
    if count >= 0 and not ascii and not is_utf8(p, at, end):
        count = -1
    if count < 0:
        for k in range(6):
            named[to + k] = 0
    return count


def doubled(p, pairs, count):
    """Return whether two pairs have the same name.

    64 bits, set by length, first and last byte, spare most comparisons.
    """
    seen: cython.ulonglong = 0
    one: cython.ulonglong = 1
    i: cython.longlong
    k: cython.longlong
    for i in range(count):
        at: cython.longlong = pairs[3 * i]
        size: cython.longlong = pairs[3 * i + 1] - at
        bit: cython.ulonglong = one << ((size * 5 + p[at] + 3 * p[at + size - 1]) & 63)
        if seen & bit:
            for k in range(i):
                if pairs[3 * k + 1] - pairs[3 * k] == size and same_bytes(p, pairs[3 * k], p, at, size):
                    return True
        seen |= bit
    return False


def split_properties(
    data: cython.const[cython.uchar][::1], at: cython.longlong, end: cython.longlong, pairs: cython.longlong[::1]
):
    """Split the property string data[at:end]; for tests and single records.

    Args:
        data: a buffer that contains the string.
        at, end: begin and end of the string.
        pairs: receives begin and end of the name and end of the value of each pair; the value begins one byte after the
            end of the name. The six numbers after 3 * MOST_PAIRS are begin and end of the values of TAGS, KEYS and
            UNIQ_KEY, 0 if there is none.

    Returns:
        (number of pairs, whether two have the same name); -1 pairs if there are more than MOST_PAIRS, or text that is
        not UTF-8.

    Raises:
        ValueError: at and end are not within data, or pairs is too short.
    """
    if at < 0 or end < at or end > len(data) or len(pairs) < 102:
        raise ValueError("at and end must lie within data, and pairs must have room for 102 numbers")
    if at == end:
        return 0, False
    p, to = bytes_of(data), longs_of(pairs)
    count: cython.longlong = split(p, at, end, len(data), to, to, 96)
    return count, bool(doubled(p, to, count))
