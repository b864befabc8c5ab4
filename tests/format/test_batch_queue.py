"""Batch consume queue units: hand-written bytes, Java's files, and what a record counts for."""

from collections.abc import Callable

import pytest

from flintmq.format import batch_queue as bq
from flintmq.format.text import java_hash
from tests.compat.stores import Golden
from tests.support.golden_logs import queue_files


@pytest.mark.parametrize(
    ("unit", "data"),
    [
        (
            bq.BatchUnit(0x1000, 111, -2, 1700000000000, 40, 3),
            "0000000000001000 0000006f fffffffffffffffe 0000018bcfe56800 0000000000000028 0003 ffffffff 00000000",
        ),
        (
            bq.COMPACTION_END,
            "ffffffffffffffff 00000000 0000000000000000 0000000000000000 0000000000000000 0000 ffffffff 00000000",
        ),
    ],
)
def test_hand_written_bytes(unit: bq.BatchUnit, data: str) -> None:
    assert bq.BATCH_UNIT.pack(unit) == bytes.fromhex(data)
    assert bq.BATCH_UNIT.unpack(bytes.fromhex(data)) == unit


def test_what_counts_as_written() -> None:
    unit = bq.BatchUnit(0, 1, 0, 0, 0, 1)
    assert unit.is_written
    for changed in ({"physical_offset": -1}, {"size": 0}, {"base_offset": -1}, {"messages": 0}):
        assert not unit._replace(**changed).is_written
    assert not bq.COMPACTION_END.is_written


@pytest.mark.parametrize(
    ("properties", "found"),
    [
        ({}, (9, 1)),
        ({"INNER_NUM": "3", "INNER_BASE": "40"}, (40, 3)),
        ({"INNER_NUM": "3"}, (9, 1)),
        ({"INNER_BASE": "40"}, (9, 1)),
        ({"INNER_NUM": "32768", "INNER_BASE": "40"}, (9, 1)),
        ({"INNER_NUM": "3", "INNER_BASE": "x"}, (9, 1)),
    ],
)
def test_messages_of(properties: dict[str, str], found: tuple[int, int]) -> None:
    assert bq.messages_of(properties, 9) == found


@pytest.mark.parametrize("name", ["batch", "config"])
def test_golden_units_are_what_their_records_say(golden: Callable[[str], Golden], name: str) -> None:
    store = golden(name)
    queues = sorted((store.path / "batchconsumequeue").glob("*/*"))
    assert queues
    for path in queues:
        expected = []
        for row in store.rows:
            if (row["topic"], row["queue_id"]) == (path.parent.name, int(path.name)):
                base, messages = bq.messages_of(row["properties"], row["queue_offset"])
                tags = java_hash(row["tags"]) if row["tags"] else 0
                place = row["physical_offset"], row["size"], tags, row["store_timestamp"]
                expected.append(bq.BatchUnit(*place, base, messages))
        files = queue_files(path).values()
        assert [unit for data in files for unit in bq.BATCH_UNIT.iter(data) if unit.is_written] == expected
