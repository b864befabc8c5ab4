"""Offers the queues of a store as a table, read from their files without any message.

Spark reads every column of a Python source for `count()`. The ends of the queues, which their files contain, answer
most such queries without the log.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from flintmq.errors import UsageError
from flintmq.spark.failing import rows_from_one_frame

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from flintmq.lake.read.options import ReadOptions

COLUMNS = "topic string, queue_id int, min_offset bigint, max_offset bigint, messages bigint"
"""Columns of the view, as DDL: max_offset is the offset after the last message, messages their number."""


def queue_schema(many: bool = False) -> StructType:
    """Return the schema of the view; of several stores with the columns broker and store."""
    from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

    from flintmq.arrow.schema import member_columns

    types = {"string": StringType, "int": IntegerType, "bigint": LongType}
    columns = ", ".join([COLUMNS, *(f"{name} string" for name in member_columns(many))])
    return StructType([StructField(name, types[kind]()) for name, kind in map(str.split, columns.split(", "))])


class QueueReader(DataSourceReader):
    """Yields a row for each queue that has or had messages, among those that the options select."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        if not set(schema) <= set(queue_schema(options.many)):  # the source in the JVM asks for some of them
            raise UsageError(f"view queues has the columns {COLUMNS}; leave .schema(...) and the option columns out")
        self.options, self.wanted = options, schema

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(None)]

    @rows_from_one_frame
    def read(self, partition: InputPartition) -> Generator[pa.RecordBatch, None, None]:
        import pyarrow as pa

        from flintmq.lake.read.members import broker_members, lacked_by_all
        from flintmq.spark.schema import arrow_schema
        from flintmq.store.commitlog.report import Report

        rows: list[dict[str, object]] = []
        lacking: list[dict[str, UsageError]] = []
        for member in broker_members(self.options, Report()):
            found, missing = _rows(self.options.of(member), member.words)
            rows += found
            lacking.append(missing)
        for error, _ in lacked_by_all(lacking) if self.options.fail_on_data_loss else ():
            raise error
        schema = arrow_schema(self.wanted)
        yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _rows(options: ReadOptions, words: dict[str, str]) -> tuple[list[dict[str, object]], dict[str, UsageError]]:
    """Return the rows of one store, and an error for each named topic that it does not have."""
    from flintmq.lake.read.asked import go_on
    from flintmq.lake.stream.queues import StreamQueues
    from flintmq.store.read.known_topics import unknown_topics

    queues = StreamQueues(options)
    rows: list[dict[str, object]] = [
        {
            "topic": name.topic,
            "queue_id": name.queue_id,
            "min_offset": low,
            "max_offset": high,
            "messages": high - low,
            **words,
        }
        for name, (low, high) in sorted(queues.bounds.items())
    ]
    return rows, unknown_topics(queues.lookup, options.predicate, go_on(options))
