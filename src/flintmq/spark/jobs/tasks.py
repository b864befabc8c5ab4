"""Runs a function over items as Spark tasks, one item each, and returns the answers.

Tasks read and write files themselves; only a small answer (counts, names) comes back to the driver. An error of FlintMQ
comes back as an answer too, and is raised on the driver unchanged: with its class, exit code and one line of text,
and without four attempts at something that cannot succeed. A bug (KeyError and the like) cannot succeed either and
comes back as a StoreError. Errors that may be temporary (a disk that fails, no memory, a worker that dies) are left
to Spark, which tries again.
"""

from __future__ import annotations

import json
import os
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from flintmq.errors import FlintError, StoreError
from flintmq.lake.export.workers import packed, unpacked
from flintmq.spark.worker import freeze_once
from flintmq.storage.threads.stop_event import StopEvent

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Item = TypeVar("Item")
Progress = Callable[[int, int], None]  # done, in all
POLL_SECONDS = 0.25
ANSWERS = "number bigint, answer string"


def parallelism(spark: SparkSession) -> int:
    """Return how many tasks run at a time; on Spark Connect, the number of local cores."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except AttributeError:  # Spark Connect has no context
        return os.cpu_count() or 1


class SparkWorkers:
    """Runs the tasks of an export as Spark tasks (lake/export/workers.py)."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    @property
    def count(self) -> int:
        return parallelism(self.spark)

    def run(
        self, function: Callable[[Item], dict[str, Any]], items: Sequence[Item], progress: Progress | None = None
    ) -> list[dict[str, Any]]:
        return run_tasks(self.spark, function, items, progress)


def run_tasks(
    spark: SparkSession,
    function: Callable[[Item], dict[str, Any]],
    items: Sequence[Item],
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Call function(item) in a separate task for each item.

    Args:
        function: of an importable module, or a partial of one; its answer must be JSON. It may be called twice for an
            item, by attempts that overlap.
        items: arguments of the calls; all of them go to each task, so they should be small.

    Raises:
        StoreError: Spark gave up, and the text has the last line of its error; or a task failed by a bug.
    """
    if not items:
        return []
    frame = spark.range(0, len(items), 1, len(items)).mapInArrow(partial(_answers, function, items), ANSWERS)
    return collect_answers(spark, frame, len(items), progress)


def collect_answers(
    spark: SparkSession, frame: DataFrame, count: int, progress: Progress | None
) -> list[dict[str, Any]]:
    """Return the answers of tasks whose rows come from `answer_of`, by number."""
    with telling(), _watching(spark, count, progress):
        rows = frame.collect()
    answers = {row["number"]: json.loads(row["answer"]) for row in rows}
    assert answers.keys() == set(range(count))  # Spark gives each task's rows once
    for number in range(count):
        if "error" in answers[number]:
            raise error_in(answers[number])
    return [answers[number] for number in range(count)]


@contextmanager
def telling() -> Iterator[None]:
    """Raise what Spark says of a failed task as a StoreError, of one line."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip() and not line.startswith("\tat ")]
        last = next((line for line in reversed(lines) if "Error" in line or "Exception" in line), lines[-1])
        raise StoreError(f"a Spark task failed: {last[:300]}; Spark's log has more") from error


def _answers(
    function: Callable[[Item], dict[str, Any]], items: Sequence[Item], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    freeze_once()
    for batch in batches:
        for value in batch.column(0):
            number = int(value.as_py())
            yield answer_of(number, function, items[number])


def answer_of(number: int, function: Callable[[Item], dict[str, Any]], item: Item) -> pa.RecordBatch:
    """Return the answer of function(item), or its permanent error, as a row of ANSWERS.

    Raises OSError, MemoryError: another attempt may succeed.
    """
    import pyarrow as pa

    try:
        answer = function(item)
    except FlintError as error:
        answer = {"error": packed(error)}
    except (OSError, MemoryError):
        raise
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        where = f"{os.path.basename(place.filename)}:{place.lineno}"
        text = f"internal error in a task: {what} ({where}); please report it with the output of `flintmq doctor`"
        answer = {"error": packed(StoreError(text))}
    return pa.RecordBatch.from_pydict({"number": pa.array([number], pa.int64()), "answer": [json.dumps(answer)]})


def error_in(answer: dict[str, Any]) -> FlintError:
    """Return the error that a task gave as its answer, of its class and with its fields."""
    error: FlintError = unpacked(answer["error"])
    return error


@contextmanager
def _watching(spark: SparkSession, count: int, progress: Progress | None) -> Iterator[None]:
    """Report progress from a separate thread while the block runs."""
    if progress is None:
        yield
        return
    try:
        tracker = spark.sparkContext.statusTracker()
    except AttributeError:  # Spark Connect has none
        yield
        return
    over = StopEvent()

    def watch() -> None:
        while not over.wait(POLL_SECONDS):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            progress(min(count, max((stage.numCompletedTasks for stage in stages if stage), default=0)), count)

    thread = threading.Thread(target=watch, name="flintmq-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        progress(count, count)


def scaled(progress: Progress | None, size: int, begin: float, end: float) -> Progress | None:
    """Convert progress in tasks of one stage to progress in bytes of log."""
    if progress is None:
        return None
    return lambda done, of: progress(int(size * (begin + (end - begin) * done / max(1, of))), size)
