"""Asking DuckDB: rows come as they are found, and what fails is said as it is."""

import tempfile
from pathlib import Path
from typing import Any

import pytest

import flintmq
from flintmq.errors import CorruptStoreError, UsageError
from flintmq.frames.sql import ask
from flintmq.testing import write_store
from tests.support.engine import put_messages


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


FAR = [0, 2**63 - 1, -(2**63), 253_402_300_800_000, -62_135_596_800_001, 9_223_372_036_854_776, 253_402_300_799_999]
IN_YEARS = [0, 253_402_300_799_999]


@pytest.mark.parametrize("access", ["pread", "map"])
@pytest.mark.parametrize("several", [False, True])
def test_a_far_time_is_null(tmp_path: Path, access: str, several: bool) -> None:
    """A sender's time ends no query: DuckDB has none beyond the range of microseconds. Years are as in Spark."""
    for name in ("a", "b") if several else ("a",):
        with flintmq.MessageStore(tmp_path / name, dev=True) as store:
            for number, born in enumerate(FAR):
                store.put(flintmq.Message("T", b"a body of its own %d" % number, keys="k", born_timestamp=born))
    messages = flintmq.dataset([tmp_path / "a", tmp_path / "b"] if several else tmp_path / "a", access=access)
    twice = 1 + several

    def asked(question: str) -> list[tuple[object, ...]]:
        with ask(messages, question) as rows:
            return [tuple(row.values()) for row in rows.read_all().to_pylist()]

    assert asked("select * from messages") and asked("select queue_offset from messages order by born_timestamp")
    kept = asked("select epoch_ms(born_timestamp), decode(body) from messages where born_timestamp is not null")
    bodies = [f"a body of its own {number}" for number in (0, 6)]
    assert sorted(kept) == sorted([*zip(IN_YEARS, bodies, strict=True)] * twice)
    assert asked("select count(*) from messages where born_timestamp is null") == [(5 * twice,)]
    assert asked("select count(*) from messages where born_timestamp > '2000-01-01'") == [(twice,)]
    assert asked("select count(*), epoch_ms(max(born_timestamp)) from messages") == [(7 * twice, IN_YEARS[1])]
    times = messages.to_table(columns=["born_timestamp"]).column(0).cast("int64").to_pylist()
    assert times == FAR * twice, "Arrow's users have every value"


def test_a_filter_keeps_far_times_from_a_duckdb_of_ones_own(tmp_path: Path) -> None:
    """As the page says: Arrow applies it before DuckDB sees the value."""
    import duckdb

    put_messages(tmp_path / "s", (flintmq.Message("T", b"", born_timestamp=born) for born in FAR[:4]), dev=True)
    messages = flintmq.dataset(tmp_path / "s")
    question = "select epoch_ms(born_timestamp) from messages"
    with pytest.raises(duckdb.Error, match="TimestampTZ"):
        duckdb.sql(question).fetchall()
    between = "where born_timestamp between timestamptz '0001-01-01 00:00:00+00' and '9999-12-31 00:00:00+00'"
    assert duckdb.sql(f"{question} {between}").fetchall() == [(0,)] and messages.count_rows() == 4
