"""Readers that leave out files by statistics: every filter on every column gives the rows that it gives in memory."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from flintmq import Message, MessageStore
from flintmq.config.releases import is_older
from flintmq.lake.export.export_once import export
from tests.compat.stores import Golden
from tests.support.exporting import iceberg_table

F = ds.field
LONG = 1 << 13


@pytest.fixture
def odd(tmp_path: Path) -> str:
    """Two stores of messages with and without tags, keys and properties, long texts, and bodies of two kinds."""
    for broker in ("a", "b"):
        with MessageStore(tmp_path / "data" / broker / "store") as store:
            for number in range(30):
                words: dict[str, Any] = {} if number % 3 else {"tags": "主T", "keys": "k"}
                properties = {"who": "x" * (LONG if number % 7 == 0 else 5)} if number % 2 else {}
                body = b'{"id": %d}' % number if number % 4 else b"no"
                topic = ("Orders", "L" * 120)[number % 2]
                assert store.put(Message(topic, body, properties=properties, **words)).status.name == "PUT_OK"
    return f"{tmp_path}/data/{{broker}}/store"


def comparable(kind: pa.DataType) -> bool:
    return not (pa.types.is_nested(kind) or pa.types.is_binary(kind))


def questions(rows: pa.Table) -> list[tuple[str, Any]]:
    """Filters on each column: some of its values, what is null, what is less or more, and on a field of a struct."""
    found: list[tuple[str, Any]] = []
    for field in rows.schema:
        if pa.types.is_struct(field.type):
            found += [(f"{field.name}.id", F(field.name, "id") == 7), (f"{field.name}.id >", F(field.name, "id") > 20)]
        found += [(f"{field.name} null", F(field.name).is_null()), (f"{field.name} valid", F(field.name).is_valid())]
        if not comparable(field.type):
            continue
        values = [value for value in dict.fromkeys(rows[field.name].to_pylist()) if value is not None]
        for value in (values[:1] + values[-1:]) if values else []:
            one = pa.scalar(value, field.type)
            found += [(f"{field.name} {sign} {value!s:.20}", test) for sign, test in (
                ("==", F(field.name) == one), ("!=", F(field.name) != one), (">", F(field.name) > one),
                ("<=", F(field.name) <= one), ("in", F(field.name).isin([value])))]  # fmt: skip
    return found


def places(table: Any) -> list[Any]:
    return sorted(
        zip(table["broker"].to_pylist(), table["physical_offset"].to_pylist(), strict=True)
        if "broker" in table.schema.names
        else table["physical_offset"].to_pylist()
    )


CHOICES: dict[str, dict[str, Any]] = {
    "all": {},
    "columns": {"properties": ["who"], "body": "text", "partition_by": ()},
    "json": {"properties": ["who"], "body": "json", "body_schema": "id long", "partition_by": ("date",)},
}


@pytest.mark.parametrize("choices", CHOICES.values(), ids=CHOICES)
def test_deltalake_finds_what_is_there(odd: str, tmp_path: Path, choices: dict[str, Any]) -> None:
    export(odd, str(tmp_path / "out"), to="delta", **choices)
    dataset = DeltaTable(str(tmp_path / "out")).to_pyarrow_dataset()
    rows = dataset.to_table()
    asked = questions(rows)
    assert rows.num_rows == 60 and len(asked) > 100
    wrong = [name for name, test in asked if places(dataset.to_table(filter=test)) != places(rows.filter(test))]
    assert wrong == []


def test_of_a_store_of_java_too(golden: Callable[[str], Golden], tmp_path: Path) -> None:
    export(golden("flags").path, str(tmp_path / "out"), to="delta")
    dataset = DeltaTable(str(tmp_path / "out")).to_pyarrow_dataset()
    rows = dataset.to_table()
    wrong = [
        name for name, test in questions(rows) if places(dataset.to_table(filter=test)) != places(rows.filter(test))
    ]
    assert rows.num_rows and wrong == []


TEXTS = ("broker = 'a'", "tags = '主T'", "tags is null", "who > 'w'", "size > 200", "flag = 0", "length(topic) > 100")


def test_duckdb_and_polars_find_what_is_there(odd: str, tmp_path: Path, to: str) -> None:
    out = tmp_path / "out"
    export(odd, str(out), to=to, **CHOICES["columns"])
    if to == "parquet":
        frame = polars.scan_parquet(f"{out}/export=*/**/*.parquet")
        source: Any = ds.dataset([str(path) for path in out.glob("export=*/**/*.parquet")])
    elif to == "delta":
        frame, source = polars.scan_delta(str(out)), DeltaTable(str(out)).to_pyarrow_dataset()
    else:
        table = iceberg_table(out)
        source = table.scan().to_arrow()
        reads_it = not is_older(polars.__version__, (2, 1))  # files without field ids
        frame = polars.scan_iceberg(table) if reads_it else polars.from_arrow(source).lazy()
    whole: Any = frame.collect().to_arrow()
    assert whole.num_rows == 60
    for text in TEXTS:
        want = duckdb.sql(f"select count(*) from whole where {text}").fetchall()
        assert want[0][0] > 0, text
        assert duckdb.sql(f"select count(*) from source where {text}").fetchall() == want, text
        if "length" not in text:
            assert frame.filter(polars.sql_expr(text)).collect().height == want[0][0], text
    assert source is not None


def test_polars_as_the_page_says(odd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its lines gives the columns that the names of directories hold."""
    page = Path(__file__).parents[3] / "docs" / "spark" / "export.md"
    lines = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("polars.scan_parquet(")]
    assert len(lines) == 2
    export(odd, str(tmp_path / "lake"))
    monkeypatch.chdir(tmp_path)
    for line in lines:
        frame = eval(line, {"polars": __import__("polars")})  # the page's own code
        assert {"topic_name", "date", "export"} <= set(frame.collect_schema().names()), line
