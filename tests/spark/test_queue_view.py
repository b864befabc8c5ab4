from collections import Counter

import pytest

from flintmq import Message, MessageStore
from flintmq.errors import UsageError
from flintmq.spark.source import FlintMQSource
from tests.support.spark_reading import partitions


def queues(path, **options):
    source = FlintMQSource({"path": str(path), "view": "queues", **options})
    reader = source.reader(source.schema())
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def test_counts_are_those_of_the_messages(golden):
    for name in ("basic", "rolled", "v540"):
        store = golden(name)
        want = Counter((row["topic"], row["queue_id"]) for row in store.live if row["sys_flag"] & 12 in (0, 8))
        found = {(row["topic"], row["queue_id"]): row["messages"] for row in queues(store.path)}
        assert {queue: number for queue, number in found.items() if number} == want, name
    (row,) = queues(golden("rolled").path, assign='{"Roll": [0]}')
    assert row["max_offset"] - row["min_offset"] == row["messages"] and row["min_offset"] == 128


@pytest.mark.parametrize(
    "options, complaint",
    [
        ({"subscribe": "Order"}, "no topic 'Order'; did you mean 'Orders'"),
        ({"columns": "topic"}, "option columns does not apply to view queues"),
        ({"startingTimestamp": "1700000000000"}, "option startingTimestamp does not apply to view queues"),
        ({"view": "topics"}, "not one of messages, queues"),
    ],
)
def test_what_is_refused(golden, options, complaint):
    with pytest.raises(UsageError, match=complaint):
        queues(golden("basic").path, **options)


def test_it_is_told_what_is_read(golden, caplog):
    partitions(golden("basic").path, subscribe="Orders", verbose="true")
    assert caplog.messages[-1].endswith("; records with topic in ('Orders')")


def test_errors_bring_one_frame(golden):
    """Of those of this library, however deep they were raised."""
    with pytest.raises(UsageError) as caught:
        partitions(golden("basic").path, subscribe="Nowhere")
    frames = [entry.path.name for entry in caught.traceback]
    assert frames[-1] == "failing.py" and frames.count("asked.py") == 0


def test_a_topic_that_no_store_has(tmp_path):
    for broker, topic in (("a", "Orders"), ("b", "Refunds")):
        with MessageStore(tmp_path / broker / "store") as store:
            store.put(Message(topic, b"1"))
    both = f"{tmp_path}/{{broker}}/store"
    assert [row["broker"] for row in queues(both, subscribe="Refunds")] == ["b"]
    with pytest.raises(UsageError, match=r"no topic 'Order'; did you mean 'Orders'.*\(nor have 1 other stores\)"):
        queues(both, subscribe="Order")
    assert queues(both, subscribe="Order", failOnDataLoss="false") == []
