"""Exports the new messages of a store to Parquet or Delta, by topic and store date.

A task scans a range of the log and writes Parquet files with Arrow: no value passes through Java. The driver publishes
the files of the tasks with one rename (`lake/target.py`), so an export is visible as a whole or not at all; files of
attempts that did not win are never published. The next export begins where the last one ended in the log.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Unpack

from flintmq.config.keys import StoreConfig
from flintmq.lake.checkpoint import ExportCheckpoint
from flintmq.lake.compact import PartFile, combined
from flintmq.lake.export import (
    ExportChoices,
    Exported,
    ExportOptions,
    choice_of,
    export_range,
    next_begin,
    publish,
    target_kind,
)
from flintmq.lake.scan import plan_scan
from flintmq.lake.splits import shares, split_count
from flintmq.lake.target import locked
from flintmq.spark.jobs.tasks import Progress, parallelism, run_tasks
from flintmq.storage.store_url import local_only, outside_store
from flintmq.store.commitlog.report import Report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def export(
    spark: SparkSession,
    root: str,
    out: str,
    config: StoreConfig | None = None,
    *,
    progress: Progress | None = None,
    **choices: Unpack[ExportChoices],
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
        progress: called from time to time with tasks done and in all.
        choices: what is exported, and how: see ExportChoices.

    Raises:
        NotAStoreError, UnsupportedFormatError, StoreAccessError: the store or the directory cannot be used.
        UsageError: `out` has exports of another store or with other options, or another export runs there.
        CorruptStoreError: damage in the log.
        StoreError: messages have expired since the last export (and fail_on_data_loss); or Spark gave up.
    """
    options = ExportOptions.of(root, config, choices)
    files = options.files
    report = Report()
    plan = plan_scan(options.read, report)
    for place in filter(None, (out, options.checkpoint)):
        outside_store(place, root, config)
    with locked(os.path.abspath(local_only(out)), target_kind(options.to)) as target:
        last, copy = target.last(), ExportCheckpoint.at(options.checkpoint, target.root)
        choice = choice_of(options.read, files, stream=False)
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
            done.notes |= target.notes
        copy.keep(last)
    return done
