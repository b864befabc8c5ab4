"""The simulated disk forgets what was not synced, refuses what its plan says, and is the same for the same seed."""

from __future__ import annotations

import errno

import pytest

from flintmq.message import Message, PutMessageStatus
from flintmq.store.message_store import MessageStore
from tests.sim.disk import MODELS, ROOT, Image, PowerCut, SimDisk
from tests.sim.run import GEOMETRY, STORE
from tests.sim.states import PowerCutState, Uncertain


def worst(disk: SimDisk) -> dict[str, bytes | None]:
    """What is certain."""
    uncertain = Uncertain.of(disk)
    files = uncertain.image(PowerCutState(0, (0,) * len(uncertain.pages))).files
    return {path: data for path, data in files.items() if path != ROOT}


@pytest.mark.parametrize("model", MODELS)
def test_it_forgets_what_was_not_synced(model: str):
    disk = SimDisk(1, model)
    fd = disk.create(f"{ROOT}/a", 0)
    disk.pwrite(fd, b"one", 0)
    assert worst(disk) == {}
    disk.sync(fd)
    assert worst(disk) == ({} if model == "posix" else {f"{ROOT}/a": b"one"}), "the name needs a sync of its own"
    disk.sync_dir(ROOT)
    disk.pwrite(fd, b"two", 0)
    assert worst(disk) == {f"{ROOT}/a": b"one"}
    disk.rename(f"{ROOT}/a", f"{ROOT}/b")
    assert worst(disk) == {f"{ROOT}/a": b"one"}
    disk.sync_dir(ROOT)
    disk.sync(fd)
    assert worst(disk) == {f"{ROOT}/b": b"two"} == {k: v for k, v in disk.shown().files.items() if v is not None}
    disk.unlink(f"{ROOT}/b")
    assert worst(disk) == {f"{ROOT}/b": b"two"}


def test_a_failed_sync_and_what_follows_it():
    """On ext4 stores to a page whose sync failed never arrive, whatever later syncs say, until the cache is dropped."""
    disk = SimDisk(1, "ext4")
    fd = disk.create(f"{ROOT}/a", 4096)
    disk.sync(fd)
    disk.sync_dir(ROOT)
    view = disk.map_write(fd, 4096)
    view[:3] = b"one"
    disk.wrote(fd, 0, 3)
    disk.plan[disk.calls + 1] = errno.EIO
    with pytest.raises(OSError):
        disk.sync(fd)
    view[:3] = b"two"
    disk.wrote(fd, 0, 3)
    disk.sync(fd)
    assert bytes(view[:3]) == b"two", "the kernel shows it"
    uncertain = Uncertain.of(disk)
    left = {
        bytes(uncertain.image(PowerCutState(0, (n,))).files[f"{ROOT}/a"] or b"")[:3] for n in range(uncertain.states)
    }
    assert b"two" not in left and b"one" in left
    disk.drop_cache(fd, 0, 4096)
    assert bytes(view[:3]) in left and not disk.find(f"{ROOT}/a").bad  # type: ignore[union-attr]


def test_faults_of_a_plan():
    disk = SimDisk(1)
    fd = disk.create(f"{ROOT}/a", 8)
    disk.plan = {disk.calls + 1: "short", disk.calls + 2: "flip", disk.calls + 3: "power"}
    with pytest.raises(OSError):
        disk.pwrite(fd, b"abcdefgh", 0)
    assert disk.pread(fd, 8, 0) == b"abcd\0\0\0\0", "the flip met the read, and did nothing"
    with pytest.raises(PowerCut):
        disk.sync(fd)
    with pytest.raises(PowerCut):
        disk.pwrite(fd, b"x", 0)
    assert [name for _, name, _ in disk.refused] == ["pwrite", "pread", "sync"]


def test_a_bit_flips():
    disk = SimDisk(1)
    fd = disk.create(f"{ROOT}/a", 0)
    disk.plan = {disk.calls + 1: "flip"}
    disk.pwrite(fd, bytes(100), 0)
    assert sum(byte.bit_count() for byte in disk.pread(fd, 100, 0)) == 1


@pytest.mark.parametrize("model", MODELS)
def test_a_store_lives_on_it_and_the_same_seed_gives_the_same_trace(model: str):
    traces = []
    for _ in range(2):
        disk = SimDisk(7, model)
        with MessageStore(STORE, config=GEOMETRY, effects=disk, services=False, unique_keys=False) as store:
            told = {store.put(Message("T", b"x" * 900, keys=str(n))).status for n in range(40)}
            assert store.wait_dispatched(1) and len(store.get("T", 0, 0).messages) == 20, "a queue file"
        assert told == {PutMessageStatus.PUT_OK} and disk.held == []
        traces.append((disk.trace, disk.calls))
        image = disk.shown()
    assert traces[0] == traces[1]
    with MessageStore(
        STORE, config=GEOMETRY, effects=SimDisk(8, model, image), services=False, unique_keys=False
    ) as store:
        assert len(list(store)) == 40


def test_an_image_is_what_lies_on_a_new_disk():
    image = Image({ROOT: None, f"{ROOT}/a": b"12"})
    assert SimDisk(1, image=image).shown() == image == SimDisk(1, image=image, watched=False).shown()
