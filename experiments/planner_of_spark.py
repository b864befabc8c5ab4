"""What a Python data source has at hand where Spark lets it plan: python experiments/planner_of_spark.py."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyspark import SparkContext, TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition


def told(where: str) -> str:
    """Describe this process."""
    parent = Path(f"/proc/{os.getppid()}/comm").read_text().strip()
    found = {
        "process": os.getpid(),
        "of": f"{os.getppid()} ({parent})",
        "context": SparkContext._active_spark_context,
        "session": SparkSession.getActiveSession(),
        "task": TaskContext.get(),
        "gateway": "PYSPARK_GATEWAY_PORT" in os.environ,
    }
    return f"{where}: " + ", ".join(f"{name} {value}" for name, value in found.items())


def note(where: str) -> None:
    """Write the description where the driver finds it."""
    with open(os.environ["PLANNER_NOTES"], "a") as file:
        file.write(told(where) + "\n")


class Batch(DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        note("batch, partitions")
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        yield (told("batch, read"),)


class Stream(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:
        note("stream, initialOffset")
        return {"at": 0}

    def latestOffset(self) -> dict[str, int]:
        note("stream, latestOffset")
        return {"at": 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        note("stream, partitions")
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        yield (told("stream, read"),)


class Planner(DataSource):
    @classmethod
    def name(cls) -> str:
        return "planner"

    def schema(self) -> str:
        return "text string"

    def reader(self, schema: object) -> Batch:
        return Batch()

    def streamReader(self, schema: object) -> Stream:
        return Stream()


def main() -> None:
    """Plan a read and a micro-batch."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PLANNER_NOTES"] = f"{folder}/notes"
        os.environ["PYSPARK_PYTHON"] = sys.executable
        spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
        print(told("user's program"))
        spark.dataSource.register(Planner)
        rows = spark.read.format("planner").load().collect()
        stream = spark.readStream.format("planner").load().writeStream.format("memory").queryName("rows")
        stream.option("checkpointLocation", f"{folder}/checkpoint").trigger(once=True).start().awaitTermination()
        print(Path(f"{folder}/notes").read_text(), end="")
        for row in [*rows, *spark.table("rows").collect()]:
            print(row.text)
        spark.stop()


if __name__ == "__main__":
    main()
