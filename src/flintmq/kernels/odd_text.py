# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Finds records with odd text and the latest store time, for verify."""

import cython

if not cython.compiled:
    from flintmq.kernels._plain import i64be
    from flintmq.kernels.record_parts import SPAN_BORN, SPAN_END, SPAN_TOPIC, SPAN_TOPIC_END, is_utf8, locate


def _is_plain(p, at, end):
    """Return whether p[at:end] is UTF-8 without a NUL."""
    i: cython.longlong
    for i in range(at, end):
        if p[i] == 0:
            return False
    return is_utf8(p, at, end)


def scan(
    buf: cython.const[cython.uchar][::1],
    positions: cython.const[cython.longlong][::1],
    start: cython.longlong,
    count: cython.longlong,
    latest: cython.longlong,
):
    """Scan the validated records positions[start:count] for odd text.

    Args:
        buf, positions, count: records that kernels.walk has validated.
        start: the first record to scan.
        latest: the latest store time in ms so far.

    Returns:
        (next, latest, odd): the first record with an empty or malformed topic, malformed properties, or a NUL in
        either, and True; or count and False. `latest` covers all records up to and including that one.

    Raises:
        ValueError: a position holds no validated record, or count is outside the array.
    """
    if start < 0 or count > len(positions):
        raise ValueError("start and count must lie within positions")
    if start >= count:
        return count, latest, False
    if len(buf) == 0:
        raise ValueError("an empty buffer")
    limit: cython.longlong = len(buf)
    i: cython.longlong = start
    good: cython.longlong = 1
    odd: cython.bint = False
    time: cython.longlong
    if cython.compiled:
        p: cython.pointer(cython.const[cython.uchar]) = cython.address(buf[0])
        at: cython.pointer(cython.const[cython.longlong]) = cython.address(positions[0])
        spans: cython.longlong[8]
    else:
        p, at, spans = buf, positions, [0] * 8
    with cython.nogil:
        while i < count:
            good = locate(p, limit, at, i, 1, spans)
            if good == 0:
                break
            time = i64be(p, spans[SPAN_BORN] + 56)
            if time > latest:
                latest = time
            if (
                spans[SPAN_TOPIC] == spans[SPAN_TOPIC_END]
                or not _is_plain(p, spans[SPAN_TOPIC], spans[SPAN_TOPIC_END])
                or not _is_plain(p, spans[SPAN_TOPIC_END] + 2, spans[SPAN_END])
            ):
                odd = True
                break
            i += 1
    if good == 0:
        raise ValueError(f"position {positions[i]} holds no validated record")
    return i, latest, odd
