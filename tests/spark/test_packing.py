"""The pack of the package: everything that a worker imports, the same bytes each time."""

import os
import subprocess
import sys
import tarfile

import pytest

from flintmq.errors import UsageError
from flintmq.spark import pack


def test_a_process_imports_the_package_from_it(tmp_path):
    settings = pack(tmp_path / "one.tar.gz")
    assert settings["spark.archives"] == f"{tmp_path}/one.tar.gz#flintmq-spark"
    place = tmp_path / settings["spark.executorEnv.PYTHONPATH"]
    with tarfile.open(tmp_path / "one.tar.gz") as archive:
        archive.extractall(place, filter="data")
    code = "import flintmq, flintmq.kernels.read.walk as walk, pyspark_flintmq; print(flintmq.__file__, walk.__file__)"
    told = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": place.name},
    )
    assert all(path.startswith(f"{place}/flintmq/") for path in told.stdout.split()) and told.stderr == ""


def test_the_same_package_gives_the_same_archive(tmp_path):
    pack(tmp_path / "one.tar.gz")
    (tmp_path / "two.tar.gz").write_bytes(b"an older one")
    pack(tmp_path / "two.tar.gz")
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()


def test_a_place_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageError, match="is not a directory; make it first"):
        pack(tmp_path / "none" / "one.tar.gz")
    assert list(tmp_path.iterdir()) == []
