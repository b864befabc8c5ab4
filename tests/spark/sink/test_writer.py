"""The sink on Spark, in batch and streaming."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra spark")

from flintmq.errors import UsageError
from flintmq.spark.schema import spark_schema
from flintmq.spark.sink.writer import Staged, stream_writer, writer
from tests.spark.jobs.replaying import KEYS, held, without_offsets

OPTIONS = {key: str(value) for key, value in KEYS.items()}


def without_times(queues: Any) -> Any:
    return {name: [row[:-1] for row in rows] for name, rows in without_offsets(queues).items()}


def test_only_append(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="append"):
        writer({"path": str(tmp_path)}, spark_schema(), True)
    with pytest.raises(UsageError, match="append"):
        stream_writer({"path": str(tmp_path), "queryId": "q"}, spark_schema(), True)


def test_tasks_without_rows_leave_nothing(tmp_path: Path) -> None:
    made = stream_writer({"path": str(tmp_path / "s"), "queryId": "q"}, spark_schema(), False)
    assert made.write(iter([])) == Staged("", 0)
    made.abort([None, Staged("", 0)], 0)
    assert not (tmp_path / "s").exists()


@pytest.mark.spark
def test_a_batch_on_spark(golden: Any, tmp_path: Path, spark: Any) -> None:
    source, root = golden("basic").path, tmp_path / "new"
    frame = spark.read.format("flintmq").option("minPartitions", 3).load(str(source))
    write = frame.write.format("flintmq").options(**OPTIONS).mode("append").option("queryId", "q")
    for batch in (1, 1):
        write.option("batchId", batch).save(str(root))
    assert without_times(held(root)) == without_times(held(source))
    frame.limit(5).select("topic", "body", "keys").write.format("flintmq").mode("append").save(str(root))
    assert sum(map(len, held(root).values())) == 3005


@pytest.mark.spark
def test_a_stream_whose_commits_were_lost(golden: Any, tmp_path: Path, spark: Any) -> None:
    """As after a kill between the sink's commit and Spark's: the last batch runs again."""
    source, root, checkpoint = golden("basic").path, tmp_path / "new", tmp_path / "checkpoint"

    def run() -> None:
        frame = spark.readStream.format("flintmq").option("maxOffsetsPerTrigger", 1000).load(str(source))
        write = frame.writeStream.format("flintmq").options(**OPTIONS).option("checkpointLocation", str(checkpoint))
        query = write.trigger(availableNow=True).start(str(root))
        assert query.awaitTermination(120) and query.exception() is None

    run()
    want = without_times(held(source))
    assert without_times(held(root)) == want
    commits = sorted((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    assert len(commits) >= 3
    commits[-1].unlink()
    (checkpoint / "commits" / f".{commits[-1].name}.crc").unlink()
    run()
    assert without_times(held(root)) == want
    shutil.rmtree(checkpoint)
