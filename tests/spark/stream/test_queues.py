"""Queues that come and go while a query runs."""

import shutil
import time

import pytest

from flintmq.arrow.objects import FRESH_SECONDS
from flintmq.errors import StoreError
from tests.spark.stream.drive import Query, numbers


def test_new_queues_and_topics_are_found(writer):
    query = Query(writer.path, columns="body", startingOffsets="latest")
    assert query.initial == {}
    assert not query.plan()
    got = []
    for topics, queues in ((["A"], 1), (["A"], 3), (["A", "New"], 4), (["%RETRY%g"], 1)):
        writer.put_all(50, topics, queues)
        got += [row for bite in query.bites() for row in bite]
    assert sorted(numbers(got)) == list(range(200))


def test_a_queue_that_is_gone(golden, tmp_path):
    path = golden("basic").copy(tmp_path)
    query = Query(path, maxOffsetsPerTrigger=100)
    next(query.bites())
    shutil.rmtree(path / "consumequeue" / "Orders")
    query.restart()
    with pytest.raises(StoreError, match="topic 'Orders', queue 0, offset [0-9]+: the queue is gone"):
        query.plan()
    query.options["failOnDataLoss"] = "false"
    query.restart()
    rows = [row for bite in query.bites() for row in bite]
    assert {row["topic"] for row in rows} >= {"Payments"} and query.offset["Orders/0"] < 50


def test_a_copy_on_object_storage_that_is_replaced_as_it_grows(writer, objects):
    """Of a store that is open: copied in the order in which a copy is right, queues after the log."""
    got = []
    query = None
    for count in (300, 1, 500):
        writer.put_all(count, ["A", "B"], 2)
        for part in ("config", "commitlog", "consumequeue"):
            if (writer.path / part).is_dir():
                objects.put(writer.path / part, f"growing-copy/{part}")
        for file in ("abort", "lock", "checkpoint"):
            if (writer.path / file).is_file():
                objects.put_object(f"growing-copy/{file}", (writer.path / file).read_bytes())
        if query is None:
            query = Query("s3://stores/growing-copy", columns="body", maxOffsetsPerTrigger=200, **objects.keys)
        else:
            time.sleep(FRESH_SECONDS + 0.1)
        got += [row for bite in query.bites() for row in bite]
        assert sorted(numbers(got)) == list(range(writer.count))
