"""Salvage in place: the store itself, mended; a broker would start and serve all but what is damaged."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import flintmq
from flintmq.config.keys import StoreConfig
from flintmq.errors import StoreLockedError, UsageError
from flintmq.forensics.salvage.filler import TOPIC
from flintmq.forensics.salvage.in_place import FarRecords, plan_in_place, undo_in_place
from flintmq.forensics.verify.run import verify
from flintmq.storage.files.filesystem import REAL, Effects
from flintmq.storage.files.lock import StoreLock, is_live
from flintmq.store.commitlog.snapshot import list_log
from flintmq.store.commitlog.walk import LogWalk
from flintmq.store.dispatch.dispatcher import Dispatcher, DispatchRules
from flintmq.testing import write_store
from labs.salvaging import sound, tree, try_one
from tests.compat.stores import Golden
from tests.robustness.hostile.commands import stamps
from tests.support.engine import records as decoded
from tests.support.faults import Faulty
from tests.support.makers import config_of, flip, patch

SMALL_KEYS = {"maxHashSlotNum": 20, "maxIndexNum": 80, "mappedFileSizeConsumeQueue": 400}
SMALL = StoreConfig.from_keys({**SMALL_KEYS, "mappedFileSizeCommitLog": 8192})
KILLS = 12
SAMPLE = 12  # stores; the long form is labs/salvaging.py
FIRST = "00000000000000000000"


def mend(root: Path, golden: Golden, effects: Effects = REAL) -> Any:
    with plan_in_place(str(root), config_of(golden), effects=effects) as mending:
        return mending.carry_out() if mending.needed else mending.mended


def hurt(golden: Golden, into: Path, number: int = 40) -> tuple[Path, dict[str, Any]]:
    """A copy whose record `number` has a wrong body."""
    root, row = golden.copy(into), golden.rows[number]
    flip(root / "commitlog" / FIRST, row["physical_offset"] + 90)
    return root, row


@pytest.mark.turn(2, of=["src/flintmq/forensics/salvage/"])
def test_stores_damaged_at_random(tmp_path: Path) -> None:
    stores = sound(tmp_path)
    for seed in range(5000, 5000 + SAMPLE):
        row = try_one(stores, seed, tmp_path / str(seed), None)
        assert row["wrong"] == [], row
        shutil.rmtree(tmp_path / str(seed))


def test_a_sound_store_is_left_alone(golden: Any, tmp_path: Path) -> None:
    root = golden("basic").copy(tmp_path)
    before = tree(root)
    mended = mend(root, golden("basic"))
    assert (mended.ranges, mended.changes, mended.journal) == ([], [], "")
    assert tree(root) == before and not (root / "quarantine").exists()


def test_one_record_is_covered_by_one_of_its_length(golden: Any, tmp_path: Path) -> None:
    store = golden("basic")
    root, row = hurt(store, tmp_path)
    damaged = (root / "commitlog" / FIRST).read_bytes()
    mended = mend(root, store)
    covered = [r for r in decoded(root, 131072) if r.topic == TOPIC]
    assert [(r.physical_offset, r.size) for r in covered] == [(row["physical_offset"], row["size"])]
    begin, end = row["physical_offset"], row["physical_offset"] + row["size"]
    [kept] = (Path(mended.journal) / "ranges").iterdir()
    assert kept.read_bytes() == damaged[begin:end]
    now = (root / "commitlog" / FIRST).read_bytes()
    assert now[:begin] == damaged[:begin] and now[end:] == damaged[end:]
    found = verify(root)
    assert found.defects == [] and found.note_counts == {"units-doubled": 1}
    with flintmq.open_store(root) as opened:
        for other in store.rows:
            if other["topic"] == row["topic"] and other["queue_id"] == row["queue_id"] and other is not row:
                message = opened.get(other["topic"], other["queue_id"], other["queue_offset"])
                assert message.physical_offset == other["physical_offset"]
    untouched = [name for name, data in tree(root).items() if tree(store.path).get(name) != data]
    assert {name.split("/")[0] for name in untouched} == {"commitlog", "consumequeue", "index"}


def mend_small(root: Path, effects: Effects = REAL) -> None:
    with plan_in_place(str(root), SMALL, effects=effects) as mending:
        if mending.needed:
            mending.carry_out()


def small(root: Path) -> Path:
    """A store of a few kilobytes with a damaged record, a short log file and a file that is missing."""
    write_store(root, messages=90, seed=4, commit_log_file_size=8192, config=SMALL_KEYS)
    flip(root / "commitlog" / FIRST, 1100, 0xFF)
    (root / "commitlog" / "00000000000000008192").unlink()
    short = root / "commitlog" / "00000000000000016384"
    short.write_bytes(short.read_bytes()[:5000])
    return root


@pytest.mark.turn(2, of=["src/flintmq/forensics/salvage/"])
def test_kills_while_the_disk_is_changed(tmp_path: Path) -> None:
    origin = small(tmp_path / "origin")
    calm = shutil.copytree(origin, tmp_path / "calm")
    effects = Faulty()
    mend_small(calm, effects)
    want, before, calls = tree(calm), tree(origin), len(effects.calls)
    assert want != before and calls > 50 and verify(calm, SMALL).defects == []
    for number in range(0, calls, calls // KILLS):  # at every call: test_journal.py
        root = shutil.copytree(origin, tmp_path / "killed")
        effects = Faulty()
        effects.before = _kill_at(effects, number)
        with pytest.raises(_Killed):
            mend_small(root, effects)
        if number % 3 or not (root / "quarantine" / "salvage-0001").exists():
            mend_small(root)
            assert tree(root) == want, number
        undo_in_place(str(root))
        assert tree(root) == before, number
        shutil.rmtree(root)


class _Killed(BaseException):
    """The process ends here."""


def _kill_at(effects: Faulty, number: int) -> Any:
    def before(name: str, path: str) -> None:
        if len(effects.calls) == number:
            effects.before = None
            raise _Killed

    return before


def test_a_missing_and_a_short_file(golden: Any, tmp_path: Path) -> None:
    store = golden("basic")
    root = store.copy(tmp_path)
    (root / "commitlog" / "00000000000000262144").unlink()
    short = root / "commitlog" / FIRST
    short.write_bytes(short.read_bytes()[:100_000])
    mended = mend(root, store)
    assert sorted(line["what"] for line in mended.changes if line["what"] in ("create", "resize")) == [
        "create", "resize"]  # fmt: skip
    assert {path.stat().st_size for path in (root / "commitlog").iterdir()} == {131072}
    assert verify(root).defects == []
    rows = [row for row in store.rows if not 262144 <= row["physical_offset"] < 393216]
    kept = [r["physical_offset"] for r in rows if not 100_000 - r["size"] < r["physical_offset"] < 131072]
    assert [r.physical_offset for r in decoded(root, 131072) if r.topic != TOPIC] == kept


def test_small_files(golden: Any, tmp_path: Path) -> None:
    store = golden("config")
    root = store.copy(tmp_path)
    patch(root / "checkpoint", 0, (1 << 60).to_bytes(8, "big"))
    topics = root / "config" / "topics.json"
    shutil.copy(topics, f"{topics}.bak")
    topics.write_bytes(b'{"topicConfigTable":{')
    (root / "config" / "consumerOffset.json.bak").write_text("?")
    mend(root, store)
    assert verify(root, config_of(store)).defects == []
    assert topics.read_bytes() == (root / "config" / "topics.json.bak").read_bytes()
    assert not (root / "config" / "consumerOffset.json.bak").exists()


def test_offsets_come_back_to_their_queue(golden: Any, tmp_path: Path) -> None:
    root = golden("basic").copy(tmp_path)
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "topics.json").write_text('{"topicConfigTable":{"Orders":{}}}')
    (root / "config" / "consumerOffset.json").write_text('{"offsetTable":{"Orders@g":{"0":9999,"1":3}}}')
    mended = mend(root, golden("basic"))
    assert [(line["old"], line["new"]) for line in mended.changes if "of" in line] == [(9999, 185)]
    assert verify(root).defects == []


def test_who_may_and_who_may_not(golden: Any, tmp_path: Path) -> None:
    store = golden("basic")
    root, _ = hurt(store, tmp_path)
    with pytest.raises(UsageError, match="nothing|no salvage"):
        undo_in_place(str(root))
    lock = StoreLock(str(root))
    try:
        with pytest.raises(StoreLockedError):
            plan_in_place(str(root))
        with pytest.raises(StoreLockedError):
            undo_in_place(str(root))
    finally:
        lock.release()
    before = tree(root)
    with plan_in_place(str(root)) as mending:
        assert mending.needed and is_live(str(root))
    assert tree(root) == before and not (root / "quarantine").exists() and not is_live(str(root))
    (root / "commitlog" / "00000000000000000001").write_bytes(b"x" * 131072)
    with pytest.raises(UsageError, match="move it away"):
        plan_in_place(str(root))
    assert not is_live(str(root))


def test_a_dry_run_plans_the_same_and_leaves_no_trace(golden: Any, tmp_path: Path, monkeypatch: Any) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(outside))
    root, _ = hurt(golden("basic"), tmp_path)
    (root / "lock").unlink(missing_ok=True)
    before = stamps(root)
    with plan_in_place(str(root), dry_run=True) as mending:
        told = mending.mended
        assert told.dry_run and mending.needed and not is_live(str(root)) and stamps(root) == before
        assert len(list(outside.iterdir())) == 1
        with pytest.raises(UsageError, match="dry run"):
            mending.carry_out()
    assert stamps(root) == before and list(outside.iterdir()) == []
    lock = StoreLock(str(root))
    try:
        with pytest.raises(StoreLockedError):
            plan_in_place(str(root), dry_run=True)
    finally:
        lock.release()
    with plan_in_place(str(root)) as mending:
        assert (mending.mended.ranges, mending.mended.changes) == (told.ranges, told.changes)


def test_a_dry_run_finishes_no_killed_run(golden: Any, tmp_path: Path) -> None:
    root, _ = hurt(golden("basic"), tmp_path)
    with plan_in_place(str(root)) as mending:
        mending.journal.commit()  # and no further: as after a kill
        folder = mending.journal.folder
    before = stamps(root)
    with pytest.raises(UsageError, match=f"{folder}: .* finish it first"):
        plan_in_place(str(root), dry_run=True)
    assert stamps(root) == before
    with plan_in_place(str(root)) as mending:
        assert mending.mended.finished == [folder]


def test_a_second_damage_gets_a_journal_of_its_own(golden: Any, tmp_path: Path) -> None:
    store = golden("basic")
    root, _ = hurt(store, tmp_path)
    before = tree(root)
    mend(root, store)
    flip(root / "commitlog" / FIRST, store.rows[80]["physical_offset"] + 90)
    mend(root, store)
    assert verify(root).defects == []
    assert len(undo_in_place(str(root))) == 2
    flip(root / "commitlog" / FIRST, store.rows[80]["physical_offset"] + 90)
    assert tree(root) == before
    told = json.loads((root / "quarantine" / "salvage-0002" / "journal.json").read_text())
    assert told["state"] == "undone" and len(told["told"]["ranges"]) == 1


def found(root: Path, config: StoreConfig) -> list[tuple[int, int, int]]:
    far, dispatcher = FarRecords(), Dispatcher(DispatchRules.of(config))
    for piece in LogWalk(list_log(str(root), config), strict=False):
        for block in dispatcher.blocks(piece):
            far.take(block, dispatcher)
    return far.found


def test_no_golden_store_has_any(golden_store: Golden) -> None:
    assert found(golden_store.path, config_of(golden_store)) == []


@pytest.mark.parametrize("bit", [20, 1])  # too far away; near by, and denied by the queue's next records
def test_one_that_cannot_be_is_covered_in_place(golden: Any, tmp_path: Path, bit: int) -> None:
    root, row = golden("basic").copy(tmp_path), golden("basic").rows[100]
    assert row["queue_offset"] & 1 << bit == 0, "flipped, it grows"
    flip(root / "commitlog" / FIRST, row["physical_offset"] + 27 - bit // 8, 1 << bit % 8)
    place = row["physical_offset"], row["size"]
    assert [line[:2] for line in found(root, config_of(golden("basic")))] == [place]
    mended = mend(root, golden("basic"))
    assert [(line["offset"], line["bytes"]) for line in mended.ranges] == [place] and mended.left == {}
    assert verify(root).defects == []
