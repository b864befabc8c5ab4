"""The Spark source and sink `flintmq`: `spark.read.format("flintmq").load(STORE)`; the sink is in `sink/`.

Spark plans in one Python process and reads in others. Planning finds where the log ends and cuts it into splits; what
is written afterwards is not read, so that two actions on one DataFrame see the same rows. A task opens the log itself,
scans its split with the kernels and hands over ready record batches in exactly the schema that Spark expects. Spark
does not tell which columns it uses: the option `columns` and `.schema(...)` do.

This module is imported to find sources by name: it imports nothing that is not needed for that.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)

from flintmq.errors import UsageError
from flintmq.spark.failing import from_one_frame, rows_from_one_frame

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

    from flintmq.lake.options import ReadOptions
    from flintmq.lake.scan import ScanPlan
    from flintmq.lake.splits import LogRange
    from flintmq.store.commitlog.predicate import Predicate

PUSHING_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


class FlintMQSource(DataSource):
    """RocketMQ message stores as a table: a row is a record of the commit log."""

    @classmethod
    def name(cls) -> str:
        """What follows `format(` and `USING`."""
        return "flintmq"

    @from_one_frame
    def schema(self) -> StructType:
        """The one schema, or the columns of it that the option `columns` names.

        Raises:
            UsageError: an option is wrong; or CREATE TABLE, of which Spark gives no option to those who read it.
        """
        from flintmq.lake.options import is_table
        from flintmq.spark.queue_view import queue_schema
        from flintmq.spark.schema import spark_schema
        from flintmq.spark.stream.options import StreamOptions, is_stream

        options = dict(self.options)
        if is_table(options):
            raise UsageError(
                "flintmq makes no tables in Spark's catalog, which keeps their options to itself: use CREATE TEMPORARY "
                "VIEW ... USING flintmq OPTIONS (path '...')"
            )
        read = StreamOptions.parse(options).read if is_stream(options) else self._options()
        return queue_schema() if read.view == "queues" else spark_schema(read.columns)

    @from_one_frame
    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of these columns.

        Raises:
            UsageError: an option is wrong, or the schema is none that this source has.
        """
        from flintmq.spark.schema import check_schema

        options = self._options()
        if options.view == "queues":
            from flintmq.spark.queue_view import QueueReader

            return QueueReader(options, schema)
        check_schema(schema, options.columns)
        # A reader that takes filters is an error where the session does not offer them; Spark plans with another
        # worker where it does.
        pushes = options.pushdown and PUSHING_WORKER in sys.modules
        return FilteringReader(options, schema) if pushes else BatchReader(options, schema)

    @from_one_frame
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A reader of micro-batches with these columns.

        Raises:
            UsageError: an option is wrong, or the schema is none that this source has.
        """
        from flintmq.spark.schema import check_schema
        from flintmq.spark.stream.options import StreamOptions
        from flintmq.spark.stream.reader import StreamReader

        options = StreamOptions.parse(dict(self.options))
        if options.read.view == "queues":
            raise UsageError("option view: queues is for spark.read; a stream gives messages")
        check_schema(schema, options.read.columns)
        return StreamReader(options, schema)

    @from_one_frame
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A writer of messages into a store, in batch.

        Raises:
            UsageError: an option or a column is wrong, or the mode is not append.
        """
        from flintmq.spark.sink.writer import writer

        return writer(dict(self.options), schema, overwrite)

    @from_one_frame
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """A writer of messages into a store, of micro-batches.

        Raises:
            UsageError: an option or a column is wrong, or the output mode is not append.
        """
        from flintmq.spark.sink.writer import stream_writer

        return stream_writer(dict(self.options), schema, overwrite)

    def _options(self) -> ReadOptions:
        from flintmq.lake.options import ReadOptions

        return ReadOptions.parse(dict(self.options))


class Split(InputPartition):
    """One task's part: a range of the plan's log."""

    def __init__(self, plan: ScanPlan, part: LogRange) -> None:
        super().__init__((part.begin, part.end))
        self.plan, self.part = plan, part


class BatchReader(DataSourceReader):
    """Plans splits, and reads one in a task."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self.options, self.wanted = options, schema

    @from_one_frame
    def partitions(self) -> list[InputPartition]:
        """Splits of about equal bytes, two a processor of this machine, at least as many as `minPartitions`.

        Raises:
            NotAStoreError, UnsupportedFormatError, StoreAccessError: the store cannot be read.
            UsageError, StoreError: (failOnDataLoss) a topic, queue, offset or time that the store does not have.
        """
        from flintmq.lake.scan import plan_scan
        from flintmq.lake.splits import cores, estimated_records, files_of, shares, split_count
        from flintmq.spark.pushdown import described
        from flintmq.store.commitlog.report import Report

        report = Report()
        plan = plan_scan(self.options, report, self._narrowed)
        for note in report.notes:
            _log_line(note.text)
        count = split_count(plan.end - plan.begin, cores(), self.options.least_splits)
        if self.options.most_records is not None:
            count = max(count, -(-estimated_records(plan.log, plan.begin, plan.end) // self.options.most_records))
        if self.options.verbose:
            _log_line(
                f"{self.options.path}: {count} splits of log offsets {plan.begin} to {plan.end}; "
                f"records with {described(plan.options.predicate)}"
            )
        parts = shares(plan.log, plan.begin, plan.end, count)
        return [Split(replace(plan, log=files_of(plan.log, part)), part) for part in parts]

    def _narrowed(self, predicate: Predicate) -> Predicate:
        """What filters make of the predicate: nothing here."""
        return predicate

    @rows_from_one_frame
    def read(self, partition: InputPartition) -> Generator[pa.RecordBatch, None, None]:
        """The rows of one split. May be called again for the same split, and gives the same rows.

        Raises:
            CorruptStoreError: damage in the split, unless failOnDataLoss=false.
            StoreAccessError, StoreError: a file cannot be read or was deleted.
        """
        from flintmq.lake.scan import scan_range
        from flintmq.spark.schema import check_schema
        from flintmq.spark.worker import freeze_once
        from flintmq.store.commitlog.report import Report

        if not isinstance(partition, Split):  # of an empty plan Spark makes InputPartition(None)
            return
        freeze_once()
        report = Report()
        batches = scan_range(partition.plan, partition.part, check_schema(self.wanted, None), report)
        try:
            yield from batches
        finally:
            batches.close()
            if report.damage_count:
                first = report.damages[0]
                _log_line(
                    f"passed over {report.damage_count} damaged places, {report.lost_bytes} bytes of the log; "
                    f"the first: {first.file}, position {first.position}: {first.reason}"
                )


class FilteringReader(BatchReader):
    """A reader that uses Spark's filters to read less. Spark applies them as well, and plans anew for each action."""

    _filters: Sequence[Filter] = ()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take from the filters what the scan can use; all of them go back to Spark."""
        self._filters = list(filters)
        return filters

    def _narrowed(self, predicate: Predicate) -> Predicate:
        from flintmq.spark.pushdown import narrowed

        return narrowed(predicate, self._filters)


def _log_line(text: str) -> None:
    """A line for whoever reads the log of the driver or of the worker; Spark has no better place for it."""
    print(f"flintmq: {text}", file=sys.stderr, flush=True)
