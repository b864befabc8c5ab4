"""Power cuts on a disk that forgets what was not synced (short form of `python -m labs.crash.power`)."""

from pathlib import Path

import pytest

from labs.crash.power import Case, run
from tests.support.unplugged import Unplugged


@pytest.mark.turn(2, of=["src/flintmq/store/", "src/flintmq/storage/"])
@pytest.mark.parametrize("worst", [True, False], ids=["nothing-unsynced", "any-sectors"])
@pytest.mark.parametrize(("kernel_puts", "pool"), [(True, False), (False, False), (True, True)])
@pytest.mark.parametrize("disk", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_power_lost_before_a_sync(tmp_path: Path, disk: str, kernel_puts: bool, pool: bool, worst: bool):
    """Also during recovery, and again on what the first cut left."""
    assert run(tmp_path, Case(5, disk, kernel_puts, worst, pool), lives=2, most=6) == 12


def test_the_disk_forgets_what_was_not_synced(tmp_path: Path):
    """The measure itself: without the sync of a file its bytes are gone, without that of its directory its name."""
    disk = Unplugged(tmp_path)
    fd = disk.create(str(tmp_path / "a"), 0)
    disk.pwrite(fd, b"one", 0)
    assert disk.image() == {}
    disk.sync(fd)
    assert disk.image() == {}, "no name yet"
    disk.sync_dir(str(tmp_path))
    disk.pwrite(fd, b"two", 0)
    assert disk.image() == {"a": b"one"}
    disk.rename(str(tmp_path / "a"), str(tmp_path / "b"))
    assert disk.image() == {"a": b"one"}
    disk.sync_dir(str(tmp_path))
    disk.sync(fd)
    assert disk.image() == {"b": b"two"}
    disk.close(fd)
