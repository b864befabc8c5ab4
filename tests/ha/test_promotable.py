"""A copy goes on as its master would, or says why it may not: kinds of queues, and where they go on."""

import contextlib
import json
import socket
import struct
import threading
from pathlib import Path
from typing import Any

import pytest

from flintmq import Message, MessageStore
from flintmq.errors import UsageError
from flintmq.forensics.inspect import inspect
from flintmq.forensics.verify.run import verify
from flintmq.ha import broker_tables
from flintmq.ha.broker_tables import UNSETTLED
from flintmq.ha.follower import Follower
from flintmq.ha.metadata import queue_ends
from flintmq.store.layout.followed import NOT_ASKED
from tests.ha.followed_broker import BATCH, FILE_SIZE, SIMPLE, FollowedBroker, every, once, queues_of
from tests.remoting.remoting_peer import Asked, reply
from tests.support.threads import within

PLAIN_UNIT = struct.Struct(">qiq")
BATCH_UNIT = struct.Struct(">qiqqqhii")


def lacks(store: Path) -> str | None:
    """What the copy's file says that it lacks."""
    told = json.loads((store / "flintmq.follow").read_text())
    assert told["promotable"] == (told["lacks"] is None)
    return told["lacks"]  # type: ignore[no-any-return]


def next_offsets(store: Path, *topics: str) -> dict[str, int]:
    """The queue offset that a put to queue 0 of each topic gets from our engine."""
    with MessageStore(store) as engine:
        return {topic: engine.put(Message(topic, b"more", queue_id=0)).queue_offset for topic in topics}


@pytest.mark.parametrize("kind", [BATCH, SIMPLE])
def test_the_first_record_of_a_topic_waits_for_its_type(tmp_path: Path, kind: str):
    """And the log goes on meanwhile. A record of one message does not tell the type."""
    answers = threading.Event()
    with FollowedBroker() as broker:
        broker.topics["T"] = SIMPLE
        broker.put("T", 0, 1)
        with broker.follower(tmp_path / "s") as follower:
            assert within(lambda: follower.steps._tables is not None and follower.steps._tables.settled)
            broker.before = lambda asked: None if asked.code != 21 or answers.wait(15) else b""
            broker.topics["Bulk"] = kind
            broker.put("Bulk", 0, 1, 2)
            broker.put("T", 2)
            assert within(lambda: follower.whole == broker.master.end and follower.store.copied.held)
            assert queues_of(tmp_path / "s") == {"consumequeue": {"T/0"}, "batchconsumequeue": set()}
            assert follower.store.get("T", 0, 0).max_offset == 2, "what comes after it waits too"
            answers.set()
            assert follower.store.wait_dispatched(15) and not follower.store.copied.held
            assert follower.store.get("T", 0, 0).max_offset == 3
    plain = {"T/0"} | ({"Bulk/0"} if kind == SIMPLE else set())
    assert queues_of(tmp_path / "s") == {
        "consumequeue": plain,
        "batchconsumequeue": {"Bulk/0"} if kind == BATCH else set(),
    }
    assert next_offsets(tmp_path / "s", "T", "Bulk") == {"T": 3, "Bulk": 3}


def test_records_of_a_topic_that_was_deleted_meanwhile_are_held_until_that_is_known(tmp_path: Path):
    with FollowedBroker() as broker:
        with broker.follower(tmp_path / "s") as follower:
            broker.put("Gone", 0, 1)
            assert within(lambda: follower.whole == broker.master.end and follower.store.wait_dispatched(0))
    assert queues_of(tmp_path / "s")["consumequeue"] == {"Gone/0"}


def test_a_stop_while_a_record_is_held_is_mended_by_the_next_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with FollowedBroker() as broker:
        with broker.follower(tmp_path / "s") as follower:
            assert within(lambda: follower.state == "following")
            broker.before = lambda asked: b"" if asked.code == 21 else None
            broker.topics["Bulk"] = BATCH
            broker.put("Bulk", 0, 1)
            assert within(lambda: follower.whole == broker.master.end and follower.store.copied.held)
        assert (tmp_path / "s" / "abort").exists(), "not a clean stop"
        broker.before = lambda asked: None
        assert once(broker.follower(tmp_path / "s", once=True)) is None
    assert queues_of(tmp_path / "s") == {"consumequeue": set(), "batchconsumequeue": {"Bulk/0"}}
    assert next_offsets(tmp_path / "s", "Bulk") == {"Bulk": 2}


@pytest.mark.parametrize(("before", "after"), [(BATCH, SIMPLE), (SIMPLE, BATCH), (BATCH, BATCH), (SIMPLE, SIMPLE)])
def test_a_topic_that_is_deleted_and_made_again_has_the_queues_of_its_new_type(
    tmp_path: Path, before: str, after: str, monkeypatch: pytest.MonkeyPatch
):
    every(monkeypatch, 0.1)
    events: list[dict[str, Any]] = []
    with FollowedBroker() as broker:
        broker.topics = {"T": before, "Other": SIMPLE}
        broker.put("Other", 0)
        broker.put("T", 0, 1, 2, 3, 4)
        with broker.follower(tmp_path / "s", on_event=events.append) as follower:
            assert within(lambda: follower.caught_up)
            broker.put("T", 0, 1)  # of its new life, and the table comes later
            assert within(lambda: follower.whole == broker.master.end)
            broker.topics = {"T": after, "Other": SIMPLE}
            if after != before:
                assert within(lambda: any(one["event"] == "laid_out_again" for one in events))
            assert within(lambda: follower.caught_up)
    assert [one["topics"] for one in events if one["event"] == "laid_out_again"] == [["T"]] * (after != before)
    kind, unit, size = ("batchconsumequeue", BATCH_UNIT, 46) if after == BATCH else ("consumequeue", PLAIN_UNIT, 20)
    other = "consumequeue" if after == BATCH else "batchconsumequeue"
    assert "T/0" not in queues_of(tmp_path / "s")[other] and not (tmp_path / "s" / other / "T").exists()
    data = (tmp_path / "s" / kind / "T/0" / f"{0:020d}").read_bytes()
    units = [unit.unpack_from(data, at) for at in range(0, 3 * size, size)]
    life = broker.master.end - 2 * units[0][1]  # five records of the life before, and two of the new one
    assert [one[0] for one in units] == [life, life + units[0][1], 0] and units[2][1] == 0
    assert next_offsets(tmp_path / "s", "T", "Other") == {"T": 2, "Other": 1}


@pytest.mark.parametrize(
    ("kind", "end"), [(SIMPLE, 1), (SIMPLE, 7), (SIMPLE, 100), (SIMPLE, 101), (BATCH, 1), (BATCH, 7)]
)
def test_a_queue_whose_messages_have_expired_goes_on_where_the_masters_does(tmp_path: Path, kind: str, end: int):
    """A file of the queue has 100 units. RocketMQ's answer to such files: tests/interop/test_copied_ends_java.py."""
    with FollowedBroker(begin=FILE_SIZE) as broker:
        broker.topics = {"Idle": kind, "Busy": SIMPLE, "Never": SIMPLE}
        broker.ends["Idle", 0] = end
        broker.put("Busy", 7, 8)
        assert once(broker.follower(tmp_path / "s", once=True)) is None
    assert lacks(tmp_path / "s") is None
    assert verify(tmp_path / "s").defects == []
    with MessageStore(tmp_path / "s") as store:
        got = store.get("Idle", 0, end)
        assert (got.min_offset, got.max_offset) == (end, end)
        assert store.get("Idle", 0, 0).status.name == "OFFSET_TOO_SMALL"
    assert next_offsets(tmp_path / "s", "Idle", "Busy", "Never") == {"Idle": end, "Busy": 9, "Never": 0}
    assert verify(tmp_path / "s").defects == []


def test_a_message_that_comes_while_the_broker_is_asked_counts(tmp_path: Path):
    """The offset was asked for before, and the record is in the copy, which says where the queue begins."""
    with FollowedBroker(begin=FILE_SIZE) as broker:
        broker.topics, broker.ends = {"Idle": SIMPLE}, {("Idle", 0): 5}

        def come(asked: Asked) -> bytes | None:
            if asked.code != 30 or broker.master.end > FILE_SIZE:
                return None
            broker.put("Idle", 5)
            return reply(asked, fields={"offset": "5"})

        broker.before = come
        assert once(broker.follower(tmp_path / "s", once=True)) is None
    data = (tmp_path / "s/consumequeue/Idle/0" / f"{0:020d}").read_bytes()
    assert PLAIN_UNIT.unpack_from(data, 100)[0] == FILE_SIZE
    assert next_offsets(tmp_path / "s", "Idle") == {"Idle": 6}


@pytest.mark.parametrize("kind", [SIMPLE, BATCH])
def test_queues_of_a_deleted_topic_go_and_those_with_newer_records_stay(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
):
    every(monkeypatch, 0.1)
    with FollowedBroker() as broker:
        broker.topics = {"Gone": kind, "Empty": kind, "Kept": kind}
        for topic in broker.topics:
            broker.put(topic, 0, 1, 2)
        with broker.follower(tmp_path / "s") as follower:
            assert within(lambda: follower.caught_up and lacks(tmp_path / "s") is None)
            broker.ends = {("Kept", 0): 3}
            broker.topics = {"Empty": kind, "Kept": kind, "Newer": kind}  # Empty was made again
            folder = "consumequeue" if kind == SIMPLE else "batchconsumequeue"
            assert within(lambda: queues_of(tmp_path / "s")[folder] == {"Kept/0"})
            assert within(lambda: not (tmp_path / "s" / folder / "Gone").exists())
            broker.put("Empty", 0)
            assert within(lambda: queues_of(tmp_path / "s")[folder] == {"Kept/0", "Empty/0"})
    assert next_offsets(tmp_path / "s", "Kept", "Empty", "Gone") == {"Kept": 3, "Empty": 1, "Gone": 0}


def test_records_that_the_master_has_not_dispatched_yet_do_not_count_against_a_queue(tmp_path: Path):
    """Its queue then ends earlier than the copy's; nothing is removed."""
    with FollowedBroker() as broker:
        broker.topics = {"T": SIMPLE}
        broker.put("T", 0, 1, 2)
        table = {"commitLogMinOffset": "0", "commitLogMaxOffset": str(broker.master.end)}
        table["dispatchBehindBytes"] = str(broker.master.end)
        told = json.dumps({"table": table}).encode()
        broker.before = lambda asked: reply(asked, told) if asked.code == 28 else None
        assert once(broker.follower(tmp_path / "s", once=True)) is None
    assert lacks(tmp_path / "s") is None and next_offsets(tmp_path / "s", "T") == {"T": 3}


def test_keys_that_decide_on_units_are_followed_when_they_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The broker was restarted with another table of delay levels: a unit of the schedule topic holds a time by it."""
    every(monkeypatch, 0.1)
    events: list[dict[str, Any]] = []
    with FollowedBroker() as broker:
        broker.config["enableLmq"] = broker.config["enableMultiDispatch"] = "false"
        broker.topics = {"T": SIMPLE}
        broker.put("T", 0)
        with broker.follower(tmp_path / "s", on_event=events.append) as follower:
            assert within(lambda: follower.caught_up)
            assert not follower.store.config.enable_lmq
            broker.config["enableLmq"] = broker.config["enableMultiDispatch"] = "true"
            assert within(lambda: {"event": "laid_out_again", "topics": []} in events)
            assert within(lambda: follower.caught_up)
            assert follower.store.config.enable_lmq and follower.store._parts.dispatch.dispatcher.rules.light_queues
    assert next_offsets(tmp_path / "s", "T") == {"T": 1}


def test_what_a_copy_lacks(tmp_path: Path):
    events: list[dict[str, Any]] = []
    with FollowedBroker(begin=FILE_SIZE) as broker:
        broker.begin = 0
        broker.topics = {"T": SIMPLE}
        broker.put("T", 0)
        alone = broker.follower(tmp_path / "a", once=True, begin="last")
        assert once(alone) is None
        assert lacks(tmp_path / "a") == (
            f"it begins at log offset {FILE_SIZE}, and the broker's log at 0: groups may miss messages"
        )
        broker.before = lambda asked: reply(asked, code=3) if asked.code == 30 else None
        assert once(broker.follower(tmp_path / "b", once=True, begin="last", on_event=events.append)) is None
        assert lacks(tmp_path / "b") == "the broker does not say where its queues go on (request 30)"
        assert events[-1] == {
            "event": "closed", "end": broker.master.end, "promotable": False, "lacks": lacks(tmp_path / "b"),
        }  # fmt: skip
        broker.before = lambda asked: b"" if asked.code == 30 else None
        assert once(broker.follower(tmp_path / "c", once=True, begin="last")) is None
        assert str(lacks(tmp_path / "c")).startswith("the broker did not say where its queues go on: ")
        broker.before = lambda asked: None
        broker.ends = {("T", 0): 5}  # more than the log has
        broker.begin = FILE_SIZE
        assert once(broker.follower(tmp_path / "d", once=True)) is None
        assert lacks(tmp_path / "d") == "queue T/0 ends at 1, the broker's at 5"
        keys = {"mappedFileSizeCommitLog": FILE_SIZE}
        plain = type(alone)(tmp_path / "e", broker.master.address, config=keys, begin="last")
        with plain:
            assert within(lambda: plain.caught_up)
        assert lacks(tmp_path / "e") == NOT_ASKED
    for name in "abcde":
        found = inspect(tmp_path / name).copy
        assert found is not None and (found.promotable, found.lacks) == (False, lacks(tmp_path / name))


def test_a_copy_that_was_written_as_a_master_or_is_followed_anew_is_unsettled(tmp_path: Path):
    with FollowedBroker() as broker:
        broker.topics = {"T": SIMPLE}
        broker.put("T", 0)
        assert once(broker.follower(tmp_path / "s", once=True)) is None and lacks(tmp_path / "s") is None
        broker.before = lambda asked: b"" if asked.code == 28 else None
        with pytest.raises(UsageError, match="listenPort"):
            broker.follower(tmp_path / "s").open()
        assert lacks(tmp_path / "s") is None, "nothing was followed since"
        answers = threading.Event()
        broker.before = lambda asked: None if asked.code != 30 or answers.wait(15) else b""
        with broker.follower(tmp_path / "s") as follower:
            assert within(lambda: follower.caught_up)
            assert lacks(tmp_path / "s") == UNSETTLED
            answers.set()
            assert within(lambda: lacks(tmp_path / "s") is None)


def test_a_hostile_brokers_offsets_are_bounded(tmp_path: Path):
    with FollowedBroker(begin=FILE_SIZE) as broker:
        broker.topics = {"Idle": SIMPLE}
        broker.put("Other", 3)
        broker.ends = {("Idle", 0): (1 << 63) - 1}
        assert once(broker.follower(tmp_path / "s", once=True)) is None
        assert str(lacks(tmp_path / "s")).startswith("queue Idle/0 ends at 0, the broker's at 9223372036854775807")
        assert not queues_of(tmp_path / "s")["consumequeue"] & {"Idle/0"}


def test_which_queues_a_broker_is_asked_for():
    """Those of its topics, those that groups have offsets of, light ones too, and those of the copy."""
    tables: dict[str, Any] = {
        "topics.json": {"topicConfigTable": {"T": {"readQueueNums": 1, "writeQueueNums": 2}, "Odd": 7}},
        "consumerOffset.json": {"offsetTable": {"T@G": {5: 1}, "%LMQ%a@G": {0: 3}}},
        "lmqConsumerOffset.json": {"lmqOffsetTable": {"%LMQ%b@G": 4}},
    }
    with FollowedBroker() as broker:
        found = queue_ends(broker.peer.address, tables, [(b"Mine", 3), (b"\xff", 0)])
        assert found is not None and set(found.next) == {
            (b"T", 0), (b"T", 1), (b"T", 5), (b"%LMQ%a", 0), (b"%LMQ%b", 0), (b"Mine", 3),
        }  # fmt: skip
        assert broker.peer.codes() == [28, *[30] * 6, 28], "the log's bounds before the first queue and after the last"


@pytest.mark.parametrize("code", [2, -1006])
@pytest.mark.parametrize("request_code", [21, 26, 28, 30, 43, 45, 201, 402])
def test_a_broker_that_is_busy_once_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_code: int, code: int
):
    monkeypatch.setattr(broker_tables, "SOON_S", 0.05)
    busy = [request_code]
    with FollowedBroker() as broker:
        broker.topics = {"T": SIMPLE}
        broker.put("T", 0)
        broker.before = lambda asked: reply(asked, code=code) if asked.code in busy and busy.pop() else None
        assert once(broker.follower(tmp_path / "s", once=True)) is None
    assert not busy and lacks(tmp_path / "s") is None


@pytest.mark.parametrize("how", ["hangs up", "hangs up after a header", "hangs up after the report"])
def test_once_ends_where_everybody_hangs_up(tmp_path: Path, how: str):
    with socket.create_server(("127.0.0.1", 0)) as server:
        lines = 0

        def serve() -> None:
            nonlocal lines
            with contextlib.suppress(OSError):
                while True:
                    line, _ = server.accept()
                    lines += 1
                    with line:
                        if how != "hangs up":
                            line.recv(8)
                        if how == "hangs up after a header":
                            line.sendall(struct.pack(">qi", 1, 100))

        threading.Thread(target=serve, daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        error = once(Follower(tmp_path / "s", address, once=True), 60)
    assert isinstance(error, UsageError) and "nobody answers there" in str(error)
    assert lines >= 3 and (how == "hangs up after a header" or not (tmp_path / "s").exists())


def test_once_ends_when_the_type_of_a_topic_cannot_be_asked_for(tmp_path: Path):
    with FollowedBroker() as broker:
        follower = broker.follower(tmp_path / "s", once=True)
        broker.put("T", 0)
        asked = [0]

        def first_only(one: Asked) -> bytes | None:
            asked[0] += one.code == 21
            return b"" if one.code == 21 and asked[0] > 1 else None

        broker.before = first_only
        error = once(follower)
        assert isinstance(error, UsageError) and "a topic's type is not known" in str(error)
