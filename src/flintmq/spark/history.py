"""Implements Spark's readers of a table of exports and its stores as one."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from flintmq.lake.history.history_stream import HistoryStream
from flintmq.lake.stream.reader import log_line
from flintmq.spark.failing import from_one_frame, rows_from_one_frame
from flintmq.spark.part import Part, rows_of_task
from flintmq.spark.stream import StreamReader, lines_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from flintmq.lake.history.history import History, HistoryTask
    from flintmq.lake.read.options import ReadOptions
    from flintmq.lake.stream.options import StreamOptions

FILES_A_CORE = 4  # tasks for the files of a table, as long as it has so many


def history_schema(options: ReadOptions) -> StructType:
    """Return the columns of a read with history: all of its table, or those of `columns`."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from flintmq.arrow.schema import narrow
    from flintmq.lake.history.history import History

    return from_arrow_schema(narrow(options.columns, History.of_options(options).schema))


class HistoryReader(DataSourceReader):
    """Plans files of the table and ranges of the logs in the planner, and reads some in a task."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        check_columns(options, schema)
        self.options, self.wanted = options, schema

    @from_one_frame
    def partitions(self) -> list[InputPartition]:
        """Plan the tasks: of the version that the table has now, and of what the logs have after it."""
        from flintmq.lake.history.history import History
        from flintmq.lake.read.splits import cores, split_count
        from flintmq.store.commitlog.report import Report

        report, history = Report(), History.of_options(self.options)
        least = self.options.least_splits
        tasks = history.tasks(
            report, lambda span: split_count(span, cores(), least), max(least, FILES_A_CORE * cores())
        )
        planned = _parts(history, tasks)
        for line in lines_of(report):
            log_line(line)
        return planned

    @rows_from_one_frame
    def read(self, partition: InputPartition) -> Generator[pa.RecordBatch, None, None]:
        yield from _rows(partition, self.wanted)


class HistoryStreamReader(StreamReader):
    """Plans micro-batches of the table, then of the stores; reads a part of one in a task."""

    def __init__(self, options: StreamOptions, schema: StructType) -> None:
        check_columns(options.read, schema)
        self.options, self.wanted = options, schema
        self.stream: Any = HistoryStream(options)

    @from_one_frame
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]:
        return _parts(self.stream.history, self.stream.tasks(start, end))

    @rows_from_one_frame
    def read(self, partition: InputPartition) -> Generator[pa.RecordBatch, None, None]:
        yield from _rows(partition, self.wanted)


def check_columns(options: ReadOptions, schema: StructType) -> None:
    from dataclasses import replace

    from flintmq.spark.schema import check_same

    check_same(schema, history_schema(replace(options, columns=tuple(schema.fieldNames()))), options.columns)


def _parts(history: History, tasks: Iterable[HistoryTask]) -> list[InputPartition]:
    from flintmq.lake.history.history import task_rows

    return [Part(task, partial(task_rows, history.shape, history.predicate, task)) for task in tasks]


def _rows(partition: InputPartition, wanted: StructType) -> Iterator[pa.RecordBatch]:
    from flintmq.spark.schema import arrow_schema
    from flintmq.store.commitlog.report import Report

    return rows_of_task(partition, arrow_schema(wanted), Report(), lines_of, log_line)
