"""A program for Spark's Kafka source, which test_kafka_or_store.py also runs with two of its lines changed."""

from typing import Any

spark: Any = globals().get("spark")
COLUMNS = ["key", "value", "topic", "partition", "offset", "timestampType"]


def read(options: dict[str, str], sums: bool) -> dict[str, Any]:
    """What a batch read finds: its columns and rows, and with `sums` what Spark makes of them."""
    messages = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", "broker:9092")
        .options(**options)
        .load()
    )  # fmt: skip
    found = {"schema": messages.schema.jsonValue(), "rows": plain(messages)}
    if sums:
        recent = messages.where("timestamp BETWEEN current_timestamp() - INTERVAL 1 HOUR AND current_timestamp()")
        some = messages.where("partition > 0 AND offset >= 2 AND topic = 'orders' AND CAST(key AS STRING) LIKE 'k%'")
        found |= {"recent": recent.count(), "some": some.agg({"offset": "sum", "key": "count"}).first().asDict()}
    return found


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
    rows = [row.asDict(recursive=True) for row in messages.select(*names).collect()]
    for row in rows:
        row["key"], row["value"] = (None if row[name] is None else row[name].hex() for name in ("key", "value"))
        if row.get("headers") is not None:
            row["headers"] = [[pair["key"], pair["value"].hex()] for pair in row["headers"]]
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))
