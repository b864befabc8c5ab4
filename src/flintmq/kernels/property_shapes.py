# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Split property strings faster than one by one: by what they have in common with one before.

Producers mostly send strings that differ in nothing but values of the same lengths. Of eight lengths the shape of a
string is kept (once a second one of that length came), and others of that length are only compared with it: a fifth
less time for all columns, a third less for splitting alone.

`known` holds sixteen numbers a length: where that string begins (-1: none), its length, how many pairs, the shape (4),
its three named values (6). Its pairs stand in pairs[96 * (1 + slot):]. All of it is good for one buffer only.
"""

import cython

if not cython.compiled:
    from flintmq.kernels._plain import same_shape
    from flintmq.kernels.record_parts import doubled, split

KNOWN = 128  # numbers that `known` has
PAIRS = 864  # numbers that `pairs` has: of the string just split, and of each shape


def forget(known):
    """No shape is known yet."""
    i: cython.int
    for i in range(128):
        known[i] = -1


def take_shape(at, end, pairs, count, known, to):
    """Remember in known[to:to + 4] what has to be alike in another property string so that it splits alike.

    That is all but the values, one bit a byte, for strings of up to 256 bytes.
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
    """Whether p[at:end] equals the string at p[other], of the same length, but for values that hold nothing odd."""
    if limit - at < 256 or limit - other < 256:
        return False
    return same_shape(p, at, other, end - at, known, to)


def split_like(p, at, end, limit, single, pairs, named, to, known):
    """Split a property string, or see that it splits as one before it did.

    With `single`, a string that has a name twice counts as one that cannot be split.

    Returns (how many pairs or -1, where they stand in `pairs`, how far the string lies behind that of its shape).
    """
    size: cython.longlong = end - at
    slot: cython.longlong = size & 7
    base: cython.longlong = 16 * slot
    like: cython.longlong = known[base]
    k: cython.longlong
    if known[base + 1] == size and like >= 0 and has_shape(p, at, end, like, limit, known, base + 3):
        for k in range(6):
            named[to + k] = known[base + 7 + k] + at - like if known[base + 7 + k] else 0
        return known[base + 2], 96 * (1 + slot), at - like
    count: cython.longlong = split(p, at, end, limit, pairs, named, to)
    if count > 0 and single and doubled(p, pairs, count):
        count = -1
    if known[base + 1] != size:
        known[base] = -1
        known[base + 1] = size
    elif count >= 0 and size <= 256:
        known[base] = at
        known[base + 2] = count
        take_shape(at, end, pairs, count, known, base + 3)
        for k in range(6):
            known[base + 7 + k] = named[to + k]
        for k in range(3 * count):
            pairs[96 * (1 + slot) + k] = pairs[k]
    return count, 0, 0
