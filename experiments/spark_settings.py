"""What settings of Spark and sizes of batches do for S1 and S2: the whole source to noop, by a session of each kind.

    python experiments/spark_settings.py FOLDER [MIB] [ROUNDS] [CASE ...]

Each case is a process of its own with a Java of its own; the cases take turns, ROUNDS times. Printed are the least
wall clock of a noop and the least processor time of the process, Java and workers, seconds, for bodies of 100 B and
1 KB; of `parquet` Spark's own reader.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from flintmq.testing import write_store

UNSAFE = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
JAVA = "spark.driver.extraJavaOptions"
CASES: dict[str, dict[str, str]] = {
    "as it is": {},
    "TCP": {"spark.python.unix.domain.socket.enabled": "false"},
    "buffer 64 KiB": {"spark.sql.execution.python.udf.buffer.size": str(64 << 10)},
    "buffer 4 MiB": {"spark.sql.execution.python.udf.buffer.size": str(4 << 20)},
    "batch 2 MiB": {"BATCH": str(2 << 20)},
    "batch 8 MiB": {"BATCH": str(8 << 20)},
    "batch 16 MiB": {"BATCH": str(16 << 20)},
    "Arrow unchecked": {JAVA: UNSAFE},
    "parallel collector": {JAVA: "-XX:+UseParallelGC"},
    "both": {JAVA: f"-XX:+UseParallelGC {UNSAFE}"},
    "ready": {"READY": "1"},
    "ready unchecked": {"READY": "1", JAVA: UNSAFE},
    "parquet": {"PARQUET": "1"},
    "parquet, both": {"PARQUET": "1", JAVA: f"-XX:+UseParallelGC {UNSAFE}"},
}
SIZES = {"100B": 100, "1KB": 1024}


def tree_seconds() -> float:
    """Processor seconds of this process and of all that it began, dead or alive."""
    parents: dict[int, int] = {}
    used: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry)] = int(fields[1])
            used[int(entry)] = sum(map(int, fields[11:15]))
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(used[pid] for pid in ours) / os.sysconf("SC_CLK_TCK")


def child(folder: Path, case: str, times: int) -> None:
    """Run one case; print its figures as JSON."""
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parent)
    sys.path.append(os.environ["PYTHONPATH"])
    conf = dict(CASES[case])
    batch, ready, parquet = conf.pop("BATCH", None), conf.pop("READY", None), conf.pop("PARQUET", None)
    if batch:  # the workers' daemon is this file, which changes the size before it becomes Spark's
        os.environ["FLINTMQ_EXPERIMENT_BATCH"] = batch
        conf["spark.python.daemon.module"] = Path(__file__).stem
    from flintmq.spark import session

    settings = {"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": "2"}
    spark = session("settings", master="local[2]", **settings, **conf)
    found = {}
    for name in SIZES:
        store = folder / name
        if ready:
            from ready_source import ReadySource, prepare

            spark.dataSource.register(ReadySource)
            if not (folder / f"ready-{name}").exists():
                prepare(store, folder / f"ready-{name}")
            frame = spark.read.format("ready").load(str(folder / f"ready-{name}"))
        elif parquet:
            if not (folder / f"parquet-{name}").exists():
                every = spark.read.format("flintmq").load(str(store))
                every.write.option("compression", "none").parquet(str(folder / f"parquet-{name}"))
            frame = spark.read.parquet(str(folder / f"parquet-{name}"))
        else:
            frame = spark.read.format("flintmq").options(access="map").load(str(store))
        walls, cpus = [], []
        for _ in range(times):
            before, began = tree_seconds(), time.perf_counter()
            frame.write.format("noop").mode("overwrite").save()
            walls.append(time.perf_counter() - began)
            cpus.append(tree_seconds() - before)
        found[name] = (min(walls), min(cpus))
    print(json.dumps(found))
    spark.stop()


def main(folder: Path, mib: int, rounds: int, wanted: list[str]) -> None:
    for name, size in SIZES.items():
        if not (folder / name).exists():
            write_store(folder / name, (mib << 20) // (size + 250), body_bytes=size)
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for _ in range(rounds):
        for case in wanted or CASES:
            words = [sys.executable, __file__, "--child", str(folder), case, "6"]
            done = subprocess.run(words, capture_output=True, text=True, check=True)
            for name, pair in json.loads(done.stdout.strip().splitlines()[-1]).items():
                found.setdefault(case, {}).setdefault(name, []).append(pair)
    print("| case | " + " | ".join(f"{name} wall | {name} CPU" for name in SIZES) + " |")
    print("|---" * (1 + 2 * len(SIZES)) + "|")
    for case, sizes in found.items():
        cells = [f"{min(pair[n] for pair in pairs):.2f}" for pairs in sizes.values() for n in (0, 1)]
        print(f"| {case} | {' | '.join(cells)} |", flush=True)


def daemon() -> None:
    """Be Spark's daemon of workers, with batches of another size."""
    from flintmq.lake.scan import scan_range
    from pyspark import daemon as spark_daemon

    assert scan_range.__defaults__ is not None
    size = int(os.environ["FLINTMQ_EXPERIMENT_BATCH"])
    scan_range.__defaults__ = tuple(size if value == 4 << 20 else value for value in scan_range.__defaults__)
    spark_daemon.manager()


if __name__ == "__main__":
    if "FLINTMQ_EXPERIMENT_BATCH" in os.environ:
        daemon()
    elif sys.argv[1] == "--child":
        child(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
    else:
        main(
            Path(sys.argv[1]),
            int(sys.argv[2]) if len(sys.argv) > 2 else 256,
            int(sys.argv[3]) if len(sys.argv) > 3 else 2,
            sys.argv[4:],
        )
