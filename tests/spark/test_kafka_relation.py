"""Scenarios of Spark's KafkaRelationSuite, as a store has them; each test is named after its model.

Left out, with the reason in docs/spark/source.md: "reuse same dataframe in query" and late binding (an end is fixed
once for a DataFrame), headers, isolation levels, "topic-partition for start offset and end offset must match".
"""

import json

import pytest

from flintmq.errors import StoreError, UsageError
from flintmq.spark.source import FlintMQSource
from tests.support.spark_reading import offsets, partitions, read

TOPIC, QUEUES = "Orders", range(4)
EVER = 2**62


@pytest.fixture(scope="module")
def orders(golden):
    """The messages of one topic as Java decodes them, and moments that part them in three."""
    rows = [row for row in golden("basic").live if row["topic"] == TOPIC]
    times = sorted({row["store_timestamp"] for row in rows})
    return golden("basic").path, rows, (times[0], times[len(times) // 3], times[2 * len(times) // 3])


def per_queue(number, *others):
    """JSON of the same number for each queue; those of `others` instead for the last ones."""
    numbers = [number] * (len(QUEUES) - len(others)) + list(others)
    return json.dumps({TOPIC: {str(queue): n for queue, n in zip(QUEUES, numbers, strict=True)}})


def where(rows, condition):
    return [row["physical_offset"] for row in rows if condition(row)]


def test_explicit_earliest_to_latest_offsets(orders):
    path, rows, _ = orders
    assert offsets(path, subscribe=TOPIC, startingOffsets="earliest", endingOffsets="latest") == where(rows, bool)
    words = {"startingOffsets": f'{{"{TOPIC}": "earliest"}}', "endingOffsets": f'{{"{TOPIC}": "latest"}}'}
    assert offsets(path, subscribe=TOPIC, **words) == where(rows, bool)


def test_default_starting_and_ending_offsets(orders):
    path, rows, _ = orders
    assert offsets(path, subscribe=TOPIC) == where(rows, bool)


def test_explicit_offsets(orders):
    path, rows, _ = orders
    found = offsets(path, subscribe=TOPIC, startingOffsets=per_queue(-2, 0), endingOffsets=per_queue(-1, 1))
    assert found == where(rows, lambda row: row["queue_id"] != 3 or row["queue_offset"] < 1)


TIMES = {
    "timestamp provided for starting and ending": (
        lambda t: {"startingOffsetsByTimestamp": per_queue(t[1]), "endingOffsetsByTimestamp": per_queue(t[2])},
        lambda row, t: t[1] <= row["store_timestamp"] < t[2],
    ),
    "timestamp provided for starting, offset provided for ending": (
        lambda t: {"startingOffsetsByTimestamp": per_queue(t[0]), "endingOffsets": per_queue(-1, 1)},
        lambda row, t: row["queue_id"] != 3 or row["queue_offset"] < 1,
    ),
    "timestamp provided for ending, offset provided for starting": (
        lambda t: {"startingOffsets": per_queue(-2, 0), "endingOffsetsByTimestamp": per_queue(t[2])},
        lambda row, t: row["store_timestamp"] < t[2],
    ),
    "timestamp provided for starting, ending not provided": (
        lambda t: {"startingOffsetsByTimestamp": per_queue(t[1])},
        lambda row, t: row["store_timestamp"] >= t[1],
    ),
    "timestamp provided for ending, starting not provided": (
        lambda t: {"endingOffsetsByTimestamp": per_queue(t[2])},
        lambda row, t: row["store_timestamp"] < t[2],
    ),
    "global timestamp provided for starting and ending": (
        lambda t: {"startingTimestamp": t[1], "endingTimestamp": t[2]},
        lambda row, t: t[1] <= row["store_timestamp"] < t[2],
    ),
    "no matched offset for timestamp - endingOffsets": (
        lambda t: {"endingOffsetsByTimestamp": per_queue(t[1], EVER)},
        lambda row, t: row["queue_id"] == 3 or row["store_timestamp"] < t[1],
    ),
    "preferences on offset related options: global timestamp": (
        lambda t: {
            "startingTimestamp": t[2],
            "startingOffsetsByTimestamp": per_queue(t[1]),
            "startingOffsets": "earliest",
        },
        lambda row, t: row["store_timestamp"] >= t[2],
    ),
    "preferences on offset related options: timestamp for partition": (
        lambda t: {"startingOffsetsByTimestamp": per_queue(t[1]), "startingOffsets": per_queue(3)},
        lambda row, t: row["store_timestamp"] >= t[1],
    ),
    "preferences, of the end": (
        lambda t: {"endingTimestamp": t[2], "endingOffsetsByTimestamp": per_queue(t[1]), "endingOffsets": per_queue(3)},
        lambda row, t: row["store_timestamp"] < t[2],
    ),
}  # fmt: skip


@pytest.mark.parametrize("scenario", TIMES)
def test_timestamps(orders, scenario):
    path, rows, times = orders
    options, condition = TIMES[scenario]
    want = where(rows, lambda row: condition(row, times))
    assert 0 < len(want) < len(rows)
    assert offsets(path, subscribe=TOPIC, **options(times)) == want


def test_no_matched_offset_for_timestamp_starting_offsets(orders):
    """And the strategy "latest" of KafkaMicroBatchSourceSuite: that queue gives nothing."""
    path, rows, (_, second, _) = orders
    options = {"subscribe": TOPIC, "startingOffsetsByTimestamp": per_queue(second, EVER)}
    with pytest.raises(StoreError, match="queue 3: startingOffsetsByTimestamp: nothing was stored at"):
        partitions(path, **options)
    found = offsets(path, **options, startingOffsetsByTimestampStrategy="latest")
    assert found == where(rows, lambda row: row["queue_id"] != 3 and row["store_timestamp"] >= second)


def test_bad_batch_query_options(orders):
    path, *_ = orders
    latest, earliest = f'{{"{TOPIC}": {{"0": -1}}}}', f'{{"{TOPIC}": {{"0": -2}}}}'
    bad = [
        ({"startingOffsets": "latest", "endingOffsets": "latest"}, "cannot have latest"),
        ({"startingOffsets": latest}, "cannot have -1"),
        ({"startingOffsets": f'{{"{TOPIC}": "latest"}}'}, "cannot have -1 ('Orders', all its queues)"),
        ({"endingOffsets": "earliest"}, "cannot have earliest"),
        ({"endingOffsets": earliest}, "cannot have -2"),
        ({"subscribe": TOPIC, "subscribePattern": ".*"}, "exclude each other"),
        ({"subscribe": TOPIC, "assign": '{"a":[0]}'}, "exclude each other"),
        ({"assign": ""}, "option assign: '' is not JSON"),
        ({"subscribe": ""}, "empty name"),
        ({"subscribePattern": ""}, "matches no topic"),
        ({"startingOffsetsByTimestampStrategy": "earliest"}, "not one of error, latest"),
        ({"startingOffsetsByTimestamp": "{}"}, "not an object such as"),
        ({"columns": "topics"}, "no column 'topics'; did you mean topic"),
    ]  # fmt: skip
    for options, complaint in bad:
        source = FlintMQSource({"path": str(path), **options})
        with pytest.raises(UsageError) as caught:
            source.reader(source.schema())
        assert complaint in str(caught.value), options


def test_min_partitions(orders):
    """SPARK-30656."""
    path, rows, _ = orders
    _, parts = partitions(path, subscribe=TOPIC, minPartitions=6)
    assert len(parts) >= 6
    assert offsets(path, subscribe=TOPIC, minPartitions=6) == where(rows, bool)


def test_max_records_per_partition(golden):
    """Spark 4: about so many here, where a split is a range of the log."""
    reader, parts = partitions(golden("basic").path, maxRecordsPerPartition=250)
    counts = [sum(batch.num_rows for batch in reader.read(part)) for part in parts]
    assert sum(counts) == 3000 and len(parts) >= 12 and max(counts) < 400


def test_unresolved_start_offset_greater_than_end_offset(orders):
    with pytest.raises(UsageError, match=r"queue 0: startingOffsets \(1\) is larger than endingOffsets \(0\)"):
        read(orders[0], subscribe=TOPIC, startingOffsets=per_queue(1), endingOffsets=per_queue(0))


def test_resolved_start_offset_greater_than_end_offset(orders):
    path, _, (_, second, third) = orders
    options = {"startingOffsetsByTimestamp": per_queue(third), "endingOffsetsByTimestamp": per_queue(second)}
    with pytest.raises(UsageError, match=r"topic 'Orders', queue \d: it begins at \d+, after its end \d+"):
        read(path, subscribe=TOPIC, **options)
