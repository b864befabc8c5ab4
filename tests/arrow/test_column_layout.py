"""Sections: none touches another, all have the room that was asked for, and rates learn what is needed."""

import pytest

from flintmq.arrow.column_layout import NUMBERS, ColumnLayout, Rates
from flintmq.arrow.ipc_template import Envelope
from flintmq.arrow.schema import SCHEMA, SPARK_SCHEMA, narrow
from flintmq.kernels.read import gather as kernel

SCHEMAS = [
    SCHEMA,
    SPARK_SCHEMA,
    *(narrow([name]) for name in SCHEMA.names),
    narrow(["tags", "keys"]),
    narrow(["msg_id", "body"]),
]


@pytest.mark.parametrize("rows", [1, 15, 16, 511, 512, 1000])
def test_sections_lie_side_by_side(rows: int) -> None:
    for schema in SCHEMAS:
        rates = Rates({"body": 1000.0, "properties": 2.0})
        layout = ColumnLayout(Envelope(schema), rows, rates)
        ranges = []
        for name, section in layout.sections.items():
            if name not in schema.names and not (name in ("names", "values") and "properties" in schema.names):
                continue
            entries = rates.room("properties", rows) if name in ("names", "values") else rows
            wide = section.kind in (kernel.INT64, kernel.UINT32, kernel.MICROSECONDS)
            if wide:
                ranges.append((8 * section.at_longs, 8 * entries))
            else:
                ranges.append((4 * section.at_ints, 4 * entries + 4))
            if name not in NUMBERS and name != "properties":
                ranges.append((section.at_text, section.end_text - section.at_text))
                assert section.end_text - section.at_text == rates.room(name, rows) + kernel.SLACK
            if section.kind in (kernel.MICROSECONDS, kernel.TAGS, kernel.KEYS, kernel.UNIQ_KEY):
                ranges.append((section.at_bits, (rows + 7) // 8))
        ranges.sort()
        assert ranges[0][0] >= layout.envelope.size
        for (at, count), (following, _) in zip(ranges, [*ranges[1:], (layout.size, 0)], strict=True):
            assert at % 64 == 0 and at + count <= following
        assert layout.size % 64 == 0


def test_the_plan_is_the_sections() -> None:
    layout = ColumnLayout(Envelope(SCHEMA), 100, Rates())
    assert [layout.names[i // 7] for i in range(0, len(layout.plan), 7)] == list(layout.sections)
    assert list(layout.plan) == [number for section in layout.sections.values() for number in section]
    assert layout.sections["body"].number == 0
    assert ColumnLayout(Envelope(SCHEMA), 100, Rates(), note_compressed=True).sections["body"].number == 1


def test_what_has_bytes() -> None:
    assert ColumnLayout(Envelope(narrow(["queue_id", "tags"])), 1, Rates()).texts == ["tags"]
    assert ColumnLayout(Envelope(narrow(["properties", "size"])), 1, Rates()).texts == ["properties", "names", "values"]


def test_rates() -> None:
    rates = Rates()
    rates.learn("body", 1000, 10, full=False)
    assert rates.room("body", 1000) == 112_500 + 1024
    rates.learn("body", 1000, 10, full=True)
    assert rates.rate("body") == 150
    rates.learn("body", 0, 0, full=False)
    assert rates.rate("body") == 0
    assert rates.room("body", 2**40) < 2**31


def test_a_single_large_record_makes_room() -> None:
    rates = Rates()
    for name in ("body", "tags", "properties"):
        rates.need(name, 1_000_000, 20)
    assert rates.room("body", 20) >= 1_000_000
    assert 100_000 > rates.room("tags", 20) >= 65_536, "no property is longer than its 16-bit length says"
    assert rates.room("properties", 20) >= 32


def test_bytes_of_a_row() -> None:
    rates = Rates({"body": 100.0, "names": 10.0, "values": 20.0, "properties": 3.0, "tags": 2.0})
    assert rates.row_bytes(narrow(["queue_id", "size"])) == 16
    assert rates.row_bytes(narrow(["body", "tags", "properties"])) == 24 + 100 + 2 + 30 + 24
