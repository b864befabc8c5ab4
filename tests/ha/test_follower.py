"""A follower as its user has it: in a thread, run by a command, into a new directory."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import flintmq
import flintmq.ha
from flintmq import Message, MessageStore
from flintmq.config.keys import StoreConfig
from flintmq.errors import (
    CorruptStoreError,
    DivergedError,
    ReplicationError,
    UsageError,
)
from flintmq.forensics.topic_tail import TopicTail
from flintmq.ha import Follower
from flintmq.store.commitlog.log_end import find_end
from flintmq.store.commitlog.snapshot import Snapshot
from tests.compat.replication import GoldenMaster
from tests.ha.loopback import LoopbackMaster
from tests.ha.simulated import HEADER, SimulatedMaster, SimulatedTime, driven, followed, log_of, record_end
from tests.support.crashed import flip
from tests.support.threads import within

# -- in a thread -----------------------------------------------------------------------------------------------------


def test_a_thread_follows_and_is_waited_for(tmp_path: Path, master: GoldenMaster):
    with LoopbackMaster(master.log, master.file_size) as line:
        line.end = record_end(master, 20)
        with Follower(tmp_path / "s", line.address, config=master.config, ack=True) as follower:
            assert follower.wait_caught_up(30) and follower.whole == line.end and follower.state == "following"
            line.end = len(master.log)
            assert within(lambda: follower.whole >= line.end)
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


def frame_elsewhere(number: int, head: bytes, body: bytes) -> bytes:
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


# -- Readers of a copy while it is followed, as other processes have them: whole records, each once --------------------
#
# The master's frames end anywhere. The readers open the copy by its path, and are told nothing by the follower.

FIRST, LAST = 4, 5
"""Numbers of the records that come byte by byte."""


class ByteByByte(threading.Event):
    """A `stop` whose waits let another byte come, and end after the last one."""

    def __init__(self, more: Callable[[], bool]) -> None:
        super().__init__()
        self.more = more

    def wait(self, timeout: float | None = None) -> bool:
        return not self.more()


def shown(message: Any) -> tuple[Any, ...]:
    return message.physical_offset, message.topic, message.properties, message.body


def test_a_line_that_ends_at_every_byte_while_others_read(tmp_path: Path, master: GoldenMaster):
    sim = SimulatedMaster(master.log, master.file_size, SimulatedTime())
    with flintmq.open_store(master.path) as view:
        whole = [shown(message) for message in view.messages()][: LAST + 1]
    config = StoreConfig.from_keys(master.config)
    ends = [at + size for at, size in master.records[: LAST + 1]]
    sim.end = ends[FIRST - 1]
    got = []
    with driven(tmp_path / "s", sim, master.config) as one:

        def more() -> bool:
            """One byte more, and what fresh readers say of it."""
            one.until(lambda: one.follower.end == sim.end)
            count = sum(end <= sim.end for end in ends)
            snapshot = Snapshot.open(tmp_path / "s", config)
            assert snapshot.facts.live
            assert (
                snapshot.end == find_end(snapshot.log, snapshot.facts).offset == ends[count - 1] == one.follower.whole
            )
            with flintmq.open_store(tmp_path / "s", config=config) as view:
                assert [shown(message) for message in view.messages()] == whole[:count]
                last = whole[count - 1]
                key = last[2].get("UNIQ_KEY")
                assert key is None or [shown(message) for message in view.query(last[1], key)] == [last]
            assert len(got) == count
            sim.end += 1
            one.until(lambda: one.follower.end == sim.end)
            return sim.end <= ends[-1]

        one.catch_up(sim.end)
        with flintmq.open_store(tmp_path / "s", config=config) as view:
            for message in view.follow(0, 0, ByteByByte(more)):
                got.append(shown(message))
    assert got == whole


@pytest.mark.parametrize("come", [0, 0.5, 0.99])
def test_a_tail_that_begins_amid_a_record_takes_it_up_when_it_is_whole(
    tmp_path: Path, master: GoldenMaster, come: float
):
    sim = SimulatedMaster(master.log, master.file_size, SimulatedTime())
    config = StoreConfig.from_keys(master.config)
    at, size = master.records[LAST]
    sim.end = at
    with driven(tmp_path / "s", sim, master.config) as one:

        def more() -> bool:
            sim.end += 1
            one.until(lambda: one.follower.end == sim.end)
            return sim.end < at + size + 2

        one.catch_up(at)
        sim.end = at + int(come * size)
        one.until(lambda: one.follower.end == sim.end)
        with flintmq.open_store(tmp_path / "s", config=config) as view:
            tail = TopicTail(view, master.rows[LAST]["topic"], expected=True)
            assert all(message.physical_offset < at for message in tail.last(100))
            coming = list(tail.coming(ByteByByte(more)))
    assert [(message.physical_offset, message.properties) for message in coming] == [
        (at, master.rows[LAST]["properties"])
    ]


# -- A follower with rules of its own: it deletes its old files while it follows, and goes on from what is left --------

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


@pytest.mark.parametrize("name", ["ack", "adopt", "resync", "confirmed", "once", "services"])
def test_a_switch_is_true_or_false(tmp_path: Path, name: str):
    """The text "no" would be a yes: a copy would be made anew."""
    words: dict[str, Any] = {name: "no"}
    with pytest.raises(TypeError, match=f"^{name} is of type str; give True or False"):
        Follower(tmp_path / "copy", "127.0.0.1:1", **words)
    assert not (tmp_path / "copy").exists()
