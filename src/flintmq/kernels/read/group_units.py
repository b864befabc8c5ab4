# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Sorts queue units by queue, so that each queue is written in runs."""

import cython

if not cython.compiled:
    from flintmq.kernels._plain import bytes_of, copy_bytes, room_of


def group(
    unit_queue: cython.const[cython.int][::1],
    unit_offset: cython.const[cython.longlong][::1],
    unit_time: cython.const[cython.longlong][::1],
    unit_bytes: cython.const[cython.uchar][::1],
    units: cython.longlong,
    starts: cython.longlong[::1],
    out_offset: cython.longlong[::1],
    out_time: cython.longlong[::1],
    out_bytes: cython.uchar[::1],
):
    """Sort units by queue, keeping their order within a queue.

    Args:
        unit_queue, unit_offset, unit_time, unit_bytes, units: the units, from `derive`.
        starts: int64 array, one longer than there are queues; receives the index of each queue's first sorted unit.
        out_offset, out_time, out_bytes: receive the sorted units.

    Raises:
        ValueError: an array is too small, or a queue number is outside starts.
    """
    queues: cython.longlong = len(starts) - 1
    i: cython.longlong
    sum_: cython.longlong = 0
    bad: cython.bint = False
    if (
        units < 0
        or units > len(unit_queue)
        or units > len(unit_offset)
        or units > len(unit_time)
        or units * 20 > len(unit_bytes)
        or units > len(out_offset)
        or units > len(out_time)
        or units * 20 > len(out_bytes)
        or queues < 0
    ):
        raise ValueError("an array is too small")
    if units == 0:
        for i in range(queues + 1):
            starts[i] = 0
        return
    source, target = bytes_of(unit_bytes), room_of(out_bytes)
    with cython.nogil:
        for i in range(queues + 1):
            starts[i] = 0
        for i in range(units):
            if unit_queue[i] < 0 or unit_queue[i] >= queues:
                bad = True
                break
            starts[unit_queue[i]] += 1
        if not bad:
            for i in range(queues + 1):  # counts become starts
                to: cython.longlong = starts[i]
                starts[i] = sum_
                sum_ += to
            i = 0
            while i < units:  # mostly single units, but a bulk load has whole runs of one queue
                q: cython.longlong = unit_queue[i]
                first: cython.longlong = i
                to = starts[q]
                while i < units and unit_queue[i] == q:
                    out_offset[to] = unit_offset[i]
                    out_time[to] = unit_time[i]
                    i += 1
                    to += 1
                copy_bytes(target, starts[q] * 20, source, first * 20, (i - first) * 20)
                starts[q] = to
            for i in range(queues, 0, -1):  # starts have moved on by one queue
                starts[i] = starts[i - 1]
            starts[0] = 0
    if bad:
        raise ValueError("a queue number is outside starts")


def run_length(offsets: cython.const[cython.longlong][::1], start: cython.longlong, end: cython.longlong):
    """Return how many of offsets[start:end] increase by one, counted from offsets[start].

    0 if start is not below end.

    Raises:
        ValueError: start or end is outside the array.
    """
    if start < 0 or end > len(offsets):
        raise ValueError("start and end must lie within offsets")
    if start >= end:
        return 0
    i: cython.longlong = start + 1
    with cython.nogil:
        while i < end and offsets[i] == offsets[i - 1] + 1:
            i += 1
    return i - start
