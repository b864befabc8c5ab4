"""What broker and store cost Spark, and what could make them cheaper (many_stores_spark.py [MIB [ROUNDS]]).

Interleaved reads to `noop`: one store of so much log; three of a third each, with and without the columns broker and
store; and the same as *ready* batches, which a source that knows nothing of FlintMQ hands over from a mapped file:
the stripped kernel. Attempts are made on the ready batches, so that they show the most that each can bring.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

HERE = str(Path(__file__).resolve().parent)
os.environ["PYTHONPATH"] = os.pathsep.join([HERE, *filter(None, [os.environ.get("PYTHONPATH")])])

from ready_source import ReadySource, prepare  # noqa: E402  # where workers find it, too

import flintmq.spark  # noqa: E402
from flintmq.message import COLUMNS, MEMBER_COLUMNS  # noqa: E402
from flintmq.testing import write_store  # noqa: E402

BODY = 1024


def rewritten(source: Path, into: Path, change: Callable[[pa.Table], pa.Table], batches: int = 1) -> None:
    """Copy ready batches, `batches` of them as one, each changed; adapt nothing else."""
    shutil.copytree(source, into, ignore=shutil.ignore_patterns("*.arrow"))
    for file in sorted(source.glob("*.arrow")):
        with pa.memory_map(str(file)) as mapped:
            reader = pa.ipc.open_file(mapped)
            writer = None
            for first in range(0, reader.num_record_batches, batches):
                last = min(first + batches, reader.num_record_batches)
                table = change(pa.Table.from_batches([reader.get_batch(n) for n in range(first, last)]))
                [batch] = table.combine_chunks().to_batches()
                writer = writer or pa.ipc.new_file(into / file.name, batch.schema)
                writer.write_batch(batch)
            if writer is not None:
                writer.close()


def constant(table: pa.Table, **values: str) -> pa.Table:
    """The table with other values in the columns of text that name a member."""
    for name, value in values.items():
        column = pa.repeat(pa.scalar(value), table.num_rows)
        table = table.set_column(table.schema.get_field_index(name), name, column)
    return table


def not_null(table: pa.Table) -> pa.Table:
    """The table with a promise that these columns have no nulls."""
    fields = [field.with_nullable(field.name not in MEMBER_COLUMNS) for field in table.schema]
    return table.cast(pa.schema(fields))


def ready(folder: Path, one: str, pattern: str) -> dict[str, Path]:
    """Ready batches of each kind."""
    found = {name: folder / f"ready-{name}" for name in ("one", "three", "three, 21 columns")}
    prepare(Path(one), found["one"], access="map")
    prepare(Path(pattern), found["three"], access="map")
    prepare(Path(pattern), found["three, 21 columns"], access="map", columns=",".join(COLUMNS))
    attempts: dict[str, tuple[Callable[[pa.Table], pa.Table], int]] = {
        "three, a letter each": (lambda table: constant(table, broker="a", store="b"), 1),
        "three, batches of 8 MiB": (lambda table: table, 2),
        "three, batches of 16 MiB": (lambda table: table, 4),
        "one, batches of 16 MiB": (lambda table: table, 4),
        "three, not null": (not_null, 1),
    }
    for name, (change, batches) in attempts.items():
        found[name] = folder / f"ready-{name}"
        rewritten(found[name.split(",", maxsplit=1)[0]], found[name], change, batches)
    schema = found["three, not null"] / "schema"
    fields = schema.read_text(encoding="utf-8").replace("broker string", "broker string not null")
    schema.write_text(fields.replace("store string", "store string not null"), encoding="utf-8")
    return found


@contextmanager
def sources(mib: int) -> Iterator[dict[str, Callable[[Any], Any]]]:
    """Frames by name, of a session."""
    with tempfile.TemporaryDirectory() as folder:
        count = (mib << 20) // (BODY + 260)
        write_store(f"{folder}/one", count, body_bytes=BODY, bodies="random")
        for broker in "abc":
            write_store(f"{folder}/three/broker-{broker}/store", count // 3, body_bytes=BODY, bodies="random")
        pattern = f"{folder}/three/{{broker}}/store"

        def own(path: str, **options: str) -> Callable[[Any], Any]:
            return lambda spark: spark.read.format("flintmq").options(access="map", **options).load(path)

        frames = {
            "one store": own(f"{folder}/one"),
            "three as one": own(pattern),
            "three as one, without broker and store": own(pattern, columns=",".join(COLUMNS)),
        }
        for name, path in ready(Path(folder), f"{folder}/one", pattern).items():
            frames[f"ready: {name}"] = lambda spark, path=path: spark.read.format("ready").load(str(path))
        yield frames


def main(mib: int, rounds: int) -> None:
    """Measure, and print medians."""
    spark = flintmq.spark.session("many stores", master="local[2]", **{"spark.driver.memory": "4g"})
    spark.dataSource.register(ReadySource)
    with sources(mib) as frames:
        taken: dict[str, list[float]] = {name: [] for name in frames}
        for number in range(rounds + 1):
            for name, frame in frames.items():
                began = time.perf_counter()
                frame(spark).write.format("noop").mode("overwrite").save()
                if number:  # the first time Java compiles, and files come into the page cache
                    taken[name].append(time.perf_counter() - began)
        tasks = {name: frame(spark).rdd.getNumPartitions() for name, frame in frames.items()}
    print(f"| {mib} MiB of log, {rounds} rounds | median | least | tasks |\n|---|---|---|---|")
    for name, times in taken.items():
        print(f"| {name} | {statistics.median(times):.2f} s | {min(times):.2f} s | {tasks[name]} |")
    spark.stop()


if __name__ == "__main__":
    main(*[*map(int, sys.argv[1:]), *[1024, 9][len(sys.argv) - 1 :]])
