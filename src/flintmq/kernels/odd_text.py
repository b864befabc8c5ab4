# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Find records whose text is odd, and the latest store time: what verify wants to know of every record."""

import cython

if not cython.compiled:
    from flintmq.kernels._plain import i64be
    from flintmq.kernels.record_parts import is_utf8, locate


def _is_plain(p, at, end):
    """Whether p[at:end] is UTF-8 without a NUL."""
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
    """Look at the validated records positions[start:count].

    Args:
        buf, positions, count: records that kernels.walk has validated.
        start: the first one to look at.
        latest: the latest store time in ms so far.

    Returns:
        (next, latest, odd): the first record that has a topic that is empty or not UTF-8, properties that are not
        UTF-8, or a NUL in either, and True; or count and False. `latest` covers the records before it and itself.

    Raises:
        ValueError: a position holds no validated record, or count lies outside the array.
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
            time = i64be(p, spans[1] + 56)
            if time > latest:
                latest = time
            if spans[5] == spans[6] or not _is_plain(p, spans[5], spans[6]) or not _is_plain(p, spans[6] + 2, spans[7]):
                odd = True
                break
            i += 1
    if good == 0:
        raise ValueError(f"position {positions[i]} holds no validated record")
    return i, latest, odd
