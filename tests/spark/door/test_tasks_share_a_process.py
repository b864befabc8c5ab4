"""Tasks, one after the other, are answered by one fork of the Python side."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from flintmq.spark.door import JAR
from flintmq.testing import write_store
from tests.spark.door.python_sides import fake_python, serving
from tests.support.threads import within

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not JAR.is_file(), reason="the jar was not built (tools/door_jar.py says why)"),
    pytest.mark.skipif(os.environ.get("FLINTMQ_JAR") == "0", reason="FLINTMQ_JAR=0: without the jar"),
]
MESSAGES, PARTS = 2000, 12

COUNTING = """
import os
from flintmq.spark.door import answers, serve

def read(*given, read=answers.OPERATIONS["read"]):
    with open(os.environ["FAKE_FOLDER"] + "/read", "a") as told:
        print(os.getpid(), file=told)
    read(*given)

answers.OPERATIONS["read"] = read
serve.main()
"""
JOB = f"""
import sys, flintmq.spark
store, python = sys.argv[1:]
spark = flintmq.spark.session("sharing", "local[1]", **{{"spark.pyspark.python": python}})
frame = spark.read.format("flintmq").option("minPartitions", {PARTS}).load(store)
print("FOUND", len(frame.select("body").collect()))
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("shared") / "store"
    write_store(path, MESSAGES, seed=1)
    return str(path)


def test_tasks_one_after_the_other_have_one_process(store: str, tmp_path: Path):
    python = fake_python(tmp_path, COUNTING)
    done = subprocess.run(
        [sys.executable, "-c", JOB, store, python],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "FAKE_FOLDER": str(tmp_path)},
    )
    assert f"FOUND {MESSAGES}" in done.stdout, done.stderr[-2000:]
    processes = (tmp_path / "read").read_text().split()
    assert len(processes) == PARTS and len(set(processes)) == 1


def counted(spark: Any, store: str) -> int:
    found: int = spark.read.format("flintmq").load(store).count()
    return found


def test_a_process_that_was_killed_while_it_waited_costs_no_task(spark: Any, store: str):
    waiting: list[int] = []

    def waits() -> bool:
        """It waits a second for the next task, and a busy machine may look later than that."""
        assert counted(spark, store) == MESSAGES
        waiting[:] = serving()[1:]
        return bool(waiting)

    assert within(waits)
    for process in waiting:
        os.kill(process, signal.SIGKILL)
    assert within(lambda: not set(waiting) & set(serving()))
    assert counted(spark, store) == MESSAGES


def test_a_process_that_nobody_asks_again_ends(spark: Any, store: str):
    assert counted(spark, store) == MESSAGES
    time.sleep(3)
    lasting = set(serving())  # the one that listens, and forks of streams of other tests
    for _ in range(2):  # the timer goes on
        assert counted(spark, store) == MESSAGES
        assert within(lambda: set(serving()) <= lasting)


def test_a_task_that_failed_leaves_its_process_to_nobody(spark: Any, store: str, tmp_path: Path):
    """The rows of one task end with an error; those of the next query are whole."""
    broken = tmp_path / "broken"
    write_store(broken, MESSAGES, seed=2)
    frame = spark.read.format("flintmq").load(str(broken))
    assert frame.count() == MESSAGES
    [file] = (broken / "commitlog").iterdir()
    with file.open("r+b") as log:
        log.seek(200_000)
        log.write(b"\xff" * 4096)
    with pytest.raises(Exception, match="damage"):
        spark.read.format("flintmq").option("failOnDataLoss", True).load(str(broken)).collect()
    assert counted(spark, store) == MESSAGES
