"""Scenarios of Spark's KafkaMicroBatchSourceSuite, as a store has them; each test is named after its model.

Others stand where their subject is: "subscribing topic by pattern with topic deletions" and "with topic recreation
between batches" in test_anchor.py, "Query with Trigger.AvailableNow", "minOffsetsPerTrigger" and "maxTriggerDelay" in
test_reader.py, "non-matching starting offset" for timestamps in test_reader.py, bad options in test_options.py. What
differs, and why, is in docs/spark/source.md.
"""

import json
from collections import Counter

import pytest

from flintmq.errors import StoreError, UsageError
from flintmq.spark.source import FlintMQSource
from tests.spark.stream.drive import Query, numbers

pytest.importorskip("pyspark", reason="needs the extra spark")

TOPIC = ["topic-1"]
CHOICES = {
    "assign": {"assign": '{"topic-1": [0, 1, 2]}'},
    "subscribe": {"subscribe": "topic-1"},
    "subscribePattern": {"subscribePattern": "topic-.*"},
}
STARTS = ["latest", "earliest", "specific offsets", "specific timestamps", "global timestamp"]


def rows(query):
    return sorted(numbers(row for bite in query.bites() for row in bite))


@pytest.mark.parametrize("fail", ["true", "false"])
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("choice", CHOICES)
def test_assign_or_subscribe_from(writer, choice, start, fail):
    """ "assign from latest offsets (failOnDataLoss: true)" and its 29 brothers."""
    writer.put_all(20, TOPIC)
    writer.put_all(5, ["other"])
    read = Counter(row["queue_id"] for bite in Query(writer.path, subscribe="topic-1").bites() for row in bite)
    ends = {queue: read[queue] for queue in range(3)}
    first = 0 if start == "earliest" else 20
    options = {
        "latest": {"startingOffsets": "latest"},
        "earliest": {"startingOffsets": "earliest"},
        "specific offsets": {"startingOffsets": json.dumps({"topic-1": {str(q): n for q, n in ends.items()}})},
        "specific timestamps": {
            "startingOffsetsByTimestamp": json.dumps({"topic-1": {str(q): 2**62 for q in ends}}),
            "startingOffsetsByTimestampStrategy": "latest",
        },
        "global timestamp": {"startingTimestamp": 2**62, "startingOffsetsByTimestampStrategy": "latest"},
    }[start]
    query = Query(writer.path, columns="body", failOnDataLoss=fail, **CHOICES[choice], **options)
    writer.put_all(10, TOPIC)
    assert rows(query) == [n for n in range(first, 35) if not 20 <= n < 25]


def test_max_offsets_per_trigger(writer):
    """Also with a restart between batches: the limit is asked for anew."""
    writer.put_all(30, TOPIC)
    query = Query(writer.path, columns="body", subscribe="topic-1", maxOffsetsPerTrigger=10)
    assert len(next(query.bites())) == 10
    query.options["maxOffsetsPerTrigger"] = "7"
    query.restart()
    assert [len(bite) for bite in query.bites()] == [7, 7, 6]


def test_deserialization_of_initial_offset_written_by_an_earlier_version(writer):
    """ "deserialization of initial offset written by Spark 2.1.0": a checkpoint that has offsets alone."""
    writer.put_all(9, TOPIC, 1)
    query = Query(writer.path, columns="body")
    query.batches.append((query.initial, {"topic-1/0": 4}))
    query.done = 1
    query.restart()
    assert rows(query) == [4, 5, 6, 7, 8]


def test_spark_22956_offsets_are_set_when_no_new_data_comes_in(writer):
    """A batch with nothing new changes no offset, and what comes next is read once."""
    writer.put_all(5, TOPIC)
    query = Query(writer.path, columns="body", subscribe="topic-1")
    assert rows(query) == list(range(5))
    for _ in range(3):
        assert query.reader.latestOffset(dict(query.offset), query.limit) == query.offset
        query.reader.reportLatestOffset()
    writer.put_all(5, TOPIC)
    assert rows(query) == list(range(5, 10))


def test_stream_stream_self_join(writer):
    """ "ensure stream-stream self-join generates only one offset in log": two readers of one planning agree."""
    writer.put_all(20, TOPIC)
    query = Query(writer.path, columns="body", maxOffsetsPerTrigger=15)
    query.plan()
    one, other = (query.reader.partitions(*query.batches[0]) for _ in range(2))
    assert [part.part.spans for part in one] == [part.part.spans for part in other]


def test_subscribing_topic_by_pattern_with_new_topics(writer):
    """ "Kafka source: new topic is found by subscribePattern", from its first message on."""
    writer.put_all(5, TOPIC)
    query = Query(writer.path, columns="body", subscribePattern="topic-.*")
    assert rows(query) == list(range(5))
    writer.put_all(5, ["topic-2"])
    writer.put_all(5, ["elsewhere"])
    assert rows(query) == list(range(5, 10))


def test_metrics(writer):
    """ "test custom metrics - with rate limit" and "- no rate limit"; "- corner cases": nothing read yet."""
    writer.put_all(12, TOPIC, 1)
    query = Query(writer.path, columns="body", subscribe="topic-1", maxOffsetsPerTrigger=10)
    query.plan()
    names = [f"{kind}OffsetsBehindLatest" for kind in ("min", "max", "avg")]
    assert [query.reported[name] for name in names] == [2, 2, 2]
    query.plan()
    assert [query.reported[name] for name in names] == [0, 0, 0]
    assert [Query(writer.path, subscribe="nowhere").reader.reportLatestOffset()[name] for name in names] == [0, 0, 0]


@pytest.mark.parametrize(
    "options, complaint",
    [
        ({"subscribe": ""}, "empty name"),
        ({"subscribePattern": ""}, "matches no topic"),
        ({"assign": ""}, "is not JSON"),
        ({"subscribe": "t", "subscribePattern": "t.*"}, "exclude each other"),
        ({"endingOffsets": "latest"}, "is for spark.read"),
        ({"startingOffsets": "yesterday"}, "is not JSON"),
    ],
)
def test_bad_source_options(tmp_path, options, complaint):
    source = FlintMQSource({"path": str(tmp_path), **options})
    with pytest.raises(UsageError, match=complaint):
        source.streamReader(source.schema())


@pytest.mark.parametrize("name", ["STARTINGOFFSETS", "startingoffsets", "StartingOffsets"])
def test_get_offsets_from_case_insensitive_parameters(writer, name):
    writer.put_all(3, TOPIC)
    assert Query(writer.path, **{name: "latest"}).initial["@log_offset"] > 0


def test_an_explicit_offset_beyond_the_end(writer, monkeypatch):
    """ "explicit offset out of range": a stream that is to begin behind a queue's end."""
    from flintmq.spark.stream import reader

    monkeypatch.setattr(reader, "GRACE_SECONDS", 0.0)
    writer.put_all(3, TOPIC, 1)
    query = Query(writer.path, columns="body", startingOffsets='{"topic-1/0": 10}')
    with pytest.raises(StoreError, match="topic 'topic-1', queue 0, offset 10: the queue ends at 3"):
        query.plan()
