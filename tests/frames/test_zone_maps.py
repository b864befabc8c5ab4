"""Zone maps under the readers that people use: the same rows, and most of the log left unread the second time."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import flintmq
from flintmq import Message, MessageStore
from flintmq.frames.sql import ask
from flintmq.kernels.read import walk as kernel
from flintmq.store.commitlog import zone_maps, zones
from tests.cli.conftest import Run, run  # noqa: F401  (a fixture)

COUNT = 12_000
PIECE = 3000  # records, about, that DuckDB reads first to learn their size


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store of a hundred topics in turn, of 300 messages each ms."""
    root = tmp_path_factory.mktemp("zones") / "store"
    with MessageStore(root) as writer:
        for number in range(0, COUNT, 120):
            writer.put_many(
                [Message(f"T{number // 120}", b"x" * 200, keys=f"k{n} all") for n in range(number, number + 120)]
            )
            time.sleep(0.001)
    yield root


@pytest.fixture(autouse=True)
def walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of records that each call of the kernel walked; a cache of this test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FLINTMQ_ZONE_MAPS")
    monkeypatch.setattr(zone_maps, "LEAST_LOG", 0)
    monkeypatch.setattr(zones, "ZONE_BYTES", 4096)
    counts: list[int] = []
    real = kernel.walk

    def counting(*words: Any) -> Any:
        found = real(*words)
        counts.append(found[0])
        return found

    monkeypatch.setattr(kernel, "walk", counting)
    return counts


def rows_of(store: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (
        flintmq.scan_arrow(store, ["topic", "keys", "msg_id", "store_timestamp"]).read_all().to_pylist()
    )
    return rows


def twice(read: Any, walked: list[int]) -> Any:
    """What a read gives, the same both times; the second time it reads a tenth at most, and what DuckDB reads first."""
    first = read()
    assert sum(walked) >= COUNT
    walked.clear()
    assert read() == first
    assert sum(walked) < COUNT / 10 + PIECE
    return first


def test_a_scan_of_arrow(store: Path, walked: list[int]) -> None:
    expected = [row["keys"] for row in rows_of(store) if row["topic"] == "T7"]
    assert len(expected) == 120
    for more in ({}, {"views": True}, {"access": "map"}, {"threads": 2}, {"columns": ["keys", "topic"]}):
        walked.clear()
        arguments: dict[str, Any] = {"columns": ["keys"], **more}

        def read(arguments: dict[str, Any] = arguments) -> list[str]:
            found = flintmq.scan_arrow(store, topics="T7", **arguments).read_all()
            return [str(key) for key in found["keys"].to_pylist()]

        assert read() == expected
        walked.clear()
        assert read() == expected
        # Two threads read on: the log's file is nearly empty, so it does not look as if most of it could be skipped.
        assert sum(walked) < COUNT / 10 or "threads" in more


def test_duckdb_and_polars_find_a_key(store: Path, walked: list[int]) -> None:
    import polars

    wanted = rows_of(store)[1234]

    def sql(where: str) -> Any:
        def read() -> Any:
            with ask(flintmq.dataset(store), f"select keys, msg_id from messages where {where}") as rows:
                return rows.read_all().to_pylist()

        return read

    expected = [{"keys": wanted["keys"], "msg_id": wanted["msg_id"]}]
    for where in (f"keys = '{wanted['keys']}'", f"msg_id = '{wanted['msg_id']}'"):
        walked.clear()
        if where.startswith("keys"):
            assert twice(sql(where), walked) == expected
        assert sql(where)() == expected
    walked.clear()
    assert sql("keys = 'k5 all' or topic = 'T9'")()[0]["keys"] == "k5 all"  # an alternative of two columns
    walked.clear()
    found = flintmq.scan_polars(store).filter(polars.col("msg_id") == wanted["msg_id"]).collect()
    assert found["keys"].to_list() == [wanted["keys"]] and sum(walked) < COUNT / 10 + PIECE


def test_the_command(store: Path, walked: list[int], run: Run) -> None:  # noqa: F811
    def read(*words: str) -> Any:
        def answer() -> str:
            done = run("scan", store, *words, "--format", "{keys}")
            assert done.code == 0
            return str(done.out)

        return answer

    assert twice(read("--key", "k1234"), walked) == "k1234 all\n"
    last = max(row["store_timestamp"] for row in rows_of(store))
    walked.clear()
    assert "k11999 all" in read("--since", str(int(last.timestamp() * 1000)))()
    assert sum(walked) < COUNT / 10 + PIECE
    unique = rows_of(store)[77]["msg_id"]
    walked.clear()
    assert read("--key", unique)() == "k77 all\n"
    assert sum(walked) < COUNT / 10 + PIECE
    assert read("--key", "all", "--topic", "T3")().count("\n") == 120
    walked.clear()
    assert read("--key", "k1234", "--key", unique, "--key", "none")() == "k77 all\nk1234 all\n"
    assert sum(walked) < COUNT / 5 + PIECE
    assert "no record matches" in run("scan", store, "--key", "nobody").err


def test_a_store_that_is_written_meanwhile(tmp_path: Path) -> None:
    """New messages are found by each scan after them."""
    with MessageStore(tmp_path / "live") as writer:
        for number in range(30):
            writer.put_many([Message("T", b"x" * 200, keys=f"k{number}-{n}") for n in range(50)])
            for wanted in {0, number // 2, number}:
                found = flintmq.dataset(tmp_path / "live").to_table(filter=flintmq_filter(f"k{wanted}-7"))
                assert found.num_rows == 1


def flintmq_filter(key: str) -> Any:
    import pyarrow.dataset as ds

    return ds.field("keys") == key
