"""S3: the Spark source against Spark's Kafka source, tuned, on a real broker that holds the same messages.

A figure is the median of three sessions, as those of spark_lines.py:
`python bench/kafka_lines.py MODE ADDRESS TOPIC STORE ROUNDS QUICK JARS`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from data import SIZES, sized
from harness import Context, Result, measure, timed
from kafka_peer import Broker, source_jars
from spark_lines import SESSIONS, SETTINGS, session, sessions

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


def load(spark: Any, path: str, **options: str) -> Any:
    """The store as a frame."""
    return spark.read.format("flintmq").options(**options).load(path)


def produce(spark: Any, address: str, topic: str, path: str) -> None:
    """Bring a store's messages into Kafka: key, value and time as they are."""
    frame = load(spark, path, columns="keys,body,store_timestamp")
    options = {
        "kafka.bootstrap.servers": address,
        "topic": topic,
        "kafka.linger.ms": "20",
        "kafka.batch.size": "262144",
    }
    rows = frame.selectExpr("CAST(keys AS BINARY) AS key", "body AS value")
    rows.write.format("kafka").options(**options).save()


def compare(spark: Any, address: str, topic: str, path: str, context: Context) -> dict[str, float]:
    """Seconds of each of a session's reads, their rows thrown away."""

    def kafka() -> Any:
        options = {"kafka.bootstrap.servers": address, "subscribe": topic, **TUNED}
        return spark.read.format("kafka").options(**options).load()

    def noop(frame: Any) -> None:
        frame.write.format("noop").mode("overwrite").save()

    assert kafka().count() == load(spark, path).count()
    cases = {
        "kafka": timed(lambda: noop(kafka())),
        "flintmq": timed(lambda: noop(load(spark, path, columns=COLUMNS))),
    }
    found = measure(context, cases, warm=True)
    return {name: found[f"{name} wall"].figure for name in cases}


def s3(context: Context) -> dict[str, Result]:
    """Columns that say the same on both sides."""
    results = {}
    broker = Broker(context, PARTITIONS)
    try:
        for size in SIZES:
            path, topic = sized(context, size).path, f"bench-{size}"
            words = broker.address, topic, path, context.rounds, context.quick, source_jars(context)
            session(__file__, "produce", *words)
            found = sessions(__file__, "compare", *words)
            results[f"S3.{size}"] = found.result(found["kafka wall"] / found["flintmq wall"], sessions=SESSIONS)
    finally:
        broker.stop()
    return results


def main(mode: str, address: str, topic: str, path: str, rounds: str, quick: str, jars: str) -> None:
    from flintmq.spark import session as flintmq_session

    spark = flintmq_session("flintmq bench", master="local[2]", **SETTINGS, **{"spark.jars": jars})
    told = {}
    if mode == "produce":
        produce(spark, address, topic, path)
    else:
        context = Context(Path(tempfile.gettempdir()), 0, int(rounds), quick == "True")
        told = compare(spark, address, topic, path, context)
    print(json.dumps(told))
    spark.stop()


FAMILIES = {"S3": s3}
if __name__ == "__main__":
    main(*sys.argv[1:])
