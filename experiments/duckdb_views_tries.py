"""What would make DuckDB gain from views of 100 B bodies (P11q): other batches, other types, one thread.

    python experiments/duckdb_views_tries.py STORE [ROUNDS]

Every case is the bench's question, answered from ready batches, so what scanning costs is left out. Printed are
medians in seconds, and copies / views.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

import duckdb
import pyarrow as pa

sys.path[:0] = [str(Path(__file__).resolve().parent)]

from engine_views_bound import QUESTION, TEXTS  # noqa: E402

from flintmq import scan_arrow  # noqa: E402


def sliced(batches: list[pa.RecordBatch], rows: int) -> list[pa.RecordBatch]:
    """The same rows in shorter batches, without a copy."""
    return [batch.slice(at, rows) for batch in batches for at in range(0, batch.num_rows, rows)]


def texts_copied(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Short columns as plain text; the body alone as it was."""
    names = batches[0].schema.names
    return [
        pa.RecordBatch.from_arrays(
            [
                column if name == "body" else column.cast(pa.string())
                for name, column in zip(names, batch.columns, strict=True)
            ],
            names,
        )
        for batch in batches
    ]


def coded(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Topic and tags with a dictionary for each batch, the rest as it was."""
    names = batches[0].schema.names
    return [
        pa.RecordBatch.from_arrays(
            [
                column.cast(pa.string()).dictionary_encode() if name in ("topic", "tags") else column
                for name, column in zip(names, batch.columns, strict=True)
            ],
            names,
        )
        for batch in batches
    ]


def main(store: str, rounds: int = 9) -> None:
    made = {
        kind: list(scan_arrow(store, columns=TEXTS, access="map", views=kind == "views"))
        for kind in ("copies", "views")
    }
    print(*(f"{kind}: {batches[0].schema.to_string()}" for kind, batches in made.items()), sep="\n")
    tries = {
        "as it is": lambda batches: batches,
        "2,048 rows a batch": lambda batches: sliced(batches, 2048),
        "8,192 rows a batch": lambda batches: sliced(batches, 8192),
        "short texts copied": texts_copied,
        "topic and tags coded": coded,
    }
    cases = {(name, kind): change(batches) for name, change in tries.items() for kind, batches in made.items()}
    for threads in (2, 1):
        found: dict[tuple[str, str], list[float]] = {case: [] for case in cases}
        with duckdb.connect(config={"threads": threads}) as engine:
            for _ in range(rounds):
                for case, batches in cases.items():
                    reader = pa.RecordBatchReader.from_batches(batches[0].schema, batches)  # noqa: F841 (DuckDB finds it)
                    began = time.perf_counter()
                    engine.sql(QUESTION).fetchall()
                    found[case].append(time.perf_counter() - began)
        for name in tries:
            copies, views = (statistics.median(found[name, kind]) for kind in ("copies", "views"))
            print(f"{threads} threads, {name:22} copies {copies:.3f} s, views {views:.3f} s: {copies / views:.2f}")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
