"""Implements Spark's interface for writing: tasks stage rows in files, the driver commits.

Spark makes the writer in one Python process, writes in others and commits in a third: they share only the store's
directory and the messages of the tasks. A stream's tasks learn the id of their query, which is that of its checkpoint,
from a property of their job; the commit learns it from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from flintmq.errors import UsageError
from flintmq.spark.jobs.replay.refusals import batches_of, target_config
from flintmq.spark.sink.commit import BadFile, checked_by, commit, discard, stage
from flintmq.spark.sink.options import SinkOptions
from flintmq.spark.sink.query import id_in, tag
from flintmq.spark.sink.rows import WAYS, as_json, check_columns, judge, named, of_topic
from flintmq.spark.worker import freeze_once
from flintmq.storage.files.filesystem import REAL
from flintmq.store.append.unique_keys import UniqueKeys

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter

    BY_ROWS = False
except ImportError:  # Spark 4.0, which gives a stream's rows one by one
    from pyspark.sql.datasource import DataSourceStreamWriter as DataSourceStreamArrowWriter  # type: ignore[assignment]

    BY_ROWS = True

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import Row, StructType

ROWS_AT_ONCE = 1000  # of a stream on Spark 4.0
QUERY_ID = "sql.streaming.queryId"  # Spark's StreamExecution.QUERY_ID_KEY, a local property of each of its jobs


@dataclass
class Staged(WriterCommitMessage):
    file: str
    rows: int
    bad: str = ""
    query: str | None = None


class _Writer:
    """A write of a batch or of a stream."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Stage the rows of a task that make messages.

        The other rows go into a separate file, or end the query.
        """
        from pyspark import TaskContext

        freeze_once()
        options = self.options
        context = TaskContext.get()
        query = context.getLocalProperty(QUERY_ID) if context is not None and options.stream else None
        part = f" of partition {context.partitionId()}" if context is not None else ""
        config, inner = target_config(options.path, options.config), batches_of(options.path)
        mark = tag(options.query or query)
        bad_file, first = BadFile(options.path, mark), 0
        unique = UniqueKeys(REAL) if options.unique_keys else None

        def rows() -> Iterator[pa.RecordBatch]:
            nonlocal first
            for batch in iterator:
                if not batch.num_rows:
                    continue
                if options.topic is not None:
                    batch = of_topic(batch, options.topic)
                filled, bad = judge(batch, config, inner, unique, options.topic)
                for row, why in bad:
                    if not options.bad_rows:
                        raise UsageError(f"{named(batch, row, f'row {first + row}{part}')}: {why}; {WAYS}")
                    bad_file.write(as_json(batch, row, why))
                first += batch.num_rows
                if filled.num_rows:
                    yield filled

        with bad_file:
            name, count = stage(options.path, rows(), mark, checked_by(config, inner))
        return Staged(name, count, bad_file.name, query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int | None = None) -> None:
        """Put the batch into the store, unless it was put before.

        `batchId`: of a stream, the number of the batch.
        """
        options = self.options
        batch = options.batch if batchId is None else batchId
        staged = [message for message in messages if isinstance(message, Staged)]
        query = next((message.query for message in staged if message.query), None)
        if options.stream and options.query is None and query is None:
            query = id_in(options.checkpoint)
        bad = [message.bad for message in staged if message.bad]
        commit(options, batch, [message.file for message in staged if message.file], bad, query)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int | None = None) -> None:
        """Remove the staged files, unless a commit has begun to put them."""
        staged = [message for message in messages if isinstance(message, Staged)]
        discard(self.options.path, [name for message in staged for name in (message.file, message.bad) if name])


class BatchWriter(_Writer, DataSourceArrowWriter):  # type: ignore[misc]
    pass


class StreamWriter(_Writer, DataSourceStreamArrowWriter):  # type: ignore[misc]
    pass


class RowWriter(StreamWriter):
    """A stream's writer on Spark 4.0."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        super().__init__(options)
        self.schema = schema

    def write(self, iterator: Iterator[Row]) -> Staged:  # type: ignore[override]
        return super().write(batches_of_rows(iterator, self.schema))


def batches_of_rows(rows: Iterator[Row], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yield rows of Spark's as record batches."""
    import pyarrow as pa

    from flintmq.spark.schema import arrow_schema

    columns = arrow_schema(schema)
    while some := list(islice(rows, ROWS_AT_ONCE)):
        values = [row.asDict() for row in some]
        arrays = [pa.array([_pairs(row[field.name]) for row in values], field.type) for field in columns]
        yield pa.RecordBatch.from_arrays(arrays, schema=columns)


def _pairs(value: object) -> object:
    return list(value.items()) if isinstance(value, dict) else value


def writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    if overwrite:
        raise UsageError('mode("overwrite") would delete a store\'s messages; use mode("append"), or a new directory')
    given = SinkOptions.parse(options, stream=False)
    check_columns(schema, given.topic)
    return BatchWriter(given)


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:
    if overwrite:
        raise UsageError('outputMode("complete") would write all rows again each time; use outputMode("append")')
    given = SinkOptions.parse(options, stream=True)
    check_columns(schema, given.topic)
    return RowWriter(given, schema) if BY_ROWS else StreamWriter(given)
