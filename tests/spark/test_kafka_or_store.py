"""One program on a real Kafka broker, and, two lines changed, on a store with the same messages: the same rows.

The lines are those of docs/spark/from-kafka.md, whose own program runs on Kafka here too. What differs on purpose is in
the table of docs/spark/source.md.
"""

import contextlib
import io
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from flintmq import Message, MessageStore
from tests.harness.pages import ROOT, examples
from tests.support import kafka_broker

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.nightly(
        of=[
            "docs/spark/from-kafka.md", "src/flintmq/arrow/kafka_shape.py", "src/flintmq/lake/read/o",
            "src/flintmq/lake/stream/options.py", "tests/spark/kafka_program.py", "tests/spark/test_kafka_or_store.py",
            "tests/support/kafka",
        ]
    ),
]  # fmt: skip
PAGE = next(examples(ROOT / "docs/spark/from-kafka.md"))
PROGRAM = Path(__file__).with_name("kafka_program.py")
PARTITIONS = 4


class Sent(NamedTuple):
    """A message as it goes into Kafka and into the store."""

    topic: str
    partition: int
    key: str | None
    value: bytes
    headers: dict[str, str]


def wave(number: int) -> list[Sent]:
    """Messages for every partition, some without a key, some with headers; the third one has a new topic."""
    if not number:
        return []
    topics = ["orders", "payments", *(["orders-late"] if number == 3 else [])]
    made = []
    for n in range(48):
        key = None if n % 3 == 0 else f"k{number}-{n} ü"
        value = b"" if n == 5 else b"\xff\x00%d" % n
        made.append(
            Sent(topics[n % len(topics)], n // len(topics) % PARTITIONS, key, value, {"city": "Köln"} if n % 4 else {})
        )
    return made


def all_queues(topic: str, *numbers: int) -> str:
    return json.dumps({topic: {str(queue): number for queue, number in enumerate(numbers)}})


READS: dict[str, dict[str, str]] = {
    "everything": {"subscribe": "orders,payments"},
    "pattern": {"subscribePattern": "pay.*", "startingOffsets": "earliest", "endingOffsets": "latest"},
    "assign": {"assign": '{"orders": [1, 3], "payments": [0]}'},
    "offsets": {
        "subscribe": "orders",
        "startingOffsets": all_queues("orders", 1, 0, -2, 3),
        "endingOffsets": all_queues("orders", 4, 2, -1, 5),
    },
    "startingTimestamp": {"subscribe": "orders,payments", "startingTimestamp": "MOMENT"},
    "endingTimestamp": {"subscribe": "orders,payments", "endingTimestamp": "MOMENT"},
    "times of queues": {
        "subscribe": "orders",
        "startingOffsetsByTimestamp": '{"orders": {"0": MOMENT, "1": 0, "2": MOMENT, "3": 0}}',
        "endingOffsetsByTimestamp": '{"orders": {"0": 4000000000000, "1": MOMENT, "2": 4000000000000, "3": MOMENT}}',
    },
    "includeHeaders": {"subscribe": "orders", "includeHeaders": "true"},
}
COUNTS = dict(zip(READS, (96, 48, 36, 3 + 2 + 12 + 2, 48, 48, 24, 48), strict=True))
STREAM_COUNTS = {"limited": (48, 32), "offsets": (11 + 12 + 12 + 0, 16), "startingTimestamp": (24, 16)}
SAME = ["topic", "queue_id AS partition", "CAST(keys AS BINARY) AS key", "body AS value"]
STREAMS: dict[str, dict[str, str]] = {
    "limited": {"subscribePattern": "orders.*", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "7"},
    "offsets": {"subscribe": "orders", "startingOffsets": all_queues("orders", 1, 0, -2, -1), "includeHeaders": "true"},
    "startingTimestamp": {"subscribe": "payments", "startingTimestamp": "MOMENT", "startingOffsets": "latest"},
}


def two_lines() -> list[tuple[str, str]]:
    """The lines of the page that change: (for a store, for Kafka)."""
    return re.findall(r"^ *(\S.*?) +# was: (.*)$", PAGE.code, re.MULTILINE)


def for_a_store(program: str, store: str) -> str:
    """A program for Kafka with the lines changed as the page says; those of a stream begin with readStream."""
    for ours, kafkas in two_lines():
        for new, old in ((ours, kafkas), *([(s.replace(".read.", ".readStream.") for s in (ours, kafkas))])):
            program = program.replace(old, new)
    return program.replace('"basic"', repr(store))


def for_kafka(program: str, address: str) -> str:
    for ours, kafkas in two_lines():
        program = program.replace(ours, kafkas)
    return program.replace("broker:9092", address)


def main(address: str, store: str, work: str, jars: str, basic: str) -> None:
    """Run both programs in one session; a process of its own, as no other test has its jars. Prints what they find."""
    import flintmq.spark

    spark = flintmq.spark.session("Kafka or store", "local[2]", **{"spark.jars": jars, "spark.log.level": "OFF"})
    spark.conf.set("spark.sql.shuffle.partitions", "2")

    def send(number: int) -> None:
        make_topics(spark, address, {sent.topic for sent in wave(number)} - {sent.topic for sent in wave(number - 1)})
        to_kafka(spark, wave(number), address)
        with MessageStore(store, unique_keys=False) as opened:
            for sent in wave(number):
                opened.put(
                    Message(sent.topic, sent.value, keys=sent.key, queue_id=sent.partition, properties=sent.headers)
                )

    send(1)
    time.sleep(0.1)
    moment = time.time_ns() // 1_000_000
    time.sleep(0.1)
    send(2)
    text = PROGRAM.read_text(encoding="utf-8")
    found: dict[str, Any] = {"kafka": {}, "store": {}}
    for side, program in (("kafka", for_kafka(text, address)), ("store", for_a_store(text, store))):
        names: dict[str, Any] = {"spark": spark}
        exec(compile(program, str(PROGRAM), "exec"), names)
        for name, options in READS.items():
            found[side][name] = names["read"](at(options, moment), sums=name == "everything")
        found[side]["follow"] = names["follow"]
    for life in (1, 2):
        for side in ("kafka", "store"):
            for name, options in STREAMS.items():
                batches = found[side]["follow"](at(options, moment), f"{work}/{side}-{name}")
                found[side][f"stream {name}, life {life}"] = batches
        if life == 1:
            send(3)
    del found["kafka"]["follow"], found["store"]["follow"]
    orders = spark.read.format("flintmq").option("subscribe", "Orders").load(basic).coalesce(1)
    make_topics(spark, address, {"Orders"})
    put(orders.sortWithinPartitions("queue_offset").selectExpr(*SAME), address)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(for_kafka(PAGE.code, address), PAGE.where, "exec"), {})  # it ends the session
    print(json.dumps({**found, "page": printed.getvalue()}))


def at(options: dict[str, str], moment: int) -> dict[str, str]:
    return {name: text.replace("MOMENT", str(moment)) for name, text in options.items()}


def make_topics(spark: Any, address: str, names: set[str]) -> None:
    """Make topics, and wait for their leaders: a producer that meets a partition without one may wait for minutes."""
    java, kafka = spark._jvm.java.util, spark._jvm.org.apache.kafka
    topics, ends = java.ArrayList(), java.HashMap()
    for name in sorted(names):
        topics.add(kafka.clients.admin.NewTopic(name, PARTITIONS, 1))
        for partition in range(PARTITIONS):
            ends.put(kafka.common.TopicPartition(name, partition), kafka.clients.admin.OffsetSpec.latest())
    admin = kafka.clients.admin.Admin.create(java.Map.of("bootstrap.servers", address))
    admin.createTopics(topics).all().get()
    admin.listOffsets(ends).all().get()
    admin.close()


def to_kafka(spark: Any, messages: list[Sent], address: str) -> None:
    rows = [
        (topic, partition, key and key.encode(), value, [(name, text.encode()) for name, text in headers.items()])
        for topic, partition, key, value, headers in messages
    ]
    columns = "topic string, partition int, key binary, value binary, headers array<struct<key string, value binary>>"
    put(spark.createDataFrame(rows, columns).coalesce(1), address)


def put(frame: Any, address: str) -> None:
    """Have Spark's Kafka sink write messages in one task, so that each partition has them in order."""
    options = {"kafka.bootstrap.servers": address, "kafka.request.timeout.ms": "5000", "includeHeaders": "true"}
    frame.write.format("kafka").options(**options).save()


@pytest.fixture(scope="module")
def found(golden: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What both programs found, and what the page's program prints on Kafka."""
    work = tmp_path_factory.mktemp("kafka")
    try:
        jars = kafka_broker.source_jars()
        broker = kafka_broker.Broker(work, PARTITIONS, log_message_timestamp_type="LogAppendTime")
    except kafka_broker.NoKafka as why:
        pytest.skip(f"no Kafka: {why}")
    try:
        words = [
            sys.executable,
            "-m",
            __name__,
            broker.address,
            str(work / "store"),
            str(work),
            jars,
            str(golden("basic").path),
        ]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=600)
    finally:
        broker.stop()
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def without_keys(rows: list[Any]) -> list[Any]:
    """Rows of a store, their headers without RocketMQ's property of a message's keys."""
    for row in rows:
        if row.get("headers") is not None:
            assert row["headers"], "null where there are none"
            row["headers"] = [pair for pair in row["headers"] if pair[0] != "KEYS"] or None
    return rows


@pytest.mark.parametrize("side", [for_kafka, for_a_store])
def test_two_lines_change(side: Callable[[str, str], str]):
    program = PROGRAM.read_text(encoding="utf-8")
    changed = [
        one for one, other in zip(program.split("\n"), side(program, "x").split("\n"), strict=True) if one != other
    ]
    assert len(two_lines()) == 2
    assert len(changed) == (4 if side is for_a_store else 2), (
        "of the batch read and of the stream; for Kafka the address"
    )


def test_the_program_of_the_page_runs_on_kafka(found):
    assert found["page"] == PAGE.output


@pytest.mark.parametrize("name", READS)
def test_a_batch_read(found, name):
    kafka, store = found["kafka"][name], found["store"][name]
    assert store["schema"] == kafka["schema"]
    rows = without_keys(store.pop("rows"))
    assert rows == kafka.pop("rows")
    assert store == kafka
    assert len(rows) == store.get("recent", len(rows)) == COUNTS[name]


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_and_its_second_life(found, name):
    for life, count in enumerate(STREAM_COUNTS[name], 1):
        kafka, store = (found[side][f"stream {name}, life {life}"] for side in ("kafka", "store"))
        assert sizes(store) == (full(count, 7) if name == "limited" else [count])
        assert together(map(without_keys, store)) == together(kafka)
        assert len(together(kafka)) == count


def together(batches: Iterable[list[Any]]) -> list[Any]:
    rows = [row for batch in batches for row in batch]
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))


def sizes(batches: list[list[Any]]) -> list[int]:
    return [len(batch) for batch in batches]


def full(count: int, most: int) -> list[int]:
    """Sizes of micro-batches that are full but for the last one."""
    return [*[most] * (count // most), *[count % most][: count % most]]


if __name__ == "__main__":
    main(*sys.argv[1:])
