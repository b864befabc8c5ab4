"""Streams a store into a Parquet table with Spark, stops, goes on, and counts the rows.

    $ python examples/spark_stream.py shop table 2>/dev/null
    stored 300 orders, the table has 300
    stored 200 orders, the table has 500
    500 rows, 500 different orders

A query with `availableNow` brings in what the store has and ends; the checkpoint says how far it came, and the second
query goes on there. Without the trigger a query follows the store until it is stopped. It needs the extra `spark`: pip
install 'flintmq[spark]', which brings Java too. Run it again with the same directories, and it goes on counting.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

import flintmq.spark
from flintmq import Message, MessageStore


def put_orders(store: Path, count: int) -> None:
    """Put so many orders, each with the next number as its key."""
    with MessageStore(store, dev=True) as engine:
        first = sum(queue.max_offset for queue in engine.view().queues("Orders"))
        engine.put_many(
            [Message("Orders", b"an order", keys=f"order-{n}", queue_id=n % 4) for n in range(first, first + count)]
        )


def stream(spark: SparkSession, store: Path, table: Path) -> None:
    """Add the new messages of the store to the table, each once, also after a kill."""
    orders = spark.readStream.format("flintmq").option("subscribe", "Orders").load(str(store))
    query = (
        orders.select("queue_id", "queue_offset", "keys")
        .writeStream.format("parquet")
        .option("path", str(table))
        .option("checkpointLocation", f"{table}.checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def main(store: Path, table: Path) -> None:
    """Put, stream, put more, stream again, count."""
    spark = flintmq.spark.session("example", "local[2]")
    for count in (300, 200):
        put_orders(store, count)
        stream(spark, store, table)
        print(f"stored {count} orders, the table has {spark.read.parquet(str(table)).count()}")
    rows = spark.read.parquet(str(table))
    print(f"{rows.count()} rows, {rows.select('keys').distinct().count()} different orders")
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("name two paths: python examples/spark_stream.py shop table 2>/dev/null")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
