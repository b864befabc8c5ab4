"""Export a store's messages to Parquet, by topic and store date; again and again, each time what is new.

A task scans a range of the log and writes Parquet files with Arrow: no value passes through Java. The driver brings
what the tasks wrote in with one rename (`target.py`), so an export is there as a whole or not at all; what attempts of
a task wrote that did not win is never brought in. The next export begins where the last one ended in the log.
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
    """Write the store's messages to Parquet below a directory; a later call adds what is new since.

    The files have the columns of the one schema (or of what `properties` and `body` make of it), with times in
    microseconds (null outside the years 1 to 9999), below `export=N/topic_name=T/date=YYYY-MM-DD/`. `topic_name` is
    `parquet.partition_value` of the topic (in a Delta table the topic), `date` the day of the store time in UTC.

    Args:
        spark: the session. Workers must see `root` and `out` under the same paths as the driver.
        root: the store.
        out: the directory; made if it is not there.
        config: RocketMQ's keys for what the files do not tell.
        topics: only these.
        decompress: bodies as the producer gave them; always so unless `body` is "bytes".
        explode: each message of an inner batch as a row of its own.
        fail_on_data_loss: damage in the log is an error; else it is passed over and counted.
        to: "parquet"; or "delta": a Delta table.
        compression: a Parquet codec.
        target_file_size: in bytes: files of one topic and date become about so large; None: as it comes.
        properties: NAME or NAME:COLUMN, each a column of text instead of the map `properties`.
        body: "bytes", "text", or "json" with `body_schema`: DDL, or a file with Spark's JSON form of a schema.
        partition_by: what the rows of a directory have in common: "topic_name", "date", both or neither. Where it is
            neither or the date, many topics share a file.
        checkpoint: a directory that gets a copy of where the export stands, see `lake/checkpoint.py`.
        access: "pread" or "map".
        progress: called now and then with tasks done and in all.

    Raises:
        NotAStoreError, UnsupportedFormatError, StoreAccessError: the store or the directory cannot be used.
        UsageError: `out` has exports of another store or another choice, or another export runs there.
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
