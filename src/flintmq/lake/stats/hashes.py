"""Hashes texts to 64 bits, all of an Arrow array at once: MurmurHash64A in NumPy.

A hash says which values are in a sample, and which are equal; the seed is fixed, so all tasks of a count agree, and so
do two counts. Who sends keys can choose some that are counted as one: no more than one who sends one key twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Words = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]
SEED = 0
_M, _R = np.uint64(0xC6A4A7935BD1E995), np.uint64(47)
_MASKS = np.array([(1 << 8 * count) - 1 for count in range(8)], np.uint64)


def hashes(texts: pa.Array[Any]) -> Words:
    """Return the MurmurHash64A of each text's UTF-8; the array is of strings, none of them null."""
    assert texts.type in (pa.string(), pa.binary()) and texts.null_count == 0
    if not len(texts):
        return np.empty(0, np.uint64)
    ends: Any
    data: Any
    _, ends, data = texts.buffers()
    offsets = np.frombuffer(ends, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    held = np.zeros(int(offsets[-1] - offsets[0]) + 8, np.uint8)  # so that a word can be read at each text's end
    if data is not None:
        held[:-8] = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    words = np.ndarray(len(held) - 7, "<u8", held.data, strides=(1,))  # the eight bytes from each byte on
    lengths = np.diff(offsets)
    begins = (offsets - offsets[0])[:-1]
    if (lengths == lengths[0]).all():  # as ids are
        return _hashed(words, begins, lengths, int(lengths[0]))
    order = np.argsort(-lengths, kind="stable")  # the longest first: those that go on are always the first
    found = np.empty(len(texts), np.uint64)
    found[order] = _hashed(words, begins[order], lengths[order], 0)
    return found


def _hashed(words: Words, begins: Places, lengths: Places, step: int) -> Words:
    """Hash texts, the longest first; `step`: of texts one after another, the length of each."""
    found = np.uint64(SEED) ^ (lengths.astype(np.uint64) * _M)
    going = len(begins)
    for at in range(0, int(lengths[0]) - 7, 8):
        if not step:
            going = int(np.searchsorted(-lengths[:going], -(at + 8), "right"))
        word = (words[at::step][:going] if step else words[begins[:going] + at]) * _M
        word ^= word >> _R
        word *= _M
        some = found[:going]
        some ^= word
        some *= _M
    rest = lengths & 7
    if rest.any():
        tail = words[begins + (lengths - rest)] & _MASKS[rest]
        found = np.where(rest > 0, (found ^ tail) * _M, found)
    found ^= found >> _R
    found *= _M
    return found ^ (found >> _R)
