"""Finds a store's directories, refuses other kinds of stores, and determines file sizes.

Nothing on disk records how a file is divided: sizes come from the files on disk, from a given key, or else from
RocketMQ's defaults. For an index file even its size does not determine the number of slots; that number is guessed and
verified on the file's items (docs/internals/format/index.md).
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

from flintmq.config.keys import StoreConfig
from flintmq.errors import ConfigError, NotAStoreError, UnsupportedFormatError
from flintmq.format import index
from flintmq.format.layout import Layout
from flintmq.storage.filesystem import REAL, Effects
from flintmq.storage.store_url import is_remote, store_path

LOG = "commitlog"
QUEUES = "consumequeue"
EXT_QUEUES = "consumequeue_ext"
BATCH_QUEUES = "batchconsumequeue"
INDEX = "index"
CONFIG = "config"

LARGEST_FILE = (1 << 31) - 1  # bytes; RocketMQ counts what it maps in 32 bits
OFFSET_NAME = re.compile(r"[0-9]{20}", re.ASCII)  # name of a file in a queue of files: offset of its first byte
T = TypeVar("T", bound=tuple[Any, ...])
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


class LogDirectory(NamedTuple):
    """One directory with commit log files."""

    path: str
    writable: bool


def open_root(path: str | os.PathLike[str], config: StoreConfig, effects: Effects = REAL) -> str:
    """Return the store's root as text, after checking that FlintMQ can read the store.

    Args:
        path: a directory; a URL if `effects` comes from storage.store_url.effects_for.
        config: the keys that are known.
        effects: the disk.

    Raises:
        UsageError: a URL of a kind that is not read.
        NotAStoreError: nothing is there, or no commit log.
        UnsupportedFormatError: a DLedger log.
        StoreAccessError: a directory may not be read.
    """
    root = store_path(path)
    root = root if is_remote(root) else os.path.normpath(root)
    if not effects.is_dir(root):
        what = "is a file" if effects.size(root) is not None else "does not exist"
        raise NotAStoreError(f"{root}: {what}; give the directory that holds commitlog/")
    names = effects.listdir(root)
    _refuse_dledger(root, names)
    if not effects.is_dir(os.path.join(root, LOG)) and not config.store_path_commit_log.strip():
        raise NotAStoreError(f"{root}: {_why_no_store(names)}")
    return root


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

    Raises:
        StoreAccessError: a directory may not be listed.
    """
    return {
        folder: what
        for folder, what, marks in _IN_ROCKSDB
        if any(
            marks.fullmatch(name) and not effects.is_dir(os.path.join(root, folder, name))  # a topic may be named so
            for name in effects.listdir(os.path.join(root, folder))
        )
    }


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


def log_directories(root: str, config: StoreConfig, effects: Effects = REAL) -> list[LogDirectory]:
    """List the directories that hold files of the commit log, the writable ones first.

    As in RocketMQ, `storePathCommitLog` and `readOnlyCommitLogStorePaths` are split at commas and only the whole text
    is trimmed.

    Raises:
        NotAStoreError: a directory that a key names does not exist.
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
        if not effects.is_dir(directory.path):
            key = "storePathCommitLog" if directory.writable else "readOnlyCommitLogStorePaths"
            raise NotAStoreError(f"{directory.path}: {key} names it, but there is no such directory; correct the key")
    if not any(directory.writable for directory in named):
        named.insert(0, LogDirectory(os.path.join(root, LOG), True))
    read_only = {os.path.normpath(directory.path) for directory in named if not directory.writable}
    unique = {os.path.normpath(d.path): LogDirectory(d.path, os.path.normpath(d.path) not in read_only) for d in named}
    return sorted(unique.values(), key=lambda directory: not directory.writable)


def common_size(sizes: Iterable[int], default: int) -> int:
    """Return the most frequent size, the larger of two equally frequent ones, or `default`.

    Sizes that RocketMQ's files cannot have, zero and more than 2 GiB, do not count.
    """
    counts = Counter(size for size in sizes if 0 < size <= LARGEST_FILE)
    return max(counts, key=lambda size: (counts[size], size)) if counts else default


class IndexGeometry(NamedTuple):
    """Division of an index file into slots and items."""

    slots: int
    items: int  # room for items; number 0 is never used

    @property
    def file_size(self) -> int:
        """Size of the whole file in bytes."""
        return index.file_size(self.slots, self.items)


def index_header(path: str, effects: Effects = REAL) -> index.Header | None:
    """Read the header of an index file without its geometry; None if the file is too short."""
    data = effects.read_file(path, index.HEADER.size)
    return index.HEADER.unpack(data) if data is not None and len(data) == index.HEADER.size else None


def index_geometry(
    path: str, size: int, config: StoreConfig, fd: int | None = None, effects: Effects = REAL
) -> IndexGeometry:
    """Determine slots and items of the index file at `path`, which has `size` bytes.

    Given keys decide. Otherwise, if the size is the default's, so is the division; else RocketMQ's usual four items a
    slot are assumed, if the file's own items confirm it.

    Args:
        path: named in errors.
        size: bytes of the file.
        config: the keys that are known.
        fd: the open file, to verify a guess.
        effects: the disk.

    Raises:
        ConfigError: the given keys do not fit the file, its division is not known, or it is no index file.
    """
    if size > LARGEST_FILE:
        raise ConfigError(f"{path}: {size} bytes, more than RocketMQ's files have; move it out of the store")
    room = size - index.HEADER.size
    by_slots, by_items = "maxHashSlotNum" in config.given, "maxIndexNum" in config.given
    if by_slots or by_items:
        slots = config.max_hash_slot_num if by_slots else (room - index.ITEM.size * config.max_index_num) // 4
        fits = (room - index.SLOT.size * slots) // index.ITEM.size
        items = min(config.max_index_num, fits) if by_items else fits
        if slots < 1 or items < 1:
            given = [f"{key}={config.key(key)}" for key in ("maxHashSlotNum", "maxIndexNum") if key in config.given]
            raise ConfigError(f"{path}: {size} bytes are too few for {' and '.join(given)}; correct these keys")
        return IndexGeometry(slots, items)
    if size == config.index_file_size:
        return IndexGeometry(config.max_hash_slot_num, config.max_index_num)
    slots = room // (index.SLOT.size + 4 * index.ITEM.size)
    guess = IndexGeometry(slots, 4 * slots)
    if slots < 1 or guess.file_size != size or (fd is not None and not _proves(fd, guess, effects)):
        raise ConfigError(
            f"{path}: its size ({size}) does not determine its division; give maxHashSlotNum and maxIndexNum"
        )
    return guess


def _proves(fd: int, guess: IndexGeometry, effects: Effects) -> bool:
    """Return whether the newest items, read where the guess puts them, match their slots."""
    newest = _unpack(index.HEADER, fd, 0, effects).next_item - 1
    if newest >= guess.items:
        return False
    for number in range(newest, max(newest - 16, 0), -1):
        item = _unpack(index.ITEM, fd, index.item_position(number, guess.slots), effects)
        if item.key_hash < 0 or not 0 <= item.previous < number:
            return False
        slot = _unpack(index.SLOT, fd, index.slot_position(item.key_hash % guess.slots), effects)
        if not number <= slot.item <= newest:
            return False
    return True


def _unpack(layout: Layout[T], fd: int, position: int, effects: Effects) -> T:
    """Read a value of the index; bytes beyond the end of the file read as zeros."""
    return layout.unpack(effects.pread(fd, layout.size, position).ljust(layout.size, b"\0"))
