# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Gathers columns from validated records: fields of the log, one output array after another.

The caller's plan names the columns and their sections in three output arrays (64-bit numbers, 32-bit numbers and
offsets, bytes). Records are taken in small blocks that stay in the nearest cache: first their parts are located, then
one short loop for each column runs over the block. Nothing is written outside a column's section: a column whose
section is full ends the call before that record, and the caller continues with fresh arrays.

Rare and slow cases are left to Python: the kernel writes nothing for that row (length 0) and notes it. These are text
that is not UTF-8, property strings with a doubled name or more than 32 pairs, and IPv6 hosts.
"""

import cython

if not cython.compiled:
    from flintmq.kernels._plain import bytes_of, ints_of, longs_of, room_of
    from flintmq.kernels.read.gather_fill import (
        PLAN_BITS,
        PLAN_BYTES,
        PLAN_BYTES_END,
        PLAN_FIELD,
        PLAN_INTS,
        PLAN_KIND,
        PLAN_LONGS,
        bodies,
        hosts,
        magic,
        microseconds,
        named_values,
        numbers32,
        numbers64,
        offset_ids,
        properties,
        topics,
        unsigned32,
    )
    from flintmq.kernels.read.gather_views import (
        body_views,
        host_codes,
        magic_codes,
        named_views,
        property_views,
        topic_codes,
    )
    from flintmq.kernels.read.property_shapes import forget
    from flintmq.kernels.read.record_parts import SPAN_RECORD, locate

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
BODY_VIEW = 16
TOPIC_CODE = 17
BORN_HOST_CODE = 18
STORE_HOST_CODE = 19
MAGIC_CODE = 20  # 0 for V1, 1 for V2
PROPERTY_VIEWS = 21  # as PROPERTIES: this row and the five after it
NAME_VIEWS = 22
VALUE_VIEWS = 23
TAGS_VIEW = 24
KEYS_VIEW = 25
UNIQ_KEY_VIEW = 26

# Columns of a plan row (PLAN_* of gather_fill.pxd): kind; field (the position in a record whose hosts are both IPv4; of
# BODY 1 if compressed bodies are left to Python; of PROPERTIES the number of pairs that fit; of its other rows 1 if
# they are wanted); begin of the section among the 64-bit numbers; among the 32-bit numbers; among the bytes; end of the
# latter; begin of the validity bits among the bytes.
# Views (four 32-bit numbers each; of BODY_VIEW, PROPERTY_VIEWS and the five rows after it) have instead of a section
# among the 64-bit numbers the position in data where the buffer that they refer to begins, and instead of one among the
# bytes the number of that buffer. Codes (of TOPIC_CODE and hosts) have the keys of their dictionary among the 64-bit
# numbers, its texts among the bytes, instead of validity bits its hash table among the 32-bit numbers, and as field the
# size of that table (gather_views.MOST_BITS).
PLAN_ROW = 7

SLACK = 64  # bytes at the end of a byte section that hold no value: short texts are copied in whole steps
BLOCK = 128  # records at a time
NOTES = 2048  # 64-bit numbers that `notes` must have room for

ROWS_FULL = -1  # no room for further rows
NOTES_FULL = -2  # the caller must take the notes first
DONE = -3


def _group_fault(plan, at, columns):
    """Return 1 unless the five rows of properties follow, names and values both wanted or not."""
    k: cython.longlong
    if at + 42 > 7 * columns or plan[at + PLAN_FIELD] < 0 or plan[at + 7 + PLAN_FIELD] != plan[at + 7 * 2 + PLAN_FIELD]:
        return 1
    for k in range(1, 6):
        if plan[at + 7 * k] != plan[at] + k or plan[at + 7 * k + PLAN_FIELD] < 0 or plan[at + 7 * k + PLAN_FIELD] > 1:
            return 1
    return 0


def _code_fault(plan, at, n_longs, n_ints, n_out):
    """Return the fault of a dictionary's sections, whose sizes gather_views.py names."""
    bits: cython.longlong = plan[at + PLAN_FIELD]
    if bits < 1 or bits > 13:
        return 2
    one: cython.longlong = 1
    most: cython.longlong = one << (bits - 1)
    if plan[at + PLAN_LONGS] < 0 or plan[at + PLAN_LONGS] > n_longs - most - 1:
        return 3
    if plan[at + PLAN_BITS] < 0 or plan[at + PLAN_BITS] > n_ints - 3 * most - 1:
        return 3
    room: cython.longlong = plan[at + PLAN_BYTES_END] - plan[at + PLAN_BYTES] - 64
    if plan[at + PLAN_BYTES] < 0 or plan[at + PLAN_BYTES_END] > n_out or room < 0 or room > 0x7FFFFF00:
        return 4
    return 0


def _view_fault(plan, at, columns, row, rows, n_longs, n_ints, n_out, ints):
    """Return the fault of a plan row of views or codes."""
    kind: cython.longlong = plan[at + PLAN_KIND]
    group: cython.longlong = at - 7 * (kind - 21)
    if kind > 26 or (kind > 21 and (group < 0 or plan[group] != 21)) or plan[at + PLAN_INTS] < 0:
        return 1
    if 17 <= kind and kind <= 20:
        if plan[at + PLAN_INTS] > n_ints - rows:
            return 3
        return 0 if kind == 20 else _code_fault(plan, at, n_longs, n_ints, n_out)
    if plan[at + PLAN_LONGS] < 0 or plan[at + PLAN_BYTES] < 0 or plan[at + PLAN_BYTES] > 0x7FFFFFFF:
        return 6
    if kind == 21:
        if _group_fault(plan, at, columns):
            return 1
        if plan[at + 7 + PLAN_FIELD] == 0:
            return 0
        if plan[at + PLAN_INTS] > n_ints - rows - 1:
            return 3
        pair: cython.longlong = ints[plan[at + PLAN_INTS] + row]
        return 5 if pair < 0 or pair > plan[at + PLAN_FIELD] else 0
    if kind > 21 and plan[at + PLAN_FIELD] == 0:
        return 0
    if kind == 22 or kind == 23:  # these have an entry a pair, not one a row
        rows = plan[group + PLAN_FIELD]
    if rows > 0x7FFFFFFF or plan[at + PLAN_INTS] > n_ints - 4 * rows:
        return 3
    if kind > 23 and (plan[at + PLAN_BITS] < 0 or plan[at + PLAN_BITS] > n_out - (rows + 7) // 8):
        return 4
    return 0


def _fault(plan, at, columns, row, rows, n_longs, n_ints, n_out, ints):
    """Return the fault of the plan row at plan[at] and its sections: an index into _FAULTS."""
    kind: cython.longlong = plan[at + PLAN_KIND]
    group: cython.longlong = at - 7 * (kind - 10)
    if kind > 15:
        return _view_fault(plan, at, columns, row, rows, n_longs, n_ints, n_out, ints)
    if kind < 0 or (kind > 10 and (group < 0 or plan[group] != 10)):
        return 1
    if kind == 10 and _group_fault(plan, at, columns):
        return 1
    if kind < 4 and (plan[at + PLAN_FIELD] < 0 or plan[at + PLAN_FIELD] > 84):
        return 2
    if plan[at + PLAN_INTS] < 0 or plan[at + PLAN_BYTES] < 0 or plan[at + PLAN_BYTES_END] < 0:
        return 4
    if (kind > 10 and plan[at + PLAN_FIELD] == 0) or (kind == 10 and plan[at + 7 + PLAN_FIELD] == 0):
        return 0
    if kind == 11 or kind == 12:  # these have an entry a pair, not one a row
        rows = plan[group + PLAN_FIELD]
        row = ints[plan[group + PLAN_INTS] + row]
    if 1 <= kind and kind <= 3:
        if plan[at + PLAN_LONGS] < 0 or plan[at + PLAN_LONGS] > n_longs - rows:
            return 3
    elif plan[at + PLAN_INTS] < 0 or plan[at + PLAN_INTS] > n_ints - rows - 1:
        return 3
    room: cython.longlong = plan[at + PLAN_FIELD]  # of PROPERTIES: pairs
    if kind > 3 and kind != 10:
        if plan[at + PLAN_BYTES] < 0 or plan[at + PLAN_BYTES] > n_out or plan[at + PLAN_BYTES_END] > n_out:
            return 4
        room = plan[at + PLAN_BYTES_END] - plan[at + PLAN_BYTES] - 64
        if room < 0 or room > 0x7FFFFF00:
            return 4
    if (kind == 3 or kind > 12) and (plan[at + PLAN_BITS] < 0 or plan[at + PLAN_BITS] > n_out - (rows + 7) // 8):
        return 4
    if kind > 3 and (ints[plan[at + PLAN_INTS] + row] < 0 or ints[plan[at + PLAN_INTS] + row] > room):
        return 5
    return 0


_FAULTS = (
    "",
    "the plan has a row of no known kind",
    "the plan wants a field outside a record's header",
    "a column of numbers or offsets has no room",
    "a column of bytes has no room, or more than its offsets can tell",
    "the offsets of a column do not fit its section",
    "a column of views has no buffer, or one beyond its offsets",
)


def _before_base(spans, n, base):
    """Return whether a record begins before the buffer of the views."""
    i: cython.longlong
    for i in range(n):
        if spans[8 * i + SPAN_RECORD] < base:
            return True
    return False


def _block(p, limit, spans, pairs, named, known, n, plan, columns, row, longs, ints, out, notes, index):
    """Fill all columns of n located records; return (rows, column that is full or -3)."""
    full: cython.longlong = -3
    c: cython.longlong = 0
    while c < columns:
        at: cython.longlong = 7 * c
        kind: cython.longlong = plan[at + PLAN_KIND]
        field: cython.longlong = plan[at + PLAN_FIELD]
        to: cython.longlong = plan[at + PLAN_INTS] + row
        start: cython.longlong = plan[at + PLAN_BYTES]
        room: cython.longlong = plan[at + PLAN_BYTES_END] - start - 64
        done: cython.longlong = n
        if kind == 0:
            numbers32(p, spans, n, field, ints, to)
        elif kind == 1:
            numbers64(p, spans, n, field, longs, plan[at + PLAN_LONGS] + row)
        elif kind == 2:
            unsigned32(p, spans, n, field, longs, plan[at + PLAN_LONGS] + row)
        elif kind == 3:
            microseconds(p, spans, n, field, longs, plan[at + PLAN_LONGS] + row, out, plan[at + PLAN_BITS], row)
        elif kind == 4:
            done = magic(p, spans, n, ints, to, out, start, room)
        elif kind == 5:
            done = topics(p, limit, spans, n, ints, to, out, start, room, notes, index, c)
        elif kind == 6:
            done = bodies(p, limit, spans, n, field, ints, to, out, start, room, notes, index, c)
        elif kind == 7 or kind == 8:
            done = hosts(p, spans, n, 48 if kind == 7 else 64, ints, to, out, start, room, notes, index, c)
        elif kind == 9:
            done = offset_ids(p, spans, n, ints, to, out, start, room)
        elif kind == 10:
            done = properties(p, limit, spans, n, plan, at, row, ints, out, notes, index, pairs, named, known)
        elif 13 <= kind and kind <= 15 and field == 1:
            done = named_values(p, limit, n, named, kind - 13, ints, to, out, start, room, plan[at + PLAN_BITS], row)
        elif kind == 16:
            to += 3 * row
            body_views(p, limit, spans, n, field, ints, to, plan[at + PLAN_LONGS], start, notes, index, c)
        elif kind == 17:
            done = topic_codes(p, limit, spans, n, plan, at, row, longs, ints, out, notes, index)
        elif kind == 18 or kind == 19:
            where: cython.longlong = 48 if kind == 18 else 64
            done = host_codes(p, spans, n, where, plan, at, row, longs, ints, out, notes, index)
        elif kind == 20:
            magic_codes(p, spans, n, ints, to)
        elif kind == 21:
            done = property_views(p, limit, spans, n, plan, at, row, ints, notes, index, pairs, named, known)
        elif kind >= 24 and field == 1:
            to += 3 * row
            base: cython.longlong = plan[at + PLAN_LONGS]
            named_views(p, limit, n, named, kind - 24, ints, to, base, start, out, plan[at + PLAN_BITS], row)
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
    """Append the records at positions[first:last] to the columns of a plan, from `row` on.

    Args:
        data: bytes that hold the records.
        positions: position of each record in data.
        first, last: range of the positions to take.
        plan: PLAN_ROW numbers for each column, described above. PROPERTIES is followed by its five further rows, NAMES
            and VALUES both wanted or both not.
        row: number of rows there already; the offsets of each section up to and with [row] must have been written.
        rows: number of rows that every section has room for.
        longs, ints, out: the output arrays, none of them empty.
        notes: room for NOTES numbers or more. notes[0] is the number of entries that follow: pairs of an index into
            positions and the number of a column, for values left to Python. Ignore those from index first + taken on.

    Returns:
        (taken, why): number of rows appended, and DONE, ROWS_FULL, NOTES_FULL or the number of the column whose section
        is full.

    Raises:
        ValueError: a position holds no record within data, or the plan does not fit the arrays.
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
    spans = cython.declare(cython.longlong[1024])
    pairs = cython.declare(cython.longlong[864])
    named = cython.declare(cython.longlong[768])
    known = cython.declare(cython.longlong[128])
    p, at, layout, to_longs = bytes_of(data), longs_of(positions), longs_of(plan), longs_of(longs)
    to_ints, to, left = ints_of(ints), room_of(out), longs_of(notes)
    fault: cython.int = 0
    noting: cython.longlong = 0
    base: cython.longlong = -1
    c: cython.longlong = 0
    forget(known)
    while c < columns and fault == 0:
        fault = _fault(layout, 7 * c, columns, row, rows, len(longs), len(ints), len(out), to_ints)
        noting += 1 if layout[7 * c] in (5, 6, 7, 8, 10, 16, 17, 18, 19, 21) else 0
        if layout[7 * c] == 16 or layout[7 * c] >= 21:
            base = max(base, layout[7 * c + PLAN_LONGS])
        c += 1
    if fault == 0 and base >= 0 and limit - base > 0x7FFFFFFF:
        fault = 6
    if fault or noting > 7:
        raise ValueError(_FAULTS[fault] or "the plan has more than seven columns that may leave notes")
    taken: cython.longlong = 0
    full: cython.longlong = -3
    n: cython.longlong = 0
    lost: cython.longlong = -1
    with cython.nogil:
        while first + taken < last and full == -3:
            n = last - first - taken if last - first - taken < 128 else 128
            if n > rows - row:
                n = rows - row
            if n == 0:
                full = -1
                break
            if left[0] + 256 * noting >= 2048:
                full = -2
                break
            located: cython.longlong = locate(p, limit, at, first + taken, n, spans)
            if located < n or (base > 0 and _before_base(spans, n, base)):
                lost = first + taken + (located if located < n else 0)
                break
            n, full = _block(
                p,
                limit,
                spans,
                pairs,
                named,
                known,
                n,
                layout,
                columns,
                row,
                to_longs,
                to_ints,
                to,
                left,
                first + taken,
            )
            taken += n
            row += n
    if lost >= 0:
        raise ValueError(f"no whole record at position {positions[lost]} of the buffer")
    return taken, full
