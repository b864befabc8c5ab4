"""What bounded P11q, a line of the bench: the engine alone, on batches in memory, as views and as copies.

    python experiments/engine_views_bound.py STORE [ROUNDS]

Nothing is read, validated or made: DuckDB and Polars answer the line's question over text and bodies from the batches
of one scan. Beside it the whole way, scan and engine. Printed are medians in seconds, and copies / views: what the
line's ratio would be if FlintMQ cost nothing.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa

from flintmq import scan_arrow

TEXTS = ["topic", "tags", "keys", "body"]
QUESTION = "SELECT topic, count(*), sum(octet_length(body)), max(keys), count(DISTINCT tags) FROM reader GROUP BY 1"


def by_duckdb(batches: list[pa.RecordBatch]) -> Any:
    reader = pa.RecordBatchReader.from_batches(batches[0].schema, batches)  # noqa: F841 (DuckDB finds it by name)
    return duckdb.sql(QUESTION).fetchall()


def by_polars(batches: list[pa.RecordBatch]) -> Any:
    frame = pl.concat([pl.from_arrow(batch) for batch in batches])
    sums = (pl.len(), pl.col("body").bin.size().sum(), pl.max("keys"), pl.n_unique("tags"))
    return frame.group_by("topic").agg(*sums).rows()  # type: ignore[union-attr]


def duckdb_texts(path: str, views: bool) -> Any:
    """The whole way: scan and engine."""
    reader = scan_arrow(path, columns=TEXTS, access="map", views=views)  # noqa: F841 (DuckDB finds it by name)
    return duckdb.sql(QUESTION).fetchall()


def polars_texts(path: str, views: bool) -> Any:
    """The same by Polars."""
    return by_polars(list(scan_arrow(path, columns=TEXTS, access="map", views=views)))


def main(store: str, rounds: int = 9) -> None:
    made = {
        kind: list(scan_arrow(store, columns=TEXTS, access="map", views=kind == "views"))
        for kind in ("copies", "views")
    }
    cases: dict[tuple[str, str], Callable[[], Any]] = {}
    for kind, batches in made.items():
        cases["duckdb alone", kind] = lambda batches=batches: by_duckdb(batches)
        cases["polars alone", kind] = lambda batches=batches: by_polars(batches)
        cases["duckdb, scan too", kind] = lambda views=kind == "views": duckdb_texts(store, views)
        cases["polars, scan too", kind] = lambda views=kind == "views": polars_texts(store, views)
    assert sorted(by_duckdb(made["views"])) == sorted(by_duckdb(made["copies"])) == sorted(duckdb_texts(store, True))
    found: dict[tuple[str, str], list[float]] = {case: [] for case in cases}
    for _ in range(rounds):
        for name, case in cases.items():
            began = time.perf_counter()
            case()
            found[name].append(time.perf_counter() - began)
    for name in dict.fromkeys(name for name, _ in cases):
        copies, views = (statistics.median(found[name, kind]) for kind in ("copies", "views"))
        print(f"{name:18} copies {copies:.3f} s, views {views:.3f} s, copies / views {copies / views:.2f}")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
