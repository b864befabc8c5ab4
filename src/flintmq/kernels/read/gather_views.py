# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Fills columns for `gather` with views of the records and codes of dictionaries.

A view is Arrow's: 16 bytes, with the value inside if it has 12 bytes or fewer, and otherwise its place in the buffer
that holds the record. A code is the index of a value in a dictionary that the column keeps in its sections: texts with
their offsets, a key for each text (a host's eight bytes, a topic's hash), and a hash table of the codes. A dictionary
that is full ends the call, as a full section does; so does one whose numbers lead outside its sections. Values left to
Python are noted, and are empty here or have code 0.
"""

import cython

if not cython.compiled:
    from flintmq.kernels._plain import (
        all_ascii,
        bytes_of,
        const_ints_of,
        copy_bytes,
        i32be,
        i64be,
        longs_of,
        put_host4,
        put_view,
        room_of,
        same_text,
        slot_of,
        text_key,
    )
    from flintmq.kernels.read.gather_fill import (
        PLAN_BITS,
        PLAN_BYTES,
        PLAN_BYTES_END,
        PLAN_FIELD,
        PLAN_INTS,
        PLAN_LONGS,
        _note,
        _set_bit,
        _shift,
    )
    from flintmq.kernels.read.property_shapes import split_like
    from flintmq.kernels.read.record_parts import (
        SPAN_BODY,
        SPAN_BODY_END,
        SPAN_END,
        SPAN_RECORD,
        SPAN_TOPIC,
        SPAN_TOPIC_END,
        is_utf8,
    )

MOST_BITS = 13
"""The largest number of bits of a dictionary, the PLAN_FIELD of its row.

Its hash table has 2^bits 32-bit numbers: 0, or 1 more than a code. The offsets of its texts follow: one for each of
2^(bits - 1) entries, and one more. Its keys are as many 64-bit numbers as entries, followed by the number of entries.
"""

_SEED = cython.declare(cython.ulonglong, 0x9E3779B97F4A7C15)
_SECRET = cython.declare(cython.ulonglong, 0xD6E8FEB86659FD93)


def body_views(p, limit, spans, n, leave, ints, to, base, buffer, notes, index, column):
    """View bodies; with `leave`, compressed ones are noted."""
    i: cython.longlong
    for i in range(n):
        at: cython.longlong = spans[8 * i + SPAN_BODY]
        size: cython.longlong = spans[8 * i + SPAN_BODY_END] - at
        if leave and p[spans[8 * i + SPAN_RECORD] + 39] & 1:
            _note(notes, index + i, column)
            size = 0
        put_view(ints, to + 4 * i, p, limit, at, size, base, buffer)


def magic_codes(p, spans, n, ints, to):
    """Write code 0 for `V1` and 1 for `V2`."""
    i: cython.longlong
    for i in range(n):
        ints[to + i] = 0 if p[spans[8 * i + SPAN_RECORD] + 7] == 0xA7 else 1


def topic_codes(p, limit, spans, n, plan, at_plan, row, longs, ints, out, notes, index):
    """Write codes of topics; the text of a topic is validated when it enters the dictionary."""
    keys: cython.longlong = plan[at_plan + PLAN_LONGS]
    slots: cython.longlong = plan[at_plan + PLAN_BITS]
    bits: cython.int = plan[at_plan + PLAN_FIELD]
    one: cython.longlong = 1
    most: cython.longlong = one << (bits - 1)
    ends: cython.longlong = slots + 2 * most
    start: cython.longlong = plan[at_plan + PLAN_BYTES]
    room: cython.longlong = plan[at_plan + PLAN_BYTES_END] - start - 64
    to: cython.longlong = plan[at_plan + PLAN_INTS] + row
    code: cython.longlong = 0
    i: cython.longlong
    for i in range(n):
        at: cython.longlong = spans[8 * i + SPAN_TOPIC]
        size: cython.longlong = spans[8 * i + SPAN_TOPIC_END] - at
        key: cython.longlong = text_key(p, limit, at, size, _SEED, _SECRET)
        slot: cython.longlong = slot_of(key, bits)
        code = ints[slots + slot] - 1
        looks: cython.longlong = 0
        while code >= 0 and (
            code >= most
            or longs[keys + code] != key
            or ints[ends + code] < 0
            or ints[ends + code] > room - size
            or ints[ends + code + 1] - ints[ends + code] != size
            or not same_text(p, limit, at, out, start + ints[ends + code], size)
        ):
            slot = (slot + 1) & (2 * most - 1)
            code = ints[slots + slot] - 1
            looks += 1
            if looks == 2 * most:  # a table without a free slot is none of ours
                return i
        if code < 0:
            if not all_ascii(p, at, size) and not is_utf8(p, at, at + size):
                _note(notes, index + i, at_plan // 7)
                ints[to + i] = 0
                continue
            code = longs[keys + most]
            if code < 0 or code >= most or ints[ends + code] < 0 or size > room - ints[ends + code]:
                return i
            copy_bytes(out, start + ints[ends + code], p, at, size)
            longs[keys + code] = key
            longs[keys + most] = code + 1
            ints[ends + code + 1] = ints[ends + code] + size
            ints[slots + slot] = code + 1
        ints[to + i] = code
    return n


def host_codes(p, spans, n, where, plan, at_plan, row, longs, ints, out, notes, index):
    """Write codes of IPv4 hosts, whose eight bytes are their keys."""
    keys: cython.longlong = plan[at_plan + PLAN_LONGS]
    slots: cython.longlong = plan[at_plan + PLAN_BITS]
    bits: cython.int = plan[at_plan + PLAN_FIELD]
    one: cython.longlong = 1
    most: cython.longlong = one << (bits - 1)
    ends: cython.longlong = slots + 2 * most
    start: cython.longlong = plan[at_plan + PLAN_BYTES]
    room: cython.longlong = plan[at_plan + PLAN_BYTES_END] - start - 64
    to: cython.longlong = plan[at_plan + PLAN_INTS] + row
    shift: cython.longlong = _shift(where)
    i: cython.longlong
    for i in range(n):
        at: cython.longlong = spans[8 * i + shift] + where
        if spans[8 * i + shift + 1] != spans[8 * i + shift] or p[at + 4] or p[at + 5]:
            _note(notes, index + i, at_plan // 7)  # IPv6, or a port of more than 16 bits
            ints[to + i] = 0
            continue
        key: cython.longlong = i64be(p, at)
        slot: cython.longlong = slot_of(key, bits)
        code: cython.longlong = ints[slots + slot] - 1
        looks: cython.longlong = 0
        while code >= 0 and (code >= most or longs[keys + code] != key):
            slot = (slot + 1) & (2 * most - 1)
            code = ints[slots + slot] - 1
            looks += 1
            if looks == 2 * most:
                return i
        if code < 0:
            code = longs[keys + most]
            if code < 0 or code >= most or ints[ends + code] < 0 or ints[ends + code] > room - 24:
                return i
            used: cython.longlong = ints[ends + code]
            longs[keys + code] = key
            longs[keys + most] = code + 1
            ints[ends + code + 1] = put_host4(out, start + used, p, at) - start
            ints[slots + slot] = code + 1
        ints[to + i] = code
    return n


def property_views(p, limit, spans, n, plan, at_plan, row, ints, notes, index, pairs, named, known):
    """Split the properties of n records, and view the names and values if the map is wanted.

    `named` receives the positions of the values of TAGS, KEYS and UNIQ_KEY.
    """
    wanted: cython.bint = plan[at_plan + 7 + PLAN_FIELD] == 1
    room: cython.longlong = plan[at_plan + PLAN_FIELD]
    entries: cython.longlong = plan[at_plan + PLAN_INTS] + row
    names: cython.longlong = plan[at_plan + 7 + PLAN_INTS]
    values: cython.longlong = plan[at_plan + 7 * 2 + PLAN_INTS]
    base: cython.longlong = plan[at_plan + PLAN_LONGS]
    buffer: cython.longlong = plan[at_plan + PLAN_BYTES]
    pair: cython.longlong = ints[entries] if wanted else 0
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
        if count > room - pair:
            return i
        for k in range(first, first + 3 * count, 3):
            name: cython.longlong = pairs[k] + move
            middle: cython.longlong = pairs[k + 1] + move
            stop: cython.longlong = pairs[k + 2] + move
            put_view(ints, names + 4 * pair, p, limit, name, middle - name, base, buffer)
            put_view(ints, values + 4 * pair, p, limit, middle + 1, stop - middle - 1, base, buffer)
            pair += 1
        ints[entries + i + 1] = pair
    return n


def named_views(p, limit, n, named, key, ints, to, base, buffer, out, bits, row):
    """View the values of TAGS (key 0), KEYS (1) or UNIQ_KEY (2) that `split` found, or null."""
    i: cython.longlong
    for i in range(n):
        at: cython.longlong = named[6 * i + 2 * key]
        size: cython.longlong = named[6 * i + 2 * key + 1] - at
        put_view(ints, to + 4 * i, p, limit, at, size, base, buffer)
        _set_bit(out, bits, row + i, size > 0)


def copy_records(
    data: cython.const[cython.uchar][::1],
    positions: cython.longlong[::1],
    count: cython.longlong,
    out: cython.uchar[::1],
    moved: cython.longlong[::1],
):
    """Copy whole records one after another into `out`.

    Args:
        data: bytes that hold the records.
        positions: position of each record in data.
        count: how many of them to copy.
        out: receives the records.
        moved: receives the position of each record in out.

    Returns:
        The bytes that the records take.

    Raises:
        ValueError: a position holds no record within data, or out or moved is too short.
    """
    limit: cython.longlong = len(data)
    room: cython.longlong = len(out)
    used: cython.longlong = 0
    wrong: cython.longlong = -1
    i: cython.longlong
    if count < 0 or count > len(positions) or count > len(moved):
        raise ValueError("positions and moved must have a number for each record")
    if count == 0:
        return 0
    if limit == 0 or room == 0:
        raise ValueError("data or out is empty")
    p, at, q, to = bytes_of(data), longs_of(positions), room_of(out), longs_of(moved)
    with cython.nogil:
        for i in range(count):
            start: cython.longlong = at[i]
            size: cython.longlong = i32be(p, start) if 0 <= start and start <= limit - 4 else 0
            if size <= 0 or size > limit - start or size > room - used:
                wrong = i
                break
            copy_bytes(q, used, p, start, size)
            to[i] = used
            used += size
    if wrong >= 0:
        raise ValueError(f"no whole record at position {positions[wrong]} of the buffer, or no room for it")
    return used


def goes_beyond(ints: cython.const[cython.int][::1], count: cython.longlong):
    """Return whether one of `count` views has more than the 12 bytes that it can hold.

    `ints` has four numbers for each view.

    Raises:
        ValueError: ints has fewer views.
    """
    if count < 0 or count > len(ints) // 4:
        raise ValueError("ints must have four numbers for each view")
    if count == 0:
        return False
    p = const_ints_of(ints)
    longer: cython.int = 0
    i: cython.longlong = 0
    with cython.nogil:
        while i < count and longer == 0:
            stop: cython.longlong = i + 256 if i + 256 < count else count
            while i < stop:  # to its end, without a branch on each view
                longer |= 1 if p[4 * i] > 12 else 0
                i += 1
    return longer != 0
