"""What is put over damaged ranges of a log, so that it can be walked again from record to record.

Inside a file a range is covered by one record of its exact length (by several where it is longer than a record should
be) in a topic of its own. Where a range reaches the end of a file, a blank record covers it, behind one small record if
it begins with the file: files begin with records.

The records carry the transaction bits of a rolled-back message. Neither RocketMQ nor FlintMQ puts such a record into a
queue or the index: there are no queue offsets to invent, and none to clash with a later salvage.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from flintmq.format.record import BLANK_SIZE, MIN_SIZE, TRANSACTION_ROLLBACK, Record, crc, encode, encode_blank

TOPIC = b"FLINTMQ_QUARANTINE"
LARGEST = 1 << 20  # bytes of one cover
LEAST = MIN_SIZE + 1  # with a topic of one letter
SMALL = 512  # of the record at the beginning of a file that has no other


@dataclass(frozen=True, slots=True)
class Range:
    """Log offsets [begin, end) of one file without a record that counts.

    Attributes:
        file: path.
        start: log offset of the file's first byte.
        begin, end: log offsets.
        file_end: log offset behind the file.
        why: what does not hold.
        time: store time in ms for what covers it: of the record before.
    """

    file: str
    start: int
    begin: int
    end: int
    file_end: int
    why: str
    time: int


def filler_records(damaged: Range) -> Iterator[tuple[int, bytes]]:
    """(log offset, bytes) of what covers a range: records, or a blank at its end."""
    at, end = damaged.begin, damaged.end
    if end == damaged.file_end:
        if at == damaged.start:
            yield at, filler_record(damaged, at, SMALL)
            at += SMALL
        yield at, encode_blank(end - at)
        return
    while at < end:
        size = end - at
        if size > LARGEST:
            size = min(LARGEST, size - LEAST)
        yield at, filler_record(damaged, at, size)
        at += size


def filler_record(damaged: Range, offset: int, size: int) -> bytes:
    """A record of exactly `size` bytes, which counts at `offset`."""
    topic = TOPIC[: max(size - MIN_SIZE, 0)]
    told = {"quarantined": [damaged.begin, damaged.end], "why": damaged.why}
    text = json.dumps(told).encode("ascii") + b"\n"
    room = size - MIN_SIZE - len(topic)
    body = text.ljust(room) if len(text) <= room else b" " * room
    record = Record(
        body_crc=crc(body),
        physical_offset=offset,
        sys_flag=TRANSACTION_ROLLBACK,
        born_timestamp=damaged.time,
        store_timestamp=damaged.time,
        body=body,
        topic=topic,
    )
    data = encode(record)
    assert len(data) == size
    return data


assert SMALL + BLANK_SIZE < 1024
