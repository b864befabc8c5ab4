"""A follower of ours at a listener of ours: it catches up, goes on, and refuses by name as at RocketMQ's."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from flintmq.errors import ReplicationError
from flintmq.ha.follower import Follower
from flintmq.message import Message
from flintmq.store.message_store import MessageStore
from flintmq.testing import slow_read

KEYS: dict[str, Any] = {"mappedFileSizeCommitLog": 4096, "mappedFileSizeConsumeQueue": 200}


def master(root: Path) -> MessageStore:
    return MessageStore(root, config=KEYS, ha_listen=("127.0.0.1", 0))


def put(store: MessageStore, count: int, body: bytes = b"x" * 100) -> int:
    for _ in range(count):
        result = store.put(Message("T", body))
    return int(result.physical_offset + result.size)


def follow(root: Path, store: MessageStore) -> int:
    """Follow until caught up; return the end."""
    assert store.ha is not None
    host, port = store.ha.address
    with Follower(root, f"{host}:{port}", config=KEYS, ack=True) as follower:
        assert follower.wait_caught_up(timeout=20)
        return int(follower.end)


def refusal(root: Path, store: MessageStore) -> str:
    with pytest.raises(ReplicationError) as caught:
        follow(root, store)
    return caught.value.reason


def test_between_our_own(tmp_path: Path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    with master(theirs) as store:
        end = put(store, 60)
        assert follow(ours, store) == end
    shutil.copytree(theirs, tmp_path / "old")
    with master(theirs) as store:
        end = put(store, 40)
        assert follow(ours, store) == end
    assert slow_read.log_bytes(ours)[0][:end] == slow_read.log_bytes(theirs)[0][:end]
    with master(tmp_path / "old") as store:
        assert refusal(ours, store) == "behind"
        put(store, 120)
        assert refusal(ours, store) == "diverged"
        with store._parts.log.lock:
            while store._parts.files.files[0].start <= end:
                os.unlink(store._parts.files.drop_first().path)
        assert refusal(ours, store) == "gone"
        new = tmp_path / "new"
        assert follow(new, store) == store._parts.log.end
        assert min(os.listdir(new / "commitlog")) == f"{store._parts.files.min_offset:020d}"
