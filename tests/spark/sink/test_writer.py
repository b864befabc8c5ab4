"""The sink on Spark, in batch and streaming."""

import ast
from pathlib import Path
from typing import Any

import pytest

from flintmq.errors import UsageError
from flintmq.spark.schema import spark_schema
from flintmq.spark.sink.listing import read_puts
from flintmq.spark.sink.writer import Staged, stream_writer, writer
from tests.spark.jobs.replay.replaying import KEYS, held, without_offsets
from tests.support.spark_reading import LIMITS

OPTIONS = {key: str(value) for key, value in KEYS.items()}
COPY = OPTIONS | {"uniqueKeys": "false"}  # a row that has no id is compared with its origin, which has none


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
    write = frame.write.format("flintmq").options(**COPY).mode("append").option("queryId", "q")
    for batch in (1, 1):
        write.option("batchId", batch).save(str(root))
    assert without_times(held(root)) == without_times(held(source))
    frame.limit(5).select("topic", "body", "keys").write.format("flintmq").mode("append").save(str(root))
    assert sum(map(len, held(root).values())) == 3005


PAGE = (Path(__file__).parents[3] / "docs" / "spark" / "replay.md").read_text(encoding="utf-8")
KAFKA = ast.literal_eval(
    PAGE[PAGE.index("kafka.selectExpr(") :].partition("```")[0].removeprefix("kafka.selectExpr").strip()
)
"""What the page tells users of Kafka."""


@pytest.mark.spark
def test_a_frame_for_kafka_and_rows_that_make_no_message(tmp_path: Path, spark: Any) -> None:
    frame = spark.sql(
        "SELECT IF(id = 3, 'a/b', 'T') topic, CAST('k' AS BINARY) key, CAST(CAST(id AS STRING) AS BINARY) value, "
        "2 partition, array(named_struct('key', 'h', 'value', CAST('w' AS BINARY))) headers FROM range(0, 6, 1, 2)"
    )
    write = frame.selectExpr(*KAFKA).write.format("flintmq").options(**OPTIONS).mode("append")
    with pytest.raises(Exception, match="row 0 of partition 1, topic 'a/b', queue 2: .*directory's name"):
        write.save(str(tmp_path / "s"))
    write = write.option("badRowsPath", f"file://{tmp_path}/bad%20rows").option("queryId", "q")
    for _ in range(2):
        write.option("batchId", 1).save(f"file:{tmp_path}/s")
    [((topic, queue_id), rows)] = held(tmp_path / "s").items()
    assert (topic, queue_id, [row[1] for row in rows]) == ("T", 2, [b"0", b"1", b"2", b"4", b"5"])
    ids = {dict(row[2])["UNIQ_KEY"] for row in rows}
    assert len(ids) == 5 and {len(one) for one in ids} == {32}
    assert {(row[4], tuple(p for p in row[2] if p[0] != "UNIQ_KEY")) for row in rows} == {
        ("k", (("h", "w"), ("KEYS", "k")))
    }
    [bad] = spark.read.json(str(tmp_path / "bad rows")).selectExpr("reason", "topic", "unbase64(body) body").collect()
    assert bad.topic == "a/b" and bytes(bad.body) == b"3" and "directory's name" in bad.reason


@pytest.mark.spark
def test_what_kafka_allows_in_headers_and_values(tmp_path: Path, spark: Any) -> None:
    """A header twice, one without a value, none at all; a tombstone."""
    frame = spark.sql(
        """SELECT 'T' topic, CAST(NULL AS BINARY) key, IF(id = 0, NULL, X'FF') value, 0 partition,
        CASE WHEN id = 0 THEN array(named_struct('key', 'a', 'value', X'31'), named_struct('key', 'b', 'value', NULL),
                                    named_struct('key', 'a', 'value', X'32'))
             WHEN id = 1 THEN array(named_struct('key', 'b', 'value', CAST(NULL AS BINARY)))
             ELSE NULL END headers FROM range(0, 3, 1, 1)"""
    )
    frame.selectExpr(*KAFKA).write.format("flintmq").options(**COPY).mode("append").save(str(tmp_path / "s"))
    [rows] = held(tmp_path / "s").values()
    assert [row[1] for row in rows] == [b"", b"\xff", b"\xff"]
    assert [dict(row[2]) for row in rows] == [{"a": "2"}, {}, {}]


@pytest.mark.spark
@pytest.mark.skipif(not LIMITS, reason="Spark 4.0 and 4.1 let no source in Python limit its batches")
def test_a_stream_whose_commits_were_lost(golden: Any, tmp_path: Path, spark: Any) -> None:
    """As after a kill between the sink's commit and Spark's: the last batch runs again, also where its checkpoint was
    moved. Where it was removed, another query begins."""
    source, root, checkpoint = golden("basic").path, tmp_path / "new", tmp_path / "checkpoint"

    def run(place: str) -> str:
        frame = spark.readStream.format("flintmq").option("maxOffsetsPerTrigger", 1500).load(str(source))
        write = frame.writeStream.format("flintmq").options(**COPY).option("checkpointLocation", place)
        query = write.trigger(availableNow=True).start(str(root))
        assert query.awaitTermination(120) and query.exception() is None
        return str(query.id)

    first = run(str(checkpoint))
    want = without_times(held(source))
    assert without_times(held(root)) == want
    assert {giver.query for giver in read_puts(str(root)).givers} == {first}
    commits = sorted((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    assert len(commits) >= 2
    commits[-1].unlink()
    (checkpoint / "commits" / f".{commits[-1].name}.crc").unlink()
    checkpoint.rename(tmp_path / "moved")
    assert run(f"file:{tmp_path}/moved") == first and without_times(held(root)) == want
    assert run(str(checkpoint)) != first
    assert {name: len(rows) for name, rows in held(root).items() if name[0] == "Orders"} == {
        name: 2 * len(rows) for name, rows in held(source).items() if name[0] == "Orders"
    }
