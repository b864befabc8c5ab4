"""A batch read without Spark: the reader's methods in the order in which Spark calls them."""

import pyarrow as pa
import pyspark

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


class ByPython(FlintMQSource):
    """The source in Python, under a name that the jar does not take."""

    @classmethod
    def name(cls) -> str:
        return "flintmq_python"


def by_python(spark) -> str:
    """The name of the source in Python, which a session that has the jar would not use."""
    spark.dataSource.register(ByPython)
    return ByPython.name()
