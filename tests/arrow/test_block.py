"""The output arrays of a batch: what they learn, what a full one keeps, how patches fall into place."""

from __future__ import annotations

from array import array

import pytest

from flintmq.arrow.block import Block, Rates
from flintmq.arrow.schema import SCHEMA, SPARK_SCHEMA, narrow
from flintmq.kernels import columns as kernel
from flintmq.message import stored_message
from tests.arrow.rows import row_of, rows_of
from tests.kernels.records import ODD, PAIRS, records

NOTES = array("q", bytes(8 * kernel.NOTES))
PLAIN = [{"body": b"b" * n, "properties": PAIRS * (n % 2)} for n in range(50)]


def gathered(block: Block, *changes: dict[str, object]) -> tuple[int, int]:
    data, positions = records(*changes)
    return block.gather(data, positions, 0, len(positions), NOTES)


def test_rows_are_those_of_the_slow_way() -> None:
    data, positions = records(*PLAIN)
    block = Block(SCHEMA, 50, Rates({"body": 100}))
    assert block.gather(data, positions, 0, 50, NOTES) == (50, kernel.DONE)
    assert rows_of(block.finish(kernel.DONE)) == [row_of(stored_message(data, at)) for at in positions]


@pytest.mark.parametrize("name", SCHEMA.names)
def test_each_column_alone(name: str) -> None:
    data, positions = records(*PLAIN)
    block = Block(narrow([name]), 50, Rates({"body": 100}))
    block.gather(data, positions, 0, 50, NOTES)
    assert rows_of(block.finish(kernel.DONE)) == [{name: row_of(stored_message(data, at))[name]} for at in positions]


def test_sections_grow_with_what_was_needed() -> None:
    rates = Rates()
    big = {"body": b"x" * 3000, "topic": b"t" * 100}
    taken = []
    for _ in range(6):
        block = Block(SCHEMA, 20, rates)
        count, why = gathered(block, *[big] * 20)
        taken.append(count)
        if count == 0:
            block.make_room(why, 4000)
        else:
            block.finish(why)
    assert taken[0] < 20 and taken[-1] == 20


def test_rates_follow_what_batches_take() -> None:
    rates = Rates()
    block = Block(narrow(["body", "properties"]), 10, rates)
    gathered(block, *[{"body": b"x" * 10, "properties": b"A\x01bc\x02"}] * 10)
    block.finish(kernel.DONE)
    assert rates.of == {"body": 10, "names": 1, "values": 2, "properties": 1}
    assert rates.room("body", 1000) == 11250 + 1024
    rates.learn("body", 100, 10, full=True)
    assert rates.rate("body") == 15


def test_patches_replace_rows_wherever_they_are() -> None:
    schema = narrow(["topic", "properties", "tags", "body"])
    for rows in ([0], [49], [0, 1, 2], [5, 6, 30, 48, 49], list(range(50))):
        block = Block(schema, 50, Rates({"body": 100}))
        gathered(block, *PLAIN)
        before = rows_of(block.finish(kernel.DONE))
        block = Block(schema, 50, Rates({"body": 100}))
        gathered(block, *PLAIN)
        for row in rows:
            block.patch(row, {"properties": [("n", str(row))], "tags": None, "msg_id": "not a wanted column"})
            block.patch(row, {"body": b"%d" % row})
        after = rows_of(block.finish(kernel.DONE))
        for row in range(50):
            changed = {"properties": [("n", str(row))], "tags": None, "body": b"%d" % row} if row in rows else {}
            assert after[row] == before[row] | changed


def test_rows_taken_back_are_gone() -> None:
    block = Block(SCHEMA, 50, Rates({"body": 100}))
    data, positions = records(*PLAIN)
    block.gather(data, positions, 0, 50, NOTES)
    full = block.bytes()
    block.cut(7)
    assert block.bytes() < full
    block.gather(data, positions, 20, 30, NOTES)
    got = rows_of(block.finish(kernel.DONE))
    assert [row["physical_offset"] for row in got] == list(positions[:7]) + list(positions[20:30])


def test_times_that_spark_cannot_have_are_null() -> None:
    block = Block(narrow(["born_timestamp", "store_timestamp"], SPARK_SCHEMA), len(ODD), Rates())
    gathered(block, *ODD)
    batch = block.finish(kernel.DONE)
    for name in ("born_timestamp", "store_timestamp"):
        times = [change.get(name, 0) for change in ODD]
        known = [time * 1000 if -62135596800000 <= time < 253402300800000 else None for time in times]
        assert [row[name] for row in rows_of(batch)] == known
    assert batch.column("born_timestamp").null_count == 2
