"""Answers as lines: what a spreadsheet, a terminal or a JSON parser gets of values of all kinds."""

import csv
import io
from typing import Any

import pytest

from tests.cli.conftest import Run

pytest.importorskip("duckdb", reason="duckdb is not installed")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from flintmq.cli import sql_output  # noqa: E402


def reader(*tables: Any) -> Any:
    batches = [batch for table in tables for batch in table.to_batches()]
    return pa.RecordBatchReader.from_batches(tables[0].schema, batches)


def test_csv_has_no_formulas_and_no_controls(run: Run, golden: Any) -> None:
    text = (
        "select '=1+1' as \"=x\", '@a' as b, -5 as c, chr(27) || '[2J' as d, null as e, 'a,\"b' || chr(10) as f,"
        " '-1' as g"
    )
    rows = list(csv.reader(io.StringIO(run("sql", golden("basic").path, text, "--format", "csv").out)))
    assert rows == [["'=x", "b", "c", "d", "e", "f", "g"], ["'=1+1", "'@a", "-5", "\\x1b[2J", "", 'a,"b\\n', "'-1"]]


def test_values_of_many_kinds(run: Run, golden: Any) -> None:
    text = (
        "select 'nan'::double as a, 12::hugeint as b, 1.50::decimal(5,2) as c, date '2024-02-03' as d, true as e,"
        " [1, null] as f, {'x': '\\xff'::blob} as g, timestamp '2024-02-03 04:05:06.000007' as h, map {'k': 'v'} as i,"
        " timestamptz '290000-01-01' as j"
    )
    [row] = run("sql", golden("basic").path, text, "--json").rows
    assert row.pop("j").endswith(" ms")
    assert row == {
        "a": "nan", "b": 12, "c": "1.50", "d": "2024-02-03", "e": True, "f": [1, None], "g": {"x": "/w=="},
        "h": "2024-02-03T04:05:06.000007", "i": {"k": "v"},
    }  # fmt: skip


SPANS = [
    "1 day", "-1 day", "14 months 3 days 04:05:06.789", "-14 months", "-13 months 2 days -00:00:01", "0 days",
    "100 hours", "1 microsecond", "-90 seconds", "1 year", "-1 year", "25 months",
]  # fmt: skip


@pytest.mark.parametrize("form", ["json", "csv", "table"])
def test_intervals_are_as_duckdb_writes_them(run: Run, golden: Any, form: str) -> None:
    rows = " union all ".join(f"select {n} as n, interval '{span}' as x" for n, span in enumerate(SPANS))
    text = f"with s as ({rows}) select x, x::varchar as y, [x, null] as l, {{'a': x}} as m from s order by n"
    found = run("sql", golden("basic").path, text, "--format", form)
    assert found.code == 0 and "nanoseconds" not in found.out and "MonthDayNano" not in found.out
    if form == "json":
        assert [row["x"] for row in found.rows] == [row["y"] for row in found.rows]
        assert all(row["l"] == [row["y"], None] and row["m"] == {"a": row["y"]} for row in found.rows)
    elif form == "csv":
        assert all(row[0] == row[1] for row in csv.reader(io.StringIO(found.out)) if row[0] != "x")


def test_a_table_is_as_wide_as_its_first_rows_of_all_batches() -> None:
    tables = [pa.table({"a": ["x" * n], "\x1bn": [n]}) for n in (1, 5, 300)]
    found = list(sql_output.lines("table", reader(*tables)))
    assert found[0] == "a" + " " * 101 + "\\x1bn" and found[2].split() == ["x", "1"]
    assert found[4] == "x" * 99 + "…" + "  " + "  300"
    assert {len(line) for line in found} == {107}


def test_an_answer_without_columns_has_no_lines() -> None:
    empty = pa.RecordBatchReader.from_batches(pa.schema([]), iter(()))
    assert [list(sql_output.lines(kind, empty)) for kind in ("table", "csv", "json")] == [[], [], []]
