"""Covers: records that count and are exactly as long as what they cover, by the reference codec."""

import json

import pytest

from flintmq.forensics.salvage.filler import LARGEST, LEAST, TOPIC, Range, filler_records
from flintmq.format.record import BLANK, MAGIC_BLANK, TRANSACTION_ROLLBACK, check


def damaged(begin: int, end: int, file_end: int = 1 << 23) -> Range:
    return Range("f", 0, begin, end, file_end, "body CRC is wrong", 1_700_000_000_000)


@pytest.mark.parametrize("size", [LEAST, 100, 108, 109, 110, 236, 5000, LARGEST, LARGEST + 1, LARGEST + LEAST,
                                  3 * LARGEST + 7])  # fmt: skip
def test_records_fill_the_range(size: int) -> None:
    at = 1000
    for offset, data in filler_records(damaged(1000, 1000 + size)):
        assert offset == at
        record = check(data, 0, offset)
        assert record.transaction == TRANSACTION_ROLLBACK and record.store_timestamp == 1_700_000_000_000
        assert TOPIC.startswith(record.topic) and record.topic and len(data) <= LARGEST
        at += len(data)
    assert at == 1000 + size


def test_what_is_lost_stands_in_the_body() -> None:
    [(offset, data)] = filler_records(damaged(1000, 1236))
    record = check(data, 0, offset)
    assert record.topic == b"FLINTMQ_QUARANTINE"
    assert json.loads(record.body) == {"quarantined": [1000, 1236], "why": "body CRC is wrong"}


def test_the_rest_of_a_file_is_blank() -> None:
    [(offset, data)] = filler_records(damaged(1000, 1 << 23))
    assert (offset, BLANK.unpack(data)) == (1000, ((1 << 23) - 1000, MAGIC_BLANK))
    (first, record), (second, blank) = filler_records(damaged(0, 1 << 23))
    assert first == 0 and check(record, 0, 0).topic == TOPIC and second == len(record)
    assert BLANK.unpack(blank).size == (1 << 23) - second
