"""Files of tests in memory instead of on a disk, for the tests of a folder or a file that imports this fixture.

A test of a table or of a stream opens some stores and closes them, each with a dozen syncs. On a disk that others sync
too, it waits for that as long as it computes: tests/lake/table/test_iceberg.py and tests/lake/history/
test_lost_columns.py took 132 and 175 s there, 50 and 81 s in memory, in turn. What they show is the same. Tests of the
engine are on the disk, but for test_interrupts.py, which saved tables for 67 s of 71; all are where nothing is left out
(turns.py), so each night, and where a file is named.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from copy import copy
from pathlib import Path

import pytest

from tests.harness import turns

MEMORY = Path("/dev/shm")
LEAST_FREE = 6 << 30  # bytes; two workers have some 2 GiB at a time


def has_room(memory: Path = MEMORY) -> bool:
    """Whether there is a file system in memory, with room for the files of tests in it and in the machine."""
    try:
        of_folder, lines = os.statvfs(memory), Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return False
    available = next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), 0)
    return min(of_folder.f_bavail * of_folder.f_frsize, available) >= LEAST_FREE


@pytest.fixture(scope="session")
def tmp_path_factory(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[pytest.TempPathFactory]:
    """pytest's own, which makes its folders in memory where several workers share the tests."""
    if os.environ[turns.VARIABLE] == "all" or not hasattr(request.config, "workerinput") or not has_room():
        yield tmp_path_factory
        return
    base, disk = Path(tempfile.mkdtemp(prefix="flintmq-tests-", dir=MEMORY)), tmp_path_factory.getbasetemp()
    in_memory = copy(tmp_path_factory)
    in_memory._basetemp = base
    yield in_memory
    if request.session.testsfailed:  # what they left is to be looked at, and takes no memory until then
        shutil.copytree(base, disk / base.name, symlinks=True)  # each folder of tests has a base of its own
    shutil.rmtree(base, ignore_errors=True)
