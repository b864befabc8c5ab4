"""A batch read without Spark: the reader's methods in the order in which Spark calls them."""

import os

import pyarrow as pa
import pyspark

from flintmq.spark.door import JAR
from flintmq.spark.source import FlintMQSource


def partitions(path, **options):
    given = {"path": str(path), "columns": "topic,queue_id,queue_offset,physical_offset", **options}
    source = FlintMQSource({name: str(value) for name, value in given.items()})
    reader = source.reader(source.schema())
    return reader, reader.partitions()


def read(path, **options):
    reader, parts = partitions(path, **options)
    batches = [batch for part in parts for batch in reader.read(part)]
    return [row for batch in batches for row in pa.Table.from_batches([batch]).to_pylist()]


def offsets(path, **options):
    return sorted(row["physical_offset"] for row in read(path, **options))


SPARK = tuple(map(int, pyspark.__version__.split(".")[:2]))
BY_THE_JVM = JAR.is_file() and os.environ.get("FLINTMQ_JAR") != "0"
LIMITS = BY_THE_JVM or SPARK >= (4, 2)
"""Whether a stream may be limited: Spark 4.0 and 4.1 let no source in Python do so, and availableNow is one batch."""


def limited(**limits: object) -> dict[str, object]:
    """These options of a stream, where it may be limited."""
    return limits if LIMITS else {}


class ByPython(FlintMQSource):
    """The source in Python, under a name that the jar does not take."""

    @classmethod
    def name(cls) -> str:
        return "flintmq_python"


def by_python(spark) -> str:
    """The name of the source in Python, which a session that has the jar would not use."""
    spark.dataSource.register(ByPython)
    return ByPython.name()
