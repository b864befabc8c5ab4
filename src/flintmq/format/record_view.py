"""Reads single numbers of a record at their declared positions.

Loops over many records want one or two numbers of each and do not decode the rest. Code outside `format/` and
`kernels/` takes every position inside a record from here. The kernels have their own, as C constants;
`tests/kernels/test_positions.py` compares them with the declaration.

Nothing is checked here: the record was validated, or the caller judges the number.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from flintmq.format.layout import WIDTHS, Buffer
from flintmq.format.record import BLANK, BORN_HOST_V6, MAGIC_V1, RECORD, STORE_HOST_V6

HEAD_SIZE: Final = BLANK.size
"""Bytes of size and magic; records and blanks begin with them."""

SIZE: Final = RECORD.numbers("size")
QUEUE: Final = RECORD.numbers("queue_id", "queue_offset")
PLACE: Final = RECORD.numbers("size", "magic", "queue_id", "queue_offset", "sys_flag")
OFFSETS: Final = struct.Struct(">qq")
"""Queue offset and physical offset, which are neighbours: begins at OFFSETS_AT."""
OFFSETS_AT: Final = RECORD.offset("queue_offset")
assert RECORD.offset("physical_offset") == OFFSETS_AT + WIDTHS["i64"]

_SIZE_END: Final = SIZE.size
_MAGIC_AT: Final = RECORD.offset("magic")
_PHYSICAL_OFFSET_AT: Final = RECORD.offset("physical_offset")
PHYSICAL_OFFSET_END: Final = _PHYSICAL_OFFSET_AT + WIDTHS["i64"]
SYS_FLAG_LAST: Final = RECORD.offset("sys_flag") + WIDTHS["i32"] - 1
"""Position of the last byte of the system flag, which tells the widths of the hosts and whether there is a batch."""

_HOSTS: Final = BORN_HOST_V6 | STORE_HOST_V6
_STORE_TIME: Final = struct.Struct(">q")
_STORE_TIME_V4: Final = RECORD.offset("store_timestamp", {"sys_flag": 0})
_STORE_TIME_V6: Final = RECORD.offset("store_timestamp", {"sys_flag": BORN_HOST_V6})
WIDER_HOST: Final = _STORE_TIME_V6 - _STORE_TIME_V4
"""An IPv6 host has so many bytes more than an IPv4 host."""
STORE_TIME_END_MAX: Final = _STORE_TIME_V6 + _STORE_TIME.size
"""The store time ends before this position, whatever the hosts."""

_BODY_LENGTH_AT: Final = {
    hosts: RECORD.offset("body", {"sys_flag": hosts}) for hosts in (0, BORN_HOST_V6, STORE_HOST_V6, _HOSTS)
}
FIXED_SIZE: Final = _BODY_LENGTH_AT[0]
"""Bytes before the length of the body in a record with two IPv4 hosts."""
HEADER_SIZE_MAX: Final = _BODY_LENGTH_AT[_HOSTS] + WIDTHS["i32"]
"""The length of the body ends before this position, whatever the hosts."""


def number_at(field: str) -> int:
    """Return the position of a number in a record with two IPv4 hosts.

    `body` gives the position of its length, the last number that has a fixed place.
    """
    return RECORD.offset(field, {"sys_flag": 0})


def size_at(data: Buffer, at: int = 0) -> int:
    """Return the size of the record or blank at data[at], as an unsigned number."""
    return int.from_bytes(data[at : at + _SIZE_END], "big")


def magic_at(data: Buffer, at: int = 0) -> int:
    """Return the magic number of the record or blank at data[at]; 0 if the bytes end before it."""
    return int.from_bytes(data[at + _MAGIC_AT : at + HEAD_SIZE], "big")


def physical_offset_at(data: Buffer, at: int = 0) -> int:
    return int.from_bytes(data[at + _PHYSICAL_OFFSET_AT : at + PHYSICAL_OFFSET_END], "big", signed=True)


def store_time_at(data: Buffer, at: int = 0) -> int:
    """Return the store time in ms of the record at data[at]."""
    place = _STORE_TIME_V6 if data[at + SYS_FLAG_LAST] & BORN_HOST_V6 else _STORE_TIME_V4
    return int(_STORE_TIME.unpack_from(data, at + place)[0])


def store_times(data: memoryview, positions: memoryview, count: int) -> Iterator[int]:
    """Yield the store time in ms of each of the first `count` records."""
    for at in positions[:count]:
        place = _STORE_TIME_V6 if data[at + SYS_FLAG_LAST] & BORN_HOST_V6 else _STORE_TIME_V4
        yield _STORE_TIME.unpack_from(data, at + place)[0]


def body_at(data: Buffer, at: int = 0) -> int:
    return at + _BODY_LENGTH_AT[data[at + SYS_FLAG_LAST] & _HOSTS] + WIDTHS["i32"]


def texts_at(data: Buffer, at: int = 0) -> tuple[int, int, int]:
    """Return the positions of the topic, of its end and of the properties of a record."""
    body = body_at(data, at)
    begin = body + int.from_bytes(data[body - WIDTHS["i32"] : body], "big")
    width = WIDTHS["u8" if magic_at(data, at) == MAGIC_V1 else "i16"]
    topic = begin + width
    end = topic + int.from_bytes(data[begin:topic], "big")
    return topic, end, end + WIDTHS["i16"]
