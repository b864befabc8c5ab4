"""Hashes texts to 64 bits, all of an Arrow array at once, as zone maps do.

A hash says which values are in a sample, and which are equal; the seed is fixed, so all tasks of a count agree, and so
do two counts. Who sends keys can choose some that are counted as one: no more than one who sends one key twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flintmq.kernels.read.zone_keys import hash_texts

Words = npt.NDArray[np.uint64]


def hashes(texts: pa.Array[Any]) -> Words:
    """Return the hash of each text's UTF-8; its last bit is 0.

    The array is of strings, none of them null.
    """
    assert texts.type in (pa.string(), pa.binary()) and texts.null_count == 0
    found = np.empty(len(texts), np.int64)
    if len(texts):
        ends: Any
        data: Any
        _, ends, data = texts.buffers()
        bounds = np.frombuffer(ends, np.int32)[texts.offset : texts.offset + len(texts) + 1]
        hash_texts(np.frombuffer(data, np.uint8) if data else np.zeros(1, np.uint8), bounds, found)
    return found.view(np.uint64) << np.uint64(1)
