"""A Spark cluster on this machine: worker processes of `local-cluster`, or a standalone master with two workers.

    python -m labs.spark_cluster.cluster MASTER URL OUT KEYS    reads, exports and streams a store in tasks of MASTER,
                                                                and prints what came as JSON; KEYS: options as JSON

The driver is a process of its own, since a process has one Spark session.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.harness import class_archive

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = "physical_offset,topic,queue_id,queue_offset,body"
LOCAL_CLUSTER = "local-cluster[2,1,1024]"
START_SECONDS = 100


def environment() -> dict[str, str]:
    """What processes of Spark are started with."""
    import pyspark

    from flintmq.spark.java import find_java

    return {
        **os.environ,
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "JAVA_TOOL_OPTIONS": class_archive.options(),  # they live for seconds
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """The URL of a standalone master with two workers of one core each, on 127.0.0.1; all end with the block."""
    with ExitStack() as stack:
        master = stack.enter_context(_daemon(folder, "master.Master", "--port", "0"))
        url = _wait(folder / "master.Master-0.log", r"Starting Spark master at (spark://127\.0\.0\.1:[0-9]+)", master)
        for number in range(2):
            place = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work-{number}"), url]
            worker = stack.enter_context(_daemon(folder, "worker.Worker", *place, number=number))
            _wait(folder / f"worker.Worker-{number}.log", f"(Successfully registered) with master {url}", worker)
        yield url


@contextmanager
def _daemon(folder: Path, name: str, *words: str, number: int = 0) -> Iterator[subprocess.Popen[bytes]]:
    """One of Spark's daemons, by `spark-class`, which becomes its Java process."""
    known = environment()
    command = [f"{known['SPARK_HOME']}/bin/spark-class", f"org.apache.spark.deploy.{name}"]
    with (folder / f"{name}-{number}.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--webui-port", "0", *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=known,
            cwd=folder,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(log: Path, pattern: str, process: subprocess.Popen[bytes]) -> str:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found[1]
        time.sleep(0.2)
    raise AssertionError(f"{log.name}: {log.read_text(errors='replace')[-2000:]}")


def run(master: str, url: str, out: Path, keys: dict[str, Any]) -> dict[str, Any]:
    """What a driver process says of its reads of a store."""
    done = subprocess.run(
        [sys.executable, "-m", "labs.spark_cluster.cluster", master, url, str(out), json.dumps(keys)],
        capture_output=True,
        text=True,
        timeout=400,
        cwd=ROOT,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def main(master: str, url: str, out: str, keys_text: str) -> None:
    """The driver: a batch read, an export, and a stream."""
    import pyarrow.parquet
    from pyspark.sql.types import LongType, StructField, StructType

    import flintmq.spark
    from flintmq.config.keys import StoreConfig
    from flintmq.spark.jobs.export.job import export

    keys = {
        name: str(value).lower() if isinstance(value, bool) else value for name, value in json.loads(keys_text).items()
    }
    settings = {
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.warehouse.dir": f"{out}/warehouse",
    }
    spark = flintmq.spark.session("cluster", master, **settings)
    try:
        options = {**keys, "columns": COLUMNS, "minPartitions": "5"}
        frame = spark.read.format("flintmq").options(**options).load(url)
        with_process = StructType([*frame.schema.fields, StructField("process", LongType())])
        rows = frame.mapInArrow(_with_process, with_process).collect()
        told: dict[str, Any] = {"batch": _told(rows), "processes": len({row.process for row in rows})}
        told["exported"] = export(spark, url, f"{out}/lake", StoreConfig.from_keys(keys)).rows
        stream = spark.readStream.format("flintmq").options(**{**options, "maxBytesPerTrigger": "400000"}).load(url)
        writer = stream.writeStream.format("parquet").option("checkpointLocation", f"{out}/checkpoint")
        query = writer.trigger(availableNow=True).start(f"{out}/stream")
        query.awaitTermination(200)
        told["stream"] = _told([list(row.values()) for row in pyarrow.parquet.read_table(f"{out}/stream").to_pylist()])
    finally:
        spark.stop()
    print(json.dumps(told))


def _told(rows: list[Any]) -> list[list[Any]]:
    return sorted([*row[:4], bytes(row[4]).hex()] for row in rows)


def _with_process(batches: Iterator[Any]) -> Iterator[Any]:
    """Rows with the process that runs the Python worker: another for each executor."""
    import pyarrow

    for batch in batches:
        yield batch.append_column("process", pyarrow.array([os.getppid()] * batch.num_rows, pyarrow.int64()))


if __name__ == "__main__":
    main(*sys.argv[1:])
