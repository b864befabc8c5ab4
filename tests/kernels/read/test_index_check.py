"""Items against keys: runs, chains, bounds."""

from __future__ import annotations

import struct
from array import array

import pytest

from flintmq.kernels.read import index_check
from tests.support.guarded_memory import guarded

SLOTS = 5
TIME = 1_700_000_000_000
# Hash, log offset, store time of nine keys, and the items that they give in a file whose first item began at TIME.
KEYS = [(3, 0, TIME), (8, 0, TIME), (3, 100, TIME + 999), (0, 200, TIME + 1000), (13, 300, TIME + 61_000),
        (4, 300, TIME + 61_000), (9, 2**40, TIME - 5), (2**31 - 1, 2**41, TIME + 2**53), (8, 2**42, TIME)]  # fmt: skip
ITEMS = [(3, 0, 0, 0), (8, 0, 0, 1), (3, 100, 0, 2), (0, 200, 1, 0), (13, 300, 61, 3),
         (4, 300, 61, 0), (9, 2**40, 0, 6), (2**31 - 1, 2**41, 2**31 - 1, 0), (8, 2**42, 0, 5)]  # fmt: skip


def packed(items: list[tuple[int, int, int, int]] = ITEMS) -> bytes:
    return b"".join(struct.pack(">iqii", *item) for item in items)


def keys() -> tuple[array[int], array[int], array[int]]:
    hashes, offsets, times = zip(*KEYS, strict=True)
    return array("i", hashes), array("q", offsets), array("q", times)


def heads() -> array[int]:
    return array("i", bytes(4 * SLOTS))


def test_a_whole_run():
    found = heads()
    assert index_check.match(packed(), 9, 1, TIME, found, *keys(), 0, 9) == 9
    assert list(found) == [4, 0, 8, 9, 7]


def test_pieces_give_the_same_as_the_whole():
    for split in range(10):
        found = heads()
        assert index_check.match(packed(), 9, 1, TIME, found, *keys(), 0, split) == split
        rest = packed(ITEMS[split:])
        assert index_check.match(rest, 9 - split, 1 + split, TIME, found, *keys(), split, 9) == 9 - split
        assert list(found) == [4, 0, 8, 9, 7]


@pytest.mark.parametrize("item", range(9))
@pytest.mark.parametrize("field", range(4))
def test_the_first_difference_stops_it(item: int, field: int):
    other = [list(values) for values in ITEMS]
    other[item][field] ^= 1
    found, before = heads(), heads()
    assert index_check.match(packed([tuple(values) for values in other]), 9, 1, TIME, found, *keys(), 0, 9) == item
    index_check.match(packed(), 9, 1, TIME, before, *keys(), 0, item)
    assert found == before  # the item that differs has changed nothing


def test_fewer_items_than_keys_and_the_other_way_round():
    assert index_check.match(packed(), 4, 1, TIME, heads(), *keys(), 0, 9) == 4
    assert index_check.match(packed(), 9, 1, TIME, heads(), *keys(), 0, 4) == 4
    assert index_check.match(b"", 0, 1, TIME, heads(), *keys(), 0, 9) == 0
    assert index_check.match(packed(), 9, 1, TIME, heads(), *keys(), 3, 3) == 0


def test_a_file_without_a_begin_counts_no_seconds():
    items = [(hash_, offset, 0, previous) for hash_, offset, _, previous in ITEMS]
    for begin in (0, -1):
        assert index_check.match(packed(items), 9, 1, begin, heads(), *keys(), 0, 9) == 9


def test_nothing_behind_the_items_is_read():
    data = guarded(packed())
    assert index_check.match(data, 9, 1, TIME, heads(), *keys(), 0, 9) == 9
    assert index_check.skip(data, 9, 1, heads(), 0, 2**50) == 9


@pytest.mark.parametrize(("count", "start", "end"), [(10, 0, 9), (-1, 0, 9), (9, -1, 9), (9, 0, 10)])
def test_wrong_use_of_match(count: int, start: int, end: int):
    with pytest.raises(ValueError, match="must lie within"):
        index_check.match(packed(), count, 1, TIME, heads(), *keys(), start, end)


def test_wrong_use():
    with pytest.raises(ValueError, match="slots"):
        index_check.match(packed(), 9, 1, TIME, array("i"), *keys(), 0, 9)
    with pytest.raises(ValueError, match="slots"):
        index_check.skip(packed(), 9, 1, array("i"), 0, 10)
    with pytest.raises(ValueError, match="count"):
        index_check.skip(packed(), 10, 1, heads(), 0, 10)


def test_skip_goes_up_to_an_offset():
    for until, items in ((0, 0), (1, 2), (100, 2), (301, 6), (2**42 + 1, 9)):
        found = heads()
        assert index_check.skip(packed(), 9, 1, found, 0, until) == items
    assert list(found) == [4, 0, 8, 9, 7]


@pytest.mark.parametrize(
    "bad", [(-1, 300, 61, 3), (13, 199, 61, 3), (13, -1, 61, 3), (13, 300, -1, 3), (13, 300, 61, 2), (13, 300, 61, 5)]
)
def test_skip_stops_at_what_is_not_well_chained(bad: tuple[int, int, int, int]):
    items = [*ITEMS[:4], bad, *ITEMS[5:]]
    assert index_check.skip(packed(items), 9, 1, heads(), 0, 2**50) == 4
    assert index_check.skip(packed(ITEMS[3:4]), 1, 1, heads(), 201, 2**50) == 0  # before the item before it
