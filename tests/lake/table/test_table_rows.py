"""Rows of a table: which parts of its files are read, and as what they are known."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from flintmq.arrow.schema import SPARK_SCHEMA
from flintmq.lake.table.iceberg_catalog import TableName
from flintmq.lake.table.table_rows import NEEDED, TableVersion, written_columns
from flintmq.store.commitlog.predicate import Predicate

FIRST_MS = 1_795_000_000_000


def write(path: Path, begin: int, end: int) -> None:
    """Write rows whose store times are so many ms after the first."""
    times = pa.array([1000 * (FIRST_MS + number) for number in range(begin, end)], pa.int64())
    columns = {
        "topic": pa.array(["T"] * (end - begin)),
        "queue_id": pa.array([0] * (end - begin), pa.int32()),
        "queue_offset": pa.array(range(begin, end), pa.int64()),
        "store_timestamp": times.cast(SPARK_SCHEMA.field("store_timestamp").type),
        "tags": pa.array([None] * (end - begin), pa.string()),
    }
    pq.write_table(pa.table(columns), path, row_group_size=10)


def test_the_first_and_the_last_time_of_a_row_group_are_of_it(tmp_path: Path) -> None:
    write(tmp_path / "rows.parquet", 0, 20)
    version = TableVersion(str(tmp_path), "parquet", 1, TableName())

    def found(**times: int) -> list[int]:
        batches = version.batches([str(tmp_path / "rows.parquet")], NEEDED, Predicate(**times))  # type: ignore[arg-type]
        return [number for batch in batches for number in batch.column("queue_offset").to_pylist()]

    for border in (0, 9, 10, 19, 20):
        assert found(since=FIRST_MS + border) == list(range(border, 20))
        assert found(until=FIRST_MS + border) == list(range(border))


def test_a_file_that_was_replaced_has_another_size(tmp_path: Path) -> None:
    """By one that has as many bytes of rows as it likes; the footer of the first is not its footer."""
    version = TableVersion(str(tmp_path), "parquet", 1, TableName())
    for rows in (3, 500):
        write(tmp_path / "rows.parquet", 0, rows)
        assert version.size(str(tmp_path / "rows.parquet")).rows == rows


def test_rows_of_several_stores_name_their_broker() -> None:
    """So a table that lost these columns is refused, and gives no nulls."""
    one, many = (SimpleNamespace(choice={"many": many}) for many in (False, True))
    made: Any = written_columns
    assert made(many) == [*made(one), "broker", "store"]
