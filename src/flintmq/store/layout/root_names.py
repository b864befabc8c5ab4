"""Knows the names in a store's root, and so what is there of somebody else."""

from __future__ import annotations

import re
from typing import Final

from flintmq.storage.files.filesystem import REAL, Effects
from flintmq.storage.files.store_url import FOLDERS
from flintmq.store.layout import directories

TEXTS: Final = {
    "abort": "there while a store runs: process, boot of the machine, mounting; left over, the stop was not clean, or "
    "was, with queues that lag the log",
    "abort.bak": "the content of an earlier abort; nobody reads it",
    "lock": "locked by a running store; the content means nothing",
    "flintmq.follow": "of a copy that flintmq follow keeps: whose log it is, and where it begins",
    "flintmq.following": "how far the follower was at one moment, for those who watch; nothing depends on it",
    "flintmq.queues": "where each queue ended at the last clean stop: topic, queue, queue offset",
    "flintmq.deleted": "up to where in the log records of deleted topics count for nothing",
    "flintmq.puts": "how far replays and streaming queries have put",
    directories.COPIED: "of a copy on object storage: what was copied, and when it was whole",
    directories.COPYING: "of a copy on object storage: who makes it; the copy is not whole without flintmq.copied",
    "epochFileCheckpoint": "epochs of replication; FlintMQ does not read them",
    "brokerIdentity": "identity of a broker in a cluster with controllers; FlintMQ does not read it",
    "salvage.jsonl": "what salvage kept and lost: old places and new",
    "copy.jsonl": "what a copy of some messages took: old places and new",
}
"""Text in a store's root -> what it says."""
# Names that RocketMQ 5.3.3 to 5.5.0 and FlintMQ create in a store's root; the others are in NOT_CHECKED.
ROOT_NAMES: Final = frozenset([*FOLDERS, *TEXTS, "checkpoint", "timerwheel", "flintmq.mark", "flintmq.staged"]) | {
    "epochFileCheckpoint.bak",
    "brokerIdentity.bak",
}
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
    """Return the names in a directory that are of no store; none if it does not exist."""
    return [name for name in effects.listdir(root) if not is_of_a_store(name) and name != "lost+found"]
