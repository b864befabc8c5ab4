"""Columns of properties that a later export adds: earlier rows lack them, which a comparison knows."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flintmq import Message, MessageStore
from flintmq.cli import app
from flintmq.lake.history.diff_table import compare_table
from tests.support.exporting import Export, whole


def put(store: Path, begin: int, end: int, absent: Sequence[int] = ()) -> None:
    with MessageStore(store) as opened:
        for number in range(begin, end):
            found = {} if number in absent else {"b": f"{number}"}
            sent = Message("T", b"%d" % number, properties={"a": "x", **found})
            assert opened.put(sent).status.name == "PUT_OK"


def test_earlier_rows_are_no_difference(tmp_path: Path, make: Export, to: str) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    for number, names in enumerate((["a"], ["a", "b"], ["a", "b", "c"], ["a", "b", "c"])):
        put(store, 10 * number, 10 * number + 10, absent=(3, 13))
        assert make(store, out, to=to, properties=names).rows == 10
    found = compare_table(str(store), str(out))
    assert (found.messages, found.rows, found.unfilled, found.equal) == (40, 40, 9, True)
    assert found.notes == []
    put(store, 40, 41)
    assert compare_table(str(store), str(out)).waiting == 1


def test_they_are_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    for number, names in enumerate((["a"], ["a", "b"])):
        put(store, 10 * number, 10 * number + 10)
        whole(store, out, properties=names)
    assert app.run(["diff", str(store), str(out)]) == 0
    shown = capfd.readouterr().out
    assert "unfilled 10 rows were exported before a column was added, and have none in it" in shown
    assert "result   equal" in shown
    assert app.run(["diff", str(store), str(out), "--json"]) == 0
    assert json.loads(capfd.readouterr().out.splitlines()[-1])["unfilled"] == 10


def rewritten(out: Path, export: int, change: Any) -> None:
    """Rewrite the only file of an export with other values of column b."""
    (path,) = (out / f"export={export}").rglob("*.parquet")
    rows = pq.ParquetFile(path).read()
    if "b" not in rows.schema.names:
        rows = rows.append_column("b", pa.nulls(rows.num_rows, pa.string()))
    values = change(rows["b"].to_pylist())
    pq.write_table(rows.set_column(rows.schema.get_field_index("b"), "b", pa.array(values, pa.string())), path)


@pytest.mark.parametrize(
    ("number", "change", "altered", "unfilled"),
    [
        (1, lambda values: [str(n) for n in range(10)], 0, 0),  # filled since: as the messages say
        (1, lambda values: [None, "1", "wrong", *[None] * 7], 1, 8),
        (2, lambda values: [*values[:-1], None], 1, 10),  # exported with the column, and lost since
    ],
)
def test_what_is_wrong_is_a_difference_all_the_same(
    tmp_path: Path, number: int, change: Any, altered: int, unfilled: int
) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    for first, names in enumerate((["a"], ["a", "b"])):
        put(store, 10 * first, 10 * first + 10)
        whole(store, out, properties=names)
    rewritten(out, number, change)
    found = compare_table(str(store), str(out))
    assert (sum(found.differences.counts.values()), found.unfilled) == (altered, unfilled)


def test_a_missing_row_beside_them(tmp_path: Path) -> None:
    """The rows do not stand in the same order then as the messages."""
    store, out = tmp_path / "store", tmp_path / "out"
    for first, names in enumerate((["a"], ["a", "b"])):
        put(store, 10 * first, 10 * first + 10)
        whole(store, out, properties=names)
    (path,) = (out / "export=1").rglob("*.parquet")
    pq.write_table(pq.ParquetFile(path).read().slice(1), path)
    found = compare_table(str(store), str(out))
    assert ({str(kind): n for kind, n in found.differences.counts.items()}, found.unfilled) == ({"only-in-a": 1}, 9)


def test_each_broker_has_its_own_border(tmp_path: Path, make: Export) -> None:
    """One that comes with the new column lacks it in no row; one that is idle meanwhile keeps its border."""
    data, out = tmp_path / "data", tmp_path / "out"
    pattern = f"{data}/{{broker}}/store"
    put(data / "a" / "store", 0, 10)
    assert make(pattern, out, properties=["a"]).rows == 10
    put(data / "b" / "store", 0, 5)
    assert make(pattern, out, properties=["a", "b"]).rows == 5
    put(data / "a" / "store", 10, 12)
    put(data / "b" / "store", 5, 6)
    assert make(pattern, out, properties=["a", "b"]).rows == 3
    found = compare_table(pattern, str(out))
    assert (found.messages, found.unfilled, found.equal) == (18, 10, True)
