"""The memory of a batch: all columns out of it, rows taken back, how patches fall into place."""

from array import array

import pyarrow as pa
import pytest

from flintmq.arrow.column_block import ColumnBlock
from flintmq.arrow.column_layout import ColumnLayout, Rates
from flintmq.arrow.ipc_template import Envelope
from flintmq.arrow.schema import SCHEMA, SPARK_SCHEMA, narrow
from flintmq.kernels.read import gather as kernel
from flintmq.message import stored_message
from tests.support.arrow_rows import row_of, rows_of
from tests.support.kernel_records import ODD, PAIRS, records

NOTES = array("q", bytes(8 * kernel.NOTES))
PLAIN = [{"body": b"b" * n, "properties": PAIRS * (n % 2)} for n in range(50)]


def gathered(block: ColumnBlock, *changes: dict[str, object]) -> tuple[int, int]:
    data, positions = records(*changes)
    return block.gather(data, positions, 0, len(positions), NOTES)


def block_of(rows: int, schema: pa.Schema = SCHEMA) -> ColumnBlock:
    return ColumnBlock(ColumnLayout(Envelope(schema), rows, Rates({"body": 100})))


def test_rows_are_those_of_the_slow_way() -> None:
    data, positions = records(*PLAIN)
    block = block_of(50)
    assert block.gather(data, positions, 0, 50, NOTES) == (50, kernel.DONE)
    assert rows_of(block.finish()) == [row_of(stored_message(data, at)) for at in positions]


@pytest.mark.parametrize("name", SCHEMA.names)
@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 50])
def test_each_column_alone(name: str, rows: int) -> None:
    data, positions = records(*PLAIN)
    block = block_of(50, narrow([name]))
    block.gather(data, positions, 0, rows, NOTES)
    batch = block.finish()
    assert batch.schema == narrow([name])
    assert rows_of(batch) == [{name: row_of(stored_message(data, at))[name]} for at in positions[:rows]]
    assert batch.column(0).null_count == sum(row[name] is None for row in batch.to_pylist())


def test_rows_that_fill_their_sections_to_the_last_bit() -> None:
    """Validity bits of 512 rows take a whole section."""
    data, positions = records(*PLAIN * 11)
    for name in ("tags", "msg_id"):
        block = block_of(512, narrow([name]))
        assert block.gather(data, positions, 0, 550, NOTES) == (512, kernel.ROWS_FULL)
        assert rows_of(block.finish()) == [{name: row_of(stored_message(data, at))[name]} for at in positions[:512]]


def test_what_a_block_tells_the_rates() -> None:
    block = block_of(10, narrow(["body", "properties", "tags"]))
    gathered(block, *[{"body": b"x" * 10, "properties": b"A\x01bc\x02"}] * 10)
    rates = Rates()
    block.learn(rates, kernel.DONE)
    assert rates.of == {"body": 10, "names": 1, "values": 2, "properties": 1, "tags": 0}
    block.learn(rates, block.layout.names.index("properties"))
    assert rates.of == {"body": 10, "names": 1.5, "values": 3, "properties": 1.5, "tags": 0}


def test_patches_replace_rows_wherever_they_are() -> None:
    schema = narrow(["topic", "properties", "tags", "body"])
    for rows in ([0], [49], [0, 1, 2], [5, 6, 30, 48, 49], list(range(50))):
        block = block_of(50, schema)
        gathered(block, *PLAIN)
        before = rows_of(block.finish())
        block = block_of(50, schema)
        gathered(block, *PLAIN)
        for row in rows:
            block.patch(row, {"properties": [("n", str(row))], "tags": None, "msg_id": "not a wanted column"})
            block.patch(row, {"body": b"%d" % row})
        after = rows_of(block.finish())
        for row in range(50):
            changed = {"properties": [("n", str(row))], "tags": None, "body": b"%d" % row} if row in rows else {}
            assert after[row] == before[row] | changed


def test_rows_taken_back_are_gone() -> None:
    block = block_of(50)
    data, positions = records(*PLAIN)
    block.gather(data, positions, 0, 50, NOTES)
    full = block.used("values")
    block.take_back(7)
    assert block.used("values") < full
    block.gather(data, positions, 20, 30, NOTES)
    got = rows_of(block.finish())
    assert [row["physical_offset"] for row in got] == list(positions[:7]) + list(positions[20:30])


def test_times_that_spark_cannot_have_are_null() -> None:
    block = block_of(len(ODD), narrow(["born_timestamp", "store_timestamp"], SPARK_SCHEMA))
    gathered(block, *ODD)
    batch = block.finish()
    for name in ("born_timestamp", "store_timestamp"):
        times = [change.get(name, 0) for change in ODD]
        known = [time * 1000 if -62135596800000 <= time < 253402300800000 else None for time in times]
        assert [row[name] for row in rows_of(batch)] == known
    assert batch.column("born_timestamp").null_count == 2
