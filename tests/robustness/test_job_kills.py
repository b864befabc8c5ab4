"""A few kills of each job; `python -m labs.job_kills` makes many."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the extra spark")
pytest.importorskip("pyiceberg", reason="needs the extra iceberg")
pytest.importorskip("deltalake", reason="needs the extra delta")

from labs.job_kills.__main__ import killed
from labs.job_kills.jobs import KINDS, VICTIMS, Job
from labs.torture_spark.streams import EXECUTORS
from tests.support.own_writer import jars

JOBS = ["src/flintmq/spark/door/", "src/flintmq/spark/sink/", "src/flintmq/spark/jobs/", "src/flintmq/spark/stream.py"]


@pytest.mark.spark
@pytest.mark.nightly(of=JOBS)
@pytest.mark.skipif(sys.platform != "linux", reason="finds the processes to kill in /proc")
@pytest.mark.parametrize("kind", KINDS)
def test_jobs_survive_kills(tmp_path: Path, kind: str) -> None:
    if kind in ("delta", "iceberg") and not jars(kind):
        pytest.skip("the lake's own writers are not there for this Spark (make lake-writers)")
    counted = killed(tmp_path, kind, kills=2, seed=1, masters=("local[2,8]",))
    assert sum(counted[whom] for whom in VICTIMS) == counted["kills"] == 2 and counted["comparisons"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "victims"),
    [
        ("delta", {"driver", "java", "side", "executor"}),
        ("sink", {"driver", "java", "side", "worker", "executor"}),
        ("rebuild", {"driver", "java", "worker", "executor"}),
    ],
)
def test_whom_there_is_to_kill(tmp_path: Path, kind: str, victims: set[str]) -> None:
    job = Job(tmp_path, kind, EXECUTORS, 100)
    assert set(job.victims) == victims
    assert job.is_a("worker", ["python", "-m", "pyspark.daemon", "pyspark.worker"])
    assert not job.is_a("worker", ["python", "-m", "flintmq.spark.door.serve"])
    job.end()


def test_what_is_wrong_is_found(tmp_path: Path) -> None:
    """Rows that are missing, and files that a local rebuild has not."""
    from flintmq import Message, MessageStore
    from flintmq.forensics.rebuild import rebuild
    from labs.job_kills.jobs import CONFIG

    for kind, wrong in (("replay", "missing 1: .*; too many 1:"), ("rebuild", "files differ .*consumequeue/T/0/0")):
        folder = tmp_path / kind
        folder.mkdir()
        job = Job(folder, kind, EXECUTORS, 100)
        for root, body in ((job.store, b"a"), (job.out if kind == "replay" else folder / "other", b"longer")):
            with MessageStore(root, CONFIG, unique_keys=False) as store:
                store.put(Message("T", body))
        if kind == "rebuild":
            rebuild(str(folder / "other"), str(job.out), CONFIG)
        with pytest.raises(AssertionError, match=wrong):
            job.check()
        job.end()
