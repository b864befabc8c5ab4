# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Finds records with odd text, or with numbers that RocketMQ may not be able to parse."""

import cython

if not cython.compiled:
    from flintmq.kernels._plain import bytes_of, const_longs_of, find_either, i64be, u32be
    from flintmq.kernels.read.record_parts import (
        SPAN_BORN,
        SPAN_END,
        SPAN_RECORD,
        SPAN_TOPIC,
        SPAN_TOPIC_END,
        is_utf8,
        locate,
    )

ODD = 1  # a topic or properties that are no plain text
PARSED = 2  # a property that RocketMQ parses, and no plain number

_ODD = cython.declare(cython.int, 1)
_PARSED = cython.declare(cython.int, 2)
_LAST_UNIT = cython.declare(cython.longlong, 461168601842738790)  # of which the position in a queue fits 64 bits
_DELA = cython.declare(cython.uint, 0x44454C41)
_INNE = cython.declare(cython.uint, 0x494E4E45)
_RMQ = cython.declare(cython.uint, 0x726D715F)  # "rmq_"


def _is_plain(p, at, end):
    """Return whether p[at:end] is UTF-8 without a NUL."""
    i: cython.longlong
    for i in range(at, end):
        if p[i] == 0:
            return False
    return is_utf8(p, at, end)


def _may_fail(p, at, end):
    """Return whether a property that RocketMQ parses may hold other than fitting numbers.

    Such properties begin with DELA or INNE; format/start_fields.py judges. INNER_MULTI_DISPATCH holds names.
    """
    while at + 6 < end:
        stop: cython.longlong = find_either(p, at, end, 2, 2)
        if u32be(p, at) == _DELA or u32be(p, at) == _INNE:
            i: cython.longlong = find_either(p, at, stop, 1, 1) + 1
            digits: cython.longlong = 0
            most: cython.longlong = 17 if i - at == 11 or i - at == 25 else 4  # INNER_BASE, INNER_MULTI_QUEUE_OFFSET
            while i < stop and not (i - at >= 21 and p[at + 12] == 68):
                digits = digits + 1 if 48 <= p[i] <= 57 else (0 if p[i] == 44 and digits else most + 1)
                if digits > most:
                    return True
                i += 1
        at = stop + 1
    return False


def scan(
    buf: cython.const[cython.uchar][::1],
    positions: cython.const[cython.longlong][::1],
    start: cython.longlong,
    count: cython.longlong,
    latest: cython.longlong,
):
    """Scan the validated records positions[start:count] for odd text and odd numbers.

    Args:
        buf, positions, count: records that kernels.read.walk has validated.
        start: the first record to scan.
        latest: the latest store time in ms so far.

    Returns:
        (next, latest, what): the first record with an empty or malformed topic, malformed properties, or a NUL in
        either (ODD), or with a property to be looked at (PARSED), also each of a timer's topic
        and each odd queue offset; or count and 0.
        `latest` covers all records up to and including that one.

    Raises:
        ValueError: a position holds no validated record, or count is outside the array.
    """
    if start < 0 or count > len(positions):
        raise ValueError("start and count must lie within positions")
    if start >= count:
        return count, latest, 0
    if len(buf) == 0:
        raise ValueError("an empty buffer")
    limit: cython.longlong = len(buf)
    i: cython.longlong = start
    good: cython.longlong = 1
    what: cython.int = 0
    spans = cython.declare(cython.longlong[8])
    p, at = bytes_of(buf), const_longs_of(positions)
    with cython.nogil:
        while i < count:
            good = locate(p, limit, at, i, 1, spans)
            if good == 0:
                break
            time: cython.longlong = i64be(p, spans[SPAN_BORN] + 56)
            if time > latest:
                latest = time
            if (
                spans[SPAN_TOPIC] == spans[SPAN_TOPIC_END]
                or not _is_plain(p, spans[SPAN_TOPIC], spans[SPAN_TOPIC_END])
                or not _is_plain(p, spans[SPAN_TOPIC_END] + 2, spans[SPAN_END])
            ):
                what = _ODD
            if (
                (spans[SPAN_TOPIC_END] - spans[SPAN_TOPIC] == 19 and u32be(p, spans[SPAN_TOPIC]) == _RMQ)
                or i64be(p, spans[SPAN_RECORD] + 20) < 0
                or i64be(p, spans[SPAN_RECORD] + 20) > _LAST_UNIT
                or _may_fail(p, spans[SPAN_TOPIC_END] + 2, spans[SPAN_END])
            ):
                what |= _PARSED
            if what:
                break
            i += 1
    if good == 0:
        raise ValueError(f"position {positions[i]} holds no validated record")
    return i, latest, what
