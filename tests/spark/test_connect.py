"""Spark Connect and Declarative Pipelines read stores: docs/spark/connect.md."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from flintmq import Message, MessageStore
from flintmq.spark.door import JAR
from flintmq.spark.java import use_java
from tests.support.spark_reading import SPARK

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="grpcio is not installed"),
]

CLIENT = """
import sys
from pyspark.sql import SparkSession

store, jar = sys.argv[1:]
server = SparkSession.builder.remote("local[2]")
if jar:
    server = server.config("spark.jars", jar).config("spark.sql.catalog.mq", "flintmq.spark.Catalog")
    server = server.config("spark.sql.catalog.mq.path", store)
spark = server.getOrCreate()
read = spark.read.format("flintmq").load(store)
if jar:
    orders = spark.table("mq.Orders")
else:
    import flintmq.spark
    orders = flintmq.spark.table(spark, "orders", store, subscribe="Orders")
followed = spark.readStream.format("flintmq").load(store).writeStream.format("memory").queryName("all_rows")
followed.trigger(availableNow=True).start().awaitTermination()
print("rows", read.count(), orders.count(), spark.table("all_rows").count())
"""

PIPELINE = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()

@dp.table
def orders():
    read = spark.readStream.format("flintmq").option("subscribe", "Orders").load("STORE")
    return read.select("queue_id", "queue_offset")

@dp.materialized_view
def by_queue():
    return spark.table("orders").groupBy("queue_id").count()
"""


def put(path: Path, **topics: int) -> str:
    with MessageStore(path) as store:
        for topic, count in topics.items():
            for number in range(count):
                store.put(Message(topic, b"%d" % number, queue_id=number % 2))
    return str(path)


def ran(words: list[str], folder: Path) -> str:
    use_java()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    given = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PATH": path, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(words, cwd=folder, env=given, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("jar", [False, True])
def test_a_client_reads_and_follows_a_store(jar: bool, tmp_path: Path) -> None:
    if jar and not JAR.is_file():
        pytest.skip("the jar was not built (tools/door_jar.py says why)")
    store = put(tmp_path / "store", Orders=7, Payments=4)
    out = ran([sys.executable, "-c", CLIENT, store, str(JAR) if jar else ""], tmp_path)
    assert "rows 11 7 11" in out


@pytest.mark.skipif(SPARK < (4, 1), reason="Spark 4.0 has no pipelines")
def test_a_pipeline_takes_each_message_once(tmp_path: Path) -> None:
    store, folder = put(tmp_path / "store", Orders=7, Payments=4), tmp_path / "pipeline"
    (folder / "transformations").mkdir(parents=True)
    (folder / "storage").mkdir()
    (folder / "transformations" / "orders.py").write_text(PIPELINE.replace("STORE", store))
    (folder / "spark-pipeline.yml").write_text(
        f"name: orders\nstorage: file://{folder}/storage\nlibraries:\n  - glob:\n      include: transformations/**\n"
    )
    run = [str(Path(sys.executable).parent / "spark-pipelines"), "run"]
    ran(run, folder)
    found = pq.read_table(folder / "spark-warehouse" / "orders").to_pylist()
    wanted = [(queue, offset) for queue, count in ((0, 4), (1, 3)) for offset in range(count)]
    assert sorted((row["queue_id"], row["queue_offset"]) for row in found) == wanted
    counts = pq.read_table(folder / "spark-warehouse" / "by_queue").to_pylist()
    assert sorted((row["queue_id"], row["count"]) for row in counts) == [(0, 4), (1, 3)]
