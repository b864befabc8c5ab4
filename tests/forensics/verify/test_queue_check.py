"""Units against records: every way in which they can disagree, and the ways in which they may."""

import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.forensics.verify.queue_check import _find, _same_prefix
from flintmq.forensics.verify.queue_files import UnitFiles
from flintmq.forensics.verify.run import verify
from tests.compat.stores import Golden
from tests.support.makers import PRE_BLANK, TIME, Tiny, check, codes, config_of, flip, patch, tiny

SIX = [{"queue_offset": n} for n in range(6)]
OTHER = struct.pack(">qiq", 5000, 100, 97)  # points at nothing


def six(root: Path, *units: bytes | int, first: int = 0) -> Tiny:
    """Six records of Topic/0, and a queue with these units: a record's number or other bytes."""
    store = tiny(root, *SIX)
    store.queue("Topic", 0, [store.unit(unit) if isinstance(unit, int) else unit for unit in units], first)
    return store


def test_units_that_are_right(tmp_path: Path):
    found = six(tmp_path, 0, 1, 2, 3, 4, 5).verify()
    assert codes(found) == ({}, {})
    assert (found.queues, found.units) == (1, 6)


@pytest.mark.parametrize(
    ("units", "defects"),
    [
        ((0, 1, bytes(20), 3, 4, 5), {"unit-missing": 1}),
        ((0, 1, 2, 3), {"unit-missing": 1}),
        ((0, 1, 3, 4, 5), {"unit-missing": 1, "unit-displaced": 1}),  # as RocketMQ appends behind a hole
        ((0, 1, OTHER, 3, 4, 5), {"unit-wrong": 1}),
        ((0, 1, OTHER, 2, 3, 4, 5), {"unit-extra": 1, "unit-displaced": 1}),
        ((0, 1, 1, 2, 3, 4, 5), {"unit-extra": 1, "unit-displaced": 1}),
        ((1, 0, 2, 3, 4, 5), {"unit-missing": 1, "unit-displaced": 1, "unit-extra": 1}),
        ((0, 1, 2, 3, 4, struct.pack(">qiq", 0, 100, 97)), {"unit-wrong": 1}),
        ((b"\xff" * 20,) * 6, {"unit-wrong": 6}),
    ],
)
def test_units_that_are_not(tmp_path: Path, units: tuple[bytes | int, ...], defects: dict[str, int]):
    found, notes = codes(six(tmp_path, *units).verify())
    assert found == defects
    assert not notes.keys() - {"units-ghost"}


def test_a_defect_says_where_and_what(tmp_path: Path):
    store = six(tmp_path, 0, 1, OTHER, 3, 4, 5)
    (defect,) = store.verify().defects
    assert defect.file == str(tmp_path / "consumequeue" / "Topic" / "0" / f"{0:020}")
    assert defect.position == 40
    offset, size = store.places[2]
    assert defect.expected == f"log offset {offset}, size {size} (queue Topic/0, unit 2)"
    assert defect.found == "log offset 5000, size 100"
    assert defect.cost


def test_tags_code(tmp_path: Path):
    store = six(tmp_path, 0, 1, 2, 3, 4, 5)
    store.queue("Topic", 0, [store.unit(n, 98 if n == 3 else 97) for n in range(6)])
    (defect,) = store.verify().defects
    assert (defect.code, defect.position) == ("unit-wrong", 60)
    assert "tags code 97" in defect.expected
    assert defect.found == "tags code 98"


def test_ghosts_behind_the_end_are_a_note(tmp_path: Path):
    assert codes(six(tmp_path, 0, 1, 2, 3, 4, 5, OTHER, 2, bytes(20), OTHER).verify()) == ({}, {"units-ghost": 1})


def test_pre_blank_units_are_a_note(tmp_path: Path):
    store = tiny(tmp_path, *({"queue_offset": n + 8} for n in range(4)))
    store.queue("Topic", 0, [PRE_BLANK] * 8 + [store.unit(n) for n in range(4)])
    assert codes(store.verify()) == ({}, {"units-pre-blank": 1})
    store.queue("Topic", 0, [PRE_BLANK] * 9 + [store.unit(n) for n in range(1, 4)])
    assert set(store.verify().defect_counts) == {"unit-wrong"}


def test_units_of_an_expired_part_are_a_note(tmp_path: Path):
    store = tiny(tmp_path, *({"queue_offset": n + 3} for n in range(3)), begin=8192)
    old = [struct.pack(">qiq", 100 * n, 100, 97) for n in range(3)]
    store.queue("Topic", 0, old + [store.unit(n) for n in range(3)])
    assert codes(store.verify()) == ({}, {"units-expired": 1})


def test_a_queue_begun_again(tmp_path: Path):
    """The topic was deleted and made anew: the log still holds its first life, the queue does not."""
    store = tiny(tmp_path, *({"queue_offset": n % 3} for n in range(6)))
    store.queue("Topic", 0, [store.unit(n) for n in (3, 4, 5)])
    assert codes(store.verify()) == ({}, {"queue-restarted": 1})
    # The same units without a second life in the log are wrong.
    other = tiny(tmp_path / "other", *({"queue_offset": n} for n in range(3)), *({"topic": b"B"},) * 3)
    other.queue("Topic", 0, [other.unit(n) for n in (3, 4, 5)])
    other.queue("B", 0, [other.unit(3)])
    assert set(other.verify().defect_counts) >= {"unit-wrong", "unit-missing"}


def test_units_of_damaged_records_are_told_with_the_damage(tmp_path: Path):
    store = six(tmp_path, 0, 1, 2, 3, 4, 5)
    flip(tmp_path / "commitlog" / f"{0:020}", store.places[2][0] + 90)
    assert codes(store.verify()) == ({"record-damaged": 1}, {"units-lost": 1})


def test_an_unclean_stop_leaves_the_end_to_the_next_start(tmp_path: Path):
    store = six(tmp_path, 0, 1, 2, 3)
    (tmp_path / "abort").write_text("1")
    assert codes(store.verify()) == ({}, {"abort": 1, "units-pending": 1})
    store.queue("Topic", 0, [store.unit(0), bytes(20), store.unit(2), store.unit(3)])
    assert store.verify().defect_counts == {"unit-missing": 1}  # a hole, whatever comes behind


def test_a_later_start_does_not_dispatch_old_files(tmp_path: Path):
    """What lies before the file where recovery begins is not dispatched again, so what it misses is a defect."""
    store = tiny(tmp_path, {"queue_offset": 0, "topic": b"Old"}, {"queue_offset": 0}, log_size=4096)
    other = tiny(tmp_path / "other", {"queue_offset": 1, "store_timestamp": TIME + 60_000}, begin=4096, log_size=4096)
    path = tmp_path / "commitlog" / f"{0:020}"
    end = sum(store.places[-1])
    patch(path, end, struct.pack(">iI", 4096 - end, 0xCBD43194))
    shutil.move(tmp_path / "other" / "commitlog" / f"{4096:020}", tmp_path / "commitlog")
    shutil.rmtree(tmp_path / "other")
    (tmp_path / "abort").touch()
    (tmp_path / "checkpoint").write_bytes(struct.pack(">5q", *[TIME + 70_000] * 2, 0, 0, 0).ljust(4096, b"\0"))
    (tmp_path / "consumequeue" / "Old" / "0").mkdir(parents=True)
    store.queue("Topic", 0, [store.unit(1), other.unit(0)])
    assert set(store.verify().defect_counts) == {"queue-missing", "checkpoint-ahead"}
    (tmp_path / "checkpoint").write_bytes(bytes(4096))  # nothing known: everything is dispatched again
    assert codes(store.verify()) == ({}, {"abort": 1, "units-pending": 1})


def test_light_queues_may_be_displaced(golden: Callable[[str], Golden], tmp_path: Path):
    store, root = golden("lmq"), golden("lmq").copy(tmp_path)
    path = root / "consumequeue" / "%LMQ%client0" / "0" / f"{0:020}"
    path.write_bytes((PRE_BLANK * 3 + path.read_bytes())[:2000])
    check(root, store, notes={"units-pre-blank", "lmq-displaced"})
    plain = root / "consumequeue" / "Mqtt" / "0" / f"{0:020}"
    plain.write_bytes((PRE_BLANK + plain.read_bytes())[:2000])
    check(root, store, defects={"unit-displaced"})


def test_light_queues_are_known_by_their_directories(golden: Callable[[str], Golden]):
    keys = {key: value for key, value in golden("lmq").config.items() if "Multi" not in key and "Lmq" not in key}
    found = verify(golden("lmq").path, StoreConfig.from_keys(keys))
    assert (found.exit_code, found.units, found.notes) == (0, 386, [])


def test_batch_units(golden: Callable[[str], Golden], tmp_path: Path):
    store, root = golden("batch"), golden("batch").copy(tmp_path)
    path = root / "batchconsumequeue" / "BatchTopic" / "0" / f"{0:020}"
    for field in (0, 8, 12, 20, 28, 36, 38, 42):
        flip(path, 46 * 5 + field)
        assert verify(root, config_of(store)).exit_code == 1, field
        flip(path, 46 * 5 + field)
    data = path.read_bytes()
    path.write_bytes(data[: 46 * 5] + data[46 * 6 :] + bytes(46))
    check(root, store, defects={"unit-missing"})
    path.write_bytes(data[: 46 * 5] + bytes(46 * 3) + data[46 * 8 :])
    check(root, store, defects={"unit-missing"})
    path.write_bytes((data[: 46 * 5] + struct.pack(">qi", 9_999, 50).ljust(46, b"\1") + data[46 * 5 :])[: len(data)])
    check(root, store, defects={"unit-extra"})
    assert data[-46:] == bytes(46)
    path.write_bytes(data[:-46] + struct.pack(">qiqqqhii", 10**6, 50, 0, 0, 10**6, 1, -1, 0))
    check(root, store, notes={"units-ghost"})


def test_extension_units(golden: Callable[[str], Golden], tmp_path: Path):
    store, root = golden("cqext"), golden("cqext").copy(tmp_path)
    unit = root / "consumequeue" / "Ext" / "0" / f"{0:020}"
    address = struct.unpack(">q", unit.read_bytes()[12:20])[0]
    for other in (address + 20, address + 3, address - 1 if address > -(1 << 63) else address + 10**6):
        patch(unit, 12, struct.pack(">q", other))
        check(root, store, defects={"ext-wrong"})
    patch(unit, 12, struct.pack(">q", 12345))  # a plain code that is not the record's
    check(root, store, defects={"unit-wrong"})
    patch(unit, 12, struct.pack(">q", address))
    file = root / "consumequeue_ext" / "Ext" / "0" / f"{0:020}"
    for at in (1, 9, 17, 19):
        flip(file, at)
        check(root, store, defects={"ext-wrong"})
        flip(file, at)
    file.write_bytes(file.read_bytes() + b"x")
    check(root, store, defects={"queue-file-size"})
    (root / "consumequeue_ext" / "Ext" / "0" / f"{1024:020}").rename(file.with_name(f"{2048:020}"))
    file.write_bytes(file.read_bytes()[:1024])
    check(root, store, defects={"queue-gap", "ext-wrong"})


def test_times_of_delivery(golden: Callable[[str], Golden], tmp_path: Path):
    store, root = golden("delay"), golden("delay").copy(tmp_path)
    (root / "timerwheel").unlink()
    path = root / "consumequeue" / "SCHEDULE_TOPIC_XXXX" / "0" / f"{0:020}"
    units = [list(struct.unpack_from(">qiq", path.read_bytes(), 20 * n)) for n in range(12)]
    assert units[11][1] > 0  # the store has twelve messages of level 1

    def write(*extra_ms: int) -> None:
        changed = (struct.pack(">qiq", *unit[:2], unit[2] + ms) for unit, ms in zip(units, extra_ms, strict=True))
        path.write_bytes(b"".join(changed).ljust(2000, b"\0"))

    write(*[4000] * 12)
    check(root, store, notes={"delay-level"})
    given = config_of(store).with_keys(
        {"messageDelayLevel": "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"}
    )
    assert verify(root, given).defect_counts == {"unit-wrong": 12}
    write(*[0] * 11, 4000)
    check(root, store, defects={"unit-wrong"})
    fast = config_of(store).with_keys(
        {"messageDelayLevel": "5s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"}
    )
    write(*[4000] * 12)
    assert verify(root, fast).exit_code == 0


def test_many_units_that_point_ahead_are_told_in_short(tmp_path: Path):
    store = tiny(tmp_path, *({"queue_offset": n, "body": b""} for n in range(150)), log_size=32768)
    far = [struct.pack(">qiq", 100_000 + n, 100, 97) for n in range(150)]
    store.queue("Topic", 0, far)
    found = store.verify()
    assert found.defect_counts == {"unit-wrong": 101}
    assert found.defects[-1].found == "50 further units point ahead"


def test_same_prefix():
    ours = bytes(range(100))
    for unit in range(5):
        theirs = bytearray(ours)
        theirs[20 * unit + 7] ^= 1
        assert _same_prefix(ours, bytes(theirs), 20) == unit


def test_find_takes_whole_units_only():
    units = b"aaab" * 5 + b"baab"  # the key stands at no unit's begin before unit 5
    assert _find(units, b"baa", 0, 6, 4) == 5
    assert _find(units, b"baa", 0, 5, 4) is None
    assert _find(units, b"aaab", 2, 6, 4) == 2
    assert _find(b"", b"a", 0, 0, 1) is None


def test_offsets_that_go_back_and_forth_cost_no_square(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A log whose queue begins again with every other record, over files that hold units for all of them."""
    half = 60
    order = [number for pair in zip(range(half), reversed(range(half, 2 * half)), strict=True) for number in pair]
    store = tiny(tmp_path, *({"queue_offset": n, "body": b""} for n in order), log_size=65536)
    units = sorted(range(2 * half), key=lambda record: order[record])
    path = store.queue("Topic", 0, [store.unit(record) for record in units])
    assert path.stat().st_size == 2400
    looked = 0

    def blocks(files: UnitFiles, number: int, stop: int) -> Iterator[tuple[int, bytes]]:
        nonlocal looked
        for at, data in original(files, number, stop):
            looked += len(data) // 20
            yield at, data

    original = UnitFiles.blocks
    monkeypatch.setattr(UnitFiles, "blocks", blocks)
    store.verify()
    assert looked <= 2 * (2 * half)  # each at most twice: on the way, and behind the cursor at the end
