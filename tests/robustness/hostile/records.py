"""Logs to damage: a short one with every kind of record, made with the slow codec, and hostile ones made to order."""

import zlib
from functools import cache

from flintmq.format import record
from flintmq.format.record import MAGIC_V1, MAGIC_V2, Record

T0 = 1_700_000_000_000


def encoded(offset: int, **fields: object) -> bytes:
    """One record as it lies at a log offset; the body's checksum is right unless it is given."""
    body = fields.get("body", b"body")
    assert isinstance(body, bytes)
    given = {"body": body, "topic": b"T", "store_timestamp": T0 + offset, "body_crc": record.crc(body), **fields}
    made = Record(physical_offset=offset, **given)  # type: ignore[arg-type]
    return record.encode(made)


@cache
def log_bytes() -> bytes:
    """A log of some 60 records, every layout there is: both magics, both host widths, all flags, odd texts."""
    data = bytearray()
    v6 = bytes(range(16)) + bytes((0, 0, 0x1F, 0x90))
    v4 = bytes((10, 0, 0, 1, 0, 0, 0x1F, 0x90))
    property_strings = (
        b"",
        b"KEYS\x01k1 k2\x02TAGS\x01t\x02UNIQ_KEY\x010A0000010000\x02",
        b"\x01\x02\x02\x01KEYS\x01",
        b"".join(b"p%d\x01v%d\x02" % (i, i) for i in range(40)),
        b"TAGS\x01\xff\xfe\x02KEYS\x01\xe4\xb8\xad\x02TAGS\x01twice\x02",
        b"INNER_NUM\x013\x02INNER_BASE\x017\x02",
        b"INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02INNER_MULTI_QUEUE_OFFSET\x011,2\x02",
        b"KEYS\x01" + b"a " * 500 + b"\x02",
    )
    for number in range(64):
        topic = (b"Basic", b"\xe4\xb8\xad\xe6\x96\x87", b"L" * 130, b"SCHEDULE_TOPIC_XXXX", b"\xff\x00bad")[number % 5]
        sys_flag = (0, 0x10, 0x20, 0x30)[number % 4] | (0, 4, 8, 12, 1, 0x80)[number % 6]
        body = bytes(range(256))[: (number * 37) % 257] + (b"\xda\xa3\x20\xa7" if number % 7 == 0 else b"")
        data += encoded(
            len(data),
            magic=MAGIC_V2 if len(topic) > 127 else MAGIC_V1,
            topic=topic,
            queue_id=number % 3,
            queue_offset=number // 3,
            sys_flag=sys_flag,
            born_host=v6 if sys_flag & 0x10 else v4,
            store_host=v6 if sys_flag & 0x20 else v4,
            body=body,
            properties=property_strings[number % len(property_strings)],
        )
    return bytes(data)


LOG = log_bytes()


@cache
def record_starts() -> list[int]:
    """Where the records of LOG begin, and where the last one ends."""
    starts, at = [], 0
    while at < len(LOG):
        starts.append(at)
        at += int.from_bytes(LOG[at : at + 4], "big")
    return [*starts, at]


def with_crc_property(data: bytes) -> bytes:
    """The record that `data` is, with the whole-record checksum appended."""
    return record.encode(record.append_crc_property(record.decode(data)))


def crc32(data: bytes) -> int:
    """Checksum of a body as a record stores it."""
    return zlib.crc32(data) & 0x7FFFFFFF
