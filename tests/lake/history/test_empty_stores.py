"""The first export of a store without messages makes a table without rows, which every reader takes."""

from pathlib import Path

import pytest

from flintmq import Message, scan_arrow
from flintmq.cli import app
from flintmq.lake.export.export import Exported
from flintmq.lake.history.diff_table import compare_table
from tests.support.engine import put_messages
from tests.support.exporting import Export, table_of


def put(store: Path, *bodies: bytes) -> None:
    put_messages(store, (Message("007", body) for body in bodies))


@pytest.mark.parametrize("by", [["topic_name", "date"], ["topic_name"], ["date"], []])
def test_a_table_without_rows(tmp_path: Path, make: Export, to: str, by: list[str]) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    put(store)
    done: Exported = make(str(store), out, to=to, partition_by=by)
    assert (done.number, done.rows, done.begin, done.end) == (1, 0, 0, 0)
    assert {"topic", "queue_id", "queue_offset", "body", "physical_offset"} <= set(table_of(out, to).schema.names)
    assert table_of(out, to).num_rows == 0
    assert scan_arrow(store, history=out).read_all().num_rows == 0
    found = compare_table(str(store), str(out))
    assert found.equal and (found.messages, found.rows) == (0, 0)
    assert make(str(store), out, to=to, partition_by=by).number == 0, "there is nothing new"
    put(store, b"1", b"2")
    assert scan_arrow(store, ["body"], history=out).read_all()["body"].to_pylist() == [b"1", b"2"]
    done = make(str(store), out, to=to, partition_by=by)
    assert (done.number, done.rows) == (2, 2)
    rows = table_of(out, to)
    assert sorted(rows["body"].to_pylist()) == [b"1", b"2"]
    assert rows["topic"].to_pylist() == ["007", "007"]
    assert compare_table(str(store), str(out)).equal


def test_of_several_stores(tmp_path: Path, make: Export, to: str) -> None:
    pattern, out = f"{tmp_path}/data/{{broker}}", tmp_path / "out"
    put(tmp_path / "data" / "a")
    put(tmp_path / "data" / "b")
    assert make(pattern, out, to=to).number == 1
    assert scan_arrow(pattern, history=out).read_all().num_rows == 0
    put(tmp_path / "data" / "b", b"1")
    done = make(pattern, out, to=to)
    assert (done.number, done.rows) == (2, 1) and compare_table(pattern, str(out)).equal


def test_the_commands_take_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "emp")
    assert app.run(["export", "emp", "--out", "empt"]) == 0
    assert "exported 0 rows in 1 files" in (said := capsys.readouterr().out) and "a table without rows" in said
    assert app.run(["diff", "emp", "empt"]) == 0
    assert app.run(["sql", "emp", "select count(*) from messages", "--history", "empt"]) == 0
