"""A group-by over four columns of a scan, in DuckDB and in Polars: the question of P12 and S6.

It imports nothing of the bench: S6 counts the start of a process that asks, and a user's has no helpers of a bench.
"""

from __future__ import annotations

from typing import Any, cast

from flintmq import scan_arrow

NUMBERS = ["queue_id", "queue_offset", "store_timestamp", "size"]


def duckdb_sum(path: Any, access: str) -> Any:
    import duckdb

    reader = scan_arrow(path, columns=NUMBERS, access=access)  # noqa: F841 (DuckDB finds it by name)
    sums = duckdb.sql(
        "SELECT queue_id, count(*), sum(queue_offset), sum(size), epoch_ms(max(store_timestamp)) FROM reader GROUP BY 1"
    )
    assert sums is not None  # as of every SELECT
    return sums.fetchall()


def polars_sum(path: Any, access: str) -> Any:
    import polars as pl

    frame = pl.concat(
        cast("list[pl.DataFrame]", [pl.from_arrow(batch) for batch in scan_arrow(path, columns=NUMBERS, access=access)])
    )
    return frame.group_by("queue_id").agg(pl.len(), pl.sum("queue_offset"), pl.sum("size"), pl.max("store_timestamp"))
