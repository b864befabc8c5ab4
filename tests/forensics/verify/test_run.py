"""Verify as a whole: golden stores are sound, every protected bit is, rubbish anywhere does no harm."""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.errors import FlintError, NotAStoreError, UnsupportedFormatError
from flintmq.forensics.inspect import inspect
from flintmq.forensics.rebuild import rebuild
from flintmq.forensics.verify.run import verify
from tests.compat.stores import Golden
from tests.support.makers import check, config_of, flip

NOTES = {
    "basic": {},
    "config540": {"not-checked": 1},
    "config550": {"not-checked": 1},
    "crash": {"abort": 1, "spare-file": 1, "units-pending": 2, "index-pending": 1},
    "crash550": {"abort": 1, "spare-file": 1, "units-pending": 1, "index-pending": 1, "not-checked": 1},
    "crash540": {"abort": 1, "spare-file": 1, "units-pending": 2, "index-pending": 1, "not-checked": 1},
    "crash-keys": {"abort": 1, "spare-file": 1},
    "delay550": {"not-checked": 1},
    "flags540": {"not-checked": 1},
    "flags550": {"not-checked": 1},
    "lmq550": {"not-checked": 1},
    "rolled": {"units-expired": 6, "index-expired": 1},
    "stale": {"stale-tail": 1, "units-ghost": 2},
    "stale-aligned": {"index-uncovered": 1, "time-step": 1},
    "timer550": {"not-checked": 1},
    "v540": {"not-checked": 1},
    "v550": {"not-checked": 1},
}
# Fields of a record that nothing protects (docs/internals/format/unprotected.md), as (first, behind) for IPv4 hosts.
FREE = ((16, 20), (36, 84))
STORE_TIME = (56, 64)


def test_what_rocketmq_wrote_is_sound(golden_store: Golden):
    found = verify(golden_store.path, config_of(golden_store))
    assert found.records == len(golden_store.live) + golden_store.expect.get("beyond", 0)
    if golden_store.name == "poison":  # RocketMQ's own defect is there to be found
        assert set(found.defect_counts) == {"unit-missing", "unit-displaced", "queue-missing", "index-missing"}
        return
    assert found.defects == []
    assert found.exit_code == 0
    assert found.note_counts == NOTES.get(golden_store.name, {})


def test_every_unit_and_item_is_met(golden: Callable[[str], Golden]):
    found = verify(golden("flags").path, config_of(golden("flags")))
    dispatched = [row for row in golden("flags").rows if row["sys_flag"] & 12 in (0, 8)]
    assert found.units == len(dispatched)
    assert (found.index_files, found.index_items) == (1, 98)  # the header's count less the unused item 0
    batch = verify(golden("batch").path, config_of(golden("batch")))
    assert batch.units == len(golden("batch").rows)
    assert verify(golden("lmq").path, config_of(golden("lmq"))).units == 150 + 44 + 36 + 33 + 28 + 26 + 34 + 35


def test_what_we_rebuild_is_sound(golden: Callable[[str], Golden], tmp_path: Path):
    for name in ("config", "rolled", "cqext", "lmq"):
        store = golden(name)
        root = store.copy(tmp_path)
        for kind in ("consumequeue", "consumequeue_ext", "batchconsumequeue", "index"):
            shutil.rmtree(root / kind, ignore_errors=True)
        rebuild(str(root), str(tmp_path / "made"), config_of(store))
        for made in os.listdir(tmp_path / "made"):
            os.rename(tmp_path / "made" / made, root / made)
        check(root, store, notes={"units-pre-blank"} if name == "rolled" else ())


def test_a_log_alone_is_sound(golden: Callable[[str], Golden], tmp_path: Path):
    shutil.copytree(golden("basic").path / "commitlog", tmp_path / "commitlog")
    found = check(tmp_path, golden("basic"), notes={"checkpoint-missing", "no-queues", "index-uncovered"})
    assert (found.records, found.units) == (3000, 0)


def test_progress_is_told(golden: Callable[[str], Golden]):
    told: list[tuple[int, int]] = []
    verify(golden("basic").path, config_of(golden("basic")), lambda done, total: told.append((done, total)))
    assert told[-1][0] == 737_416
    assert told[-1][1] == 6 * 131_072
    assert told == sorted(told)


@pytest.mark.parametrize(
    ("start", "width"),
    [(0, 4), (4, 4), (8, 4), (12, 4), (20, 8), (28, 8), (88, 8)],
    ids=["size", "magic", "crc", "queue_id", "queue_offset", "physical_offset", "body"],
)
def test_a_flipped_bit_in_a_protected_field_is_seen(
    golden: Callable[[str], Golden], tmp_path: Path, start: int, width: int
):
    store, root = golden("basic"), golden("basic").copy(tmp_path)
    chance = random.Random(start)
    for row in chance.sample(store.rows[1000:1500], 6):
        if row["body_length"] < 8 or row["sys_flag"] & 0x30:
            continue
        path, position = _place(root, store, row)
        at, mask = position + start + chance.randrange(width), 1 << chance.randrange(8)
        flip(path, at, mask)
        assert verify(root, config_of(store)).exit_code == 1, (row["physical_offset"], at, mask)
        flip(path, at, mask)


def test_every_byte_of_a_record_is_protected_or_listed(golden: Callable[[str], Golden], tmp_path: Path):
    """Each byte of a record and 8 around it, one at a time, in a store without appended checksums.

    The record before ends with its tags, which an index of 5.4.0 holds; so the bytes before are protected too.
    """
    store, root = golden("v540"), golden("v540").copy(tmp_path)
    rows = store.rows
    row = next(
        row for before, row in pairwise(rows[100:])
        if row["size"] < 230 and row["tags"] and row["msg_id"] and len(row["properties"]) == 2 and _ends_in_tags(before)
    )  # fmt: skip
    free = {at for first, behind in FREE for at in range(first, behind)}
    unseen = _unseen(root, store, row, range(-8, row["size"] + 8))
    assert unseen <= free
    # What is free is free: were it protected, the list in the documentation would be wrong.
    assert free - unseen <= set(range(*STORE_TIME)) | {36, 37, 38, 39}


def test_every_byte_of_a_record_with_checksum_is_protected(golden: Callable[[str], Golden], tmp_path: Path):
    store, root = golden("crc"), golden("crc").copy(tmp_path)
    row = min((row for row in store.rows[50:100] if row["body_length"]), key=lambda row: row["size"])
    name = set(range(row["size"] - 20, row["size"] - 11)) | {row["size"] - 1}  # of the property; its last 02
    assert _unseen(root, store, row, range(row["size"])) <= name


def test_an_end_of_file_record_is_protected(golden: Callable[[str], Golden], tmp_path: Path):
    store, root = golden("basic"), golden("basic").copy(tmp_path)
    last = max(row["physical_offset"] + row["size"] for row in store.rows if row["physical_offset"] < 131_072)
    path = root / "commitlog" / f"{0:020}"
    for at in range(8):
        flip(path, last + at, 1 << at)
        assert verify(root, config_of(store)).exit_code == 1, at
        flip(path, last + at, 1 << at)
    flip(path, last + 8)  # behind its eight bytes anything may stand
    check(root, store)


def _ends_in_tags(row: dict[str, Any]) -> bool:
    return bool(row["tags"]) and list(row["properties"])[-1] == "TAGS"


def _place(root: Path, store: Golden, row: dict[str, Any]) -> tuple[Path, int]:
    size = store.config["mappedFileSizeCommitLog"]
    start = row["physical_offset"] // size * size
    return root / "commitlog" / f"{start:020}", row["physical_offset"] - start


def _unseen(root: Path, store: Golden, row: dict[str, Any], places: range) -> set[int]:
    """The places, counted from the record, where a flipped bit gives neither a defect nor a note of its own."""
    path, position = _place(root, store, row)
    config, usual = config_of(store), verify(root, config_of(store)).note_counts
    unseen = set()
    for at in places:
        flip(path, position + at, 1 << at % 8)
        found = verify(root, config)
        if not found.defect_count and found.note_counts == usual:
            unseen.add(at)
        flip(path, position + at, 1 << at % 8)
    return unseen


RUBBISH: list[Callable[[bytes, random.Random], bytes]] = [
    lambda data, chance: b"",
    lambda data, chance: data[: len(data) // 2 + 3],
    lambda data, chance: chance.randbytes(len(data)),
    lambda data, chance: b"\xff" * len(data),
    lambda data, chance: b"\x7f" * len(data),
    lambda data, chance: data[::-1],
    lambda data, chance: bytes(len(data)),
    lambda data, chance: data + b"x",
    lambda data, chance: data[7:] + data[:7],
    lambda data, chance: b"{" * len(data),
]


@pytest.mark.turn(3, of=["src/flintmq/forensics/verify/"])
@pytest.mark.parametrize("name", ["rolled", "cqext", "batch", "crash540", "config"])
def test_rubbish_in_any_file_ends_in_an_answer(golden: Callable[[str], Golden], tmp_path: Path, name: str):
    store, root = golden(name), golden(name).copy(tmp_path)
    (root / "timerwheel").unlink(missing_ok=True)  # 37 MiB of zeros, looked at in test_timer_check.py
    chance = random.Random(name)
    config = config_of(store)
    victims = sorted(path for path in root.rglob("*") if path.is_file() and path.name not in ("abort.bak", "lock"))
    for path in chance.sample(victims, min(len(victims), 14)):
        data = path.read_bytes()
        for rubbish in RUBBISH:
            path.write_bytes(rubbish(data, chance))
            _answers(root, config)
        path.unlink()
        _answers(root, config)
        for make in (os.mkfifo, os.mkdir, lambda where: os.symlink("/etc/passwd", where)):
            make(path)
            _answers(root, config)
            (path.rmdir if path.is_dir() and not path.is_symlink() else path.unlink)()
        path.write_bytes(data)


def _answers(root: Path, config: StoreConfig) -> None:
    for command in (verify, inspect):
        try:
            command(root, config)
        except FlintError as error:
            assert len(str(error)) < 600
            assert "\n" not in str(error)


def test_a_live_store_is_not_judged_by_what_is_written_meanwhile(golden: Callable[[str], Golden], tmp_path: Path):
    store, root = golden("crash"), golden("crash").copy(tmp_path)
    program = (
        "import fcntl, sys, time; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX, 1, 0); print(flush=True);"
        "time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(root / "lock")], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        try:
            notes = {"abort", "live", "spare-file", "units-pending", "index-pending"}
            assert check(root, store, notes=notes).live
        finally:
            writer.kill()


def test_a_cleanly_stopped_store_must_be_dispatched(golden: Callable[[str], Golden], tmp_path: Path):
    root = golden("crash").copy(tmp_path)
    (root / "abort").unlink()
    check(root, golden("crash"), defects={"unit-missing"}, notes={"spare-file", "index-uncovered"})


def test_what_is_no_store(tmp_path: Path):
    with pytest.raises(NotAStoreError):
        verify(tmp_path)
    with pytest.raises(NotAStoreError):
        verify(tmp_path / "nowhere")
    (tmp_path / "dledger-n0" / "data").mkdir(parents=True)
    with pytest.raises(UnsupportedFormatError):
        verify(tmp_path)


def test_queues_in_rocksdb_are_noted_and_the_log_is_checked(golden: Callable[[str], Golden], tmp_path: Path):
    root = golden("basic").copy(tmp_path)
    shutil.rmtree(root / "consumequeue")
    (root / "consumequeue").mkdir()
    (root / "consumequeue" / "CURRENT").write_text("MANIFEST-000004\n")
    found = verify(root)
    assert found.records == len(golden("basic").rows)
    assert found.note_counts["not-checked"] == 1 and "consume queues in RocksDB" in str(found.notes)


def test_an_empty_store_is_sound(tmp_path: Path):
    (tmp_path / "commitlog").mkdir()
    found = verify(tmp_path)
    assert (found.exit_code, found.records, found.log_end) == (0, 0, 0)
    assert set(found.note_counts) == {"checkpoint-missing", "no-queues"}


@pytest.mark.parametrize("name", ["config", "delay", "timer"])
def test_offsets_are_not_judged_without_queues(name: str, golden: Callable[[str], Golden], tmp_path: Path):
    """A copy of the log and config/ alone: where queues end is told by nothing."""
    for folder in ("commitlog", "config"):
        shutil.copytree(golden(name).path / folder, tmp_path / folder)
    assert verify(tmp_path).defects == []
