"""Streams on Spark: from a store that is being written into files, through kills and restarts."""

import ast
import json
import subprocess
import sys
import threading
import time

import pytest

from flintmq import Message, MessageStore
from tests.support.spark_reading import LIMITS, SPARK, limited

pytestmark = pytest.mark.spark


def stream(spark, path, **options):
    return spark.readStream.format("flintmq").options(**options).load(str(path))


def to_parquet(frame, folder, **trigger):
    writer = frame.writeStream.format("parquet").option("path", str(folder / "table"))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    return (writer.trigger(**trigger) if trigger else writer).start()


def bodies(spark, folder):
    return sorted(int(row.body) for row in spark.read.parquet(str(folder / "table")).collect())


def wait_for(condition, query, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
        assert query.exception() is None, query.exception()
        assert time.monotonic() < until, query.lastProgress
        time.sleep(0.05)


def source_of(query):
    """Offsets of the last micro-batch; empty before there was one."""
    source = query.lastProgress["sources"][0] if query.lastProgress else {}
    return {name: offset_of(source.get(name) or "{}") or {} for name in ("endOffset", "latestOffset")}


def offset_of(text):
    """As Spark tells it: JSON; Spark 4.0 and 4.1 make Python's own text of it."""
    return ast.literal_eval(text) if SPARK < (4, 2) else json.loads(text)


def put(store, numbers, topics=("A", "B")):
    for number in numbers:
        store.put(Message(topics[number % len(topics)], b"%d" % number, queue_id=number % 3))


def put_slowly(store, firsts):
    for first in firsts:
        put(store, range(first, first + 50))
        time.sleep(0.05)


def test_a_live_store_into_files_with_a_restart(spark, tmp_path):
    """While the engine writes: stop, go on from the checkpoint, new topics; each message is there once."""
    with MessageStore(tmp_path / "store", mapped_file_size_commit_log=64 * 1024) as store:
        put(store, range(200))
        writer = threading.Thread(target=put_slowly, args=(store, range(200, 1200, 50)))
        writer.start()
        frame = stream(spark, tmp_path / "store", columns="body", **limited(maxOffsetsPerTrigger="300"))
        query = to_parquet(frame, tmp_path)
        wait_for(lambda: query.lastProgress and query.lastProgress["batchId"] >= 1, query)
        query.stop()
        writer.join()
        put(store, range(1200, 1300), ["Later"])
        query = to_parquet(frame, tmp_path)
        if LIMITS:  # without them Spark does not ask for the latest offset either
            wait_for(lambda: source_of(query)["latestOffset"].get("lagMessages") == 0, query)
        wait_for(lambda: source_of(query)["endOffset"].get("Later/0"), query)
        assert max(p["numInputRows"] for p in query.recentProgress) <= 300 or not LIMITS
        query.stop()
        assert bodies(spark, tmp_path) == list(range(1300))
        query = to_parquet(frame, tmp_path, availableNow=True)
        assert query.awaitTermination(60)
        assert bodies(spark, tmp_path) == list(range(1300)), "nothing new, nothing doubled"


def test_offsets_of_a_checkpoint_are_accepted(spark, tmp_path):
    with MessageStore(tmp_path / "store") as store:
        put(store, range(90))
        query = to_parquet(stream(spark, tmp_path / "store", columns="body"), tmp_path, availableNow=True)
        assert query.awaitTermination(60)
        log = sorted((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"))[-1].read_text().splitlines()
        offsets = {key: number for key, number in json.loads(log[2]).items() if not key.startswith("@")}
        assert offsets == {f"{topic}/{queue}": 15 for topic in "AB" for queue in range(3)}
        put(store, range(90, 180))
        assert store.wait_dispatched(60)
        rest = spark.read.format("flintmq").option("startingOffsets", log[2]).load(str(tmp_path / "store"))
        assert sorted(int(row.body) for row in rest.collect()) == list(range(90, 180))
        done = spark.read.format("flintmq").option("endingOffsets", log[2]).load(str(tmp_path / "store"))
        assert sorted(int(row.body) for row in done.collect()) == list(range(90))


def test_the_driver_is_killed(spark, tmp_path):
    """kill -9 in the middle of a query while another process writes; then go on: each message once."""
    with MessageStore(tmp_path / "store") as store:
        put(store, range(400))
        child = subprocess.Popen([sys.executable, "-c", DRIVER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        next(line for line in child.stdout if line.startswith("batch"))
        put(store, range(400, 500))
        child.kill()
        child.wait(30)
        assert store.wait_dispatched(60)
        for _ in range(1 if LIMITS else 2):  # of a source without limits Spark runs one batch: the killed one
            query = to_parquet(stream(spark, tmp_path / "store", columns="body"), tmp_path, availableNow=True)
            assert query.awaitTermination(90)
        assert bodies(spark, tmp_path) == list(range(500))


DRIVER = """
import sys, time
import flintmq.spark
spark = flintmq.spark.session("killed", master="local[2]")
source = spark.readStream.format("flintmq").options(columns="body", maxOffsetsPerTrigger="60")
frame = source.load(sys.argv[1] + "/store")
writer = frame.writeStream.format("parquet").option("path", sys.argv[1] + "/table")
query = writer.option("checkpointLocation", sys.argv[1] + "/checkpoint").start()
while True:
    if query.lastProgress and query.lastProgress["numInputRows"]:
        print("batch", flush=True)
    time.sleep(0.01)
"""


def test_wrong_options_are_told(spark, golden, tmp_path):
    with pytest.raises(Exception, match=r"did you mean maxOffsetsPerTrigger\?"):
        to_parquet(stream(spark, golden("basic").path, maxOffsetsPerTriger="1"), tmp_path).awaitTermination(30)


def test_a_loss_ends_the_query_with_its_place(spark, golden, tmp_path):
    path = golden("rolled").copy(tmp_path)
    options = {"startingOffsets": '{"Roll/0": 100}', "subscribe": "Roll"}
    query = to_parquet(stream(spark, path, **options), tmp_path, availableNow=True)
    with pytest.raises(Exception, match="topic 'Roll', queue 0, offset 100: messages before offset 128 have expired"):
        query.awaitTermination(60)
