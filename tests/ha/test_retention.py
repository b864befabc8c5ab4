"""A follower with rules of its own: it deletes its old files while it follows, and goes on from what is left."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import flintmq.ha
from flintmq import Message, MessageStore
from tests.ha.lines import within

KEYS: dict[str, Any] = {"mappedFileSizeCommitLog": 1 << 16, "mappedFileSizeConsumeQueue": 2000}
LONG_AGO = 1_000_000_000


def put(store: MessageStore, numbers: range) -> None:
    for number in numbers:
        store.put(Message("T", b"%04d" % number * 25, keys=f"k{number}"))


def bodies(follower: flintmq.ha.Follower) -> list[int]:
    return [int(message.body[:4]) for message in follower.view().messages()]


def expire(follower: flintmq.ha.Follower, count: int) -> None:
    """Make the first files old, and have the rules applied."""
    follower.store.raw.flush()  # what is not on disk stays
    follower.store._parts.checkpointer.write()
    folder = Path(follower.path) / "commitlog"
    for name in sorted(path for path in folder.iterdir() if path.name.isdigit())[:count]:
        os.utime(name, (LONG_AGO, LONG_AGO))
    follower.store._parts.retention.clean_once()


def test_old_files_go_from_the_copy_alone_while_it_follows(tmp_path: Path) -> None:
    keep = KEYS | {"fileReservedTime": 72, "deleteWhen": ";".join(f"{hour:02d}" for hour in range(24))}
    with MessageStore(tmp_path / "master", KEYS, ha_listen=("127.0.0.1", 0)) as master:
        assert master.ha is not None
        address = "{}:{}".format(*master.ha.address)
        put(master, range(1000))
        with flintmq.ha.Follower(tmp_path / "copy", address, config=keep) as follower:
            assert follower.wait_caught_up(20) and follower.store.wait_dispatched(20)
            expire(follower, 2)
            assert follower.store.raw.begin == 2 * KEYS["mappedFileSizeCommitLog"]
            put(master, range(1000, 1500))
            assert within(lambda: follower.whole == master._parts.log.end)
            left = bodies(follower)
        assert left == list(range(left[0], 1500)) and 0 < left[0] < 1000
        put(master, range(1500, 1600))
        with flintmq.ha.Follower(tmp_path / "copy", address, config=keep) as follower:
            assert within(lambda: follower.whole == master._parts.log.end) and follower.store.wait_dispatched(20)
            assert bodies(follower) == list(range(left[0], 1600))
            assert not follower.store.query("T", "k3") and follower.store.query("T", "k1599")
        assert [int(message.body[:4]) for message in master.view().messages()] == list(range(1600))
