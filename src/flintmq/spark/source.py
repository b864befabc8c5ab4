"""Implements the Spark source and sink `flintmq`: `spark.read.format("flintmq").load(PATH)`.

Spark plans in one Python process and reads in others. Planning finds where the log ends and cuts it into splits; later
records are not read, so that two actions on one DataFrame see the same rows. A task opens the log itself, scans its
split with the kernels and returns record batches in exactly the schema that Spark expects. Spark does not report which
columns it uses: the option `columns` and `.schema(...)` do. The sink is in `sink/`.

This module is imported to find sources by name: it imports nothing that is not needed for that.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Generator, Iterable
from dataclasses import replace
from functools import partial
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

    from flintmq.cluster.member import Member
    from flintmq.lake.read.options import ReadOptions
    from flintmq.lake.read.scan import ScanPlan
    from flintmq.spark.part import Part
    from flintmq.store.commitlog.pushdown import Comparison

log = logging.getLogger("flintmq.spark")

PUSHING_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


class FlintMQSource(DataSource):
    """RocketMQ message stores as a table: a row is a record of the commit log."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)` and `USING`."""
        return "flintmq"

    @from_one_frame
    def schema(self) -> StructType:
        """Return the schema of a load: the one schema, or that of the history.

        The option `columns` may name some of its columns.
        """
        from flintmq.lake.read.options import is_table
        from flintmq.lake.stream.options import StreamOptions, is_stream
        from flintmq.spark.schema import columns_of, spark_schema
        from flintmq.spark.versions import check_spark
        from flintmq.spark.views import view_schema

        check_spark()
        options = dict(self.options)
        if is_table(options):
            raise UsageError(
                "flintmq makes no tables in Spark's own catalog, which keeps their options to itself: use CREATE "
                "TEMPORARY VIEW ... USING flintmq OPTIONS (path '...'), or a catalog whose tables are topics: "
                "spark.sql.catalog.mq=flintmq.spark.Catalog and spark.sql.catalog.mq.path=STORE"
            )
        read = StreamOptions.parse(options).read if is_stream(options) else self._options()
        if read.history is not None:
            from flintmq.spark.history import history_schema

            return history_schema(read)
        if read.view != "messages":
            return view_schema(read.view, read.many)
        return spark_schema(read.columns, columns_of(read))

    @from_one_frame
    def reader(self, schema: StructType) -> DataSourceReader:
        from flintmq.spark.schema import check_schema, columns_of

        options = self._options()
        if options.view != "messages":
            from flintmq.spark.views import ViewReader

            return ViewReader(options, schema)
        if options.history is not None:
            from flintmq.spark.history import HistoryReader

            return HistoryReader(options, schema)
        check_schema(schema, options.columns, columns_of(options))
        # On request only: Spark keeps what it planned by the filters of one query for every other query of the same
        # DataFrame, which then lacks rows (PythonScanBuilder.pushFilters calls PythonDataSourceV2.setReadInfo; 4.1 to
        # 4.3). A reader with pushFilters is an error in a session that does not offer filters; in one that does, Spark
        # plans with another worker.
        pushes = options.pushdown and PUSHING_WORKER in sys.modules
        return FilteringReader(options, schema) if pushes else BatchReader(options, schema)

    @from_one_frame
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Make a reader of micro-batches with these columns."""
        from flintmq.lake.stream.options import StreamOptions
        from flintmq.spark.schema import check_schema, columns_of
        from flintmq.spark.stream import StreamReader

        options = StreamOptions.parse(dict(self.options))
        if options.read.view != "messages":
            raise UsageError(f"option view: {options.read.view} is for spark.read; a stream has messages")
        if options.read.history is not None:
            from flintmq.spark.history import HistoryStreamReader

            return HistoryStreamReader(options, schema)
        check_schema(schema, options.read.columns, columns_of(options.read))
        return StreamReader(options, schema)

    @from_one_frame
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from flintmq.spark.sink.writer import writer

        return writer(dict(self.options), schema, overwrite)

    @from_one_frame
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Make a writer of messages into a store, of micro-batches."""
        from flintmq.spark.sink.writer import stream_writer

        return stream_writer(dict(self.options), schema, overwrite)

    def _options(self) -> ReadOptions:
        from flintmq.lake.read.options import ReadOptions

        return ReadOptions.parse(dict(self.options))


class BatchReader(DataSourceReader):
    """Plans splits in the planner, and reads one in a task."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self.options, self.wanted = options, schema
        self.comparisons: list[Comparison] = []  # of Spark's filters, which Spark applies too

    @from_one_frame
    def partitions(self) -> list[InputPartition]:
        """Plan splits of similar size: two per core of this machine, at least `minPartitions`."""
        return self.splits(self.plans())

    def plans(self) -> list[tuple[Member, ScanPlan]]:
        """Plan what is read of each store."""
        from flintmq.lake.read.members import plan_members
        from flintmq.spark.stream import lines_of
        from flintmq.store.commitlog.pushdown import narrowed
        from flintmq.store.commitlog.report import Report

        report = Report()
        plans = plan_members(
            self.options, report, lambda predicate: narrowed(predicate, self.comparisons), self.comparisons
        )
        for line in lines_of(report):
            log.warning("%s", line)
        return plans

    @staticmethod
    def narrowed(plans: list[tuple[Member, ScanPlan]], limits: list[Comparison]) -> list[tuple[Member, ScanPlan]]:
        """Return what is left of plans by comparisons that Spark applies too."""
        from flintmq.cluster.members import only_named
        from flintmq.lake.read.scan import narrowed_plan

        wanted = set(only_named([member for member, _ in plans], limits))
        return [(member, narrowed_plan(plan, limits)) for member, plan in plans if member in wanted]

    def splits(self, plans: list[tuple[Member, ScanPlan]]) -> list[InputPartition]:
        whole = sum(plan.end - plan.begin for _, plan in plans)
        return [split for member, plan in plans for split in self._splits(member, plan, whole)]

    def _splits(self, member: Member, plan: ScanPlan, whole: int) -> list[Part]:
        """Cut the plan of one store into splits.

        `whole`: bytes of log of all stores: each gets its share of the splits, and one at least.
        """
        from flintmq.lake.read.explode import before_exploding
        from flintmq.lake.read.scan import scan_range
        from flintmq.lake.read.splits import cores, estimated_records, files_of, shares, split_count, wanted_runs
        from flintmq.spark.part import Part
        from flintmq.spark.pushdown import described
        from flintmq.store.commitlog.zones import skips_of

        span = plan.end - plan.begin
        count = split_count(whole, cores(), self.options.least_splits)
        count = -(-count * span // whole) if whole else 1
        if self.options.most_records is not None:
            count = max(count, -(-estimated_records(plan.log, plan.begin, plan.end) // self.options.most_records))
        count = max(count, 1)
        if self.options.verbose:
            log.warning(
                "%s",
                f"{plan.options.path}: {count} splits of log offsets {plan.begin} to {plan.end}; "
                f"records with {described(plan.options.predicate)}",
            )
        asked = plan.options.predicate
        asked = before_exploding(asked) if plan.options.explode else asked
        runs = wanted_runs(plan.begin, plan.end, skips_of(plan.log, asked), 4 * count)
        left = sum(end - begin for begin, end in runs)
        parts = [
            part
            for begin, end in runs
            for part in shares(plan.log, begin, end, max(1, count * (end - begin) // left) if left else count)
        ]
        small = ((part, replace(plan, log=files_of(plan.log, part))) for part in parts)
        return [Part.of(member, part, partial(scan_range, own, part)) for part, own in small]

    @rows_from_one_frame
    def read(self, partition: InputPartition) -> Generator[pa.RecordBatch, None, None]:
        from flintmq.spark.part import shaped_rows
        from flintmq.spark.worker import damage_in

        yield from shaped_rows(self.options, self.wanted, partition, damage_in, partial(log.warning, "%s"))


class FilteringReader(BatchReader):
    """Reads less by Spark's filters, for a DataFrame of a single query; Spark applies them too."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Keep the filters for planning, and return all of them, since Spark must apply them."""
        from flintmq.spark.pushdown import comparisons

        self.comparisons = comparisons(filters)
        return filters
