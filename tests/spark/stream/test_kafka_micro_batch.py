"""Scenarios of Spark's KafkaMicroBatchSourceSuite, as a store has them.

Compared with the suite of Spark's master at commit 0122d7d2760c. Each test names its model; models whose subject is
tested elsewhere are in ELSEWHERE, and those that a store does not have in WITHOUT, with the words of
docs/spark/source.md that say why.
"""

import ast
import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flintmq import Message, MessageStore
from flintmq.errors import StoreError, UsageError
from flintmq.spark.source import FlintMQSource
from tests.spark.stream.drive import Query, numbers
from tests.support.own_time import own_time

CHOICES = {
    "assign": {"assign": '{"topic-1": [0, 1, 2, 3, 4]}'},
    "subscribing topic by name": {"subscribe": "topic-1"},
    "subscribing topic by pattern": {"subscribePattern": "topic-.*"},
}
STARTS = ["latest offsets", "earliest offsets", "specific offsets", "specific timestamps", "global timestamp per topic"]

ELSEWHERE = {  # test -> its models
    "test_anchor.py::test_a_topic_deleted_and_made_again": ["subscribing topic by pattern with topic deletions"],
    "test_anchor.py::test_strict_ends_with_one_line": [
        "subscribe topic by pattern with topic recreation between batches"
    ],
    "test_reader.py::test_times_that_nothing_was_stored_at": [
        "subscribing topic by name from specific timestamps with non-matching starting offset",
        "subscribing topic by name from global timestamp per topic with non-matching starting offset",
        "subscribing topic by pattern from specific timestamps with non-matching starting offset",
        "subscribing topic by pattern from global timestamp per topic with non-matching starting offset",
    ],
    "test_anchor.py::test_an_offset_of_version_0_1": [
        "deserialization of initial offset written by Spark 2.1.0 (SPARK-19517)"
    ],
    "test_reader.py::test_a_checkpoint_of_something_else": [
        "deserialization of initial offset written by future version"
    ],
    "test_reader.py::test_retention_overtook_a_planned_batch": ["delete a topic when a Spark job is running"],
    "test_reader.py::test_every_message_once": ["read Kafka transactional messages: read_committed"],
    "test_reader.py::test_lives_of_a_query": ["stress test with multiple topics and partitions"],
}
WITHOUT = {  # model -> what docs/spark/source.md says of it
    "async progress tracking": "`asyncProgressTrackingEnabled`",
    "ensure that initial offset are written with an extra byte in the beginning (SPARK-19517)": "an extra byte",
    "allow group.id prefix": "`groupIdPrefix`",
    "allow group.id override": "`kafka.group.id`",
    "read Kafka transactional messages: read_uncommitted": "`kafka.isolation.level`",
    "V1 Source is used when disabled through SQLConf": "V1 and V2",
    "V2 Source is used by default": "V1 and V2",
}


def send(writer, topic, queue, *values):
    for value in values:
        writer.store.put(Message(topic, str(value).encode(), queue_id=queue))
    assert writer.store.wait_dispatched(60)


def rows(query):
    return sorted(numbers(row for bite in query.bites() for row in bite))


def body_query(writer, **options):
    return Query(writer.path, columns="body", **options)


@pytest.fixture
def moments(writer):
    """The suite's messages of topic-1 by queue at two moments; gives both, in milliseconds."""
    first = ((0, -20), (1, -10), (2, 0), (2, 1), (3, 10), (3, 11), (4, 20), (4, 21), (4, 22))
    second = ((0, -21), (0, -22), (1, -11), (1, -12), (2, 2), (3, 12))
    for queue, value in first:
        send(writer, "topic-1", queue, value)
    time.sleep(0.02)
    moment = time.time_ns() // 1_000_000
    time.sleep(0.02)
    for queue, value in second:
        send(writer, "topic-1", queue, value)
    return writer.store.offset_at_time("topic-1", 0, 0), moment


@pytest.mark.parametrize("fail", ["true", "false"])
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("choice", CHOICES)
def test_assign_or_subscribe_from(writer, moments, choice, start, fail):
    """ "assign from latest offsets (failOnDataLoss: true)" and its 29 brothers."""
    send(writer, "other", 0, 99)
    everything = {-20, -21, -22, -10, -11, -12, 0, 1, 2, 10, 11, 12, 20, 21, 22}
    if "global" in start:
        send(writer, "topic-1", 4, 23, 24)  # or there is nothing so late in it
    offsets = {"0": -2, "1": -1, "2": 0, "3": 1, "4": 2}
    times = {"0": moments[1], "1": moments[1], "2": moments[1], "3": moments[1], "4": 0}
    options, expected = {
        "latest offsets": ({"startingOffsets": "latest"}, set()),
        "earliest offsets": ({"startingOffsets": "earliest"}, everything),
        "specific offsets": (
            {"startingOffsets": json.dumps({"topic-1": offsets})},
            {-20, -21, -22, 0, 1, 2, 11, 12, 22},
        ),
        "specific timestamps": (
            {"startingOffsetsByTimestamp": json.dumps({"topic-1": times})},
            {-21, -22, -11, -12, 2, 12, 20, 21, 22},
        ),
        "global timestamp per topic": ({"startingTimestamp": moments[1]}, {-21, -22, -11, -12, 2, 12, 23, 24}),
    }[start]
    query = body_query(writer, failOnDataLoss=fail, **CHOICES[choice], **options)
    assert rows(query) == sorted(expected)
    send(writer, "topic-1", 1, 25, 26)
    assert rows(query) == [25, 26]
    query.restart()
    assert rows(query) == [], "after a restart nothing comes again"
    send(writer, "topic-1", 2, 30, 31, 32)  # while it is stopped
    query.restart()
    assert rows(query) == [30, 31, 32]
    send(writer, "topic-1", 9, 40, 41)  # a new queue, from its first message on
    send(writer, "topic-1", 0, 42)
    send(writer, "other", 0, 98)
    assert rows(query) == ([42] if choice == "assign" else [40, 41, 42])


def test_trigger_available_now(writer):
    """ "Trigger.AvailableNow": 15 messages, 5 a batch."""
    send(writer, "topic-1", 0, *range(15))
    query = body_query(writer, subscribe="topic-1", available_now=True, maxOffsetsPerTrigger=5)
    assert [sorted(numbers(bite)) for bite in query.bites()] == [[*range(5)], [*range(5, 10)], [*range(10, 15)]]


@pytest.mark.parametrize("queues, count", [(3, 15), (5, 2)])
def test_available_now_whose_queues_got_unavailable(tmp_path, no_grace, queues, count):
    """ "Query with Trigger.AvailableNow should throw error when topic partitions got unavailable during subsequent
    batches" and "... when offset(s) in planned topic partitions got unavailable during subsequent batches"."""

    def fill(path, queues, count):
        with MessageStore(path) as store:
            for number in range(count):
                for queue in range(queues):
                    store.put(Message("topic-1", b"%d" % number, queue_id=queue))

    fill(tmp_path / "store", 5, 3)
    query = Query(tmp_path / "store", subscribe="topic-1", available_now=True, maxOffsetsPerTrigger=5)
    assert len(next(query.bites())) == 5
    (tmp_path / "store").rename(tmp_path / "before")
    fill(tmp_path / "store", queues, count)
    with pytest.raises(
        StoreError, match="is another record than the one that was read there, or none: .* another store's"
    ):
        list(query.bites())


def test_deserialization_of_initial_offsets(writer):
    """ "(de)serialization of initial offsets": stopped before anything was read, and "cannot stop Kafka stream". Spark
    keeps where a Python source began with the first batch, so before that the query begins anew."""
    send(writer, "topic-1", 0, 1, 2)
    query = body_query(writer, subscribe="topic-1", startingOffsets="latest")
    query.reader.stop()
    query.restart()
    assert rows(query) == []
    send(writer, "topic-1", 0, 3)
    query.restart()
    assert rows(query) == [], "what came before the first batch and a restart is older than latest"
    send(writer, "topic-1", 0, 4)
    assert rows(query) == [4]


def test_spark_26718_rate_limit_set_to_long_max(writer):
    """ "SPARK-26718 Rate limit set to Long.Max should not overflow integer during end offset calculation"."""
    send(writer, "topic-1", 0, *range(5))
    begin = {"startingOffsets": '{"topic-1": {"0": 5}}'}
    query = body_query(writer, subscribe="topic-1", maxOffsetsPerTrigger=2**63 - 1, **begin)
    assert rows(query) == []
    send(writer, "topic-1", 0, *range(30, 35))
    assert rows(query) == [30, 31, 32, 33, 34]


def test_max_offsets_per_trigger(writer):
    """ "maxOffsetsPerTrigger": Kafka takes its share of each partition, a store the oldest messages of all. Also with a
    restart between batches, when the limit is asked for anew."""
    send(writer, "topic-1", 0, *range(100, 115))
    send(writer, "topic-1", 1, *range(10, 21))
    send(writer, "topic-1", 2, 1)
    query = body_query(writer, subscribe="topic-1", maxOffsetsPerTrigger=10)
    assert numbers(next(query.bites())) == [*range(100, 110)]
    query.options["maxOffsetsPerTrigger"] = "7"
    query.restart()
    assert [sorted(numbers(bite)) for bite in query.bites()] == [
        [10, 11, *range(110, 115)],
        [*range(12, 19)],
        [1, 19, 20],
    ]


def test_min_offsets_per_trigger_and_composite_read_limit(writer, monkeypatch):
    """ "minOffsetsPerTrigger" and "compositeReadLimit": the numbers of the latter."""
    from flintmq.lake.stream import reader

    clock = [1000.0]
    own_time(monkeypatch, reader, monotonic=lambda: clock[0])
    send(writer, "topic-1", 0, *range(100, 121))
    send(writer, "topic-1", 1, *range(10, 21))
    send(writer, "topic-1", 2, 1)
    limits = {"minOffsetsPerTrigger": 15, "maxTriggerDelay": "5s", "maxOffsetsPerTrigger": 20}
    query = body_query(writer, subscribe="topic-1", **limits)
    assert query.plan() and len(query.run()) == 20, "the first batch is always processed"
    clock[0] += 0.1
    assert not query.plan(), "13 are fewer than 15, and the delay is not over"
    send(writer, "topic-1", 0, *range(121, 129))
    send(writer, "topic-1", 1, *range(21, 31))
    send(writer, "topic-1", 2, 2)
    clock[0] += 0.1
    assert query.plan() and len(query.run()) == 20, "32 are enough, and more than go into a batch"
    clock[0] += 0.1
    assert not query.plan()
    clock[0] += 5
    assert query.plan() and len(query.run()) == 12, "the delay is over"
    assert not query.plan()


def test_spark_41375_empty_partitions_should_not_record_to_latest_offset(tmp_path, no_grace):
    """The topic is deleted: what the checkpoint gets is no empty object."""
    from tests.spark.stream.test_anchor import delete, put

    put(tmp_path, range(3), "topic-1", "other")
    query = Query(tmp_path, columns="body", subscribePattern="topic-.*", failOnDataLoss="false")
    assert rows(query) == [0, 1, 2]
    delete(tmp_path, "topic-1")
    for _ in range(2):
        offset = query.reader.latestOffset(dict(query.offset), query.limit)
        assert offset.get("@log_offset", -1) >= 0
        query.restart()


def test_topic_level_offsets_tolerate_a_new_topic_matching_subscribe_pattern_after_the_start(writer):
    """And "Kafka source: new topic is found by subscribePattern", from its first message on."""
    send(writer, "topic-a", 0, 1)
    begin = {"startingOffsets": '{"topic-a": "earliest"}'}
    query = body_query(writer, subscribePattern="topic-.*", **begin)
    assert rows(query) == [1]
    send(writer, "topic-b", 0, 2)
    send(writer, "elsewhere", 0, 3)
    assert rows(query) == [2]


def test_subscribing_topics_from_topic_level_offsets(writer):
    send(writer, "topic-1", 0, 1, 2, 3)
    send(writer, "topic-2", 0, 11)
    begin = {"startingOffsets": '{"topic-1": "eArLiEst", "topic-2": "latest"}'}
    query = body_query(writer, subscribe="topic-1,topic-2", **begin)
    assert rows(query) == [1, 2, 3]
    send(writer, "topic-2", 0, 12)
    send(writer, "topic-1", 0, 4)
    assert rows(query) == [4, 12]
    query.restart()
    assert rows(query) == []


def test_deserialization_of_an_offset_without_marks(writer):
    """As "deserialization of initial offset written by Spark 2.1.0": a checkpoint that has offsets alone, and "default
    config of includeHeader doesn't break existing query from Spark 2.4": with other columns than before."""
    send(writer, "topic-1", 0, *range(9))
    query = Query(writer.path)
    query.batches.append((query.initial, {"topic-1/0": 4}))
    query.done = 1
    query.options["columns"] = "body"
    query.restart()
    assert rows(query) == [4, 5, 6, 7, 8]


def test_spark_22956_current_partition_offsets_should_be_set_when_no_new_data_comes_in(writer):
    """A union of two sources, 5 a batch of each: what the smaller one has is read once, also after a restart."""
    send(writer, "small", 0, *range(10))
    send(writer, "large", 0, *range(100, 130))
    small, large = (body_query(writer, subscribe=topic, maxOffsetsPerTrigger=5) for topic in ("small", "large"))
    got = []
    for turn in range(5):
        if turn == 3:
            small.restart()
            large.restart()
        got.append([numbers(query.run()) if query.plan() else [] for query in (small, large)])
        for query in (small, large):
            query.reader.reportLatestOffset()
    firsts = [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [], [], []]
    assert got == [[first, [*range(100 + 5 * n, 105 + 5 * n)]] for n, first in enumerate(firsts)]


def test_ensure_stream_stream_self_join_generates_only_one_offset(writer):
    """ "ensure stream-stream self-join generates only one offset in log and correct metrics": both sides of the join
    are planned from one offset, and alike."""
    writer.put_all(20, ["topic-1"])
    query = body_query(writer, maxOffsetsPerTrigger=15)
    query.plan()
    one, other = (query.reader.partitions(*query.batches[0]) for _ in range(2))
    assert [part.part.spans for part in one] == [part.part.spans for part in other]


def test_spark_25495_what_comes_after_planning_is_read_by_the_next_batch(writer):
    """ "SPARK-25495: FetchedData.reset should reset all fields"."""
    send(writer, "topic-1", 0, 0, 1, 2, 3)
    query = body_query(writer, subscribe="topic-1")
    assert query.plan()
    send(writer, "topic-1", 0, 4, 5, 6, 7)
    assert numbers(query.run()) == [0, 1, 2, 3]
    assert rows(query) == [4, 5, 6, 7]


def test_spark_27494_read_record_containing_null_key_values(writer):
    """ "SPARK-27494: read kafka record containing null key/values.": no keys, no tags, an empty body."""
    for message in (Message("topic-1"), Message("topic-1", b"", keys="k"), Message("topic-1", b"1", tags="t")):
        writer.store.put(message)
    assert writer.store.wait_dispatched(60)
    query = Query(writer.path, columns="keys,tags,body")
    assert next(query.bites()) == [
        {"keys": None, "tags": None, "body": b""},
        {"keys": "k", "tags": None, "body": b""},
        {"keys": None, "tags": "t", "body": b"1"},
    ]


def test_spark_30656_min_partitions(writer):
    """And "minPartitions is supported"."""
    send(writer, "topic-1", 0, *range(10))
    send(writer, "topic-1", 1, *range(10, 20))
    send(writer, "topic-1", 2, 20)
    query = body_query(writer, subscribe="topic-1", minPartitions=6)
    assert query.plan() and len(query.reader.partitions(*query.batches[0])) >= 6
    assert sorted(numbers(query.run())) == list(range(21))
    for wrong in ("a", "1.0", "0", "-1"):
        with pytest.raises(UsageError, match="minPartitions"):
            body_query(writer, minPartitions=wrong)


def test_spark_56243_malformed_record_timestamp(writer):
    """ "SPARK-56243: malformed record timestamp throws detailed error": nanoseconds where milliseconds belong. Here
    such a time is null, as the column is the sender's word and stops no query."""
    for born in (1712345678123456789, 1712345678123):
        writer.store.put(Message("topic-1", b"1", born_timestamp=born))
    assert writer.store.wait_dispatched(60)
    times = [row["born_timestamp"] for row in next(Query(writer.path, columns="born_timestamp").bites())]
    assert times == [None, datetime(2024, 4, 5, 19, 34, 38, 123000, UTC)]


def test_custom_metrics(writer):
    """ "test custom metrics - with rate limit", "- no rate limit" and "- corner cases", and "SPARK-57438: metrics
    should not NPE when latestPartitionOffsets is null"."""
    writer.put_all(12, ["topic-1"], 1)
    query = body_query(writer, subscribe="topic-1", maxOffsetsPerTrigger=10)
    query.plan()
    names = [f"{kind}OffsetsBehindLatest" for kind in ("min", "max", "avg")]
    assert [query.reported[name] for name in names] == [2, 2, 2]
    query.plan()
    assert [query.reported[name] for name in names] == [0, 0, 0]
    assert [Query(writer.path, subscribe="nowhere").reader.reportLatestOffset()[name] for name in names] == [0, 0, 0]


def test_spark_53560_no_crash_looping_during_uncommitted_batch_retry_in_available_now_trigger(writer):
    """The planned batch failed; when it is tried again the topic has more queues."""
    send(writer, "topic-1", 0, *range(1, 8))
    query = body_query(writer, subscribe="topic-1", available_now=True)
    assert query.plan()
    send(writer, "topic-1", 1, 8)
    send(writer, "topic-1", 2, 9)
    for _ in range(2):
        query.restart()
        query.done = 0
        assert sorted(numbers(query.run())) == list(range(1, 8))
    assert rows(query) == [8, 9]


@pytest.mark.parametrize(
    "options, complaint",
    [
        ({"endingOffsets": "latest"}, "is for spark.read"),
        ({"subscribe": "t", "endingOffsetsByTimestamp": '{"t": {"0": 1700000000000}}'}, "is for spark.read"),
        ({"subscribe": "t", "subscribePattern": "t.*"}, "exclude each other"),
        ({"subscribe": "t", "assign": '{"a": [0]}'}, "exclude each other"),
        ({"assign": ""}, "is not JSON"),
        ({"subscribe": ""}, "empty name"),
        ({"subscribePattern": ""}, "matches no topic"),
        ({"subscribe": "t", "minOffsetsPerTrigger": "20", "maxOffsetsPerTrigger": "15"}, "larger than maxOffsetsPer"),
    ],
)
def test_bad_source_options(tmp_path, options, complaint):
    source = FlintMQSource({"path": str(tmp_path), **options})
    with pytest.raises(UsageError, match=complaint):
        source.streamReader(source.schema())


@pytest.mark.parametrize("name", ["auto.offset.reset", "enable.auto.commit", "interceptor.classes", "key.deserializer"])
def test_unsupported_kafka_configs(tmp_path, name):
    with pytest.raises(UsageError, match=f"kafka.{name}"):
        FlintMQSource({"path": str(tmp_path), "subscribe": "topic", f"kafka.{name}": "earliest"}).schema()


@pytest.mark.parametrize("name", ["STARTINGOFFSETS", "startingoffsets", "StartingOffsets"])
@pytest.mark.parametrize(
    "value, expected",
    [
        ("earLiEst", [0, 1, 2, 9]),
        ("laTest", []),
        ('{"topic-A": {"0": 2}}', [2, 9]),
        ('{"topic-A": "lAtEst", "topic-B": {"0": 0}}', [9]),
    ],
)
def test_get_offsets_from_case_insensitive_parameters(writer, name, value, expected):
    send(writer, "topic-A", 0, 0, 1, 2)
    send(writer, "topic-B", 0, 9)
    assert rows(body_query(writer, **{name: value})) == expected


def test_an_explicit_offset_beyond_the_end(writer, no_grace):
    """A stream that is to begin behind a queue's end."""
    writer.put_all(3, ["topic-1"], 1)
    query = body_query(writer, startingOffsets='{"topic-1/0": 10}')
    with pytest.raises(StoreError, match="topic 'topic-1', queue 0, offset 10: the queue ends at 3"):
        query.plan()


@pytest.mark.spark
def test_kafka_source_with_watermark(spark, writer):
    """ "KafkaSource with watermark", "Kafka column types" and "input row metrics", on Spark."""
    from pyspark.sql import functions

    send(writer, "topic-1", 7, 1)
    now = writer.store.get("topic-1", 7, 0).messages[0].store_timestamp
    frame = spark.readStream.format("flintmq").option("subscribe", "topic-1").load(str(writer.path))
    types = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    wanted = {"topic": "string", "queue_id": "int", "queue_offset": "bigint", "body": "binary"}
    assert types.items() >= {**wanted, "store_timestamp": "timestamp", "keys": "string"}.items()
    windows = frame.withWatermark("store_timestamp", "10 seconds").groupBy(
        functions.window("store_timestamp", "5 seconds"), "topic", "queue_id", "queue_offset", "body"
    )
    query = windows.count().writeStream.format("memory").outputMode("complete").queryName("watermark")
    query = (
        query.option("checkpointLocation", str(writer.path.parent / "checkpoint")).trigger(availableNow=True).start()
    )
    assert query.awaitTermination(120) and query.exception() is None
    (row,) = spark.table("watermark").collect()
    assert (row.topic, row.queue_id, row.queue_offset, bytes(row.body)) == ("topic-1", 7, 0, b"1")
    assert row["count"] == 1 and 0 <= now - row.window.start.timestamp() * 1000 < 5000
    assert sum(progress["numInputRows"] for progress in query.recentProgress) == 1


def test_where_the_other_models_are():
    """Tests that ELSEWHERE names are there, and the page gives a reason for each of WITHOUT."""
    here = Path(__file__).parent
    for place in ELSEWHERE:
        file, name = place.split("::")
        names = [node.name for node in ast.parse((here / file).read_text()).body if isinstance(node, ast.FunctionDef)]
        assert name in names, place
    page = (here.parents[2] / "docs" / "spark" / "source.md").read_text().partition("## Compared with Spark's Kafka")[2]
    assert [model for model, words in WITHOUT.items() if words not in page] == []
