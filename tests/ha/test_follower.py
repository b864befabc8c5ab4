"""A follower as its user has it: in a thread, run by a command, into a new directory."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import flintmq
from flintmq.errors import (
    CorruptStoreError,
    DivergedError,
    ReplicationError,
    UsageError,
)
from flintmq.ha import Follower
from tests.compat.replication import GoldenMaster
from tests.ha.loopback import LoopbackMaster
from tests.ha.simulated import HEADER, SimulatedMaster, driven, followed, log_of, record_end
from tests.support.crashed import flip

# -- in a thread -----------------------------------------------------------------------------------------------------


def test_a_thread_follows_and_is_waited_for(tmp_path: Path, master: GoldenMaster):
    with LoopbackMaster(master.log, master.file_size) as line:
        line.end = record_end(master, 20)
        with Follower(tmp_path / "s", line.address, config=master.config, ack=True) as follower:
            assert follower.wait_caught_up(30) and follower.whole == line.end and follower.state == "following"
            line.end = len(master.log)
            limit = time.monotonic() + 30
            while follower.whole < line.end and time.monotonic() < limit:
                time.sleep(0.01)
            assert follower.wait_caught_up(30) and follower.lag_ms == 0
            with follower.view() as view:
                assert len(list(view.messages())) == len(master.records)
            assert follower.store.wait_dispatched(30)
            row = master.rows[0]
            got = follower.store.get(row["topic"], row["queue_id"], row["queue_offset"])
            assert got.messages[0].physical_offset == row["physical_offset"]
            put = follower.store.put(flintmq.Message("T", b"mine"))
            assert put.status.name == "SERVICE_NOT_AVAILABLE"
        assert follower.state == "closed" and follower.stats().whole == line.end
        with pytest.raises(UsageError, match="closed"):
            follower.view()


def test_who_waits_gets_what_ended_the_follower(tmp_path: Path, master: GoldenMaster):
    with LoopbackMaster(master.log, master.file_size) as line:
        with Follower(tmp_path / "s", line.address, config=master.config) as follower:
            assert follower.wait_caught_up(30)
        line.end = record_end(master, 100)
        with Follower(tmp_path / "s", line.address, config=master.config) as follower:
            with pytest.raises(DivergedError):
                follower.wait_caught_up(30)
            assert follower.state == "refused" and follower.stats().refusals == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [({"begin": "middle"}, "neither first"), ({"flush": "LATER"}, "SYNC or ASYNC"), ({"begin": "1"}, "neither first")],
)
def test_arguments_that_cannot_be_used(tmp_path: Path, words: dict[str, Any], message: str):
    with pytest.raises(UsageError, match=message):
        Follower(tmp_path, "h:1", **words)


@pytest.mark.parametrize("address", ["", "h:", "h:99999", "h:0", "h:1:2", "a b:1"])
def test_an_address_that_is_none(tmp_path: Path, address: str):
    with pytest.raises(UsageError, match="HOST:PORT"):
        Follower(tmp_path, address)


def test_an_error_of_the_store_is_named_store(tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster):
    """Not by the words of an error that has a reason of its own, for people."""
    followed(tmp_path / "s", master, sim, 10)
    keys = master.config
    flip(tmp_path / "s", 100)
    with pytest.raises(CorruptStoreError), driven(tmp_path / "s", sim, keys):
        pass
    events: list[dict[str, Any]] = []
    with pytest.raises(CorruptStoreError):
        Follower(tmp_path / "s", "127.0.0.1:1", config=keys, on_event=events.append).run()
    assert [(event["event"], event["reason"]) for event in events] == [("refused", "store")]


# -- a new directory before the first answer -------------------------------------------------------------------------


def frame_elsewhere(number: int, head: bytes, body: bytes) -> bytes:
    """A frame of another log offset."""
    return HEADER.pack(HEADER.unpack(head)[0] + 7, len(body)) + body


def not_made(root: Path, sim: SimulatedMaster, **more: Any) -> list[str]:
    """Run a follower into a new directory that shall end with an error; the names of its events."""
    events: list[dict[str, Any]] = []
    one = Follower(root, "sim:1", effects=sim.time, dial=sim.dial, on_event=events.append, **more)
    with pytest.raises((UsageError, ReplicationError)):
        one.run()
    assert one.steps.wait_s() > 0 and one.stats().end == 0
    with pytest.raises(UsageError, match="has not answered yet"):
        one.view()
    return [event["event"] for event in events]


def test_who_does_not_answer_leaves_no_directory(tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster):
    keys = {"config": master.config, "once": True}
    sim.up = False
    assert not_made(tmp_path / "a" / "s", sim, **keys) == ["lost"]
    sim.up, sim.beat, sim.delay = True, None, lambda session: 100.0
    assert not_made(tmp_path / "a" / "s", sim, **keys) == ["lost", "refused"]
    sim.beat, sim.delay, sim.spoil = 5.0, lambda session: 0.0, frame_elsewhere
    assert not_made(tmp_path / "a" / "s", sim, **keys) == ["refused"]
    sim.spoil = None
    assert not_made(tmp_path / "a" / "s", sim, begin=master.file_size // 2, **keys) == ["refused"]
    assert not_made(tmp_path / "a" / "s", sim, begin=master.file_size * 99, **keys) == ["refused"]
    assert not (tmp_path / "a").exists()


def test_files_that_were_there_before_stay_as_they_were(tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster):
    sim.up = False
    (tmp_path / "s" / "config").mkdir(parents=True)
    (tmp_path / "s" / "config" / "topics.json").write_bytes(b"{}")
    not_made(tmp_path / "s", sim, config=master.config, once=True)
    assert sorted(path.name for path in (tmp_path / "s").rglob("*")) == ["config", "topics.json"]
    assert (tmp_path / "s" / "config" / "topics.json").read_bytes() == b"{}"


def test_the_first_answer_makes_the_store(tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster):
    """Also that of a master without a record."""
    for end in (0, len(master.log)):
        sim.end, events = end, list[dict[str, Any]]()
        root = tmp_path / str(end)
        Follower(
            root, "sim:1", config=master.config, once=True, effects=sim.time, dial=sim.dial, on_event=events.append
        ).run()
        assert [event["event"] for event in events] == ["opened", "connected", "resumed", "caught_up", "closed"]
        assert log_of(root)[1] == master.log[:end].rstrip(b"\0")


def test_a_directory_that_can_hold_no_store_is_refused_before_anybody_is_asked(
    tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster
):
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "dledger" / "dledger-n0").mkdir(parents=True)
    for name in ("file", "dledger"):
        with pytest.raises(flintmq.errors.FlintError):
            Follower(tmp_path / name, "sim:1", config=master.config, effects=sim.time, dial=sim.dial).run()
    assert sim.sessions == 0


@pytest.mark.parametrize("as_master", [False, True])
def test_a_store_that_another_makes_meanwhile_is_compared_or_refused(
    tmp_path: Path, master: GoldenMaster, sim: SimulatedMaster, as_master: bool
):
    def dial(address: tuple[str, int], seconds: float) -> Any:
        if not (tmp_path / "s").exists():
            if as_master:
                with flintmq.MessageStore(tmp_path / "s", config=master.config) as store:
                    store.put(flintmq.Message("T", b"ours"))
            else:
                other = SimulatedMaster(master.log, master.file_size, sim.time)
                followed(tmp_path / "s", master, other, 40)
        return sim.dial(address, seconds)

    one = Follower(tmp_path / "s", "sim:1", config=master.config, once=True, effects=sim.time, dial=dial)
    if as_master:
        with pytest.raises(UsageError, match="--adopt"):
            one.run()
        return
    one.run()
    assert log_of(tmp_path / "s")[1] == master.log.rstrip(b"\0") and sim.asked == [1, master.records[39][0]]
