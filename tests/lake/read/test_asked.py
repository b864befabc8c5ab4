"""What a batch read asks for by name, offset or time and the store does not have: told, never fewer rows in silence."""

import json
import shutil

import pytest

from flintmq import Message, MessageStore
from flintmq.errors import StoreError, UsageError
from tests.support.engine import put_messages
from tests.support.spark_reading import offsets, partitions, read

FUTURE = 10**14


@pytest.fixture(scope="module")
def rolled(golden):
    """A store whose queue Roll/0 begins at 128: what was before has expired. Its live records of that queue."""
    store = golden("rolled")
    live = [row for row in store.live if (row["topic"], row["queue_id"]) == ("Roll", 0)]
    return store, live


def of_roll(number):
    return json.dumps({"Roll": {"0": number}})


def cases(rolled):
    store, live = rolled
    least, most = live[0]["queue_offset"], live[-1]["queue_offset"] + 1
    starting, by_time = "startingOffsets", "startingOffsetsByTimestamp"
    queue = "topic 'Roll', queue 0: "
    every, ours = store.live, live
    there = f"the queue has offsets {least} to {most - 1}"
    return [
        ({starting: of_roll(least - 1)}, ours, f"{queue}startingOffsets asks for {least - 1}, {there}: earlier"),
        ({"startingOffsets": of_roll(most + 1)}, [], f"{queue}startingOffsets asks for {most + 1}, {there}"),
        ({"endingOffsets": of_roll(most + 1)}, ours, f"{queue}endingOffsets asks for {most + 1}, {there}"),
        ({"endingOffsets": of_roll(least - 1)}, [], f"{queue}endingOffsets asks for {least - 1}, {there}"),
        ({by_time: of_roll(FUTURE)}, [], f"{queue}startingOffsetsByTimestamp: nothing was stored at"),
        ({"startingTimestamp": FUTURE}, [], f"startingTimestamp: nothing was stored at {FUTURE} or later"),
        ({"subscribe": "Rolll"}, [], "the store has no topic 'Rolll'; did you mean 'Roll'?"),
        ({"subscribe": "Roll,Xyzzy"}, [r for r in every if r["topic"] == "Roll"], "no topic 'Xyzzy'; it has "),
        ({"assign": '{"Rolll": [0]}'}, [], "no topic 'Rolll'"),
        ({"assign": '{"Roll": [0, 7777]}'}, ours, "topic 'Roll': the store has no queue 7777 of it"),
        ({"assign": '{"Roll": [7777]}', "startingOffsets": '{"Roll/7777": 3}'}, [], "queue 7777"),
    ]  # fmt: skip


@pytest.mark.parametrize("number", range(11))
def test_strict_fails_and_lenient_reads_what_there_is(rolled, caplog, number):
    """Each with one line that names what was asked for; lenient, the rows that are there, and the line as a note."""
    store, _ = rolled
    options, rows, complaint = cases(rolled)[number]
    if not {"subscribe", "assign"} & options.keys():
        options = {"assign": '{"Roll": [0]}', **options}
    with pytest.raises((StoreError, UsageError)) as caught:
        partitions(store.path, **options)
    assert complaint in str(caught.value) and "\n" not in str(caught.value)
    assert not caplog.records
    want = [row["physical_offset"] for row in rows]
    assert offsets(store.path, failOnDataLoss="false", **options) == want
    (line,) = caplog.records
    assert (line.name, line.levelname) == ("flintmq.spark", "WARNING") and complaint in line.getMessage()


def test_many_losses_are_one_line(golden, caplog):
    store = golden("basic")
    far = {topic: {str(queue): 10**6 for queue in range(4)} for topic in ("Orders", "Payments")}
    assert read(store.path, subscribe="Orders,Payments", startingOffsets=json.dumps(far), failOnDataLoss="false") == []
    (line,) = (record.getMessage() for record in caplog.records)
    assert "asks for 1000000" in line and line.endswith("and 7 more like it")


def test_what_is_just_there_is_no_loss(rolled):
    store, live = rolled
    least, most = live[0]["queue_offset"], live[-1]["queue_offset"] + 1
    bounds = {"startingOffsets": of_roll(least), "endingOffsets": of_roll(most)}
    assert offsets(store.path, assign='{"Roll": [0]}', **bounds) == [row["physical_offset"] for row in live]
    assert read(store.path, assign='{"Roll": [0]}', startingOffsets=of_roll(most)) == []


def test_a_pushed_filter_may_name_what_is_not_there(golden):
    """`where topic = 'Nowhere'` is a question, not a mistake."""
    from pyspark.sql.datasource import EqualTo

    from flintmq.lake.read.options import ReadOptions
    from flintmq.spark.schema import spark_schema
    from flintmq.spark.source import FilteringReader

    reader = FilteringReader(ReadOptions(str(golden("basic").path)), spark_schema())
    reader.pushFilters([EqualTo(("topic",), "Nowhere")])
    assert [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()] == []


@pytest.mark.parametrize("kept", [("commitlog",), ("commitlog", "consumequeue")])
def test_whatever_is_left_of_a_store(golden, tmp_path, kept):
    """Names come from directories or, in the end, the log; a right name passes, a wrong one does not."""
    store = golden("basic")
    for folder in kept:
        shutil.copytree(store.path / folder, tmp_path / folder)
    want = [row["physical_offset"] for row in store.live if row["topic"] == "Orders"]
    assert offsets(tmp_path, subscribe="Orders") == want
    with pytest.raises(UsageError, match="no topic 'Order'; did you mean 'Orders'"):
        partitions(tmp_path, subscribe="Order")
    ours = [row for row in store.live if (row["topic"], row["queue_id"]) == ("Orders", 1)]
    tail = offsets(tmp_path, assign='{"Orders": [1]}', startingOffsets='{"Orders/1": 100}')
    assert tail == [row["physical_offset"] for row in ours if row["queue_offset"] >= 100]


def test_a_topic_that_has_no_message_yet(tmp_path):
    """One that config/topics.json has is known; so is one whose only messages are not dispatched yet."""
    from flintmq.store.layout.config_reader import read_config

    with MessageStore(tmp_path) as store:
        store.put(Message("Here", b"x"))
        assert len(read(tmp_path, subscribe="Here")) == 1
    assert "TBW102" not in {row["topic"] for row in read(tmp_path)}
    known = set(read_config(str(tmp_path)).topics) - {"Here"}
    for topic in known:
        assert read(tmp_path, subscribe=topic) == []


@pytest.mark.parametrize("topic", ["orders_1", "orders-1", "2026-11-21", "-1", "a: -1,", '"-1"', "latest"])
def test_a_topic_is_no_offset(tmp_path, topic):
    """Whatever a topic is called, and whatever its offsets look like as text, a batch read of it is one."""
    put_messages(tmp_path, (Message(topic.replace('"', "'"), b"x", queue_id=1) for _ in range(20)))
    topic = topic.replace('"', "'")
    for first in (json.dumps({topic: {"1": 5}}), json.dumps({f"{topic}/1": 5})):
        bounds = {"startingOffsets": first, "endingOffsets": json.dumps({topic: {"1": 15}})}
        assert [row["queue_offset"] for row in read(tmp_path, **bounds)] == list(range(5, 15))
