"""Messages whose sys_flag says prepared or rolled back, by every door of a put: nobody would read or check them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.message import Message, PutMessageStatus, PutRule
from flintmq.spark.jobs.replay.refusals import why_refused
from flintmq.store.message_store import MessageStore
from tests.store.append.test_timer_refused import put_async
from tests.support.engine import check_derived, open_small, records

HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
DOORS: dict[str, Callable[[MessageStore, Message], list[Any]]] = {
    "put": lambda store, one: [store.put(one)],
    "put_many": lambda store, one: store.put_many([one, one]),
    "put_async": lambda store, one: [asyncio.run(put_async(store, one))],
    "put_batch": lambda store, one: store.put_batch([one, one]),
    "put_batch, inner": lambda store, one: store.put_batch([Message("B", b"x", sys_flag=one.sys_flag)]),
}


@pytest.mark.parametrize("door", DOORS)
def test_no_door_takes_what_no_queue_would_have(tmp_path: Path, door: str):
    with open_small(tmp_path) as store:
        store.create_topic("B", 1, "BatchCQ")
        assert store.put(Message("T", b"first"))  # from now on plain messages go the fast way
        end = store._parts.log.end
        for flag in (4, 12, 5):
            for more in ({}, {"delay_level": 3}, {"properties": {"TRAN_MSG": "true"}}, {"properties_bytes": b""}):
                for topic in ("T", HALF_TOPIC):
                    for result in DOORS[door](store, Message(topic, b"half", sys_flag=flag, **more)):
                        assert result.status is PutMessageStatus.MESSAGE_ILLEGAL, (flag, more, topic)
                        assert result.reason is (PutRule.BATCH if door == "put_batch" else PutRule.TRANSACTION)
        assert store._parts.log.end == end
        assert store.put(Message("T", b"committed", sys_flag=8)), "a queue has it"
    check_derived(tmp_path)


def test_copies_of_a_brokers_records_are_kept(tmp_path: Path):
    kept = [Message("T", b"%d" % flag, sys_flag=flag) for flag in (4, 0, 12, 8)]
    with open_small(tmp_path) as store:
        assert all(store.put_many(kept, delivered=True))
        assert store.wait_dispatched(10)
        assert [m.body for m in store.get("T", 0, 0).messages] == [b"0", b"8"]
    assert [r.body for r in records(tmp_path)] == [b"4", b"0", b"12", b"8"]


def test_the_sink_of_spark_refuses_them_too():
    config = StoreConfig()
    wrong = [why_refused(Message("T", b"x", sys_flag=flag, properties_bytes=b""), config) for flag in (4, 12, 8, 0)]
    assert [bool(why) for why in wrong] == [True, True, False, False]
