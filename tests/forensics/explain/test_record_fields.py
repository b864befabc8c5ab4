"""One record: flags by name, properties one by one, checksums."""

from pathlib import Path

from flintmq.format import inner_batch, properties, record
from flintmq.format.record import Record
from tests.support.looks import Seen, look

HOST6 = bytes(15) + b"\x01" + (10911).to_bytes(4, "big")


def seen_of(tmp_path: Path, made: Record, at: int = 0) -> Seen:
    """A log of this one record, explained."""
    path = tmp_path / "commitlog" / "00000000000000000000"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(record.encode(made))
    return look(path, at)


def test_flags_hosts_and_bodies(tmp_path: Path) -> None:
    flags = record.COMPRESSED | record.COMPRESSION_LZ4 | record.BORN_HOST_V6 | record.TRANSACTION_COMMIT
    made = Record(sys_flag=flags, born_host=HOST6, body=b"abc", body_crc=record.crc(b"abc"), topic=b"T")
    seen = seen_of(tmp_path, made)
    assert seen.field("sys_flag").text == "0x119 (compressed, committed, IPv6 born host, LZ4)"
    assert seen.field("born_host").value == "[::1]:10911"
    assert seen.field("body").text == "3 bytes, compressed with LZ4"
    assert seen.field("body_crc").text.endswith(": as computed")
    assert not seen.problems


def test_unknown_bits_are_told(tmp_path: Path) -> None:
    assert seen_of(tmp_path, Record(topic=b"T", sys_flag=0x8001)).field("sys_flag").text == (
        "0x8001 (compressed, 0x8000 unknown)"
    )


def test_properties_as_java_reads_them(tmp_path: Path) -> None:
    """The cases of docs/internals/format/properties.md, byte by byte."""
    stored = b"A\x011\x02B\x01\x02\x01v\x02A\x012\x02TAGS\x01Aa\x02last\x01x"
    seen = seen_of(tmp_path, Record(topic=b"T", properties=stored))
    told = [(line.name, line.value, line.length) for line in seen.lines if line.name.startswith("property")]
    assert told == [
        ("property A", "1", 4), ("property", None, 3), ("property", None, 3), ("property A", "2", 4),
        ("property TAGS", "Aa", 8), ("property last", "x", 6),
    ]  # fmt: skip
    assert "a later pair of this name wins" in seen.named("property A")[0].text
    assert seen.field("property TAGS").text == "Aa: tags code 2112"  # Java's "Aa".hashCode()
    assert seen.field("property TAGS").meaning == properties.MEANINGS["TAGS"]


def test_the_appended_checksum(tmp_path: Path) -> None:
    made = record.append_crc_property(Record(topic=b"T", properties=b"K\x01v\x02"))
    seen = seen_of(tmp_path, made)
    assert seen.field("property __CRC32#").text.endswith(": as computed")
    wrong = bytearray(record.encode(made))
    wrong[12] ^= 1  # the queue id, which only this checksum covers
    path = tmp_path / "commitlog" / "00000000000000000000"
    path.write_bytes(wrong)
    [line] = look(path, 0).problems
    assert line.name == "property __CRC32#" and "record CRC (property __CRC32#)" in (line.problem or "")
    assert "computed " in line.text


def test_the_messages_of_an_inner_batch(tmp_path: Path) -> None:
    entries = [inner_batch.Entry(body=b"one"), inner_batch.Entry(body=b"two", properties=b"K\x01v\x02")]
    body = inner_batch.encode(entries)
    made = Record(topic=b"T", sys_flag=record.INNER_BATCH, body=body, body_crc=record.crc(body))
    seen = seen_of(tmp_path, made)
    first, second = seen.field("body entry 0"), seen.field("body entry 1")
    assert (first.length, second.length) == (25, 29) and second.text == "3 bytes: two; K=v"


def test_escape_sequences_stay_values(tmp_path: Path) -> None:
    """Escaping is the output's work: programs get what is stored."""
    assert seen_of(tmp_path, Record(topic=b"\x1b[31m")).field("topic").value == "\x1b[31m"
