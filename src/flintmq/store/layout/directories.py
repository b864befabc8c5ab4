"""Finds a store's directories, and refuses other kinds of stores."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from flintmq.config.keys import StoreConfig
from flintmq.errors import NotAStoreError, UnsupportedFormatError, UsageError
from flintmq.storage.files.filesystem import REAL, Effects
from flintmq.storage.files.store_url import is_remote, store_path

LOG = "commitlog"
QUEUES = "consumequeue"
EXT_QUEUES = "consumequeue_ext"
BATCH_QUEUES = "batchconsumequeue"
INDEX = "index"
TIMER_LOG = "timerlog"
CONFIG = "config"
COPYING = "flintmq.copying"
COPIED = "flintmq.copied"
"""Objects in the root of a copy on object storage: it is not whole while the first is there without the second."""

_OF_A_STORE = (LOG, QUEUES, EXT_QUEUES, BATCH_QUEUES, INDEX, CONFIG, "quarantine")
OFFSET_NAME = re.compile(r"[0-9]{20}", re.ASCII)  # name of a file in a queue of files: offset of its first byte
_ROCKSDB = re.compile(r"CURRENT|MANIFEST-.*|OPTIONS-.*|.*\.sst", re.ASCII)
_TABLES = re.compile(r".*\.sst", re.ASCII)
_QUEUES_IN_ROCKSDB = "consume queues in RocksDB"
_IN_ROCKSDB = (  # directory, its content, names of files that prove it; as brokers of 5.4.0 and 5.5.0 made them
    (QUEUES, _QUEUES_IN_ROCKSDB, _ROCKSDB),
    ("consumequeue_rocksdb", _QUEUES_IN_ROCKSDB, _ROCKSDB),
    ("rocksdbstore", "index, timers or transactions in RocksDB", _TABLES),
    (f"{CONFIG}/topics", "topics in RocksDB", _ROCKSDB),
    (f"{CONFIG}/subscriptionGroups", "groups in RocksDB", _ROCKSDB),
    (f"{CONFIG}/consumerOffsets", "committed offsets in RocksDB", _ROCKSDB),
    (f"{CONFIG}/rdb", "topics, groups and committed offsets in RocksDB", _ROCKSDB),
)
OFFSETS_IN_ROCKSDB = (f"{CONFIG}/consumerOffsets", f"{CONFIG}/rdb")
"""Those of them that hold committed offsets."""


class LogDirectory(NamedTuple):
    path: str
    writable: bool


def outside_of_stores(root: str, effects: Effects = REAL) -> str:
    """Refuse to make a store among the files of another one; its broker would start no more.

    One that is there is opened: storePathCommitLog may lie beside a root that is called `index`.
    """
    above, name = os.path.split(os.path.realpath(root))
    while name:
        inside = name in _OF_A_STORE and effects.is_dir(os.path.join(above, LOG))
        if inside and effects.size(os.path.join(root, "checkpoint")) is None:
            raise UsageError(f"{root} is inside the store {above}; give a directory of its own")
        above, name = os.path.split(above)
    return root


def find_root(path: str | os.PathLike[str], config: StoreConfig, effects: Effects = REAL) -> str:
    """Return the store's root as text, after checking that FlintMQ can read the store."""
    root = store_path(path)
    root = root if is_remote(root) else os.path.normpath(root)
    if not effects.is_dir(root):
        raise NotAStoreError(f"{root}: {_no_directory(root, effects)}; give the directory that holds commitlog/")
    names = effects.listdir(root)
    _refuse_dledger(root, names)
    if COPYING in names and COPIED not in names:
        raise NotAStoreError(
            f"{root}: a copy that is not finished ({COPYING} tells whose); wait for it, or remove what is there "
            "and copy again"
        )
    if not effects.is_dir(os.path.join(root, LOG)) and not config.store_path_commit_log.strip():
        raise NotAStoreError(f"{root}: {_why_no_store(names)}")
    return root


def _no_directory(root: str, effects: Effects) -> str:
    if effects.size(root) is not None:
        return "is a file"
    if not effects.remote and os.path.lexists(root):
        return "is no directory" if os.path.exists(root) else f"is a link to {os.readlink(root)}, which does not exist"
    return "does not exist"


def _refuse_dledger(root: str, names: list[str]) -> None:
    found = [name for name in names if name.startswith("dledger-")]
    if found or os.path.basename(root).startswith("dledger-"):
        where = os.path.join(root, found[0]) if found else root
        raise UnsupportedFormatError(
            f"{where}: a DLedger log, whose entries FlintMQ does not read; open the store of a broker without DLedger"
        )


def in_rocksdb(root: str, effects: Effects = REAL) -> dict[str, str]:
    """Return directories that a store keeps in RocksDB, with their content.

    FlintMQ does not read them. RocketMQ 5.4.0 and 5.5.0 always make `rocksdbstore/`; it counts once it holds data.
    """
    return {
        folder: what
        for folder, what, marks in _IN_ROCKSDB
        if any(
            marks.fullmatch(name) and not effects.is_dir(os.path.join(root, folder, name))  # a topic may be named so
            for name in effects.listdir(os.path.join(root, folder))
        )
    }


def refuse_other_kinds(root: str, effects: Effects = REAL) -> None:
    """Refuse a directory that holds a store of a kind which FlintMQ does not write."""
    _refuse_dledger(root, effects.listdir(root))
    refuse_rocksdb_queues(root, effects)


def refuse_rocksdb_queues(root: str, effects: Effects = REAL) -> None:
    """Raise UnsupportedFormatError if a store to be written keeps its queues in RocksDB."""
    for folder, what in in_rocksdb(root, effects).items():
        if what == _QUEUES_IN_ROCKSDB:
            raise UnsupportedFormatError(
                f"{os.path.join(root, folder)}: {what}, which FlintMQ does not write; link {LOG}/ into an empty "
                "directory and open that: the queues then come from the log"
            )


def _why_no_store(names: list[str]) -> str:
    if any(OFFSET_NAME.fullmatch(name) for name in names):
        return "holds log files itself; give the directory above it, or set storePathCommitLog"
    return "holds no commitlog/; give a store's root, or set storePathCommitLog if its log is elsewhere"


def log_directories(
    root: str, config: StoreConfig, effects: Effects = REAL, *, absent: bool = False
) -> list[LogDirectory]:
    """List the directories that hold files of the commit log, the writable ones first.

    As in RocketMQ, `storePathCommitLog` and `readOnlyCommitLogStorePaths` are split at commas and only the whole text
    is trimmed.

    `absent`: a writable one need not exist.
    """
    named = [
        LogDirectory(path, writable)
        for text, writable in (
            (config.store_path_commit_log, True),
            (config.read_only_commit_log_store_paths, False),
        )
        for path in text.strip().split(",")
        if path
    ]
    for directory in named:
        if not (absent and directory.writable) and not effects.is_dir(directory.path):
            key = "storePathCommitLog" if directory.writable else "readOnlyCommitLogStorePaths"
            raise NotAStoreError(
                f"{directory.path}: {key} names it, but there is no such directory; mount its disk, or correct the key"
            )
    if not any(directory.writable for directory in named):
        named.insert(0, LogDirectory(os.path.join(root, LOG), True))
    read_only = {os.path.normpath(directory.path) for directory in named if not directory.writable}
    unique = {os.path.normpath(d.path): LogDirectory(d.path, os.path.normpath(d.path) not in read_only) for d in named}
    return sorted(unique.values(), key=lambda directory: not directory.writable)
