"""Runs a function over the rows of parts of a source, one task a part.

A condition in SQL may select rows in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from flintmq.errors import UsageError
from flintmq.spark.jobs.replay.source import Chunk, Source, rows_of
from flintmq.spark.jobs.tasks import ANSWERS, Progress, answer_of, collect_answers, run_tasks
from flintmq.spark.worker import freeze_once
from flintmq.store.commitlog.report import Report

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Work = Callable[[int, Iterator["pa.RecordBatch"]], dict[str, Any]]
"""Takes the part's number and its rows; its answer must be JSON."""


def run_over_rows(
    spark: SparkSession,
    source: Source,
    parts: Sequence[list[Chunk]],
    where: str | None,
    work: Work,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Call work(number, rows) in a separate task for each part.

    Without a condition rows go from the source to `work` within the task. With one they pass through Spark, which
    evaluates the SQL; the stage is the same, so they stay in their task and in their order.

    Returns:
        The answers in the order of the parts, with `damages` and `lost_bytes` if rows were read in the task.
    """
    if where is None:
        return run_tasks(spark, partial(_read_and_work, source, parts, work), range(len(parts)), progress)
    if not parts:
        return []
    frame = matching(spark, source, parts, where)
    answers = frame.mapInArrow(partial(_work, work), ANSWERS)
    found = collect_answers(spark, answers, len(parts), progress)
    return [{"damages": 0, "lost_bytes": 0, **answer} for answer in found]


def matching(spark: SparkSession, source: Source, parts: Sequence[list[Chunk]], where: str) -> DataFrame:
    """Return the rows of the parts that meet a condition; a partition each, in order."""
    from pyspark.errors import PySparkException

    from flintmq.spark.schema import spark_schema

    rows = spark.range(0, len(parts), 1, len(parts)).mapInArrow(partial(_read, source, parts), spark_schema())
    try:
        return rows.where(where)
    except PySparkException as error:
        text = (str(error).strip().splitlines() or ["?"])[0][:300]
        raise UsageError(f"condition {where[:200]!r}: {text}; columns are those of the schema") from error


def _rows(source: Source, chunks: Sequence[Chunk], report: Report) -> Iterator[pa.RecordBatch]:
    for chunk in chunks:
        yield from rows_of(source, chunk, report)


def _read_and_work(source: Source, parts: Sequence[list[Chunk]], work: Work, number: int) -> dict[str, Any]:
    report = Report()
    answer = work(number, _rows(source, parts[number], report))
    return {**answer, "damages": report.damage_count, "lost_bytes": report.lost_bytes}


def _read(source: Source, parts: Sequence[list[Chunk]], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run the first half of a task with a condition: read the rows."""
    freeze_once()
    for batch in batches:
        for value in batch.column(0):
            yield from _rows(source, parts[value.as_py()], Report())


def _work(work: Work, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run the second half: work on the rows. Partition n of Spark's range holds n."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise RuntimeError("not in a Spark task")
    number = context.partitionId()
    yield answer_of(number, partial(work, number), batches)
