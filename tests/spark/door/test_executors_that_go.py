"""Dynamic allocation: executors that Spark no longer needs take their Python side with them, and others come."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flintmq.spark.door import JAR
from flintmq.testing import write_store
from labs.spark_cluster import cluster

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.nightly(of=["src/flintmq/spark/door/", "tests/spark/door/test_executors_that_go.py"]),
    pytest.mark.skipif(not JAR.is_file(), reason="the jar was not built (tools/door_jar.py says why)"),
    pytest.mark.skipif(os.environ.get("FLINTMQ_JAR") == "0", reason="FLINTMQ_JAR=0: without the jar"),
]

PROGRAM = """
import json, os, sys, time
from pathlib import Path
import flintmq.spark

settings = {"enabled": "true", "shuffleTracking.enabled": "true", "executorIdleTimeout": "1s", "minExecutors": "0"}
spark = flintmq.spark.session(
    "idle", sys.argv[2], **{f"spark.dynamicAllocation.{name}": value for name, value in settings.items()}
)
java = spark.sparkContext._gateway.proc.pid

def above(folder):
    while (parent := int((folder / "stat").read_text().rpartition(")")[2].split()[1])) > 0:
        yield parent
        folder = Path(f"/proc/{parent}")

def sides():
    "Python sides of this query's Java processes: the driver's own, and those of executors."
    found = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            found += b"flintmq.spark.door.serve" in (folder / "cmdline").read_bytes() and java in above(folder)
        except OSError:
            pass
    return found

def executors():
    return len(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) - 1

for _ in range(2):
    rows = spark.read.format("flintmq").load(sys.argv[1]).select("physical_offset").collect()
    told = {"rows": len(rows), "executors": executors(), "sides": sides()}
    until = time.monotonic() + 90
    while (executors() or sides() > 1) and time.monotonic() < until:
        time.sleep(0.1)
    print(json.dumps({**told, "then": [executors(), sides()]}), flush=True)
spark.stop()
"""


def test_an_idle_executor_takes_its_python_side_with_it(tmp_path: Path):
    write_store(tmp_path / "store", 1000, seed=7)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "store"), "local-cluster[2,1,1024]"],
        capture_output=True,
        text=True,
        timeout=400,
        env=cluster.environment(),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["rows"] for one in told] == [1000, 1000]
    assert all(one["executors"] > 0 and one["sides"] > 1 for one in told), told
    assert [one["then"] for one in told] == [[0, 1], [0, 1]], "the driver's own is left"
