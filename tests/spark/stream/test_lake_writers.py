"""Delta's and Iceberg's own writers take our stream: each message once, through a stop and a killed driver.

Their jars are those of `make lake-writers SPARK=4.1`. What is written is read by deltalake and PyIceberg.
"""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from flintmq import Message, MessageStore
from tests.support.spark_reading import SPARK

JARS = Path(__file__).parents[3] / "build" / "lake-writers" / ".".join(map(str, SPARK))

pytestmark = pytest.mark.spark

PROGRAM = """
import sys
import flintmq.spark

form, jars, store, work, most = sys.argv[1:]
settings = {"spark.jars": jars}
if form == "iceberg":
    lake = "spark.sql.catalog.lake"
    settings |= {lake: "org.apache.iceberg.spark.SparkCatalog", f"{lake}.type": "hadoop", f"{lake}.warehouse": work}
else:
    settings |= {"spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension"}
    settings |= {"spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"}
spark = flintmq.spark.session("own writer", "local[2]", **settings)
print(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid(), flush=True)
read = spark.readStream.format("flintmq").option("maxOffsetsPerTrigger", most).load(store)
rows = read.select("topic", "queue_id", "queue_offset", "body")
writing = rows.writeStream.format(form).option("checkpointLocation", f"{work}/checkpoint").trigger(availableNow=True)
query = writing.toTable("lake.db.orders") if form == "iceberg" else writing.start(f"{work}/db/orders")
query.awaitTermination()
"""


def started(form: str, store: Path, work: Path, most: int) -> tuple[subprocess.Popen[str], int]:
    """A driver that writes what there is; and the process id of its JVM."""
    jars = ",".join(map(str, sorted(JARS.glob("*.jar"))))
    words = [sys.executable, "-c", PROGRAM, form, jars, str(store), str(work), str(most)]
    with (work / "log").open("a") as log:
        driver = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)
    assert driver.stdout is not None
    line = driver.stdout.readline()
    assert line, (work / "log").read_text()
    return driver, int(line)


def put(store: Path, count: int) -> Counter[tuple[str, int, int, bytes]]:
    """Put messages, and count where each of them is."""
    found: Counter[tuple[str, int, int, bytes]] = Counter()
    with MessageStore(store) as opened:
        for number in range(count):
            message = Message(("Orders", "Payments")[number % 2], b"%d" % number, queue_id=number % 4 // 2)
            found[message.topic, message.queue_id, opened.put(message).queue_offset, message.body] += 1
    return found


def written(form: str, work: Path) -> Counter[tuple[str, int, int, bytes]]:
    if form == "delta":
        from deltalake import DeltaTable

        table = DeltaTable(str(work / "db" / "orders")).to_pyarrow_table()
    else:
        from pyiceberg.table import StaticTable

        folder = work / "db" / "orders" / "metadata"
        newest = (folder / "version-hint.text").read_text()
        table = StaticTable.from_metadata(str(folder / f"v{newest}.metadata.json")).scan().to_arrow()
    columns = [table.column(name).to_pylist() for name in ("topic", "queue_id", "queue_offset", "body")]
    return Counter(zip(*columns, strict=True))


def commits(work: Path) -> int:
    folder = work / "checkpoint" / "commits"
    return sum(path.name.isdigit() for path in folder.iterdir()) if folder.is_dir() else 0


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_each_message_is_in_the_table_once(form: str, tmp_path: Path) -> None:
    if not list(JARS.glob(f"{form}-spark*.jar")):
        pytest.skip("the lake's own writers are not there for this Spark (make lake-writers)")
    store, work = tmp_path / "store", tmp_path / "lake"
    work.mkdir()
    expected = put(store, 200)
    driver, _ = started(form, store, work, 100)
    assert driver.wait(300) == 0, (work / "log").read_text()  # stopped when it had everything
    assert written(form, work) == expected and commits(work) >= 2

    expected += put(store, 300)
    before = commits(work)
    driver, jvm = started(form, store, work, 10)
    until = time.monotonic() + 120
    while commits(work) < before + 3 and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(jvm, signal.SIGKILL)
    assert driver.wait(120) != 0
    assert commits(work) < before + 30, "it was killed amid its work"
    until = time.monotonic() + 20
    while time.monotonic() < until:  # whom the JVM had started ends with it
        try:
            os.killpg(driver.pid, 0)
        except ProcessLookupError:
            break
        time.sleep(0.1)
    else:
        os.killpg(driver.pid, signal.SIGKILL)
        pytest.fail("processes of the killed driver are left")

    driver, _ = started(form, store, work, 100)
    assert driver.wait(300) == 0, (work / "log").read_text()
    assert written(form, work) == expected
