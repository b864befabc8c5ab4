"""What broker and store cost Spark: python experiments/many_stores_spark.py [MIB [ROUNDS]].

Interleaved reads to `noop`: one store of so much log; three of a third each, with all columns; the same three without
the columns broker and store.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable

import flintmq.spark
from flintmq.message import COLUMNS
from flintmq.testing import write_store

BODY = 1024


def main(mib: int, rounds: int) -> None:
    """Measure, and print medians."""
    spark = flintmq.spark.session("many stores", master="local[2]")
    with tempfile.TemporaryDirectory() as folder:
        count = (mib << 20) // (BODY + 260)
        write_store(f"{folder}/one", count, body_bytes=BODY, bodies="random")
        for broker in "abc":
            write_store(f"{folder}/three/broker-{broker}/store", count // 3, body_bytes=BODY, bodies="random")
        pattern = f"{folder}/three/{{broker}}/store"

        def read(path: str, columns: str | None = None) -> None:
            source = spark.read.format("flintmq").option("access", "map")
            source = source if columns is None else source.option("columns", columns)
            source.load(path).write.format("noop").mode("overwrite").save()

        cases: dict[str, Callable[[], None]] = {
            "one store": lambda: read(f"{folder}/one"),
            "three as one": lambda: read(pattern),
            "three as one, without broker and store": lambda: read(pattern, ",".join(COLUMNS)),
        }
        taken: dict[str, list[float]] = {name: [] for name in cases}
        for call in cases.values():
            call()
        for _ in range(rounds):
            for name, call in cases.items():
                began = time.perf_counter()
                call()
                taken[name].append(time.perf_counter() - began)
        for name, times in taken.items():
            print(f"{name:40} {statistics.median(times):.2f} s (least {min(times):.2f})")
    spark.stop()


if __name__ == "__main__":
    main(*[*map(int, sys.argv[1:]), *[1024, 7][len(sys.argv) - 1 :]])
