"""What the statements of a question may do: write outside the stores, and answer once."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import duckdb
import pytest

import flintmq
from flintmq.config.keys import StoreConfig
from flintmq.errors import UsageError
from flintmq.frames.sql import ask

IN_STORE = [
    "copy (select 1) to '{store}/commitlog/00000000000000000000' (format csv)",
    "copy messages to '{store}/new.csv'",
    "copy (select 1) to $${store}/new.csv$$",
    "copy (select 1) to '{store}/../store/commitlog/00000000000000000000'",
    "copy (select 1) to 'file://{store}/commitlog/00000000000000000000' (format csv)",
    "copy (select 1) to '{link}/commitlog/00000000000000000000' (format csv)",
    "copy (select 1) to ('{store}' || '/new.csv')",
    "copy (select 1) to ('{out}' || '/../store/new.csv')",
    "copy (select 1 as a, 2 as b) to '{store}/parts' (format parquet, partition_by (a))",
    "copy (select 1 as a, 2 as b) to '{above}' (format parquet, partition_by (a), overwrite)",
    "explain analyze copy (select 1) to '{store}/new.csv'",
    "prepare p as copy (select 1) to '{store}/new.csv'; execute p",
    "set variable place = '{store}/new.csv'; copy (select 1) to (getvariable('place'))",
    "create table t as select 1; export database '{store}/db'",
    "attach '{store}/new.db' as d; create table d.t as select 1",
    "set log_query_path = '{store}/queries.log'; select 1",
    "set enable_profiling = 'json'; set profile_output = '{store}/profile.json'; select 1",
    "set temp_directory = '{store}/temp'; select 1",
    "select 1 where 'it''s' <> '' -- '{out}\n; copy (select 1) to '{store}/new.csv'",
]


def listed(store: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in store.rglob("*") if path.is_file()}


@pytest.fixture
def places(golden: Any, tmp_path: Path) -> dict[str, Path]:
    store = golden("basic").copy(tmp_path / "data")
    assert store.name == "store" or store.rename(tmp_path / "data" / "store")
    store = tmp_path / "data" / "store"
    (tmp_path / "link").symlink_to(store)
    (tmp_path / "data" / "out").mkdir()
    return {"store": store, "link": tmp_path / "link", "out": tmp_path / "data" / "out", "above": tmp_path / "data"}


@pytest.mark.parametrize("question", IN_STORE)
def test_nothing_is_written_into_a_store(places: dict[str, Path], question: str) -> None:
    before = listed(places["above"])
    with pytest.raises(UsageError), ask(flintmq.dataset(places["store"]), question.format(**places)) as rows:
        rows.read_all()
    assert listed(places["above"]) == before


def test_the_error_says_what_to_do(places: dict[str, Path]) -> None:
    path = places["store"] / "new.csv"
    said = f"^SQL: {path} is inside a store, where no query touches files, .*; give another place, as one text$"
    with pytest.raises(UsageError, match=said), ask(flintmq.dataset(places["store"]), f"copy messages to '{path}'"):
        pass


def test_log_directories_elsewhere_are_the_store(places: dict[str, Path], tmp_path: Path) -> None:
    log = (places["store"] / "commitlog").rename(tmp_path / "log")
    messages = flintmq.dataset(places["store"], set={"storePathCommitLog": str(log)})
    for question in (f"copy (select 1) to '{log}/new.csv'", f"copy (select 1) to '{log}/00000000000000000000'"):
        with pytest.raises(UsageError, match="is inside a store"), ask(messages, question):
            pass


OUTSIDE = [
    "copy (select count(*) as n from messages) to '{out}/o.csv'",
    "copy (select count(*) as n from messages) to 'o.csv'",
    "copy (select topic, queue_id from messages) to '{out}/parts' (format parquet, partition_by (topic))",
    "create table t as select topic from messages; export database '{out}/db'",
    "attach '{out}/new.db' as d; create table d.t as select topic from messages; detach d",
    "set threads = 1; select count(*) as n from messages",
    "create temp table t as select topic from messages; select count(*) as n from t",
    "copy (select count(*) as n from messages, '{out}/in*.csv') to '{out}/o.csv'",
    'copy (select * from "{out}/in.csv") to $q${out}/o.csv$q$',
    "load parquet; copy (select 1 as n) to '{out}/o.parquet'",
    "prepare p as copy (select 1) to '{out}/o.csv'; execute p",
    "select count(*) as n from messages, '{store}/../out/in.csv'",
    "-- don't\nset threads = 1; select 1 as n from '{out}/in.csv'",
]


@pytest.mark.parametrize("question", OUTSIDE)
@pytest.mark.parametrize("twice", [False, True])
def test_files_outside_are_the_users_own(
    places: dict[str, Path], monkeypatch: pytest.MonkeyPatch, question: str, twice: bool
) -> None:
    monkeypatch.chdir(places["above"])
    (places["out"] / "in.csv").write_text("a\n1\n")
    before = listed(places["store"])
    for _ in range(1 + (twice and "o.csv" in question)):  # DuckDB replaces a file by a temporary one
        with ask(flintmq.dataset("store"), question.format(**places)) as rows:
            rows.read_all()
    written = len([path for path in places["above"].rglob("*") if path.is_file() and "store" not in path.parts[-3:]])
    assert written > 1 or "select" in question.partition(";")[2] or question.startswith("select")
    assert listed(places["store"]) == before


@pytest.mark.parametrize(
    ("question", "early"),
    [
        ("select 1; select 2", 1),
        ("select 1; set threads = 1", 1),
        ("set threads = 1; from messages limit 1; select 2;", 2),
        ("explain select 1; select 2", 1),
        ("values (1); values (2); values (3)", 1),
    ],
)
def test_an_answer_that_would_be_lost(golden: Any, question: str, early: int) -> None:
    said = f"^SQL: statement {early} of . has an answer, and only that of the last one is given; ask one question"
    with pytest.raises(UsageError, match=said), ask(flintmq.dataset(golden("basic").path), question):
        pass


def test_the_answer_of_a_pivot_would_be_lost(golden: Any) -> None:
    """DuckDB 1.5 makes two statements of a PIVOT, 2.0 one."""
    said = "^SQL: statement [12] of [23] has an answer, and only that of the last one is given"
    with (
        pytest.raises(UsageError, match=said),
        ask(flintmq.dataset(golden("basic").path), "pivot (select 1 as a) on a; select 2"),
    ):
        pass


@pytest.mark.parametrize(
    "question",
    [
        "select 7 as n;",
        "set threads = 1; select 7 as n",
        "create macro seven() as 7; select seven() as n",
        "create temp table t as select 7 as n; insert into t values (8); from t limit 1;;",
        "load parquet; select 7 as n",
    ],
)
def test_the_last_statement_answers(golden: Any, question: str) -> None:
    with ask(flintmq.dataset(golden("basic").path), question) as rows:
        assert rows.read_all().to_pylist() == [{"n": 7}]


@pytest.mark.parametrize("version", ["v1.1.3", "v1.4.4", "v0.10.0-dev7"])
def test_a_duckdb_that_does_not_keep_out_is_named(golden: Any, version: str) -> None:
    """1.1 has no such settings, 1.4 writes profiles anywhere: the question is refused, and not run unguarded."""
    from flintmq.frames.statements import close

    class Old:
        def execute(self, text: str) -> Old:
            assert "version()" in text
            return self

        def fetchone(self) -> tuple[str]:
            return (version,)

    question = "select 1"
    with pytest.raises(UsageError, match=rf"DuckDB {re.escape(version)} cannot be kept out .* 1\.5 or newer"):
        close(Old(), duckdb.extract_statements(question), question, [os.fspath(golden("basic").path)], StoreConfig())
