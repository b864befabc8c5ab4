"""Hashes texts to 64 bits, all of an Arrow array at once: SipHash-2-4 in NumPy.

A hash says which values are in a sample, and which are equal; the key is fixed, so all tasks of a count agree. A store
is hostile: with a weaker hash a producer could choose keys that are counted as one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Words = npt.NDArray[np.uint64]
KEY = b"flintmq-counting"
CHUNK = 1 << 14  # texts; their state fits a processor's cache
_BEGIN = np.frombuffer(b"somepseudorandomlygeneratedbytes", ">u8").astype(np.uint64)
_MASKS = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)


def hashes(texts: pa.Array[Any], key: bytes = KEY) -> Words:
    """Return the SipHash-2-4 of each text's UTF-8; the array is of strings, none of them null."""
    assert texts.type in (pa.string(), pa.binary()) and texts.null_count == 0
    _, ends, data = texts.buffers()
    found = np.empty(len(texts), np.uint64)
    if not len(texts):
        return found
    offsets = np.frombuffer(ends, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    held = np.zeros(int(offsets[-1] - offsets[0]) + 8, np.uint8)  # so that each text has a word at its end
    if data is not None:
        held[:-8] = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    offsets -= offsets[0]
    words = np.ndarray(len(held) - 7, "<u8", held.data, strides=(1,))  # the eight bytes from each byte on
    lengths = np.diff(offsets)
    order = np.argsort(-lengths, kind="stable")  # the longest first: those that go on are always the first
    for at in range(0, len(order), CHUNK):
        some = order[at : at + CHUNK]
        found[some] = _chunk(words, offsets[some], lengths[some], np.frombuffer(key, "<u8"))
    return found


def _chunk(words: Words, begins: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], key: Words) -> Words:
    state = np.empty((4, len(begins)), np.uint64)
    state[:] = (_BEGIN ^ key[[0, 1, 0, 1]])[:, None]
    for at in range(0, int(lengths[0]) + 1, 8):  # a text of n bytes has n // 8 + 1 words
        going = int(np.searchsorted(-lengths, -at, "right"))
        left = lengths[:going] - at
        word = words[begins[:going] + at] & _MASKS[np.minimum(left, 8)]
        word |= np.where(left < 8, lengths[:going] << 56, 0).astype(np.uint64)
        _mix(state[:, :going], word)
    state[2] ^= np.uint64(0xFF)
    for _ in range(2):
        _mix(state, np.zeros(1, np.uint64))
    return np.bitwise_xor.reduce(state)


def _mix(state: Words, word: Words) -> None:
    """Take a word into the states: two rounds."""
    a, b, c, d = state
    d ^= word
    for _ in range(2):
        a += b
        c += d
        b[:], d[:] = _turned(b, 13) ^ a, _turned(d, 16) ^ c
        a[:] = _turned(a, 32)
        c += b
        a += d
        b[:], d[:] = _turned(b, 17) ^ c, _turned(d, 21) ^ a
        c[:] = _turned(c, 32)
    a ^= word


def _turned(words: Words, bits: int) -> Words:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))
