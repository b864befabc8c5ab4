"""Power cuts on real file systems (T4, short form of `python -m labs.crash.cuts`)."""

import os
from pathlib import Path

import pytest

from flintmq.storage.files.filesystem import REAL
from labs.crash import cuts
from labs.torture import report
from tests.robustness.crash.disks import DROP_JOURNAL, FLUSH_JOURNAL, Disk, why_not


@pytest.fixture(params=["ext4", "xfs"])
def kind(request: pytest.FixtureRequest) -> str:
    """A file system that can be mounted here."""
    if why_not(request.param):
        pytest.skip(why_not(request.param))
    return str(request.param)


def test_the_measure_forgets_what_was_not_synced(tmp_path: Path, kind: str):
    """The cut itself: a name and bytes that were synced stay, those that were not go."""
    with Disk(tmp_path, kind) as disk:
        synced, other = disk.mounted / "synced", disk.mounted / "other"
        synced.write_bytes(b"one" * 1000)
        os.sync()
        other.write_bytes(b"two" * 1000)
        disk.cut(DROP_JOURNAL)
        with pytest.raises(OSError):
            other.write_bytes(b"three")
    with disk:
        assert synced.read_bytes() == b"one" * 1000 and not other.exists()


def test_a_flushed_journal_keeps_the_name_of_a_file_without_its_bytes(tmp_path: Path, kind: str):
    with Disk(tmp_path, kind) as disk:
        (disk.mounted / "other").write_bytes(b"two" * 1000)
        disk.cut(FLUSH_JOURNAL)
    with disk:
        other = disk.mounted / "other"
        assert not other.exists() or b"two" not in other.read_bytes()


def test_every_mounting_has_a_number_of_its_own(tmp_path: Path, kind: str):
    """What `abort` names besides the boot; the page cache of a disk does not outlive its mounting."""
    seen = []
    disk = Disk(tmp_path, kind)
    for _ in range(2):
        with disk:
            seen.append(REAL.mounting(str(disk.mounted)))
            (disk.mounted / "store").mkdir(exist_ok=True)
            assert REAL.mounting(str(disk.mounted / "store")) == seen[-1]
    assert all(seen) and seen[0] != seen[1]
    assert REAL.mounting("/proc") == REAL.mounting(str(tmp_path / "missing")) == ""


@pytest.mark.parametrize("number", [0, 6], ids=["sync", "async-pool"])
def test_power_cuts(tmp_path: Path, kind: str, number: int):
    """Three cuts in a row, in opening, recovery and puts, each checked by the whole contract."""
    number = next(n for n in range(number, 100) if cuts.cuts_of(n)[0] == kind)
    sums: dict[str, int] = {}

    def add(row: str, **figures: int) -> None:
        assert row.startswith(kind)
        for name, figure in figures.items():
            sums[name] = sums.get(name, 0) + figure

    assert cuts.one_disk(number, tmp_path / "disk", 3, add) == sums["cuts"] == 3
    assert sums["lost"] == 0 and not Path(tmp_path, "disk", "mnt", "store").exists(), "unmounted"


def test_the_cuts_of_a_number_are_always_the_same():
    kind, found = cuts.cuts_of(5)
    assert (kind, found) == cuts.cuts_of(5) and len(found) == cuts.PER_DISK
    assert {cuts.cuts_of(n)[0] for n in range(8)} == {"ext4", "xfs"}
    assert {(c.life.disk, c.life.pool) for n in range(8) for c in cuts.cuts_of(n)[1]} == {
        (disk, pool) for disk in ("SYNC_FLUSH", "ASYNC_FLUSH") for pool in (True, False)
    }


def test_each_kind_has_a_row_and_no_row_is_a_sum(tmp_path: Path):
    state = report.State(tmp_path, cuts=3, disks=1, sums={}, begun="now")
    state.add("xfs, SYNC_FLUSH", cuts=1, opening=True, acknowledged=1000)
    state.add("ext4, SYNC_FLUSH", cuts=2, lost=0, acknowledged=500)
    state.save()
    assert report.State(tmp_path)["cuts"] == 3, "goes on where it was"
    found = cuts.series(state)
    rows = {row[0]: dict(zip(found.columns[1:], row[1:], strict=True)) for row in found.rows}
    assert rows.keys() == {"ext4, SYNC_FLUSH", "xfs, SYNC_FLUSH"} and found.run == "now"
    assert {name: n for name, n in rows["ext4, SYNC_FLUSH"].items() if n} == {"cuts": 2, "acknowledged": 500}
    assert {n: m for n, m in rows["xfs, SYNC_FLUSH"].items() if m} == {"cuts": 1, "opening": 1, "acknowledged": 1000}
    assert rows["xfs, SYNC_FLUSH"]["lost"] == 0
