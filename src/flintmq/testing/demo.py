"""The main job on real data, in about a minute: `make demo`, or `python -m flintmq.testing.demo`.

Opens a store that Apache RocketMQ wrote, finds a flipped bit in a copy of it, makes its queues and index anew and
compares them byte for byte; then makes a larger store, counts its messages by topic and minute on Spark, draws a
picture of it, and exports all of it to Parquet. Everything it writes is below `demo-out/`.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flintmq import open_store
from flintmq.testing.damage import flip
from flintmq.testing.picture import spark_line, stacked_areas
from flintmq.testing.write_store import write_store

GOLDEN = Path(__file__).resolve().parents[3] / "tests" / "compat" / "golden" / "basic.tar.xz"
START_MS, MINUTES = 1_700_004_600_000, 60  # from 2023-11-14 23:30 UTC, over midnight

console = Console(highlight=False)


@contextmanager
def section(title: str, text: str) -> Iterator[None]:
    """A heading, what follows, and how long it took."""
    console.print()
    console.rule(f"[bold]{title}", align="left", style="cyan")
    console.print(f"[dim]{text}[/dim]")
    began = time.perf_counter()
    yield
    console.print(f"[cyan]{time.perf_counter() - began:.1f} s[/cyan]")


def flintmq(*words: str | Path, expect: int = 0) -> None:
    """Run the real command line, as a user would."""
    shown = [str(word) for word in words]
    console.print(f"\n[bold]$ flintmq {escape(shlex.join(shown))}[/bold]")
    script = "import sys; from flintmq.cli.app import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", script, *shown], check=False)
    if done.returncode != expect:
        raise SystemExit(f"flintmq {words[0]} ended with exit code {done.returncode}, not {expect}")


def java_store(out: Path) -> None:
    """What RocketMQ wrote: looked at, damaged, rebuilt."""
    if not GOLDEN.exists():
        console.print(f"\n[yellow]Left out: the store written by RocketMQ is part of the source tree ({GOLDEN.name}).")
        return
    with tarfile.open(GOLDEN) as archive:
        archive.extractall(out, filter="data")
    store = out / "basic"
    with section("1. A store that Apache RocketMQ 5.3.3 wrote", "Topics, queues, times and files, read-only, offline."):
        flintmq("inspect", store)

    text = "One bit of one message body is flipped in a copy. RocketMQ would cut the log there and lose what follows."
    with section("2. Damage is found, and only the damage", text):
        copy = shutil.copytree(store, out / "damaged")
        with open_store(store) as view:
            victim = view.get("Orders", 2, 60)
        log = sorted((copy / "commitlog").iterdir())
        file = [path for path in log if int(path.name) <= victim.physical_offset][-1]
        flip(file, victim.physical_offset - int(file.name) + victim.raw.index(victim.body), 0x10)
        flintmq("verify", copy, expect=1)

    text = "Consume queues and index made anew from the commit log alone, against the files that Java wrote."
    with section("3. Rebuild, byte for byte", text):
        into = out / "rebuilt"
        flintmq("rebuild", store, "--into", into)
        equal = compare(store, into)
        console.print(f"[bold green]{equal} files compared with Java's: every byte is equal")


def compare(java: Path, ours: Path) -> int:
    """How many files of queues and index there are; ends the demo if one is not equal.

    Index files are compared in their order: Java names them by its clock, which the log does not tell.
    """
    trees = []
    for root in (java, ours):
        queues = sorted(path for path in (root / "consumequeue").rglob("*") if path.is_file())
        files = {path.relative_to(root).as_posix(): path.read_bytes() for path in queues}
        index = sorted((root / "index").iterdir())
        trees.append(files | {f"index {number}": path.read_bytes() for number, path in enumerate(index)})
    differing = [name for name in trees[0].keys() | trees[1].keys() if trees[0].get(name) != trees[1].get(name)]
    if differing:
        raise SystemExit(f"not equal: {', '.join(sorted(differing)[:5])}")
    return len(trees[0])


def own_store(out: Path, messages: int) -> Path:
    """A larger store of our own making."""
    text = f"{messages:,} messages over an hour: compressed, delayed, transactional, batched, some with IPv6."
    with section("4. A larger store, made from a seed", text):
        began = time.perf_counter()
        written = write_store(
            out / "store",
            messages,
            topics={"Orders": 5, "Payments": 3, "Shipments": 2, "Returns": 1},
            kinds=("compressed", "delay", "transactions", "batches", "ipv6", "flags"),
            start_ms=START_MS,
            duration_ms=MINUTES * 60_000,
            waves=3,
            body_bytes=(100, 900),
        )
        mib = (written.max_offset - written.min_offset) / 2**20
        console.print(f"{mib:.0f} MiB of log, queues and index in {time.perf_counter() - began:.1f} s")
        flintmq("inspect", written.path)
    return written.path


def by_minute(spark: Any, store: Path) -> tuple[list[str], dict[str, list[int]]]:
    """Labels of the minutes, and for each topic its messages in each."""
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW messages USING flintmq "
        f"OPTIONS (path '{store}', columns 'topic,store_timestamp')"
    )
    query = (
        "SELECT topic, date_format(store_timestamp, 'yyyy-MM-dd HH:mm') AS minute, count(*) AS messages "
        "FROM messages GROUP BY ALL ORDER BY ALL"
    )
    console.print(f"[bold]{query}[/bold]\n")
    rows = spark.sql(query).collect()
    minutes = sorted({row.minute for row in rows})
    totals: dict[str, int] = {}
    for row in rows:
        totals[row.topic] = totals.get(row.topic, 0) + row.messages
    series = {topic: [0] * len(minutes) for topic in sorted(totals, key=lambda topic: -totals[topic])}
    for row in rows:
        series[row.topic][minutes.index(row.minute)] = row.messages
    return minutes, series


def show(minutes: list[str], series: dict[str, list[int]], out: Path) -> None:
    """The table (its first rows), a line for each topic, and the picture."""
    clock = [minute[-5:] for minute in minutes]
    table = Table("minute", *list(series)[:4], box=None, header_style="bold", pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for i, minute in enumerate(clock[:5]):
        table.add_row(minute, *(f"{values[i]:,}" for values in list(series.values())[:4]))
    table.add_row("...", *["..."] * (len(table.columns) - 1))
    console.print(table)
    console.print()
    for name, values in series.items():
        line = spark_line([sum(values[i : i + 2]) for i in range(0, len(values), 2)])
        console.print(f"{name:<27} {sum(values):>9,}  [cyan]{line}[/cyan]")
    picture = out / "messages.svg"
    picture.write_text(stacked_areas("Messages a minute, by topic", clock, series), encoding="utf-8")
    console.print(f"\npicture: [bold]{picture}[/bold]")


def on_spark(out: Path, store: Path) -> None:
    """Spark: a table, a picture, Parquet."""
    from flintmq.spark import session
    from flintmq.spark.jobs.export import export

    with section("5. The store as a table in Spark SQL", "The first query includes the start of Spark."):
        spark = session("flintmq demo", master="local[2]")
        minutes, series = by_minute(spark, store)
        show(minutes, series, out)
    try:
        with section(
            "6. Out to Parquet", "Partitioned by topic and date, published in one step; run again, it adds what is new."
        ):
            parquet = out / "parquet"
            for _ in range(2):
                done = export(spark, str(store), str(parquet))
                console.print(f"exported {done.rows:,} messages in {done.files} files")
            back = spark.read.parquet(str(parquet)).count()
            files = sorted(parquet.rglob("*.parquet"))
            mib = sum(path.stat().st_size for path in files) / 2**20
            console.print(
                f"read back: {back:,} messages from {len(files)} files, {mib:.0f} MiB: [bold]{parquet}[/bold]"
            )
            if back != sum(map(sum, series.values())):
                raise SystemExit("the Parquet files do not hold what the store holds")
    finally:
        spark.stop()


def main(arguments: list[str] | None = None) -> int:
    """Run the demo. Returns the exit code."""
    parser = argparse.ArgumentParser(description="FlintMQ's main job on real data, in about a minute.")
    parser.add_argument("--out", default="demo-out", help="where everything goes; emptied first (demo-out)")
    parser.add_argument("--messages", type=int, default=400_000, help="of the larger store (400000)")
    parser.add_argument("--without-spark", action="store_true", help="stop before Spark")
    given = parser.parse_args(arguments)
    began = time.perf_counter()
    out = Path(given.out)
    if out.exists() and any(out.iterdir()) and not (out / ".flintmq-demo").exists():
        raise SystemExit(f"{out} holds something that is not of an earlier demo; give another --out")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / ".flintmq-demo").touch()
    java_store(out)
    store = own_store(out, given.messages)
    if not given.without_spark:
        on_spark(out, store)
    console.print(
        f"\n[bold]Done in {time.perf_counter() - began:.0f} s.[/bold] Try: flintmq scan {store} --limit 3 --json"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
