"""scan_polars gives what scan_arrow gives, and pushes columns, filters and the number of rows into the scan."""

import gc
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import flintmq
from flintmq.frames import polars
from flintmq.store.commitlog.predicate import Predicate
from tests.frames.test_dataset import asked as asked

NOON = datetime(2026, 11, 20, 9, 36, 20, 600_000, tzinfo=UTC)
NOON_MS = 1795167380600
PUSHES_NUMBERS = int(pl.__version__.split(".")[0]) >= 2  # a list of numbers has another form before


@pytest.mark.parametrize("version", ["1.10.0", "1.36.1", "0.20.31"])
def test_one_that_is_too_old_is_named(golden: Any, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(pl, "__version__", version)
    with pytest.raises(flintmq.MissingExtraError, match=rf"needs polars 1\.37 or later: .* \(here is {version}\)$"):
        flintmq.scan_polars(golden("basic").path)


def test_the_whole(golden: Any) -> None:
    path = golden("basic").path
    assert flintmq.scan_polars(path).collect().equals(pl.from_arrow(flintmq.scan_arrow(path)))


@pytest.mark.parametrize(
    ("condition", "predicate"),
    [
        (pl.col("topic") == "Orders", Predicate(topics=frozenset(["Orders"]))),
        (pl.col("queue_id").is_in([1, 2]), Predicate(queue_ids=frozenset([1, 2])) if PUSHES_NUMBERS else Predicate()),
        (pl.col("queue_id") == 1, Predicate(queue_ids=frozenset([1]))),
        (pl.col("tags").is_in(["TagA"]), Predicate(tags=frozenset(["TagA"]))),
        (pl.col("store_timestamp") >= NOON, Predicate(since=NOON_MS)),
        (pl.col("store_timestamp") < NOON, Predicate(until=NOON_MS)),
        ((pl.col("topic") == "Orders") & (pl.col("size") > 200), Predicate(topics=frozenset(["Orders"]))),
        ((pl.col("topic") == "Orders") | (pl.col("size") > 200), Predicate()),
        (pl.col("topic") != "Orders", Predicate()),
    ],
    ids=str,
)
def test_filters(condition: Any, predicate: Predicate, golden: Any, asked: list[tuple[list[str], Predicate]]) -> None:
    path = golden("basic").path
    expected = pl.from_arrow(flintmq.scan_arrow(path)).filter(condition).select("keys")
    found = flintmq.scan_polars(path).filter(condition).select("keys").collect()
    assert found.equals(expected) and 0 < found.height < 3000
    assert asked[-1][1] == predicate and len(asked[-1][0]) <= 3


def test_a_head_ends_the_scan(golden: Any) -> None:
    frame = flintmq.scan_polars(golden("basic").path, topics="Orders").head(7).collect()
    assert frame.equals(pl.from_arrow(flintmq.scan_arrow(golden("basic").path, topics="Orders")).head(7))


def test_an_expression_of_another_form_changes_nothing() -> None:
    assert polars.comparisons(None) == polars.comparisons({"BinaryExpr": 3}) == polars.comparisons([]) == []
    assert polars.comparisons({"Function": {"input": [{"Column": "tags"}, {"Literal": {"Scalar": {"List": [1]}}}],
                                          "function": {"Boolean": {"IsIn": {}}}}}) == []  # fmt: skip


def mapped_logs() -> int:
    return Path("/proc/self/maps").read_text().count("/commitlog/")


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="needs the list of this process's maps")
@pytest.mark.parametrize("views", [True, False])
def test_a_small_result_holds_no_batch(golden: Any, monkeypatch: pytest.MonkeyPatch, views: bool) -> None:
    if not views:
        monkeypatch.setattr(polars, "_with_views", lambda *_: None)
    path = golden("basic").path
    for access in ("pread", "map"):
        for ask in (
            lambda rows: rows.head(3),
            lambda rows: rows.filter(pl.col("physical_offset") < 1000),
        ):
            expected = ask(pl.from_arrow(flintmq.scan_arrow(path))).to_dict(as_series=False)
            gc.collect()
            before, maps = pa.total_allocated_bytes(), mapped_logs()
            found = ask(flintmq.scan_polars(path, access=access)).collect()
            gc.collect()
            assert pa.total_allocated_bytes() - before < 100_000 and mapped_logs() == maps
            assert found.to_dict(as_series=False) == expected and 0 < len(found) < 20
