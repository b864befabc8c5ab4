"""Every job on a cluster, with speculation on and a worker killed amid each: what comes is what one machine says.

    python -m labs.spark_cluster.every_job MASTER STORE OUT PYTHON    prints a JSON object: job -> what was found,
                                                                       and what it has to be

PYTHON is the executors' interpreter. It does not have the package, which comes as a pack. The driver is a process of
its own, since a process has one Spark session.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from labs.spark_cluster.cluster import ROOT, environment

SETTINGS = {
    "spark.driver.memory": "768m",
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.worker.reuse": "false",  # each task starts Python, so a job lasts long enough to be hit
    "spark.ui.liveUpdate.period": "0",  # else what runs is seen 100 ms late
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.05",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.minTaskRuntime": "20ms",
    "spark.task.maxFailures": "12",
    "spark.stage.maxConsecutiveAttempts": "12",
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.sql.shuffle.partitions": 2,
}
SECONDS = 60


def run(master: str, store: Path, out: Path, python: str) -> dict[str, Any]:
    """What a driver process says of each job.

    Args:
        master: Spark's master.
        store: a store at rest.
        out: an empty directory.
        python: the executors' interpreter, which does not have the package.
    """
    known = environment() | {"PYSPARK_DRIVER_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-m", "labs.spark_cluster.every_job", master, str(store), str(out), python],
        capture_output=True,
        text=True,
        timeout=1200,
        cwd=ROOT,
        env=known,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


class Killer:
    """Kills one executor as soon as a job has tasks that run.

    Attributes:
        killed: whether it has.
    """

    def __init__(self, spark: Any) -> None:
        self.spark, self.killed = spark, False
        self.victim = executors(spark.sparkContext.applicationId)[0]  # found before: a job may take 100 ms
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        tracker = self.spark.sparkContext.statusTracker()
        while not self._over.wait(0.001):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            if any(stage is not None and stage.numActiveTasks for stage in stages):
                os.kill(self.victim, signal.SIGKILL)
                self.killed = True
                return

    def stop(self) -> bool:
        """Stop watching; return whether an executor was killed."""
        self._over.set()
        self._thread.join()
        return self.killed


def executors(application: str) -> list[int]:
    """The processes of this application's executors."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if application.encode() in words and any(b"CoarseGrainedExecutorBackend" in word for word in words):
                found.append(int(entry.name))
    return sorted(found)


def main(master: str, store: str, out: str, python: str) -> None:
    """Run each job, and print what it found beside what it has to find."""
    import flintmq.spark

    os.environ["PYSPARK_PYTHON"] = python
    packed = flintmq.spark.pack(f"{out}/pack.tar.gz")
    settings = SETTINGS | packed | {"spark.sql.warehouse.dir": f"{out}/warehouse"}
    spark = flintmq.spark.session("every job", master, **settings)
    spark.sparkContext.setLogLevel("OFF")
    jobs = Jobs(spark, store, out)
    told = {}
    for name, job in jobs.all().items():
        until = time.monotonic() + SECONDS
        while len(executors(spark.sparkContext.applicationId)) < 2 and time.monotonic() < until:
            time.sleep(0.05)  # the one that was killed is started again
        killer = Killer(spark)
        try:
            found, expected = job()
        finally:
            killed = killer.stop()
        told[name] = {"found": found, "expected": expected, "killed": killed}
    told["where"] = {"found": sorted(set(jobs.places)), "expected": None, "killed": False}
    spark.stop()
    print(json.dumps(told))


class Jobs:
    """The jobs, each with what it has to find.

    Attributes:
        places: where tasks imported the package from.
    """

    def __init__(self, spark: Any, store: str, out: str) -> None:
        import flintmq

        self.spark, self.store, self.out = spark, store, out
        self.places: list[str] = []
        self.rows = flintmq.scan_arrow(store).read_all()

    def all(self) -> dict[str, Callable[[], tuple[Any, Any]]]:
        names = (
            "imports",
            "read",
            "stream",
            "export",
            "diff",
            "diff_stores",
            "verify",
            "rebuild",
            "dispatch",
            "stats",
            "replay",
            "sink",
        )
        return {name: getattr(self, name) for name in names}

    def _bodies(self) -> list[list[Any]]:
        names = ("physical_offset", "topic", "queue_offset", "body")
        return sorted([*row[:3], row[3].hex()] for row in zip(*(self.rows[n].to_pylist() for n in names), strict=True))

    def imports(self) -> tuple[Any, Any]:
        """The tasks have the package from the pack."""

        def where(_: int) -> str:
            import time as clock

            import flintmq

            clock.sleep(0.5)
            return flintmq.__file__

        self.places = self.spark.sparkContext.parallelize(range(4), 4).map(where).collect()
        return len(self.places), 4

    def read(self) -> tuple[Any, Any]:
        frame = self.spark.read.format("flintmq").options(minPartitions="8").load(self.store)
        rows = frame.select("physical_offset", "topic", "queue_offset", "body").collect()
        return sorted([*row[:3], bytes(row[3]).hex()] for row in rows), self._bodies()

    def stream(self) -> tuple[Any, Any]:
        source = self.spark.readStream.format("flintmq").options(maxOffsetsPerTrigger="700", minPartitions="4")
        written = (
            source.load(self.store).writeStream.format("parquet").option("checkpointLocation", f"{self.out}/point")
        )
        query = written.trigger(availableNow=True).start(f"{self.out}/stream")
        query.awaitTermination(300)
        rows = self.spark.read.parquet(f"{self.out}/stream").select("physical_offset", "topic", "queue_offset", "body")
        return sorted([*row[:3], bytes(row[3]).hex()] for row in rows.collect()), self._bodies()

    def export(self) -> tuple[Any, Any]:
        from flintmq.spark.jobs.export.job import export

        return export(self.spark, self.store, f"{self.out}/lake", target_file_size=1 << 20).rows, self.rows.num_rows

    def diff(self) -> tuple[Any, Any]:
        from flintmq.lake.history import diff_table
        from flintmq.spark.jobs.tasks import SparkWorkers

        diff_table.RANGE_BYTES = 200_000
        found = diff_table.compare_table(self.store, f"{self.out}/lake", workers=SparkWorkers(self.spark))
        return [found.equal, found.messages, found.rows], [True, self.rows.num_rows, self.rows.num_rows]

    def diff_stores(self) -> tuple[Any, Any]:
        from flintmq.forensics.copy import copy_whole
        from flintmq.forensics.diff.run import compare as local
        from flintmq.spark.jobs.diff import compare

        copy = f"{self.out}/copy"
        if not Path(copy).is_dir():
            copy_whole(self.store, copy)
        found = [compare(self.spark, self.store, copy, by=by).as_dict() for by in ("offset", "message")]
        return found, [local(self.store, copy, by=by).as_dict() for by in ("offset", "message")]

    def verify(self) -> tuple[Any, Any]:
        from flintmq.forensics.verify.run import verify as local
        from flintmq.spark.jobs.verify import verify

        found, expected = verify(self.spark, self.store), local(self.store)
        return _plain(found), _plain(expected)

    def _rebuilt(self) -> dict[str, str]:
        from flintmq.forensics.rebuild import rebuild

        if not Path(f"{self.out}/local").is_dir():
            rebuild(self.store, f"{self.out}/local")
        return contents(Path(f"{self.out}/local"))

    def rebuild(self) -> tuple[Any, Any]:
        from flintmq.spark.jobs.rebuild import rebuild

        rebuild(self.spark, self.store, f"{self.out}/rebuilt")
        return contents(Path(f"{self.out}/rebuilt")), self._rebuilt()

    def dispatch(self) -> tuple[Any, Any]:
        from flintmq.spark.jobs.dispatch.job import dispatch

        dispatch(self.spark, self.store, f"{self.out}/dispatched", once=True)
        return contents(Path(f"{self.out}/dispatched")), self._rebuilt()

    def stats(self) -> tuple[Any, Any]:
        from flintmq.spark.jobs.stats.job import stats

        found = stats(self.spark, self.store, f"{self.out}/page.html")
        return [found.messages, found.topic_count], [self.rows.num_rows, len(set(self.rows["topic"].to_pylist()))]

    def replay(self) -> tuple[Any, Any]:
        from flintmq.spark.jobs.replay.job import replay

        replay(self.spark, f"{self.out}/lake", f"{self.out}/replayed")
        return self._content(f"{self.out}/replayed"), self._content(self.store)

    def sink(self) -> tuple[Any, Any]:
        frame = self.spark.read.parquet(f"{self.out}/lake").select("topic", "queue_id", "body")
        frame.write.format("flintmq").mode("append").save(f"{self.out}/sunk")
        return self._content(f"{self.out}/sunk"), self._content(self.store)

    @staticmethod
    def _content(store: str) -> list[Any]:
        import flintmq

        rows = flintmq.scan_arrow(store, columns=["topic", "queue_id", "body"]).read_all()
        found = zip(*(rows[name].to_pylist() for name in rows.schema.names), strict=True)
        return sorted([topic, queue, body.hex(), count] for (topic, queue, body), count in Counter(found).items())


def contents(root: Path) -> dict[str, str]:
    """Path -> SHA-256 of each queue and index file."""
    import hashlib

    kinds = ("consumequeue", "batchconsumequeue", "index")
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for kind in kinds
        for path in sorted((root / kind).rglob("*"))
        if path.is_file()
    }


def _plain(found: Any) -> dict[str, Any]:
    """What a verification found, as JSON gives it back; workers meet defects and notes in any order."""
    plain: dict[str, Any] = json.loads(json.dumps(asdict(found)))
    for name in ("defects", "notes"):
        plain[name] = sorted(plain[name], key=str)
    return plain


if __name__ == "__main__":
    main(*sys.argv[1:])
