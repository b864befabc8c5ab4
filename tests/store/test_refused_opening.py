"""An opening that is refused leaves every file and directory as it was; at most `lock` is new."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.errors import (
    ConfigError,
    CorruptStoreError,
    FlintError,
    LostLogError,
    NotAStoreError,
    StoreAccessError,
    StoreLockedError,
    UnsupportedFormatError,
    UsageError,
)
from flintmq.message import Message
from flintmq.storage.dispatch_lock import DispatchLock
from flintmq.store.message_store import MessageStore
from flintmq.store.recovery.apply import Recovery
from tests.support.crashed import flip, killed, make
from tests.support.engine import KEYS


def everything(root: Path) -> dict[str, bytes | None]:
    """Content of each file, None for a directory; without `lock`, which must be taken before anything is read."""
    found = {str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in root.rglob("*")}
    return {name: data for name, data in found.items() if name != "lock"}


def damaged(root: Path) -> None:
    """A record below the mark is no record any more, in the file that recovery reads."""
    kept = make(root)
    killed(root, flushed=kept[-1].physical_offset)
    flip(root, kept[-2].physical_offset + 90)


def lost(root: Path) -> None:
    make(root, count=40)
    sorted((root / "commitlog").iterdir())[-1].unlink()
    sorted((root / "commitlog").iterdir())[-1].unlink()


def without_log(root: Path) -> None:
    make(root)
    shutil.rmtree(root / "commitlog")


def in_rocksdb(root: Path) -> None:
    (root / "consumequeue_rocksdb").mkdir(parents=True)
    (root / "consumequeue_rocksdb" / "CURRENT").write_text("MANIFEST-000004\n")


def of_dledger(root: Path) -> None:
    (root / "dledger-n0").mkdir(parents=True)


def of_another_division(root: Path) -> None:
    """The index files fit no division that the keys allow."""
    make(root)
    for path in (root / "index").iterdir():
        path.write_bytes(path.read_bytes() + bytes(7))


def abort_is_a_directory(root: Path) -> None:
    """RocketMQ asks only whether the name is there."""
    make(root)
    (root / "abort").mkdir()


def beside_an_empty_log(root: Path) -> None:
    """The disk of the log is not mounted: its directory is there, and holds nothing."""
    make(root)
    shutil.rmtree(root / "commitlog")
    (root / "commitlog").mkdir()


def odd_log_file(root: Path) -> None:
    make(root)
    (root / "commitlog" / f"{1 << 20:020d}").symlink_to(root / "commitlog" / ("0" * 20))


REFUSED: dict[str, tuple[Callable[[Path], object], type[FlintError], dict[str, object]]] = {
    "damage": (damaged, CorruptStoreError, {}),
    "lost files": (lost, LostLogError, {}),
    "lost log": (without_log, LostLogError, {}),
    "a link": (odd_log_file, CorruptStoreError, {}),
    "queues in RocksDB": (in_rocksdb, UnsupportedFormatError, {}),
    "DLedger": (of_dledger, UnsupportedFormatError, {}),
    "index files of another size": (of_another_division, ConfigError, {"maxHashSlotNum": None, "maxIndexNum": None}),
    "abort is a directory": (abort_is_a_directory, StoreAccessError, {}),
    "a directory that is not there": (make, NotAStoreError, {"storePathCommitLog": "/no/such/directory"}),
    "one, and the log is lost": (beside_an_empty_log, NotAStoreError, {"storePathCommitLog": "/no/such/directory"}),
    "one of two": (make, NotAStoreError, {"storePathCommitLog": "/tmp,/no/such/directory"}),
    "a read-only directory that is not there": (
        Path.mkdir, NotAStoreError, {"readOnlyCommitLogStorePaths": "/no/such/directory"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("why", REFUSED)
def test_a_refused_opening_changes_nothing(tmp_path: Path, why: str, index: bool):
    """Without `index/` too, which an open store always has."""
    break_it, error, keys = REFUSED[why]
    root, config = tmp_path / "s", {key: value for key, value in (KEYS | keys).items() if value is not None}
    break_it(root)
    if not index and error is not ConfigError:
        shutil.rmtree(root / "index", ignore_errors=True)
    before = everything(root)
    for _ in range(2):
        with pytest.raises(error):
            MessageStore(root, config)
        assert everything(root) == before


def test_a_store_that_another_process_dispatches_is_left_alone(tmp_path: Path):
    make(tmp_path)
    shutil.rmtree(tmp_path / "index")
    dispatcher = DispatchLock(str(tmp_path))
    try:
        before = everything(tmp_path)
        with pytest.raises(StoreLockedError):
            MessageStore(tmp_path, KEYS)
        assert everything(tmp_path) == before
    finally:
        dispatcher.release()


def test_a_store_that_can_be_opened_gets_its_index_directory(tmp_path: Path):
    """Also if nothing is put: RocketMQ makes it when it starts."""
    MessageStore(tmp_path, KEYS).close()
    assert (tmp_path / "index").is_dir() and not any((tmp_path / "index").iterdir())


def test_a_new_store_gets_the_directories_of_its_log_and_no_other_store_does(tmp_path: Path):
    """As RocketMQ makes them; but beside messages one is missing because its disk is not mounted."""
    places = [tmp_path / "a" / "log", tmp_path / "b"]
    keys = KEYS | {"storePathCommitLog": ",".join(map(str, places))}
    MessageStore(tmp_path / "s", keys).close()
    assert all(place.is_dir() for place in places), "nothing was put: they may be made again"
    shutil.rmtree(places[0])
    with MessageStore(tmp_path / "s", keys) as store:
        for number in range(40):
            store.put(Message("T", b"%0300d" % number)).raise_for_status()
    assert all(any(place.iterdir()) for place in places)
    shutil.rmtree(places[0])
    with pytest.raises(NotAStoreError, match=f"{places[0]}: storePathCommitLog names it, .* mount its disk"):
        MessageStore(tmp_path / "s", keys)
    assert not places[0].exists()


def test_an_error_of_the_disk_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A write to an open file fails without its path; and a lock that cannot be signed is not kept."""

    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(OSError, match="No space left") as error:
            MessageStore(tmp_path / "s", KEYS)
    assert error.value.filename == str(tmp_path / "s" / "lock")
    with monkeypatch.context() as patch:
        patch.setattr(Recovery, "run", full)
        with pytest.raises(OSError, match="No space left") as error:
            MessageStore(tmp_path / "s", KEYS)
    assert error.value.filename == str(tmp_path / "s")
    MessageStore(tmp_path / "s", KEYS).close()


def test_threads_that_gevent_replaced_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening would hang without a word: the module says what it replaced."""
    patched = types.SimpleNamespace(is_module_patched=lambda name: name == "threading")
    monkeypatch.setitem(sys.modules, "gevent.monkey", patched)
    with pytest.raises(UsageError, match=r"gevent .* monkey\.patch_all"):
        MessageStore(tmp_path / "store", KEYS)
    assert not (tmp_path / "store").exists()
    patched.is_module_patched = lambda name: False
    MessageStore(tmp_path / "store", KEYS).close()
