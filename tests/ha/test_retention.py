"""A follower with rules of its own: it deletes its old files while it follows, and goes on from what is left."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import flintmq.ha
from flintmq import Message, MessageStore
from tests.compat.replication import GoldenMaster
from tests.ha.lines import within
from tests.ha.simulated import SimulatedMaster, SimulatedTime, driven

KEYS: dict[str, Any] = {"mappedFileSizeCommitLog": 1 << 16, "mappedFileSizeConsumeQueue": 2000}
RULES: dict[str, Any] = {"fileReservedTime": 72, "deleteWhen": ";".join(f"{hour:02d}" for hour in range(24))}
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
    keep = KEYS | RULES
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


@pytest.mark.parametrize("piece", [1 << 20, 40])
def test_files_that_go_while_the_last_record_is_compared(tmp_path: Path, master: GoldenMaster, piece: int) -> None:
    """The log ends with a file, so its last record is in one that may go: it is followed on from there."""
    sim = SimulatedMaster(master.log, master.file_size, SimulatedTime())
    whole, sim.end = sim.end, master.file_size + 60
    with driven(tmp_path / "copy", sim, master.config, ack=True) as one:
        one.until(lambda: one.follower.end == sim.end)
        last = one.follower.store.raw.last_record
        assert one.follower.whole == master.file_size and last is not None and last < master.file_size
    sim.end, sim.piece = master.file_size + 60, piece
    with driven(tmp_path / "copy", sim, master.config | RULES, ack=True) as one:
        if begun := piece < 1000:
            one.follower.steps.connect_once()
            one.follower.steps.receive_once()  # a part of the record
            assert one.follower.state == "comparing"
        expire(one.follower, 1)
        assert one.follower.store.raw.begin == master.file_size and one.follower.store.raw.last_record is None
        sim.end = whole
        one.catch_up(whole)
        assert one.names().count("lost") == int(begun) and one.follower.error is None
        log = b"".join(path.read_bytes() for path in sorted((tmp_path / "copy" / "commitlog").iterdir()))
    assert log.rstrip(b"\0") == master.log[master.file_size :].rstrip(b"\0")
    assert sim.asked == [1, *[last] * begun, master.file_size]
