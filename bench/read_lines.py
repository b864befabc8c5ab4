"""P9b, P11, P12: one pass over a log in the page cache, against memcpy of the same bytes, and against Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from data import SIZES, Memcpy, sized
from harness import Context, Found, Result, measure, timed

from flintmq import scan_arrow
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.walk import LogWalk

NUMBERS = ["queue_id", "queue_offset", "store_timestamp", "size"]


def p9b(context: Context) -> dict[str, Result]:
    """Validate every record, checksums included. A scan that maps is compared with a copy that maps too."""
    results = {}
    for size in SIZES:
        written = sized(context, size)
        log = LogFiles.discover([str(written.path / "commitlog")])

        def walk(log: LogFiles = log) -> int:
            return sum(piece.count for piece in LogWalk(log, access="map", piece_bytes=8 << 20))

        assert walk() == written.records
        found = measure(context, {"memcpy": timed(Memcpy(written)), "map": timed(walk)}, warm=True)
        results[f"P9b.map.{size}"] = found.result(found["memcpy wall"] / found["map wall"])
    return results


def scan(path: Path) -> int:
    """All columns as Arrow batches."""
    return sum(batch.num_rows for batch in scan_arrow(path, access="map"))


def by_batches(file: Path) -> int:
    """The same of a Parquet file, batch by batch."""
    return sum(batch.num_rows for batch in pq.ParquetFile(file, memory_map=True).iter_batches())


def p11(context: Context) -> dict[str, Result]:
    """The same rows, every column: from the log, and from Parquet that is not compressed, by its faster reader."""
    results = {}
    for size in SIZES:
        written = sized(context, size)
        with context.folder("parquet") as folder:
            file, batches = folder / "rows.parquet", scan_arrow(written.path)
            with pq.ParquetWriter(file, batches.schema, compression="none") as writer:
                for batch in batches:
                    writer.write_batch(batch)
            assert scan(written.path) == by_batches(file) == written.records
            found = parquet_or_log(context, written.path, file)
        peer = found.best("parquet table wall", "parquet batches wall")
        results[f"P11.parquet.{size}"] = found.result(peer / found["scan wall"])
    return results


def parquet_or_log(context: Context, path: Path, file: Path) -> Found:
    cases = {
        "scan": timed(lambda: scan(path)),
        "parquet table": timed(lambda: pq.read_table(file, memory_map=True)),
        "parquet batches": timed(lambda: by_batches(file)),
    }
    return measure(context, cases, warm=True)


def duckdb_sum(path: Path) -> Any:
    """A group-by over four columns of a scan."""
    import duckdb

    reader = scan_arrow(path, columns=NUMBERS, access="map")  # noqa: F841 (DuckDB finds it by name)
    sums = duckdb.sql(
        "SELECT queue_id, count(*), sum(queue_offset), sum(size), epoch_ms(max(store_timestamp)) FROM reader GROUP BY 1"
    )
    assert sums is not None  # as of every SELECT
    return sums.fetchall()


def p12(context: Context) -> dict[str, Result]:
    results = {}
    for size in SIZES:
        written = sized(context, size)
        assert sum(row[1] for row in duckdb_sum(written.path)) == written.records
        cases = {
            "memcpy": timed(Memcpy(written)),
            "duckdb": timed(lambda path=written.path: duckdb_sum(path)),  # type: ignore[misc]
        }
        found = measure(context, cases, warm=True)
        results[f"P12.duckdb.map.{size}"] = found.result(found["memcpy wall"] / found["duckdb wall"])
    return results


FAMILIES = {"P9b": p9b, "P11": p11, "P12": p12}
