"""The Python twins of the C functions refuse to leave a buffer, by the bytes that the C form would touch."""

from collections.abc import Callable
from typing import Any

import pytest

from flintmq.kernels import _plain

# Name -> (bytes that the C form touches in the first buffer, a call of it at a position of that buffer).
READS: dict[str, tuple[int, Callable[[Any, int], object]]] = {
    "u16be": (2, _plain.u16be),
    "u32be": (4, _plain.u32be),
    "i16be": (2, _plain.i16be),
    "i32be": (4, _plain.i32be),
    "i64be": (8, _plain.i64be),
    "same_bytes": (5, lambda p, at: _plain.same_bytes(p, at, bytes(5), 0, 5)),
    "same_bytes, the other": (5, lambda p, at: _plain.same_bytes(bytes(5), 0, p, at, 5)),
    "copy_bytes from": (5, lambda p, at: _plain.copy_bytes(bytearray(5), 0, p, at, 5)),
    "copy_by_32 from, one step": (32, lambda p, at: _plain.copy_by_32(bytearray(32), 0, p, at, 0)),
    "copy_by_32 from, two steps": (64, lambda p, at: _plain.copy_by_32(bytearray(64), 0, p, at, 33)),
    "all_ascii": (5, lambda p, at: _plain.all_ascii(p, at, 5)),
    "first_non_ascii": (5, lambda p, at: _plain.first_non_ascii(p, at, at + 5)),
    "odd_bytes": (64, _plain.odd_bytes),
    "same_shape": (64, lambda p, at: _plain.same_shape(p, at, 0, 3, [0] * 4, 0)),
    "same_shape, the other": (128, lambda p, at: _plain.same_shape(p, 0, at, 65, [0] * 4, 0)),
    "put_hex8 from": (8, lambda p, at: _plain.put_hex8(bytearray(16), 0, p, at)),
    "put_host4 from": (8, lambda p, at: _plain.put_host4(bytearray(24), 0, p, at)),
    "find_either": (5, lambda p, at: _plain.find_either(p, at, at + 5, 1, 2)),
    "find_magic": (5, lambda p, at: _plain.find_magic(p, at, at + 5)),
    "hash_ascii": (5, lambda p, at: _plain.hash_ascii(0, p, at, 5)),
    "hash_if_ascii": (5, lambda p, at: _plain.hash_if_ascii(0, p, at, 5)),
    "seeded_hash": (5, lambda p, at: _plain.seeded_hash(p, at, 5, 0, 1, 3)),
    "crc32_of": (5, lambda p, at: _plain.crc32_of(p, at, 5)),
    "crc32_at_level": (5, lambda p, at: _plain.crc32_at_level(p, at, 5, 2)),
    "any_below": (5, lambda p, at: _plain.any_below(p, at, 5, 3)),
}
WRITES: dict[str, tuple[int, Callable[[Any, int], object]]] = {
    "put16be": (2, lambda p, at: _plain.put16be(p, at, 1)),
    "put32be": (4, lambda p, at: _plain.put32be(p, at, 1)),
    "put64be": (8, lambda p, at: _plain.put64be(p, at, 1)),
    "copy_bytes": (5, lambda p, at: _plain.copy_bytes(p, at, bytes(5), 0, 5)),
    "copy_by_32": (64, lambda p, at: _plain.copy_by_32(p, at, bytes(64), 0, 33)),
    "put_hex8": (16, lambda p, at: _plain.put_hex8(p, at, bytes(8), 0)),
    "put_host4": (24, lambda p, at: _plain.put_host4(p, at, bytes(8), 0)),
}
SIZE = 300


@pytest.mark.parametrize("name", READS | WRITES)
def test_a_call_that_would_leave_the_buffer_is_refused(name: str):
    count, call = (READS | WRITES)[name]
    call(bytearray(SIZE), SIZE - count)
    for outside in (SIZE - count + 1, -1):
        with pytest.raises(AssertionError):
            call(bytearray(SIZE), outside)


def test_a_negative_size_is_refused():
    with pytest.raises(AssertionError):
        _plain.copy_bytes(bytearray(9), 4, bytes(9), 4, -1)


def test_nothing_is_touched_where_a_search_has_no_room():
    assert _plain.find_either(bytes(4), 4, 4, 1, 2) == 4
    assert _plain.find_magic(bytes(4), 4, 3) == -1
    assert _plain.first_non_ascii(bytes(4), 4, 4) == 4
