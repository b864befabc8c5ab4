"""The queues of a store as a table, from their files alone: counts of messages that cost no look at a message.

Spark reads every column of a Python source for `count()`. What the queues' files say of their ends answers most such
questions without the log.
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
"""Of the view, as DDL: max_offset is the offset behind the last message, messages their number."""


def queue_schema() -> StructType:
    """The schema of the view."""
    from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

    types = {"string": StringType, "int": IntegerType, "bigint": LongType}
    return StructType([StructField(name, types[kind]()) for name, kind in map(str.split, COLUMNS.split(", "))])


class QueueReader(DataSourceReader):
    """Gives a row for each queue that has or had messages, of those that the options ask for."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        if schema.simpleString() != queue_schema().simpleString():
            raise UsageError(f"view queues has the columns {COLUMNS}; leave .schema(...) and the option columns out")
        self.options = options

    def partitions(self) -> list[InputPartition]:
        """One: files of queues are small."""
        return [InputPartition(None)]

    @rows_from_one_frame
    def read(self, partition: InputPartition) -> Generator[pa.RecordBatch, None, None]:
        """The rows.

        Raises:
            NotAStoreError, UnsupportedFormatError, StoreAccessError: the store cannot be read.
            UsageError: (failOnDataLoss) a topic that the store does not have.
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
