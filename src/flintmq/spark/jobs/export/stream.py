"""Exports a store to Parquet or Delta while it is written, each message exactly once.

A micro-batch is planned like one of the stream source (`spark/stream/`), and its tasks read their parts of the log and
write Parquet with Arrow: no value passes through Java. The driver publishes their files in one step, like every export,
and the manifest that is published with them contains the queue offsets where the batch ends. So the directory is its
own checkpoint: after any crash, a batch is there with its offsets, or neither is.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from flintmq.arrow.schema import SPARK_SCHEMA
from flintmq.config.keys import StoreConfig
from flintmq.lake.checkpoint import ExportCheckpoint
from flintmq.lake.compact import FileOptions, PartFile, combined
from flintmq.lake.export import (
    SCAN_BYTES,
    ExportChoices,
    Exported,
    ExportOptions,
    check_same,
    choice_of,
    publish,
    target_kind,
    write_files,
)
from flintmq.lake.target import ExportTarget, Manifest, locked
from flintmq.spark.jobs.tasks import parallelism, run_tasks
from flintmq.spark.stream import plan
from flintmq.spark.stream.options import StreamOptions
from flintmq.spark.stream.scan import read_part
from flintmq.storage.store_url import local_only, outside_store
from flintmq.store.commitlog.report import Report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flintmq.spark.stream.reader import StreamReader

MAX_BYTES = 1 << 30  # of log in one micro-batch
INTERVAL_S = 10.0


def export_stream(
    spark: SparkSession,
    root: str,
    out: str,
    config: StoreConfig | None = None,
    *,
    max_offsets: int | None = None,
    max_bytes: int = MAX_BYTES,
    interval_s: float = INTERVAL_S,
    once: bool = False,
    stop: threading.Event | None = None,
    on_batch: Callable[[Exported], None] | None = None,
    **choices: Unpack[ExportChoices],
) -> Exported:
    """Write the store's messages to Parquet below a directory, and continue with new ones.

    Args:
        spark, root, out, config, choices: as for `export`. Rows are the messages that are in a queue, as in the stream
            source.
        max_offsets, max_bytes: most messages, and most bytes of log, of a micro-batch.
        interval_s: seconds between the begins of two micro-batches; a full one is followed at once.
        once: end with the messages that exist now.
        stop: end after the running micro-batch when it is set.
        on_batch: called with the result of each micro-batch.

    Returns:
        The sums of all micro-batches; `number` is that of the last.

    Raises:
        FlintError: as export.
    """
    from flintmq.spark.stream.reader import StreamReader

    options = ExportOptions.of(root, config, choices)
    files = options.files
    stop = stop or threading.Event()
    for place in filter(None, (out, options.checkpoint)):
        outside_store(place, root, config)
    with locked(os.path.abspath(local_only(out)), target_kind(options.to)) as target:
        reader = StreamReader(StreamOptions(options.read, max_offsets=max_offsets, max_bytes=max_bytes), None)
        query = _Query(spark, reader, target, files, ExportCheckpoint.at(options.checkpoint, target.root))
        if once:
            reader.prepareForTriggerAvailableNow()
        total = Exported(begin=query.end, end=query.end, notes=dict(target.notes))
        while not stop.is_set():
            done = query.batch()
            if done is not None:
                _add(total, done)
                if on_batch is not None:
                    on_batch(done)
            if (done is None and once) or (not query.behind and not once and stop.wait(interval_s)):
                break
    return total


class _Query:
    """One streaming export: the published exports, and the next micro-batch."""

    def __init__(
        self,
        spark: SparkSession,
        reader: StreamReader,
        target: ExportTarget,
        files: FileOptions,
        copy: ExportCheckpoint,
    ) -> None:
        self.spark, self.reader, self.target, self.files, self.copy = spark, reader, target, files, copy
        self.choice = choice_of(reader.options.read, files, stream=True)
        self.last: Manifest | None = target.last()
        self.offsets = reader.initialOffset()
        if self.last is not None:
            check_same(target, self.last, reader.log, self.choice)
            self.offsets = self.last.offsets or {}
        copy.check(self.last)
        target.check(self.last, files.shape.schema(), files.partition_by)
        copy.keep(self.last)
        self.behind = False

    @property
    def end(self) -> int:
        """Log offset where the last export ended; 0 before the first."""
        return 0 if self.last is None else self.last.end

    def batch(self) -> Exported | None:
        """Export the next micro-batch; return None if there is nothing new."""
        end = self.reader.latestOffset(self.offsets, self.reader.getDefaultReadLimit())
        self.behind = bool(self.reader.reportLatestOffset()["lagMessages"])
        if end == self.offsets:
            return None
        parts = [partition.part for partition in self.reader.partitions(self.offsets, end)]
        tasks = str(self.target.stage())
        answers = run_tasks(self.spark, partial(export_part, tasks, self.files), parts)
        done = Exported()
        done.count(answers)
        if parts:
            done.begin, done.end = parts[0].begin, parts[-1].end
        if done.rows:
            made = [PartFile(*part) for answer in answers for part in answer["files"]]
            made = combined(made, self.files, tasks, parallelism(self.spark), partial(run_tasks, self.spark))
            self.last = publish(self.target, self.last, done, self.choice, answers, made, self.files.shape, end)
            done.notes |= self.target.notes
            self.copy.keep(self.last)
        self.offsets = end
        return done


def export_part(tasks: str, files: FileOptions, part: plan.StreamTask) -> dict[str, Any]:
    """Run one task: write the messages of one part of a micro-batch as Parquet files.

    The files are in a directory of this attempt.

    Raises:
        CorruptStoreError, StoreError: damage or loss, and failOnDataLoss is set.
        OSError: the disk is full or fails.
    """
    report = Report()
    batches = read_part(part, SPARK_SCHEMA, report, SCAN_BYTES, apart=True)
    return write_files(batches, part.log, tasks, files, part.begin, report)


def _add(total: Exported, done: Exported) -> None:
    """Add the result of a micro-batch to the sums."""
    total.begin = total.begin if total.rows else done.begin
    total.number, total.end = done.number or total.number, max(total.end, done.end)
    for name in ("rows", "files", "bytes", "damages", "lost_bytes", "bad_bodies"):
        setattr(total, name, getattr(total, name) + getattr(done, name))
