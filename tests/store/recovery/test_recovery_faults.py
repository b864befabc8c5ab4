"""Recovery that is killed, or whose disk refuses, at every call that changes the disk."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from flintmq.errors import StoreError
from flintmq.format import record
from flintmq.store.layout.small_files import read_abort
from tests.support.crashed import Clock, killed, make, quarantined, reopened, zero
from tests.support.engine import open_small


class Killed(BaseException):
    """Stands for the death of the process: nobody catches it."""


def copies(origin: Path, root: Path) -> list[bytes]:
    """The records that a recovery keeps aside, which nothing disturbs; each is whole."""
    shutil.copytree(origin, root)
    open_small(root).close()
    found = quarantined(root)
    assert all(data == record.encode(record.decode(data)) for data in found)
    shutil.rmtree(root)
    return found


def test_t11_recovery_killed_at_every_call_that_changes_the_disk_gives_the_same(tmp_path: Path):
    """Line 4: crash in recovery, recover again; and crash in that one, too."""
    origin = tmp_path / "origin"
    kept = make(origin, count=12, size=1100)
    zero(origin, kept[4].physical_offset, 1200)
    killed(origin, flushed=kept[2].physical_offset)
    expected, calls = kept[:4], None
    aside = copies(origin, tmp_path / "undisturbed")
    assert len(aside) >= 6
    for at in range(200):
        for depth in (1, 2) if at % 8 == 0 else (1,):
            root = tmp_path / f"at{at}-{depth}"
            shutil.copytree(origin, root)
            died = 0
            for _ in range(depth):
                effects = Clock()
                count = iter(range(10_000))

                def die(name: str, path: str, count: Any = count, last: int = at) -> None:
                    if next(count) == last:
                        raise Killed

                effects.before = die
                try:
                    open_small(root, effects).close()
                except Killed:
                    died += 1
            if not died:
                calls = at
                break
            reopened(root, expected)
            assert quarantined(root) == aside, "what was valid after the cut is kept aside whole, whenever it died"
            shutil.rmtree(root)
        if calls is not None:
            break
    assert calls is not None and calls > 20


@pytest.mark.parametrize("call", ["pwrite", "sync", "unlink", "open_write", "create", "mkdirs", "sync_dir"])
def test_a_disk_that_refuses_during_recovery_loses_nothing(tmp_path: Path, call: str):
    kept = make(tmp_path, count=20, size=600)
    zero(tmp_path, kept[5].physical_offset, 1200)
    killed(tmp_path, flushed=kept[2].physical_offset)
    aside = copies(tmp_path, tmp_path.parent / "undisturbed")
    refused = 0
    for after in range(12):
        effects = Clock()
        effects.refuse(call, after=after, times=1)
        try:
            open_small(tmp_path, effects).close()
        except (OSError, StoreError):
            refused += 1
            continue
        break
    assert refused > 0
    reopened(tmp_path, kept[:5])
    assert quarantined(tmp_path) == aside and len(aside) >= 13


def test_after_a_sync_of_recovery_that_failed_the_next_start_asks_the_disk(tmp_path: Path):
    """The page cache shows the zeros of a truncated log, and the disk may have its records still."""
    origin = tmp_path / "origin"
    kept = make(origin, count=12, size=600)
    zero(origin, kept[5].physical_offset, 1200)
    killed(origin, flushed=kept[2].physical_offset)
    trusted, refused = set(), set()
    for after in range(60):
        root, effects = tmp_path / f"after{after}", Clock()
        shutil.copytree(origin, root)
        effects.refuse("sync", after=after, times=1)
        try:
            open_small(root, effects).close()
            break
        except (OSError, StoreError):
            path = effects.refused[0][1]
            (trusted if read_abort(str(root), effects).page_cache_lasted else refused).add(path[len(str(root)) :])
            reopened(root, kept[:5])
    assert len(refused) > 2 and all(path.endswith(".flintmq-new") for path in trusted), "a new file is made anew"
