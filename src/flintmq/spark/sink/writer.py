"""What Spark calls to write: tasks stage rows in files, and the driver's commit puts them into the store.

Spark makes the writer in one Python process, writes in others and commits in a third: they share nothing but the
store's directory and the messages of the tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from flintmq.errors import UsageError
from flintmq.spark.jobs.run import freeze_once
from flintmq.spark.sink.commit import commit, discard, stage
from flintmq.spark.sink.options import SinkOptions
from flintmq.spark.sink.rows import check_columns, to_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


@dataclass
class Staged(WriterCommitMessage):
    """What a task wrote: the name of its staged file (empty: none), and how many rows."""

    file: str
    rows: int


class BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:  # type: ignore[override]
        """Stage the rows of a task."""
        return _write(self.options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Put everything into the store."""
        commit(self.options, self.options.batch, _files(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Take back what was staged, if none of it was put."""
        discard(self.options.path, _files(messages))


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:  # type: ignore[override]
        """Stage the rows of a task."""
        return _write(self.options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Put a micro-batch into the store, unless it is there."""
        commit(self.options, batchId, _files(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Take back what was staged, if none of it was put."""
        discard(self.options.path, _files(messages))


def writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    """The writer of a DataFrame.

    Raises:
        UsageError: an option or a column is wrong, or the mode is not append.
    """
    if overwrite:
        raise UsageError(
            'mode("overwrite") would throw a store\'s messages away; use mode("append"), or a new directory'
        )
    check_columns(schema)
    return BatchWriter(SinkOptions.parse(options, stream=False))


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:
    """The writer of a stream.

    Raises:
        UsageError: an option or a column is wrong, or the output mode is not append.
    """
    if overwrite:
        raise UsageError('outputMode("complete") would write all rows again each time; use outputMode("append")')
    check_columns(schema)
    return StreamWriter(SinkOptions.parse(options, stream=True))


def _write(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> Staged:
    freeze_once()
    rows = (to_schema(batch, options.config) for batch in batches if batch.num_rows)
    return Staged(*stage(options.path, rows))


def _files(messages: list[WriterCommitMessage | None]) -> list[str]:
    return [message.file for message in messages if isinstance(message, Staged) and message.file]
