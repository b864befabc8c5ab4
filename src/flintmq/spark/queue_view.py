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

    from flintmq.lake.options import ReadOptions

COLUMNS = "topic string, queue_id int, min_offset bigint, max_offset bigint, messages bigint"
"""Columns of the view, as DDL: max_offset is the offset after the last message, messages their number."""


def queue_schema() -> StructType:
    """Return the schema of the view."""
    from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

    types = {"string": StringType, "int": IntegerType, "bigint": LongType}
    return StructType([StructField(name, types[kind]()) for name, kind in map(str.split, COLUMNS.split(", "))])


class QueueReader(DataSourceReader):
    """Yields a row for each queue that has or had messages, among those that the options select."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        if schema.simpleString() != queue_schema().simpleString():
            raise UsageError(f"view queues has the columns {COLUMNS}; leave .schema(...) and the option columns out")
        self.options = options

    def partitions(self) -> list[InputPartition]:
        """Return one partition: files of queues are small."""
        return [InputPartition(None)]

    @rows_from_one_frame
    def read(self, partition: InputPartition) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows as one batch.

        Raises:
            NotAStoreError, UnsupportedFormatError, StoreAccessError: the store cannot be read.
            UsageError: (failOnDataLoss) the store does not have a named topic.
        """
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        from flintmq.lake.asked import unknown_topics
        from flintmq.spark.stream.queues import StreamQueues

        queues = StreamQueues(self.options)
        missing = unknown_topics(queues.lookup, self.options.predicate)
        if missing and self.options.fail_on_data_loss:
            raise missing[0]
        rows = [
            {
                "topic": name.topic,
                "queue_id": name.queue_id,
                "min_offset": low,
                "max_offset": high,
                "messages": high - low,
            }
            for name, (low, high) in sorted(queues.bounds.items())
        ]
        yield pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(queue_schema(), timezone="UTC"))
