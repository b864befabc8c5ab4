"""The fork of the Python side that plans a stream is killed: the stream goes on, with each row once."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flintmq import Message, MessageStore
from flintmq.spark.door import JAR
from tests.harness.turns import one_a_day
from tests.spark.door.python_sides import fake_python, serving
from tests.support.threads import within

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not JAR.is_file(), reason="the jar was not built (tools/door_jar.py says why)"),
    pytest.mark.skipif(os.environ.get("FLINTMQ_JAR") == "0", reason="FLINTMQ_JAR=0: without the jar"),
]


def put(store: MessageStore, numbers: range) -> None:
    for number in numbers:
        store.put(Message("Orders", b"%d" % number))
    assert store.wait_dispatched(60)


class Rows:
    """A query that keeps all rows that come, while it runs."""

    def __init__(self, spark: Any, store: Path, checkpoint: Path, **options: object) -> None:
        self.found: list[int] = []
        self.doomed: int | None = None  # a process that is killed amid the next batch
        spark.read.format("flintmq").load(str(store)).count()  # the listener is there, also for a first test
        self._others = set(serving())  # forks that tests before this one left to end by themselves
        frame = spark.readStream.format("flintmq").options(startingOffsets="earliest", **options).load(str(store))
        writing = frame.select("body").writeStream.foreachBatch(self._take).trigger(processingTime="1 second")
        self.query = writing.option("checkpointLocation", str(checkpoint)).start()

    def _take(self, frame: Any, number: int) -> None:
        if self.doomed is not None:
            os.kill(self.doomed, signal.SIGKILL)
            self.doomed = None
        self.found += [int(row.body) for row in frame.collect()]

    def has(self, count: int) -> bool:
        assert self.query.isActive, self.query.exception()
        return len(self.found) >= count

    def planners(self) -> list[int]:
        """The forks that serve it: one, while it waits for messages."""
        return [one for one in serving() if one not in self._others]

    def rests(self) -> bool:
        return bool(self.query.lastProgress) and not self.query.status["isTriggerActive"] and len(self.planners()) == 1


@contextmanager
def rows_of(spark: Any, store: Path, checkpoint: Path, **options: object) -> Iterator[Rows]:
    rows = Rows(spark, store, checkpoint, **options)
    try:
        yield rows
    finally:
        rows.query.stop()


def at_rest(rows: Rows, planner: int) -> None:
    os.kill(planner, signal.SIGKILL)


def amid_a_request(rows: Rows, planner: int) -> None:
    """It is stopped first: the next trigger asks it, and waits."""
    os.kill(planner, signal.SIGSTOP)
    time.sleep(1)
    os.kill(planner, signal.SIGKILL)


def amid_a_batch(rows: Rows, planner: int) -> None:
    """It has planned it: what is asked next is how far the query is behind."""
    rows.doomed = planner


@pytest.mark.parametrize("kill", [at_rest, amid_a_request, amid_a_batch])
def test_a_stream_goes_on_with_each_row_once(spark: Any, tmp_path: Path, kill: Callable[[Rows, int], None]):
    planners = set[int]()
    with MessageStore(tmp_path / "store", dev=True) as store:
        put(store, range(50))
        with rows_of(spark, tmp_path / "store", tmp_path / "checkpoint", maxOffsetsPerTrigger=20) as rows:
            for turn in range(1, 4):
                assert within(lambda count=50 * turn: rows.has(count)) and within(rows.rests)
                [planner] = rows.planners()
                planners.add(planner)
                kill(rows, planner)
                put(store, range(50 * turn, 50 * turn + 50))
            assert within(lambda: rows.has(200)) and within(rows.rests)
            told = [one["sources"][0]["metrics"] for one in rows.query.recentProgress]
        assert rows.found == list(range(200))
        assert len(planners) == 3 and within(lambda: not rows.planners()), "another each time, none of them is left"
        lags = [int(one["lagMessages"]) for one in told if "lagMessages" in one]
        assert lags and max(lags) <= 50, "a new planner does not count all as behind"


DYING = """
import os, signal, sys, time
from flintmq.spark.door import answers, serve

def die(*_):
    with open(os.environ["FAKE_FOLDER"] + "/asked", "a") as asked:
        print(os.getpid(), time.time(), file=asked)
    os.kill(os.getpid(), signal.SIGKILL)

{where}
serve.main()
"""
WHERE = {
    "a schema": "answers.OPERATIONS['schema'] = die",
    "a stream's begin": "answers._calls_of = die",
    "a stream's call": "answers._calls_of = lambda _: dict.fromkeys(('initial', 'next', 'tasks'), die)",
}
JOB = """
import sys, time, flintmq.spark
store, folder, python = sys.argv[1:]
spark = flintmq.spark.session("dying", "local[1]", **{"spark.pyspark.python": python, "spark.log.level": "OFF"})
try:
    frame = spark.readStream.format("flintmq").load(store)
    writing = frame.writeStream.format("noop").option("checkpointLocation", folder + "/checkpoint")
    writing.start().awaitTermination(60)
except Exception as error:
    print("SAID", str(error).replace(chr(10), " "))
    print("AT", time.time())
"""


@pytest.mark.parametrize("where", one_a_day(list(WHERE), ["src/flintmq/spark/door/", "tests/spark/door/"]))
def test_a_side_that_dies_at_each_request_is_named_soon(tmp_path: Path, where: str):
    """Two forks are asked, and no third one."""
    with MessageStore(tmp_path / "store", dev=True) as store:
        put(store, range(10))
    python = fake_python(tmp_path, DYING.format(where=WHERE[where]))
    done = subprocess.run(
        [sys.executable, "-c", JOB, str(tmp_path / "store"), str(tmp_path), python],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "FAKE_FOLDER": str(tmp_path)},
    )
    said = re.findall("SAID (.*)", done.stdout)
    assert said and "the Python side of flintmq ended before its answer was complete" in said[0], done.stderr[-2000:]
    asked = dict(line.split() for line in (tmp_path / "asked").read_text().splitlines())
    assert len(asked) == 2
    assert float(re.findall("AT (.*)", done.stdout)[0]) - min(map(float, asked.values())) < 10
