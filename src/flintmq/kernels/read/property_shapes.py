# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Splits property strings quickly by comparing them with an earlier one of the same shape.

Producers mostly send strings that differ only in values of the same lengths. For eight lengths the shape of a string is
kept (once a second string of that length came), and other strings of that length are only compared with it: a fifth
less time for all columns, a third less for splitting alone.

`known` holds sixteen numbers for each of these lengths: position of the string (-1: none), its length, number of pairs,
its shape (4), its three named values (6). Its pairs are in pairs[96 * (1 + slot):]. Everything is valid for one buffer
only.
"""

import cython

if not cython.compiled:  # columns of `known`; compiled they come from property_shapes.pxd
    KNOWN_AT, KNOWN_LENGTH, KNOWN_PAIRS, KNOWN_SHAPE, KNOWN_NAMED = 0, 1, 2, 3, 7

    from flintmq.kernels._plain import same_shape
    from flintmq.kernels.read.record_parts import doubled, split

KNOWN = 128  # size of `known`
PAIRS = 864  # size of `pairs`: for the string just split, and for each shape


def forget(known):
    """Forget all shapes."""
    i: cython.int
    for i in range(128):
        known[i] = -1


def take_shape(at, end, pairs, count, known, to):
    """Store the shape of a property string in known[to:to + 4].

    The shape marks the bytes that must be equal in another string so that it splits in the same way: all bytes except
    the values, one bit each, for strings of up to 256 bytes.
    """
    one: cython.ulonglong = 1
    every: cython.ulonglong = 0
    shape: cython.ulonglong = 0
    i: cython.longlong
    word: cython.longlong
    for word in range(4):
        shape = ~every
        for i in range(count):
            begin: cython.longlong = pairs[3 * i + 1] + 1 - at - 64 * word
            stop: cython.longlong = pairs[3 * i + 2] - at - 64 * word
            if begin < 0:
                begin = 0
            if stop > 64:
                stop = 64
            if begin < stop:
                shape &= ~((((one << (stop - begin - 1)) << 1) - 1) << begin)
        known[to + word] = cython.cast(cython.longlong, shape)


def has_shape(p, at, end, other, limit, known, to):
    """Return whether p[at:end] has the shape of the string at p[other], of the same length."""
    if limit - at < 256 or limit - other < 256:
        return False
    return same_shape(p, at, other, end - at, known, to)


def split_like(p, at, end, limit, single, pairs, named, to, known):
    """Split a property string, or recognise that it splits as an earlier one did.

    With `single`, a string that has a name twice counts as one that cannot be split.

    Returns (number of pairs or -1, where they begin in `pairs`, offset of the string from that of its shape).
    """
    size: cython.longlong = end - at
    slot: cython.longlong = size & 7
    base: cython.longlong = 16 * slot
    like: cython.longlong = known[base + KNOWN_AT]
    k: cython.longlong
    if (
        known[base + KNOWN_LENGTH] == size
        and like >= 0
        and has_shape(p, at, end, like, limit, known, base + KNOWN_SHAPE)
    ):
        for k in range(6):
            named[to + k] = known[base + KNOWN_NAMED + k] + at - like if known[base + KNOWN_NAMED + k] else 0
        return known[base + KNOWN_PAIRS], 96 * (1 + slot), at - like
    count: cython.longlong = split(p, at, end, limit, pairs, named, to)
    if count > 0 and single and doubled(p, pairs, count):
        count = -1
    if known[base + KNOWN_LENGTH] != size:
        known[base + KNOWN_AT] = -1
        known[base + KNOWN_LENGTH] = size
    elif count >= 0 and size <= 256:
        known[base + KNOWN_AT] = at
        known[base + KNOWN_PAIRS] = count
        take_shape(at, end, pairs, count, known, base + KNOWN_SHAPE)
        for k in range(6):
            known[base + KNOWN_NAMED + k] = named[to + k]
        for k in range(3 * count):
            pairs[96 * (1 + slot) + k] = pairs[k]
    return count, 0, 0
