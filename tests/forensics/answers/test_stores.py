"""Answers about other stores than one stopped directory: buckets, clusters, live ones, and hostile records."""

import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flintmq import Message, MessageStore
from flintmq.cluster.member import Member
from flintmq.config.keys import StoreConfig
from flintmq.forensics.answers import collect
from flintmq.forensics.answers.answer import Answer
from flintmq.forensics.answers.collect import TraceAsked
from flintmq.forensics.answers.dead import dead
from flintmq.forensics.answers.halves import halves
from flintmq.forensics.answers.steps import step_of
from flintmq.forensics.answers.timers import timers
from flintmq.forensics.answers.trace import trace
from flintmq.store.append import half_message
from flintmq.store.consumer.retry import sent_back
from flintmq.store.view import open_store
from tests.compat.stores import Golden
from tests.support.engine import open_small
from tests.support.makers import config_of
from tests.support.threads import within

SMALL = {"mappedFileSizeCommitLog": 1 << 20, "maxHashSlotNum": 64, "maxIndexNum": 256}


def all_of(members: list[Member], config: StoreConfig) -> list[Any]:
    answers = [
        trace(members, TraceAsked(topic="Trade"), config), trace(members, TraceAsked(topic="Tx"), config),
        halves(members, config), halves(members, config, ended=True), timers(members, config),
        dead(members, config, retries=True),
    ]  # fmt: skip
    return [answer.rows for answer in answers]


def test_a_bucket_answers_as_a_directory(golden: Callable[[str], Golden], objects: Any):
    """But for the deletion of files, which is nobody's there."""
    store = golden("config")
    url = objects.put(store.path, store.name)
    here = all_of([Member(str(store.path), "")], config_of(store))
    there = all_of([Member(url, "")], StoreConfig.from_keys({**store.config, **objects.keys}))
    assert all(row.delete_ms is None and row.delete_rule == "" for row in there[0]) and there[0]
    for known, found in ((here[0], there[0]), (here[1], there[1])):
        assert [replace(row, delete_ms=None, delete_rule="") for row in known] == found
    assert here[2:] == there[2:]


def test_stores_are_told_apart_and_limits_hold_for_all(golden: Callable[[str], Golden]):
    names = ("config", "config540")
    stores = [golden(name) for name in names]
    members = [Member(str(store.path), store.name) for store in stores]
    alone = [trace([Member(str(store.path), "")], TraceAsked(topic="Trade")).rows for store in stores]
    found = trace(members, TraceAsked(topic="Trade")).rows
    words = [(row.broker, row.store) for row in found]
    assert words == [(one.name, str(one.path)) for one, rows in zip(stores, alone, strict=True) for _ in rows]
    strip = [replace(row, broker="", store="", delete_ms=None, delete_rule="") for row in found]
    assert strip == [replace(row, delete_ms=None, delete_rule="") for rows in alone for row in rows]
    assert len(trace(members, TraceAsked(topic="Trade", limit=90)).rows) == 90
    assert {row.broker for row in halves(members).rows} == {row.broker for row in timers(members).rows} == set(names)
    few = halves(members, limit=1)
    assert [row.broker for row in few.rows] == list(names) and few.is_cut


def test_a_copy_under_another_name_has_rows_of_its_own(golden: Callable[[str], Golden], tmp_path: Path):
    first = golden("config").path
    shutil.copytree(first, tmp_path / "copy")
    alone = trace([Member(str(first), "")], TraceAsked(topic="Trade")).rows
    both = trace([Member(str(first), "a"), Member(str(tmp_path / "copy"), "b")], TraceAsked(topic="Trade")).rows
    for name in "ab":
        found = [replace(row, broker="", store="", delete_ms=None) for row in both if row.broker == name]
        # In an hour of deleteWhen what is to go goes at the moment of the question.
        assert found == [replace(row, delete_ms=None) for row in alone] and sum(len(row.retries) for row in found) > 0


def test_a_retry_on_another_broker_is_of_its_message(tmp_path: Path):
    """Where the broker of a message is away, its consumer sends the retry to another one."""
    with open_small(tmp_path / "a") as a, open_small(tmp_path / "b") as b:
        first = a.get_at(a.put(Message("T", b"x", keys="k", properties={"UNIQ_KEY": "U1"})).physical_offset)
        more = {"RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": first.offset_msg_id, "UNIQ_KEY": "U1"}
        b.put(Message("%RETRY%G", b"x", keys="k", properties=more, reconsume_times=1))
        assert a.wait_dispatched(60) and b.wait_dispatched(60)
    members = [Member(str(tmp_path / name), name) for name in "ab"]
    for asked in (TraceAsked(key="k"), TraceAsked(topic="T"), TraceAsked(id="U1")):
        [row] = trace(members, asked).rows
        assert (row.broker, row.state, [one.group for one in row.retries]) == ("a", "delivered", ["G"])
    [alone] = trace(members[1:], TraceAsked(key="k")).rows
    assert (alone.state, alone.topic, alone.queue_id, alone.physical_offset) == ("expired", "T", -1, None)


def test_a_half_message_that_names_no_topic_is_open_in_both_lists(tmp_path: Path):
    with open_small(tmp_path) as store:
        store.put(Message("RMQ_SYS_TRANS_HALF_TOPIC", b"odd", keys="o"))
        store.begin(Message("T", b"x", keys="k"), "G").commit()
        store.begin(Message("T", b"y", keys="l"), "G")
        assert store.wait_dispatched(60)
    members = [Member(str(tmp_path), "")]
    few, every = halves(members), halves(members, ended=True)
    assert sorted((row.keys, row.state) for row in few.rows) == [("l", "prepared"), ("o", "prepared")]
    assert sorted((row.keys, row.state) for row in every.rows) == [
        ("k", "committed"), ("l", "prepared"), ("o", "prepared"),
    ]  # fmt: skip
    for answer in (few, every):
        assert answer.counts["open"] == 2 and ["name no topic" in note for note in answer.notes] == [True]


def test_a_store_that_is_written_meanwhile(tmp_path: Path):
    """Each answer is one of some moment: no message twice, none without its place, and all in the end."""
    stop, put = threading.Event(), list[str]()

    def write(store: MessageStore) -> None:
        while not stop.is_set() and len(put) < 4000:
            store.put(Message("T", b"x" * 200, keys=f"k{len(put)}", delay_level=18 if len(put) % 3 == 0 else 0))
            put.append(f"k{len(put)}")

    with open_small(tmp_path) as store:
        writer = threading.Thread(target=write, args=(store,))
        writer.start()
        try:
            before = 0
            assert within(lambda: len(put) > 50)
            for _ in range(5):
                rows = trace([Member(str(tmp_path), "")], TraceAsked(topic="T")).rows
                assert [row.keys for row in rows] == [f"k{n}" for n in range(len(rows))] and len(rows) >= before
                before = len(rows)
        finally:
            stop.set()
            writer.join(20)
        assert store.wait_dispatched(60)
    found = trace([Member(str(tmp_path), "")], TraceAsked(topic="T"))
    assert len(found.rows) == len(put) >= before > 0
    assert sum(row.state == "waiting" for row in found.rows) == -(-len(put) // 3)
    assert found.report.damage_count == 0


HOSTILE = [
    ("SCHEDULE_TOPIC_XXXX", {}), ("SCHEDULE_TOPIC_XXXX", {"REAL_TOPIC": "T", "REAL_QID": "x"}),
    ("rmq_sys_wheel_timer", {"TIMER_OUT_MS": "9" * 30}), ("rmq_sys_wheel_timer", {"TIMER_DEL_UNIQKEY": "+"}),
    ("rmq_sys_wheel_timer", {"REAL_TOPIC": "T", "TIMER_ROLL_TIMES": "-1", "TIMER_OUT_MS": "-5"}),
    ("RMQ_SYS_TRANS_HALF_TOPIC", {"TRANSACTION_CHECK_TIMES": "9" * 30}), ("RMQ_SYS_TRANS_HALF_TOPIC", {}),
    ("RMQ_SYS_TRANS_HALF_TOPIC", {"REAL_TOPIC": "T", "REAL_QID": "0", "TRAN_PREPARED_QUEUE_OFFSET": "-1"}),
    ("TRANS_CHECK_MAX_TIME_TOPIC", {"TRAN_MSG": "true"}), ("TRANS_CHECK_MAX_TIME_TOPIC", {"REAL_TOPIC": "%RETRY%"}),
    ("%RETRY%", {}), ("%DLQ%", {"RETRY_TOPIC": "%DLQ%"}), ("%RETRY%+", {"1ST_POP_TIME": "1"}), ("%RETRY%a+b+c", {}),
    ("%RETRY%G_T", {"RETRY_TOPIC": "T", "1ST_POP_TIME": "x"}), ("%DLQ%G", {"ORIGIN_MESSAGE_ID": "no id"}),
    ("%DLQ%G", {"ORIGIN_MESSAGE_ID": "F" * 32}), ("%DLQ%G", {"ORIGIN_MESSAGE_ID": " "}),
    ("T", {"DELAY": "x", "REAL_TOPIC": "y"}),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_odd_records_are_answered(tmp_path: Path, number: int):
    topic, pairs = HOSTILE[number]
    with open_small(tmp_path) as store:
        store.put(half_message.outcome([0, 1 << 62, 5]))
        store.put(Message("RMQ_SYS_TRANS_OP_HALF_TOPIC", b"-1,,x,99999999999999999999,", tags="d"))
        for id in ({}, {"UNIQ_KEY": "U"}):
            store.put(Message(topic, b"", keys="k T", properties={**pairs, **id}, reconsume_times=-7))
        assert store.wait_dispatched(60)
    config = StoreConfig.from_keys({"messageDelayLevel": "1s"})
    members = [Member(str(tmp_path), "")]
    found = [trace(members, TraceAsked(key="k")), trace(members, TraceAsked(topic="T")), timers(members, config)]
    found += [halves(members), halves(members, ended=True), dead(members, retries=True), timers(members, limit=1)]
    assert len(found[0].rows) in (1, 2) or topic.startswith("rmq_sys"), "both records are of some message"
    for answer in found:
        assert answer.to_arrow().num_rows == len(answer.rows) and answer.report.damage_count == 0


def test_a_message_with_endless_retries_is_cut_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(collect, "STEPS_KEPT", 50)
    with open_small(tmp_path) as store:
        for n in range(300):
            pairs = {"UNIQ_KEY": "U", "RETRY_TOPIC": "T"}
            store.put(Message("%RETRY%G" if n else "T", b"", keys="k", properties=pairs, reconsume_times=n))
        assert store.wait_dispatched(60)
    found = trace([Member(str(tmp_path), "")], TraceAsked(key="k"))
    assert len(found.rows) == 1 and len(found.rows[0].retries) == 49
    assert found.notes == ["message U: it has more than 50 records; the others are left out"]


def test_a_step_needs_one_record_alone(golden: Callable[[str], Golden]):
    """So that tasks of a divided scan may make steps: those of two halves of a log are those of the whole."""
    store = golden("config")
    with open_store(store.path, config=config_of(store)) as view:
        whole = [step_of(record, view.config.delay_ms) for record in view.messages()]
        middle = next(step.physical_offset for step in whole[len(whole) // 2 :] if step is not None)
        parts = [*(one for one in view.messages() if one.physical_offset < middle), *view.messages(middle)]
        assert [step_of(record, view.config.delay_ms) for record in parts] == whole
    assert sum(step is None for step in whole) == sum(row["topic"].endswith("OP_HALF_TOPIC") for row in store.rows)


def test_messages_without_an_id_are_known_by_their_origin(tmp_path: Path):
    with open_small(tmp_path, messageDelayLevel="1s 2h") as store:
        store.put(Message("T", b"x", keys="k", delay_level=1))
        assert within(lambda: store.bounds("T", 0)[1] == 1)
        [first] = store.get("T", 0, 0).messages
        assert first.msg_id is None
        for level in (1, 2, -1):
            store.put(sent_back(first, "G", level=level))
        assert within(lambda: store.bounds("%RETRY%G", 0)[1] == 1) and store.wait_dispatched(60)
    members = [Member(str(tmp_path), "")]
    for asked in (TraceAsked(key="k"), TraceAsked(topic="T"), TraceAsked(key="k", topic="T")):
        [row] = trace(members, asked).rows
        assert (row.state, row.source, row.queue_offset) == ("delivered", "delay", 0) and row.first_ms < row.stored_ms
        assert [one.stored_ms is None for one in row.retries] == [False, True] and len(row.dead) == 1
    [by_id] = trace(members, TraceAsked(id=first.offset_msg_id)).rows
    assert (by_id.retries, by_id.dead, by_id.stored_ms) == (row.retries, row.dead, row.stored_ms)


def test_a_message_of_a_deleted_topic_is_no_message_for_consumers(tmp_path: Path):
    with open_small(tmp_path) as store:
        store.create_topic("T", 1)
        store.put(Message("T", b"x", keys="k"))
        assert store.wait_dispatched(60)
        store.delete_topic("T")
        store.create_topic("T", 1)
        store.put(Message("T", b"y", keys="k"))
        assert store.wait_dispatched(60)
    rows = trace([Member(str(tmp_path), "")], TraceAsked(key="k")).rows
    assert [row.state for row in rows] == ["deleted", "delivered"]


ONLY_ONES: dict[str, tuple[str, Callable[[MessageStore], object], Callable[[list[Member]], Answer[Any]]]] = {
    "outcome": ("RMQ_SYS_TRANS_OP_HALF_TOPIC", lambda store: store.begin(Message("T", b"x"), "G").rollback(), halves),
    "half": ("RMQ_SYS_TRANS_HALF_TOPIC", lambda store: store.begin(Message("T", b"x"), "G"), halves),
    "delay": ("SCHEDULE_TOPIC_XXXX", lambda store: store.put(Message("T", b"x", delay_level=10)), timers),
    "timer": (
        "rmq_sys_wheel_timer",
        lambda store: store.put(Message("T", b"x", properties={"TIMER_DELAY_SEC": "3600"})),
        timers,
    ),
    "dead": ("%DLQ%g", lambda store: store.put(Message("%DLQ%g", b"x")), dead),
}


@pytest.mark.parametrize(
    ("kind", "has_queue"), [*((kind, True) for kind in ONLY_ONES), ("outcome", False), ("half", False)]
)
def test_the_damage_of_an_only_record_is_said(tmp_path: Path, kind: str, has_queue: bool):
    """No record of its queue can be read, so nothing but a unit, or the log itself, shows that there was one."""
    topic, put, ask = ONLY_ONES[kind]
    root = tmp_path / "store"
    with MessageStore(root, config=SMALL) as store:
        put(store)
        for _ in range(3):
            store.put(Message("Other", b"after it"))
    with open_store(root) as view:
        (record,) = view.read(topic, view.queues(topic)[0].queue_id, 0)
    assert ask([Member(str(root), "")]).report.damage_count == 0
    for name in ("consumerOffset.json", "delayOffset.json"):  # what says that all of it has ended
        (root / "config" / name).unlink(missing_ok=True)
    log = root / "commitlog" / f"{0:020d}"
    data = bytearray(log.read_bytes())
    data[record.physical_offset : record.physical_offset + record.size] = bytes(record.size)
    log.write_bytes(data)
    if not has_queue:
        shutil.rmtree(root / "consumequeue" / topic)
    answer = ask([Member(str(root), "")])
    assert answer.report.damage_count == 1
    assert answer.report.damages[0].offset == record.physical_offset
