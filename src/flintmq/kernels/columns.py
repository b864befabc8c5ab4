# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Gather columns from validated records: fields out of the log, one output array after another.

The caller says in a plan which columns it wants and where in three output arrays they go (64-bit numbers, 32-bit
numbers and offsets, bytes). Records are taken in small blocks that stay in the nearest cache: first it is found out
where their parts lie, then one short loop a column runs over the block. Nothing is written outside a column's section:
a column whose section is full ends the call before that record, and the caller goes on with fresh arrays.

What is rare and long-winded is left to Python: the kernel writes nothing for that row (length 0) and notes it. Such are
text that is not UTF-8, property strings with a doubled name or more than 32 pairs, and IPv6 hosts.

The records have been walked, so their lengths add up; they are bounded here once more, because positions that do not
fit the buffer must not lead outside it. Layout of a record: store format 3.1, of its properties: 4.
"""

import cython

if not cython.compiled:
    from flintmq.kernels._plain import (
        copy_by_16,
        copy_bytes,
        first_non_ascii,
        i16be,
        i32be,
        i64be,
        lowest_bit,
        odd_bytes,
        same_bytes,
        u32be,
    )

# Kinds of columns, the first number of a plan row.
INT32 = 0  # a 32-bit field
INT64 = 1  # a 64-bit field
UINT32 = 2  # a 32-bit field without sign, as a 64-bit number
MICROSECONDS = 3  # a 64-bit field of ms as us; null outside the years 1 to 9999
MAGIC = 4  # V1 or V2
TOPIC = 5
BODY = 6
BORN_HOST = 7  # ip:port
STORE_HOST = 8
OFFSET_MSG_ID = 9  # upper-case hex of store host and physical offset
PROPERTIES = 10  # this row (number of pairs) and the five after it: NAMES, VALUES, TAGS, KEYS, UNIQ_KEY
NAMES = 11
VALUES = 12
TAGS = 13
KEYS = 14
UNIQ_KEY = 15

# A plan row: kind; position of the field in a record whose hosts are both IPv4 (PROPERTIES: how many pairs fit; any
# other of its rows: 1 if wanted); begin of its section among the 64-bit numbers; among the 32-bit numbers; among the
# bytes; end of the latter; begin of its validity bits among the bytes, or -1.
PLAN_ROW = 7

SLACK = 64  # bytes of a byte section that are never used for good: short texts are copied in steps of 16
BLOCK = 128  # records at a time
NOTES = 2048  # 64-bit numbers that `notes` must have room for
LEAST_RECORD = 91

ROWS_FULL = -1  # no room for more rows
NOTES_FULL = -2  # the notes have to be taken away first
DONE = -3

_YEAR_1_MS = cython.declare(cython.longlong, -62135596800000)
_YEAR_10000_MS = cython.declare(cython.longlong, 253402300800000)


def _locate(p, limit, positions, first, n, spans):
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


def _shift(where):
    """Which of a record's three begins a field is counted from: the hosts before it may be wider."""
    return 0 if where <= 48 else (1 if where <= 64 else 2)


def _numbers32(p, spans, n, where, out, to):
    shift: cython.longlong = _shift(where)
    i: cython.longlong
    for i in range(n):
        out[to + i] = i32be(p, spans[8 * i + shift] + where)


def _numbers64(p, spans, n, where, out, to):
    shift: cython.longlong = _shift(where)
    i: cython.longlong
    for i in range(n):
        out[to + i] = i64be(p, spans[8 * i + shift] + where)


def _unsigned32(p, spans, n, where, out, to):
    shift: cython.longlong = _shift(where)
    i: cython.longlong
    for i in range(n):
        out[to + i] = u32be(p, spans[8 * i + shift] + where)


def _set_bit(out, at, row, on):
    """Set or clear bit `row` of the bits that begin at out[at]."""
    spot: cython.longlong = at + (row >> 3)
    bit: cython.int = 1 << (row & 7)
    out[spot] = (out[spot] | bit) if on else (out[spot] & (255 - bit))


def _microseconds(p, spans, n, where, longs, to, out, bits, row):
    shift: cython.longlong = _shift(where)
    i: cython.longlong
    for i in range(n):
        ms: cython.longlong = i64be(p, spans[8 * i + shift] + where)
        known: cython.bint = _YEAR_1_MS <= ms and ms < _YEAR_10000_MS
        longs[to + i] = ms * 1000 if known else 0
        _set_bit(out, bits, row + i, known)


def _magic(p, spans, n, ints, to, out, start, room):
    used: cython.longlong = ints[to]
    i: cython.longlong
    for i in range(n):
        if used + 2 > room:
            return i
        out[start + used] = 86
        out[start + used + 1] = 49 if p[spans[8 * i] + 7] == 0xA7 else 50
        used += 2
        ints[to + i + 1] = used
    return n


def _copy(out, to, p, at, n, limit):
    """Copy n bytes; both sides may have more, out at least SLACK."""
    if n <= 128 and limit - at >= n + 16:
        copy_by_16(out, to, p, at, n)
    else:
        copy_bytes(out, to, p, at, n)


def _bodies(p, limit, spans, n, ints, to, out, start, room):
    used: cython.longlong = ints[to]
    i: cython.longlong
    for i in range(n):
        at: cython.longlong = spans[8 * i + 3]
        size: cython.longlong = spans[8 * i + 4] - at
        if used + size > room:
            return i
        _copy(out, start + used, p, at, size, limit)
        used += size
        ints[to + i + 1] = used
    return n


def _utf8(p, at, end):
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


def _note(notes, index, column):
    """Leave a row of a column to Python. notes[0] counts the numbers that follow it."""
    notes[notes[0] + 1] = index
    notes[notes[0] + 2] = column
    notes[0] += 2


def _topics(p, limit, spans, n, ints, to, out, start, room, notes, index, column):
    """Neighbours mostly have one topic, whose text is looked at once."""
    used: cython.longlong = ints[to]
    last: cython.longlong = 0
    last_size: cython.longlong = -1
    i: cython.longlong
    for i in range(n):
        at: cython.longlong = spans[8 * i + 5]
        size: cython.longlong = spans[8 * i + 6] - at
        if used + size > room:
            return i
        if size != last_size or not same_bytes(p, at, p, last, size):
            if first_non_ascii(p, at, at + size) != at + size and not _utf8(p, at, at + size):
                _note(notes, index + i, column)
                last_size = -1
                ints[to + i + 1] = used
                continue
            last = at
            last_size = size
        _copy(out, start + used, p, at, size, limit)
        used += size
        ints[to + i + 1] = used
    return n


def _decimal(out, at, value):
    """Write a number of 0 to 65535 in decimal; returns the position behind it."""
    unit: cython.int = 10000
    while unit > value and unit > 1:
        unit //= 10
    while unit > 0:
        out[at] = 48 + value // unit
        value %= unit
        unit //= 10
        at += 1
    return at


def _hosts(p, spans, n, where, ints, to, out, start, room, notes, index, column):
    """A host equal to the one before is copied from there."""
    used: cython.longlong = ints[to]
    shift: cython.longlong = _shift(where)
    last: cython.longlong = 0
    last_at: cython.longlong = -1
    last_size: cython.longlong = 0
    i: cython.longlong
    k: cython.longlong
    for i in range(n):
        if used + 21 > room:
            return i
        at: cython.longlong = spans[8 * i + shift] + where
        port: cython.longlong = i32be(p, at + 4)
        if spans[8 * i + shift + 1] != spans[8 * i + shift] or port < 0 or port > 65535:
            _note(notes, index + i, column)
            ints[to + i + 1] = used
            continue
        raw: cython.longlong = i64be(p, at)
        spot: cython.longlong = start + used
        if last_at >= 0 and raw == last:
            copy_by_16(out, spot, out, last_at, last_size)
        else:
            last = raw
            last_at = spot
            for k in range(4):
                spot = _decimal(out, spot, p[at + k])
                out[spot] = 46 if k < 3 else 58
                spot += 1
            last_size = _decimal(out, spot, cython.cast(cython.int, port)) - last_at
        used += last_size
        ints[to + i + 1] = used
    return n


def _hex(out, to, p, at, n):
    i: cython.longlong
    for i in range(n):
        high: cython.int = p[at + i] >> 4
        low: cython.int = p[at + i] & 15
        out[to + 2 * i] = high + (48 if high < 10 else 55)
        out[to + 2 * i + 1] = low + (48 if low < 10 else 55)


def _offset_ids(p, spans, n, ints, to, out, start, room):
    used: cython.longlong = ints[to]
    i: cython.longlong
    for i in range(n):
        host: cython.longlong = spans[8 * i + 1] + 64
        width: cython.longlong = 8 + spans[8 * i + 2] - spans[8 * i + 1]
        if used + 2 * width + 16 > room:
            return i
        _hex(out, start + used, p, host, width)
        _hex(out, start + used + 2 * width, p, spans[8 * i] + 28, 8)
        used += 2 * width + 16
        ints[to + i + 1] = used
    return n


def _marks(p, at, end, limit):
    """Bit i: p[at + i] is 01, 02 or not ASCII, for the up to 64 bytes of [at, end)."""
    marks: cython.ulonglong = 0
    one: cython.ulonglong = 1
    i: cython.longlong
    n: cython.longlong = end - at if end - at < 64 else 64
    if limit - at >= 64:
        marks = odd_bytes(p, at)
        if n < 64:
            marks &= (one << n) - 1
    else:
        for i in range(n):
            if p[at + i] >= 0x80 or p[at + i] == 1 or p[at + i] == 2:
                marks |= one << i
    return marks


def _split(p, at, end, limit, pairs):
    """Split a property string as Java does (store format 4).

    Three numbers a pair: begin and end of its name, end of its value. Returns how many pairs, or -1: not UTF-8, or more
    than 32.
    """
    count: cython.longlong = 0
    name: cython.longlong = at
    middle: cython.longlong = -1
    start: cython.longlong = at
    ascii: cython.bint = True
    while start < end:
        marks: cython.ulonglong = _marks(p, start, end, limit)
        while marks:
            spot: cython.longlong = start + lowest_bit(marks)
            marks &= marks - 1
            if p[spot] == 1:
                if middle < 0:
                    middle = spot
            elif p[spot] == 2:
                if name < middle and middle < spot - 1:
                    if count == 32:
                        return -1
                    pairs[3 * count] = name
                    pairs[3 * count + 1] = middle
                    pairs[3 * count + 2] = spot
                    count += 1
                name = spot + 1
                middle = -1
            else:
                ascii = False
        start += 64
    if name < middle and middle < end - 1:
        if count == 32:
            return -1
        pairs[3 * count] = name
        pairs[3 * count + 1] = middle
        pairs[3 * count + 2] = end
        count += 1
    if not ascii and not _utf8(p, at, end):
        return -1
    return count


def _doubled(p, pairs, count):
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


def _find(p, pairs, count, key):
    """The last pair named TAGS (key 0), KEYS (1) or UNIQ_KEY (2), or -1."""
    i: cython.longlong
    for i in range(count - 1, -1, -1):
        at: cython.longlong = pairs[3 * i]
        size: cython.longlong = pairs[3 * i + 1] - at
        if key < 2:
            if size == 4 and u32be(p, at) == (0x54414753 if key == 0 else 0x4B455953):
                return i
        elif size == 8 and u32be(p, at) == 0x554E4951 and u32be(p, at + 4) == 0x5F4B4559:
            return i
    return -1


def _properties(p, limit, spans, n, plan, column, row, ints, out, notes, index, pairs):
    """The row PROPERTIES of the plan stands at `column`, its five others behind it."""
    at_plan: cython.longlong = 7 * column
    map_wanted: cython.bint = plan[at_plan + 8] == 1
    most_pairs: cython.longlong = plan[at_plan + 1]
    entries: cython.longlong = plan[at_plan + 3]
    names: cython.longlong = plan[at_plan + 10]
    names_at: cython.longlong = plan[at_plan + 11]
    names_room: cython.longlong = plan[at_plan + 12] - names_at - 64
    values: cython.longlong = plan[at_plan + 17]
    values_at: cython.longlong = plan[at_plan + 18]
    values_room: cython.longlong = plan[at_plan + 19] - values_at - 64
    pair: cython.longlong = ints[entries + row] if map_wanted else 0
    names_used: cython.longlong = ints[names + pair] if map_wanted else 0
    values_used: cython.longlong = ints[values + pair] if map_wanted else 0
    i: cython.longlong
    k: cython.longlong
    for i in range(n):
        at: cython.longlong = spans[8 * i + 6] + 2
        end: cython.longlong = spans[8 * i + 7]
        count: cython.longlong = _split(p, at, end, limit, pairs)
        if count >= 0 and map_wanted and _doubled(p, pairs, count):
            count = -1
        if count < 0:
            _note(notes, index + i, column)
        if map_wanted:
            if count > most_pairs - pair or names_used + end - at > names_room or values_used + end - at > values_room:
                return i
            for k in range(count):
                name: cython.longlong = pairs[3 * k]
                middle: cython.longlong = pairs[3 * k + 1]
                stop: cython.longlong = pairs[3 * k + 2]
                _copy(out, names_at + names_used, p, name, middle - name, limit)
                names_used += middle - name
                _copy(out, values_at + values_used, p, middle + 1, stop - middle - 1, limit)
                values_used += stop - middle - 1
                pair += 1
                ints[names + pair] = names_used
                ints[values + pair] = values_used
            ints[entries + row + i + 1] = pair
        for k in range(3):
            if plan[at_plan + 22 + 7 * k] == 1 and not _property(
                p, limit, pairs, count, k, plan, at_plan + 21 + 7 * k, row + i, ints, out
            ):
                return i
    return n


def _property(p, limit, pairs, count, key, plan, at_plan, row, ints, out):
    """One row of the column TAGS, KEYS or UNIQ_KEY; False: no room."""
    to: cython.longlong = plan[at_plan + 3] + row
    start: cython.longlong = plan[at_plan + 4]
    used: cython.longlong = ints[to]
    found: cython.longlong = _find(p, pairs, count, key)
    size: cython.longlong = 0
    if found >= 0:
        at: cython.longlong = pairs[3 * found + 1] + 1
        size = pairs[3 * found + 2] - at
        if used + size > plan[at_plan + 5] - start - 64:
            return False
        _copy(out, start + used, p, at, size, limit)
    _set_bit(out, plan[at_plan + 6], row, found >= 0)
    ints[to + 1] = used + size
    return True


def _section_fault(plan, at, row, rows, longs, n_longs, n_ints, n_out, ints):
    """What is wrong with the sections of the plan row at plan[at]: 0 nothing, else an index into _FAULTS."""
    kind: cython.longlong = plan[at]
    if kind < 0 or kind > 15:
        return 1
    if kind < 4 and (plan[at + 1] < 0 or plan[at + 1] > 84):
        return 2
    if kind > 10 and plan[at + 1] == 0:
        return 0
    if kind == 11 or kind == 12:  # one entry a pair
        rows = plan[at - 7 * (kind - 10) + 1]
        row = ints[plan[at - 7 * (kind - 10) + 3] + row]
    if 1 <= kind and kind <= 3:
        if plan[at + 2] < 0 or plan[at + 2] > n_longs - rows:
            return 3
    elif plan[at + 3] < 0 or plan[at + 3] > n_ints - rows - 1:
        return 3
    room: cython.longlong = rows
    if kind > 3 and kind != 10:
        room = plan[at + 5] - plan[at + 4] - 64
        if plan[at + 4] < 0 or plan[at + 5] > n_out or room < 0 or room > 0x7FFFFF00:
            return 4
    if kind == 10:
        room = plan[at + 1]
    if kind > 3 and (ints[plan[at + 3] + row] < 0 or ints[plan[at + 3] + row] > room):
        return 5
    if (kind == 3 or kind > 12) and (plan[at + 6] < 0 or plan[at + 6] > n_out - (rows + 7) // 8):
        return 4
    return 0


_FAULTS = (
    "",
    "the plan has a row of no known kind",
    "the plan wants a field outside a record's header",
    "a column of numbers or offsets has no room",
    "a column of bytes has no room, or more than its offsets can tell",
    "the offsets of a column do not fit its section",
)


def _block(p, limit, spans, pairs, n, plan, columns, row, longs, ints, out, notes, index):
    """All columns of n located records. Returns (rows, column that is full or -3)."""
    full: cython.longlong = -3
    c: cython.longlong
    c = 0
    while c < columns:
        at: cython.longlong = 7 * c
        kind: cython.longlong = plan[at]
        field: cython.longlong = plan[at + 1]
        to: cython.longlong = plan[at + 3] + row
        start: cython.longlong = plan[at + 4]
        room: cython.longlong = plan[at + 5] - start - 64
        done: cython.longlong = n
        if kind == 0:
            _numbers32(p, spans, n, field, ints, to)
        elif kind == 1:
            _numbers64(p, spans, n, field, longs, plan[at + 2] + row)
        elif kind == 2:
            _unsigned32(p, spans, n, field, longs, plan[at + 2] + row)
        elif kind == 3:
            _microseconds(p, spans, n, field, longs, plan[at + 2] + row, out, plan[at + 6], row)
        elif kind == 4:
            done = _magic(p, spans, n, ints, to, out, start, room)
        elif kind == 5:
            done = _topics(p, limit, spans, n, ints, to, out, start, room, notes, index, c)
        elif kind == 6:
            done = _bodies(p, limit, spans, n, ints, to, out, start, room)
        elif kind == 7 or kind == 8:
            done = _hosts(p, spans, n, 48 if kind == 7 else 64, ints, to, out, start, room, notes, index, c)
        elif kind == 9:
            done = _offset_ids(p, spans, n, ints, to, out, start, room)
        elif kind == 10:
            done = _properties(p, limit, spans, n, plan, c, row, ints, out, notes, index, pairs)
            c += 5
        if done < n:
            n = done
            full = c
        c += 1
    return n, full


def gather(
    data: cython.const[cython.uchar][::1],
    positions: cython.longlong[::1],
    first: cython.longlong,
    last: cython.longlong,
    plan: cython.longlong[::1],
    row: cython.longlong,
    rows: cython.longlong,
    longs: cython.longlong[::1],
    ints: cython.int[::1],
    out: cython.uchar[::1],
    notes: cython.longlong[::1],
):
    """Append the records at positions[first:last] to the columns of a plan, from row `row` on.

    Args:
        data: bytes that hold the records.
        positions: where in data each record begins.
        first, last: which of the positions to take.
        plan: PLAN_ROW numbers a column, see above. Of PROPERTIES the five further rows follow, NAMES and VALUES both
            wanted or both not.
        row: rows that are there already; the offsets of each section up to and with [row] must have been written.
        rows: rows that every section has room for.
        longs, ints, out: the output arrays, none of them empty.
        notes: room for NOTES numbers or more. notes[0] tells how many follow: pairs of an index into positions and the
            number of a column, for what is left to Python. Those from index first + taken on are to be ignored.

    Returns:
        (taken, why): rows appended, and DONE, ROWS_FULL, NOTES_FULL or the number of the column whose section is full.

    Raises:
        ValueError: a position holds no record that lies within data, or the plan does not fit the arrays.
    """
    if first < 0 or last < first or last > len(positions) or row < 0 or rows < row or len(notes) < 2048:
        raise ValueError("first, last, row and rows must lie within their arrays")
    notes[0] = 0
    if first == last:
        return 0, -3
    limit: cython.longlong = len(data)
    if limit == 0 or len(plan) == 0 or len(plan) % 7 or len(longs) == 0 or len(ints) == 0 or len(out) == 0:
        raise ValueError("an array that must not be empty is empty")
    columns: cython.longlong = len(plan) // 7
    spans: cython.longlong[1024]
    pairs: cython.longlong[96]
    if cython.compiled:
        p: cython.pointer(cython.const[cython.uchar]) = cython.address(data[0])
        at: cython.pointer(cython.longlong) = cython.address(positions[0])
        layout: cython.pointer(cython.longlong) = cython.address(plan[0])
        to_longs: cython.pointer(cython.longlong) = cython.address(longs[0])
        to_ints: cython.pointer(cython.int) = cython.address(ints[0])
        to: cython.pointer(cython.uchar) = cython.address(out[0])
        left: cython.pointer(cython.longlong) = cython.address(notes[0])
    else:
        p, at, layout, to_longs, to_ints, to, left = data, positions, plan, longs, ints, out, notes
        spans, pairs = [0] * 1024, [0] * 96
    fault: cython.int = 0
    noting: cython.longlong = 0
    c: cython.longlong = 0
    while c < columns and not fault:
        fault = _section_fault(layout, 7 * c, row, rows, len(longs), len(ints), len(out), to_ints)
        noting += 1 if layout[7 * c] in (5, 7, 8, 10) else 0
        if layout[7 * c] == 10 and not _group(layout, 7 * c, columns):
    ...
