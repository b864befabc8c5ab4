"""S3: the Spark source against Spark's Kafka source, tuned, on a real broker that holds the same messages."""

from __future__ import annotations

from typing import Any

from data import sized
from harness import Context, Result, figures, measure
from kafka_peer import Broker
from spark_session import load, noop, session

PARTITIONS = 4
# What makes Spark's Kafka source fastest on one machine; its defaults reach 0.4 of it.
TUNED = {
    "kafka.fetch.max.wait.ms": "5",
    "kafka.max.partition.fetch.bytes": str(16 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.max.poll.records": "10000",
    "kafka.receive.buffer.bytes": str(1 << 20),
}
# What a row of the Kafka source tells: topic, partition, offset, time, key and value.
COLUMNS = "topic,queue_id,queue_offset,store_timestamp,keys,body"


def produce(spark: Any, path: Any, address: str, topic: str) -> None:
    """Bring a store's messages into Kafka: key, value and time as they are."""
    rows = load(spark, path, columns="keys,body,store_timestamp")
    frame = rows.selectExpr("CAST(keys AS BINARY) AS key", "body AS value")
    options = {
        "kafka.bootstrap.servers": address,
        "topic": topic,
        "kafka.linger.ms": "20",
        "kafka.batch.size": "262144",
    }
    frame.write.format("kafka").options(**options).save()


def s3(context: Context) -> list[Result]:
    """Columns that say the same on both sides; all 21 columns are measured beside them."""
    spark, results = session(context), []
    broker = Broker(context, PARTITIONS)
    try:
        for size, bar, moonshot in (("100B", 1.2, 1.6), ("1KB", 1.4, 2.0)):
            written = sized(context, size)
            topic = f"bench-{size}"
            produce(spark, written.path, broker.address, topic)

            def kafka(topic: str = topic) -> Any:
                options = {"kafka.bootstrap.servers": broker.address, "subscribe": topic, **TUNED}
                return spark.read.format("kafka").options(**options).load()

            assert kafka().count() == written.records
            samples = measure(
                context,
                {
                    "kafka": lambda kafka=kafka: noop(kafka()),  # type: ignore[misc]
                    "flintmq": lambda written=written: noop(load(spark, written.path, columns=COLUMNS)),  # type: ignore[misc]
                    "flintmq all 21": lambda written=written: noop(load(spark, written.path)),  # type: ignore[misc]
                },
            )
            results.append(
                Result(
                    f"S3.{size}",
                    f"Spark source, the 6 columns that Kafka has, {size} bodies: speed / Spark's Kafka source, tuned",
                    samples["kafka"].wall / samples["flintmq"].wall,
                    bar,
                    moonshot=moonshot,
                    bound="the way through the socket and into JVM rows",
                    detail=figures(samples),
                )
            )
    finally:
        broker.stop()
    return results


LINES = {"S3": s3}
