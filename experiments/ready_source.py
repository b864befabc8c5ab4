"""A Spark source that hands over record batches made beforehand: the most that any Python source can reach.

`prepare` runs a source's own reader outside Spark and writes the batches of each partition into an Arrow file; the
source `ready` maps these files and yields the batches as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition


class ReadySource(DataSource):
    """Options: path, a folder that `prepare` wrote."""

    @classmethod
    def name(cls) -> str:
        return "ready"

    def schema(self) -> str:
        return Path(self.options["path"], "schema").read_text(encoding="utf-8")

    def reader(self, schema: Any) -> DataSourceReader:
        return ReadyReader(self.options["path"])


class ReadyReader(DataSourceReader):
    def __init__(self, path: str) -> None:
        self.path = path

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(str(file)) for file in sorted(Path(self.path).glob("*.arrow"))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # What flintmq's own source does, too: it saves both the same garbage collection after each task.
        from flintmq.spark.worker import freeze_once

        freeze_once()
        with pa.memory_map(partition.value) as mapped:
            batches = pa.ipc.open_file(mapped)
            for number in range(batches.num_record_batches):
                yield batches.get_batch(number)


def prepare(path: Path, into: Path, **options: str) -> int:
    """Write what the source `flintmq` reads of a store, partition by partition. Returns the number of rows."""
    from flintmq.spark.source import FlintMQSource

    source = FlintMQSource({"path": str(path), **options})
    schema = source.schema()
    reader = source.reader(schema)
    into.mkdir(parents=True)
    (into / "schema").write_text(", ".join(f"{f.name} {f.dataType.simpleString()}" for f in schema), encoding="utf-8")
    rows = 0
    for number, partition in enumerate(reader.partitions()):
        writer = None
        for batch in cast("Iterator[pa.RecordBatch]", reader.read(partition)):
            writer = writer or pa.ipc.new_file(str(into / f"{number:05d}.arrow"), batch.schema)
            writer.write_batch(batch)
            rows += batch.num_rows
        if writer is not None:
            writer.close()
    return rows
