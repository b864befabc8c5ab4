"""A disk that refuses, or a kill, while offsets are changed: all of them are written, or none."""

import errno
from pathlib import Path

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.forensics.offset_changes import Move, stopped_offsets
from flintmq.message import Message
from flintmq.storage.files.filesystem import REAL
from flintmq.store.layout.config_reader import read_config
from flintmq.store.message_store import MessageStore
from tests.support.faults import Faulty

MOVES = [Move("G", "T", queue_id, 3) for queue_id in range(4)]
BEFORE, AFTER = dict.fromkeys(range(4), 1), dict.fromkeys(range(4), 3)


class Killed(BaseException):
    """What ends the process at a call."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with MessageStore(tmp_path / "s") as store:
        store.put_many([Message("T", b"%d" % n, queue_id=n % 4) for n in range(20)])
        for queue_id in range(4):
            store.commit_offset("G", "T", queue_id, 1)
    return tmp_path / "s"


def write(root: Path, effects: Faulty, moves: list[Move] = MOVES, *, create: bool = False) -> None:
    with stopped_offsets(str(root), StoreConfig(), effects=effects) as offsets:
        offsets.write(offsets.check(moves, create=create))


def found(root: Path, group: str = "G") -> dict[int, int]:
    """What the next start reads."""
    config = read_config(str(root), REAL)
    assert not config.problems
    return dict(config.consumer_offsets.get(("T", group), {}))


@pytest.mark.parametrize("call", ["create", "pwrite", "sync", "rename"])
def test_a_disk_that_refuses_leaves_all_as_it_was(root: Path, call: str) -> None:
    disk = Faulty()
    disk.refuse(call, "consumerOffset.json", errno.ENOSPC)
    with pytest.raises(OSError, match="No space left") as refused:
        write(root, disk)
    assert "consumerOffset.json" in str(refused.value) and "flintmq-new" not in str(refused.value)
    assert not list((root / "config").glob("*flintmq-new"))
    assert disk.refused and found(root) == BEFORE
    write(root, Faulty())
    assert found(root) == AFTER


def test_a_kill_at_each_call_leaves_all_or_none(root: Path) -> None:
    """Each write, rename and sync of a change that also makes a group."""
    moves = [*MOVES, *(move._replace(group="New") for move in MOVES)]
    disk, seen = Faulty(), 0
    while True:
        calls = 0

        def end(name: str, path: str) -> None:
            nonlocal calls
            calls += 1
            if calls > seen:  # noqa: B023  (called within this round)
                raise Killed

        disk.before = end
        try:
            write(root, disk, moves, create=True)
        except Killed:
            assert (found(root), found(root, "New")) in ((BEFORE, {}), (AFTER, AFTER))
        else:
            break
        seen += 1
        write(root, Faulty(), [move._replace(offset=1) for move in MOVES])  # as before, if it was done
        if found(root, "New"):
            break
    assert seen > 4 and found(root, "New") == AFTER


def test_an_unclean_log_is_synced_before_an_offset_counts_its_messages(root: Path) -> None:
    (root / "abort").write_bytes(b"1")
    disk = Faulty()
    disk.refuse("sync", "commitlog", errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        write(root, disk)
    assert found(root) == BEFORE
    (root / "abort").unlink()
    write(root, disk)
    assert found(root) == AFTER, "a clean one is on disk"
