"""Tables from which somebody took a column that their exports wrote: readers refuse it by name, and give no nulls."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from flintmq import Message, MessageStore, dataset, scan_arrow
from flintmq.arrow.schema import FIRST_COLUMNS
from flintmq.cli import app
from flintmq.errors import FlintError, UsageError
from flintmq.lake.history.diff_table import compare_table
from flintmq.lake.table.iceberg_catalog import TableName
from tests.support.exporting import Export, whole


def put(store: Path, begin: int, end: int) -> None:
    with MessageStore(store) as opened:
        for number in range(begin, end):
            sent = Message("T", b"%d" % number, tags=f"t{number % 2}", properties={"a": "x", "b": "y"})
            assert opened.put(sent).status.name == "PUT_OK"


def drop(out: Path, column: str, to: str, new: str | None = None) -> None:
    """Drop a column, or rename it, as tools of the format do."""
    if to == "iceberg":
        name = TableName()
        catalog = name.open(out)
        with catalog.load_table(name.identifier).update_schema() as change:
            if new is None:
                change.delete_column(column)
            else:
                change.rename_column(column, new)
        catalog.close()
    elif to == "delta":
        rows = DeltaTable(str(out)).to_pyarrow_table()
        kept = rows.drop_columns([column]) if new is None else renamed(rows, column, new)
        write_deltalake(str(out), kept, mode="overwrite", schema_mode="overwrite")
    else:
        path = sorted(out.rglob("*.parquet"))[0]
        rows = pq.ParquetFile(path).read()
        pq.write_table(rows.drop_columns([column]) if new is None else renamed(rows, column, new), path)


def renamed(rows: Any, column: str, new: str) -> Any:
    return rows.rename_columns([new if name == column else name for name in rows.column_names])


ADVICE = {
    "parquet": r"/out/export=1/.*\.parquet: this file of the table {}; put the file back from a copy, or export",
    "delta": "/out: the table {}; RESTORE a version with it, or export",
    "iceberg": "/out: the table {}; rename it back, or export",
}
LACKS = "lacks the column {}, which its exports wrote: somebody renamed or dropped it"
READS: list[Callable[[Path, Path], Any]] = [
    lambda store, out: scan_arrow(store, history=out).read_all(),
    lambda store, out: scan_arrow(store, history=out, tags=["t1"], columns=["body"]).read_all(),
    lambda store, out: scan_arrow(store, history=out, columns=["queue_id"], strict=False).read_all(),
    lambda store, out: dataset(store, history=out).count_rows(),
]


@pytest.mark.parametrize("new", [None, "labels"], ids=["dropped", "renamed"])
def test_readers_name_the_column(tmp_path: Path, make: Export, to: str, new: str | None) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    put(store, 0, 10)
    make(store, out, to=to)
    put(store, 10, 12)
    assert scan_arrow(store, history=out, tags=["t1"]).read_all().num_rows == 6
    drop(out, "tags", to, new)
    said = f"{tmp_path}{ADVICE[to].format(LACKS.format('tags'))} anew into another directory$"
    for read in READS:
        with pytest.raises(UsageError, match=said):
            read(store, out)


def test_the_command_says_so(tmp_path: Path, capfd: pytest.CaptureFixture[str], to: str) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    put(store, 0, 10)
    whole(store, out, to=to)
    drop(out, "tags", to)
    asked = "select count(*) from messages where tags = 't1'"
    assert app.run(["sql", str(store), asked, "--history", str(out)]) == 2
    shown = capfd.readouterr()
    assert shown.out == "" and "lacks the column tags" in shown.err and len(shown.err.splitlines()) == 1


def test_each_column_that_an_export_wrote(tmp_path: Path, to: str) -> None:
    """A comparison goes on, or refuses the table; it does not crash."""
    store = tmp_path / "store"
    put(store, 0, 4)
    choices: dict[str, Any] = {"properties": ["a", "b"], "body": "text", "partition_by": ()}
    written = [*(name for name in FIRST_COLUMNS if name != "properties"), "a", "b", "body_raw"]
    for column in written:
        out = tmp_path / column / "out"
        whole(store, out, to=to, **choices)
        drop(out, column, to)
        with pytest.raises(UsageError, match=LACKS.format(column)):
            scan_arrow(store, history=out).read_all()
        try:
            compared = compare_table(str(store), str(out))
        except FlintError as error:
            assert column in ("physical_offset", "queue_offset"), error
        else:
            assert not compared.equal or column in ("body_raw", "keys"), column


def test_a_column_that_a_later_export_added(tmp_path: Path, make: Export, to: str) -> None:
    """Files of earlier exports lack it; a table does not."""
    store, out = tmp_path / "store", tmp_path / "out"
    put(store, 0, 4)
    make(store, out, to=to, properties=["a"])
    put(store, 4, 8)
    make(store, out, to=to, properties=["a", "b"])
    assert scan_arrow(store, history=out).read_all().sort_by("physical_offset")["b"].to_pylist() == [
        *4 * [None],
        *4 * ["y"],
    ]
    if to != "parquet":
        drop(out, "b", to)
        with pytest.raises(UsageError, match=LACKS.format("b")):
            scan_arrow(store, history=out)


@pytest.mark.parametrize("column", ["broker", "store"])
def test_of_several_stores(tmp_path: Path, to: str, column: str) -> None:
    for broker in ("a", "b"):
        put(tmp_path / broker / "store", 0, 4)
    stores, out = f"{tmp_path}/{{broker}}/store", tmp_path / "out"
    whole(stores, out, to=to, partition_by=())
    drop(out, column, to)
    with pytest.raises(UsageError, match=LACKS.format(column)):
        scan_arrow(stores, history=out).read_all()
    with suppress(FlintError):
        assert compare_table(stores, str(out)).equal == (column == "store")  # which is not compared
