"""A column is added to the schema: exports made before are continued, replayed and read; its values there are null."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from flintmq.arrow import column_layout, schema
from flintmq.errors import UsageError
from flintmq.format.record_view import number_at
from flintmq.kernels.read import gather
from flintmq.lake.history.diff_table import compare_table
from flintmq.lake.shape.columns import ExportColumns
from flintmq.message import Message
from flintmq.spark.jobs.export.job import export, export_stream
from flintmq.spark.jobs.replay.source import open_source, rows_of
from flintmq.store.commitlog.report import Report
from tests.spark.jobs import calls
from tests.spark.jobs.replay.replaying import SMALL, bulk, held, tasks_as_calls, without_offsets
from tests.support.engine import put_messages

COLUMN = "made_up"  # the length of the body, which is the number at its position


@pytest.fixture(autouse=True)
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks of exports and of replays as calls."""
    calls.tasks_as_calls(monkeypatch)
    tasks_as_calls(monkeypatch)


def change_schema(patch: pytest.MonkeyPatch, change: Callable[[pa.Schema], pa.Schema]) -> None:
    """Change the schema in every module that has it."""
    for name in ("SCHEMA", "SPARK_SCHEMA"):
        before = getattr(schema, name)
        after = change(before)
        for module in [module for key, module in sys.modules.items() if key.startswith("flintmq.")]:
            if getattr(module, name, None) is before:
                patch.setattr(module, name, after)


def add_column(patch: pytest.MonkeyPatch) -> None:
    """Add a column after all others, as a developer would."""
    patch.setitem(column_layout.NUMBERS, COLUMN, (gather.INT32, number_at("body")))
    change_schema(patch, lambda fields: fields.append(pa.field(COLUMN, pa.int32())))


def put(root: Path, *bodies: bytes) -> None:
    put_messages(root, (Message("Orders", body, properties={"region": "eu"}) for body in bodies), SMALL)


def run(root: Path, out: Path, way: str, **choices: Any) -> int:
    """Export what is new; return the number of rows."""
    if way == "stream":
        return export_stream(None, str(root), str(out), SMALL, once=True, **choices).rows  # type: ignore[arg-type]
    return export(None, str(root), str(out), SMALL, **choices).rows  # type: ignore[arg-type]


def by_polars(out: Path) -> list[Any]:
    rows = polars.scan_delta(str(out)).sort("physical_offset").select("body", COLUMN).collect()
    return list(rows.iter_rows())


def by_deltalake(out: Path) -> list[Any]:
    rows = DeltaTable(str(out)).to_pyarrow_table().sort_by("physical_offset")
    return list(zip(rows["body"].to_pylist(), rows[COLUMN].to_pylist(), strict=True))


def by_duckdb(out: Path) -> list[Any]:
    files = f"read_parquet('{out}/export=*/**/*.parquet', union_by_name=true)"
    return duckdb.sql(f"SELECT body, {COLUMN} FROM {files} ORDER BY physical_offset").fetchall()


def by_pyarrow(out: Path) -> list[Any]:
    rows = ds.dataset(out, ExportColumns().schema(), partitioning="hive").to_table(
        columns=["physical_offset", "body", COLUMN]
    )
    rows = rows.sort_by("physical_offset")
    return list(zip(rows["body"].to_pylist(), rows[COLUMN].to_pylist(), strict=True))


READERS = {"delta": (by_polars, by_deltalake), "parquet": (by_duckdb, by_pyarrow)}


@pytest.mark.parametrize("way", ["batch", "stream"])
@pytest.mark.parametrize("to", READERS)
def test_an_earlier_export_is_continued_and_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str, way: str
) -> None:
    root, out = tmp_path / "store", tmp_path / "out"
    put(root, b"one", b"three")
    assert run(root, out, way, to=to) == 2
    add_column(monkeypatch)
    bulk(out, tmp_path / "of the earlier one")
    assert without_offsets(held(tmp_path / "of the earlier one")) == without_offsets(held(root))
    put(root, b"five hundred", b"")
    assert run(root, out, way, to=to) == 2
    for read in READERS[to]:
        assert read(out) == [(b"one", None), (b"three", None), (b"five hundred", 12), (b"", 0)]
    bulk(out, tmp_path / "of both")
    assert without_offsets(held(tmp_path / "of both")) == without_offsets(held(root))
    source = open_source(str(out), SMALL)
    rows = [batch for chunk in source.chunks(0, 1 << 30) for batch in rows_of(source, chunk, Report())]
    assert [value for batch in rows for value in batch.column(COLUMN).to_pylist()] == [None, None, 12, 0]
    compared = compare_table(str(root), str(out), SMALL)
    assert (compared.equal, compared.unfilled) == (True, 2)
    assert run(root, out, way, to=to) == 0


def test_a_table_with_other_shapes_gets_the_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chosen properties, bodies as text; then the table is put back to before the column."""
    root, out = tmp_path / "store", tmp_path / "out"
    choices: dict[str, Any] = {"to": "delta", "properties": ["region"], "body": "text"}
    put(root, b"one")
    assert run(root, out, "batch", **choices) == 1
    version = DeltaTable(str(out)).version()
    add_column(monkeypatch)
    put(root, b"three")
    assert run(root, out, "batch", **choices) == 1
    assert by_polars(out) == [("one", None), ("three", 5)]
    DeltaTable(str(out)).restore(version)
    assert COLUMN not in [field.name for field in DeltaTable(str(out)).schema().fields]
    assert run(root, out, "batch", **choices) == 1
    assert by_polars(out) == [("one", None), ("three", 5)]


@pytest.mark.parametrize("to", READERS)
def test_what_every_export_has_may_not_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str) -> None:
    root, out = tmp_path / "store", tmp_path / "out"
    put(root, b"one")
    with monkeypatch.context() as without:
        change_schema(without, lambda fields: fields.remove(fields.get_field_index("magic")))
        assert run(root, out, "batch", to=to) == 1
    with pytest.raises(UsageError, match="lacks column magic; a replay needs an export with all columns"):
        open_source(str(out), SMALL)
    if to == "delta":
        with pytest.raises(UsageError, match=r"with other columns than this export \(magic\)"):
            run(root, out, "batch", to=to)


def test_a_column_of_that_name_and_another_type_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from deltalake import Field

    root, out = tmp_path / "store", tmp_path / "out"
    put(root, b"one")
    run(root, out, "batch", to="delta")
    DeltaTable(str(out)).alter.add_columns(Field(COLUMN, "string"))
    add_column(monkeypatch)
    put(root, b"three")
    with pytest.raises(UsageError, match=rf"with other columns than this export \({COLUMN}\)"):
        run(root, out, "batch", to="delta")
