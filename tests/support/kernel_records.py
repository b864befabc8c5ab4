"""Records for tests of the kernels that read validated ones: plain and odd, and where they lie."""

from __future__ import annotations

from array import array
from typing import Any

from flintmq.format import record

PAIRS = b"TAGS\x01a\x02KEYS\x01k1 k2\x02UNIQ_KEY\x017F00000100001FBB0000000000000001\x02"
HOST4 = bytes([10, 0, 0, 255]) + (8080).to_bytes(4, "big")
HOST6 = bytes.fromhex("20010db8000000000000000000000001") + (51000).to_bytes(4, "big")

# Property strings that only Python reads.
LONG_WINDED = {
    "a name twice": b"A\x011\x02A\x012\x02",
    "tags twice": b"TAGS\x01x\x02B\x01b\x02TAGS\x01y\x02",
    "33 pairs": b"".join(b"n%d\x01v\x02" % i for i in range(33)),
    "malformed": b"TAGS\x01\xff\x02K\x01v\x02",
    "encoded surrogate": b"TAGS\x01\xed\xa0\x80\x02",
    "cut sequence": b"K\x01\xe6\x8a\x02TAGS\x01t\x02",
    "malformed name": b"\xc3\x28\x01v\x02\xc3\x01w\x02",
}
# Property strings that the kernel reads.
READ = {
    "none": b"",
    "usual": PAIRS,
    "no last separator": PAIRS[:-1],
    "no value, no name": b"A\x01\x02\x01v\x02B\x011\x02",
    "separators alone": b"\x02\x01\x02\x01\x01\x02\x02",
    "value with 01": b"A\x01b\x01c\x02",
    "32 pairs": b"".join(b"n%d\x01v\x02" % i for i in range(32)),
    "not ASCII": "TAGS\x01报警\x02地区\x01é😀\x02".encode(),
    "long value": b"K\x01" + b"v" * 1000 + b"\x02TAGS\x01t\x02",
    "similar names": b"TAG\x011\x02TAGS2\x012\x02KEYT\x013\x02UNIQ_KEZ\x014\x02tags\x015\x02",
    "one byte": b"x",
}


def records(*changes: dict[str, Any], base: int = 0) -> tuple[bytes, array[int]]:
    """(bytes, positions) of one record for each dict of fields that differ from a plain record."""
    data, positions = b"", array("q")
    for change in changes:
        fields = {"topic": b"Topic", "body": b"hello", "properties": PAIRS, "born_host": HOST4, "store_host": HOST4}
        fields |= change
        flags = fields.get("sys_flag", 0) & ~0x30
        flags |= (0x10 if len(fields["born_host"]) == 20 else 0) | (0x20 if len(fields["store_host"]) == 20 else 0)
        fields |= {"sys_flag": flags, "physical_offset": base + len(data)}
        fields.setdefault("body_crc", record.crc(fields["body"]))
        positions.append(len(data))
        data += record.encode(record.Record(**fields))
    return data, positions


ODD = [
    {},
    {"body": b""},
    {"topic": b""},
    {"topic": b"t" * 200, "magic": record.MAGIC_V2},
    {"topic": "主题".encode()},
    {"topic": b"bad \xff\xed\xbf\xbf"},
    {"born_host": HOST6},
    {"store_host": HOST6},
    {"born_host": HOST6, "store_host": HOST6, "magic": record.MAGIC_V2},
    {"born_host": bytes(4) + b"\xff\xff\xff\xff"},
    {"store_host": bytes([1, 22, 133, 4]) + (70_000).to_bytes(4, "big")},
    {"body": bytes(range(256)) * 9},
    {"body": b"\xda\xa3\x20\xa7" * 20},
    {"queue_id": -1, "flag": -(2**31), "reconsume_times": 2**31 - 1, "sys_flag": 0x701},
    {"queue_offset": -(2**63), "prepared_transaction_offset": 2**63 - 1},
    {"born_timestamp": -(2**63), "store_timestamp": 2**63 - 1},
    {"born_timestamp": -62135596800001, "store_timestamp": 253402300800000},
    {"born_timestamp": -62135596800000, "store_timestamp": 253402300799999},
    {"body_crc": -1},
    *({"properties": text} for text in READ.values()),
    *({"properties": text} for text in LONG_WINDED.values()),
]
COUNTING = [change for change in ODD if "body_crc" not in change]
"""Those of them that a walk with checksums takes."""
