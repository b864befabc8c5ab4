"""Every job on a cluster whose workers have no FlintMQ, with speculation on, and a worker killed amid each job."""

import os
import sys
import sysconfig
from contextlib import nullcontext
from pathlib import Path

import pytest

from labs.spark_cluster import cluster, every_job

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def python_without(folder: Path) -> str:
    """An interpreter that has all packages of this one but FlintMQ: a virtual environment of links."""
    import venv

    venv.create(folder, with_pip=False, symlinks=True)
    [site] = folder.glob("lib/python*/site-packages")
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "flintmq" not in entry.name and entry.suffix != ".pth":
            os.symlink(entry, site / entry.name)
    return str(folder / "bin" / Path(sys.executable).name)


@pytest.mark.nightly(of=["src/flintmq/spark/jobs/tasks.py", "src/flintmq/spark/packing.py"])
@pytest.mark.parametrize("kind", ["local-cluster", "standalone"])
def test_each_job_finds_what_one_machine_finds(golden, tmp_path, kind):
    store = golden("basic").copy(tmp_path)
    out = tmp_path / "out"
    out.mkdir()
    python = python_without(tmp_path / "python")
    started = cluster.standalone(tmp_path) if kind == "standalone" else nullcontext(cluster.LOCAL_CLUSTER)
    with started as master:
        told = every_job.run(master, store, out, python)
    places = told.pop("where")["found"]
    assert places and all("flintmq-spark/flintmq/" in place for place in places), places
    for name, job in told.items():
        assert job["found"] == job["expected"] and job["found"], name
    assert [name for name, job in told.items() if not job["killed"]] == []
