"""Messages that take more than one queue offset: inner batches as a sender makes them, and light queues."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq.format import properties as names
from flintmq.message import Message, PutMessageStatus
from flintmq.store.message_store import MessageStore
from flintmq.store.view import open_store
from tests.compat.stores import Golden
from tests.store.append.test_commit_log import Log
from tests.support.engine import open_small, records, units
from tests.support.interrupts import interrupted_at

OK, ILLEGAL = PutMessageStatus.PUT_OK, PutMessageStatus.MESSAGE_ILLEGAL
LIGHT: dict[str, Any] = {"enableLmq": "true", "enableMultiDispatch": "true"}


def to(queues: str, topic: str = "T", **rest: Any) -> Message:
    return Message(topic, b"x", properties={names.INNER_MULTI_DISPATCH: queues}, **rest)


def offsets(root: Path) -> list[str | None]:
    return [names.parse_bytes(r.properties).get(names.INNER_MULTI_QUEUE_OFFSET) for r in records(root)]


@pytest.mark.parametrize(
    ("topic", "flag", "number", "status"),
    [
        ("B", 0x80, "3", OK),
        ("B", 0x80, None, OK),  # one message, as upstream counts it
        ("B", 0, None, OK),
        ("B", 0, "3", ILLEGAL),
        ("S", 0, "3", ILLEGAL),
        ("S", 0x80, "3", ILLEGAL),
        ("S", 0x80, None, ILLEGAL),
        ("B", 0x80, "0", ILLEGAL),
        ("B", 0x80, "-1", ILLEGAL),
        ("B", 0x80, "many", ILLEGAL),
        ("B", 0x80, "32768", ILLEGAL),
    ],
)
def test_flag_number_and_type_of_topic_belong_together(
    tmp_path: Path, topic: str, flag: int, number: str | None, status: PutMessageStatus
):
    with open_small(tmp_path) as store:
        store.create_topic("B", 1, "BatchCQ")
        store.put(Message(topic, b"first"))
        pairs = {} if number is None else {names.INNER_NUM: number}
        result = store.put(Message(topic, b"x", sys_flag=flag, properties=pairs))
        assert result.status is status
        taken = 0 if status is ILLEGAL else int(number or 1)
        assert store.put(Message(topic, b"last")).queue_offset == 1 + taken


def test_properties_that_become_too_long_by_the_offset_are_refused(tmp_path: Path):
    with open_small(tmp_path, mappedFileSizeCommitLog=1 << 20) as store:
        store.create_topic("B", 1, "BatchCQ")
        pairs = {names.INNER_NUM: "2", "a": "x" * (32_767 - 14)}
        result = store.put(Message("B", b"x", sys_flag=0x80, properties=pairs))
        assert result.status is PutMessageStatus.PROPERTIES_SIZE_EXCEEDED and store._parts.log.end == 0


def test_each_light_queue_counts_for_itself(tmp_path: Path):
    with open_small(tmp_path, **LIGHT) as store:
        for queues in ("%LMQ%a", "%LMQ%b,%LMQ%a", "%LMQ%a,%LMQ%b"):
            assert store.put(to(queues, queue_id=1)).status is OK
        store.put(Message("T", b"plain", queue_id=1))
        assert store.wait_dispatched(60)
        got = store.get("%LMQ%a", 0, 0)
        assert [m.physical_offset for m in got.messages] == [r.physical_offset for r in records(tmp_path)[:3]]
        assert got.max_offset == 3 and store.get("%LMQ%b", 0, 0).max_offset == 2
        assert store.stats().puts_by_topic == {"T": 4}
    assert offsets(tmp_path) == ["0", "0,1", "2,1", None]
    assert [u.physical_offset for u in units(tmp_path, "%LMQ%b")] == [r.physical_offset for r in records(tmp_path)[1:3]]


@pytest.mark.parametrize("external", [False, True])
def test_light_offsets_go_on_after_a_restart(tmp_path: Path, external: bool):
    for turn in range(3):
        with open_small(tmp_path, dispatch="external" if external else "thread", **LIGHT) as store:
            assert store.put(to("%LMQ%a")).status is OK
        assert offsets(tmp_path)[turn] == str(turn)


@pytest.mark.parametrize(
    ("queues", "keys", "told"),
    [
        ("%LMQ%a", {}, None),
        ("%LMQ%a", {"enableLmq": "true"}, None),
        ("%LMQ%a,%LMQ%b", {"enableMultiDispatch": "true"}, ","),
        ("other", LIGHT, None),  # "" is dropped when it is read
        ("other,names", LIGHT, ","),
        (" ", LIGHT, None),
        ("%LMQ%a,,", LIGHT, "0"),
        ("%LMQ%a,%LMQ%a", LIGHT, "0,0"),
        ("%LMQ%a/b", LIGHT, "0"),
    ],
)
def test_what_the_record_says(tmp_path: Path, queues: str, keys: dict[str, str], told: str | None):
    with open_small(tmp_path, **keys) as store:
        assert store.put(to(queues)).status is OK
        assert store.wait_dispatched(60)
    assert offsets(tmp_path) == [told]


def test_a_queue_that_is_named_twice_gets_one_offset_and_one_unit(tmp_path: Path):
    """Upstream counts two and gives one unit: from then on its units stand beside their places (D5)."""
    with open_small(tmp_path, **LIGHT) as store:
        store.put(to("%LMQ%a,%LMQ%a"))
        store.put(to("%LMQ%a"))
    assert offsets(tmp_path) == ["0,0", "1"] and len(units(tmp_path, "%LMQ%a")) == 2


@pytest.mark.parametrize("queues", ["%LMQ%a,b", "b,%LMQ%a", "%LMQ%a,,%LMQ%b", "%LMQ%" + "a" * 251])
def test_names_that_stop_upstreams_dispatch_are_refused(tmp_path: Path, queues: str):
    """A light queue and another name together give no unit to either; a name no directory can have stops all (D9)."""
    with open_small(tmp_path, **LIGHT) as store:
        assert store.put(to(queues)).status is ILLEGAL and store._parts.log.end == 0


@pytest.mark.parametrize("topic", ["%RETRY%g", "rmq_sys_x", "SCHEDULE_TOPIC_XXXX"])
def test_topics_of_the_system_have_no_light_queues(tmp_path: Path, topic: str):
    with open_small(tmp_path, **LIGHT) as store:
        store.put(to("%LMQ%a", topic))
        store.put_many([to("%LMQ%a", sys_flag=4)], delivered=True)  # nor has a transaction's half
        store.put(to("%LMQ%a"))
    assert offsets(tmp_path) == [None, None, "0"]


def test_of_a_message_for_light_queues_the_whole_record_is_measured(tmp_path: Path):
    with open_small(tmp_path, maxMessageSize="300", **LIGHT) as store:
        assert store.put(Message("T", bytes(300))).status is OK
        room = 300 - 91 - 1 - len("INNER_MULTI_DISPATCH\1%LMQ%a\2INNER_MULTI_QUEUE_OFFSET\0010\2")
        light = {names.INNER_MULTI_DISPATCH: "%LMQ%a"}
        assert store.put(Message("T", bytes(room + 1), properties=light)).status is ILLEGAL
        assert store.put(Message("T", bytes(room), properties=light)).status is OK
        too_long = {**light, "a": "x" * 40_000}
        assert store.put(Message("T", b"", properties=too_long)).status is ILLEGAL


def test_a_signal_amid_such_a_put_takes_no_offset_twice(tmp_path: Path):
    step = 0
    while True:
        log = Log(tmp_path / f"{step}", **LIGHT)
        log.log.append(to("%LMQ%a,%LMQ%b"))
        if not interrupted_at(step, lambda log=log: log.log.append(to("%LMQ%b,%LMQ%a"))):
            break
        log.log.append(to("%LMQ%a"))
        found = [
            (names.parse_bytes(r.properties)[names.INNER_MULTI_QUEUE_OFFSET], r.queue_offset) for r in log.records()
        ]
        assert found in ([("0,0", 0), ("1", 1)], [("0,0", 0), ("1,1", 1), ("2", 2)]), step
        step += 1
    assert step > 10


@pytest.mark.parametrize("name", ["lmq", "batch"])
def test_javas_light_queues_and_inner_batches_are_made_again(
    golden: Callable[[str], Golden], tmp_path: Path, name: str
):
    """Every record of Java's stores, put again without what the store adds, gets the same offsets."""
    added = (names.INNER_BASE, names.INNER_MULTI_QUEUE_OFFSET)
    with (
        open_store(golden(name).path) as theirs,
        MessageStore(tmp_path, config={"mappedFileSizeCommitLog": 65536} | LIGHT, unique_keys=False) as ours,
    ):
        if name == "batch":
            ours.create_topic("BatchTopic", 2, "BatchCQ")
        for old in theirs.messages():
            pairs = {k: v for k, v in old.properties.items() if k not in added}
            flags = old.sys_flag & ~0x30  # the store sets those of IPv6 hosts itself
            topic = old.topic[:100]  # a bare Java store takes longer ones than a broker
            result = ours.put(Message(topic, old.body, queue_id=old.queue_id, sys_flag=flags, properties=pairs))
            assert (result.status, result.queue_offset) == (OK, old.queue_offset)
        found = [m.properties for m in ours]
        assert found == [m.properties for m in theirs.messages()] and len(found) > 100
