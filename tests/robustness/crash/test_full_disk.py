"""Disks that are really full (T6), and syncs that really fail and heal (T7): ext4 and XFS, and XFS on a thin disk.

The thin disk is a sparse image on a small tmpfs: the file system has room, its device has none. Space for a file is
given, and the sync fails; or the file system meets the error in its own journal and shuts itself down.
"""

import faulthandler
import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq.store.message_store import MessageStore
from tests.robustness.crash.disks import Disk, run, why_not
from tests.robustness.crash.lives import KEYS, Life, PutLedger, puts
from tests.robustness.crash.verdict import judge, read_ledger

PUTS = 20_000  # at most, until it is full
KINDS = [("SYNC_FLUSH", True), ("ASYNC_FLUSH", False)]


def needs(kind: str) -> None:
    if why_not(kind):
        pytest.skip(why_not(kind))


def fill(
    root: Path, ledger: Path, life: Life, relief: Callable[[], Any], patience_s: float = 20, until_s: float = 60
) -> dict[str, Any]:
    """In a child: put until an answer is not OK, get relief, put on for a while; what it saw, and how it ended."""
    read, tell = os.pipe()
    child = os.fork()
    if child == 0:
        said: dict[str, Any] = {}
        faulthandler.dump_traceback_later(until_s - 5, file=ledger.with_suffix(".stacks").open("w"))
        try:
            lines, numbers = PutLedger(ledger), iter(range(PUTS))
            keys = {"flushDiskType": life.disk, "transientStorePoolEnable": life.pool, "flushIntervalCommitLog": 20}
            store = MessageStore(root, config=KEYS | keys, unique_keys=False)
            first = "ok"
            while first == "ok" and (n := next(numbers, None)) is not None:
                first = puts(store, lines, life, 0, iter((n,))).value  # type: ignore[union-attr]
            said["first"] = first
            relief()
            limit, then = time.monotonic() + patience_s, "-"
            while then != "ok" and time.monotonic() < limit:  # dispatch and files made ahead may still be failing
                then = puts(store, lines, life, 0, iter((next(numbers),))).value  # type: ignore[union-attr]
            said["then"] = then
            if then == "ok":
                store.wait_dispatched(30)  # it tries again now and then; without it the stop is no clean one
            store.close()
            said["closed"] = not (root / "abort").exists()
        except Exception as error:
            said["raised"] = f"{type(error).__name__}: {error}"
        finally:
            os.write(tell, json.dumps(said).encode())
            os._exit(0)
    os.close(tell)
    limit = time.monotonic() + until_s
    while time.monotonic() < limit:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        time.sleep(0.01)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail(f"it hung: {ledger.with_suffix('.stacks').read_text()}")
    text = os.read(read, 65536)
    os.close(read)
    return (json.loads(text) if text else {}) | {"signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0}


def last_status(ledger: Path, outcome: str) -> str:
    """Of the first answer with this outcome."""
    return next(str(answer["status"]) for answer in read_ledger(ledger)[1].values() if answer["outcome"] == outcome)


@pytest.mark.turn(2, of=["src/flintmq/store/", "src/flintmq/storage/"])
@pytest.mark.parametrize(("disk", "pool"), KINDS, ids=["sync-pool", "async"])
@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_a_full_disk_is_an_answer_and_puts_go_on_when_space_returns(tmp_path: Path, kind: str, disk: str, pool: bool):
    needs(kind)
    ledger = tmp_path / "ledger"
    with Disk(tmp_path, kind) as full:
        ballast = full.mounted / "ballast"
        free = shutil.disk_usage(full.mounted).free
        with ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, free - (1 << 20))
            os.fsync(file.fileno())
        said = fill(full.mounted / "store", ledger, Life(1, 1, disk, pool=pool), ballast.unlink)
        assert said == {"first": "failed", "then": "ok", "closed": True, "signal": 0}
        assert last_status(ledger, "failed") == "CREATE_MAPPED_FILE_FAILED"
    with full:
        found = judge(full.mounted / "store", ledger)
    assert not found.wrong and found.acknowledged > 100, found


def answers(mounted: Path) -> bool:
    """Whether a file system has not shut itself down."""
    try:
        (mounted / "probe").write_bytes(b"x")
    except OSError:
        return False
    return True


def forget(root: Path) -> None:
    """Drop what the page cache has of these files: what was never written shows as it is on the disk."""
    for path in root.rglob("*"):
        if path.is_file():
            fd = os.open(path, os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


@pytest.fixture
def thin(tmp_path: Path) -> Any:
    """An XFS whose disk has less room than it says; `thin.relieve()` gives it more."""
    needs("xfs")
    small = tmp_path / "small"
    small.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=4m", "none", small)
    run("cp", "--sparse=always", Disk(tmp_path, "xfs").image, small / "disk.xfs")
    disk = Disk(tmp_path, "xfs", image=small / "disk.xfs")
    disk.relieve = lambda: run("mount", "-o", "remount,size=400m", small)  # type: ignore[attr-defined]
    try:
        with disk:
            disk.write_pages_alone()
            used, room = shutil.disk_usage(small).used, 4 << 20
            with (disk.mounted / "ballast").open("wb") as file:
                file.write(os.urandom(max(room - used - (600 << 10), 0)))
                os.fsync(file.fileno())
            yield disk
    finally:
        run("umount", small)


@pytest.mark.turn(2, of=["src/flintmq/store/", "src/flintmq/storage/"])
@pytest.mark.parametrize(("disk", "pool"), KINDS, ids=["sync-pool", "async"])
def test_a_sync_that_failed_is_told_and_the_store_works_after_reopening(
    tmp_path: Path, thin: Any, disk: str, pool: bool
):
    """T7: the disk heals at once, and nobody believes it before a restart; nothing that was acknowledged is lost."""
    ledger, root = tmp_path / "ledger", thin.mounted / "store"
    said = fill(root, ledger, Life(1, 1, disk, pool=pool, power=True), thin.relieve, 0.5)
    if said["signal"]:
        assert said["signal"] == signal.SIGBUS, "the file system shut itself down under a map"
    else:
        assert said["first"] in ("unknown", "failed") and said.get("then") != "ok" and not said.get("closed"), said
    if said["signal"] or not answers(thin.mounted):
        thin.relieve()
        thin.unmount()
        thin.mount()
        thin.write_pages_alone()
    with MessageStore(root, config=KEYS, unique_keys=False) as store:
        assert store.wait_dispatched(30)
    forget(root)
    found = judge(root, ledger)
    assert not found.wrong and found.acknowledged > 100, (found, said)
    assert fill(root, ledger, Life(2, 2, disk), lambda: None, 60)["signal"] == 0
