"""The source in the JVM: what it asks for, what it hides, and how its Python side ends."""

import errno
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
from pyspark import InheritableThread

import flintmq
from flintmq import Message
from flintmq.spark.door import JAR
from flintmq.testing import write_store
from tests.harness.turns import one_a_day
from tests.spark.door.python_sides import fake_python, serving
from tests.support.engine import put_messages
from tests.support.spark_reading import SPARK, by_python
from tools import door_jar

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not JAR.is_file(), reason="the jar was not built (tools/door_jar.py says why)"),
    pytest.mark.skipif(os.environ.get("FLINTMQ_JAR") == "0", reason="FLINTMQ_JAR=0: without the jar"),
]

MESSAGES = 4000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("door") / "store"
    write_store(path, MESSAGES, seed=7)
    return str(path)


@pytest.fixture
def both(spark: Any) -> Any:
    by_python(spark)
    return spark


def plan_of(frame: Any) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def test_the_jar_is_of_these_sources():
    with zipfile.ZipFile(JAR) as packed:
        built = packed.read(door_jar.DIGEST).decode()
    assert built == door_jar.digest(), "run tools/door_jar.py: the jar is of other sources"


def test_only_columns_that_a_query_uses_are_read(spark, store):
    frame = spark.read.format("flintmq").load(store)
    read = plan_of(frame.where("queue_id > 1").select("topic"))
    assert "BatchScan flintmq" in read and "(Python)" not in read, "the source in the JVM"
    columns = re.search(r"BatchScan flintmq [^\[]*\[([^]]*)\]", read)
    assert columns is not None
    assert {name.split("#")[0].strip() for name in columns[1].split(",")} == {"topic", "queue_id"}
    assert frame.count() == MESSAGES, "of no column"


def test_filters_are_offered_if_they_have_a_text(spark, store):
    """Bytes have none: what Java prints of them is another value in each process."""
    frame = spark.read.format("flintmq").load(store)
    assert '"column":"topic","operator":"=","values":["Orders"]' in plan_of(frame.where("topic = 'Orders'"))
    for condition in ("body = X'01'", "body IN (X'01', X'02')", "topic = 'a' OR queue_id = 1"):
        assert re.search(r"BatchScan flintmq [^\[]*\[[^]]*\] *flintmq \S+ \[\]", plan_of(frame.where(condition))), (
            condition
        )
    assert frame.where("body = X'01'").count() == 0


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
    limits = {"maxOffsetsPerTrigger": 200} if first == "flintmq" or SPARK >= (4, 2) else {}
    assert sum(batches_of(both, first, str(store), tmp_path / "checkpoint", **limits)) == 300
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
    assert Path(listening()).parent.stat().st_mode & 0o777 == 0o700


def listening() -> str:
    """The path of the socket at which the Python side of this session listens."""
    own = {os.readlink(link) for link in Path(f"/proc/{serving()[0]}/fd").iterdir()}
    for line in Path("/proc/net/unix").read_text().splitlines():
        words = line.split()
        if len(words) > 7 and f"socket:[{words[6]}]" in own and "/flintmq-door-" in words[7]:
            return words[7]
    raise AssertionError("it listens nowhere")


def answer_of(request: dict[str, object]) -> dict[str, object]:
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(listening())
        data = json.dumps(request).encode()
        line.sendall(struct.pack(">i", len(data)) + data)
        with line.makefile("rb") as answers:
            length = int.from_bytes(answers.read(4), "big")
            found: dict[str, object] = json.loads(answers.read(length))
            return found


@pytest.mark.parametrize("token", [None, "", "0" * 64])
def test_a_wrong_token_is_refused(spark, store, token):
    spark.read.format("flintmq").load(store).count()
    request = {"op": "schema", "options": {"path": store}, "token": token, "version": flintmq.__version__}
    assert answer_of(request)["kind"] == "PermissionError"


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_another_user_does_not_get_to_the_socket(spark, store):
    spark.read.format("flintmq").load(store).count()
    path = listening()
    assert [connecting_as(user, path) for user in (65534, 0)] == [errno.EACCES, 0]


def connecting_as(user: int, path: str) -> int:
    """Connect to a socket as another user; gives the number of the error, or 0."""
    if not (child := os.fork()):
        try:
            os.setuid(user)
            os._exit(socket.socket(socket.AF_UNIX).connect_ex(path))
        finally:
            os._exit(255)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_body_of_4_mib_and_10_000_columns(spark, tmp_path):
    put_messages(tmp_path, [Message("Big", b"x" * ((4 << 20) - 100)), Message("Big", b"y")])
    frame = spark.read.format("flintmq").load(str(tmp_path))
    assert {bytes(row.body[:1]): len(row.body) for row in frame.collect()} == {b"x": (4 << 20) - 100, b"y": 1}
    many = ",".join(f"p{number}" for number in range(10_000))
    with pytest.raises(Exception, match="no column 'p0'; there are: topic, queue_id"):
        spark.read.format("flintmq").option("columns", many).load(str(tmp_path))


def test_what_is_limited_ends_its_processes(spark, store):
    frame = spark.read.format("flintmq").load(store)
    assert len(frame.limit(3).collect()) == 3
    assert_none_is_left()


def test_a_query_that_is_cancelled_ends_its_process(spark, tmp_path):
    """It takes a row a minute of 240 MB in one part, so the Python side is amid its rows."""
    put_messages(tmp_path, [Message("Big", bytes([number]) * (4_000_000)) for number in range(60)])
    frame = spark.read.format("flintmq").load(str(tmp_path)).select("body").coalesce(1)
    failed: list[BaseException] = []

    def run() -> None:
        spark.sparkContext.setJobGroup("cancelled", "takes its time", interruptOnCancel=True)
        try:
            frame.foreach(lambda row: time.sleep(60))
        except Exception as error:
            failed.append(error)

    query = InheritableThread(target=run)
    query.start()
    deadline = time.monotonic() + 60
    while len(serving()) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(3)
    assert len(serving()) > 1, "it is not at its end by itself: it waits for whoever takes its rows"
    spark.sparkContext.cancelJobGroup("cancelled")
    query.join(60)
    assert "cancel" in str(failed[0]).lower()
    assert_none_is_left()


def test_a_stream_that_is_refused_ends_its_process(spark, store, tmp_path):
    frame = spark.readStream.format("flintmq").option("maxIndexNum", 3000).load(store)
    query = frame.writeStream.format("noop").trigger(availableNow=True)
    with pytest.raises(Exception, match="maxIndexNum"):
        query.option("checkpointLocation", str(tmp_path)).start().awaitTermination(60)
    assert_none_is_left()


def test_a_stream_beside_one_that_is_refused_ends_its_process(spark, store, tmp_path):
    """Spark asks each source for its limits before it has written down which ones it must stop."""
    good, refused = (
        spark.readStream.format("flintmq").options(**given).load(store).select("topic")
        for given in ({}, {"maxIndexNum": 3000})
    )
    query = good.union(refused).writeStream.format("noop").trigger(availableNow=True)
    with pytest.raises(Exception, match="maxIndexNum"):
        query.option("checkpointLocation", str(tmp_path)).start().awaitTermination(60)
    assert_none_is_left()


def assert_none_is_left() -> None:
    deadline = time.monotonic() + 10
    while len(serving()) > 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(serving()) == 1, f"only the one that listens\n{told_of(serving())}"


def told_of(processes: list[int]) -> str:
    return subprocess.run(
        ["ps", "-o", "pid,ppid,etimes,stat,wchan:24,args", "-p", ",".join(map(str, processes))],
        capture_output=True,
        text=True,
        check=False,
    ).stdout


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


def test_a_python_side_whose_socket_was_removed_is_replaced(spark, store):
    """As by somebody who clears the directory of temporary files, below a session that lives for weeks."""
    assert spark.read.format("flintmq").load(store).count() == MESSAGES
    before, path = serving(), Path(listening())
    path.unlink()
    path.parent.rmdir()
    assert spark.read.format("flintmq").load(store).count() == MESSAGES
    assert before[0] not in serving() and Path(listening()).exists()


def test_a_sample_is_drawn_by_the_python_side(spark, store):
    frame = spark.read.format("flintmq").load(store).sample(fraction=0.25, seed=3)
    found = [row.physical_offset for row in frame.select("physical_offset").collect()]
    assert "sample" in plan_of(frame)
    assert 0.2 * MESSAGES < len(found) < 0.3 * MESSAGES
    assert found == [row.physical_offset for row in frame.select("physical_offset").collect()], "the same each time"
    parts = [frame.where(which).count() for which in ("topic = 'Orders'", "topic <> 'Orders'")]
    assert sum(parts) == len(found) and all(parts), "filters of a query change nothing of the sample"
    other = spark.read.format("flintmq").load(store).sample(fraction=0.25, seed=4)
    assert found != [row.physical_offset for row in other.select("physical_offset").collect()]


def test_spark_shows_how_much_is_read(spark, store):
    """The metrics of the scan: what of the log the plan has, and what the filters left out."""
    frame = spark.read.format("flintmq").load(store).where("store_timestamp < timestamp'1970-01-02 00:00:00Z'")
    assert frame.count() == 0
    metrics = scan_of(frame).metrics()
    assert {name for name in ("logRead", "logLeftOut", "received") if metrics.contains(name)} == {
        "logRead", "logLeftOut", "received",
    }  # fmt: skip


def scan_of(frame: Any) -> Any:
    plan = frame._jdf.queryExecution().executedPlan()
    while plan.children().nonEmpty():
        plan = plan.children().head()
    return plan


HEAD = """
import os, socket, sys
sys.stdin.readline()
folder = os.environ["FAKE_FOLDER"] + "/made"
os.mkdir(folder)
path = folder + "/door"
door = socket.socket(socket.AF_UNIX); door.bind(path); door.listen(8)
print("flintmq-door " + path, flush=True)
"""
WRONG = {
    "does not start": ("raise SystemExit('no such module')", "ended; its error is above"),
    "never says where it listens": ("import sys; sys.stdin.read()", "no sign of life for ten seconds"),
    "never answers": (HEAD + "sys.stdin.read()", "silent for ten seconds"),
    "hangs up": (HEAD + "while True: door.accept()[0].recv(1 << 16)", "ended before its answer was complete"),
    "sends garbage": (HEAD + "line = door.accept()[0]; line.sendall(b'HTTP/1.1 400'); sys.stdin.read()", "no message"),
    "sends no JSON": (
        HEAD + "line = door.accept()[0]; line.sendall(bytes([0, 0, 0, 5]) + b'hello'); sys.stdin.read()",
        "hello",
    ),
}  # fmt: skip


@pytest.mark.parametrize("wrong", one_a_day(list(WRONG), ["src/flintmq/spark/door/", "tests/spark/door/"]))
def test_a_python_side_that_fails_is_named_within_seconds(tmp_path, store, wrong):
    """In a session of its own, whose Python is a fake."""
    program, said = WRONG[wrong]
    settings = {"spark.pyspark.python": fake_python(tmp_path, program), "spark.log.level": "OFF"}
    job = f"""
import time, flintmq.spark
spark = flintmq.spark.session("fake", "local[1]", **{settings!r})
began = time.monotonic()
try:
    spark.read.format("flintmq").load({store!r}).count()
except Exception as error:
    print("SAID", str(error).replace(chr(10), " "))
print("TOOK", time.monotonic() - began)
"""
    with tempfile.TemporaryDirectory() as folder:  # the path of a socket is short
        surroundings = {**os.environ, "FAKE_FOLDER": folder}
        done = subprocess.run(
            [sys.executable, "-c", job], capture_output=True, text=True, timeout=120, env=surroundings
        )
        assert os.listdir(folder) == [], "its socket and directory, which a killed one cannot remove itself"
    (heard,) = re.findall("SAID (.*)", done.stdout)
    assert said in heard, done.stderr[-2000:]
    assert float(re.findall("TOOK (.*)", done.stdout)[0]) < 25


def test_another_version_on_an_executor_is_refused_by_name(spark, store, monkeypatch):
    import io

    from flintmq.spark.door.answers import serve_connection

    ours, theirs = socket.socketpair()
    data = json.dumps({"op": "schema", "options": {"path": store}, "token": "t", "version": "0.1.0"}).encode()
    ours.sendall(struct.pack(">i", len(data)) + data)
    serve_connection(theirs, "t")
    theirs.close()
    with io.BytesIO(ours.recv(1 << 16)) as answers:
        found = json.loads(answers.read()[4:])
    assert "the driver has flintmq 0.1.0" in found["error"] and flintmq.__version__ in found["error"]


def test_directories_of_killed_ones_are_removed_by_the_next(tmp_path, monkeypatch):
    import fcntl

    from flintmq.spark.door import serve

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left, held = tmp_path / "flintmq-door-left", tmp_path / "flintmq-door-held"
    for folder in (left, held):
        folder.mkdir()
        monkeypatch.chdir(folder)  # the path of a socket is short
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("door")
    monkeypatch.chdir(tmp_path)
    others = {"flintmq-door-results": "part-0.parquet", "flintmq-door-notes": "door"}
    for name, file in others.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_text("of a user")
    (tmp_path / "flintmq-door-empty").mkdir()
    handle = os.open(held, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    serve._remove_left_ones()
    assert not left.exists() and held.exists()
    os.close(handle)
    own = serve._own_folder()
    serve._remove_left_ones()
    assert own.is_dir() and not held.exists() and (tmp_path / "flintmq-door-empty").is_dir()
    assert all((tmp_path / name / file).read_text() == "of a user" for name, file in others.items())


EARLY = {
    "before it has the lock": "serve._locked = stop\nserve._own_folder()",
    "before it has the socket": "stop(serve._own_folder())",
}


@pytest.mark.parametrize("when", EARLY)
def test_the_directory_of_one_killed_early_is_removed_by_the_next(tmp_path, monkeypatch, when):
    from flintmq.spark.door import serve

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    program = f"""
import sys
from flintmq.spark.door import serve

def stop(folder):
    print(folder, flush=True)
    sys.stdin.read()

{EARLY[when]}
"""
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as child:
        try:
            assert child.stdout is not None
            folder = Path(child.stdout.readline().strip())
            if when == "before it has the socket":
                serve._remove_left_ones()
            assert folder.parent == tmp_path and os.listdir(folder) == [], "it lives, and has it"
        finally:
            child.kill()
    serve._remove_left_ones()
    assert not folder.exists()


def test_one_whose_new_directory_is_removed_makes_another(tmp_path, monkeypatch):
    """The other one looks just before this one has the lock."""
    from flintmq.spark.door import serve

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    locked, looked = serve._locked, list[Path]()

    def lock(folder: Path) -> int | None:
        if not looked:
            looked.append(folder)
            with monkeypatch.context() as other:
                other.setattr(serve, "_locked", locked)
                serve._remove_left_ones()
        return locked(folder)

    monkeypatch.setattr(serve, "_locked", lock)
    own = serve._own_folder()
    assert own.is_dir() and not looked[0].exists()
