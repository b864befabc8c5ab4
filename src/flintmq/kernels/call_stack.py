# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Looks for frames of the engine in the call stack.

`store/reentry.py` decides what they mean.
"""

import cython

if not cython.compiled:
    fmq_engine_around = None


def engine_around(most: cython.int) -> bool:
    """Return whether code of the engine may surround the call of the store that asks.

    The innermost frames, as far as they are of this package, are that call. Of the frames around it, `most` are looked
    at. Uncompiled it is always True: nothing is known.

    Raises:
        OverflowError: `most` does not fit into 32 bits.
    """
    if not cython.compiled:
        return True
    return fmq_engine_around(most)
