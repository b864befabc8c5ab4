# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Writes a record as a line of JSON: numbers, and text that JSON shows as it is.

What else there is Python writes: text with a character that is escaped or no ASCII, properties that only Python splits,
hosts that are not IPv4, all of a record that is not valid. So the rules of escapes and of malformed text stand in one
place.
"""

import cython

if not cython.compiled:
    from flintmq.kernels._plain import bytes_of, copy_bytes, i32be, i64be, put32be, put_hex8, put_host4, u32be
    from flintmq.kernels.read.gather import BODY as KIND_BODY
    from flintmq.kernels.read.gather import BORN_HOST as KIND_BORN_HOST
    from flintmq.kernels.read.gather import INT32 as KIND_INT32
    from flintmq.kernels.read.gather import INT64 as KIND_INT64
    from flintmq.kernels.read.gather import MAGIC as KIND_MAGIC
    from flintmq.kernels.read.gather import OFFSET_MSG_ID as KIND_OFFSET_MSG_ID
    from flintmq.kernels.read.gather import PROPERTIES as KIND_PROPERTIES
    from flintmq.kernels.read.gather import STORE_HOST as KIND_STORE_HOST
    from flintmq.kernels.read.gather import TAGS as KIND_TAGS
    from flintmq.kernels.read.gather import TOPIC as KIND_TOPIC
    from flintmq.kernels.read.gather import UINT32 as KIND_UINT32
    from flintmq.kernels.read.gather import UNIQ_KEY as KIND_UNIQ_KEY
    from flintmq.kernels.read.gather_fill import _shift
    from flintmq.kernels.read.record_parts import (
        SPAN_BORN,
        SPAN_BOTH,
        SPAN_END,
        SPAN_RECORD,
        SPAN_TOPIC,
        SPAN_TOPIC_END,
        doubled,
        locate,
        split,
    )

ASK = 255  # the kind of a column that Python writes; the others are those of gather
_LAST_PLACE = cython.declare(cython.longlong, 80)  # of eight bytes before the body
_ROOM = cython.declare(cython.longlong, 64)  # for a value that is no text
_PAIRS_ROOM = cython.declare(cython.longlong, 256)  # for quotes and commas of 32 pairs


def _put_number(to, used, value):
    """Write a number in decimal digits; return the position after it."""
    digits = cython.declare(cython.uchar[20])
    rest: cython.ulonglong = value
    if value < 0:
        to[used] = 45
        used += 1
        rest = 0 - rest if cython.compiled else -value
    first: cython.longlong = 20
    while first == 20 or rest:
        first -= 1
        digits[first] = cython.cast(cython.uchar, 48 + rest % 10)
        rest //= 10
    copy_bytes(to, used, digits, first, 20 - first)
    return used + 20 - first


def _put_text(to, used, p, at, end):
    """Write p[at:end] in quotes; return the position after it, or -1 if it needs an escape."""
    odd: cython.int = 0
    i: cython.longlong
    to[used] = 34
    used += 1
    for i in range(end - at):
        c: cython.int = p[at + i]
        odd |= (c < 32) | (c > 126) | (c == 34) | (c == 92)
        to[used + i] = c
    used += end - at
    to[used] = 34
    return -1 if odd else used + 1


def _put_pairs(to, used, p, pairs, count):
    """Write pairs as an object; return the position after it, or -1."""
    to[used] = 123
    used += 1
    i: cython.longlong
    for i in range(count):
        if i > 0:
            to[used] = 44
            used += 1
        used = _put_text(to, used, p, pairs[3 * i], pairs[3 * i + 1])
        if used < 0:
            return used
        to[used] = 58
        used = _put_text(to, used + 1, p, pairs[3 * i + 1] + 1, pairs[3 * i + 2])
        if used < 0:
            return used
    to[used] = 125
    return used + 1


def _put_value(to, used, kind, place, p, spans, pairs, count, named):
    """Write the value of a column; return the position after it, or -1 if Python must write it."""
    shift: cython.longlong = _shift(place)
    at: cython.longlong = spans[shift] + place
    if kind == KIND_INT32:
        return _put_number(to, used, i32be(p, at))
    if kind == KIND_INT64:
        return _put_number(to, used, i64be(p, at))
    if kind == KIND_UINT32:
        return _put_number(to, used, u32be(p, at))
    if kind == KIND_MAGIC:
        put32be(to, used, 0x22563122 if p[spans[SPAN_RECORD] + 7] == 0xA7 else 0x22563222)  # "V1" or "V2"
        return used + 4
    if kind == KIND_BORN_HOST or kind == KIND_STORE_HOST:
        shift = SPAN_RECORD if kind == KIND_BORN_HOST else SPAN_BORN
        at = spans[shift] + (48 if kind == KIND_BORN_HOST else 64)
        if spans[shift + 1] != spans[shift] or p[at + 4] or p[at + 5]:  # IPv6, or a port of more than 16 bits
            return -1
        to[used] = 34
        used = put_host4(to, used + 1, p, at)
        to[used] = 34
        return used + 1
    if kind == KIND_OFFSET_MSG_ID and spans[SPAN_BOTH] == spans[SPAN_BORN]:
        to[used] = 34
        put_hex8(to, used + 1, p, spans[SPAN_BORN] + 64)
        put_hex8(to, used + 17, p, spans[SPAN_RECORD] + 28)
        to[used + 33] = 34
        return used + 34
    if kind == KIND_TOPIC:
        return _put_text(to, used, p, spans[SPAN_TOPIC], spans[SPAN_TOPIC_END])
    if kind == KIND_PROPERTIES and count >= 0 and not doubled(p, pairs, count):
        return _put_pairs(to, used, p, pairs, count)
    if kind < KIND_TAGS or kind > KIND_UNIQ_KEY or count < 0:
        return -1
    at = 2 * (kind - KIND_TAGS)
    if named[at + 1] == 0:
        put32be(to, used, 0x6E756C6C)  # null
        return used + 4
    return _put_text(to, used, p, named[at], named[at + 1])


def line(record: cython.const[cython.uchar][::1], body: bytes, heads: bytes, plan: bytes, ask, message):
    """Return a record as a line of JSON, without a line end.

    Args:
        record: the bytes of a record, valid or not.
        body: the body to show, in base64.
        heads: ASCII text before the value of each column, one after another, and then the end of the line.
        plan: three bytes for each column: the length of its head, its kind and its place.
        ask, message: ask(message, column) returns the JSON of a value that Python must write.

    Raises:
        ValueError: the plan does not fit the heads, or names a place outside the header.
    """
    columns: cython.longlong = len(plan) // 3
    limit: cython.longlong = len(record)
    encoded: cython.longlong = len(body)
    many_heads: cython.longlong = len(heads)
    i: cython.longlong
    head: cython.longlong = 0
    bodies: cython.longlong = 0
    texts: cython.longlong = 0
    p = bytes_of(record)
    shown: cython.pointer(cython.const[cython.uchar]) = body
    words: cython.pointer(cython.const[cython.uchar]) = heads
    rows: cython.pointer(cython.const[cython.uchar]) = plan
    for i in range(columns):
        head += rows[3 * i]
        bodies += rows[3 * i + 1] == KIND_BODY
        texts += rows[3 * i + 1] >= KIND_TOPIC
        if rows[3 * i + 2] > _LAST_PLACE:
            raise ValueError("a place is outside the header")
    if head > many_heads:
        raise ValueError("the heads are shorter than the plan says")
    positions = cython.declare(cython.longlong[1])
    spans = cython.declare(cython.longlong[8])
    pairs = cython.declare(cython.longlong[96])
    named = cython.declare(cython.longlong[6])
    positions[0] = 0
    count: cython.longlong = -1
    room: cython.longlong = many_heads + columns * _ROOM + bodies * (encoded + 2)
    valid: cython.bint = limit > 0 and locate(p, limit, positions, 0, 1, spans) == 1
    if valid:
        count = split(p, spans[SPAN_TOPIC_END] + 2, spans[SPAN_END], limit, pairs, named, 0)
        room += texts * (spans[SPAN_END] - spans[SPAN_TOPIC] + _PAIRS_ROOM)
    out: bytearray = bytearray(room)
    to: cython.pointer(cython.uchar) = out
    begin: cython.longlong = 0  # of what is not in `parts` yet
    used: cython.longlong = 0
    after: cython.longlong
    parts: list = []
    head = 0
    for i in range(columns):
        copy_bytes(to, used, words, head, rows[3 * i])
        used += rows[3 * i]
        head += rows[3 * i]
        if rows[3 * i + 1] == KIND_BODY:
            to[used] = 34
            copy_bytes(to, used + 1, shown, 0, encoded)
            used += encoded + 2
            to[used - 1] = 34
            continue
        after = _put_value(to, used, rows[3 * i + 1], rows[3 * i + 2], p, spans, pairs, count, named) if valid else -1
        if after < 0:
            parts.append(out[begin:used].decode("ascii"))
            parts.append(ask(message, i))
            begin = after = used
        used = after
    copy_bytes(to, used, words, head, many_heads - head)
    used += many_heads - head
    parts.append(out[begin:used].decode("ascii"))
    return "".join(parts)
