"""The source in the JVM: what it asks for, what it hides, and how its Python side ends."""

import json
import os
import re
import signal
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flintmq.spark.door import JAR
from flintmq.spark.source import FlintMQSource
from flintmq.testing import write_store

pytestmark = pytest.mark.skipif(not JAR.is_file(), reason="the jar was not built (tools/door_jar.py says why)")

MESSAGES = 4000


class ByPython(FlintMQSource):
    """The source in Python, under a name that the jar does not take."""

    @classmethod
    def name(cls) -> str:
        return "flintmq_python"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("door") / "store"
    write_store(path, MESSAGES, seed=7)
    return str(path)


@pytest.fixture
def both(spark: Any) -> Any:
    spark.dataSource.register(ByPython)
    return spark


def serving() -> list[int]:
    """The processes of the Python side: the first has no parent among them."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"flintmq.spark.door.serve" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:  # it has ended
            continue
    return sorted(found)


def plan_of(frame: Any) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def test_only_columns_that_a_query_uses_are_read(spark, store):
    frame = spark.read.format("flintmq").load(store)
    read = plan_of(frame.where("queue_id > 1").select("topic"))
    assert "BatchScan flintmq" in read and "(Python)" not in read, "the source in the JVM"
    columns = re.search(r"BatchScan flintmq [^\[]*\[([^]]*)\]", read)
    assert columns is not None
    assert {name.split("#")[0].strip() for name in columns[1].split(",")} == {"topic", "queue_id"}
    assert frame.count() == MESSAGES, "of no column"


@pytest.mark.parametrize(
    "query",
    [
        "select topic, count(*), sum(queue_offset) from {} group by topic order by topic",
        "select * from {} where topic = 'Orders' and queue_id in (1, 2) order by physical_offset",
        "select count(*) from {} where store_timestamp >= timestamp'2023-11-14 22:13:50Z' or tags is null",
        "select distinct tags from {} where keys is not null and topic <> 'Orders' order by tags",
        "select a.msg_id from {} a join {} b on a.physical_offset = b.physical_offset where b.size > 300 order by 1",
        "select properties, body from {} order by physical_offset limit 7",
    ],
)
def test_rows_are_those_of_the_source_in_python(both, store, query):
    for name in ("flintmq", "flintmq_python"):
        both.read.format(name).load(store).createOrReplaceTempView(name)
    found = [both.sql(query.format(name, name)).collect() for name in ("flintmq", "flintmq_python")]
    assert found[0] == found[1] and found[0]


def batches_of(spark: Any, name: str, store: str, checkpoint: Path, **options: object) -> list[int]:
    """The rows of each micro-batch of a query that reads what there is."""
    sizes: list[int] = []
    stream = spark.readStream.format(name).option("startingOffsets", "earliest").options(**options).load(store)
    writing = stream.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query = writing.foreachBatch(lambda frame, _: sizes.append(frame.count())).start()
    query.awaitTermination()
    return sizes


@pytest.mark.parametrize("first", ["flintmq", "flintmq_python"])
def test_a_checkpoint_of_either_source_is_continued_by_the_other(both, tmp_path, first):
    other = {"flintmq": "flintmq_python", "flintmq_python": "flintmq"}[first]
    store = tmp_path / "store"
    write_store(store, 300, seed=1)
    assert sum(batches_of(both, first, str(store), tmp_path / "checkpoint", maxOffsetsPerTrigger=200)) == 300
    from flintmq import Message, MessageStore

    with MessageStore(store) as opened:
        for number in range(50):
            opened.put(Message("Orders", b"%d" % number))
    assert batches_of(both, other, str(store), tmp_path / "checkpoint") == [50]
    assert batches_of(both, first, str(store), tmp_path / "checkpoint") == []


def test_the_token_is_in_no_argument_and_no_environment(spark, store):
    frame = spark.read.format("flintmq").load(store)
    assert frame.count() == MESSAGES
    for process in (os.getpid(), *serving()):
        for file in ("cmdline", "environ"):
            assert not re.search(rb"[0-9a-f]{64}", Path(f"/proc/{process}/{file}").read_bytes())
    assert not re.search("[0-9a-f]{64}", plan_of(frame))
    (folder,) = {Path(path).parent for path in sockets()}
    assert folder.stat().st_mode & 0o777 == 0o700


def sockets() -> Iterator[str]:
    """Paths of the sockets at which the Python side listens."""
    for line in Path("/proc/net/unix").read_text().splitlines():
        path = line.split()[-1]
        if "/flintmq-spark-" in path and Path(path).exists():
            yield path


def answer_of(request: dict[str, object]) -> dict[str, object]:
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(next(sockets()))
        data = json.dumps(request).encode()
        line.sendall(struct.pack(">i", len(data)) + data)
        with line.makefile("rb") as answers:
            length = int.from_bytes(answers.read(4), "big")
            found: dict[str, object] = json.loads(answers.read(length))
            return found


@pytest.mark.parametrize("token", [None, "", "0" * 64])
def test_a_wrong_token_is_refused(spark, store, token):
    spark.read.format("flintmq").load(store).count()
    request = {"op": "schema", "options": {"path": store}, "token": token}
    assert answer_of(request)["kind"] == "PermissionError"


def test_what_is_limited_ends_its_processes(spark, store):
    frame = spark.read.format("flintmq").load(store)
    assert len(frame.limit(3).collect()) == 3
    deadline = time.monotonic() + 10
    while len(serving()) > 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(serving()) == 1, "the one that listens"


def test_a_python_side_that_was_killed_is_started_again(spark, store):
    frame = spark.read.format("flintmq").load(store)
    assert frame.count() == MESSAGES
    before = serving()
    for process in before:
        os.kill(process, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while set(before) & set(serving()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert spark.read.format("flintmq").load(store).count() == MESSAGES
    assert not set(before) & set(serving())
