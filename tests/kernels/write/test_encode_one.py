"""kernels/write/encode_one: one record against the slow reference, and what it leaves alone where it writes nothing."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintmq.format import record
from flintmq.kernels.write import encode_one as kernel

HOST4 = bytes([10, 0, 0, 1]) + (8080).to_bytes(4, "big")
HOST6 = bytes.fromhex("20010db8000000000000000000000001") + (51000).to_bytes(4, "big")
ROOM = 4096


def put(out: bytearray, at: int, physical_offset: int = 0, **changes: Any) -> int:
    """The kernel with a plain message, but for `changes`."""
    fields = {
        "body": b"hello", "topic": b"Topic", "properties": b"TAGS\x01a\x02", "hosts": HOST4 + HOST4, "queue_id": 3,
        "queue_offset": 7, "flag": -5, "sys_flag": 0, "born_time": 1_700_000_000_001, "store_time": 1_700_000_000_002,
        "reconsumed": 2, "prepared_offset": 99, "crc_property": False,
    } | changes  # fmt: skip
    return kernel.encode(out, at, physical_offset, *fields.values())


def reference(physical_offset: int = 0, **changes: Any) -> record.Record:
    """The same record for the reference encoder."""
    fields = {
        "magic": record.MAGIC_V1, "body_crc": record.crc(changes.get("body", b"hello")), "body": b"hello",
        "topic": b"Topic", "properties": b"TAGS\x01a\x02", "born_host": HOST4, "store_host": HOST4, "queue_id": 3,
        "queue_offset": 7, "flag": -5, "born_timestamp": 1_700_000_000_001, "store_timestamp": 1_700_000_000_002,
        "reconsume_times": 2, "prepared_transaction_offset": 99, "physical_offset": physical_offset,
    } | changes  # fmt: skip
    return record.Record(**fields)


# A record written out by hand: no code of FlintMQ makes these bytes.
BY_HAND = bytes.fromhex(
    "0000006c" "daa320a7" "3610a686" "00000003" "fffffffb" "0000000000000007" "0000000000001000" "00000000"
    "0000018bcfe56801" "0a00000100001f90" "0000018bcfe56802" "0a00000100001f90" "00000002" "0000000000000063"
    "00000005" "68656c6c6f" "05" "546f706963" "0007" "54414753016102"
)  # fmt: skip


def test_a_record_is_what_it_is_by_hand():
    assert len(BY_HAND) == 0x6C
    out = bytearray(b"\xee" * ROOM)
    assert put(out, 100, 4096) == 100 + len(BY_HAND)
    assert out[100 : 100 + len(BY_HAND)] == BY_HAND
    assert out[:100] == b"\xee" * 100 and set(out[100 + len(BY_HAND) :]) == {0xEE}


@given(
    body=st.binary(max_size=300),
    topic=st.binary(min_size=1, max_size=255),
    properties=st.binary(max_size=300),
    six=st.tuples(st.booleans(), st.booleans()),
    at=st.integers(0, 500),
    physical_offset=st.integers(0, 1 << 60),
    crc_property=st.booleans(),
)
def test_a_record_is_what_the_reference_makes(body, topic, properties, six, at, physical_offset, crc_property):
    born, store = HOST6 if six[0] else HOST4, HOST6 if six[1] else HOST4
    sys_flag = (0x10 if six[0] else 0) | (0x20 if six[1] else 0)
    wanted = reference(
        physical_offset, body=body, topic=topic, properties=properties, born_host=born, store_host=store,
        sys_flag=sys_flag, body_crc=record.crc(body),
        magic=record.MAGIC_V2 if len(topic) > 127 else record.MAGIC_V1,
    )  # fmt: skip
    if crc_property:
        wanted = record.append_crc_property(wanted)
    out = bytearray(ROOM)
    end = put(
        out, at, physical_offset, body=body, topic=topic, properties=properties, hosts=born + store, sys_flag=sys_flag,
        crc_property=crc_property,
    )  # fmt: skip
    assert out[at:end] == record.encode(wanted)
    assert not any(out[:at]) and not any(out[end:])


@pytest.mark.parametrize("spare", [7, 8, 9])
def test_eight_bytes_stay_for_the_blank_record(spare: int):
    size = len(BY_HAND)
    out = bytearray(b"\xee" * ROOM)
    at = ROOM - size - spare
    end = put(out, at, 4096)
    if spare >= 8:
        assert end == at + size and out[at:end] == BY_HAND
    else:
        assert end == kernel.FULL
        assert out[at : at + 8] == (size + spare).to_bytes(4, "big") + bytes.fromhex("cbd43194")
        assert set(out[at + 8 :]) == {0xEE}, "behind the eight bytes a blank record is whatever was there"


def test_a_blank_record_of_exactly_eight_bytes():
    out = bytearray(b"\xee" * ROOM)
    assert put(out, ROOM - 8) == kernel.FULL
    assert out[-8:] == bytes.fromhex("00000008cbd43194") and set(out[:-8]) == {0xEE}


@pytest.mark.parametrize(
    "changes",
    [
        {"body": bytes(ROOM - len(BY_HAND) + 5 - 7)},  # one byte too long for an empty file, its blank included
        {"topic": b"t" * 32768},
        {"properties": b"p" * 32768},
        {"properties": b"p" * (32767 - 20), "crc_property": True},  # the 02 between them is one too many
    ],
)
def test_what_no_file_can_hold_is_refused_and_nothing_is_written(changes: dict[str, Any]):
    for out in (bytearray(ROOM), bytearray(200_000)) if "body" not in changes else (bytearray(ROOM),):
        for at in (0, 50, len(out) - 8):
            assert put(out, at, **changes) == kernel.REFUSED
            assert not any(out)


def test_the_largest_record_of_a_file_fits():
    out = bytearray(ROOM)
    body = b"\x55" * (ROOM - len(BY_HAND) + 5 - 8)
    assert put(out, 0, body=body) == ROOM - 8
    assert record.check(out, 0, 0).body == body


@pytest.mark.parametrize("at", [-1, ROOM - 7, ROOM, ROOM + 1, 1 << 62])
def test_a_place_without_room_for_a_blank_record_is_a_mistake(at: int):
    with pytest.raises(ValueError, match="8 bytes"):
        put(bytearray(ROOM), at)


@pytest.mark.parametrize(("sys_flag", "hosts"), [(0, HOST4), (0x10, HOST4 + HOST4), (0x30, HOST6 + HOST4), (0, b"")])
def test_hosts_shorter_than_the_flag_says_are_a_mistake(sys_flag: int, hosts: bytes):
    with pytest.raises(ValueError, match="hosts"):
        put(bytearray(ROOM), 0, sys_flag=sys_flag, hosts=hosts)


def test_the_checksum_is_that_of_the_bytes_that_are_stored():
    """A body that changes while it is stored: it lies where its own record's header goes."""
    out = bytearray(ROOM)
    assert put(out, 0, body=memoryview(out)[:48]) > 0
    one = record.check(out, 0, 0, file_end=ROOM, max_size=ROOM)
    assert len(one.body) == 48 and one.body != bytes(48)
