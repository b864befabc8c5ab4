"""Consume queue units: hand-written bytes, Java's files, and the tags code."""

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.format import consume_queue as cq
from tests.compat.stores import Golden
from tests.support.golden_logs import queue_files

DELAY_MS = StoreConfig().delay_ms
PLAIN = [
    "basic",
    "flags",
    "flags540",
    "crc",
    "delay",
    "config540",
    "v540",
    "flags550",
    "v550",
    "config550",
]  # neither ext files nor light queues


@pytest.mark.parametrize(
    ("unit", "data"),
    [
        (cq.Unit(0x1000, 111, -2), "0000000000001000 0000006f fffffffffffffffe"),
        (cq.PRE_BLANK, "0000000000000000 7fffffff 0000000000000000"),
    ],
)
def test_hand_written_bytes(unit: cq.Unit, data: str) -> None:
    assert cq.UNIT.pack(unit) == bytes.fromhex(data)
    assert cq.UNIT.unpack(bytes.fromhex(data)) == unit


def test_the_record_that_a_unit_points_to() -> None:
    """Bytes 0 to 7 of a unit, whichever it is; the units may follow a negative one."""
    units = bytes.fromhex("ffffffffffffffff 0000006f 0000000000000007 0000000100000002 0000006f fffffffffffffffe")
    assert (cq.record_offset_at(units), cq.record_offset_at(memoryview(units), 1)) == (-1, 0x1_00000002)


def test_what_counts_as_written() -> None:
    assert cq.Unit(0, 1, 0).is_written and not cq.Unit(0, 1, 0).is_pre_blank
    assert cq.PRE_BLANK.is_written and cq.PRE_BLANK.is_pre_blank
    assert not cq.Unit(0, 0, 0).is_written
    assert not cq.Unit(-1, 1, 0).is_written
    assert not cq.Unit(0, -1, 0).is_written


@pytest.mark.parametrize("name", PLAIN)
def test_golden_units_are_what_their_records_say(golden: object, name: str) -> None:
    store: Golden = golden(name)  # type: ignore[operator]
    queues = {(path.parent.name, int(path.name)): path for path in (store.path / "consumequeue").glob("*/*")}
    expected: dict[tuple[str, int], list[cq.Unit]] = {}
    for row in store.rows:
        if row["sys_flag"] & 0xC in (0, 8) and "INNER_NUM" not in row["properties"]:
            tags = row["tags"], row["topic"], row["store_timestamp"], row["properties"].get("DELAY")
            unit = cq.Unit(row["physical_offset"], row["size"], cq.tags_code(*tags, DELAY_MS))
            expected.setdefault((row["topic"], row["queue_id"]), []).append(unit)
    assert expected.keys() >= queues.keys() and queues
    for queue, path in queues.items():
        files = queue_files(path)
        units = [unit for data in files.values() for unit in cq.UNIT.iter(data) if unit.is_written]
        assert units == expected[queue]


def test_tags_code() -> None:
    schedule = cq.SCHEDULE_TOPIC
    assert cq.tags_code(None, "T", 5, None, DELAY_MS) == 0
    assert cq.tags_code("", "T", 5, None, DELAY_MS) == 0
    assert cq.tags_code("Aa", "T", 5, None, DELAY_MS) == 2112
    assert cq.tags_code("polygenelubricants", "T", 5, "3", DELAY_MS) == -(1 << 31)  # a delay counts on one topic only
    assert cq.tags_code("Aa", schedule, 5, None, DELAY_MS) == 2112
    assert cq.tags_code("Aa", schedule, 5, "1", DELAY_MS) == 1005
    assert cq.tags_code("Aa", schedule, 5, "3", DELAY_MS) == 10005
    assert cq.tags_code("Aa", schedule, 5, "18", DELAY_MS) == 7200005
    assert cq.tags_code("Aa", schedule, 5, "99", DELAY_MS) == 7200005  # clamped to the last level
    assert cq.tags_code("Aa", schedule, 5, "0", DELAY_MS) == 2112
    assert cq.tags_code("Aa", schedule, 5, "-1", DELAY_MS) == 2112
    assert cq.tags_code("Aa", schedule, 5, "soon", DELAY_MS) == 2112
    assert cq.tags_code("Aa", schedule, 5, "1", ()) == 2112
