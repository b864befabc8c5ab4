"""Numbers of a record read in place: the same as of the decoded record, for all widths of hosts; positions by hand."""

from array import array

import pytest

from flintmq.format import record_view as view
from flintmq.format.record import (
    BLANK,
    BORN_HOST_V6,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    RECORD,
    STORE_HOST_V6,
    Record,
    encode,
    encode_blank,
)

HOSTS = (0, BORN_HOST_V6, STORE_HOST_V6, BORN_HOST_V6 | STORE_HOST_V6)


def made(hosts: int, magic: int = MAGIC_V1) -> Record:
    """A record whose numbers all differ, also in their bytes."""
    return Record(
        magic, 0x11121314, 0x21222324, 0x31323334, 0x41424344_45464748, 0x51525354_55565758, hosts | 0x03000080,
        0x61626364_65666768, bytes(range(20 if hosts & BORN_HOST_V6 else 8)), 0x71727374_75767778,
        bytes(range(100, 120 if hosts & STORE_HOST_V6 else 108)), 0x01020304, 0x11223344_55667788,
        b"body", b"topic", b"a\x01b\x02",
    )  # fmt: skip


@pytest.mark.parametrize("magic", [MAGIC_V1, MAGIC_V2])
@pytest.mark.parametrize("hosts", HOSTS)
@pytest.mark.parametrize("at", [0, 5])
def test_what_is_read_in_place_is_what_decode_gives(hosts: int, magic: int, at: int) -> None:
    record = made(hosts, magic)
    data = bytes(at) + encode(record) + b"rest"
    assert (view.size_at(data, at), view.magic_at(data, at)) == (record.size, magic)
    assert view.SIZE.unpack_from(data, at) == (record.size,)
    assert view.physical_offset_at(data, at) == record.physical_offset
    assert view.store_time_at(data, at) == record.store_timestamp
    assert view.QUEUE.unpack_from(data, at) == (record.queue_id, record.queue_offset)
    assert view.PLACE.unpack_from(data, at) == (
        record.size, magic, record.queue_id, record.queue_offset, record.sys_flag,
    )  # fmt: skip
    assert view.OFFSETS.unpack_from(data, at + view.OFFSETS_AT) == (record.queue_offset, record.physical_offset)
    assert data[at + view.SYS_FLAG_LAST] == record.sys_flag & 0xFF
    assert data.startswith(record.body, view.body_at(data, at))
    topic, topic_end, properties = view.texts_at(data, at)
    assert (data[topic:topic_end], data[properties : at + record.size]) == (record.topic, record.properties)


def test_the_first_record_needs_no_position() -> None:
    """Positions by docs/internals/format/commit-log.md: the topic has a byte of length, the properties have two."""
    data = encode(made(0)._replace(physical_offset=-2))
    assert view.physical_offset_at(data) == -2, "a torn record may hold anything"
    assert view.store_time_at(data) == 0x71727374_75767778
    assert (view.body_at(data), view.texts_at(data)) == (88, (93, 98, 100))


def test_store_times_of_several_records() -> None:
    records = [made(hosts)._replace(store_timestamp=hosts) for hosts in HOSTS]
    data = b"".join(map(encode, records))
    positions = memoryview(array("q", [sum(r.size for r in records[:n]) for n in range(len(records))]))
    assert list(view.store_times(memoryview(data), positions, 3)) == list(HOSTS[:3])


def test_a_blank_and_bytes_that_end_early() -> None:
    blank = encode_blank(1000)
    assert (view.size_at(blank), view.magic_at(blank), view.HEAD_SIZE) == (1000, MAGIC_BLANK, BLANK.size)
    assert [(view.size_at(blank[:n]), view.magic_at(blank[:n])) for n in (0, 4)] == [(0, 0), (1000, 0)]
    assert view.size_at(b"\xff\xff\xff\xfe") == 0xFFFFFFFE


def test_positions_by_hand() -> None:
    before = ("size", "magic", "body_crc", "queue_id", "flag", "queue_offset", "physical_offset", "sys_flag")
    behind = ("store_timestamp", "store_host", "reconsume_times", "prepared_transaction_offset", "body")
    names = (*before, "born_timestamp", "born_host", *behind)
    assert [view.number_at(name) for name in names] == [0, 4, 8, 12, 16, 20, 28, 36, 40, 48, 56, 64, 72, 76, 84]
    assert (view.HEAD_SIZE, view.FIXED_SIZE, view.HEADER_SIZE_MAX, view.STORE_TIME_END_MAX) == (8, 84, 112, 76)
    assert (view.SYS_FLAG_LAST, view.PHYSICAL_OFFSET_END, view.OFFSETS_AT, view.WIDER_HOST) == (39, 36, 20, 12)
    with pytest.raises(AssertionError, match="no fixed place"):
        RECORD.offset("topic", {"sys_flag": 0})
    with pytest.raises(AssertionError, match="out of order"):
        RECORD.numbers("magic", "size")
    with pytest.raises(AssertionError, match="no number"):
        RECORD.numbers("born_host")
