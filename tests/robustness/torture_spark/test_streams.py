"""What the kill run of streams counts: the files that Spark's sink has committed, and no others."""

import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="needs the extra spark")
pytest.importorskip("deltalake", reason="needs the extra delta")

from labs.torture_spark.check import count
from labs.torture_spark.streams import EXECUTORS, Query


def test_only_committed_files_count(tmp_path):
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    for number in range(5):
        pq.write_table(pa.table({"body": [b"x"] * 10**number}), tmp_path / f"part-{number}.parquet")

    def commit(name, *numbers):
        lines = [json.dumps({"path": f"file://{tmp_path}/part-{number}.parquet"}) for number in numbers]
        (log / name).write_text("\n".join(["v1", *lines]))

    commit("0", 0)
    commit("1", 1)
    assert count(tmp_path) == 11
    commit("2.compact", 0, 1, 2)
    commit("3", 3)
    assert count(tmp_path) == 1111, "those before a compact file are in it; the fifth file is nobody's"


@pytest.mark.parametrize(
    ("words", "victims"),
    [
        (["python", "-m", "flintmq.spark.door.serve"], {"side"}),
        (["/usr/bin/java", "org.apache.spark.deploy.SparkSubmit"], {"java"}),
        (["/usr/bin/java", "org.apache.spark.executor.CoarseGrainedExecutorBackend"], {"executor"}),
    ],
)
def test_who_is_who(tmp_path, words, victims):
    query = Query(tmp_path, "store", EXECUTORS, 100, "none")
    assert {whom for whom in ("side", "executor", "java") if query.is_a(whom, words)} == victims
    query.end()
    assert not query.temporary.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="finds the processes to kill in /proc")
def test_what_is_left_is_told(tmp_path):
    query = Query(tmp_path, "store", EXECUTORS, 100, "none")
    (query.temporary / "flintmq-door-left").mkdir()
    query.words = [sys.executable, "-c", "input()"]
    query.start()
    with pytest.raises(AssertionError, match="files are left"):
        query.close()
    query.end()
