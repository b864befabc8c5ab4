"""P9b, P11, P12: one pass over a log in the page cache, against memcpy of the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from data import SIZES, Memcpy, sized
from harness import Context, Result, figures, measure

from flintmq import scan_arrow
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.walk import LogWalk

# A scan that maps is compared with a copy that maps too.
PEERS = {"map": "memcpy mapping anew", "pread": "memcpy"}
NUMBERS = ["queue_id", "queue_offset", "store_timestamp", "size"]


def p9b(context: Context) -> list[Result]:
    """Validate every record, checksums included."""
    results = []
    for size in SIZES:
        written = sized(context, size)
        log = LogFiles.discover([str(written.path / "commitlog")])

        def walk(access: str, log: LogFiles = log) -> int:
            return sum(piece.count for piece in LogWalk(log, access=access, piece_bytes=8 << 20))

        assert walk("map") == walk("pread") == written.records
        peer = Memcpy(written)
        samples = measure(
            context,
            {
                "memcpy": peer.kept,
                "memcpy mapping anew": peer.anew,
                "map": lambda: walk("map"),
                "pread": lambda: walk("pread"),
            },
        )
        bars = {"map": (1.0, 1.2) if size == "100B" else (0.75, 1.6), "pread": (0.35, None)}
        bound = "per-record work" if size == "100B" else "memory"
        for access, (bar, moonshot) in bars.items():
            results.append(
                Result(
                    f"P9b.{access}.{size}",
                    f"validate with CRC, access={access}, {size} bodies / {PEERS[access]}",
                    samples[PEERS[access]].wall / samples[access].wall,
                    bar,
                    moonshot=moonshot,
                    bound=bound if access == "map" else "the copy out of the page cache, then " + bound,
                    detail=figures(samples),
                )
            )
    return results


def p11(context: Context) -> list[Result]:
    """All columns as Arrow batches, everything copied."""
    results = []
    for size in SIZES:
        written = sized(context, size)

        def scan(access: str, columns: list[str] | None = None, path: Any = written.path) -> int:
            return sum(batch.num_rows for batch in scan_arrow(path, columns=columns, access=access))

        assert scan("map") == written.records
        peer = Memcpy(written)
        samples = measure(
            context,
            {
                "memcpy": peer.kept,
                "memcpy mapping anew": peer.anew,
                "map": lambda: scan("map"),
                "pread": lambda: scan("pread"),
                "numbers": lambda: scan("map", NUMBERS),
            },
        )
        for access, bar in (("map", 0.5), ("pread", 0.3)):
            results.append(
                Result(
                    f"P11.{access}.{size}",
                    f"Arrow, all 21 columns copied, access={access}, {size} bodies / {PEERS[access]}",
                    samples[PEERS[access]].wall / samples[access].wall,
                    bar,
                    moonshot=0.8 if access == "map" else None,
                    bound="writing the columns: texts and property maps for 100 B, bodies for 1 KB",
                    detail=figures(samples),
                )
            )
    return results


def duckdb_sum(path: Any, access: str) -> Any:
    import duckdb

    reader = scan_arrow(path, columns=NUMBERS, access=access)  # noqa: F841 (DuckDB finds it by name)
    return duckdb.sql(
        "SELECT queue_id, count(*), sum(queue_offset), sum(size), epoch_ms(max(store_timestamp)) FROM reader GROUP BY 1"
    ).fetchall()


def polars_sum(path: Any, access: str) -> Any:
    import polars as pl

    frame = pl.concat([pl.from_arrow(batch) for batch in scan_arrow(path, columns=NUMBERS, access=access)])
    return frame.group_by("queue_id").agg(  # type: ignore[union-attr]
        pl.len(), pl.sum("queue_offset"), pl.sum("size"), pl.max("store_timestamp")
    )


def p12(context: Context) -> list[Result]:
    """A group-by over four columns, by DuckDB and by Polars, on the reader."""
    results = []
    engines: dict[str, Callable[[Any, str], Any]] = {"duckdb": duckdb_sum, "polars": polars_sum}
    for size in SIZES:
        written = sized(context, size)
        assert sum(row[1] for row in duckdb_sum(written.path, "map")) == written.records
        peer = Memcpy(written)
        cases: dict[str, Callable[[], Any]] = {"memcpy": peer.kept, "memcpy mapping anew": peer.anew}
        for engine, run in engines.items():
            for access in ("map", "pread"):
                cases[f"{engine} {access}"] = partial(run, written.path, access)
        samples = measure(context, cases)
        for name in list(cases)[2:]:
            engine, access = name.split()
            results.append(
                Result(
                    f"P12.{engine}.{access}.{size}",
                    f"group-by over 4 columns in {engine}, access={access}, {size} bodies / {PEERS[access]}",
                    samples[PEERS[access]].wall / samples[name].wall,
                    0.35 if access == "map" else 0.25,
                    moonshot=0.8,
                    bound="validation of every record; the aggregate itself for 100 B",
                    detail=figures(samples),
                )
            )
    return results


LINES = {"P9b": p9b, "P11": p11, "P12": p12}
