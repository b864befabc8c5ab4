"""Counts and comparisons that end the demo if they do not hold, and its plot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from examples.demo.orders import number_of

COLUMNS = ["physical_offset", "topic", "queue_id", "queue_offset", "keys", "body"]
"""Columns by which rows of the log and of the table are compared."""


def same_files(one: Path, other: Path) -> int:
    """Compare the queue and index files of two stores and return how many there are.

    Index files are compared in order: their names come from the clock, which the log does not record.

    Raises:
        SystemExit: a file differs.
    """
    trees = []
    for root in (one, other):
        queues = sorted(path for path in (root / "consumequeue").rglob("*") if path.is_file())
        files = {path.relative_to(root).as_posix(): path for path in queues}
        trees.append(
            files | {f"index {number}": path for number, path in enumerate(sorted((root / "index").iterdir()))}
        )
    names = trees[0].keys() | trees[1].keys()
    differing = [name for name in names if not _equal(trees[0].get(name), trees[1].get(name))]
    if differing:
        raise SystemExit(f"not equal: {', '.join(sorted(differing)[:5])}")
    return len(trees[0])


def _equal(one: Path | None, other: Path | None) -> bool:
    return one is not None and other is not None and one.read_bytes() == other.read_bytes()


def rows_of(table: Path) -> int:
    """Return the number of rows of a Delta table, 0 if there is none yet."""
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        return int(DeltaTable(str(table)).count())
    except TableNotFoundError:
        return 0


def exactly_once(store: Path, table: Path, orders: int, acknowledged: int) -> list[str]:
    """Prove that log and table have orders 0 to orders - 1 once each; return that in words.

    Args:
        store: the store that the orders were put to.
        table: the Delta table that they were exported to.
        orders: number of orders taken.
        acknowledged: number of orders acknowledged before the kill.

    Raises:
        SystemExit: the log or the table lacks an order, has one twice, or has another value.
    """
    import pyarrow as pa
    from deltalake import DeltaTable

    import flintmq

    log = flintmq.scan_arrow(store, columns=COLUMNS).read_all()
    copy = pa.table(DeltaTable(str(table)).to_pyarrow_table(columns=COLUMNS)).sort_by("physical_offset")
    said = []
    for name, rows in (("log", log), ("table", copy)):
        numbers = [number_of(keys) for keys in rows.column("keys").to_pylist()]
        once = set(numbers)
        if len(numbers) != len(once):
            raise SystemExit(f"the {name} has {len(numbers) - len(once)} orders twice")
        if once != set(range(orders)):
            raise SystemExit(f"the {name} lacks {len(set(range(orders)) - once)} of {orders} orders")
        if not once.issuperset(range(acknowledged)):
            raise SystemExit(f"the {name} lacks an order that was acknowledged before the kill")
        said.append(f"{name}: {len(numbers):,} rows, {len(once):,} different orders, none missing, none twice")
    if not _same_rows(log, copy):
        raise SystemExit("the table's rows are not those of the log")
    return [*said, f"all {acknowledged:,} orders acknowledged before the kill are there; every row equals the log's"]


def _same_rows(log: Any, copy: Any) -> bool:
    return all(log.column(name).to_pylist() == copy.column(name).to_pylist() for name in COLUMNS)


def each_once(table: Path, acknowledged: Sequence[tuple[str, int, int]]) -> str:
    """Prove that a Delta table has each acknowledged message once; return that in words.

    Args:
        table: the table.
        acknowledged: topic, queue and queue offset of each message that the master acknowledged.

    Raises:
        SystemExit: the table lacks a message, or has one twice.
    """
    import pyarrow.parquet as pq
    from deltalake import DeltaTable

    columns = ["topic", "queue_id", "queue_offset"]
    # Not to_pyarrow_table: a process that ends soon after it may abort in a thread that it leaves.
    files = DeltaTable(str(table)).file_uris()
    rows = [row for file in files for row in pq.read_table(file, columns=columns, use_threads=False).to_pylist()]
    places = {tuple(row[name] for name in columns) for row in rows}
    if len(places) != len(rows):
        raise SystemExit(f"the table has {len(rows) - len(places)} messages twice")
    missing = set(acknowledged) - places
    if missing:
        raise SystemExit(f"the table lacks {len(missing)} of {len(acknowledged)} messages, such as {min(missing)}")
    return f"all {len(acknowledged):,} messages that the broker acknowledged are in the table, each once; none is twice"


def picture(seen: Sequence[tuple[float, int, int]], moments: Sequence[tuple[float, str]]) -> str:
    """Draw the plot as SVG: orders taken and orders in the table, second by second.

    Args:
        seen: (seconds, orders taken, orders in the table), in order of time.
        moments: (seconds, event), for the heading.
    """
    from flintmq.lake.stats import svg

    seconds = range(int(seen[-1][0]) + 1)
    last = [
        max((row for row in seen if row[0] <= second + 1), key=lambda row: row[0], default=None) for second in seconds
    ]
    series = {
        "taken by the engine": [float(row[1]) if row else 0.0 for row in last],
        "in the Delta table": [float(row[2]) if row else 0.0 for row in last],
    }
    killed = next((f", killed after {at:.0f} s" for at, what in moments if what.endswith("killed")), "")
    plot = svg.lines("Orders over time", [f"{second} s" for second in seconds], series)
    return svg.document(f"Orders taken, and orders in the table{killed}", plot, list(series))
