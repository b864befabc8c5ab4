"""Tests aimed at single mutants: faults that a random test meets too seldom, or would not end at."""

import fcntl
import json
import os
import struct
from itertools import islice
from pathlib import Path

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.errors import CorruptStoreError, StoreLockedError
from flintmq.format import checkpoint, record
from flintmq.format.index import key_hash
from flintmq.storage.files.filesystem import REAL
from flintmq.storage.files.lock import StoreLock
from flintmq.store.index.reader import discover
from flintmq.store.layout.small_files import page_cache_id
from flintmq.store.view import open_store
from tests.support.crashed import Clock, killed, make, zero
from tests.support.engine import (
    FIRST_LOG,
    check_derived,
    index_items,
    open_small,
    put_all,
    put_dispatched,
    records,
    stored,
)
from tests.support.faults import Faulty
from tests.support.makers import patch
from tests.support.unplugged import Unplugged, write

NEVER_MS = 3_600_000


def test_a_flush_that_spans_a_roll_over_leaves_nothing_to_a_power_cut(tmp_path: Path):
    """One flush for records in several files: each is synced, and so is each one's name."""
    disk = Unplugged(tmp_path / "store")
    with open_small(tmp_path / "store", disk, flushIntervalCommitLog=NEVER_MS) as store:
        sent = [result.physical_offset for result in put_all(store, 30, size=500)]
        assert sent[-1] > 3 * 4096
        store.flush()
        write(disk.image(), tmp_path / "left")
    with open_small(tmp_path / "left", Faulty()) as store:
        assert [m.physical_offset for m in store] == sent
    disk.forget()


def test_allocated_bytes_have_blocks(tmp_path: Path):
    """A store to a map of a sparse file ends the process when the disk is full."""
    fd = REAL.create(str(tmp_path / "file"), 1 << 20)
    REAL.allocate(fd, 0, 1 << 20)
    assert os.fstat(fd).st_blocks * 512 >= os.fstat(fd).st_size == 1 << 20
    os.close(fd)


def test_abort_is_there_until_the_last_sync_of_a_stop(tmp_path: Path):
    effects, seen = Faulty(), []
    store = open_small(tmp_path, effects, flushIntervalCommitLog=NEVER_MS)
    put_dispatched(store, 3)

    def look(name: str, path: str) -> None:
        if name == "sync" and path.endswith(FIRST_LOG):
            seen.append((tmp_path / "abort").exists())

    effects.before = look
    store.close()
    assert seen == [True] and not (tmp_path / "abort").exists()


def test_abort_is_on_disk_before_the_first_put(tmp_path: Path):
    disk = Unplugged(tmp_path)
    with open_small(tmp_path, disk):
        assert (disk.image().get("abort") or b"").startswith(b"%d\n" % os.getpid())
    disk.forget()


def test_a_configuration_is_the_old_or_the_new_one_after_a_power_cut(tmp_path: Path):
    images: list[dict[str, bytes | None]] = []
    disk = Unplugged(tmp_path, lambda: images.append(disk.image()))
    with open_small(tmp_path, disk) as store:
        for topic in ("A", "B"):
            store.create_topic(topic)
            images.append(disk.image())
            (data,) = (found for name, found in images[-1].items() if name == "config/topics.json")
            assert topic in json.loads(data or b"{}").get("topicConfigTable", {}), "on disk when the call returns"
    tables = [image["config/topics.json"] for image in images if "config/topics.json" in image]
    assert all(table and json.loads(table) for table in tables)
    disk.forget()


def test_the_checkpoint_tells_no_time_that_is_not_on_disk(tmp_path: Path):
    """Dispatch runs ahead of the flush under ASYNC_FLUSH; what it has seen may be gone after a power cut."""
    clock = Clock()
    with open_small(tmp_path, clock, flushIntervalCommitLog=NEVER_MS) as store:
        flushed = put_all(store, 5)[-1].store_timestamp
        store.flush()
        clock.clock += 60_000
        later = put_all(store, 5, first=5)[-1].store_timestamp
        assert store.wait_dispatched(60)
        store._parts.checkpointer.write()
        told = checkpoint.decode((tmp_path / "checkpoint").read_bytes())
        assert told.physic_timestamp == flushed < later
        assert told.logics_timestamp <= flushed


def test_a_chain_that_leads_upwards_ends(tmp_path: Path):
    """Two items of one slot, the older one leading to the newer one: RocketMQ would go round for ever."""
    slots, items = 4, 16
    data = bytearray(40 + 4 * slots + 20 * items)
    struct.pack_into(">qqqqii", data, 0, 1, 2, 100, 200, 1, 3)
    struct.pack_into(">i", data, 40 + 4, 2)
    for number, previous in ((1, 2), (2, 1)):
        struct.pack_into(">iqii", data, 40 + 4 * slots + 20 * number, 5, 100 * number, 0, previous)
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "20260102030405678").write_bytes(data)
    (file,) = discover(str(tmp_path), StoreConfig.from_keys({"maxHashSlotNum": slots, "maxIndexNum": items}))
    with file.open() as index, pytest.raises(CorruptStoreError, match="not older"):
        list(islice(index.chain(5), 100))


def test_a_record_that_landed_at_another_s_place_is_not_read(tmp_path: Path):
    """As whole as any, stored in the same millisecond, of the same queue; only its place is wrong."""
    effects = Faulty()
    effects.clock = 1_700_000_000_000
    stored(tmp_path, 8, effects=effects)
    kept = records(tmp_path)
    (path,) = (tmp_path / "commitlog").iterdir()
    at = kept[6].physical_offset
    assert kept[5].size == kept[6].size
    patch(path, at, record.encode(kept[5]))
    with open_store(tmp_path) as view, pytest.raises(CorruptStoreError, match="physical offset") as caught:
        list(view.messages())
    assert caught.value.position == at


def test_items_behind_a_cut_are_gone_though_the_machine_ran_on(tmp_path: Path):
    """After a kill nothing of the index is in doubt, so it is not made anew but cut, item by item."""
    kept = make(tmp_path, count=12, size=600)
    zero(tmp_path, kept[5].physical_offset, 1200)
    killed(tmp_path, flushed=kept[2].physical_offset)
    (tmp_path / "abort").write_text(f"1\n{page_cache_id(str(tmp_path), REAL)}")
    items = [(key_hash("T", f"k{number}"), kept[number].physical_offset) for number in range(5)]
    with open_small(tmp_path, Clock()) as store:
        assert store.recovered.state.end == kept[5].physical_offset
        assert index_items(tmp_path) == items
        put_all(store, 3, first=100, size=600)
    check_derived(tmp_path)


def test_what_a_reader_opens_cannot_be_written_to(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"x")
    with REAL.reading(str(tmp_path / "file")) as fd:
        assert fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
    with REAL.reading(str(tmp_path / "file"), str(tmp_path)) as fd:
        assert fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY


def test_a_second_start_is_refused_before_it_touches_anything(tmp_path: Path):
    """A store that recovery would cut, and somebody else holds: every byte stays, nothing comes."""
    kept = make(tmp_path, count=20, size=600)
    zero(tmp_path, kept[5].physical_offset, 1200)
    killed(tmp_path, flushed=kept[2].physical_offset)

    def everything() -> dict[str, bytes]:  # by other means than the engine's, which do not open a `lock` of their own
        return {str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    lock = StoreLock(str(tmp_path))
    before = everything()
    with pytest.raises(StoreLockedError):
        open_small(tmp_path)
    assert everything() == before
    lock.release()
    open_small(tmp_path, Faulty()).close()
    assert records(tmp_path) == kept[:5], "it would have been cut"
