"""Odd text and the latest time of validated records."""

from array import array

import pytest

from flintmq.kernels.read import odd_text
from tests.support.guarded_memory import guarded
from tests.support.kernel_records import HOST6, records

PLAIN = {"topic": "主题".encode(), "properties": "TAGS\x01é😀\x02".encode(), "store_timestamp": 5}
ODD = [
    {"topic": b""},
    {"topic": b"a\0b"},
    {"topic": b"\xff"},
    {"properties": b"A\x01\0\x02"},
    {"properties": b"A\x01\xed\xa0\x80\x02"},
    {"properties": b"\xc3"},
]


def test_plain_records():
    data, positions = records(
        PLAIN, {**PLAIN, "store_timestamp": 9}, {**PLAIN, "born_host": HOST6, "store_timestamp": 7}
    )
    assert odd_text.scan(data, positions, 0, 3, 0) == (3, 9, False)
    assert odd_text.scan(data, positions, 0, 1, 3) == (1, 5, False)
    assert odd_text.scan(data, positions, 2, 3, 8) == (3, 8, False)
    assert odd_text.scan(data, positions, 3, 3, 8) == (3, 8, False)


@pytest.mark.parametrize("odd", ODD)
def test_odd_records(odd: dict[str, bytes]):
    data, positions = records(PLAIN, {**PLAIN, **odd, "store_timestamp": 6}, PLAIN)
    assert odd_text.scan(data, positions, 0, 3, 0) == (1, 6, True)
    assert odd_text.scan(data, positions, 2, 3, 6) == (3, 6, False)


def test_bodies_do_not_matter():
    data, positions = records({**PLAIN, "body": b"\0\xff" * 50})
    assert odd_text.scan(data, positions, 0, 1, 0) == (1, 5, False)


def test_nothing_behind_the_record_is_read():
    data, positions = records(PLAIN)
    assert odd_text.scan(guarded(data), positions, 0, 1, 0) == (1, 5, False)


def test_wrong_use():
    data, positions = records(PLAIN)
    for start, count in ((-1, 1), (0, 2)):
        with pytest.raises(ValueError, match="within positions"):
            odd_text.scan(data, positions, start, count, 0)
    with pytest.raises(ValueError, match="no validated record"):
        odd_text.scan(data, array("q", [1]), 0, 1, 0)
    with pytest.raises(ValueError, match="no validated record"):
        odd_text.scan(data[:-1], positions, 0, 1, 0)
    with pytest.raises(ValueError, match="empty"):
        odd_text.scan(b"", positions, 0, 1, 0)
