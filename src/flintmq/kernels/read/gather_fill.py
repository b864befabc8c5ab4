# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Fills columns for `gather`: one loop for each kind of column, over a block of records.

Each loop takes the spans of n records (record_parts.locate) and appends one value for each record to the column's
section. The loops of text return the number of rows that had room. `start` and `room` are the begin and the size of the
section's bytes in `out` (without SLACK), `to` is the position of its offsets. Values left to Python are noted and get
no bytes.
"""

import cython

if not cython.compiled:
    from flintmq.kernels._plain import (
        all_ascii,
        copy_by_32,
        copy_bytes,
        i32be,
        i64be,
        put_hex8,
        put_host4,
        same_bytes,
        u32be,
    )
    from flintmq.kernels.read.property_shapes import split_like
    from flintmq.kernels.read.record_parts import (
        SPAN_BODY,
        SPAN_BODY_END,
        SPAN_BORN,
        SPAN_BOTH,
        SPAN_END,
        SPAN_RECORD,
        SPAN_TOPIC,
        SPAN_TOPIC_END,
        is_utf8,
    )

    # Columns of a plan row; compiled they come from gather_fill.pxd.
    PLAN_KIND, PLAN_FIELD, PLAN_LONGS, PLAN_INTS, PLAN_BYTES, PLAN_BYTES_END, PLAN_BITS = range(7)

_YEAR_1_MS = cython.declare(cython.longlong, -62135596800000)
_YEAR_10000_MS = cython.declare(cython.longlong, 253402300800000)


def _shift(where):
    """Return which of a record's three begins a field is counted from.

    The hosts before the field may be wider than IPv4.
    """
    return SPAN_RECORD if where <= 48 else (SPAN_BORN if where <= 64 else SPAN_BOTH)


def numbers32(p, spans, n, where, out, to):
    """Copy a 32-bit field; `where` is its position in a record with two IPv4 hosts."""
    shift: cython.longlong = _shift(where)
    i: cython.longlong
    for i in range(n):
        out[to + i] = i32be(p, spans[8 * i + shift] + where)


def numbers64(p, spans, n, where, out, to):
    """Copy a 64-bit field."""
    shift: cython.longlong = _shift(where)
    i: cython.longlong
    for i in range(n):
        out[to + i] = i64be(p, spans[8 * i + shift] + where)


def unsigned32(p, spans, n, where, out, to):
    """Copy an unsigned 32-bit field as a 64-bit number."""
    shift: cython.longlong = _shift(where)
    i: cython.longlong
    for i in range(n):
        out[to + i] = u32be(p, spans[8 * i + shift] + where)


def _set_bit(out, at, row, on):
    """Set or clear bit `row` of the bits that begin at out[at]."""
    spot: cython.longlong = at + (row >> 3)
    bit: cython.int = 1 << (row & 7)
    out[spot] = (out[spot] | bit) if on else (out[spot] & (255 - bit))


def microseconds(p, spans, n, where, longs, to, out, bits, row):
    """Convert a time in ms to us; null outside the years that Spark supports."""
    shift: cython.longlong = _shift(where)
    i: cython.longlong
    for i in range(n):
        ms: cython.longlong = i64be(p, spans[8 * i + shift] + where)
        known: cython.bint = _YEAR_1_MS <= ms and ms < _YEAR_10000_MS
        longs[to + i] = ms * 1000 if known else 0
        _set_bit(out, bits, row + i, known)


def magic(p, spans, n, ints, to, out, start, room):
    """Write `V1` or `V2`."""
    used: cython.longlong = ints[to]
    i: cython.longlong
    for i in range(n):
        if used + 2 > room:
            return i
        out[start + used] = 86
        out[start + used + 1] = 49 if p[spans[8 * i + SPAN_RECORD] + 7] == 0xA7 else 50
        used += 2
        ints[to + i + 1] = used
    return n


def _copy(out, to, p, at, n, limit):
    """Copy n bytes, short texts in whole steps, which is faster.

    `out` has SLACK bytes more, p perhaps not.
    """
    if n <= 64 and limit - at >= 96:
        copy_by_32(out, to, p, at, n)
    else:
        copy_bytes(out, to, p, at, n)


def _note(notes, index, column):
    """Leave a row of a column to Python. notes[0] counts the numbers that follow it."""
    notes[notes[0] + 1] = index
    notes[notes[0] + 2] = column
    notes[0] += 2


def bodies(p, limit, spans, n, leave, ints, to, out, start, room, notes, index, column):
    """Copy bodies; with `leave`, compressed ones are noted."""
    used: cython.longlong = ints[to]
    i: cython.longlong
    for i in range(n):
        if leave and p[spans[8 * i + SPAN_RECORD] + 39] & 1:
            _note(notes, index + i, column)
            ints[to + i + 1] = used
            continue
        at: cython.longlong = spans[8 * i + SPAN_BODY]
        size: cython.longlong = spans[8 * i + SPAN_BODY_END] - at
        if used + size > room:
            return i
        _copy(out, start + used, p, at, size, limit)
        used += size
        ints[to + i + 1] = used
    return n


def topics(p, limit, spans, n, ints, to, out, start, room, notes, index, column):
    """Copy topics; the text of neighbours with the same topic is validated once."""
    used: cython.longlong = ints[to]
    last: cython.longlong = 0
    last_size: cython.longlong = -1
    i: cython.longlong
    for i in range(n):
        at: cython.longlong = spans[8 * i + SPAN_TOPIC]
        size: cython.longlong = spans[8 * i + SPAN_TOPIC_END] - at
        if used + size > room:
            return i
        if size != last_size or not same_bytes(p, at, p, last, size):
            if not all_ascii(p, at, size) and not is_utf8(p, at, at + size):
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


def hosts(p, spans, n, where, ints, to, out, start, room, notes, index, column):
    """Write hosts as text; a host equal to the one before is copied from there."""
    used: cython.longlong = ints[to]
    last: cython.longlong = 0
    size: cython.longlong = -1
    shift: cython.longlong = _shift(where)
    i: cython.longlong
    for i in range(n):
        if used > room - 24:
            return i
        at: cython.longlong = spans[8 * i + shift] + where
        if spans[8 * i + shift + 1] != spans[8 * i + shift] or p[at + 4] or p[at + 5]:
            _note(notes, index + i, column)  # IPv6, or a port of more than 16 bits
            size = -1
            ints[to + i + 1] = used
            continue
        if size >= 0 and i64be(p, at) == last:
            copy_by_32(out, start + used, out, start + used - size, size)
        else:
            last = i64be(p, at)
            size = put_host4(out, start + used, p, at) - start - used
        used += size
        ints[to + i + 1] = used
    return n


def offset_ids(p, spans, n, ints, to, out, start, room):
    """Write store host and physical offset in hexadecimal digits."""
    used: cython.longlong = ints[to]
    i: cython.longlong
    for i in range(n):
        host: cython.longlong = spans[8 * i + SPAN_BORN] + 64
        width: cython.longlong = 8 + spans[8 * i + SPAN_BOTH] - spans[8 * i + SPAN_BORN]
        if used + 2 * width + 16 > room:
            return i
        if width == 20:  # eight bytes at a time, the last step overlaps the one before
            put_hex8(out, start + used, p, host)
            put_hex8(out, start + used + 16, p, host + 8)
        put_hex8(out, start + used + 2 * width - 16, p, host + width - 8)
        put_hex8(out, start + used + 2 * width, p, spans[8 * i + SPAN_RECORD] + 28)
        used += 2 * width + 16
        ints[to + i + 1] = used
    return n


def properties(p, limit, spans, n, plan, at_plan, row, ints, out, notes, index, pairs, named, known):
    """Split the properties of n records and fill the map if it is wanted.

    `named` receives the positions of the values of TAGS, KEYS and UNIQ_KEY.
    """
    wanted: cython.bint = plan[at_plan + 7 + PLAN_FIELD] == 1
    room: cython.longlong = plan[at_plan + PLAN_FIELD]
    entries: cython.longlong = plan[at_plan + PLAN_INTS] + row
    names: cython.longlong = plan[at_plan + 7 + PLAN_INTS]
    names_at: cython.longlong = plan[at_plan + 7 + PLAN_BYTES]
    names_room: cython.longlong = plan[at_plan + 7 + PLAN_BYTES_END] - names_at - 64
    values: cython.longlong = plan[at_plan + 7 * 2 + PLAN_INTS]
    values_at: cython.longlong = plan[at_plan + 7 * 2 + PLAN_BYTES]
    values_room: cython.longlong = plan[at_plan + 7 * 2 + PLAN_BYTES_END] - values_at - 64
    pair: cython.longlong = ints[entries] if wanted else 0
    names_used: cython.longlong = ints[names + pair] if wanted else 0
    values_used: cython.longlong = ints[values + pair] if wanted else 0
    count: cython.longlong
    first: cython.longlong
    move: cython.longlong
    i: cython.longlong
    k: cython.longlong
    for i in range(n):
        at: cython.longlong = spans[8 * i + SPAN_TOPIC_END] + 2
        end: cython.longlong = spans[8 * i + SPAN_END]
        count, first, move = split_like(p, at, end, limit, wanted, pairs, named, 6 * i, known)
        if count < 0:
            _note(notes, index + i, at_plan // 7)
            count = 0
        if not wanted:
            continue
        if count > room - pair or names_used + end - at > names_room or values_used + end - at > values_room:
            return i
        for k in range(first, first + 3 * count, 3):
            name: cython.longlong = pairs[k] + move
            middle: cython.longlong = pairs[k + 1] + move
            stop: cython.longlong = pairs[k + 2] + move
            _copy(out, names_at + names_used, p, name, middle - name, limit)
            names_used += middle - name
            _copy(out, values_at + values_used, p, middle + 1, stop - middle - 1, limit)
            values_used += stop - middle - 1
            pair += 1
            ints[names + pair] = names_used
            ints[values + pair] = values_used
        ints[entries + i + 1] = pair
    return n


def named_values(p, limit, n, named, key, ints, to, out, start, room, bits, row):
    """Fill the column TAGS (key 0), KEYS (1) or UNIQ_KEY (2) with a value of `split`, or null."""
    used: cython.longlong = ints[to]
    i: cython.longlong
    for i in range(n):
        at: cython.longlong = named[6 * i + 2 * key]
        size: cython.longlong = named[6 * i + 2 * key + 1] - at
        if used + size > room:
            return i
        _copy(out, start + used, p, at, size, limit)
        _set_bit(out, bits, row + i, size > 0)
        used += size
        ints[to + i + 1] = used
    return n
