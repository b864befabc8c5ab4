"""The least that a Python stream source can do: one partition of ready rows a micro-batch. The peer of S7."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow


class BareSource(DataSource):
    """Options: path, a folder that `write_bare` wrote; maxOffsetsPerTrigger, rows of a micro-batch."""

    @classmethod
    def name(cls) -> str:
        return "bare"

    def schema(self) -> str:
        return Path(self.options["path"], "schema").read_text(encoding="utf-8")

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return BareReader(self.options["path"], int(self.options["maxOffsetsPerTrigger"]))


class BareReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, path: str, most: int) -> None:
        self.path, self.most = path, most
        self.rows = int(Path(path, "rows").read_text(encoding="utf-8"))

    def initialOffset(self) -> dict[str, int]:
        return {"row": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.most)

    def prepareForTriggerAvailableNow(self) -> None:
        pass

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        return {"row": min(start["row"] + self.most, self.rows)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition((start["row"], end["row"]))] if start != end else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # What flintmq's own source does, too: it saves both the same garbage collection after each task.
        from flintmq.spark.worker import freeze_once

        freeze_once()
        first, end = partition.value
        with pa.memory_map(f"{self.path}/rows.arrow") as mapped:
            yield pa.ipc.open_file(mapped).get_batch(0).slice(first, end - first)


def write_bare(store: Path, into: Path) -> None:
    """Write all rows of a small store as one ready batch."""
    from flintmq.spark.source import FlintMQSource

    source = FlintMQSource({"path": str(store)})
    schema = source.schema()
    reader = source.reader(schema)
    table = pa.Table.from_batches(
        [batch for part in reader.partitions() for batch in cast("Iterator[pa.RecordBatch]", reader.read(part))]
    )
    (batch,) = table.combine_chunks().to_batches()
    into.mkdir(parents=True)
    (into / "schema").write_text(", ".join(f"{f.name} {f.dataType.simpleString()}" for f in schema), encoding="utf-8")
    (into / "rows").write_text(str(batch.num_rows), encoding="utf-8")
    with pa.ipc.new_file(str(into / "rows.arrow"), batch.schema) as writer:
        writer.write_batch(batch)
