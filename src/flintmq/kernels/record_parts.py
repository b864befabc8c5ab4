# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Where the parts of a record lie: what `gather` and `select` both need to know of validated records.

The records have been walked, so their lengths add up; they are bounded here once more, because positions that do not
fit the buffer must not lead outside it. Layout of a record: store format 3.1, of its properties: 4.
"""

import cython

if not cython.compiled:
    from flintmq.kernels._plain import i16be, i32be, lowest_bit, odd_bytes, same_bytes, u32be

MOST_PAIRS = 32  # a property string with more of them is left to Python


def locate(p, limit, positions, first, n, spans):
    """Find the parts of n records. Returns n, or the index of the first that is no record within the buffer.

    Eight numbers a record: its begin; the same moved by what an IPv6 born host adds; by what both hosts add; begin and
    end of the body; of the topic; end of the record. The properties lie 2 bytes behind the topic.
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
        spans[8 * i] = at
        spans[8 * i + 1] = born
        spans[8 * i + 2] = both
        spans[8 * i + 3] = both + 88
        spans[8 * i + 4] = both + 88 + body
        spans[8 * i + 5] = topic_at
        spans[8 * i + 6] = topic_at + topic
        spans[8 * i + 7] = at + size
    return n


def is_utf8(p, at, end):
    """Whether p[at:end] is well-formed UTF-8 (Unicode, table 3-7: no surrogates, no longer forms than needed)."""
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
    """Take the part p[name:stop] with its 01 at `middle` as pair number `count`, unless Java drops it.

    Returns how many pairs there are then, or -1 where there is no room for it.
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
        key = 0 if u32be(p, name) == 0x54414753 else (2 if u32be(p, name) == 0x4B455953 else -1)  # TAGS, KEYS
    elif middle - name == 8 and u32be(p, name) == 0x554E4951 and u32be(p, name + 4) == 0x5F4B4559:
        key = 4  # UNIQ_KEY
    if key >= 0:
        named[to + key] = middle + 1
        named[to + key + 1] = stop
    return count + 1


def split(p, at, end, limit, pairs, named, to):
    """Split a property string as Java does (store format 4).

    Three numbers a pair: begin and end of its name, end of its value. Begin and end of the values of TAGS, KEYS and
    UNIQ_KEY go to named[to:to + 6]; the last one of a name counts; both 0 where there is none.

    Returns how many pairs, or -1 (and nothing named): not UTF-8, or more than 32.
    """
    count: cython.longlong = 0
    name: cython.longlong = at
    middle: cython.longlong = -1
    start: cython.longlong
    ascii: cython.bint = True
    marks: cython.ulonglong
    one: cython.ulonglong = 1
    k: cython.longlong
    for k in range(6):
        named[to + k] = 0
    for start in range(at, end, 64):
        if limit - start >= 64:
            marks = odd_bytes(p, start)
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
    """Whether two pairs have one name. Names of another length, begin or end are told apart by 64 bits."""
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
    """Split the property string data[at:end]; for tests and for single records.

    Args:
        data: bytes around the string.
        at, end: where the string begins and ends.
        pairs: takes begin and end of the name and end of the value of each pair; the value begins one byte behind the
            name's end. The six numbers behind 3 * MOST_PAIRS tell begin and end of the
            values of TAGS, KEYS and UNIQ_KEY, 0 where there is none.

    Returns:
        (pairs found, whether two have one name); -1 pairs where there are more than MOST_PAIRS, or text that is not
        UTF-8.

    Raises:
        ValueError: at and end are not within data, or pairs is too short.
    """
    if at < 0 or end < at or end > len(data) or len(pairs) < 102:
        raise ValueError("at and end must lie within data, and pairs must have room for 102 numbers")
    if at == end:
        return 0, False
    if cython.compiled:
        p: cython.pointer(cython.const[cython.uchar]) = cython.address(data[0])
        to: cython.pointer(cython.longlong) = cython.address(pairs[0])
    else:
        p, to = data, pairs
    count: cython.longlong = split(p, at, end, len(data), to, to, 96)
    return count, bool(doubled(p, to, count))
