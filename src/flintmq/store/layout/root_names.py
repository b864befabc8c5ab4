"""Knows the names in a store's root, and so what is there of somebody else."""

from __future__ import annotations

import re
from typing import Final

from flintmq.storage.filesystem import REAL, Effects
from flintmq.storage.store_url import FOLDERS
from flintmq.store.layout import directories

# Names that RocketMQ 5.3.3 to 5.5.0 and FlintMQ create in a store's root; the others are in NOT_CHECKED.
ROOT_NAMES: Final = frozenset(
    [
        *FOLDERS,
        "abort",
        "abort.bak",
        "checkpoint",
        "lock",
        "timerwheel",
        "epochFileCheckpoint",
        "epochFileCheckpoint.bak",
        "brokerIdentity",
        "brokerIdentity.bak",
        directories.COPIED,
        directories.COPYING,
        "flintmq.follow",
        "flintmq.following",
        "flintmq.mark",
        "flintmq.puts",
        "flintmq.queues",
        "flintmq.staged",
        "salvage.jsonl",
        "copy.jsonl",
    ]
)
NOT_CHECKED: Final = {
    "consumequeue_rocksdb": "the RocksDB store of queues (5.5.0)",
    "rocksdbstore": "the RocksDB store of 5.4.0 and later, empty of data by default",
    "kvStore": "the RocksDB store of the pop consumer service",
}
_SNAPSHOT: Final = re.compile(r"timerwheel\.[0-9]+")


def is_of_a_store(name: str) -> bool:
    """Return whether RocketMQ or FlintMQ gives this name to something in a store's root."""
    return name in ROOT_NAMES or name in NOT_CHECKED or _SNAPSHOT.fullmatch(name) is not None


def other_things(root: str, effects: Effects = REAL) -> list[str]:
    """Return the names in a directory that are of no store; none if it does not exist.

    Raises:
        StoreAccessError: it may not be listed.
    """
    return [name for name in effects.listdir(root) if not is_of_a_store(name) and name != "lost+found"]
