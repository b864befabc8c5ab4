"""Implements Spark's stream reader: the driver plans by lake/stream, tasks read."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from flintmq.errors import UsageError
from flintmq.lake.stream.members import StoresStream
from flintmq.lake.stream.reader import log_line
from flintmq.spark.failing import from_one_frame, rows_from_one_frame
from flintmq.spark.part import Part, shaped_rows
from flintmq.store.commitlog.report import KEPT, LOST, Report

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow
except ImportError:  # Spark 4.0 and 4.1, which ask no Python source for limits

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        pass

    class ReadAllAvailable:  # type: ignore[no-redef]
        pass

    class ReadMaxRows:  # type: ignore[no-redef]
        def __init__(self, max_rows: int) -> None:
            self.max_rows = max_rows


if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from flintmq.lake.stream.options import StreamOptions


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches in the driver, and reads a part of one in a task."""

    _goes_on = False  # whether a micro-batch was planned

    def __init__(self, options: StreamOptions, schema: StructType) -> None:
        self.options, self.wanted = options, schema
        self.stream: Any = StoresStream(options)

    @from_one_frame
    def initialOffset(self) -> dict[str, Any]:
        return dict(self.stream.initial())

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return whether there is a limit; `latestOffset` applies the options."""
        most = self.most_rows()
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def most_rows(self) -> int | None:
        """Return the most messages of a micro-batch; None if no option limits it."""
        most = self.options.max_offsets
        limits = any((most, self.options.max_bytes, self.options.min_offsets))
        return most or sys.maxsize if limits else None

    @from_one_frame
    def prepareForTriggerAvailableNow(self) -> None:
        """Set the target of the query to the present end of the store."""
        self.stream.end_now()

    @from_one_frame
    def latestOffset(self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None) -> dict[str, Any]:
        """Return the end of the next micro-batch; `start` itself if there is not enough to read.

        Spark 4.0 and 4.1 give neither: then it is all that there is.
        """
        if start is None or limit is None:
            if self.most_rows() is not None:
                raise UsageError(
                    "Spark 4.0 and 4.1 do not limit micro-batches of a Python source; leave maxOffsetsPerTrigger and "
                    "alike out, or use the source in the JVM (spark.jars)"
                )
            self._go_on()
            return dict(self.stream.present_end())
        return self.next_end(start, limits=not isinstance(limit, ReadAllAvailable))

    def next_end(self, start: dict[str, Any], limits: bool) -> dict[str, Any]:
        """Return the end of the next micro-batch."""
        self._go_on()
        return dict(self.stream.next_end(start, limits=limits))

    def _go_on(self) -> None:
        """Name topics that are not there, once in a query that goes on from a checkpoint.

        `initialOffset` names them for a new one.
        """
        if not self._goes_on:
            self._goes_on = True
            self.stream.tell_unknown()

    @from_one_frame
    def reportLatestOffset(self) -> dict[str, Any]:
        """Return the end of the store, and the lag of the query, for the query's progress.

        `lagMessages` is exact, `lagBytes` (of the commit log) is estimated if it is more than a few megabytes.
        """
        return dict(self.stream.progress())

    @from_one_frame
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Part]:
        from flintmq.lake.stream.scan import read_part

        return [Part.of(member, task, partial(read_part, task)) for member, task in self.stream.tasks(start, end)]

    @rows_from_one_frame
    def read(self, partition: InputPartition) -> Generator[pa.RecordBatch, None, None]:
        yield from shaped_rows(self.options.read, self.wanted, partition, lines_of, log_line)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: Spark's checkpoint records the progress."""

    def stop(self) -> None:
        """Do nothing: no file is kept open."""


def lines_of(report: Report) -> Iterator[str]:
    """Yield the messages of a plan or a task for the log: one line of each code.

    Spark plans anew for each action. A store that is left out is always named.
    """
    from flintmq.spark.worker import damage_in

    yield from damage_in(report)
    for code, texts in report.texts(KEPT).items():
        more = report.note_counts[code] - 1
        if code == LOST or not more:
            yield from texts
        else:
            yield f"{texts[0]} (and {more} more notes like it; `flintmq verify` shows all)"
