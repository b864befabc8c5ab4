"""Records against Java's bytes, hand-written hex, every prefix, every flipped bit, and the appended checksum."""

from array import array
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintmq.errors import FormatError
from flintmq.format import record as r
from flintmq.format.message_id import parse_host
from flintmq.format.text import java_decode
from flintmq.kernels.read import walk
from tests.compat.stores import Golden
from tests.support.golden_logs import records
from tests.support.layout_values import values

# Written by hand from the table in docs/internals/format/commit-log.md. CRC-32 of "123456789" is the well-known
# CBF43926.
V1 = r.Record(
    body_crc=0x4BF43926,
    queue_id=3,
    flag=-2,
    queue_offset=7,
    physical_offset=0x1000,
    born_timestamp=1700000000000,
    born_host=parse_host("10.0.0.1:40000"),
    store_timestamp=1700000000001,
    store_host=parse_host("10.0.0.2:10911"),
    reconsume_times=1,
    prepared_transaction_offset=9,
    body=b"123456789",
    topic=b"T1",
    properties=b"KEYS\x01a b\x02",
)
V1_HEX = """
    0000006f daa320a7 4bf43926 00000003 fffffffe 0000000000000007 0000000000001000 00000000
    0000018bcfe56800 0a000001 00009c40 0000018bcfe56801 0a000002 00002a9f 00000001 0000000000000009
    00000009 313233343536373839 02 5431 0009 4b45595301 612062 02
"""
V2 = r.Record(
    magic=r.MAGIC_V2,
    physical_offset=5,
    sys_flag=r.BORN_HOST_V6 | r.STORE_HOST_V6 | r.TRANSACTION_COMMIT,
    born_host=parse_host("[2001:db8::1]:1"),
    store_host=parse_host("[::1]:2"),
    topic=b"%RETRY%g",
)
V2_HEX = """
    0000007c daa320ab 00000000 00000000 00000000 0000000000000000 0000000000000005 00000038
    0000000000000000 20010db8000000000000000000000001 00000001
    0000000000000000 00000000000000000000000000000001 00000002
    00000000 0000000000000000 00000000 0008 2552455452592567 0000
"""
VECTORS = pytest.mark.parametrize(("value", "data"), [(V1, V1_HEX), (V2, V2_HEX)], ids=["V1", "V2"])


def kind(data: bytes, at: int = 0, physical_offset: int = 0x1000, **keywords: int) -> str:
    """Why no record counts at data[at]; empty if one does."""
    try:
        r.check(data, at, physical_offset, **keywords)
    except r.RecordError as error:
        assert len(str(error)) < 200
        return error.kind
    return ""


@VECTORS
def test_hand_written_bytes(value: r.Record, data: str) -> None:
    raw = bytes.fromhex(data)
    assert r.encode(value) == raw
    assert r.decode(raw) == value
    assert r.check(b"??" + raw, 2, value.physical_offset) == value
    assert value.size == len(raw)


def test_golden_records_in_both_directions(golden_store: Golden) -> None:
    count = 0
    for row, data, at in records(golden_store):
        record = r.check(data, at, row["physical_offset"], file_end=len(data))
        assert r.encode(record) == data[at : at + row["size"]]
        assert record.size == row["size"]
        assert record.magic == {"V1": r.MAGIC_V1, "V2": r.MAGIC_V2}[row["magic"]]
        assert java_decode(record.topic) == row["topic"]
        assert len(record.body) == row["body_length"]
        for field in ("body_crc", "queue_id", "flag", "queue_offset", "physical_offset", "sys_flag", "born_timestamp"):
            assert getattr(record, field) == row[field]
        for field in ("store_timestamp", "reconsume_times", "prepared_transaction_offset"):
            assert getattr(record, field) == row[field]
        for field in ("born_host", "store_host"):
            assert getattr(record, field) == parse_host(row[field])
        count += 1
    assert count == len(golden_store.rows) > 0


def test_golden_topics_get_the_version_that_java_chose(golden: Callable[[str], Golden]) -> None:
    seen = set()
    for row in golden("flags").rows:
        seen.add(row["magic"])
        assert r.magic_for(row["topic"]) == {"V1": r.MAGIC_V1, "V2": r.MAGIC_V2}[row["magic"]]
    assert seen == {"V1", "V2"}


@pytest.mark.parametrize(
    ("topic", "magic"),
    [("t" * 127, r.MAGIC_V1), ("t" * 128, r.MAGIC_V2), ("é" * 63, r.MAGIC_V1), ("é" * 64, r.MAGIC_V2)],
)
def test_version_by_length(topic: str, magic: int) -> None:
    """The last one differs from upstream, which writes 128 bytes behind a V1 length and cannot read it again."""
    assert r.magic_for(topic) == magic


def test_a_v1_topic_length_is_unsigned() -> None:
    record = V1._replace(topic=b"x" * 150)
    assert r.decode(r.encode(record)) == record


def test_poison_is_read(golden: Callable[[str], Golden]) -> None:
    """The record that Java wrote and cannot read: a topic of 50 characters and 150 bytes in V1."""
    store = golden("poison")
    last = store.rows[-1]
    data = (store.path / "commitlog" / "00000000000000000000").read_bytes()
    at = last["physical_offset"] + last["size"]
    record = r.check(data, at, at)
    assert record.magic == r.MAGIC_V1 and len(record.topic) == 150 and len(java_decode(record.topic)) == 50
    for _ in range(store.expect["beyond"]):
        at += r.check(data, at, at).size
    assert kind(data, at, at) == "ZERO"


@VECTORS
def test_every_prefix(value: r.Record, data: str) -> None:
    raw = bytes.fromhex(data)
    for length in range(len(raw)):
        assert kind(raw[:length], 0, value.physical_offset, file_end=4096) == "MORE"
        assert kind(raw, 0, value.physical_offset, available=length, file_end=4096) == "MORE"
        assert kind(raw[:length], 0, value.physical_offset) in ("MORE", "SIZE")


def test_every_prefix_before_zeros() -> None:
    """A torn write: the file goes on with zeros. Only a cut inside the properties, or of zeros, gets through."""
    raw = bytes.fromhex(V1_HEX)
    at_properties = len(raw) - len(V1.properties)
    passing = {n for n in range(len(raw)) if not kind(raw[:n].ljust(4096, b"\0"))}
    assert passing == set(range(at_properties, len(raw)))
    assert kind(bytes(4096)) == "ZERO"


# Fields of which a flipped bit is seen. docs/internals/format/unprotected.md lists the others; test_docs.py holds it to
# this.
PROTECTED = {"size", "magic", "body_crc", "physical_offset", "body_length", "body", "topic_length", "properties_length"}


def field_at(position: int, record: r.Record) -> str:
    """Name of the field that holds a byte of the encoded record."""
    hosts = len(record.born_host) + len(record.store_host)
    topic_length = 72 + hosts + len(record.body)
    topic = topic_length + (1 if record.magic == r.MAGIC_V1 else 2)
    begins = {name: r.RECORD.offset(name) for name in ("size", "magic", "body_crc", "queue_id", "flag")}
    begins |= {
        name: r.RECORD.offset(name) for name in ("queue_offset", "physical_offset", "sys_flag", "born_timestamp")
    }
    begins |= {"born_host": 48, "store_timestamp": 48 + len(record.born_host)}
    begins |= {"store_host": 56 + len(record.born_host), "reconsume_times": 56 + hosts}
    begins |= {"prepared_transaction_offset": 60 + hosts, "body_length": 68 + hosts, "body": 72 + hosts}
    begins |= {"topic_length": topic_length, "topic": topic, "properties_length": topic + len(record.topic)}
    begins |= {"properties": topic + len(record.topic) + 2}
    return max((start, name) for name, start in begins.items() if start <= position)[1]


def unseen_flips(record: r.Record) -> dict[str, set[int]]:
    """Field -> positions at which flipping some bit of the encoded record is not seen."""
    raw = bytearray(r.encode(record))
    unseen: dict[str, set[int]] = {}
    for position in range(len(raw)):
        for bit in range(8):
            raw[position] ^= 1 << bit
            if not kind(bytes(raw), 0, record.physical_offset, file_end=4096):
                unseen.setdefault(field_at(position, record), set()).add(position)
            raw[position] ^= 1 << bit
    return unseen


def test_every_flipped_bit() -> None:
    unseen = unseen_flips(V1)
    assert set(unseen) == set(r.Record._fields) - PROTECTED
    assert unseen["queue_id"] == {12, 13, 14, 15} and unseen["queue_offset"] == set(range(20, 28))
    # The host bits of the system flag move what follows; every other bit of it goes unseen.
    raw = bytearray(r.encode(V1))
    raw[39] ^= r.BORN_HOST_V6
    assert kind(bytes(raw), file_end=4096) == "LENGTHS"


def test_every_flipped_bit_of_an_empty_body() -> None:
    """Without a body its checksum is not looked at, as in Java."""
    assert set(unseen_flips(V2)) == (set(r.Record._fields) - PROTECTED | {"body_crc"}) - {"properties"}


def test_every_flipped_bit_with_the_crc_property() -> None:
    """Only a flip that makes the property itself unknown gets through, and that changes nothing else."""
    record = r.append_crc_property(V1)
    end = record.size
    assert unseen_flips(record) == {"properties": {*range(end - 20, end - 11), end - 1}}


def test_kinds() -> None:
    raw = bytes.fromhex(V1_HEX)
    assert kind(raw, file_end=4096) == ""
    assert kind(raw, physical_offset=0x1001) == "OFFSET"
    assert kind(raw, max_size=len(raw) - 1) == "SIZE"
    assert kind(raw, file_end=len(raw) - 1) == "SIZE"
    assert kind(raw, file_end=7) == "SIZE"
    assert kind(b"\0\0\0\x08\xcb\xd4\x31\x94") == "BLANK"
    assert kind(b"\0\0\0\x5b\xcb\xd4\x31\x95".ljust(99, b"\0")) == "MAGIC"
    assert kind(b"\0\0\0\x5a" + raw[4:]) == "SIZE"
    assert kind(b"\x7f\xff\xff\xff" + raw[4:], file_end=1 << 40) == "SIZE"
    assert kind(b"\x80\0\0\0" + raw[4:]) == "SIZE"
    assert kind(raw[: 68 + 16] + b"\xff\xff\xff\xff" + raw[88:], file_end=4096) == "LENGTHS"
    assert kind(raw[:8] + b"\xcb" + raw[9:]) == "CRC"  # the top bit of a checksum is never set


def test_blank() -> None:
    assert r.encode_blank(1000) == bytes.fromhex("000003e8 cbd43194")
    with pytest.raises(FormatError, match="at least 8"):
        r.encode_blank(7)


def test_golden_files_end_in_a_blank(golden: Callable[[str], Golden]) -> None:
    """Each file but the last: the record behind the last one is a blank that takes the rest."""
    store = golden("flags")
    ends = {}
    for row, data, at in records(store):
        ends[row["physical_offset"] - at] = (data, at + row["size"])
    assert len(ends) > 3
    for start, (data, at) in sorted(ends.items())[:-1]:
        assert data[at : at + 8] == r.encode_blank(len(data) - at)
        assert kind(data, at, start + at) == "BLANK"
    assert {len(data) - at for data, at in ends.values()} >= {8, 9, 100}


def test_crc_known_values() -> None:
    assert r.crc(b"") == 0
    assert r.crc(b"123456789") == 0xCBF43926 & 0x7FFFFFFF
    assert r.crc(b"hello") == 0x3610A686


def test_crc_property_digits() -> None:
    """The example of the format: least significant digit first."""
    assert r.crc_property(199544691) == b"__CRC32#\x011964459910\x02"
    assert r.crc_property(7) == b"__CRC32#\x017000000000\x02"


def test_golden_crc_properties(golden: Callable[[str], Golden]) -> None:
    """Java's own: taken off and appended again they are the same bytes, and a flip anywhere before them is seen."""
    carrying = 0
    for row, data, at in records(golden("crc")):
        record = r.decode(data, at)
        assert record.properties[-20:].startswith(b"__CRC32#\x01")
        carrying += 1
        bare = record._replace(properties=record.properties[:-20])
        if not bare.properties or bare.properties.endswith(b"\x02"):
            assert r.append_crc_property(bare) == record
        damaged = bytearray(data[at : at + row["size"]])
        damaged[16] ^= 1  # the flag, which nothing else protects
        assert kind(bytes(damaged), 0, row["physical_offset"]) == "CRC_PROPERTY"
    assert carrying == len(golden("crc").rows)


def test_crc_property_gets_a_separator() -> None:
    record = r.append_crc_property(V1._replace(properties=b"A\x01b"))
    assert record.properties.startswith(b"A\x01b\x02__CRC32#\x01")
    assert kind(r.encode(record)) == ""
    with pytest.raises(FormatError, match="properties_length 32768 does not fit"):
        r.append_crc_property(V1._replace(properties=b"\x02" * (32768 - 20)))


@given(values(r.RECORD, magic=st.sampled_from([r.MAGIC_V1, r.MAGIC_V2])))
def test_any_record_round_trips_and_counts(drawn: tuple[r.Record, dict[str, int]]) -> None:
    record = drawn[0]._replace(body_crc=r.crc(drawn[0].body))
    raw = r.encode(record)
    assert r.decode(raw) == r.check(raw + b"tail", 0, record.physical_offset) == record


@given(st.binary(max_size=200), st.integers(0, 60), st.booleans())
def test_random_bytes_are_refused_with_a_kind(noise: bytes, cut: int, headed: bool) -> None:
    data = (bytes.fromhex(V1_HEX)[:cut] if headed else b"") + noise
    assert kind(data) in {"MORE", "BLANK", "ZERO", "MAGIC", "SIZE", "LENGTHS", "OFFSET", "CRC", "CRC_PROPERTY"}


def test_split_gives_what_decode_gives_on_every_golden_record(golden_store: Golden) -> None:
    """The fast twin; damaged and shortened records are refused with the same error."""
    log = {f.name: f.read_bytes() for f in (golden_store.path / "commitlog").iterdir()}
    for row in golden_store.live:
        name = max(n for n in log if int(n) <= row["physical_offset"])
        at = row["physical_offset"] - int(name)
        data = log[name][at : at + row["size"]]
        assert r.split(data) == r.decode(data)
    for at in range(len(data)):
        damaged = data[:at] + bytes([data[at] ^ 0x81]) + data[at + 1 :]
        assert outcome(r.split, damaged) == outcome(r.decode, damaged)
        assert outcome(r.split, data[:at]) == outcome(r.decode, data[:at])


def outcome(function: Callable[[bytes], r.Record], data: bytes) -> object:
    try:
        return function(data)
    except r.RecordError as error:
        return error.kind, str(error)


@given(
    values(r.RECORD, magic=st.sampled_from([r.MAGIC_V1, r.MAGIC_V2])),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), max_size=3),
    st.integers(0, 40),
)
def test_the_kernel_agrees(
    drawn: tuple[r.Record, object], appended: bool, damage: list[tuple[int, int]], cut: int
) -> None:
    """Reference and kernel say the same of any record, whole, damaged or cut: it counts, it goes on, or it does not."""
    record = drawn[0]._replace(body_crc=r.crc(drawn[0].body), physical_offset=7)
    raw = bytearray(r.encode(r.append_crc_property(record) if appended else record))
    for place, value in damage:
        raw[place % len(raw)] = value
    del raw[len(raw) - min(cut, len(raw) - 1) if cut < 20 else len(raw) :]
    positions = array("q", [0])
    file_end = len(raw) + 500
    count, _, reason, _ = walk.walk(raw, 0, len(raw), file_end, 1, 7, 0, 4096, walk.CHECK_CRC, positions)
    expected = kind(bytes(raw), 0, 7, file_end=file_end, max_size=4096)
    assert count == (not expected)
    if expected in ("BLANK", "ZERO", "MAGIC", "SIZE") or not damage:
        assert reason == (getattr(walk, expected) if expected else walk.END)
    elif expected == "MORE":  # of a damaged record the kernel may see more at once
        assert reason in (walk.MORE, walk.OFFSET, walk.LENGTHS)


def test_fewer_bytes_than_a_record() -> None:
    raw = bytes.fromhex(V1_HEX)
    with pytest.raises(r.RecordError, match="size 90 is below the least") as caught:
        r.decode(b"??" + b"\0\0\0\x5a" + raw[4:], 2)
    assert (caught.value.kind, caught.value.position) == ("SIZE", 2)
    with pytest.raises(r.RecordError, match="goes beyond"):
        r.decode(raw[:-1])
    assert r.decode(raw).transaction == r.TRANSACTION_NONE
    assert V2.transaction == r.TRANSACTION_COMMIT


def test_split_needs_no_help_with_whole_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """It leaves what is odd to decode, which takes several times as long: nothing whole may be odd to it."""
    whole = []
    for flags in (0, r.BORN_HOST_V6, r.STORE_HOST_V6, r.BORN_HOST_V6 | r.STORE_HOST_V6):
        hosts = {"born_host": b"b" * (20 if flags & 0x10 else 8), "store_host": b"h" * (20 if flags & 0x20 else 8)}
        for magic, topic in ((r.MAGIC_V1, b"T"), (r.MAGIC_V1, b"t" * 255), (r.MAGIC_V2, b"t" * 300), (r.MAGIC_V1, b"")):
            for body, properties in ((b"", b""), (b"body", b"K\x01v\x02"), (b"", b"p" * 32767)):
                given = r.Record(
                    magic, r.crc(body), 1, 2, 3, 4, flags, 5, store_timestamp=6, reconsume_times=7,
                    prepared_transaction_offset=8, body=body, topic=topic, properties=properties, **hosts,
                )  # fmt: skip
                whole.append((given, r.encode(given)))
    monkeypatch.setattr(r, "decode", lambda data: pytest.fail("decode was asked"))
    for given, data in whole:
        assert r.split(data) == given


def test_split_refuses_what_decode_refuses() -> None:
    """Records whose parts add up, and that are none all the same."""
    plain = r.encode(r.Record(r.MAGIC_V2, topic=b"topic"))
    other = plain[:4] + b"\xda\xa3\x20\xac" + plain[8:]
    long_topic = r.encode(r.Record(r.MAGIC_V2, topic=b"t" * 32767))
    at = len(long_topic) - 32767 - 4
    long_topic = long_topic[:at] + (32768).to_bytes(2, "big") + b"t" + long_topic[at + 2 :]
    short = plain[:-2] + b"\xff"  # a properties length of -1, of which only one byte is there
    head = r.encode(r.Record())[:-7]  # all before the body's length
    # A length of -4 is where the topic's would be, so that its first byte tells of 255 of a topic.
    no_body = head + b"\xff\xff\xff\xfc" + bytes(254)
    # The topic has -32768 bytes: inside of the body is what would be the length of the properties.
    no_topic = b"\0\0\0\0\xda\xa3\x20\xab" + head[8:] + b"\0\0\x80\0" + b"\0\0\x7f\xfe" + bytes(32764) + b"\x80\0"
    negative = plain[:-2] + b"\xff\xff" + bytes(65535)  # of properties
    cases = ((other, "MAGIC"), (long_topic, "LENGTHS"), (short, "LENGTHS"))
    for data, kind in (*cases, (no_body, "LENGTHS"), (no_topic, "LENGTHS"), (negative, "LENGTHS")):
        data = len(data).to_bytes(4, "big") + data[4:]
        for read in (r.decode, r.split):
            with pytest.raises(r.RecordError) as caught:
                read(data)
            assert caught.value.kind == kind


def test_what_is_wrong_and_where_is_told() -> None:
    """The record begins at byte 3 of the buffer, and at log offset 4096."""
    raw = bytes.fromhex(V1_HEX)
    size, crc = len(raw), r.crc(r.decode(raw).body)
    with_crc = r.encode(r.append_crc_property(r.decode(raw)))
    cases: list[tuple[bytes, dict[str, int], str, str, int]] = [
        (raw, {"file_end": 10}, "SIZE", "7 bytes of the file are left, a header needs 8", 3),
        (raw, {"file_end": 2 + size}, "SIZE", f"size {size} is not between 91 and {size - 1}", 3),
        (raw, {"max_size": size - 1}, "SIZE", f"size {size} is not between 91 and {size - 1}", 3),
        (raw, {"available": 10, "file_end": 999}, "MORE", "7 bytes at hand, a header needs 8", 3),
        (raw, {"available": 1, "file_end": 999}, "MORE", "0 bytes at hand, a header needs 8", 3),
        (raw[:-1], {"file_end": 999}, "MORE", f"size {size} goes beyond the {size - 1} bytes at hand", 3),
        (raw, {"physical_offset": 4097}, "OFFSET", "physical offset 4096 in a record at 4097", 3 + 28),
        (raw[:8] + b"\0\0\0\7" + raw[12:], {}, "CRC", f"body CRC 7, computed {crc}", 3 + 8),
        (raw[:4] + b"\0\0\0\1" + raw[8:], {}, "MAGIC", "magic 0x00000001 is neither V1, V2 nor blank", 3 + 4),
        (raw[:4] + bytes(4) + raw[8:], {}, "MAGIC", "magic 0x00000000 is neither V1, V2 nor blank", 3 + 4),
        (bytes(4) + b"\0\0\0\1", {}, "MAGIC", "magic 0x00000001 is neither V1, V2 nor blank", 3 + 4),
        (raw[:84] + b"\xff\xff\xff\xfe" + raw[88:], {}, "LENGTHS", "body_length is negative: -2", 3 + 84),
        (bytes(100), {}, "ZERO", "zeros: nothing was written here", 3),
        (r.encode_blank(100), {"file_end": 103}, "BLANK", "blank record: the file ends here", 3),
        (with_crc[:12] + b"\1" + with_crc[13:], {}, "CRC_PROPERTY",
         "record CRC (property __CRC32#) differs from the computed one", 3 + len(with_crc) - 20),
    ]  # fmt: skip
    for data, more, kind, reason, position in cases:
        words = {"physical_offset": 4096} | more
        with pytest.raises(r.RecordError) as caught:
            r.check(b"xyz" + data, 3, **words)
        assert (caught.value.kind, caught.value.reason, caught.value.position) == (kind, reason, position)
    with pytest.raises(r.RecordError, match="size 90 is below the least, 91"):
        r.decode(b"\0\0\0\x5a" + raw[4:])
