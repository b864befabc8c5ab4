"""Exports the new messages of a store to Parquet or Delta, by topic and store date.

A task scans a range of the log and writes Parquet files with Arrow: no value passes through Java. The driver publishes
the files of the tasks with one rename (`lake/target.py`), so an export is visible as a whole or not at all; files of
attempts that did not win are never published. The next export begins where the last one ended in the log.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from flintmq.config.keys import StoreConfig
from flintmq.lake.checkpoint import ExportCheckpoint
from flintmq.lake.columns import ExportColumns
from flintmq.lake.compact import FileOptions, PartFile, combined
from flintmq.lake.export import Exported, choice_of, export_range, next_begin, publish, target_kind
from flintmq.lake.options import ReadOptions
from flintmq.lake.parquet import PARTITIONS
from flintmq.lake.scan import plan_scan
from flintmq.lake.splits import shares, split_count
from flintmq.lake.target import locked
from flintmq.spark.jobs.tasks import Progress, parallelism, run_tasks
from flintmq.storage.store_url import absolute, local_only, outside_store
from flintmq.store.commitlog.predicate import Predicate
from flintmq.store.commitlog.report import Report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def export(
    spark: SparkSession,
    root: str,
    out: str,
    config: StoreConfig | None = None,
    *,
    topics: Sequence[str] | None = None,
    decompress: bool = False,
    explode: bool = False,
    fail_on_data_loss: bool = True,
    to: str = "parquet",
    compression: str = "snappy",
    target_file_size: int | None = None,
    properties: Sequence[str] | None = None,
    body: str = "bytes",
    body_schema: str | None = None,
    partition_by: Sequence[str] = PARTITIONS,
    checkpoint: str | None = None,
    access: str = "pread",
    progress: Progress | None = None,
) -> Exported:
    """Write the store's messages to Parquet below a directory; a later call adds new messages.

    The files have the columns of the one schema (as changed by `properties` and `body`), with times in
    microseconds (null outside the years 1 to 9999), below `export=N/topic_name=T/date=YYYY-MM-DD/`. `topic_name` is
    `parquet.partition_value` of the topic (in a Delta table the topic), `date` the day of the store time in UTC.

    Args:
        spark: the session. Workers must see `root` and `out` under the same paths as the driver.
        root: directory of the store.
        out: target directory; created if it does not exist.
        config: RocketMQ's keys, for settings that the files do not show.
        topics: only these.
        decompress: bodies as the producer gave them; always so unless `body` is "bytes".
        explode: each message of an inner batch becomes a row.
        fail_on_data_loss: damage in the log is an error; otherwise it is skipped and counted.
        to: "parquet"; or "delta": a Delta table.
        compression: a Parquet codec.
        target_file_size: approximate bytes of files of one topic and date; None: no target.
        properties: NAME or NAME:COLUMN, each a column of text instead of the map `properties`.
        body: "bytes", "text", or "json" with `body_schema`: DDL, or a file with Spark's JSON form of a schema.
        partition_by: columns in which all rows of a directory agree: "topic_name", "date", both or neither. Without
            "topic_name" many topics share a file.
        checkpoint: a directory for a copy of the export's progress, see `lake/checkpoint.py`.
        access: "pread" or "map".
        progress: called from time to time with tasks done and in all.

    Raises:
        NotAStoreError, UnsupportedFormatError, StoreAccessError: the store or the directory cannot be used.
        UsageError: `out` has exports of another store or with other options, or another export runs there.
        CorruptStoreError: damage in the log.
        StoreError: messages have expired since the last export (and fail_on_data_loss); or Spark gave up.
    """
    files = FileOptions(
        compression, target_file_size, ExportColumns.parse(properties, body, body_schema), tuple(partition_by)
    )
    options = ReadOptions(
        path=absolute(root),
        predicate=Predicate(topics=None if topics is None else frozenset(topics)),
        fail_on_data_loss=fail_on_data_loss,
        decompress=decompress or files.shape.decompresses,
        explode=explode,
        access=access,
        config=config or StoreConfig(),
    )
    report = Report()
    plan = plan_scan(options, report)
    for place in filter(None, (out, checkpoint)):
        outside_store(place, root, config)
    with locked(os.path.abspath(local_only(out)), target_kind(to)) as target:
        last, copy = target.last(), ExportCheckpoint.at(checkpoint, target.root)
        choice = choice_of(options, files, stream=False)
        begin = next_begin(target, last, plan, choice)
        copy.check(last)
        target.check(last, files.shape.schema(), files.partition_by)
        done = Exported(begin=begin, end=max(begin, plan.end), notes={**report.note_counts, **target.notes})
        ranges = shares(plan.log, begin, plan.end, split_count(plan.end - begin, parallelism(spark)))
        tasks = str(target.stage())
        work = [part for part in ranges if part.begin < part.end]
        answers = run_tasks(spark, partial(export_range, plan, tasks, files), work, progress)
        done.count(answers)
        if done.rows:
            parts = [PartFile(*part) for answer in answers for part in answer["files"]]
            parts = combined(parts, files, tasks, parallelism(spark), partial(run_tasks, spark, progress=None))
            last = publish(target, last, done, choice, answers, parts, files.shape)
        copy.keep(last)
    return done
