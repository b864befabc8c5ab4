"""A program with a stream of ours into Delta's or Iceberg's own writer, or into our sink; what such a table holds.

    python -m tests.support.own_writer FORM MASTER STORE WORK MAX_OFFSETS [KEY=VALUE ...]

FORM is delta, iceberg or flintmq; the keys are options of the sink. The table is WORK/db/orders, the checkpoint is
WORK/checkpoint. It prints the process id of its JVM, and ends when it has written what there is.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

JARS = Path(__file__).parents[2] / "build" / "lake-writers"
Place = tuple[str, int, int, bytes]
"""A message: topic, queue, offset in it, body."""


def jars(form: str) -> list[Path]:
    """The jars of `make lake-writers` for the Spark that is here; none, if those of this form are not there."""
    import pyspark

    folder = JARS / ".".join(pyspark.__version__.split(".")[:2])
    return sorted(folder.glob("*.jar")) if list(folder.glob(f"{form}-spark*.jar")) else []


def settings(form: str, work: str) -> dict[str, Any]:
    """Settings of Spark for a writer."""
    if form == "flintmq":
        return {}
    found: dict[str, Any] = {"spark.jars": ",".join(map(str, jars(form)))}
    if form == "delta":  # which reads its log in 50 tasks, and shuffles in 200
        return found | {
            "spark.sql.shuffle.partitions": 2,
            "spark.databricks.delta.snapshotPartitions": 1,
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        }
    lake = "spark.sql.catalog.lake"
    return found | {lake: "org.apache.iceberg.spark.SparkCatalog", f"{lake}.type": "hadoop", f"{lake}.warehouse": work}


def main(form: str, master: str, store: str, work: str, most: str, *options: str) -> None:
    """Write what there is, in micro-batches of at most so many messages."""
    import flintmq.spark

    spark = flintmq.spark.session("own writer", master, **settings(form, work))
    print(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid(), flush=True)
    rows = spark.readStream.format("flintmq").option("maxOffsetsPerTrigger", most).load(store)
    if form != "flintmq":
        rows = rows.select("topic", "queue_id", "queue_offset", "body")
    writing = rows.writeStream.format(form).options(**dict(option.split("=", 1) for option in options))
    writing = writing.option("checkpointLocation", f"{work}/checkpoint").trigger(availableNow=True)
    query = writing.toTable("lake.db.orders") if form == "iceberg" else writing.start(f"{work}/db/orders")
    query.awaitTermination()
    spark.stop()


def written(form: str, work: Path) -> Counter[Place]:
    """The rows of the table, read without Spark."""
    if form == "delta":
        from deltalake import DeltaTable

        table = DeltaTable(str(work / "db" / "orders")).to_pyarrow_table()
    else:
        from pyiceberg.table import StaticTable

        folder = work / "db" / "orders" / "metadata"
        newest = (folder / "version-hint.text").read_text()
        table = StaticTable.from_metadata(str(folder / f"v{newest}.metadata.json")).scan().to_arrow()
    columns = [table.column(name).to_pylist() for name in ("topic", "queue_id", "queue_offset", "body")]
    return Counter(zip(*columns, strict=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
