"""Asking DuckDB: rows come as they are found, and what fails is said as it is."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytest.importorskip("duckdb", reason="duckdb is not installed")

import flintmq
from flintmq.errors import CorruptStoreError, UsageError
from flintmq.frames.sql import ask
from flintmq.testing import write_store


def test_rows_come_as_they_are_found(tmp_path: Path) -> None:
    """The first rows are there before damage far behind them is met."""
    write_store(tmp_path / "s", 60_000, body_bytes=2048)
    log = tmp_path / "s" / "commitlog" / "00000000000000000000"
    with log.open("rb+") as file:
        file.seek(120_000_000)
        file.write(b"\xff" * 5000)
    messages = flintmq.dataset(tmp_path / "s")
    with ask(messages, "select * from messages") as rows:
        assert rows.read_next_batch().num_rows > 0 and messages.failure is None
        with pytest.raises(CorruptStoreError, match="position 11999"):
            rows.read_all()


def test_nothing_is_left_behind(golden: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with ask(flintmq.dataset(golden("basic").path), "select 1 as one") as rows:
        assert [path.name.startswith("flintmq-sql-") for path in tmp_path.iterdir()] == [True]
        assert rows.read_all().to_pylist() == [{"one": 1}]
    assert list(tmp_path.iterdir()) == []


def test_no_statement_gives_no_rows(golden: Any) -> None:
    with ask(flintmq.dataset(golden("basic").path), "-- nothing") as rows:
        assert rows.read_all().num_rows == 0 and rows.schema.names == []


def test_an_empty_store(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    with ask(flintmq.dataset(tmp_path), "select count(*) as n from messages") as rows:
        assert rows.read_all().to_pylist() == [{"n": 0}]


def test_what_duckdb_objects_to_is_one_line(golden: Any) -> None:
    messages = flintmq.dataset(golden("basic").path)
    with pytest.raises(UsageError, match="^SQL: .*nope[^\n]*$"), ask(messages, "select nope\nfrom messages"):
        pass
