"""Filler records for damaged ranges, so that the log can be walked again record by record.

A range inside a file is covered by one filler record of its exact length (by several if it is longer than a record
should be) in a topic of its own. A range that reaches the end of a file is covered by a blank record. If it also begins
with the file, one small filler record comes before the blank, because files begin with records.

Filler records carry the transaction bits of a rolled-back message. Neither RocketMQ nor FlintMQ puts such a record into
a queue or the index, so no queue offsets have to be invented, and none can collide in a later salvage.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from flintmq.format.record import BLANK_SIZE, MIN_SIZE, TRANSACTION_ROLLBACK, Record, crc, encode, encode_blank
from flintmq.store.commitlog.files import LogFile

TOPIC = b"FLINTMQ_QUARANTINE"
LARGEST = 1 << 20  # bytes of one filler record
LEAST = MIN_SIZE + 1  # bytes: a topic of one letter
SMALL = 512  # bytes of the record at the beginning of a file that has no other


@dataclass(frozen=True, slots=True)
class Range:
    """Log offsets [begin, end) of one file without an intact record."""

    file: str
    start: int  # log offset of the file's first byte
    begin: int
    end: int
    file_end: int  # log offset after the file
    why: str
    time: int  # store time in ms of the record before the range; the filler gets it

    @classmethod
    def of(cls, file: LogFile, begin: int, end: int, why: str, time: int) -> Range:
        return cls(file.path, file.start, begin, end, file.start + file.size, why, time)


def filler_records(damaged: Range) -> Iterator[tuple[int, bytes]]:
    """Yield (log offset, bytes) of the fillers of a range: records, or a blank at its end."""
    assert damaged.start <= damaged.begin < damaged.end <= damaged.file_end  # a filler never goes over a file's end
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
    """Return a filler record of exactly `size` bytes for log offset `offset`."""
    topic = TOPIC[: max(size - MIN_SIZE, 0)]
    note = {"quarantined": [damaged.begin, damaged.end], "why": damaged.why}
    text = json.dumps(note).encode("ascii") + b"\n"
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
