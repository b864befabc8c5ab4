"""Stores compared with their tables: equal where they are, and every planted difference is named."""

import json
import math
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from flintmq import Message, MessageStore
from flintmq.errors import NotAStoreError, StoreAccessError, UsageError
from flintmq.lake.history import diff_table
from flintmq.lake.history.diff_table import TableComparison, compare_table
from tests.cli.conftest import Run, run
from tests.compat.stores import Golden
from tests.support.engine import put_messages
from tests.support.exporting import Export, iceberg_table, whole
from tests.support.makers import patch

__all__ = ["run"]  # a fixture


def put(store: Path, begin: int, end: int, **words: Any) -> None:
    with MessageStore(store, **words) as opened:
        for number in range(begin, end):
            sent = Message("Orders", b"%d" % number, queue_id=number % 3, properties={"n": f"{number}"})
            assert opened.put(sent).status.name == "PUT_OK"


def counts(found: TableComparison) -> dict[str, int]:
    return {str(kind): count for kind, count in found.differences.counts.items()}


def named(found: TableComparison) -> set[tuple[str, int, tuple[str, ...]]]:
    """(kind, queue offset of the first, columns) of each run, of queue 0 alone."""
    return {
        (str(run.first.kind), run.first.queue_offset or 0, tuple(sorted(run.fields)))
        for run in found.differences.runs
        if run.first.queue_id == 0
    }


@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"properties": ["n", "UNIQ_KEY:id"], "body": "text", "partition_by": ()},
        {"body": "json", "body_schema": "a long", "decompress": True},
        {"topics": ["Orders"], "decompress": True},
    ],
    ids=["all", "text", "json", "one topic"],
)
@pytest.mark.parametrize("name", ["basic", "batch"])
def test_what_was_exported_is_equal(
    golden: Callable[[str], Golden], tmp_path: Path, make: Export, to: str, choices: dict[str, Any], name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """In many ranges, whose borders lie anywhere; messages of inner batches one by one."""
    monkeypatch.setattr(diff_table, "RANGE_BYTES", 50_000)
    store, explode = golden(name), name != "basic"
    if "topics" in choices and explode:
        choices = {}
    done = make(store.path, tmp_path / "out", to=to, explode=explode, **choices)
    found = compare_table(store.path, str(tmp_path / "out"))
    assert done.rows and (found.messages, found.rows, found.waiting) == (done.rows, done.rows, 0)
    assert found.exit_code == 0 and counts(found) == {} and found.notes == [] and found.number == done.number


def test_several_stores_and_runs(tmp_path: Path, make: Export, to: str, run: Run) -> None:
    data = tmp_path / "data"
    for broker in ("a", "b", "c"):
        put(data / broker / "store", 0, 20)
    stores = [f"{data}/{broker}/store" for broker in "ab"]
    pattern = f"{data}/{{broker}}/store"
    make(pattern, tmp_path / "out", to=to)
    put(data / "a" / "store", 20, 30)
    make(pattern, tmp_path / "out", to=to)
    put(data / "b" / "store", 20, 24)
    found = compare_table(pattern, str(tmp_path / "out"))
    assert (found.messages, found.rows, found.waiting, counts(found)) == (70, 70, 4, {})
    with pytest.raises(UsageError, match="is a table of several stores; give a list, a pattern or a manifest"):
        compare_table(stores[0], str(tmp_path / "out"))
    put(data / "d" / "store", 0, 5)
    shutil.rmtree(data / "c")
    found = compare_table(pattern, str(tmp_path / "out"))
    assert (found.messages, found.left_alone, counts(found)) == (50, 20, {})
    shown = run("diff", pattern, str(tmp_path / "out"))
    assert shown.code == 0 and shown.out.endswith("result   equal, but for 20 rows that were not compared\n")
    assert [note.replace(str(data), "") for note in found.notes] == [
        "nothing of /d/store is exported yet",
        "broker c is in the table and not among the stores: its rows are not compared",
    ]


def change_parquet(out: Path) -> None:
    """Alter, remove, double and add rows of queue 0, in the files themselves."""
    [path] = [path for path in out.glob("export=1/**/*.parquet") if pq.ParquetFile(path).metadata.num_rows]
    table = pq.ParquetFile(path).read()
    rows = table.to_pylist()
    at = {row["queue_offset"]: row for row in rows if row["queue_id"] == 0}
    at[1]["body"] = b"other"
    at[2]["tags"], at[2]["flag"] = "new", 7
    rows.remove(at[3])
    rows.append(dict(at[4]))
    rows.append(at[5] | {"queue_offset": 1000})
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)


def with_values(rows: pa.Table, offset: int, **values: Any) -> pa.Table:
    """The row of this queue offset, with other values."""
    found = rows.filter(pc.equal(rows["queue_offset"], offset))
    for column, value in values.items():
        at = found.schema.get_field_index(column)
        found = found.set_column(at, found.schema.field(column), [pa.array([value], found.schema.field(at).type)])
    return found


def changed(rows: pa.Table) -> pa.Table:
    """The rows of queue 0 that are put in the place of 1 to 3."""
    return pa.concat_tables(
        [
            with_values(rows, 1, body=b"other"),
            with_values(rows, 2, tags="new", flag=7),
            with_values(rows, 4),
            with_values(rows, 5, queue_offset=1000),
        ]
    )


def change_delta(out: Path) -> None:
    table = DeltaTable(str(out))
    rows = table.to_pyarrow_table()
    new = changed(rows.filter(pc.equal(rows["queue_id"], 0)))
    table.delete("queue_id = 0 AND queue_offset BETWEEN 1 AND 3")
    write_deltalake(str(out), new, mode="append")


def change_iceberg(out: Path) -> None:
    table = iceberg_table(out)
    new = changed(table.scan("queue_id = 0").to_arrow())
    table.delete("queue_id = 0 and queue_offset >= 1 and queue_offset <= 3")
    table.append(new)


def test_planted_differences_are_all_named(tmp_path: Path, make: Export, to: str, run: Run) -> None:
    put(tmp_path / "store", 0, 30)
    make(str(tmp_path / "store"), tmp_path / "out", to=to)
    {"parquet": change_parquet, "delta": change_delta, "iceberg": change_iceberg}[to](tmp_path / "out")
    found = compare_table(str(tmp_path / "store"), str(tmp_path / "out"))
    assert named(found) == {
        ("altered", 1, ("body", "flag", "tags")),
        ("only-in-a", 3, ()),
        ("twice-in-b", 4, ()),
        ("only-in-b", 1000, ()),
    }
    assert counts(found) == {"altered": 2, "only-in-a": 1, "twice-in-b": 1, "only-in-b": 1}
    assert found.exit_code == 1 and (found.messages, found.rows) == (30, 31)
    shown = run("diff", str(tmp_path / "store"), str(tmp_path / "out"))
    assert (
        shown.code == 1 and "differs  altered (body, flag, tags): Orders, queue 0, queue offset 1 to 2\n" in shown.out
    )
    assert "result   5 differences (altered 2, only-in-a 1, only-in-b 1, twice-in-b 1); since" in shown.out
    lines = [
        json.loads(line)
        for line in run("diff", str(tmp_path / "store"), str(tmp_path / "out"), "--json").out.splitlines()
    ]
    assert [line["kind"] for line in lines] == [*["difference"] * 4, "summary"] and lines[-1]["differences"] == 5


def test_a_row_for_each_kind_of_place_at_the_ends(tmp_path: Path) -> None:
    """Rows before the log's begin are of expired messages; rows after its end are of none."""
    put(tmp_path / "store", 0, 10)
    whole(str(tmp_path / "store"), tmp_path / "out")
    [path] = [
        path for path in (tmp_path / "out").glob("export=1/**/*.parquet") if pq.ParquetFile(path).metadata.num_rows
    ]
    table = pq.ParquetFile(path).read()
    rows = table.to_pylist()
    rows += [rows[-1] | {"physical_offset": 10**9, "queue_offset": 99}, rows[0] | {"physical_offset": -5}]
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    found = compare_table(str(tmp_path / "store"), str(tmp_path / "out"))
    assert counts(found) == {"only-in-b": 1} and found.expired == 1


@pytest.mark.parametrize("to", ["delta", "iceberg"])
def test_rows_of_somebody_else_are_counted(tmp_path: Path, make: Export, to: str, run: Run) -> None:
    """Without a log offset, or of a broker that no export knows, they belong to no range of a log."""
    data = tmp_path / "data"
    for broker in ("a", "b"):
        put(data / broker / "store", 0, 10)
    pattern, out = f"{data}/{{broker}}/store", tmp_path / "out"
    make(pattern, out, to=to)
    table = iceberg_table(out) if to == "iceberg" else None
    rows = DeltaTable(str(out)).to_pyarrow_table() if table is None else table.scan().to_arrow()
    one = rows.slice(0, 1)
    for column, value in (("physical_offset", None), ("broker", "nobody")):
        at = one.schema.get_field_index(column)
        row = one.set_column(at, one.schema.field(column), [pa.array([value], one.schema.field(at).type)])
        if table is None:
            write_deltalake(str(out), row, mode="append")
        else:
            table.append(row)
    found = compare_table(pattern, str(out))
    assert (found.rows, found.strangers, counts(found), found.exit_code) == (20, 2, {}, 1)
    shown = run("diff", pattern, str(out))
    assert shown.code == 1 and "result   2 rows that name no message\n" in shown.out
    shutil.rmtree(data / "b")
    assert compare_table(pattern, str(out)).strangers == 2, "rows of a broker that is gone are none of them"


def test_messages_that_came_later_wait_and_expired_ones_are_counted(tmp_path: Path, make: Export) -> None:
    small: dict[str, Any] = {"mappedFileSizeCommitLog": 8192}
    put(tmp_path / "store", 0, 100, **small)
    make(str(tmp_path / "store"), tmp_path / "out")
    put(tmp_path / "store", 100, 110, **small)
    found = compare_table(str(tmp_path / "store"), str(tmp_path / "out"))
    assert (found.messages, found.waiting, found.expired, counts(found)) == (100, 10, 0, {})
    first = min((tmp_path / "store" / "commitlog").iterdir())
    first.unlink()
    found = compare_table(str(tmp_path / "store"), str(tmp_path / "out"))
    assert found.messages + found.expired == 100 and found.expired > 0
    assert found.rows == found.messages and counts(found) == {}


def avro_of_one_byte(tmp_path: Path, doc: str = "") -> str:
    """A schema by which the bodies 0x00 to 0x7e with an even value are the numbers 0 to 63."""
    schema = tmp_path / "order.avsc"
    fields = [{"name": "n", "type": "int"}]
    schema.write_text(json.dumps({"type": "record", "name": "o", "doc": doc, "fields": fields}))
    return str(schema)


def test_avro_bodies_are_compared(tmp_path: Path) -> None:
    store, out = str(tmp_path / "store"), tmp_path / "out"
    put_messages(store, (Message("Orders", bytes([2 * number])) for number in range(10)))
    whole(store, out, to="delta", body="avro", body_schema=avro_of_one_byte(tmp_path))
    found = compare_table(store, str(out))
    assert (found.messages, counts(found), found.notes) == (10, {}, [])
    table = DeltaTable(str(out))
    rows = table.to_pyarrow_table()
    table.delete("queue_offset = 4")
    write_deltalake(str(out), with_values(rows, 4, body={"n": 5}), mode="append")
    assert named(compare_table(store, str(out))) == {("altered", 4, ("body",))}


def test_a_number_that_is_none_is_equal_to_itself(tmp_path: Path, to: str) -> None:
    """An Avro double may be NaN, at any depth; it is no difference, and another number beside it is one."""
    store, out, schema = str(tmp_path / "store"), tmp_path / "out", tmp_path / "x.avsc"
    fields = [{"name": "x", "type": "double"}, {"name": "xs", "type": {"type": "array", "items": "double"}}]
    schema.write_text(json.dumps({"type": "record", "name": "o", "fields": fields}))
    with MessageStore(store) as opened:
        for value in (math.nan, 1.5, math.inf):
            opened.put(Message("Orders", struct.pack("<dBdB", value, 2, math.nan, 0)))
    whole(store, out, to=to, body="avro", body_schema=str(schema))
    found = compare_table(store, str(out))
    assert (found.messages, counts(found), found.exit_code) == (3, {}, 0)
    if to == "delta":
        rows = DeltaTable(str(out)).to_pyarrow_table()
        DeltaTable(str(out)).delete("queue_offset = 0")
        write_deltalake(str(out), with_values(rows, 0, body={"x": 2.5, "xs": [math.nan]}), mode="append")
        assert named(compare_table(store, str(out))) == {("altered", 0, ("body",))}


def test_what_cannot_be_compared_is_said(tmp_path: Path) -> None:
    put(tmp_path / "store", 0, 10)
    schema = avro_of_one_byte(tmp_path, doc="x" * 20_000)  # too large to be kept in the table
    whole(str(tmp_path / "store"), tmp_path / "out", body="avro", body_schema=schema)
    found = compare_table(str(tmp_path / "store"), str(tmp_path / "out"))
    assert (found.messages, counts(found)) == (10, {})
    assert found.notes == ["bodies were exported as avro: they are not compared"]


def test_what_is_refused(tmp_path: Path, run: Run) -> None:
    put(tmp_path / "store", 0, 10)
    put(tmp_path / "other", 5, 30)
    whole(str(tmp_path / "store"), tmp_path / "out")
    with pytest.raises(
        UsageError, match="out: at log offset [0-9]+ is another record .*: bring that log back, or export"
    ):
        compare_table(str(tmp_path / "other"), str(tmp_path / "out"))
    with pytest.raises(UsageError, match="is a table of one store"):
        compare_table([str(tmp_path / "store")], str(tmp_path / "out"))
    with pytest.raises(UsageError, match="holds no table that an export made"):
        compare_table(str(tmp_path / "store"), str(tmp_path))
    with pytest.raises(NotAStoreError):
        compare_table(str(tmp_path), str(tmp_path / "out"))
    (tmp_path / "delta" / "_delta_log").mkdir(parents=True)
    with pytest.raises(UsageError, match="or nothing was exported yet"):
        compare_table(str(tmp_path / "store"), str(tmp_path / "delta"))
    [path] = (tmp_path / "out").glob("export=1/topic_name=Orders/**/*.parquet")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(StoreAccessError, match="not readable as a file of an export"):
        compare_table(str(tmp_path / "store"), str(tmp_path / "out"))
    path.unlink()
    shown = run("diff", str(tmp_path / "store"), str(tmp_path / "out"))
    assert shown.code == 1 and "differs  only-in-a: Orders" in shown.out and f"{path}: this file of the" in shown.out
    shown = run("diff", str(tmp_path / "store"), str(tmp_path / "out"), "--by", "message")
    assert shown.code == 2 and "--by is for two stores" in shown.err


def test_damage_that_hides_messages_is_told(tmp_path: Path) -> None:
    """Nothing of it is exported yet, so nothing differs; and not all was compared."""
    store, out = tmp_path / "store", tmp_path / "out"
    small: dict[str, Any] = {"mappedFileSizeCommitLog": 8192}
    put(store, 0, 10, **small)
    whole(str(store), out)
    put(store, 10, 200, **small)
    patch(sorted((store / "commitlog").iterdir())[1], 300, b"\xff" * 50)
    found = compare_table(str(store), str(out))
    assert (found.messages, found.waiting < 190, counts(found), found.exit_code) == (10, True, {}, 0)
    assert "1 damaged places of a log have no messages to compare" in found.notes
