"""Message ids and hosts: golden ids, hand-written ones, and text that is neither."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintmq.errors import FormatError
from flintmq.format import message_id as ids
from flintmq.format.record import decode
from tests.compat.stores import Golden
from tests.support.golden_logs import records


def test_golden_ids(golden_store: Golden) -> None:
    for row, data, at in records(golden_store):
        record = decode(data, at)
        assert ids.offset_msg_id(record.store_host, row["physical_offset"]) == row["offset_msg_id"]
        address, port, offset = ids.parse_offset_msg_id(row["offset_msg_id"])
        assert offset == row["physical_offset"]
        assert (ipaddress.ip_address(address), port) == java_host(row["store_host"])
        for field in ("born_host", "store_host"):
            text = ids.host_text(getattr(record, field))
            assert java_host(text) == java_host(row[field])
            assert ids.parse_host(text) == ids.parse_host(row[field]) == getattr(record, field)


def java_host(text: str) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]:
    address, port = text.rsplit(":", 1)
    return ipaddress.ip_address(address.strip("[]")), int(port)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("0a000001 00002a9f", "10.0.0.1:10911"),
        ("ffffffff ffffffff", "255.255.255.255:-1"),
        ("00000000 00000000", "0.0.0.0:0"),
        ("20010db8000000000000000000000001 0000c738", "[2001:db8::1]:51000"),
        ("00000000000000000000000000000000 00000000", "[::]:0"),
        ("00000000000000000000000000000001 00000001", "[::1]:1"),
        ("fe800000000000000000000000000000 00000001", "[fe80::]:1"),
        ("00010000000000020000000000000003 00000001", "[1:0:0:2::3]:1"),  # the longer run of zeros
        ("00010000000000020003000000000004 00000001", "[1::2:3:0:0:4]:1"),  # of equal runs the first
        ("00010000000200030004000500060007 00000001", "[1:0:2:3:4:5:6:7]:1"),  # one zero alone stays
        ("00000000000000000000ffff0a000001 00000001", "[::ffff:a00:1]:1"),  # the same in every Python
    ],
)
def test_host_text(raw: str, text: str) -> None:
    data = bytes.fromhex(raw)
    assert ids.host_text(data) == text
    assert ids.parse_host(text) == data


@given(st.lists(st.sampled_from([0, 0, 1, 0xABC, 0xFFFF]), min_size=8, max_size=8))
def test_short_form_reads_back(groups: list[int]) -> None:
    raw = b"".join(group.to_bytes(2, "big") for group in groups)
    text = ids.address_text(raw)
    assert ipaddress.IPv6Address(text).packed == raw
    assert len(text) <= len(ipaddress.IPv6Address(raw).exploded) and text == text.lower()


@pytest.mark.parametrize(
    "text",
    ["", "10.0.0.1", "10.0.0.256:1", "10.0.0:1", "localhost:1", "[::1]", "::1:1", "[::1]:", "[zz]:1", "[1.2.3.4]:1"]
    + ["1.2.3.4:2147483648", "1.2.3.4:1 ", "[fe80::1%eth0]:1", "[" + ":" * 5000 + "]:1", "1.2.3.4:٧"],
)
def test_text_that_is_no_host(text: str) -> None:
    with pytest.raises(FormatError) as caught:
        ids.parse_host(text)
    assert len(str(caught.value)) < 200


def test_what_is_no_id_and_no_host_is_told_by_its_first_60_characters() -> None:
    for read, expected in (
        (ids.parse_offset_msg_id, "a message id is 32 or 56 hexadecimal digits"),
        (ids.parse_client_id, "a message id is 32 or 56 hexadecimal digits"),
        (ids.parse_host, "a host is ip:port or [ipv6]:port"),
    ):
        with pytest.raises(FormatError) as caught:
            read("x" * 61)
        assert caught.value.reason == f"{expected}, not {'x' * 60!r}"


def test_bytes_that_are_no_host() -> None:
    for length in {*range(30)} - {8, 20}:
        with pytest.raises(FormatError, match="8 or 20 bytes"):
            ids.host_text(bytes(length))
        with pytest.raises(FormatError, match="8 or 20 bytes"):
            ids.offset_msg_id(bytes(length), 0)


def test_offset_id_both_widths() -> None:
    four, six = ids.parse_host("10.0.0.2:10911"), ids.parse_host("[2001:db8::1]:1")
    assert ids.offset_msg_id(four, 0x5E) == "0A00000200002A9F000000000000005E"
    assert ids.offset_msg_id(six, -1) == "20010DB800000000000000000000000100000001FFFFFFFFFFFFFFFF"
    assert ids.parse_offset_msg_id("0a00000200002a9f000000000000005e") == ("10.0.0.2", 10911, 0x5E)
    assert ids.parse_offset_msg_id(ids.offset_msg_id(six, -1)) == ("2001:db8::1", 1, -1)
    with pytest.raises(FormatError, match="physical_offset 9223372036854775808 does not fit i64"):
        ids.offset_msg_id(four, 1 << 63)
    with pytest.raises(FormatError, match="physical_offset 10{39} does not fit i64"):
        ids.offset_msg_id(four, 10**60)


# The id of upstream's documentation of MessageClientIDSetter's layout, taken apart by hand, and one with IPv6.
CLIENT_IDS = [
    ("7F000001 1F90 18B4AAC2 0A1B2C3D 0001", ids.ClientId(b"\x7f\0\0\x01", 8080, 0x18B4AAC2, 0x0A1B2C3D, 1)),
    (
        "20010DB8000000000000000000000001 FFFF FFFFFFFF FFFFFFFF FFFF",
        ids.ClientId(bytes.fromhex("20010db8000000000000000000000001"), 0xFFFF, -1, 0xFFFFFFFF, 0xFFFF),
    ),
]


@pytest.mark.parametrize(("text", "value"), CLIENT_IDS)
def test_client_id(text: str, value: ids.ClientId) -> None:
    text = text.replace(" ", "")
    assert ids.parse_client_id(text) == ids.parse_client_id(text.lower()) == value
    assert ids.client_id(value) == text


@pytest.mark.parametrize(("text", "value"), CLIENT_IDS)
def test_client_id_of_a_constant_part_and_a_number(text: str, value: ids.ClientId) -> None:
    text = text.replace(" ", "")
    assert ids.unique_key(text[:-12].encode(), value.month_ms << 16 | value.counter) == text
    assert ids.unique_key(text[:-12].encode(), 10) == text[:-12] + "00000000000A"


def test_client_id_of_another_width() -> None:
    with pytest.raises(FormatError, match="4 or 16"):
        ids.client_id(ids.ClientId(b"12345", 0, 0, 0, 0))


@pytest.mark.parametrize("text", ["", "A" * 31, "A" * 33, "G" * 32, "A" * 57, "A" * 10000, "٧" * 32, "0x" + "A" * 30])
def test_text_that_is_no_id(text: str) -> None:
    for parse in (ids.parse_offset_msg_id, ids.parse_client_id):
        with pytest.raises(FormatError, match="32 or 56") as caught:
            parse(text)
        assert len(str(caught.value)) < 200


def test_golden_client_ids(golden_store: Golden) -> None:
    """Real clients' ids come apart and together again. Brokers and pop make other shapes, which are refused."""
    for row in golden_store.rows:
        if row["msg_id"] and len(row["msg_id"]) in (32, 56) and set(row["msg_id"]) <= set("0123456789ABCDEF"):
            assert ids.client_id(ids.parse_client_id(row["msg_id"])) == row["msg_id"]
