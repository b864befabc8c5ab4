"""The timer store: units, links, records, wheel, and the file timercheck."""

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.forensics.verify.context import Ground
from flintmq.forensics.verify.findings import Findings
from flintmq.forensics.verify.queue_files import Disk
from flintmq.forensics.verify.timer_check import TimerStoreCheck
from flintmq.storage.files.filesystem import REAL
from flintmq.store.commitlog.snapshot import list_log
from tests.compat.stores import Golden
from tests.support.makers import check, config_of, flip, patch

UNIT = struct.Struct(">iqiqiqiiq")  # size, previous, magic, write time, delay, log offset, record size, hash, reserved


def sparse_copy(path: Path, to: Path) -> None:
    """Copy a file that is mostly zeros without writing these."""
    with path.open("rb") as source, to.open("wb") as target:
        for at in range(0, path.stat().st_size, 4096):
            block = source.read(4096)
            if any(block):
                target.seek(at)
                target.write(block)
        target.truncate(path.stat().st_size)


class Timer:
    """The timer store of the golden broker, with a wheel that the tests can afford to change."""

    def __init__(self, store: Golden, folder: Path) -> None:
        self.store = store
        skipped = shutil.ignore_patterns("consumequeue", "index", "timerwheel")
        self.root = shutil.copytree(store.path, folder / "timer", ignore=skipped)
        self.first, self.second = self.root / "timerlog" / f"{0:020}", self.root / "timerlog" / f"{5200:020}"
        self.wheel = self.root / "timerwheel"
        sparse_copy(store.path / "timerwheel", self.wheel)
        self.check_file = self.root / "config" / "timercheck"

    def found(self, unclean: bool = False, end: int = 111, **keys: int) -> Findings:
        config = config_of(self.store).with_keys(keys)
        log = list_log(str(self.root), config)
        ground = Ground(Findings(), replay_from=0 if unclean else None)
        disk = Disk(REAL)
        TimerStoreCheck(str(self.root), config, disk, ground, log, 55_264).run(lambda topic, queue: end)
        disk.close()
        return ground.findings

    def defects(self, unclean: bool = False) -> dict[str, int]:
        return dict(self.found(unclean).defect_counts)

    def unit(self, number: int) -> list[int]:
        return list(UNIT.unpack_from(self.first.read_bytes(), 52 * number))

    def put(self, number: int, unit: list[int]) -> None:
        patch(self.first, 52 * number, UNIT.pack(*unit))


@pytest.fixture
def timer(golden: Callable[[str], Golden], tmp_path: Path) -> Timer:
    return Timer(golden("timer"), tmp_path)


def test_rocketmqs_own_is_sound(timer: Timer):
    assert timer.defects() == {}
    assert timer.found().note_counts == {}


def test_units_that_cannot_be(timer: Timer):
    good = timer.unit(50)
    for field, value in (
        (1, 52 * 50),  # a link to itself
        (1, 52 * 60),  # to a later unit
        (1, 7),  # to no unit
        (1, -5),
        (2, 2),  # magic without the bit that is always set
        (3, good[3] + 500),  # no multiple of the precision
        (5, good[5] + 1),  # no record there
        (5, 10**9),
        (5, -1),
        (6, good[6] + 1),
    ):
        unit = list(good)
        unit[field] = value
        timer.put(50, unit)
        assert timer.defects().keys() >= {"timer-log"}, (field, value)
    timer.put(50, good)
    assert timer.defects() == {}


def test_times_are_multiples_of_the_precision(timer: Timer):
    assert timer.found(timerPrecisionMs=1000).defect_counts == {}
    assert timer.found(timerPrecisionMs=700).defect_counts["timer-wheel"] > 0


def test_a_link_to_another_slot(timer: Timer):
    good = timer.unit(50)
    stranger = next(n for n in range(50) if timer.unit(n)[3] + timer.unit(n)[4] != good[3] + good[4])
    timer.put(50, [good[0], 52 * stranger, *good[2:]])
    assert timer.defects() == {"timer-log": 1}


def test_the_log_must_go_on_to_where_it_was_flushed(timer: Timer):
    patch(timer.second, 52 * 5, struct.pack(">i", 0))
    assert timer.defects().keys() == {"timer-log", "timer-wheel"}
    assert timer.defects(unclean=True) == {"timer-log": 1}
    patch(timer.check_file, 8, struct.pack(">q", 5200 + 52 * 5))
    assert timer.defects(unclean=True) == {}  # behind the flushed position an unclean stop may leave anything


def test_files_of_the_log(timer: Timer):
    timer.second.write_bytes(timer.second.read_bytes()[:-1])
    assert "timer-log" in timer.defects()
    timer.second.write_bytes(timer.second.read_bytes() + b"\0")
    timer.second.rename(timer.second.with_name(f"{5208:020}"))
    assert "timer-log" in timer.defects()
    (timer.root / "timerlog" / "notes.txt").touch()
    assert timer.found().note_counts == {"unknown-file": 1}


def test_a_log_that_is_gone(timer: Timer):
    shutil.rmtree(timer.root / "timerlog")
    assert timer.defects() == {"timer-log": 1}
    timer.check_file.unlink()
    assert timer.defects() == {}


def test_deleted_first_files_leave_slots_that_point_nowhere(timer: Timer):
    timer.first.unlink()
    found = timer.found()
    assert set(found.defect_counts) <= {"timer-wheel"}
    assert found.defect_count == 0


@pytest.mark.parametrize("field", [0, 8, 16, 24])
def test_every_number_of_a_slot_in_use(timer: Timer, field: int):
    wheel = timer.wheel.read_bytes()
    moments = {(unit[3] + unit[4]) // 1000 for unit in map(timer.unit, range(99))}
    for moment in sorted(moments)[:2]:
        at = moment % 1_209_600 * 32
        assert struct.unpack_from(">q", wheel, at)[0] == moment
        width = 4 if field == 24 else 8
        flip(timer.wheel, at + field + width - 1)
        assert timer.defects() == {"timer-wheel": 1}
        assert timer.found().defects[0].position == at
        assert timer.defects(unclean=True) == {}
        flip(timer.wheel, at + field + width - 1)


def test_a_slot_of_no_unit(timer: Timer):
    patch(timer.wheel, 32 * 77, struct.pack(">qqqi", 77, 0, 52, 2))
    assert timer.defects() == {"timer-wheel": 1}


def test_a_wheel_of_another_size(timer: Timer):
    with timer.wheel.open("r+b") as file:
        file.truncate(1000)
    assert timer.defects() == {"timer-wheel": 1}


def test_the_newest_snapshot_counts(timer: Timer):
    """5.4.0 can write whole copies of the wheel, and loads the one with the largest number."""
    timer.wheel.rename(timer.root / "timerwheel.5824")
    (timer.root / "timerwheel.900").write_bytes(b"old")
    assert timer.defects() == {}
    (timer.root / "timerwheel.99999").write_bytes(b"new")
    assert timer.defects() == {"timer-wheel": 1}


def test_timercheck(timer: Timer):
    good = timer.check_file.read_bytes()
    for bad in (b"", good[:55], good[:2000], good + b"x", b"\xff" * 4096):
        timer.check_file.write_bytes(bad)
        assert timer.defects()["config-bad"] == 1
    timer.check_file.write_bytes(good)
    assert timer.found(end=111).defect_count == 0
    assert timer.found(end=110).defect_counts == {"offset-ahead": 1}


def test_units_of_damaged_or_deleted_log_are_not_judged(golden: Callable[[str], Golden], tmp_path: Path):
    store, root = golden("timer"), golden("timer").copy(tmp_path)
    offset = UNIT.unpack_from((root / "timerlog" / f"{0:020}").read_bytes(), 52 * 20)[5]
    flip(root / "commitlog" / f"{0:020}", offset + 88)
    check(root, store, defects={"record-damaged"})


def test_without_a_timer_store(tmp_path: Path):
    (tmp_path / "commitlog").mkdir()
    log = list_log(str(tmp_path), StoreConfig())
    ground = Ground(Findings())
    TimerStoreCheck(str(tmp_path), StoreConfig(), Disk(REAL), ground, log, 0).run(lambda topic, queue: None)
    assert (ground.findings.defects, ground.findings.notes) == ([], [])
