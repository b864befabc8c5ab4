"""Holds the parts of a plan, one a task, and reads their rows."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition

from flintmq.arrow.members import rows_of_members
from flintmq.spark.worker import freeze_once
from flintmq.store.commitlog.report import Report

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from flintmq.cluster.member import Member
    from flintmq.lake.read.options import ReadOptions

    Rows = Callable[[pa.Schema, Report], Generator[pa.RecordBatch, None, None]]


class Part(InputPartition):
    """Holds what one task reads.

    `part`: the range of a log, the part of a micro-batch, or the files of a table. `rows`: reads it; picklable.
    """

    def __init__(self, part: Any, rows: Rows) -> None:
        super().__init__(None)
        self.part, self.rows = part, rows

    @classmethod
    def of(cls, member: Member, part: Any, rows: Rows) -> Part:
        """Return a part whose rows get the columns that name the store."""
        return cls(part, partial(_named, member, rows))


def _named(member: Member, rows: Rows, schema: pa.Schema, report: Report) -> Generator[pa.RecordBatch, None, None]:
    return rows_of_members([member], schema, lambda _, inner: rows(inner, report))


def rows_of_task(
    partition: InputPartition,
    schema: pa.Schema,
    report: Report,
    lines: Callable[[Report], Iterator[str]],
    tell: Callable[[str], None],
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one task with Spark's columns, and tell what was met on the way.

    They are the same in every call.
    """
    if not isinstance(partition, Part):  # of an empty plan Spark makes InputPartition(None)
        return
    freeze_once()
    rows = partition.rows(schema, report)
    try:
        yield from rows
    finally:
        rows.close()
        for line in lines(report):
            tell(line)


def shaped_rows(
    options: ReadOptions,
    wanted: StructType,
    partition: InputPartition,
    lines: Callable[[Report], Iterator[str]],
    tell: Callable[[str], None],
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of one task in the shape that the options ask for."""
    from flintmq.arrow.kafka_shape import messages_schema, to_kafka
    from flintmq.arrow.schema import SPARK_SCHEMA, of_many
    from flintmq.lake.bodies.column import decoded_rows
    from flintmq.spark.schema import check_schema, columns_of

    schema = check_schema(wanted, None, columns_of(options))
    form, report = options.body, Report()
    if options.shape == "kafka":
        for batch in rows_of_task(partition, messages_schema(schema, options.many), report, lines, tell):
            yield to_kafka(batch, schema)
    elif form is None:
        yield from rows_of_task(partition, schema, report, lines, tell)
    else:
        whole = of_many(SPARK_SCHEMA, options.many)
        yield from decoded_rows(
            form, schema, whole, lambda columns: rows_of_task(partition, columns, report, lines, tell), report
        )
