"""P9b, P11, P11q, P12: one pass over a log in the page cache, against memcpy of the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from data import SIZES, Memcpy, sized
from engine_sums import NUMBERS, duckdb_sum, polars_sum
from harness import Context, Result, figures, measure

from flintmq import scan_arrow
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.walk import LogWalk

# A scan that maps is compared with a copy that maps too.
PEERS = {"map": "memcpy mapping anew", "pread": "memcpy"}


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


# (bar, moonshot) of P11 by what is made and how the log is read, for bodies of 100 B and 1 KB.
P11_BARS: dict[str, dict[str, tuple[float, float | None]]] = {
    "copied map": {"100B": (0.24, None), "1KB": (0.45, None)},
    "copied pread": {"100B": (0.17, None), "1KB": (0.3, None)},
    "views map": {"100B": (0.42, 0.5), "1KB": (0.8, 0.9)},
}


def p11(context: Context) -> list[Result]:
    """All columns as Arrow batches: everything copied, and as views."""
    results = []
    for size in SIZES:
        written = sized(context, size)

        def scan(access: str, columns: list[str] | None = None, views: bool = False, path: Any = written.path) -> int:
            return sum(batch.num_rows for batch in scan_arrow(path, columns=columns, access=access, views=views))

        assert scan("map") == scan("map", views=True) == written.records
        peer = Memcpy(written)
        samples = measure(
            context,
            {
                "memcpy": peer.kept,
                "memcpy mapping anew": peer.anew,
                "copied map": lambda: scan("map"),
                "copied pread": lambda: scan("pread"),
                "views map": lambda: scan("map", views=True),
                "views pread": lambda: scan("pread", views=True),
                "numbers": lambda: scan("map", NUMBERS),
            },
        )
        for name, bars in P11_BARS.items():
            made, access = name.split()
            bar, moonshot = bars[size]
            results.append(
                Result(
                    f"P11.{access}.{size}" if made == "copied" else f"P11.views.{access}.{size}",
                    f"Arrow, all 21 columns, {made}, access={access}, {size} bodies / {PEERS[access]}",
                    samples[PEERS[access]].wall / samples[name].wall,
                    bar,
                    moonshot=moonshot,
                    bound="validation, then writing the columns: views and codes, or bodies where they are copied",
                    detail=figures(samples),
                )
            )
    return results


TEXTS = ["topic", "tags", "keys", "body"]


def duckdb_texts(path: Any, views: bool) -> Any:
    import duckdb

    reader = scan_arrow(path, columns=TEXTS, access="map", views=views)  # noqa: F841 (DuckDB finds it by name)
    sums = duckdb.sql(
        "SELECT topic, count(*), sum(octet_length(body)), max(keys), count(DISTINCT tags) FROM reader GROUP BY 1"
    )
    assert sums is not None  # as of every SELECT
    return sums.fetchall()


def polars_texts(path: Any, views: bool) -> Any:
    import polars as pl

    frame = pl.concat(
        cast(
            "list[pl.DataFrame]",
            [pl.from_arrow(batch) for batch in scan_arrow(path, columns=TEXTS, access="map", views=views)],
        )
    )
    sums = (pl.len(), pl.col("body").bin.size().sum(), pl.max("keys"), pl.n_unique("tags"))
    return frame.group_by("topic").agg(*sums).rows()


def p11q(context: Context) -> list[Result]:
    """A group-by over text and bodies, by DuckDB and by Polars: views against copies."""
    results = []
    engines: dict[str, Callable[[Any, bool], Any]] = {"duckdb": duckdb_texts, "polars": polars_texts}
    for size in SIZES:
        written = sized(context, size)
        cases: dict[str, Callable[[], Any]] = {}
        for engine, run in engines.items():
            assert sorted(run(written.path, True)) == sorted(run(written.path, False))
            for made in ("copied", "views"):
                cases[f"{engine} {made}"] = partial(run, written.path, made == "views")
        samples = measure(context, cases)
        for engine in engines:
            results.append(
                Result(
                    f"P11q.{engine}.{size}",
                    f"group-by over text and bodies in {engine}, views / copied, {size} bodies",
                    samples[f"{engine} copied"].wall / samples[f"{engine} views"].wall,
                    1.3,
                    moonshot=2.0,
                    bound="validation of every record and the group-by itself, which both have",
                    detail=figures(samples),
                )
            )
    return results


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


LINES = {"P9b": p9b, "P11": p11, "P11q": p11q, "P12": p12}
