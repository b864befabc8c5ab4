"""Exports that die anywhere, with all that they can be asked for: each message is there once, and reads as it is."""

import random
import threading

import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from flintmq import Message, MessageStore
from flintmq.lake.export import export_stream as streams
from flintmq.lake.table import delta as delta_module
from flintmq.lake.table import target as target_module
from flintmq.spark.jobs.export.job import export, export_stream
from tests.robustness.matrix.stores import SMALL
from tests.spark.jobs.calls import tasks_as_calls

TOPICS = ("007", "7", "库存", "2026-11-21")


class Died(Exception):
    """The driver, at some place."""


class Countdown:
    """Lets the driver die before or after the n-th call of what it wraps; 0: never."""

    def __init__(self) -> None:
        self.left = 0

    def _step(self):
        self.left -= 1
        if self.left == 0:
            raise Died

    def dying(self, function):
        def call(*args, **named):
            if threading.current_thread() is not threading.main_thread():
                return function(*args, **named)
            self._step()
            answer = function(*args, **named)
            self._step()
            return answer

        return call


@pytest.fixture
def countdown(monkeypatch):
    """Of all calls that change the disk or the table; tasks run here, without Spark, and checkpoints of Delta come."""
    found = Countdown()
    tasks_as_calls(monkeypatch)
    monkeypatch.setattr(delta_module, "CHECKPOINT_INTERVAL", 3)
    for name in ("rename", "replace", "fsync", "fdatasync"):
        monkeypatch.setattr(target_module.os, name, found.dying(getattr(target_module.os, name)))
    for name in ("create_write_transaction", "create_checkpoint"):
        monkeypatch.setattr(DeltaTable, name, found.dying(getattr(DeltaTable, name)))
    monkeypatch.setattr(streams, "publish", found.dying(streams.publish))
    return found


def put_more(opened, first, count):
    """Put messages whose bodies are their numbers; return the number of the next one."""
    for number in range(first, first + count):
        message = Message(TOPICS[number % 4], b"%d" % number, properties={"a": "1", "b": "2"})
        assert opened.put(message).status.name == "PUT_OK"
    assert opened.wait_dispatched(20)
    return first + count


def exported_rows(out, to, by):
    """The rows of all exports; Polars sees the same topics in the names of the directories."""
    if to == "delta":
        return DeltaTable(str(out)).to_pyarrow_table()
    if "topic_name" in by:
        frame = polars.scan_parquet(out, hidden_file_prefix="_", missing_columns="insert", extra_columns="ignore")
        named = {tuple(row) for row in frame.select("topic", "topic_name").collect().rows()}
        assert named == {(topic, topic) for topic in TOPICS}
    files = sorted(out.glob("export=*/**/*.parquet"))
    return pa.concat_tables([pq.ParquetFile(file).read() for file in files], promote_options="default")


@pytest.mark.parametrize("by", [("topic_name", "date"), ()])
@pytest.mark.parametrize("to", ["parquet", "delta"])
@pytest.mark.parametrize("stream", [False, True])
def test_it_dies_anywhere_and_goes_on(tmp_path, countdown, to, by, stream):
    """At a random call, 12 times, while the engine has the store open; with a property more half way."""
    chance = random.Random(f"{to}{by}{stream}")
    store, out, put, deaths = tmp_path / "store", tmp_path / "out", 0, 0

    def run(properties):
        named = {"to": to, "partition_by": by, "properties": properties, "target_file_size": 64 << 10}
        if stream:
            export_stream(None, str(store), str(out), once=True, max_offsets=7, **named)
        else:
            export(None, str(store), str(out), **named)

    with MessageStore(store, SMALL) as opened:
        for life in range(12):
            put = put_more(opened, put, chance.randrange(1, 12))
            countdown.left = chance.randrange(1, 60 if stream else 20)
            try:
                run(["a"] if life < 6 else ["a", "b"])
            except Died:
                deaths += 1
            countdown.left = 0
        run(["a", "b"])
    assert deaths > 2
    rows = exported_rows(out, to, by)
    found = sorted(
        zip(map(int, rows["body"].to_pylist()), rows["topic"].to_pylist(), rows["a"].to_pylist(), strict=True)
    )
    assert found == [(number, TOPICS[number % 4], "1") for number in range(put)]
    assert {*rows["b"].to_pylist()} <= {None, "2"}
    assert not list(out.rglob("*.part"))
