"""A program for Spark's Kafka source, which test_kafka_or_store.py also runs with two of its lines changed."""

from typing import Any

spark: Any = globals().get("spark")
COLUMNS = ["key", "value", "topic", "partition", "offset", "timestampType"]


def read(options: dict[str, str]) -> dict[str, Any]:
    """What a batch read finds: its columns, its rows in order, and sums of them that Spark makes."""
    messages = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", "broker:9092")
        .options(**options)
        .load()
    )  # fmt: skip
    sums = messages.groupBy("topic", "partition").agg({"offset": "max", "value": "count"})
    late = messages.where("partition > 0 AND offset >= 2 AND CAST(key AS STRING) LIKE 'k%'")
    return {
        "schema": messages.schema.jsonValue(),
        "rows": plain(messages),
        "sums": sorted(map(list, sums.collect())),
        "late": late.count(),
        "times": messages.where(
            "timestamp BETWEEN current_timestamp() - INTERVAL 1 HOUR AND current_timestamp()"
        ).count(),
    }


def follow(options: dict[str, str], checkpoint: str) -> list[list[Any]]:
    """The rows of each micro-batch until a stream has what is there."""
    messages = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", "broker:9092")
        .options(**options)
        .load()
    )  # fmt: skip
    batches: list[list[Any]] = []
    writing = messages.writeStream.foreachBatch(lambda batch, _: batches.append(plain(batch)))
    writing.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
    return batches


def plain(messages: Any) -> list[Any]:
    """Rows as JSON has them, in the order of topics, queues and offsets; times left out, which differ."""
    names = [*COLUMNS, *(["headers"] if "headers" in messages.columns else [])]
    rows = [
        row.asDict(recursive=True) for row in messages.select(*names).orderBy("topic", "partition", "offset").collect()
    ]
    for row in rows:
        row["key"], row["value"] = (None if row[name] is None else row[name].hex() for name in ("key", "value"))
        if row.get("headers") is not None:
            row["headers"] = [[pair["key"], pair["value"].hex()] for pair in row["headers"]]
    return rows
