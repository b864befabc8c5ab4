"""Log records: declaration, codec, and the rule that decides whether a record counts.

Bytes and rules: docs/internals/format/commit-log.md.

This is the slow and clear reference. `kernels/read/walk.py` does the same many times faster and is tested against it.
Upstream: MessageExtEncoder (writes), CommitLog.checkMessageAndReturnSize and MessageDecoder (read).
"""

from __future__ import annotations

import struct
import zlib
from typing import Annotated, Final, NamedTuple

from flintmq.errors import FormatError
from flintmq.format.layout import HEX, HOST, TIME, Bits, Buffer, CountedBytes, Int, Layout, Sized, Total, Values
from flintmq.format.text import java_encode

MAGIC_V1: Final = 0xDAA320A7
MAGIC_V2: Final = 0xDAA320AB
MAGIC_BLANK: Final = 0xCBD43194

# Bits of the system flag.
COMPRESSED: Final = 0x1
MULTI_TAGS: Final = 0x2
TRANSACTION_MASK: Final = 0xC
TRANSACTION_NONE: Final = 0x0
TRANSACTION_PREPARED: Final = 0x4
TRANSACTION_COMMIT: Final = 0x8
TRANSACTION_ROLLBACK: Final = 0xC
BORN_HOST_V6: Final = 0x10
STORE_HOST_V6: Final = 0x20
NEED_UNWRAP: Final = 0x40
INNER_BATCH: Final = 0x80
COMPRESSION_MASK: Final = 0x700
COMPRESSION_LZ4: Final = 0x100
COMPRESSION_ZSTD: Final = 0x200
COMPRESSION_ZLIB: Final = 0x300

SYS_FLAG: Final = (
    Bits(COMPRESSED, "the body is compressed", {COMPRESSED: "compressed"}),
    Bits(MULTI_TAGS, "the topic has several tags; no effect on the tags code", {MULTI_TAGS: "several tags"}),
    Bits(
        TRANSACTION_MASK,
        "transaction: 0 none, 0x4 prepared, 0x8 committed, 0xC rolled back",
        {TRANSACTION_PREPARED: "prepared", TRANSACTION_COMMIT: "committed", TRANSACTION_ROLLBACK: "rolled back"},
    ),
    Bits(BORN_HOST_V6, "the born host is IPv6", {BORN_HOST_V6: "IPv6 born host"}),
    Bits(STORE_HOST_V6, "the store host is IPv6", {STORE_HOST_V6: "IPv6 store host"}),
    Bits(NEED_UNWRAP, "clients must unwrap an inner batch", {NEED_UNWRAP: "to unwrap"}),
    Bits(INNER_BATCH, "inner batch", {INNER_BATCH: "inner batch"}),
    Bits(
        COMPRESSION_MASK,
        "compression: 1 LZ4 (frames), 2 ZSTD, 3 ZLIB; 0 with bit 0 set is ZLIB too",
        {COMPRESSION_LZ4: "LZ4", COMPRESSION_ZSTD: "ZSTD", COMPRESSION_ZLIB: "ZLIB"},
    ),
)
_MAGIC: Final = (Bits(0xFFFFFFFF, "", {MAGIC_V1: "V1", MAGIC_V2: "V2", MAGIC_BLANK: "blank"}),)

V1_TOPIC_LIMIT: Final = 127  # a longer topic makes a V2 record
MAX_PROPERTIES: Final = 32767  # bytes
MAX_OVERHEAD: Final = 64 * 1024  # bytes that a record may have beyond the largest body
DEFAULT_MAX_SIZE: Final = 4 * 1024 * 1024 + MAX_OVERHEAD  # largest record with upstream's maxMessageSize
BLANK_SIZE: Final = 8  # bytes of a blank record that mean something

CRC_PROPERTY_NAME: Final = b"__CRC32#\x01"
CRC_PROPERTY_SIZE: Final = 20


def _born_width(values: Values) -> int:
    return 20 if values["sys_flag"] & BORN_HOST_V6 else 8


def _store_width(values: Values) -> int:
    return 20 if values["sys_flag"] & STORE_HOST_V6 else 8


def _topic_length_type(values: Values) -> str:
    return "u8" if values["magic"] == MAGIC_V1 else "i16"


class Record(NamedTuple):
    """One log record with all its fields raw.

    Text is bytes; a host is its address and port together (message_id.host_text).
    """

    magic: Annotated[
        int,
        Total("size", "i32", "bytes of the whole record, this field included"),
        Int("u32", "V1 `0xDAA320A7`, V2 `0xDAA320AB`; blank `0xCBD43194`", HEX, _MAGIC),
    ] = MAGIC_V1
    body_crc: Annotated[int, Int("i32", "CRC-32 of the body as stored, without its top bit")] = 0
    queue_id: Annotated[int, Int("i32", "queue of the topic")] = 0
    flag: Annotated[int, Int("i32", "the sender's own value")] = 0
    queue_offset: Annotated[int, Int("i64", "index in the queue; 0 for prepared and rolled-back records")] = 0
    physical_offset: Annotated[int, Int("i64", "where this record begins in the log")] = 0
    sys_flag: Annotated[int, Int("i32", "bits of the system flag", HEX, SYS_FLAG)] = 0
    born_timestamp: Annotated[int, Int("i64", "ms, the sender's clock", TIME)] = 0
    born_host: Annotated[bytes, Sized("B", (8, 20), _born_width, "sender: address, then i32 port", HOST)] = bytes(8)
    store_timestamp: Annotated[int, Int("i64", "ms, the broker's clock, read under the append lock", TIME)] = 0
    store_host: Annotated[bytes, Sized("S", (8, 20), _store_width, "broker: address, then i32 port", HOST)] = bytes(8)
    reconsume_times: Annotated[int, Int("i32", "how often a consumer gave the message back")] = 0
    prepared_transaction_offset: Annotated[
        int, Int("i64", "log offset of the half message of a committed one, else 0")
    ] = 0
    body: Annotated[bytes, CountedBytes("body_length", "n", ("i32",), "as the sender gave it, compressed or not")] = b""
    topic: Annotated[
        bytes,
        CountedBytes(
            "topic_length", "t", ("u8", "i16"), "UTF-8; the length is u8 in V1, i16 in V2", _topic_length_type
        ),
    ] = b""
    properties: Annotated[bytes, CountedBytes("properties_length", "p", ("i16",), "property string, UTF-8")] = b""

    @property
    def size(self) -> int:
        return RECORD.size_of(self)

    @property
    def transaction(self) -> int:
        """Transaction bits of the system flag: one of the TRANSACTION_* constants above."""
        return self.sys_flag & TRANSACTION_MASK


class Blank(NamedTuple):
    """Defined bytes of a blank record, the filler after the last record of a log file.

    The remaining bytes up to the end of the file may hold anything.
    """

    size: Annotated[int, Int("i32", "bytes up to the end of the file, this field included")]
    magic: Annotated[int, Int("u32", "`0xCBD43194`", HEX, _MAGIC)] = MAGIC_BLANK


RECORD: Final = Layout("Record", Record)
BLANK: Final = Layout("Blank record", Blank)
_HEAD: Final = RECORD.struct  # everything before the first host
_TIME: Final = struct.Struct(">q")  # store_timestamp, between the hosts
_REST: Final = struct.Struct(">iqi")  # reconsume_times, prepared_transaction_offset, the body's length
MIN_SIZE: Final = RECORD.min_size
assert MIN_SIZE == 91 and BLANK.size == BLANK_SIZE


class RecordError(FormatError):
    """No valid record begins at this position.

    `kind`: MORE, BLANK, ZERO, MAGIC, SIZE, LENGTHS, OFFSET, CRC or CRC_PROPERTY, as `kernels/read/walk.py` names them.
    """

    def __init__(self, kind: str, reason: str, position: int) -> None:
        self.kind = kind
        super().__init__(reason, position)


def crc(body: Buffer) -> int:
    """Compute the checksum of a body: CRC-32 with the top bit cleared; 0 for no bytes.

    The top bit is cleared so that Java's int is never negative.
    """
    return zlib.crc32(body) & 0x7FFFFFFF


def magic_for(topic: str) -> int:
    """Choose the record version for a topic.

    V2 is chosen for a topic of more than 127 UTF-16 units, or of more than 127 bytes, which V1 could not hold. Upstream
    looks at the units alone and writes an unreadable V1 record for a short topic of many bytes; a broker refuses such
    topics before they reach the store.
    """
    units = len(topic.encode("utf-16-be", "surrogatepass")) // 2
    return MAGIC_V2 if max(units, len(java_encode(topic))) > V1_TOPIC_LIMIT else MAGIC_V1


def decode(buf: Buffer, at: int = 0, limit: int | None = None) -> Record:
    """Decode the record that begins at buf[at], without comparing checksums or its offset.

    `check` compares those too.

    `limit`: bytes at or after buf[limit] are not looked at; the end of buf if None.

    Raises RecordError: MORE (fewer bytes than a header or than the size says), BLANK, ZERO, MAGIC, SIZE or LENGTHS.
    """
    end = len(buf) if limit is None else min(limit, len(buf))
    size, magic = _head(buf, at, end)
    if magic == MAGIC_BLANK:
        raise RecordError("BLANK", "blank record: the file ends here", at)
    if magic not in (MAGIC_V1, MAGIC_V2):
        if size == 0 and magic == 0:
            raise RecordError("ZERO", "zeros: nothing was written here", at)
        raise RecordError("MAGIC", f"magic 0x{magic:08X} is neither V1, V2 nor blank", at + 4)
    if size < MIN_SIZE:
        raise RecordError("SIZE", f"size {size} is below the least, {MIN_SIZE}", at)
    if size > end - at:
        raise RecordError("MORE", f"size {size} goes beyond the {end - at} bytes at hand", at)
    try:
        return RECORD.unpack(buf, at, at + size)
    except FormatError as error:
        raise RecordError("LENGTHS", error.reason, error.position) from None


def split(data: bytes) -> Record:
    """Decode bytes that hold exactly one record and were validated before.

    The result is that of `decode`, several times faster.
    """
    try:
        size, *head = _HEAD.unpack_from(data)
        store = 68 if head[6] & BORN_HOST_V6 else 56
        rest = store + (28 if head[6] & STORE_HOST_V6 else 16)
        (store_time,) = _TIME.unpack_from(data, store)
        times, prepared, body = _REST.unpack_from(data, rest)
        at_body = rest + _REST.size
        at_topic = at_body + body + (1 if head[0] == MAGIC_V1 else 2)
        topic = int.from_bytes(data[at_body + body : at_topic], "big", signed=head[0] != MAGIC_V1)
        at_properties = at_topic + topic + 2
        properties = int.from_bytes(data[at_properties - 2 : at_properties], "big", signed=True)
    except struct.error:
        return decode(data)
    if head[0] not in (MAGIC_V1, MAGIC_V2) or min(body, topic, properties) < 0:
        return decode(data)
    if not size == len(data) == at_properties + properties:
        return decode(data)
    return Record._make(
        (
            *head,
            data[48:store],
            store_time,
            data[store + 8 : rest],
            times,
            prepared,
            data[at_body : at_body + body],
            data[at_topic : at_topic + topic],
            data[at_properties:],
        )
    )


def _head(buf: Buffer, at: int, end: int) -> Blank:
    """Read size and magic, the first fields of records and blank records."""
    if end - at < BLANK_SIZE:
        raise RecordError("MORE", f"{max(end - at, 0)} bytes at hand, a header needs {BLANK_SIZE}", at)
    return BLANK.unpack(buf, at)


def encode(record: Record) -> bytes:
    """Encode a record.

    Sizes and lengths are computed; checksum, offsets and times are taken as they are.
    """
    return RECORD.pack(record)


def encode_blank(size: int) -> bytes:
    """Encode the eight defined bytes of a blank record that fills the last `size` bytes."""
    if size < BLANK_SIZE:
        raise FormatError(f"a blank record takes at least {BLANK_SIZE} bytes, not {size}")
    return BLANK.pack(Blank(size))


def check(
    buf: Buffer,
    at: int,
    physical_offset: int,
    available: int | None = None,
    file_end: int | None = None,
    max_size: int = DEFAULT_MAX_SIZE,
) -> Record:
    """Decode the record at buf[at] and check that it counts.

    Compared in this order: headers, lengths, the record's own offset, the checksums.

    Args:
        available: how many bytes of buf are filled; all if None.
        file_end: where the log file ends, in buf's positions; may lie beyond buf; `available` if None.

    Raises:
        RecordError: it does not count; `kind` says why.
    """
    end = len(buf) if available is None else min(available, len(buf))
    file_end = end if file_end is None else file_end
    if file_end - at < BLANK_SIZE:
        raise RecordError("SIZE", f"{file_end - at} bytes of the file are left, a header needs {BLANK_SIZE}", at)
    size, magic = _head(buf, at, end)
    if magic in (MAGIC_V1, MAGIC_V2) and not MIN_SIZE <= size <= min(max_size, file_end - at):
        raise RecordError("SIZE", f"size {size} is not between {MIN_SIZE} and {min(max_size, file_end - at)}", at)
    record = decode(buf, at, end)
    if record.physical_offset != physical_offset:
        raise RecordError(
            "OFFSET",
            f"physical offset {record.physical_offset} in a record at {physical_offset}",
            at + RECORD.offset("physical_offset"),
        )
    if record.body and crc(record.body) != record.body_crc:
        reason = f"body CRC {record.body_crc}, computed {crc(record.body)}"
        raise RecordError("CRC", reason, at + RECORD.offset("body_crc"))
    if not crc_property_right(buf, at, record):
        raise RecordError(
            "CRC_PROPERTY",
            "record CRC (property __CRC32#) differs from the computed one",
            at + size - CRC_PROPERTY_SIZE,
        )
    return record


def crc_property(checksum: int) -> bytes:
    """Encode the property that upstream appends with enabledAppendPropCRC.

    Its value is the checksum in ten digits, the least significant first.
    """
    return CRC_PROPERTY_NAME + f"{checksum:010d}"[::-1].encode() + b"\x02"


def crc_property_right(buf: Buffer, at: int, record: Record) -> bool:
    """Return whether `record`, at buf[at], has a correct appended CRC property or none.

    The property is present if the last 20 bytes of the properties begin with its name and end with 02. It covers all
    bytes of the record before it.
    """
    tail = record.properties[-CRC_PROPERTY_SIZE:]
    if len(tail) < CRC_PROPERTY_SIZE or not tail.startswith(CRC_PROPERTY_NAME) or tail[-1] != 2:
        return True
    return tail == crc_property(crc(memoryview(buf)[at : at + record.size - CRC_PROPERTY_SIZE]))


def append_crc_property(record: Record) -> Record:
    """Append the CRC property to a record, as upstream does for a single message.

    All other fields must be final. Properties that do not end with 02 get one before it.
    """
    before = record.properties
    if before and not before.endswith(b"\x02"):
        before += b"\x02"
    covered = encode(record._replace(properties=before + bytes(CRC_PROPERTY_SIZE)))[:-CRC_PROPERTY_SIZE]
    return record._replace(properties=before + crc_property(crc(covered)))
