"""Exports that die anywhere, with all that they can be asked for: each message is there once, and reads as it is."""

import json
import random
import threading

import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="needs the extra spark")
pytest.importorskip("deltalake", reason="needs the extra delta")

from deltalake import DeltaTable

from flintmq import Message, MessageStore
from flintmq.lake import delta as delta_module
from flintmq.lake import target as target_module
from flintmq.spark.jobs.export import job as batch_job
from flintmq.spark.jobs.export import stream as stream_job
from flintmq.spark.jobs.export.job import export
from flintmq.spark.jobs.export.stream import export_stream
from tests.robustness.matrix.stores import SMALL

TOPICS = ("007", "7", "库存", "2026-11-21")


class Died(Exception):
    """The driver, at some place."""


@pytest.mark.parametrize("by", [("topic_name", "date"), ()])
@pytest.mark.parametrize("to", ["parquet", "delta"])
@pytest.mark.parametrize("stream", [False, True])
def test_it_dies_anywhere_and_goes_on(tmp_path, monkeypatch, to, by, stream):
    """At a random call that changes the disk or the table, 12 times; a property more half way; checkpoints of Delta."""
    chance = random.Random(f"{to}{by}{stream}")
    countdown = [0]

    def dying(function):
        def call(*args, **named):
            if threading.current_thread() is not threading.main_thread():
                return function(*args, **named)
            countdown[0] -= 1
            if countdown[0] == 0:
                raise Died
            answer = function(*args, **named)
            countdown[0] -= 1
            if countdown[0] == 0:
                raise Died  # behind it
            return answer

        return call

    def run_tasks(spark, task, items, progress=None):
        return [json.loads(json.dumps(task(item))) for item in items]

    for module in (batch_job, stream_job):
        monkeypatch.setattr(module, "run_tasks", run_tasks)
    monkeypatch.setattr(batch_job, "parallelism", lambda spark: 2)
    monkeypatch.setattr(stream_job, "parallelism", lambda spark: 2)
    monkeypatch.setattr(delta_module, "CHECKPOINT_INTERVAL", 3)
    for name in ("rename", "replace", "fsync", "fdatasync"):
        monkeypatch.setattr(target_module.os, name, dying(getattr(target_module.os, name)))
    for name in ("create_write_transaction", "create_checkpoint"):
        monkeypatch.setattr(DeltaTable, name, dying(getattr(DeltaTable, name)))
    store, out, put, deaths = tmp_path / "store", tmp_path / "out", 0, 0

    def more(count):
        nonlocal put
        countdown[0] = 0
        with MessageStore(store, SMALL) as opened:
            for _ in range(count):
                body = b"%d" % put
                assert (
                    opened.put(Message(TOPICS[put % 4], body, properties={"a": "1", "b": "2"})).status.name == "PUT_OK"
                )
                put += 1
            assert opened.wait_dispatched(20)

    def run(properties):
        named = {"to": to, "partition_by": by, "properties": properties, "target_file_size": 64 << 10}
        if stream:
            export_stream(None, str(store), str(out), once=True, max_offsets=7, **named)
        else:
            export(None, str(store), str(out), **named)

    for life in range(12):
        more(chance.randrange(1, 12))
        countdown[0] = chance.randrange(1, 60 if stream else 20)
        try:
            run(["a"] if life < 6 else ["a", "b"])
        except Died:
            deaths += 1
    countdown[0] = 0
    run(["a", "b"])
    assert deaths > 2
    if to == "delta":
        rows = DeltaTable(str(out)).to_pyarrow_table()
    else:
        files = sorted(out.glob("export=*/**/*.parquet"))
        rows = pa.concat_tables([pq.ParquetFile(file).read() for file in files], promote_options="default")
        if "topic_name" in by:
            frame = polars.scan_parquet(out, hidden_file_prefix="_", missing_columns="insert", extra_columns="ignore")
            assert {tuple(row) for row in frame.select("topic", "topic_name").collect().rows()} == {
                (t, t) for t in TOPICS
            }
    found = sorted(
        zip(map(int, rows["body"].to_pylist()), rows["topic"].to_pylist(), rows["a"].to_pylist(), strict=True)
    )
    assert found == [(number, TOPICS[number % 4], "1") for number in range(put)]
    assert {*rows["b"].to_pylist()} <= {None, "2"}
    assert not list(out.rglob("*.part"))
