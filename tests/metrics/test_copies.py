"""The metrics of a copy that a follower keeps, seen from another process's side: by its files."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import flintmq
from flintmq.ha import Follower
from flintmq.storage.filesystem import REAL
from flintmq.store.layout import following
from flintmq.store.layout.following import FILE_NAME
from tests.support.prometheus import Samples, only, samples

KEYS = {"mappedFileSizeCommitLog": 1 << 20}
NAMES = ("connected", "lag_seconds", "behind_bytes", "last_contact_timestamp_seconds")


def figures(store: Path) -> dict[str, float]:
    """The figures of the copy, by the last part of their names."""
    found: Samples = samples(flintmq.store_metrics(store))
    shown = {name: only(found, f"flintmq_follower_{name}", "store") for name in NAMES}
    return {name: values[str(store),] for name, values in shown.items() if values}


def until(store: Path, holds: Callable[[dict[str, float]], bool]) -> dict[str, float]:
    """The figures once something holds."""
    limit = time.monotonic() + 30
    while not holds(found := figures(store)):
        assert time.monotonic() < limit, found
        time.sleep(0.1)
    return found


def test_a_copy_that_is_followed_lost_and_stopped(tmp_path: Path) -> None:
    begin, copy = time.time(), tmp_path / "copy"
    with flintmq.MessageStore(tmp_path / "m", KEYS, ha_listen=("127.0.0.1", 0)) as master:
        assert master.ha is not None
        master.put(flintmq.Message("T", b"one"))
        with Follower(copy, "{}:{}".format(*master.ha.address), config=KEYS) as follower:
            assert follower.wait_caught_up(30)
            now = until(copy, lambda found: found.get("connected") == 1 and found["lag_seconds"] == 0)
            assert now["behind_bytes"] == 0 and begin - 1 <= now["last_contact_timestamp_seconds"] <= time.time()
            master.close()
            lost = until(copy, lambda found: found["connected"] == 0)
            assert 0 < lost["lag_seconds"] <= time.time() - begin and "behind_bytes" not in lost
    ended = figures(copy)
    assert ended["connected"] == 0 and ended["lag_seconds"] >= lost["lag_seconds"]
    assert not figures(tmp_path / "m")
    with flintmq.MessageStore(copy, KEYS):
        pass
    assert not figures(copy), "it is a master now"


def test_a_note_that_is_old_is_not_believed_and_the_brokers_end_counts(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    with flintmq.MessageStore(tmp_path / "m", KEYS, ha_listen=("127.0.0.1", 0)) as master:
        assert master.ha is not None
        master.put(flintmq.Message("T", b"one"))
        Follower(copy, "{}:{}".format(*master.ha.address), config=KEYS, once=True).run()
    note = following.read(str(copy), REAL)
    assert note is not None
    with flintmq.MessageStore(copy, {**KEYS, "brokerRole": "SLAVE"}) as store:
        now = time.time_ns() // 1_000_000
        following.write(str(copy), note._replace(at_ms=now, connected=True, caught_up=True), REAL)
        assert figures(copy)["connected"] == 1 and figures(copy)["lag_seconds"] == 0
        following.write(str(copy), note._replace(at_ms=now - 60_000, connected=True, caught_up=True), REAL)
        assert figures(copy)["connected"] == 0 and figures(copy)["lag_seconds"] > 0
        ahead = note._replace(at_ms=now, connected=True, master_end=store.raw.end + 123)
        following.write(str(copy), ahead, REAL)
        assert figures(copy)["behind_bytes"] == 123
    assert figures(copy)["connected"] == 0, "nobody has it open"
    (copy / FILE_NAME).write_bytes(b"{")
    assert figures(copy) == {"connected": 0}
    state = json.loads((copy / "flintmq.follow").read_text())
    (copy / "flintmq.follow").write_text(json.dumps({**state, "begin": -1}))
    assert figures(copy) == {}, "verify says what is wrong with it"


def test_followers_of_a_store_from_inside(tmp_path: Path) -> None:
    with flintmq.MessageStore(tmp_path / "m", KEYS, ha_listen=("127.0.0.1", 0)) as master:
        assert master.ha is not None
        master.put(flintmq.Message("T", b"one"))
        found = samples(flintmq.engine_metrics(master.stats(), followers=master.ha.followers()))
        assert list(found["flintmq_listener_followers"].values()) == [0]
        assert "flintmq_listener_unsent_bytes" not in found
        address = "{}:{}".format(*master.ha.address)
        with (
            Follower(tmp_path / "replica", address, config=KEYS, ack=True) as replica,
            Follower(tmp_path / "tap", address, config=KEYS) as tap,
        ):
            assert replica.wait_caught_up(30) and tap.wait_caught_up(30)
            stats = master.stats()
            found = samples(flintmq.engine_metrics(stats, followers=master.ha.followers()))
            assert list(found["flintmq_listener_followers"].values()) == [2]
            assert set(only(found, "flintmq_listener_unsent_bytes", "follower").values()) == {0}
            lacks = sorted(only(found, "flintmq_listener_unacknowledged_bytes", "follower").values())
            assert lacks == [0, stats.log_end - 1], "a tap repeats its first report"
        assert "flintmq_listener_followers" not in flintmq.engine_metrics(master.stats())
