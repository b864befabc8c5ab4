"""Files of tests in memory instead of on a disk, for the tests of a folder that imports this fixture.

A test of a table or of a stream opens some stores and closes them, each with a dozen syncs. On a disk that others sync
too, it waits for that as long as it computes: tests/lake/table/test_iceberg.py and tests/lake/history/
test_lost_columns.py took 132 and 175 s there, 50 and 81 s in memory, in turn. Two tests of tests/store/recovery/
test_seeded.py took 206 and 86 s on a disk beside Spark, 3 s each alone. What they show is the same. All are on the disk
where nothing is left out (turns.py), so each night, and where a file is named. tests/storage and tests/kernels, which
are about files, and a test that looks at pages are there always.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from copy import copy
from pathlib import Path

import pytest

from tests.harness import turns

MEMORY = Path("/dev/shm")
LEAST_FREE = 6 << 30  # bytes; two workers have some 2 GiB at a time
MOST_KEPT = 256 << 20  # bytes on a disk, of what the tests of a folder left where one failed


def has_room(memory: Path = MEMORY) -> bool:
    """Whether there is a file system in memory, with room for the files of tests in it and in the machine."""
    try:
        of_folder, lines = os.statvfs(memory), Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return False
    available = next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), 0)
    return min(of_folder.f_bavail * of_folder.f_frsize, available) >= LEAST_FREE


def leave_out(folder: Path, most: int) -> None:
    """Remove the largest files of a folder until the others take so many bytes, and list them in a file."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    sizes = sorted((path.stat().st_blocks * 512, path) for path in files)
    taken, gone = sum(size for size, _ in sizes), list[str]()
    while taken > most:
        size, path = sizes.pop()
        path.unlink()
        taken -= size
        gone.append(f"{size} bytes: {path.relative_to(folder)}\n")
    if gone:
        (folder / "left-out.txt").write_text("".join(gone), encoding="utf-8", errors="surrogateescape")


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
        leave_out(base, MOST_KEPT)
        # Each folder of tests has a base of its own. A store's files are mostly holes.
        subprocess.run(["cp", "-a", "--sparse=always", str(base), str(disk / base.name)], check=True)
    shutil.rmtree(base, ignore_errors=True)
