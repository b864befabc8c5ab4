"""The log's own checks: chain of files, end-of-file records, damage, spare files, odd text."""

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.forensics.verify.context import Ground
from flintmq.forensics.verify.findings import Findings
from flintmq.forensics.verify.log_check import LogReport
from flintmq.forensics.verify.run import verify
from flintmq.store.commitlog.report import Damage, DamageKind
from tests.compat.stores import Golden
from tests.support.makers import check, codes, config_of, flip, patch, tiny


@pytest.fixture
def basic(golden: Callable[[str], Golden], tmp_path: Path) -> tuple[Golden, Path]:
    return golden("basic"), golden("basic").copy(tmp_path)


def log_file(root: Path, start: int) -> Path:
    return root / "commitlog" / f"{start:020}"


def test_damage_says_where_and_how_much(basic: tuple[Golden, Path]):
    store, root = basic
    row = store.rows[1200]
    start = row["physical_offset"] // 131_072 * 131_072
    flip(log_file(root, start), row["physical_offset"] - start + 88)
    found = check(root, store, defects={"record-damaged"}, notes={"units-lost", "index-lost"})
    (defect,) = found.defects
    assert (defect.file, defect.position) == (str(log_file(root, start)), row["physical_offset"] - start)
    assert defect.expected == f"a record at log offset {row['physical_offset']}"
    assert defect.found == f"body CRC is wrong; {row['size']} bytes without an intact record"
    assert found.records == 2999


def test_each_damaged_record_is_told(basic: tuple[Golden, Path]):
    store, root = basic
    for row in store.rows[100:200:10]:
        flip(log_file(root, 0), row["physical_offset"] + 4)
    assert check(root, store, defects={"record-damaged"}).defect_count == 10


def test_a_missing_file(basic: tuple[Golden, Path]):
    store, root = basic
    log_file(root, 262_144).unlink()
    found = check(root, store, defects={"log-gap"}, notes={"units-lost", "index-lost"})
    (defect,) = found.defects
    assert (defect.expected, defect.found) == (f"name {262_144:020}", f"name {393_216:020}")


def test_a_missing_first_file_is_an_expired_one(basic: tuple[Golden, Path]):
    store, root = basic
    log_file(root, 0).unlink()
    check(root, store, notes={"units-expired", "index-expired"})


def test_swapped_files(basic: tuple[Golden, Path]):
    store, root = basic
    one, other = log_file(root, 131_072), log_file(root, 262_144)
    first = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(first)
    found = check(root, store, defects={"record-damaged"})
    assert "stored physical offset is another one" in found.defects[0].found


@pytest.mark.parametrize("start", [0, 262_144, 655_360])
def test_a_file_of_another_size(basic: tuple[Golden, Path], start: int):
    store, root = basic
    data = log_file(root, start).read_bytes()
    for other in (data + b"x", data[:-100], b""):
        log_file(root, start).write_bytes(other)
        found = verify(root, config_of(store))
        if not other and start == 655_360:
            assert found.note_counts["empty-file"] == 1
        else:
            assert "log-file-size" in found.defect_counts
        assert found.exit_code == 1


def test_two_files_that_overlap(basic: tuple[Golden, Path]):
    """The one too many is named, and the next file is not."""
    store, root = basic
    shutil.copy(log_file(root, 131_072), log_file(root, 131_073))
    gaps = [defect for defect in verify(root, config_of(store)).defects if defect.code == "log-gap"]
    assert [defect.found for defect in gaps] == [f"name {131_073:020}, inside the file before: one is too many"]
    assert str(log_file(root, 131_073)) == str(gaps[0].file)


def test_a_file_name_in_two_directories(basic: tuple[Golden, Path], tmp_path: Path):
    store, root = basic
    other = tmp_path / "more"
    other.mkdir()
    shutil.copy(log_file(root, 0), other)
    config = config_of(store).with_keys({"storePathCommitLog": f"{root / 'commitlog'},{other}"})
    assert verify(root, config).defect_counts == {"log-gap": 1}
    log_file(root, 0).unlink()
    assert verify(root, config).exit_code == 0


def test_what_is_no_log_file(basic: tuple[Golden, Path]):
    store, root = basic
    notes = root / "commitlog" / "notes.txt"
    notes.touch()  # RocketMQ deletes it: it is empty, and the last one by name
    check(root, store, notes={"unknown-file"})
    notes.write_bytes(b"hello")
    check(root, store, defects={"stray-file"})
    notes.unlink()
    (root / "commitlog" / ".notes").touch()
    check(root, store, defects={"stray-file"})
    (root / "commitlog" / ".notes").unlink()
    (root / "commitlog" / "older").mkdir()
    check(root, store, notes={"unknown-file"})
    log_file(root, 786_432).mkdir()
    check(root, store, defects={"log-file-unreadable"})


def test_a_blank_with_another_size(basic: tuple[Golden, Path]):
    store, root = basic
    end = max(row["physical_offset"] + row["size"] for row in store.rows if row["physical_offset"] < 131_072)
    patch(log_file(root, 0), end, struct.pack(">i", 8))
    (defect,) = check(root, store, defects={"blank-size"}).defects
    assert (defect.position, defect.expected, defect.found) == (end, f"{131_072 - end} bytes left", "8")


def test_the_blank_of_the_last_file(tmp_path: Path):
    """The next file may not be there yet; the blank is looked at all the same."""
    store = tiny(tmp_path, {})
    store.queue("Topic", 0, [store.unit(0)])
    end = sum(store.places[0])
    patch(log_file(tmp_path, 0), end, struct.pack(">iI", 8192 - end, 0xCBD43194))
    assert codes(store.verify()) == ({}, {})
    patch(log_file(tmp_path, 0), end, struct.pack(">iI", 8191 - end, 0xCBD43194))
    assert codes(store.verify()) == ({"blank-size": 1}, {})


def test_spare_files_and_what_passes_for_them(golden: Callable[[str], Golden], tmp_path: Path):
    store, root = golden("crash"), golden("crash").copy(tmp_path)
    shutil.copy(log_file(root, 98_304), log_file(root, 131_072))
    assert check(root, store).note_counts["spare-file"] == 2
    log_file(root, 131_072).write_bytes(b"x" * 32_768)
    assert check(root, store).note_counts.keys() >= {"spare-file", "torn-tail"}


def test_torn_tails_are_notes(golden: Callable[[str], Golden], tmp_path: Path):
    """An unclean stop cut the last write short: nothing behind it, nothing that the store calls flushed."""
    store, root = golden("crash"), golden("crash").copy(tmp_path)
    last = store.rows[-1]
    path = log_file(root, 65_536)
    patch(path, last["physical_offset"] - 65_536 + 50, bytes(last["size"] - 50))
    check(root, store, notes={"abort", "spare-file", "torn-tail", "units-pending", "index-pending"})


def test_a_clock_that_stepped_back_is_a_note(tmp_path: Path):
    store = tiny(tmp_path, {}, {"queue_offset": 1, "store_timestamp": 10**12}, {"queue_offset": 2})
    store.queue("Topic", 0, [store.unit(n) for n in range(3)])
    assert codes(store.verify()) == ({}, {"time-step": 1})


def test_odd_text_is_a_note(tmp_path: Path):
    odd = [{"queue_offset": n, "properties": b"TAGS\x01a\x02X\x01\xff\x02"} for n in range(25)]
    store = tiny(tmp_path, *odd)
    store.queue("Topic", 0, [store.unit(n) for n in range(20)])
    store.queue("Topic", 0, [store.unit(n) for n in range(20, 25)], first=20)
    found = store.verify()
    assert codes(found) == ({}, {"text-odd": 21})  # twenty, and one line for the others
    assert found.notes[0].position == 0


def test_file_sizes_that_do_not_fit(golden: Callable[[str], Golden], tmp_path: Path):
    root = golden("basic").copy(tmp_path)
    first, *_ = sorted((root / "commitlog").iterdir())
    first.write_bytes(first.read_bytes()[:65_536])
    assert verify(root, StoreConfig.from_keys(golden("basic").config)).defect_counts["log-file-size"] == 1


def test_the_report_tells_the_ground():
    ground = Ground(Findings())
    report = LogReport(ground)
    report.damage(Damage("/f", 5, 105, 20, "no record magic", DamageKind.RECORD))
    report.damage(Damage("/f", 90, 190, 5, "zeros", DamageKind.UNORDERED))
    report.damage(Damage("/g", 0, 300, 100, "no file", DamageKind.GAP))
    report.note("torn_tail", "text")
    assert [offset in ground.lost for offset in (104, 105, 124, 125, 190, 399, 400)] == [0, 1, 1, 0, 1, 1, 0]
    assert ground.findings.defect_counts == {"record-damaged": 1, "log-unordered": 1}
    assert (report.damage_count, report.lost_bytes) == (3, 125)
    assert ground.findings.note_counts == report_codes(report) == {"torn-tail": 1}


def report_codes(report: LogReport) -> dict[str, int]:
    return {code.replace("_", "-"): count for code, count in report.note_counts.items()}
