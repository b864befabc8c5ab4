"""Rebuilding queues and index from the log alone: Java's files, byte for byte, where Java's are right."""

import shutil
import time
from pathlib import Path

import pytest

import flintmq
from flintmq.config.keys import StoreConfig
from flintmq.errors import CorruptStoreError, NotAStoreError, UsageError
from flintmq.forensics.rebuild import RESULTS, STAGING, Builder, rebuild
from flintmq.format.consume_queue import PRE_BLANK, UNIT, Unit
from flintmq.store.dispatch import dispatcher
from tests.compat.stores import Golden
from tests.support.makers import flip

QUEUES = ("consumequeue", "consumequeue_ext", "batchconsumequeue")


def files(root: Path) -> dict[str, bytes]:
    return (
        {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}
        if root.exists()
        else {}
    )


def bare(golden: Golden, into: Path) -> Path:
    """Log, configuration and checkpoint of a store, and nothing that is derived."""
    shutil.copytree(golden.path / "commitlog", into / "commitlog")
    for name in ("config", "batchconsumequeue"):  # the latter only so that its topics are known without topics.json
        if (golden.path / name).exists():
            (into / name).mkdir()
            for folder in (p for p in (golden.path / name).rglob("*") if p.is_dir()):
                (into / folder.relative_to(golden.path)).mkdir(parents=True, exist_ok=True)
    if (golden.path / "config" / "topics.json").exists():
        shutil.copy(golden.path / "config" / "topics.json", into / "config" / "topics.json")
    shutil.copy(golden.path / "checkpoint", into / "checkpoint")
    return into


def config(golden: Golden) -> StoreConfig:
    return StoreConfig.from_keys({k: v for k, v in golden.config.items() if isinstance(v, (int, bool))})


@pytest.mark.parametrize("access", ["pread", "map"])
def test_golden_stores_come_out_as_java_wrote_them(golden_store: Golden, tmp_path: Path, access: str) -> None:
    into = tmp_path / "into"
    done = rebuild(
        str(bare(golden_store, tmp_path / "bare")), str(into), config(golden_store), golden_store.peer, access=access
    )
    assert done.records == len(golden_store.live) + golden_store.expect.get("beyond", 0)
    if golden_store.expect.get("consumequeue", "exact") == "exact":
        for kind in QUEUES:
            assert files(into / kind) == files(golden_store.path / kind), kind
    else:
        assert_logged(golden_store, into / "consumequeue")
    if golden_store.expect.get("index", "exact") == "exact":
        assert list(files(into / "index").values()) == list(files(golden_store.path / "index").values())
    assert not (into / STAGING).exists()


def test_many_blocks_are_written_while_the_next_ones_are_made(golden, tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """A block stays good until the next but one is taken: a writer that dawdles still writes Java's bytes."""
    taken = []

    def dawdling(self, block, dispatcher):  # type: ignore[no-untyped-def]
        time.sleep(0.05)
        taken.append(block.keys)
        take(self, block, dispatcher)

    take = Builder.take
    monkeypatch.setattr(Builder, "take", dawdling)
    monkeypatch.setattr(dispatcher, "ENOUGH_UNITS", 1)
    store = golden("basic")
    rebuild(str(bare(store, tmp_path / "bare")), str(tmp_path / "into"), config(store), store.peer)
    assert len(taken) >= 4
    assert files(tmp_path / "into" / "consumequeue") == files(store.path / "consumequeue")
    made, javas = files(tmp_path / "into" / "index"), files(store.path / "index")
    assert list(made.values()) == list(javas.values())  # names are in local time


def assert_logged(golden: Golden, ours: Path) -> None:
    """Where Java's queues have other units too (stale, expired, not dispatched): each record has its unit, with the
    tags code that Java's unit has where there is one, and there is nothing else but pre-blank units."""
    wanted = {
        (f"{row['topic']}/{row['queue_id']}", row["queue_offset"]): (row["physical_offset"], row["size"])
        for row in golden.live
        if row["sys_flag"] & 12 in (0, 8)
    }
    found, java = units(ours), units(golden.path / "consumequeue")
    extra = {place for place in found if place not in wanted}
    assert len(extra) <= golden.expect.get("beyond", 0)
    for place, (offset, size) in wanted.items():
        assert found[place][:2] == (offset, size), place
        if place in java and java[place][:2] == (offset, size):
            assert found[place] == java[place]


def units(root: Path) -> dict[tuple[str, int], Unit]:
    found = {}
    for name, data in files(root).items():
        queue, first = name.rsplit("/", 1)
        for at in range(0, len(data), UNIT.size):
            unit = UNIT.unpack(data, at)
            if unit.size > 0 and unit != PRE_BLANK:
                found[queue, (int(first) + at) // UNIT.size] = unit
    return found


def test_geometry_comes_from_the_store_s_own_files(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store = golden("basic")
    rebuild(str(store.path), str(tmp_path))
    for kind in ("consumequeue", "index"):
        assert list(files(tmp_path / kind).values()) == list(files(store.path / kind).values())


def test_a_second_rebuild_over_the_first_is_refused_and_an_interrupted_one_is_begun_again(
    golden, tmp_path: Path
) -> None:  # type: ignore[no-untyped-def]
    store = golden("batch")
    (tmp_path / STAGING / "consumequeue").mkdir(parents=True)
    (tmp_path / STAGING / "consumequeue" / "left").write_text("over")
    rebuild(str(store.path), str(tmp_path))
    assert not (tmp_path / "consumequeue" / "left").exists()
    before = files(tmp_path)
    with pytest.raises(UsageError, match="exist already; give an empty directory"):
        rebuild(str(store.path), str(tmp_path))
    assert files(tmp_path) == before


def test_damage_stops_a_rebuild_and_leaves_no_result(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store = golden("basic").copy(tmp_path)
    log = sorted((store / "commitlog").iterdir())[1]
    flip(log, 5000)
    with pytest.raises(CorruptStoreError, match=log.name):
        rebuild(str(store), str(tmp_path / "into"))
    assert not any((tmp_path / "into" / name).exists() for name in RESULTS)


def test_what_is_no_store_or_no_peer_is_refused(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(NotAStoreError):
        rebuild(str(tmp_path), str(tmp_path / "into"))
    with pytest.raises(UsageError, match="peer: '6' is not one of"):
        rebuild(str(golden("batch").path), str(tmp_path / "into"), peer="6")


def test_progress_is_told(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    told: list[tuple[int, int]] = []
    rebuild(str(golden("basic").path), str(tmp_path), progress=lambda done, size: told.append((done, size)))
    assert told and told == sorted(told) and told[-1][0] <= told[-1][1] == 6 * 131_072


def begun_again(root: Path) -> Path:
    """Return a bare store: 12 messages of a queue, 5 of its second life, one twice, and one with a negative offset."""
    with flintmq.MessageStore(root / "made", config={"mappedFileSizeCommitLog": 65536}) as store:
        at = [store.put(flintmq.Message("T", b"x")).physical_offset for _ in range(18)]
        at.append(store.put(flintmq.Message("Negative", b"x")).physical_offset)
    log = root / "bare" / "commitlog" / ("0" * 20)
    log.parent.mkdir(parents=True)
    data = bytearray((root / "made" / "commitlog" / log.name).read_bytes())
    for place, offset in zip(at, [*range(12), *range(5), 4, -1], strict=True):
        data[place + 20 : place + 28] = offset.to_bytes(8, "big", signed=True)  # no checksum covers it
    log.write_bytes(data)
    return root / "bare"


def test_the_counts_are_what_the_files_have(tmp_path: Path) -> None:
    done = rebuild(str(begun_again(tmp_path)), str(tmp_path / "into"), StoreConfig())
    assert done.units == len(units(tmp_path / "into" / "consumequeue")) == 5
    assert done.queues == len(list((tmp_path / "into" / "consumequeue").glob("*/*"))) == 1
    assert (done.notes["begun_again"], done.notes["repeat"], done.notes["negative_offset"]) == (1, 1, 1)
