"""`flintmq sql`: the views, the forms of an answer, what becomes of errors and damage."""

import csv
import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.support.engine import put_messages

pytest.importorskip("duckdb", reason="duckdb is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")

import flintmq  # noqa: E402

BY_TOPIC = "select topic, count(*) as n from messages group by 1 order by 1"
COUNTS = {"Orders": 763, "Payments": 745, "Shipments": 756, "库存": 736}


def test_a_table(run: Run, golden: Any) -> None:
    lines = run("sql", golden("basic").path, BY_TOPIC).out.splitlines()
    assert lines == [
        "topic        n",
        "---------  ---",
        "Orders     763",
        "Payments   745",
        "Shipments  756",
        "库存       736",
    ]
    assert run("sql", golden("basic").path, "select topic from messages where size < 0").out == "topic\n-----\n"


def test_json_and_the_same_by_format(run: Run, golden: Any) -> None:
    path = golden("basic").path
    done = run("sql", path, BY_TOPIC, "--json")
    assert {row["topic"]: row["n"] for row in done.rows} == COUNTS
    assert run("sql", path, BY_TOPIC, "--format", "json").out == done.out
    [row] = run("sql", path, "select *, sum(size) over () as total from messages limit 1", "--json").rows
    [scanned] = run("scan", path, "--limit", 1, "--json").rows
    assert row.pop("total") == sum(m.size for m in flintmq.open_store(path).messages())
    times = ("born_timestamp", "store_timestamp")
    assert {k: v for k, v in row.items() if k not in times} == {k: v for k, v in scanned.items() if k not in times}
    assert row["store_timestamp"] == "2026-11-20T09:36:20.536Z"


def test_files(run: Run, golden: Any, tmp_path: Path) -> None:
    path = golden("basic").path
    for name in ("a.csv", "a.jsonl", "a.parquet", "a.txt"):
        assert run("sql", path, BY_TOPIC, "--out", tmp_path / name).out == ""
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.csv", "a.jsonl", "a.parquet", "a.txt"]
    rows = list(csv.DictReader((tmp_path / "a.csv").open(encoding="utf-8")))
    assert {row["topic"]: int(row["n"]) for row in rows} == COUNTS
    assert [json.loads(line)["n"] for line in (tmp_path / "a.jsonl").read_text().splitlines()] == [*COUNTS.values()]
    assert pq.read_table(tmp_path / "a.parquet").to_pydict() == {"topic": [*COUNTS], "n": [*COUNTS.values()]}
    whole = tmp_path / "whole.parquet"
    run("sql", path, "select body, properties from messages", "--out", whole)
    assert pq.read_table(whole).equals(flintmq.scan_arrow(path, ["body", "properties"]).read_all())


def test_the_other_views(run: Run, golden: Any) -> None:
    path = golden("config").path
    queues = run("sql", path, "select * from queues order by topic, queue_id", "--json").rows
    with flintmq.open_store(path) as store:
        assert queues == [queue._asdict() for queue in store.queues()]
        expected = store.broker.consumer_offsets
    for row in (rows := run("sql", path, "select * from offsets", "--json").rows):
        assert expected[row["topic"], row["consumer_group"]][row["queue_id"]] == row["next_offset"]
    assert len(rows) == sum(map(len, expected.values())) > 0


def test_options_narrow(run: Run, golden: Any) -> None:
    path = golden("basic").path
    [row] = run("sql", path, "select count(*) n from messages", "--topic", "Orders", "--json").rows
    assert row == {"n": 763}
    until = run("sql", path, "select count(*) n from messages", "--until", "2026-11-20T09:36:20.600", "--json").rows
    since = run("sql", path, "select count(*) n from messages", "--since", "2026-11-20T09:36:20.600", "--json").rows
    assert until[0]["n"] + since[0]["n"] == 3000 and 0 < until[0]["n"] < 3000


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["selec"], "SQL: Parser Error"),
        (["select nope from messages"], "nope"),
        (["select error('a' || chr(10) || 'b')"], "a b"),
        (["select 1 a, 2 a", "--json"], "two columns are named 'a'"),
        (["select 1", "--format", "xml"], "not one of: table, csv, json, parquet"),
        (["select 1", "--format", "csv", "--json"], "exclude each other"),
        (["select 1", "--format", "parquet"], "--out"),
        (["select 1", "--out", "x.unknown"], "--format"),
        (["select 1", "--out", "/nowhere/x.csv"], "not a directory"),
        (["select 1", "--memory", "much"], "--memory"),
        (["select * from messages a, messages b order by a.body", "--memory", "1MiB"], "--memory"),
    ],
)
def test_refusals(words: list[str], text: str, run: Run, golden: Any) -> None:
    done = run("sql", golden("basic").path, *words)
    assert done.code == 2 and text in done.err and done.err.count("\n") == 1


def test_no_file_is_overwritten_and_none_is_left_of_a_failure(run: Run, golden: Any, tmp_path: Path) -> None:
    store = golden("basic").copy(tmp_path)
    there = tmp_path / "there.csv"
    there.write_text("mine")
    assert run("sql", store, "select 1", "--out", there).code == 2 and there.read_text() == "mine"
    assert run("sql", store, "select 1", "--out", store / "x.csv").code == 2
    assert run("sql", store, "select error('x') from messages", "--out", tmp_path / "new.csv").code == 2
    assert {p.name for p in tmp_path.iterdir()} == {store.name, "there.csv"}


def test_damage(run: Run, golden: Any, tmp_path: Path) -> None:
    store = golden("basic").copy(tmp_path)
    with (store / "commitlog" / "00000000000000262144").open("rb+") as file:
        file.write(b"\xff" * 50)
    done = run("sql", store, BY_TOPIC)
    assert done.code == 1 and "00000000000000262144, position 0" in done.err
    done = run("sql", store, "select count(*) n from messages", "--skip-damage", "--json")
    assert done.code == 1 and "skipped" in done.err
    assert done.rows[0]["n"] == len(run("scan", store, "--skip-damage").out.splitlines())


def test_history(run: Run, tmp_path: Path) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    with flintmq.MessageStore(store) as opened:
        opened.put_many([flintmq.Message("Orders", b"%d" % number) for number in range(30)])
    assert run("export", store, "--out", out).code == 0
    with flintmq.MessageStore(store) as opened:
        opened.put_many([flintmq.Message("Orders", b"%d" % number) for number in range(30, 50)])
    question = "select count(*) as n, count(distinct queue_offset) as d from messages where queue_id = 0"
    for words in ((), ("--access", "map"), ("--topic", "Orders")):
        done = run("sql", store, question, "--history", out, "--json", *words)
        assert done.rows == [{"n": 50, "d": 50}]
    assert run("sql", store, "select max(max_offset) as m from queues", "--history", out, "--json").rows == [{"m": 50}]
    done = run("sql", store, question, "--history", tmp_path / "none")
    assert done.code == 2 and "holds no table that an export made" in done.err
    assert "--catalog is for --history" in run("sql", store, question, "--catalog", "a:b.c").err


def test_history_of_stores_that_are_gone(run: Run, tmp_path: Path) -> None:
    """Rows may be missing then, which is told, once, and the same whether the frame has a history or not."""
    from flintmq.lake.export.export_once import export

    stores = tmp_path / "stores"
    for broker in ("a", "b", "c"):
        put_messages(stores / broker / "store", [flintmq.Message("Orders", b"1")])
    both, count = f"{stores}/{{broker}}/store", "select count(*) as n from messages"
    export(both, str(tmp_path / "out"))
    assert run("sql", both, count, "--history", tmp_path / "out").err == ""
    (stores / "b" / "store" / "commitlog").rename(tmp_path / "unmounted")
    shutil.rmtree(stores / "c")
    alone, done = run("sql", both, count, "--json"), run("sql", both, count, "--json", "--history", tmp_path / "out")
    assert (alone.rows, done.rows) == ([{"n": 1}], [{"n": 3}])
    assert [one.err.count("of broker 'b'; is its disk mounted?") for one in (alone, done)] == [1, 1]
    assert "rows of broker 'b' and 1 more, whose store is not read" in done.err


def test_a_misspelled_topic(run: Run, tmp_path: Path) -> None:
    """Silence would be taken for an answer; a topic that one of the stores, or the table, has is none."""
    from flintmq.lake.export.export_once import export

    for broker, topic in (("a", "Orders"), ("b", "Refunds")):
        put_messages(tmp_path / broker / "store", [flintmq.Message(topic, b"1")])
    count, both = "select count(*) as n from messages", f"{tmp_path}/{{broker}}/store"
    for place in (tmp_path / "a" / "store", both):
        refused = run("sql", place, count, "--topic", "Order")
        assert (refused.code, refused.out) == (7, "") and "there is no such topic; topics are Orders" in refused.err
        assert run("sql", place, count, "--topic", "Orders", "--json").rows == [{"n": 1}]
    assert run("sql", both, count, "--topic", "Refunds", "--json").rows == [{"n": 1}]
    export(str(tmp_path / "a" / "store"), str(tmp_path / "out"))
    put_messages(tmp_path / "other" / "store", [flintmq.Message("Else", b"1")])
    for words in (("Order",), ("Orders", "--topic", "Order")):
        refused = run("sql", tmp_path / "a" / "store", count, "--history", tmp_path / "out", "--topic", *words)
        assert refused.code == 7 and "there is no such topic" in refused.err
    found = run("sql", tmp_path / "a" / "store", count, "--history", tmp_path / "out", "--topic", "Orders", "--json")
    assert found.rows == [{"n": 1}]


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_a_full_disk_is_named(
    run: Run, golden: Any, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = golden("basic").path
    monkeypatch.setattr("flintmq.cli.sql_output.write_lines", full)
    monkeypatch.setattr("flintmq.cli.sql_output.write_parquet", full)
    done = run("sql", path, BY_TOPIC, "--out", tmp_path / name)
    assert done.code == 5 and done.err.startswith(f"flintmq: {tmp_path / name}: No space left on device; free some")
    assert list(tmp_path.iterdir()) == []
