"""Write Spark's classes, as Java has them once they are loaded and checked, into one file that later Java machines map.

    python -m tests.harness.class_archive            (what `make test` does first, once an environment)

Of the processor time of a Spark session that lives for seconds nearly half goes into loading its classes: 18.8 s
without the file, 10.5 s with it (one small query, two cores that had other work). A Java that cannot use the file,
because it is another Java or another Spark, goes on without it.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

PATH = Path(sys.prefix, "spark-classes.jsa")
QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:disable -Xlog:all=off"
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # compiling twice, or collecting by threads, pays after minutes only
PROGRAM = """
import sys
from flintmq.spark import session
from flintmq.testing.write_store import write_store
root, out = sys.argv[1:]
write_store(root, 1000)
spark = session("classes", "local[2]", **{"spark.log.level": "OFF"})
frame = spark.read.format("flintmq").option("path", root).load()
frame.groupBy("topic").count().write.parquet(out + "/batch")
assert spark.read.parquet(out + "/batch").count()
stream = spark.readStream.format("flintmq").option("path", root).load()
writing = stream.writeStream.option("checkpointLocation", out + "/state").trigger(availableNow=True)
assert writing.start(out + "/stream", format="parquet").awaitTermination(300)
spark.stop()
"""


def options() -> str:
    """What to start Spark's Java with, when it will live for seconds."""
    return f"{QUICK} -XX:SharedArchiveFile={PATH} {QUIET}" if PATH.exists() else QUICK


def write() -> str:
    """Write the file; empty, or why there is none."""
    made = PATH.with_suffix(".new")
    variables = {**os.environ, "SPARK_SUBMIT_OPTS": f"{QUICK} -XX:ArchiveClassesAtExit={made} {QUIET}"}
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-c", PROGRAM, f"{folder}/store", f"{folder}/out"]
        done = subprocess.run(words, env=variables, capture_output=True, text=True, timeout=900)
    if done.returncode or not made.exists():
        return (done.stderr.strip() or "Java wrote none").splitlines()[-1]
    made.replace(PATH)
    return ""


if __name__ == "__main__":
    why = "" if PATH.exists() else write()
    print(f"no archive of Spark's classes: {why}; tests with Spark start slower" if why else f"{PATH}: there")
